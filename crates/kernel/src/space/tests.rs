use block::{Dba, InstanceNo, Mode, ObjId};
use observe::Ctx;

use super::layout::{
    CLASS_EMPTY, CLASS_RAW, ExtentMap, FILE_MAP_UNITS, FREE_MAP_BLOCKS, FreeEntry, RESERVED_UNITS,
    class_of, find_run, free_entry, free_parts, free_runs, mark_runs, next_extent_blocks,
};
use super::{DATA_FILE, Extent, SegmentId, SegmentKind, Space};
use crate::error::Error;
use crate::testing::TestInstance;

/// An instance and a session of it.
struct Rig {
    instance: TestInstance,
    ctx: Ctx,
}

impl Rig {
    fn new() -> Rig {
        let instance = TestInstance::new(1, 4096);
        let ctx = instance.session("test");
        Rig { instance, ctx }
    }
}

impl std::ops::Deref for Rig {
    type Target = TestInstance;

    fn deref(&self) -> &TestInstance {
        &self.instance
    }
}

fn apply(b: &mut [u8], op: &block::op::Op) {
    op.apply(b, Dba::new(4, 1));
}

#[test]
fn runs_are_found_and_marked_and_given_back() {
    let mut b = vec![0; block::BLOCK_BYTES];
    let op = mark_runs(&b, &[(0, RESERVED_UNITS)], true);
    apply(&mut b, &op);
    assert_eq!(find_run(&b, 1, 10), Some(3));
    assert_eq!(find_run(&b, 16, 100), Some(16), "long runs are aligned");
    let op = mark_runs(&b, &[(16, 16), (40, 3)], true);
    apply(&mut b, &op);
    assert_eq!(find_run(&b, 16, 100), Some(48));
    assert_eq!(find_run(&b, 16, 63), None, "the limit holds");
    assert_eq!(find_run(&b, 13, 100), Some(3));
    assert_eq!(find_run(&b, 14, 100), Some(43));
    assert_eq!(free_runs(&b, 45), [(3, 13), (32, 8), (43, 2)]);
    let op = mark_runs(&b, &[(16, 16)], false);
    apply(&mut b, &op);
    assert_eq!(find_run(&b, 16, 100), Some(16));
    let all = mark_runs(&vec![0; block::BLOCK_BYTES], &[(0, FILE_MAP_UNITS)], true);
    apply(&mut b, &all);
    assert_eq!(find_run(&b, 1, FILE_MAP_UNITS), None);
}

#[test]
fn ordinals_and_addresses_are_inverse_and_meta_blocks_are_no_data() {
    let extents: Vec<Extent> = (0..20u32)
        .map(|i| Extent {
            // Later extents at lower addresses, as reuse brings them.
            first: Dba::new(4, 100_000 - i * 2000),
            blocks: next_extent_blocks(i as usize + 70),
        })
        .collect();
    let map = ExtentMap::new(&extents);
    for ordinal in [0, 1, 127, 128, 7999, 8000, 8001, map.blocks() - 1] {
        let dba = map.dba(ordinal).unwrap();
        assert_eq!(map.ordinal(dba), Some(ordinal));
    }
    assert_eq!(map.dba(map.blocks()), None);
    assert_eq!(map.ordinal(Dba::new(4, 1)), None);
    assert_eq!(map.ordinal(Dba::new(5, 100_000)), None);
    let hwm = FREE_MAP_BLOCKS + 5;
    let runs = map.data_runs(hwm);
    let data: u32 = runs.iter().map(|r| r.1).sum();
    assert_eq!(data, hwm - 3, "header and two FreeMaps are left out");
    assert_eq!(runs[0].0, map.dba(2).unwrap());
    assert!(!runs.iter().any(|(first, n)| {
        let meta = map.dba(FREE_MAP_BLOCKS).unwrap();
        (first.block..first.block + n).contains(&meta.block)
    }));
}

