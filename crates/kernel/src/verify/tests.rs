//! One test for each kind of damage, on a database of a simulated world.

use std::path::Path;
use std::sync::Arc;

use block::bytes::{put_u16, put_u32, put_u64};
use block::layout::{self, Kind as BlockKind};
use block::undo::{TxSlot, TxState};
use block::{BLOCK_BYTES, Dba, InstanceNo, ObjId, Xid, itl, rows};
use disk::{Group, Options};
use env::simulated::{DiskFault, FaultKind};
use env::{Env, IoBuf};
use observe::{Ctx, Observer, SessionKind};

use super::{Kind, Report, State, verify};
use crate::dict::{
    self, ColumnDef, Comparison, Condition, Fixed, NewIndex, NewTable, PUBLIC, SUPERUSER_OBJ,
    TableDef,
};
use crate::row::{ColType, Datum, TypeKind, encode_key};
use crate::space::layout::{map_dba, read_header};
use crate::space::{DATA_FILE, UNIT_BLOCKS};
use crate::table;
use crate::testing::TestInstance;
use crate::undo::{UNDO_FILE, UNDO_HEADER_FILE, header_dba};

const ROWS: i64 = 900;

/// A block, what is said of it, and what has been done to it.
type Case<'a> = (Dba, &'a str, &'a dyn Fn(&mut [u8]));

/// A database with `t (id, n, text)`: a primary key of two levels, an index on n, one on those rows
/// whose n is 3; some rows are in pieces.
struct Damaged {
    db: TestInstance,
    def: Arc<TableDef>,
    /// What looks at it.
    env: Env,
}

fn new_table() -> NewTable {
    let column = |name: &str, kind, not_null| ColumnDef {
        not_null,
        ..ColumnDef::new(name, ColType::new(kind))
    };
    let index = |name: &str, column: u16, unique, predicate| NewIndex {
        kind: Default::default(),
        name: name.to_owned(),
        columns: vec![column],
        included: Default::default(),
        orders: Vec::new(),
        unique,
        primary: unique,
        constraint: unique.then(|| name.to_owned()),
        predicate,
        exprs: Vec::new(),
    };
    let mut three = Vec::new();
    encode_key(&[Datum::Int8(3)], &mut three);
    let is_three = Condition::Compare(Comparison::Eq, 1, three.into());
    NewTable {
        checks: Vec::new(),
        schema: PUBLIC.to_owned(),
        name: "t".to_owned(),
        owner: SUPERUSER_OBJ,
        columns: vec![
            column("id", TypeKind::Int8, true),
            column("n", TypeKind::Int8, false),
            column("filler", TypeKind::Text, false),
        ],
        indexes: vec![
            index("t_pkey", 0, true, None),
            index("t_n", 1, false, None),
            index("t_three", 1, false, Some(is_three)),
        ],
    }
}

fn row(def: &TableDef, id: i64) -> Vec<u8> {
    let filler = "x".repeat(if id % 100 == 7 { 20_000 } else { 150 });
    def.encode(&[Datum::Int8(id), Datum::Int8(id % 10), Datum::Text(&filler)])
}

async fn fill(ctx: &Ctx, db: &TestInstance) -> Arc<TableDef> {
    let txn = db.begin();
    dict::create_table(ctx, &txn, new_table()).await.expect("created");
    txn.commit(ctx).await.expect("committed");
    let txn = db.begin();
    let def = dict::table(ctx, &txn, PUBLIC, "t").await.expect("read").expect("there");
    for id in 0..ROWS {
        table::insert(ctx, &txn, &def, &row(&def, id)).await.expect("inserted");
    }
    txn.commit(ctx).await.expect("committed");
    def
}

impl Damaged {
    /// Of an instance that has closed.
    fn closed() -> Damaged {
        let db = TestInstance::new(1, 2000);
        let ctx = db.session("fill");
        let def = db.run(fill(&ctx, &db));
        db.run(db.instance.close()).expect("closed");
        Damaged::ended(db, def)
    }

