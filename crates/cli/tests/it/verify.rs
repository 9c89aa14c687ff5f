//! `skein verify` on a real database: open, crashed, closed, damaged.

use crate::db::{Db, fail, succeed};

fn json(db: &Db) -> serde_json::Value {
    let text = succeed(db.skein("verify").arg("--json"));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_database_is_walked_open_crashed_and_closed() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "create index t_some on t (v) where id > 100");
    db.sql(2, "insert into t select g, 'row number ' || g from generate_series(1, 5000) g");
    let open = json(&db);
    assert_eq!((&open["state"], &open["clean"]), (&"open".into(), &true.into()), "{open}");
    assert!(open["counts"]["rows"].as_u64() >= Some(5000), "{open}");
    assert!(open["counts"]["index_entries"].as_u64() >= Some(9900), "{open}");
    db.abort(1);
    db.abort(2);
    let crashed = json(&db);
    assert_eq!(crashed["state"], "crashed", "{crashed}");
    assert_eq!(crashed["counts"]["rows"], open["counts"]["rows"], "{crashed}");
    db.start_all();
    db.stop();
    let text = succeed(&mut db.skein("verify"));
    assert!(text.starts_with("database closed\n"), "{text}");
    assert!(text.contains("0 damage") && text.ends_with("no damage found\n"), "{text}");
}

#[test]
fn damage_has_its_exit_code_and_its_place() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t values (1, 'spoil me')");
    db.stop();
    db.spoil(b"spoil me");
    let said = fail(1, &mut db.skein("verify"));
    assert!(said.contains("damage in 1 places"), "{said}");
    let text = fail(1, db.skein("verify").arg("--json"));
    assert!(text.contains("damage"), "{text}");
}