#[test]
fn free_entries_keep_owner_and_class() {
    let mut b = vec![0; block::BLOCK_BYTES];
    let entry = |owner, class| FreeEntry { owner: InstanceNo(owner), class };
    let entries = [(0, entry(8, CLASS_RAW)), (1, entry(1, 3)), (FREE_MAP_BLOCKS - 1, entry(0, 14))];
    let parts = free_parts(&entries);
    assert_eq!(parts.len(), 2, "neighbours are one part");
    apply(&mut b, &block::op::Op::Patch(parts));
    for (at, e) in entries {
        assert_eq!(free_entry(&b, at), e);
    }
    assert_eq!(free_entry(&b, 2), entry(0, 0));
    assert_eq!((class_of(559), class_of(560), class_of(8096)), (0, 1, CLASS_EMPTY));
}

fn segment(rig: &Rig, obj: u32, kind: SegmentKind) -> SegmentId {
    let obj = ObjId(obj);
    let (header, birth) =
        rig.world.block_on(rig.core.space.create_segment(&rig.ctx, DATA_FILE, obj, kind)).unwrap();
    SegmentId { obj, header, birth }
}

/// Units in use in the data file, by its own map.
fn used_units(rig: &Rig) -> u32 {
    let blocks = rig.core.cache.group.file_blocks(DATA_FILE).unwrap();
    let read = rig.core.cache.read(&rig.ctx, Dba::new(DATA_FILE, 1), move |b| {
        (0..blocks / 8).filter(|u| b[64 + *u as usize / 8] & (1 << (u % 8)) != 0).count()
    });
    u32::try_from(rig.world.block_on(read).unwrap()).unwrap()
}

#[test]
fn a_dropped_segment_gives_all_its_space_back() {
    let rig = Rig::new();
    let before = used_units(&rig);
    let id = segment(&rig, 7, SegmentKind::Index);
    rig.world.block_on(async {
        let mut got = std::collections::BTreeSet::new();
        for _ in 0..1500 {
            let dba = rig.core.space.alloc_block(&rig.ctx, id.header).await.unwrap();
            assert!(got.insert(dba), "{dba} was handed out twice");
        }
        let info = rig.core.space.segment_info(&rig.ctx, id.header).await.unwrap();
        assert!(info.extents.len() > 16 && info.hwm <= info.blocks());
        assert_eq!((info.obj, info.birth, info.kind), (id.obj, id.birth, SegmentKind::Index));
    });
    assert!(used_units(&rig) > before + 1500 / 8);
    rig.world.block_on(rig.core.space.drop_segment(&rig.ctx, id.header)).unwrap();
    assert_eq!(used_units(&rig), before);
    let gone = rig.world.block_on(rig.core.space.segment_info(&rig.ctx, id.header));
    assert!(matches!(gone, Err(Error::ObjectGone)));
    // Once more does nothing; a new segment may take the place.
    rig.world.block_on(rig.core.space.drop_segment(&rig.ctx, id.header)).unwrap();
    let again = segment(&rig, 8, SegmentKind::Heap);
    assert_eq!(again.header, id.header);
    assert!(again.birth > id.birth);
}

#[test]
fn two_instances_insert_into_different_blocks() {
    let rig = Rig::new();
    let id = segment(&rig, 7, SegmentKind::Heap);
    let spaces: Vec<Space> =
        (1..=3).map(|k| Space::new(rig.core.cache.clone(), InstanceNo(k))).collect();
    rig.world.block_on(async {
        let mut owners = std::collections::BTreeMap::new();
        for round in 0..200u64 {
            for (k, space) in spaces.iter().enumerate() {
                let dba = space.block_for_insert(&rig.ctx, id, 1000, 1, round, 0).await.unwrap().0;
                assert_eq!(*owners.entry(dba).or_insert(k), k, "{dba} serves two instances");
                space.note_full(id, dba, 0, 0);
            }
        }
        let info = rig.core.space.segment_info(&rig.ctx, id.header).await.unwrap();
        assert!(owners.len() >= 600 && info.hwm < 600 + 3 * 64 + 10, "{}", info.hwm);
        // All blocks handed out are formatted and found by a scan.
        let ranges = rig.core.space.scan_ranges(&rig.ctx, id).await.unwrap();
        for dba in owners.keys() {
            let within = |r: &(Dba, u32)| (r.0.block..r.0.block + r.1).contains(&dba.block);
            assert!(ranges.iter().any(within));
            let own = |b: &[u8]| block::layout::obj(b) == id.obj;
            assert!(rig.core.cache.read(&rig.ctx, *dba, own).await.unwrap());
        }
    });
}

