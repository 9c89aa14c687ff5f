//! The dictionary on one instance in a simulated world: DDL commits, rolls back and reaches others
//! at the right moment, and its segments go with it.

mod crash;
mod rights;

use std::sync::Arc;
use std::time::Duration;

use block::ObjId;
use observe::Ctx;

use super::*;
use crate::error::Error;
use crate::row::{ColType, Datum, TypeKind};
use crate::table;
use crate::testing::TestInstance;
use crate::txn::Transaction;

struct World {
    t: TestInstance,
    ctx: Ctx,
}

fn world() -> World {
    let t = TestInstance::new(7, 1024);
    let ctx = t.session("dict");
    World { t, ctx }
}

fn column(name: &str, kind: TypeKind) -> ColumnDef {
    ColumnDef::new(name, ColType::new(kind))
}

fn accounts() -> NewTable {
    NewTable {
        checks: Vec::new(),
        schema: "public".into(),
        name: "accounts".into(),
        owner: SUPERUSER_OBJ,
        columns: vec![column("id", TypeKind::Int4), column("name", TypeKind::Text)],
        indexes: vec![NewIndex {
            kind: Default::default(),
            name: "accounts_pkey".into(),
            columns: vec![0],
            included: Default::default(),
            orders: Vec::new(),
            unique: true,
            primary: true,
            constraint: Some("accounts_pkey".into()),
            predicate: None,
            exprs: Vec::new(),
        }],
    }
}

fn by_name() -> NewIndex {
    NewIndex {
        kind: Default::default(),
        name: "accounts_name".into(),
        columns: vec![1],
        included: Default::default(),
        orders: Vec::new(),
        unique: false,
        primary: false,
        constraint: None,
        predicate: None,
        exprs: Vec::new(),
    }
}

impl World {
    async fn find(&self, txn: &Arc<Transaction>) -> Option<Arc<TableDef>> {
        table(&self.ctx, txn, "public", "accounts").await.expect("the dictionary is readable")
    }

    async fn make(&self) -> Arc<TableDef> {
        let txn = self.t.begin();
        let def = create_table(&self.ctx, &txn, accounts()).await.expect("a new table");
        txn.commit(&self.ctx).await.expect("commit");
        def
    }

    async fn add(&self, txn: &Arc<Transaction>, def: &TableDef, id: i32, name: &str) {
        let row = def.encode(&[Datum::Int4(id), Datum::Text(name)]);
        table::insert(&self.ctx, txn, def, &row).await.expect("a new row");
    }

    async fn count(&self, txn: &Arc<Transaction>, def: &TableDef) -> usize {
        let snap = txn.snapshot(&self.ctx).await.expect("a snapshot");
        let mut scan = table::scan(&self.ctx, def, &snap).await.expect("a scan");
        let mut count = 0;
        while scan.next_block(&self.ctx, |_, _| count += 1).await.expect("a block") {}
        count
    }

    async fn orphans(&self) -> usize {
        let reader = self.t.begin();
        let dict = of(&self.t.core).expect("open");
        let snap = newest(&reader).expect("a snapshot");
        store::all(&self.ctx, &snap, dict.fixed(Fixed::Orphan)).await.expect("rows").len()
    }
}

#[test]
fn the_dictionary_describes_itself() {
    let w = world();
    w.t.run(async {
        let txn = w.t.begin();
        let all = tables(&w.ctx, &txn).await.expect("a list");
        assert_eq!(all.len(), fixed::TABLES.len() + 1);
        for declared in &fixed::TABLES {
            let def = all.iter().find(|def| def.obj == declared.obj).expect("it is listed");
            let core = &w.t.core;
            let cached = of(core).expect("open").cache.table_by_obj(def.obj).expect("fixed");
            assert_eq!(**def, *cached);
            // What the rows of the dictionary say is what the bootstrap made of the declaration.
            let snap = newest(&txn).expect("a snapshot");
            let dict = of(core).expect("open");
            let object = object(&w.ctx, &txn, SYS, declared.name).await.expect("read");
            let object = object.expect("it has a row");
            let read = records::read_table(&w.ctx, dict, &snap, &object).await.expect("read");
            assert_eq!(read.expect("it has rows"), *cached);
        }
        let found = user(&w.ctx, &txn, SUPERUSER).await.expect("read").expect("the superuser");
        assert!(found.superuser && found.obj == SUPERUSER_OBJ);
    });
}

