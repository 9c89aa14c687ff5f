//! What engineers look at: blocks and redo of a real database.

use crate::db::{Db, fail, succeed};

/// The addresses of the blocks of a table in the cache of instance 1.
fn blocks_of(db: &Db, table: &str) -> Vec<String> {
    let sql = format!(
        "select distinct file#, block# from v$bh where objd = \
         (select oid from pg_class where relname = '{table}') order by 2"
    );
    db.sql(1, &sql).lines().map(|line| line.replace('|', ".")).collect()
}

#[test]
fn blocks_show_header_transactions_rows_entries_and_undo() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t select g, 'row number ' || g from generate_series(1, 50) g");
    db.sql(1, "delete from t where id = 7");
    let block = |address: &str| succeed(db.skein("dump").args(["block", address]));
    let heap = blocks_of(&db, "t");
    let index = blocks_of(&db, "t_pkey");
    db.stop();
    let dumps: String = heap.iter().map(|address| block(address)).collect();
    for wanted in ["kind Heap  object ", "itl 0  xid ", "committed at ", "|", "row number 50"] {
        assert!(dumps.contains(wanted), "{wanted}: {dumps}");
    }
    assert!(dumps.contains("deleted lock "), "{dumps}");
    let dumps: String = index.iter().map(|address| block(address)).collect();
    for wanted in ["kind Leaf", "level 0", "rowid 4.", "key "] {
        assert!(dumps.contains(wanted), "{wanted}: {dumps}");
    }
    let header = block("63.1");
    assert!(header.contains("kind UndoHeader") && header.contains("Committed"), "{header}");
    // The undo block that a slot of the transaction table names.
    let undo = header.split("undo 3.").nth(1).expect("a slot names an undo block");
    let undo: String = undo.chars().take_while(char::is_ascii_digit).collect();
    let undo = block(&format!("3.{undo}"));
    for wanted in ["kind Undo", "record 0  xid ", "target 4.", "to undo: "] {
        assert!(undo.contains(wanted), "{wanted}: {undo}");
    }
}

#[test]
fn redo_shows_records_and_their_vectors() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(2, "insert into t values (1, 'seen in the redo of two')");
    let redo = |k: &str| succeed(db.skein("dump").args(["redo", "--instance", k]));
    let one = redo("1");
    assert!(one.starts_with("redo thread 1: Open"), "{one}");
    assert!(!one.contains("seen in the redo of two"));
    let two = redo("2");
    for wanted in ["  change  scn ", "  commit  scn ", "insert row ", "seen in the redo of two|"] {
        assert!(two.contains(wanted), "{wanted}: {two}");
    }
    assert!(two.contains("append undo  xid ") && two.contains("to undo: remove row"), "{two}");
    assert!(two.contains("end of log at "), "{two}");
    let line = two.lines().find(|line| line.contains("insert row ")).unwrap();
    let address = line.trim().strip_prefix("block ").unwrap().split(' ').next().unwrap();
    let only = ["redo", "--instance", "2", "--block", address];
    let some = succeed(db.skein("dump").args(only));
    let records = |text: &str| text.lines().filter(|line| line.starts_with("rba ")).count();
    assert!((1..records(&two)).contains(&records(&some)), "{some}");
}

#[test]
fn bad_arguments_say_what_is_wrong() {
    let db = Db::init(1);
    for (args, named) in [
        (&["block", "4"][..], "no block address"),
        (&["block", "4.x"], "no block address"),
        (&["block", "1.1"], "file 1 holds no such blocks"),
        (&["block", "9.1"], "file 9 does not exist"),
        (&["block", "4.99999999"], "beyond the end of file 4"),
        (&["redo", "--instance", "2"], "there is no instance 2"),
        (&["redo", "--block", "x"], "no block address"),
        (&["table"], "'table'"),
        (&[], "Usage"),
    ] {
        let said = fail(2, db.skein("dump").args(args));
        assert!(said.contains(named), "{args:?}: {said}");
    }
    let said = fail(3, crate::db::skein().args(["dump", "/nowhere", "block", "4.1"]));
    assert!(said.contains("there is no database in /nowhere"), "{said}");
}