    /// Of an instance that was killed with a transaction open; `written`: after all was written.
    fn crashed(written: bool) -> Damaged {
        let db = TestInstance::new(1, 2000);
        let ctx = db.session("fill");
        let def = db.run(async {
            let def = fill(&ctx, &db).await;
            let open = db.begin();
            for id in ROWS..ROWS + 60 {
                table::insert(&ctx, &open, &def, &row(&def, id)).await.expect("inserted");
            }
            let other = db.begin();
            let row = row(&def, ROWS + 1000);
            table::insert(&ctx, &other, &def, &row).await.expect("inserted");
            other.commit(&ctx).await.expect("committed");
            if written {
                db.core.cache.checkpoint_all(&ctx, InstanceNo(1)).await.expect("written");
            }
            std::mem::forget(open);
            def
        });
        Damaged::ended(db, def)
    }

    fn ended(db: TestInstance, def: Arc<TableDef>) -> Damaged {
        db.world.crash(1);
        let env = db.world.restart_env(1);
        Damaged { db, def, env }
    }

    fn group(&self) -> Arc<Group> {
        let opening = Group::open_with(&self.env, Path::new("/db"), Options::default());
        self.db.run(opening).expect("the group opens")
    }

    fn read(&self, dba: Dba) -> Vec<u8> {
        self.db.run(self.group().read_block(dba)).expect("read").to_vec()
    }

    fn write(&self, dba: Dba, b: &[u8]) {
        self.db.run(self.group().write_block(dba, IoBuf::copy_from(b))).expect("written");
    }

    /// Changes a block, its checksum with it.
    fn edit(&self, dba: Dba, change: impl FnOnce(&mut [u8])) {
        let mut b = self.read(dba);
        change(&mut b);
        layout::seal(&mut b);
        self.write(dba, &b);
    }

    /// The first block of a file for which this holds.
    fn block(&self, file: u16, is: impl Fn(&[u8]) -> bool) -> Dba {
        let group = self.group();
        let count = group.file_blocks(file).expect("a file");
        (0..count)
            .map(|block| Dba::new(file, block))
            .find(|&dba| {
                let b = self.db.run(group.read_block(dba)).expect("read");
                layout::check(&b, dba).is_ok() && is(&b)
            })
            .expect("such a block")
    }

    fn of(&self, obj: ObjId, kind: BlockKind) -> Dba {
        self.block(DATA_FILE, |b| layout::obj(b) == obj && layout::kind(b) == kind)
    }

    fn index(&self, name: &str) -> ObjId {
        self.def.all_indexes().find(|i| i.name == name).expect("an index").obj
    }

    fn look(&self) -> Report {
        let observer = Observer::new(self.env.clone(), 1);
        let ctx = observer.ctx(SessionKind::Background, "verify");
        self.db.run(verify(&ctx, &self.group(), false)).expect("it can be walked")
    }

    /// Damage of this kind is found; `says` is in its text.
    #[track_caller]
    fn expect(&self, kind: Kind, says: &str) {
        assert!(self.finds(kind, says), "{kind:?} {says}: {:#?}", self.look());
    }

    fn finds(&self, kind: Kind, says: &str) -> bool {
        let report = self.look();
        let found = report
            .damage
            .iter()
            .any(|found| found.kind == kind && found.to_string().contains(says));
        assert!(!found || !report.is_clean());
        found
    }
}

#[test]
fn a_closed_database_is_clean_and_all_of_it_is_seen() {
    let report = Damaged::closed().look();
    assert_eq!(report.damage, []);
    assert_eq!((report.state, report.not_judged.len(), report.lost.len()), (State::Closed, 0, 0));
    let c = report.counts;
    assert!(c.rows > ROWS.unsigned_abs() && c.entries > 2 * ROWS.unsigned_abs(), "{c:?}");
    assert!((c.tables, c.indexes) >= (20, 28), "{c:?}");
    assert_eq!((c.active, c.unsettled_rows, c.redo_blocks, c.passes), (0, 0, 0, 1));
}