#[test]
fn a_table_is_seen_by_its_maker_at_once_and_by_others_at_commit() {
    let w = world();
    w.t.run(async {
        let (maker, other) = (w.t.begin(), w.t.begin());
        let def = create_table(&w.ctx, &maker, accounts()).await.expect("a new table");
        assert!(def.obj.0 >= USER_OBJ_MIN);
        assert!(def.columns[0].not_null, "a primary key makes its columns not null");
        assert_eq!(w.find(&maker).await.expect("own"), def);
        assert!(is_current(&maker, def.obj, def.version));
        assert!(w.find(&other).await.is_none());
        assert!(!is_current(&other, def.obj, def.version));
        w.add(&maker, &def, 1, "a").await;
        assert_eq!(w.count(&maker, &def).await, 1);
        maker.commit(&w.ctx).await.expect("commit");
        let seen = w.find(&other).await.expect("committed");
        assert_eq!(seen, def);
        assert!(is_current(&other, def.obj, def.version));
        assert_eq!(w.count(&w.t.begin(), &seen).await, 1);
        assert_eq!(w.orphans().await, 0);
    });
}

#[test]
fn rollback_takes_a_table_and_its_segments_back() {
    let w = world();
    w.t.run(async {
        let txn = w.t.begin();
        let def = create_table(&w.ctx, &txn, accounts()).await.expect("a new table");
        w.add(&txn, &def, 1, "a").await;
        txn.rollback(&w.ctx).await.expect("rollback");
        assert!(w.find(&w.t.begin()).await.is_none());
        free_orphans(&w.ctx, &w.t.core).await.expect("freed");
        assert_eq!(w.orphans().await, 0);
        let gone = w.t.core.space.segment_info(&w.ctx, def.header).await;
        assert!(matches!(gone, Err(Error::ObjectGone)), "{gone:?}");
        // The name is free again, the number is not used twice.
        assert!(w.make().await.obj > def.obj);
    });
}

#[test]
fn rollback_to_a_savepoint_takes_ddl_back() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        w.add(&txn, &def, 1, "a").await;
        let savepoint = txn.savepoint();
        create_index(&w.ctx, &txn, &def, by_name()).await.expect("a new index");
        let with = w.find(&txn).await.expect("own");
        assert_eq!(with.indexes.len(), 2);
        txn.rollback_to(&w.ctx, savepoint).await.expect("rolled back");
        assert!(!is_current(&txn, def.obj, with.version), "the version is gone");
        let without = w.find(&txn).await.expect("own");
        assert_eq!(without, def);
        assert!(is_current(&txn, def.obj, def.version));
        txn.commit(&w.ctx).await.expect("commit");
        assert_eq!(w.find(&w.t.begin()).await.expect("committed"), def);
        free_orphans(&w.ctx, &w.t.core).await.expect("freed");
        assert_eq!(w.orphans().await, 0);
    });
}

#[test]
fn a_dropped_table_is_freed_after_the_commit_only() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        drop_table(&w.ctx, &txn, &def).await.expect("dropped");
        assert!(w.find(&txn).await.is_none());
        let other = w.t.begin();
        assert_eq!(w.find(&other).await.expect("still there"), def);
        assert!(is_current(&other, def.obj, def.version));
        assert_eq!(free_orphans(&w.ctx, &w.t.core).await.expect("nothing to free"), 0);
        txn.commit(&w.ctx).await.expect("commit");
        assert!(!is_current(&other, def.obj, def.version));
        assert!(w.find(&other).await.is_none());
        free_orphans(&w.ctx, &w.t.core).await.expect("freed");
        for header in [def.header, def.indexes[0].header] {
            let gone = w.t.core.space.segment_info(&w.ctx, header).await;
            assert!(matches!(gone, Err(Error::ObjectGone)), "{gone:?}");
        }
        assert!(object(&w.ctx, &other, "public", "accounts_pkey").await.expect("read").is_none());
    });
}

#[test]
fn a_rolled_back_drop_leaves_everything() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        w.add(&txn, &def, 1, "a").await;
        drop_table(&w.ctx, &txn, &def).await.expect("dropped");
        txn.rollback(&w.ctx).await.expect("rollback");
        free_orphans(&w.ctx, &w.t.core).await.expect("nothing to free");
        let txn = w.t.begin();
        let found = w.find(&txn).await.expect("still there");
        assert_eq!(found, def);
        assert_eq!(w.count(&txn, &found).await, 0);
        w.add(&txn, &found, 1, "a").await;
        txn.commit(&w.ctx).await.expect("commit");
    });
}

