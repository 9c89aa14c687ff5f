use super::{Kind, PARAMETERS, ParamError, Parameters};

#[test]
fn every_default_is_valid_and_every_name_unique() {
    for (at, def) in PARAMETERS.iter().enumerate() {
        if def.kind != Kind::Text {
            assert!(def.kind.parse(def.default).is_some(), "{}", def.name);
        }
        assert!(!PARAMETERS[..at].iter().any(|d| d.name == def.name), "{} twice", def.name);
        assert!(def.description.ends_with('.'), "{}", def.name);
    }
}

#[test]
fn accessors_take_the_ends_of_each_range() {
    let p = Parameters::default();
    for def in PARAMETERS {
        let (Kind::Int { min, max }
        | Kind::Bytes { min, max }
        | Kind::Seconds { min, max }
        | Kind::Millis { min, max }) = def.kind
        else {
            continue;
        };
        for end in [min, max] {
            p.set(def.name, &end.to_string()).unwrap();
            assert!(end >= 0 && usize::try_from(end).is_ok(), "{}", def.name);
        }
        assert!(p.set(def.name, &(max + 1).to_string()).is_err(), "{}", def.name);
    }
    assert_eq!(p.db_cache_size(), 1 << 40);
    assert_eq!(p.log_files(), 16);
}

#[test]
fn sizes_and_durations_are_read_with_units_and_shown_back() {
    let p = Parameters::default();
    p.set("DB_CACHE_SIZE", "64MB").unwrap();
    assert_eq!(p.db_cache_size(), 64 << 20);
    assert_eq!(p.show("db_cache_size").unwrap(), "64M");
    assert_eq!(p.show("max_dump_file_size").unwrap(), "unlimited");
    p.set("max_dump_file_size", "10M").unwrap();
    p.set("max_dump_file_size", "UNLIMITED").unwrap();
    assert_eq!(p.max_dump_file_size(), 0);
    assert!(p.set("db_cache_size", "unlimited").is_err());
    p.set("undo_retention", "2h").unwrap();
    assert_eq!(p.undo_retention(), 7200);
    p.set("statement_timeout", "3s").unwrap();
    assert_eq!(p.statement_timeout(), 3000);
    p.set("filesystemio_options", "none").unwrap();
    assert!(!p.direct_io());
    let row = p.rows().into_iter().find(|r| r.name == "undo_retention").unwrap();
    assert_eq!((row.value.as_str(), row.is_default), ("7200", false));
}

#[test]
fn fractions_are_read_and_shown_back() {
    let p = Parameters::default();
    assert_eq!(p.autovacuum_analyze_scale_factor(), 100_000);
    for (text, millionths, shown) in
        [("0.25", 250_000, "0.25"), ("1", 1_000_000, "1"), (".5", 500_000, "0.5")]
    {
        p.set("autovacuum_analyze_scale_factor", text).unwrap();
        assert_eq!(p.autovacuum_analyze_scale_factor(), millionths);
        assert_eq!(p.show("autovacuum_analyze_scale_factor").unwrap(), shown);
    }
    for wrong in ["-1", "x", "1.2.3", ".", "101"] {
        assert!(p.set("autovacuum_analyze_scale_factor", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn errors_name_the_parameter_and_what_was_expected() {
    let p = Parameters::default();
    assert_eq!(
        p.set("db_cash_size", "1").unwrap_err().to_string(),
        "unknown parameter \"db_cash_size\""
    );
    let e = p.set("log_files", "many").unwrap_err().to_string();
    assert!(e.contains("log_files") && e.contains("from 2 to 16"), "{e}");
    assert!(matches!(p.alter_system("db_cache_size", "64M"), Err(ParamError::Fixed { .. })));
    let altered = || p.rows().into_iter().filter(|row| row.is_altered).map(|row| row.name);
    assert_eq!(altered().next(), None);
    p.alter_system("undo_retention", "60").unwrap();
    assert_eq!(p.undo_retention(), 60);
    assert_eq!(altered().collect::<Vec<_>>(), ["undo_retention"]);
    assert_eq!(Parameters::check_session("lock_timeout", "5ms"), Ok(5));
    assert!(matches!(Parameters::check_session("log_files", "3"), Err(ParamError::Fixed { .. })));
}