#[test]
fn a_crashed_database_is_judged_as_recovery_will_leave_it() {
    for written in [false, true] {
        let db = Damaged::crashed(written);
        let report = db.look();
        assert_eq!(report.damage, []);
        assert_eq!((report.state, report.counts.active), (State::Crashed, 1));
        assert_eq!(report.counts.unsettled_rows, 60, "{:?}", report.counts);
        assert!(written || report.counts.redo_blocks > 20, "{:?}", report.counts);
    }
}

#[test]
fn an_open_database_is_walked_and_what_changes_is_not_called_damage() {
    let db = TestInstance::new(1, 2000);
    let ctx = db.session("fill");
    let def = db.run(fill(&ctx, &db));
    let group = db.run(Group::open_with(&db.env, Path::new("/db"), Options::default()));
    let group = group.expect("the group opens");
    let looking = verify(&ctx, &group, true);
    let changing = async {
        for id in ROWS..ROWS + 300 {
            let txn = db.begin();
            table::insert(&ctx, &txn, &def, &row(&def, id)).await.expect("inserted");
            txn.commit(&ctx).await.expect("committed");
        }
    };
    let (report, ()) = db.run(futures::future::join(looking, changing));
    let report = report.expect("it can be walked");
    assert_eq!((report.state, report.damage.len()), (State::Open, 0), "{report:#?}");
    let report = db.run(verify(&ctx, &group, true)).expect("it can be walked");
    assert!(report.is_clean() && report.not_judged.is_empty(), "{report:#?}");
    assert!(report.counts.rows > 1200);
}

#[test]
fn damage_of_an_open_database_is_told_from_change() {
    let db = TestInstance::new(1, 2000);
    let ctx = db.session("fill");
    let def = db.run(fill(&ctx, &db));
    db.run(db.core.cache.checkpoint_all(&ctx, InstanceNo(1))).expect("written");
    let group = db.run(Group::open_with(&db.env, Path::new("/db"), Options::default()));
    let group = group.expect("the group opens");
    let report = db.run(async {
        let dba = def.indexes[1].root;
        let mut b = group.read_block(dba).await.expect("read");
        b[BLOCK_BYTES - 1] ^= 1;
        group.write_block(dba, b).await.expect("written");
        verify(&ctx, &group, true).await.expect("it can be walked")
    });
    assert_eq!((report.damage.len(), report.damage[0].kind), (1, Kind::Checksum), "{report:#?}");
    assert!(report.counts.passes > 1);
}

#[test]
fn a_flipped_bit_is_found() {
    let db = Damaged::closed();
    for (obj, kind) in [
        (db.def.obj, BlockKind::Heap),
        (db.def.obj, BlockKind::SegmentHeader),
        (db.def.obj, BlockKind::FreeMap),
        (db.index("t_pkey"), BlockKind::Leaf),
        (db.index("t_pkey"), BlockKind::Branch),
    ] {
        let dba = db.of(obj, kind);
        let whole = db.read(dba);
        let mut b = whole.clone();
        b[5000] ^= 0x10;
        db.write(dba, &b);
        db.expect(Kind::Checksum, &format!("block {dba}, "));
        db.write(dba, &whole);
    }
    let undo = db.block(UNDO_FILE, |b| layout::kind(b) == BlockKind::Undo);
    for dba in [undo, header_dba(3), map_dba(DATA_FILE, 0)] {
        let whole = db.read(dba);
        let mut b = whole.clone();
        b[100] ^= 1;
        db.write(dba, &b);
        db.expect(Kind::Checksum, &format!("block {dba}, "));
        db.write(dba, &whole);
    }
    assert!(db.look().is_clean());
}