#[test]
fn truncate_empties_the_table_and_gives_it_new_segments() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        for id in 0..100 {
            w.add(&txn, &def, id, "a").await;
        }
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        truncate_table(&w.ctx, &txn, &def).await.expect("truncated");
        let empty = w.find(&txn).await.expect("own");
        assert_eq!(w.count(&txn, &empty).await, 0);
        assert_eq!(w.count(&w.t.begin(), &def).await, 100, "others still see the rows");
        w.add(&txn, &empty, 5, "again").await;
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let after = w.find(&txn).await.expect("committed");
        assert_eq!(w.count(&txn, &after).await, 1);
        assert_ne!((after.header, after.birth), (def.header, def.birth));
        assert_eq!(after.obj, def.obj);
        free_orphans(&w.ctx, &w.t.core).await.expect("freed");
        assert_eq!(w.orphans().await, 0);
    });
}

#[test]
fn an_index_holds_the_rows_that_were_there() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        for id in 0..500 {
            w.add(&txn, &def, id, if id % 2 == 0 { "even" } else { "odd" }).await;
        }
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        create_index(&w.ctx, &txn, &def, by_name()).await.expect("a new index");
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let def = w.find(&txn).await.expect("committed");
        let index = def.indexes.iter().find(|i| i.name == "accounts_name").expect("the index");
        let snap = txn.snapshot(&w.ctx).await.expect("a snapshot");
        let found =
            store::by_key(&w.ctx, &snap, &def, 1, &[Datum::Text("odd")]).await.expect("read");
        assert_eq!((found.len(), index.columns.as_slice()), (250, [1].as_slice()));

        let unique = NewIndex { name: "u".into(), unique: true, ..by_name() };
        let refused = create_index(&w.ctx, &txn, &def, unique).await;
        assert!(matches!(&refused, Err(Error::UniqueViolation { index, .. }) if index == "u"));
        txn.rollback(&w.ctx).await.expect("rollback");

        let txn = w.t.begin();
        let kept = drop_index(&w.ctx, &txn, "public", "accounts_pkey").await;
        assert!(matches!(kept, Err(Error::DependentObjects(_))));
        drop_index(&w.ctx, &txn, "public", "accounts_name").await.expect("dropped");
        drop_constraint(&w.ctx, &txn, &def, "accounts_pkey").await.expect("dropped");
        assert_eq!(w.find(&txn).await.expect("own").indexes.len(), 0);
        txn.commit(&w.ctx).await.expect("commit");
    });
}

#[test]
fn a_primary_key_refuses_nulls_and_a_second_one() {
    let w = world();
    w.t.run(async {
        let txn = w.t.begin();
        let plain = NewTable { indexes: vec![], ..accounts() };
        let def = create_table(&w.ctx, &txn, plain).await.expect("a new table");
        let row = def.encode(&[Datum::Null, Datum::Text("a")]);
        table::insert(&w.ctx, &txn, &def, &row).await.expect("a new row");
        let pkey = accounts().indexes.remove(0);
        let savepoint = txn.savepoint();
        let refused = create_index(&w.ctx, &txn, &def, pkey.clone()).await;
        assert!(matches!(&refused, Err(Error::NullValue { column, .. }) if column == "id"));
        txn.rollback_to(&w.ctx, savepoint).await.expect("rolled back");
        truncate_table(&w.ctx, &txn, &def).await.expect("truncated");
        create_index(&w.ctx, &txn, &def, pkey.clone()).await.expect("a primary key");
        let def = w.find(&txn).await.expect("own");
        assert!(def.columns[0].not_null && def.primary_key().is_some());
        let second = NewIndex { name: "second".into(), ..pkey };
        let refused = create_index(&w.ctx, &txn, &def, second).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}

/// All columns as they are.
fn kept(def: &TableDef) -> Vec<AlteredColumn> {
    let kept = |(i, def): (usize, &ColumnDef)| AlteredColumn { from: Some(i), def: def.clone() };
    def.columns.iter().enumerate().map(kept).collect()
}

#[test]
fn a_new_column_reads_in_old_rows_what_it_was_added_with() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        w.add(&txn, &def, 1, "a").await;
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let mut columns = kept(&def);
        let seven = crate::row::stored_value(TypeKind::Int8, &Datum::Int8(7));
        let added = ColumnDef { missing: seven, ..column("c", TypeKind::Int8) };
        columns.push(AlteredColumn { from: None, def: added });
        columns.push(AlteredColumn { from: None, def: column("d", TypeKind::Int8) });
        let def = alter_columns(&w.ctx, &txn, &def, columns, false).await.expect("added");
        let mut columns = kept(&def);
        columns.push(AlteredColumn { from: None, def: column("c", TypeKind::Int8) });
        let savepoint = txn.savepoint();
        let twice = alter_columns(&w.ctx, &txn, &def, columns, false).await;
        assert!(matches!(twice, Err(Error::DuplicateObject(_))));
        txn.rollback_to(&w.ctx, savepoint).await.expect("rolled back");
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let def = w.find(&txn).await.expect("committed");
        let snap = txn.snapshot(&w.ctx).await.expect("a snapshot");
        let rows = store::all(&w.ctx, &snap, &def).await.expect("rows");
        assert_eq!(rows[0].int(2).expect("a value"), 7);
        assert_eq!(rows[0].obj_or_null(3).expect("a value"), None);
    });
}