#[test]
fn an_instance_that_comes_back_takes_up_its_claims() {
    let rig = Rig::new();
    let heap = segment(&rig, 7, SegmentKind::Heap);
    let index = segment(&rig, 8, SegmentKind::Index);
    rig.world.block_on(async {
        let hwm = async |id: SegmentId| {
            rig.core.space.segment_info(&rig.ctx, id.header).await.unwrap().hwm
        };
        let first = rig.core.space.block_for_insert(&rig.ctx, heap, 1000, 1, 0, 0).await.unwrap().0;
        let leaf = rig.core.space.alloc_block(&rig.ctx, index.header).await.unwrap();
        let before = (hwm(heap).await, hwm(index).await);
        let space = Space::new(rig.core.cache.clone(), InstanceNo(1));
        let again = space.block_for_insert(&rig.ctx, heap, 1000, 1, 0, 0).await.unwrap().0;
        assert_eq!(again, first, "formatted, and not formatted again");
        let lost = space.alloc_block(&rig.ctx, index.header).await.unwrap();
        assert_eq!(lost, leaf, "it was never formatted");
        assert_eq!((hwm(heap).await, hwm(index).await), before);
    });
}

#[test]
fn room_noted_is_used_before_the_segment_grows() {
    let rig = Rig::new();
    let id = segment(&rig, 7, SegmentKind::Heap);
    let space = &rig.core.space;
    rig.world.block_on(async {
        let mut blocks = Vec::new();
        for _ in 0..300 {
            let dba = space.block_for_insert(&rig.ctx, id, 1000, 1, 0, 0).await.unwrap().0;
            space.note_full(id, dba, 0, 0);
            blocks.push(dba);
        }
        let hwm = space.segment_info(&rig.ctx, id.header).await.unwrap().hwm;
        for dba in &blocks[..250] {
            space.note_room(&rig.ctx, id, *dba, 5000).await.unwrap();
        }
        // Another instance finds what was written down, this one the rest.
        let other = Space::new(rig.core.cache.clone(), InstanceNo(2));
        let mut reused = std::collections::BTreeSet::new();
        for s in [&other, space] {
            for _ in 0..100 {
                let dba = s.block_for_insert(&rig.ctx, id, 1000, 1, 0, 0).await.unwrap().0;
                s.note_full(id, dba, 0, 0);
                reused.insert(dba);
            }
        }
        assert_eq!(reused.len(), 200);
        let now = space.segment_info(&rig.ctx, id.header).await.unwrap().hwm;
        assert_eq!(now, hwm, "there was room enough below");
    });
}

#[test]
fn a_full_group_refuses_and_changes_nothing() {
    let rig = Rig::new();
    let id = segment(&rig, 7, SegmentKind::Index);
    rig.world.block_on(async {
        let space = &rig.core.space;
        let error = loop {
            if let Err(e) = space.alloc_block(&rig.ctx, id.header).await {
                break e;
            }
        };
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        let full = space.segment_info(&rig.ctx, id.header).await.unwrap();
        assert_eq!(full.hwm, full.blocks());
        assert!(space.alloc_block(&rig.ctx, id.header).await.is_err());
        assert_eq!(space.segment_info(&rig.ctx, id.header).await.unwrap(), full);
        rig.core.cache.group.add_lun(None, 32 << 20).await.unwrap();
        space.alloc_block(&rig.ctx, id.header).await.unwrap();
    });
}

#[test]
fn a_claimed_block_is_raw_until_it_is_formatted() {
    let rig = Rig::new();
    let id = segment(&rig, 7, SegmentKind::Heap);
    rig.world.block_on(async {
        let space = &rig.core.space;
        let dba = space.block_for_insert(&rig.ctx, id, 1000, 1, 0, 0).await.unwrap().0;
        let next = Dba::new(dba.file, dba.block + 1);
        assert!(space.is_raw(&rig.ctx, id, next).await.unwrap());
        drop(rig.core.cache.pin(&rig.ctx, next, Mode::S).await.unwrap());
        space.note_full(id, dba, 0, 0);
        space.close(&rig.ctx).await.unwrap();
        assert!(!space.is_raw(&rig.ctx, id, dba).await.unwrap());
        assert!(space.is_raw(&rig.ctx, id, next).await.unwrap());
    });
}