#[test]
fn a_misdirected_write_is_found() {
    let db = Damaged::closed();
    let dba = db.of(db.def.obj, BlockKind::Heap);
    let other = db.read(db.of(db.index("t_n"), BlockKind::Leaf));
    db.write(dba, &other);
    db.expect(Kind::Address, &format!("block {dba}, table public.t"));
}

#[test]
fn lost_writes_of_single_blocks_are_found() {
    let db = Damaged::crashed(true);
    let dba = db.of(db.index("t_pkey"), BlockKind::Leaf);
    db.write(dba, &vec![0; BLOCK_BYTES]);
    db.expect(Kind::Tree, &format!("leads to block {dba}, which is none of level 0"));
    let dba = db.of(db.def.obj, BlockKind::Heap);
    db.write(dba, &vec![0; BLOCK_BYTES]);
    db.expect(Kind::Segment, &format!("block {dba}, table public.t"));
}

#[test]
fn redo_that_does_not_fit_its_block_is_found() {
    let db = Damaged::crashed(false);
    // Written by the database's creation; the redo goes on from there.
    let dba = map_dba(DATA_FILE, 0);
    db.edit(dba, |b| {
        let version = layout::version(b);
        layout::set_version(b, block::Version { count: version.count - 1, ..version });
    });
    db.expect(Kind::Redo, &format!("block {dba}"));
}

#[test]
fn an_unknown_kind_of_block_is_found() {
    let db = Damaged::closed();
    let dba = db.of(db.def.obj, BlockKind::Heap);
    db.edit(dba, |b| b[4] = 99);
    db.expect(Kind::BlockKind, &format!("block {dba}"));
}

#[test]
fn an_unreadable_lun_is_found() {
    let db = Damaged::closed();
    let group = db.group();
    let observer = Observer::new(db.env.clone(), 1);
    let ctx = observer.ctx(SessionKind::Background, "verify");
    db.db.world.set_fault(DiskFault {
        instance: None,
        path_contains: "lun1".to_owned(),
        kind: FaultKind::ReadError,
        probability: 1.0,
    });
    let report = db.db.run(verify(&ctx, &group, false)).expect("it can be walked");
    assert!(report.damage.iter().any(|f| f.kind == Kind::Unreadable), "{report:#?}");
}

#[test]
fn a_damaged_control_file_is_found() {
    let db = Damaged::closed();
    for block in [2, 3] {
        db.write(Dba::new(crate::redo::CONTROL_FILE, block), &vec![7; BLOCK_BYTES]);
    }
    db.expect(Kind::Control, "redo thread 1");
}

#[test]
fn a_block_that_contradicts_itself_is_found() {
    let db = Damaged::closed();
    let heap = db.of(db.def.obj, BlockKind::Heap);
    let leaf = db.of(db.index("t_n"), BlockKind::Leaf);
    let undo = db.block(UNDO_FILE, |b| layout::kind(b) == BlockKind::Undo);
    for (dba, at) in [
        (heap, rows::OFF_DATA_START),
        (heap, rows::OFF_HOLES),
        (heap, rows::OFF_SLOTS),
        (leaf, rows::OFF_HIGH),
        (leaf, rows::OFF_ITL_COUNT),
        (undo, 64),
    ] {
        let whole = db.read(dba);
        db.edit(dba, |b| put_u16(b, at, 0xFFF0));
        db.expect(Kind::Block, &format!("block {dba}"));
        db.write(dba, &whole);
    }
    assert!(db.look().is_clean());
}

#[test]
fn an_itl_entry_of_no_transaction_is_found() {
    let db = Damaged::closed();
    let dba = db.of(db.def.obj, BlockKind::Heap);
    let whole = db.read(dba);
    for (xid, says) in [
        (Xid { usn: 999, slot: 1, seq: 1 }, "which no undo segment has"),
        (Xid { usn: 1, slot: 1, seq: u32::MAX }, "which never was"),
    ] {
        db.edit(dba, |b| itl::put(b, 0, &itl::Itl { xid, ..itl::get(b, 0) }));
        db.expect(Kind::Itl, says);
        db.write(dba, &whole);
    }
}