#[test]
fn a_rewrite_drops_a_column_and_the_index_on_it() {
    let w = world();
    w.t.run(async {
        let old = w.make().await;
        let txn = w.t.begin();
        w.add(&txn, &old, 1, "a").await;
        create_index(&w.ctx, &txn, &old, by_name()).await.expect("a new index");
        let columns = kept(&old).into_iter().skip(1).collect();
        let moved = alter_columns(&w.ctx, &txn, &old, columns, false).await;
        assert!(matches!(moved, Err(Error::Invariant(_))));
        let columns = kept(&old).into_iter().skip(1).collect();
        let new = alter_columns(&w.ctx, &txn, &old, columns, true).await.expect("altered");
        assert_eq!((new.columns.len(), new.indexes.len()), (1, 1));
        assert_eq!(new.indexes[0].columns, [0]);
        assert_ne!(new.header, old.header);
        let snap = newest(&txn).expect("a snapshot");
        assert!(store::all(&w.ctx, &snap, &new).await.expect("rows").is_empty());
        assert_eq!(store::all(&w.ctx, &snap, &old).await.expect("rows").len(), 1);
        txn.rollback(&w.ctx).await.expect("rollback");
        let txn = w.t.begin();
        assert_eq!(w.find(&txn).await.expect("as it was").columns.len(), 2);
    });
}

#[test]
fn a_renamed_table_has_one_name_for_each_transaction() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let (txn, other) = (w.t.begin(), w.t.begin());
        rename_table(&w.ctx, &txn, &def, "clients").await.expect("renamed");
        let name = "clients";
        assert!(w.find(&txn).await.is_none());
        assert!(table(&w.ctx, &txn, PUBLIC, name).await.expect("read").is_some());
        assert!(table(&w.ctx, &other, PUBLIC, name).await.expect("read").is_none());
        assert!(w.find(&other).await.is_some());
        txn.commit(&w.ctx).await.expect("commit");
        assert!(w.find(&other).await.is_none());
        let def = table(&w.ctx, &other, PUBLIC, name).await.expect("read").expect("renamed");
        let txn = w.t.begin();
        let index = def.indexes[0].clone();
        let taken = rename_index(&w.ctx, &txn, &def, &index, name).await;
        assert!(matches!(taken, Err(Error::DuplicateObject(_))));
        rename_index(&w.ctx, &txn, &def, &index, "clients_key").await.expect("renamed");
        let def = table(&w.ctx, &txn, PUBLIC, name).await.expect("read").expect("there");
        assert_eq!(def.indexes[0].constraint.as_deref(), Some("clients_key"));
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}

