//! Statements taken apart, and what they are.

use super::*;

fn own(text: &str) -> Own {
    match parse_single(text).unwrap().parsed {
        Parsed::Own(own) => own,
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn messages_are_split_at_semicolons_outside_quotes() {
    let all = split("select ';' as a; -- ;\n select $$;$$ ; ;").unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(&*all[0].text, "select ';' as a");
    assert!(split(" -- nothing\n").unwrap().is_empty());
    assert_eq!(parse_single("select 1; select 2").unwrap_err().code, "42601");
}

#[test]
fn syntax_errors_have_a_position() {
    let error = parse_single("select * fron t").unwrap_err();
    assert_eq!((error.code, error.position), ("42601", Some(15)));
    assert_eq!(parse_single("select 'abc").unwrap_err().code, "42601");
    assert_eq!(parse_single("select 1 from").unwrap_err().code, "42601");
}

#[test]
fn parameters_are_counted() {
    assert_eq!(parse_single("select $2, $1").unwrap().param_count, 2);
    assert_eq!(parse_single("select 'a$7'").unwrap().param_count, 0);
}

#[test]
fn own_statements() {
    let m =
        |name: &str| MaintainedTable { schema: None, name: name.to_owned(), columns: Vec::new() };
    let of = |tables: Vec<MaintainedTable>| Maintenance {
        analyze: true,
        tables,
        ..Maintenance::default()
    };
    assert_eq!(own("vacuum analyze a, b"), Own::Vacuum(of(vec![m("a"), m("b")])));
    assert_eq!(own("VACUUM (analyze) x"), Own::Vacuum(of(vec![m("x")])));
    assert_eq!(own("analyze"), Own::Analyze(of(vec![])));
    let named = MaintainedTable { columns: vec!["b".into(), "c".into()], ..m("a") };
    let verbose = Maintenance { verbose: true, ..of(vec![named]) };
    assert_eq!(own("analyze (verbose on) a (b, C)"), Own::Analyze(verbose));
    assert_eq!(own("checkpoint"), Own::Checkpoint);
    assert_eq!(own("show parameter"), Own::ShowParameter(None));
    assert_eq!(own("show parameter cache"), Own::ShowParameter(Some("cache".into())));
    let set = Own::AlterSystem(AlterSystem {
        name: "undo_retention".into(),
        value: Some("60".into()),
        scope: None,
        sid: None,
    });
    assert_eq!(own("alter system set undo_retention = 60"), set);
    let spec = SequenceSpec {
        name: "s".into(),
        start: Some(-5),
        increment: Some(3),
        cache: Some(1),
        max: Some(None),
        order: Some(false),
        ..SequenceSpec::default()
    };
    let text = "create sequence s start with -5 nocache no maxvalue increment by 3 noorder";
    assert_eq!(own(text), Own::CreateSequence(Box::new(spec)));
    assert!(parse_single("create sequence s start").is_err());
    assert!(parse_single("vacuum analyze a b").is_err());
    assert!(matches!(parse_single("show server_version").unwrap().parsed, Parsed::Sql(_)));
    assert!(matches!(parse_single("alter table t add c int").unwrap().parsed, Parsed::Sql(_)));
}