#[test]
fn a_commit_scn_of_a_transaction_that_has_not_committed_is_found() {
    let db = Damaged::crashed(true);
    let (xid, _) = db.active();
    let dba =
        db.block(DATA_FILE, |b| layout::kind(b) == BlockKind::Heap && itl::find(b, xid).is_some());
    db.edit(dba, |b| itl::clean_out(b, xid, block::Scn(5)));
    db.expect(Kind::Itl, "which has not committed");
}

impl Damaged {
    /// The transaction that was left open.
    fn active(&self) -> (Xid, TxSlot) {
        for usn in 1..=10 {
            let b = self.read(header_dba(usn));
            for slot in 0..block::undo::TX_SLOT_COUNT {
                let tx = TxSlot::get(&b, slot);
                if tx.state == TxState::Active {
                    return (Xid { usn, slot, seq: tx.seq }, tx);
                }
            }
        }
        panic!("no transaction is open");
    }
}

#[test]
fn undo_that_is_not_there_is_found() {
    let db = Damaged::crashed(true);
    let (xid, tx) = db.active();
    let whole = db.read(tx.undo);
    // The block holds another transaction's records; what refers to it finds nothing.
    db.edit(tx.undo, |b| {
        for n in 0..block::undo::record_count(b) {
            let at = usize::from(block::bytes::get_u16(b, BLOCK_BYTES - 2 * (usize::from(n) + 1)));
            put_u64(b, at, Xid { seq: xid.seq - 1, ..xid }.to_u64());
        }
    });
    db.expect(Kind::Undo, "no record of it");
    db.expect(Kind::Itl, "does not fit");
    db.write(tx.undo, &whole);
    assert!(db.look().is_clean());
    let header = header_dba(xid.usn);
    db.edit(header, |b| layout::init(b, BlockKind::Free, header, ObjId(0), block::Scn::ZERO));
    assert_eq!(header.file, UNDO_HEADER_FILE);
    db.expect(Kind::Undo, &format!("undo segment {}", xid.usn));
}

#[test]
fn a_row_that_the_dictionary_lacks_is_found() {
    let db = Damaged::closed();
    // Their numbers are promises.
    let fixed = |table: Fixed| ObjId([2, 3, 4, 5][table as usize]);
    for (table, says) in [
        (Fixed::Obj, "names object"),
        (Fixed::Tab, "is not described"),
        (Fixed::Ind, "is not described"),
        (Fixed::Col, "are incomplete"),
    ] {
        let obj = fixed(table);
        // Of the user's table, and of columns its first: what is left is not dense.
        let of_user = |b: &[u8]| {
            let obj = i64::from(db.def.obj.0).to_le_bytes();
            (0..rows::slot_count(b)).find(|slot| {
                let row = rows::get(b, *slot).filter(|row| row.flags == 0);
                row.is_some_and(|row| row.bytes.windows(8).any(|part| part == obj))
            })
        };
        let found = db.blocks_of(obj).into_iter().find_map(|d| Some((d, of_user(&db.read(d))?)));
        let (dba, slot) = found.expect("a row of the user's table");
        let whole = db.read(dba);
        db.edit(dba, |b| rows::set_flags(b, slot, rows::DELETED));
        db.expect(Kind::Dictionary, says);
        db.expect(Kind::Index, "but no such row");
        db.write(dba, &whole);
    }
}

impl Damaged {
    fn blocks_of(&self, obj: ObjId) -> Vec<Dba> {
        let group = self.group();
        let count = group.file_blocks(DATA_FILE).expect("a file");
        let heap = |b: &[u8]| layout::kind(b) == BlockKind::Heap && layout::obj(b) == obj;
        (0..count)
            .map(|block| Dba::new(DATA_FILE, block))
            .filter(|&dba| heap(&self.db.run(group.read_block(dba)).expect("read")))
            .collect()
    }
}