#[test]
fn checks_and_comments_belong_to_their_table() {
    let w = world();
    w.t.run(async {
        let check = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let added = |text: &str, valid| Some(("a".to_owned(), text.to_owned(), valid));
        let checks = vec![check("b", "id > 1"), check("a", "id > 0")];
        let txn = w.t.begin();
        let new = NewTable { checks, ..accounts() };
        let def = create_table(&w.ctx, &txn, new).await.expect("a new table");
        let savepoint = txn.savepoint();
        let twice = set_check(&w.ctx, &txn, &def, None, added("id > 2", true)).await;
        assert!(matches!(twice, Err(Error::DuplicateObject(_))));
        txn.rollback_to(&w.ctx, savepoint).await.expect("rolled back");
        let other = added("id > 3", false);
        set_check(&w.ctx, &txn, &def, Some("a"), other).await.expect("replaced");
        set_comment(&w.ctx, &txn, &def, None, Some("all")).await.expect("said");
        set_comment(&w.ctx, &txn, &def, Some(1), Some("one")).await.expect("said");
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let def = w.find(&txn).await.expect("committed");
        let texts: Vec<&str> = def.checks.iter().map(|check| check.expr.as_str()).collect();
        assert_eq!(texts, ["id > 3", "id > 1"], "in the order of their names");
        assert!(!def.checks[0].valid && def.checks[1].valid);
        assert_eq!(def.comment.as_deref(), Some("all"));
        assert_eq!(def.columns[1].comment.as_deref(), Some("one"));
        drop_table(&w.ctx, &txn, &def).await.expect("dropped");
        let snap = newest(&txn).expect("a snapshot");
        let con = of(&w.t.core).expect("open").fixed(Fixed::Con);
        assert!(store::all(&w.ctx, &snap, con).await.expect("rows").is_empty());
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}

fn all_of(def: &TableDef) -> NewView {
    let uses = ["", "id"].map(|column| Use { obj: def.obj, column: column.to_owned() });
    NewView {
        schema: "public".into(),
        name: "ids".into(),
        owner: SUPERUSER_OBJ,
        columns: vec![column("id", TypeKind::Int4)],
        view: ViewDef { text: "select id from accounts".into(), uses: uses.to_vec(), check: None },
    }
}

#[test]
fn a_view_is_known_to_what_it_reads() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let txn = w.t.begin();
        let view = create_view(&w.ctx, &txn, all_of(&def)).await.expect("a new view");
        assert_eq!(view.view, Some(all_of(&def).view));
        let uses = dependents(&w.ctx, &txn, def.obj).await.expect("read");
        assert_eq!(uses, [(view.obj, String::new()), (view.obj, "id".to_owned())]);
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let view = table(&w.ctx, &txn, "public", "ids").await.expect("read").expect("there");
        let one = [Use { obj: def.obj, column: "name".into() }];
        let other =
            ViewDef { text: "select name from accounts".into(), uses: one.to_vec(), check: None };
        let columns = [column("name", TypeKind::Text)];
        replace_view(&w.ctx, &txn, &view, &columns, &other).await.expect("replaced");
        let now = table(&w.ctx, &txn, "public", "ids").await.expect("read").expect("there");
        assert_eq!((now.view.as_ref(), now.obj), (Some(&other), view.obj));
        assert!(now.version != view.version && now.columns == columns);
        let gone = Use { obj: def.obj, column: "nope".into() };
        let bad = ViewDef { text: String::new(), uses: vec![gone], check: None };
        let refused = replace_view(&w.ctx, &txn, &now, &columns, &bad).await;
        assert!(matches!(refused, Err(Error::ObjectGone)));
        drop_view(&w.ctx, &txn, &now).await.expect("dropped");
        assert!(dependents(&w.ctx, &txn, def.obj).await.expect("read").is_empty());
        txn.rollback(&w.ctx).await.expect("rollback");
        let txn = w.t.begin();
        assert_eq!(views(&w.ctx, &txn).await.expect("read"), [view]);
    });
}