#[test]
fn a_segment_that_contradicts_itself_is_found() {
    let db = Damaged::closed();
    let header = db.of(db.def.obj, BlockKind::SegmentHeader);
    let map = db.of(db.def.obj, BlockKind::FreeMap);
    let heap = db.of(db.def.obj, BlockKind::Heap);
    let cases: [Case<'_>; 4] = [
        (header, "high-water mark 4000000", &|b| put_u32(b, 72, 4_000_000)),
        (header, "the header of its segment", &|b| put_u32(b, 12, 77)),
        (map, "it is not FreeMap 0", &|b| put_u32(b, 64, 1)),
        (heap, "block of object 77", &|b| put_u32(b, 12, 77)),
    ];
    for (dba, says, change) in cases {
        let whole = db.read(dba);
        db.edit(dba, change);
        db.expect(Kind::Segment, says);
        db.write(dba, &whole);
    }
}

#[test]
fn space_with_two_owners_or_none_is_found() {
    let db = Damaged::closed();
    let header = db.of(db.def.obj, BlockKind::SegmentHeader);
    let other = db.of(db.index("t_n"), BlockKind::SegmentHeader);
    let whole = db.read(header);
    let count = read_header(&whole).expect("a header").extents.len();
    db.edit(header, |b| {
        put_u32(b, 68, u32::try_from(count).expect("few") + 1);
        put_u32(b, 96 + 8 * count, other.block);
        put_u16(b, 96 + 8 * count + 4, other.file);
        put_u16(b, 96 + 8 * count + 6, 1);
    });
    db.expect(Kind::Space, "is also of");
    db.write(header, &whole);

    let map = map_dba(DATA_FILE, 0);
    let whole = db.read(map);
    let unit = header.block / UNIT_BLOCKS;
    db.edit(map, |b| b[layout::HEADER_BYTES + unit as usize / 8] &= !(1 << (unit % 8)));
    db.expect(Kind::Space, "is free, but of table public.t");
    db.write(map, &whole);

    let units = db.group().file_blocks(DATA_FILE).expect("a file") / UNIT_BLOCKS;
    db.edit(map, |b| b[layout::HEADER_BYTES + (units as usize - 1) / 8] |= 0x80);
    db.expect(Kind::Space, "are used, but of nobody");
}

#[test]
fn a_tree_that_leads_astray_is_found() {
    let db = Damaged::closed();
    let index = db.index("t_pkey");
    let root = db.def.primary_key().expect("a primary key").root;
    let children: Vec<Dba> = {
        let b = db.read(root);
        (0..rows::slot_count(&b)).map(|at| Dba::from_u64(rows::entry(&b, at).value)).collect()
    };
    let [first, second, third] = children[..3] else { panic!("a tree of two levels") };
    assert_eq!(layout::obj(&db.read(first)), index);
    let cases: [Case<'_>; 5] = [
        (first, "does not begin where", &|b| rows::set_right(b, third)),
        (second, "links lead back", &|b| rows::set_right(b, first)),
        (first, "without a bound", &|b| rows::set_right(b, Dba::NONE)),
        (root, "has another key for it", &|b| {
            let e = rows::entry(b, 1);
            let (mut key, value) = (e.key.to_vec(), e.value);
            rows::remove_entry(b, 1);
            key.push(0);
            rows::insert_entry(b, 0, 0, value, &key);
        }),
        (root, "does not have there", &|b| rows::set_value(b, 1, third.to_u64())),
    ];
    for (dba, says, change) in cases {
        let whole = db.read(dba);
        db.edit(dba, change);
        db.expect(Kind::Tree, says);
        db.write(dba, &whole);
    }
}

#[test]
fn a_row_whose_pieces_do_not_fit_is_found() {
    let db = Damaged::closed();
    let piece = |b: &[u8]| {
        (0..rows::slot_count(b)).find(|s| {
            rows::get(b, *s).is_some_and(|r| r.flags == rows::PIECE && r.bytes[..8] != [0; 8])
        })
    };
    let dba = db.block(DATA_FILE, |b| {
        layout::kind(b) == BlockKind::Heap && layout::obj(b) == db.def.obj && piece(b).is_some()
    });
    db.edit(dba, |b| {
        let slot = piece(b).expect("a piece");
        let mut bytes = rows::get(b, slot).expect("a piece").bytes.to_vec();
        bytes[..8].fill(0);
        rows::replace(b, slot, rows::PIECE, 0, &bytes);
    });
    db.expect(Kind::Chain, "its pieces have not");
    db.expect(Kind::Chain, "no row names piece");
}

/// A plain row of the table.
fn plain(b: &[u8]) -> Option<u16> {
    (0..rows::slot_count(b)).find(|s| rows::get(b, *s).is_some_and(|r| r.flags == 0))
}

#[test]
fn a_row_that_cannot_be_read_is_found() {
    let db = Damaged::closed();
    let dba = db.block(DATA_FILE, |b| {
        layout::kind(b) == BlockKind::Heap && layout::obj(b) == db.def.obj && plain(b).is_some()
    });
    let whole = db.read(dba);
    db.edit(dba, |b| {
        let slot = plain(b).expect("a row");
        let bytes = rows::get(b, slot).expect("a row").bytes.to_vec();
        rows::replace(b, slot, 0, 0, &bytes[..bytes.len() - 3]);
    });
    db.expect(Kind::Row, "");
    db.write(dba, &whole);
    db.edit(dba, |b| {
        let bytes = db.def.encode(&[Datum::Null, Datum::Null, Datum::Null]);
        rows::replace(b, plain(b).expect("a row"), 0, 0, &bytes);
    });
    db.expect(Kind::Row, "column id has no value");
}

#[test]
fn an_index_that_differs_from_its_table_is_found() {
    let db = Damaged::closed();
    for name in ["t_pkey", "t_n", "t_three"] {
        let of = format!("index public.{name}");
        let leaf = db.of(db.index(name), BlockKind::Leaf);
        let whole = db.read(leaf);
        db.edit(leaf, |b| rows::remove_entry(b, 3));
        db.expect(Kind::Index, &format!("{of}: row"));
        db.expect(Kind::Index, "has no entry for its key");
        db.write(leaf, &whole);
        db.edit(leaf, |b| rows::set_value(b, 3, 0x0004_0000_FFFF_0001));
        db.expect(Kind::Index, "has an entry, but no such row or key");
        db.write(leaf, &whole);
    }
    // A row that no longer belongs into the partial index.
    let three = |b: &[u8]| {
        (0..rows::slot_count(b)).find(|s| {
            let row = rows::get(b, *s).filter(|r| r.flags == 0);
            row.is_some_and(|r| {
                let view = crate::row::RowView::new(&db.def.types, r.bytes);
                view.get(1) == Datum::Int8(3)
            })
        })
    };
    let dba = db.block(DATA_FILE, |b| {
        let own = layout::kind(b) == BlockKind::Heap && layout::obj(b) == db.def.obj;
        own && three(b).is_some()
    });
    db.edit(dba, |b| {
        let slot = three(b).expect("a row of the partial index");
        let bytes = rows::get(b, slot).expect("a row").bytes.to_vec();
        let view = crate::row::RowView::new(&db.def.types, &bytes);
        let values = [view.get(0), Datum::Int8(4), view.get(2)];
        rows::replace(b, slot, 0, 0, &db.def.encode(&values));
    });
    db.expect(Kind::Index, "index public.t_three");
    db.expect(Kind::Index, "index public.t_n");
}