#[test]
fn schemas_are_one_list_and_hold_objects() {
    let w = world();
    w.t.run(async {
        let (txn, other) = (w.t.begin(), w.t.begin());
        let before = schemas(&w.ctx, &other).await.expect("read");
        assert_eq!(before.find("public").expect("made with the database").obj, PUBLIC_OBJ);
        create_schema(&w.ctx, &txn, "s", SUPERUSER_OBJ).await.expect("a new schema");
        let twice = create_schema(&w.ctx, &txn, "public", SUPERUSER_OBJ).await;
        assert!(matches!(twice, Err(Error::DuplicateObject(_))));
        let def = create_table(&w.ctx, &txn, accounts()).await.expect("a new table");
        let inside = NewTable { schema: "s".into(), indexes: Vec::new(), ..accounts() };
        create_table(&w.ctx, &txn, inside).await.expect("the same name elsewhere");
        let taken = set_schema(&w.ctx, &txn, &def, &[], "s").await;
        assert!(matches!(taken, Err(Error::DuplicateObject(_))));
        assert!(is_current(&other, SCHEMAS_OBJ, before.version));
        txn.commit(&w.ctx).await.expect("commit");
        assert!(!is_current(&other, SCHEMAS_OBJ, before.version));
        let txn = w.t.begin();
        let now = schemas(&w.ctx, &txn).await.expect("read");
        let schema = now.find("s").expect("committed").clone();
        let full = drop_schema(&w.ctx, &txn, &schema).await;
        assert!(matches!(full, Err(Error::DependentObjects(_))));
        let inside = table(&w.ctx, &txn, "s", "accounts").await.expect("read").expect("there");
        drop_table(&w.ctx, &txn, &inside).await.expect("dropped");
        let def = w.find(&txn).await.expect("there");
        set_schema(&w.ctx, &txn, &def, &[], "s").await.expect("moved");
        assert!(w.find(&txn).await.is_none());
        let moved = table(&w.ctx, &txn, "s", "accounts").await.expect("read").expect("there");
        let index = object(&w.ctx, &txn, "s", "accounts_pkey").await.expect("read");
        assert_eq!(moved.obj, def.obj);
        assert!(index.is_some() && moved.version != def.version);
        drop_table(&w.ctx, &txn, &moved).await.expect("dropped");
        drop_schema(&w.ctx, &txn, &schema).await.expect("empty now");
        let nowhere = NewTable { schema: "s".into(), ..accounts() };
        let refused = create_table(&w.ctx, &txn, nowhere).await;
        assert!(matches!(refused, Err(Error::UndefinedObject(_))));
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}

#[test]
fn a_foreign_key_is_told_by_both_its_tables() {
    let w = world();
    w.t.run(async {
        w.make().await;
        let txn = w.t.begin();
        let parent = w.find(&txn).await.expect("made");
        let child = NewTable { name: "orders".into(), indexes: vec![], ..accounts() };
        let child = create_table(&w.ctx, &txn, child).await.expect("a new table");
        let key = ForeignKeyDef {
            obj: ObjId(0),
            name: "of".into(),
            table: child.obj,
            columns: vec![0],
            parent: parent.obj,
            index: parent.indexes[0].obj,
            parts: vec![0],
            on_delete: KeyAction::Cascade,
            on_update: KeyAction::Restrict,
            full: true,
            deferrable: true,
            deferred: false,
            validated: false,
        };
        let before = parent.version;
        let child = add_foreign_key(&w.ctx, &txn, &child, &parent, key.clone()).await;
        let child = child.expect("a new key");
        txn.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let parent = w.find(&txn).await.expect("committed");
        assert!(parent.version != before && parent.referenced.len() == 1);
        let made = &child.foreign[0];
        assert_eq!(**made, ForeignKeyDef { obj: made.obj, ..key });
        assert_eq!(made.parent_columns(&parent), Some(vec![0]));
        let refused = drop_table(&w.ctx, &txn, &parent).await;
        assert!(matches!(refused, Err(Error::DependentObjects(_))));
        validate_foreign_key(&w.ctx, &txn, &child, "of").await.expect("noted");
        rename_foreign_key(&w.ctx, &txn, &child, "of", "by").await.expect("renamed");
        let now = table_by_obj(&w.ctx, &txn, child.obj).await.expect("read").expect("there");
        assert!(now.foreign[0].validated && now.foreign[0].name == "by");
        drop_table(&w.ctx, &txn, &now).await.expect("dropped");
        assert!(w.find(&txn).await.expect("there").referenced.is_empty());
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}

#[test]
fn names_are_taken_once() {
    let w = world();
    w.t.run(async {
        w.make().await;
        let txn = w.t.begin();
        let twice = create_table(&w.ctx, &txn, accounts()).await;
        assert!(matches!(twice, Err(Error::DuplicateObject(_))));
        let hidden = NewTable { schema: "sys".into(), ..accounts() };
        assert!(matches!(create_table(&w.ctx, &txn, hidden).await, Err(Error::Invalid(_))));
        let system = table(&w.ctx, &txn, SYS, "obj$").await.expect("read").expect("fixed");
        assert!(matches!(drop_table(&w.ctx, &txn, &system).await, Err(Error::Invalid(_))));
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}

fn new_ann() -> UserDef {
    UserDef::new(ObjId(0), "ann")
}

#[test]
fn a_user_and_the_password_follow_the_transaction() {
    let w = world();
    w.t.run(async {
        let (maker, other) = (w.t.begin(), w.t.begin());
        create_user(&w.ctx, &maker, &new_ann()).await.expect("a new user");
        assert!(user(&w.ctx, &maker, "ann").await.expect("read").is_some());
        assert!(user(&w.ctx, &other, "ann").await.expect("read").is_none());
        maker.commit(&w.ctx).await.expect("commit");
        let ann = user(&w.ctx, &other, "ann").await.expect("read").expect("committed");
        assert_eq!(ann.verifier, None);
        let txn = w.t.begin();
        set_password(&w.ctx, &txn, "ann", Some("SCRAM")).await.expect("set");
        txn.commit(&w.ctx).await.expect("commit");
        let ann = user(&w.ctx, &other, "ann").await.expect("read").expect("committed");
        assert_eq!(ann.verifier.as_deref(), Some("SCRAM"));
        let txn = w.t.begin();
        let twice = create_user(&w.ctx, &txn, &new_ann()).await;
        assert!(matches!(twice, Err(Error::DuplicateObject(_))));
        assert!(matches!(
            drop_user(&w.ctx, &txn, SUPERUSER).await,
            Err(Error::DependentObjects(_))
        ));
        txn.rollback(&w.ctx).await.expect("rollback");
        let txn = w.t.begin();
        drop_user(&w.ctx, &txn, "ann").await.expect("dropped");
        txn.commit(&w.ctx).await.expect("commit");
        assert!(user(&w.ctx, &other, "ann").await.expect("read").is_none());
        assert_eq!(users(&w.ctx, &other).await.expect("a list").len(), 1);
    });
}

#[test]
fn a_hit_costs_no_read_and_is_counted() {
    let w = world();
    w.t.run(async {
        w.make().await;
        let txn = w.t.begin();
        let first = w.find(&txn).await.expect("there");
        let before = row_cache_stats(&w.t.core)[0];
        let again = w.find(&txn).await.expect("there");
        let after = row_cache_stats(&w.t.core)[0];
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!((after.gets, after.misses), (before.gets + 1, before.misses));
    });
}

#[test]
fn h19_whoever_waited_for_ddl_does_not_use_the_old_definition() {
    let w = world();
    w.t.run(async {
        let old = w.make().await;
        let ddl = w.t.begin();
        create_index(&w.ctx, &ddl, &old, by_name()).await.expect("a new index");
        let session = w.t.session("dml");
        let dml = w.t.begin();
        let row = old.encode(&[Datum::Int4(1), Datum::Text("a")]);
        let insert = table::insert(&session, &dml, &old, &row);
        let commit = async {
            w.t.env.sleep(Duration::from_millis(300)).await;
            ddl.commit(&w.ctx).await.expect("commit");
            w.t.env.now()
        };
        let (refused, committed) =
            futures::future::join(async { (insert.await, w.t.env.now()) }, commit).await;
        assert!(matches!(refused.0, Err(Error::ObjectGone)), "{:?}", refused.0);
        assert!(refused.1 >= committed, "it waited for the lock");
        let new = w.find(&dml).await.expect("there");
        assert_eq!(new.indexes.len(), 2);
        w.add(&dml, &new, 1, "a").await;
        dml.commit(&w.ctx).await.expect("commit");
        let txn = w.t.begin();
        let snap = txn.snapshot(&w.ctx).await.expect("a snapshot");
        let found = store::by_key(&w.ctx, &snap, &new, 1, &[Datum::Text("a")]).await;
        assert_eq!(found.expect("read").len(), 1, "the new index has the row");
    });
}

#[test]
fn ddl_waits_for_open_changes_and_indexes_them() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let dml = w.t.begin();
        w.add(&dml, &def, 1, "a").await;
        let session = w.t.session("ddl");
        let ddl = w.t.begin();
        let commit = async {
            w.t.env.sleep(Duration::from_millis(300)).await;
            dml.commit(&w.ctx).await.expect("commit");
        };
        let made = futures::future::join(create_index(&session, &ddl, &def, by_name()), commit);
        made.await.0.expect("a new index");
        let new = w.find(&ddl).await.expect("own");
        let snap = newest(&ddl).expect("a snapshot");
        let found = store::by_key(&w.ctx, &snap, &new, 1, &[Datum::Text("a")]).await;
        assert_eq!(found.expect("read").len(), 1);
        ddl.commit(&w.ctx).await.expect("commit");
    });
}

#[test]
fn two_sessions_make_the_same_table_and_one_gets_it() {
    for first_commits in [true, false] {
        let w = world();
        w.t.run(async {
            let (one, two) = (w.t.begin(), w.t.begin());
            create_table(&w.ctx, &one, accounts()).await.expect("a new table");
            let session = w.t.session("two");
            let end = async {
                w.t.env.sleep(Duration::from_millis(300)).await;
                if first_commits {
                    one.commit(&w.ctx).await.map(|_| ()).expect("commit");
                } else {
                    one.rollback(&w.ctx).await.expect("rollback");
                }
            };
            let made = futures::future::join(create_table(&session, &two, accounts()), end);
            let made = made.await.0;
            if first_commits {
                assert!(matches!(made, Err(Error::DuplicateObject(_))), "{made:?}");
                two.rollback(&w.ctx).await.expect("rollback");
            } else {
                let def = made.expect("the name is free again");
                two.commit(&w.ctx).await.expect("commit");
                assert_eq!(w.find(&w.t.begin()).await.expect("there"), def);
            }
        });
    }
}

#[test]
fn rights_roles_and_owners_follow_the_transaction_and_survive_in_the_rows() {
    let w = world();
    w.t.run(async {
        let table = w.make().await;
        let (ddl, other) = (w.t.begin(), w.t.begin());
        let ann = create_user(&w.ctx, &ddl, &new_ann()).await.expect("a new role");
        let team = UserDef::new(ObjId(0), "team");
        let team = create_user(&w.ctx, &ddl, &team).await.expect("a new role");
        let pair = (team.obj, ann.obj);
        let (role, member) = pair;
        let new = MemberDef { role, member, grantor: SUPERUSER_OBJ, admin: false };
        assert!(change_member(&w.ctx, &ddl, pair, Some(new)).await.expect("a member"));
        assert!(!change_member(&w.ctx, &ddl, pair, Some(new)).await.expect("one already"));
        let grant = |old: Option<Acl>| {
            let mut acl = old.unwrap_or_else(|| Acl::default_of(AclKind::Relation, table.owner));
            acl.grant(team.obj, table.owner, Privileges::SELECT, Privileges::NONE);
            Some(acl)
        };
        let target = AclTarget::Relation(table.obj);
        change_acl(&w.ctx, &ddl, target, grant).await.expect("granted");
        let column = AclTarget::Column(table.obj, 1);
        let update = Privileges::UPDATE;
        let on_column = |_| {
            let mut acl = Acl::default();
            acl.grant(ann.obj, table.owner, update, Privileges::NONE);
            Some(acl)
        };
        change_acl(&w.ctx, &ddl, column, on_column).await.expect("granted");
        // Nobody else sees any of it yet.
        let roles_there = roles(&w.ctx, &other).await.expect("read");
        assert!(roles_there.find("ann").is_none());
        assert_eq!(w.find(&other).await.expect("there").acl, None);
        ddl.commit(&w.ctx).await.expect("commit");
        assert!(!is_current(&other, ROLES_OBJ, roles_there.version), "a new version");
        let known = roles(&w.ctx, &other).await.expect("read");
        assert_eq!(known.above(ann.obj, true), [ann.obj, team.obj]);
        let now = w.find(&other).await.expect("there");
        assert_ne!(now.version, table.version);
        // Who is changing rows by the old definition goes on; another column would end that.
        assert_eq!(now.form, table.form);
        confirm(&w.ctx, &other, &table).await.expect("the rows are as they were");
        let acl = now.acl.as_ref().expect("a list");
        assert!(acl.privileges_of(&known.above(ann.obj, true)).has(Privileges::SELECT));
        assert!(now.columns[1].acl.is_some() && now.columns[0].acl.is_none());
        let uses = role_uses(&w.ctx, &other, ann.obj).await.expect("a list");
        assert!(matches!(&uses[..], [RoleUse::RightsOnColumn { .. }]), "{uses:?}");
        let txn = w.t.begin();
        let dropped = drop_user(&w.ctx, &txn, "team").await;
        assert!(matches!(dropped, Err(Error::DependentObjects(_))));
        change_owner(&w.ctx, &txn, table.obj, &[], ann.obj).await.expect("given away");
        let own = w.find(&txn).await.expect("there");
        assert_eq!(own.owner, ann.obj);
        txn.rollback(&w.ctx).await.expect("rollback");
        assert_eq!(w.find(&other).await.expect("there").owner, table.owner);
    });
}
