use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{BLOCK_BYTES, Dba};
use env::simulated::{DiskFault, FaultKind, SimConfig, SimWorld};
use env::{Env, IoBuf};

use crate::meta::{Au, FileMeta, LunHeader, LunMeta, Meta};
use crate::*;

const DIR: &str = "/db";
const MIB: u64 = 1 << 20;

fn world(seed: u64) -> SimWorld {
    SimWorld::new(seed, SimConfig::default())
}

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn block_of(byte: u8) -> IoBuf {
    IoBuf::copy_from(&[byte; BLOCK_BYTES])
}

async fn create(env: &Env, luns: u16, mib: u64) -> Arc<Group> {
    Group::create(env, dir(), luns, mib * MIB).await.unwrap()
}

async fn open(env: &Env) -> Result<Arc<Group>> {
    Group::open(env, dir(), DirectIo::Required).await
}

#[test]
fn what_is_written_is_read_back_across_units_luns_and_openings() {
    let world = world(1);
    let env = world.env(1);
    world.block_on(async {
        let group = create(&env, 3, 10).await;
        group.create_file(4, 500).await.unwrap();
        group.create_file(3, 10).await.unwrap();
        let mut many = IoBuf::zeroed(300 * BLOCK_BYTES);
        for (i, block) in many.chunks_mut(BLOCK_BYTES).enumerate() {
            block.fill((i % 251) as u8 + 1);
        }
        group.write_blocks(4, 100, many.clone()).await.unwrap();
        group.write_block(Dba::new(3, 9), block_of(77)).await.unwrap();
        let group = open(&env).await.unwrap();
        assert_eq!(group.files(), [(3, 10), (4, 500)]);
        assert_eq!(group.read_blocks(4, 100, 300).await.unwrap()[..], many[..]);
        let one = group.read_block(Dba::new(4, 228)).await.unwrap();
        assert!(one.iter().all(|b| *b == 129));
        assert!(group.read_block(Dba::new(3, 9)).await.unwrap().iter().all(|b| *b == 77));
        assert!(group.read_block(Dba::new(4, 400)).await.unwrap().iter().all(|b| *b == 0));
        let luns: Vec<_> =
            (0..4).map(|au| group.locate(Dba::new(4, au * AU_BLOCKS)).unwrap().0).collect();
        assert!(luns[0] != luns[1] && luns[1] != luns[2] && luns[0] != luns[2], "{luns:?}");
        assert_eq!(luns[0], luns[3]);
    });
}

#[test]
fn redo_is_written_by_byte_offset() {
    let world = world(2);
    let env = world.env(1);
    world.block_on(async {
        let group = create(&env, 2, 8).await;
        group.create_file(80, 256).await.unwrap();
        group.write_at(80, MIB - 4096, IoBuf::copy_from(&[5; 12288])).await.unwrap();
        let back = group.read_at(80, MIB - 8192, 20480).await.unwrap();
        assert!(back[..4096].iter().all(|b| *b == 0) && back[16384..].iter().all(|b| *b == 0));
        assert!(back[4096..16384].iter().all(|b| *b == 5));
        let end = group.write_at(80, 2 * MIB - 4096, IoBuf::zeroed(8192)).await;
        assert!(matches!(end, Err(Error::BeyondEnd { file: 80, block: 256, blocks: 256 })));
        let odd = group.write_at(80, 512, IoBuf::zeroed(4096)).await;
        assert!(matches!(odd, Err(Error::BadSize(_))));
    });
}

#[test]
fn another_instances_extension_is_learned_when_needed() {
    let world = world(3);
    let (one, two) = (world.env(1), world.env(2));
    world.block_on(async {
        let a = create(&one, 2, 8).await;
        a.create_file(4, 10).await.unwrap();
        let b = open(&two).await.unwrap();
        assert_eq!(a.extend_file(4, 200).await.unwrap(), 210);
        a.write_block(Dba::new(4, 209), block_of(1)).await.unwrap();
        assert_eq!(b.file_blocks(4), Some(10));
        assert_eq!(b.read_block(Dba::new(4, 209)).await.unwrap()[0], 1);
        assert_eq!(b.file_blocks(4), Some(210));
        a.create_file(5, 1).await.unwrap();
        assert_eq!(b.read_block(Dba::new(5, 0)).await.unwrap()[0], 0);
        assert!(matches!(b.create_file(5, 1).await, Err(Error::FileExists(5))));
        assert!(matches!(b.extend_file(6, 1).await, Err(Error::NoSuchFile(6))));
        let beyond = b.read_block(Dba::new(4, 210)).await;
        assert!(matches!(beyond, Err(Error::BeyondEnd { file: 4, block: 210, blocks: 210 })));
    });
}

#[test]
fn concurrent_extensions_by_three_instances_all_count_and_share_no_unit() {
    for seed in 0..5 {
        let world = world(seed);
        let envs = [world.env(1), world.env(2), world.env(3)];
        world.block_on(async {
            let a = create(&envs[0], 3, 40).await;
            for file in 1..=3 {
                a.create_file(file, 1).await.unwrap();
            }
        });
        for (i, env) in envs.iter().enumerate() {
            let task_env = env.clone();
            env.spawn_task("extend", env::Lane::Background, async move {
                let group = open(&task_env).await.unwrap();
                for n in 0..9 {
                    let file = (n + i) % 3 + 1;
                    group.extend_file(file as u16, 128).await.unwrap();
                }
            });
        }
        world.run_for(Duration::from_secs(20));
        let group = world.block_on(open(&envs[0])).unwrap();
        assert_eq!(group.files(), [(1, 1153), (2, 1153), (3, 1153)]);
        let mut places: Vec<_> = (1..=3)
            .flat_map(|f| (0..=9).map(move |au| Dba::new(f, au * AU_BLOCKS)))
            .map(|dba| group.locate(dba).unwrap())
            .collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), 30, "seed {seed}");
    }
}

#[test]
fn a_full_group_says_so_changes_nothing_and_goes_on_with_one_more_lun() {
    let world = world(4);
    let (one, two) = (world.env(1), world.env(2));
    world.block_on(async {
        let group = create(&one, 2, 5).await;
        let other = open(&two).await.unwrap();
        group.create_file(4, 3 * AU_BLOCKS).await.unwrap();
        let full = group.extend_file(4, 2 * AU_BLOCKS).await;
        assert!(matches!(full, Err(Error::Full { wanted_aus: 2, free_aus: 1 })), "{full:?}");
        assert_eq!(group.file_blocks(4), Some(3 * AU_BLOCKS));
        // An attempt that fails half-way is in nobody's way.
        let no_space = DiskFault {
            instance: Some(1),
            path_contains: "lun2".to_owned(),
            kind: FaultKind::Full,
            probability: 1.0,
        };
        world.set_fault(no_space);
        assert!(matches!(group.add_lun(None, 6 * MIB).await, Err(Error::Io { .. })));
        world.clear_faults();
        assert_eq!(group.add_lun(None, 6 * MIB).await.unwrap(), 2);
        let free: Vec<u64> = group.luns().iter().map(|l| l.free_bytes / MIB).collect();
        assert_eq!(free.iter().sum::<u64>(), 4);
        group.extend_file(4, 4 * AU_BLOCKS).await.unwrap();
        group.write_block(Dba::new(4, 7 * AU_BLOCKS - 1), block_of(9)).await.unwrap();
        assert_eq!(other.read_block(Dba::new(4, 7 * AU_BLOCKS - 1)).await.unwrap()[0], 9);
        assert_eq!(other.luns().len(), 3);
        assert!(matches!(other.extend_file(4, 1).await, Err(Error::Full { .. })));
    });
}

#[test]
fn missing_truncated_foreign_and_damaged_luns_are_named() {
    let lun1 = Path::new("/db/luns/lun1");
    let broken = |harm: &dyn Fn(&SimWorld)| {
        let world = world(5);
        let env = world.env(1);
        world.block_on(create(&env, 2, 8));
        harm(&world);
        let error = world.block_on(open(&env)).err().expect("a broken group is refused");
        assert!(error.to_string().contains("/db/luns/lun1"), "{error}");
        error
    };
    let error = broken(&|w| assert!(w.remove_file(lun1)));
    assert!(matches!(error, Error::Missing { lun: 1, .. }));
    let error = broken(&|w| w.truncate_file(lun1, 7 * MIB));
    assert!(matches!(error, Error::Truncated { lun: 1, .. }));
    let error = broken(&|w| w.truncate_file(lun1, 0));
    assert!(matches!(error, Error::Truncated { lun: 1, .. }));
    let error = broken(&|w| w.corrupt_file(lun1, 0, 8));
    assert!(matches!(error, Error::Foreign { lun: 1, .. }));
    let error = broken(&|w| w.corrupt_file(lun1, 38, 1));
    assert!(matches!(error, Error::Foreign { lun: 1, why: "its header fails the checksum", .. }));
    let error = broken(&|w| {
        // A LUN of another group, of the same number and size.
        w.remove_file(lun1);
        let env = w.env(2);
        let header = LunHeader { id: [9; 16], lun: 1, size_aus: 8 };
        let options = env::OpenOptions { create_new: true, direct: true, dsync: true };
        let file = env.open(lun1, options).unwrap();
        file.allocate(8 * MIB).unwrap();
        w.block_on(file.write_at(0, IoBuf::copy_from(&header.encode()))).0.unwrap();
    });
    let why = "it belongs to another disk group";
    assert!(matches!(error, Error::Foreign { lun: 1, why: w, .. } if w == why));
}

#[test]
fn create_refuses_a_used_folder_and_open_an_empty_one() {
    let world = world(6);
    let env = world.env(1);
    world.block_on(async {
        assert!(matches!(open(&env).await, Err(Error::Missing { lun: 0, .. })));
        create(&env, 1, 8).await;
        let again = Group::create(&env, dir(), 1, 8 * MIB).await;
        assert!(matches!(again, Err(Error::Exists(_))));
        let small = Group::create(&env, Path::new("/other"), 1, 3 * MIB).await;
        assert!(matches!(small, Err(Error::BadSize(_))));
    });
}

#[test]
fn refused_direct_io_is_said_and_can_be_done_without() {
    let world = SimWorld::new(7, SimConfig { refuse_direct: true, ..SimConfig::default() });
    let env = world.env(1);
    world.block_on(async {
        let refused = Group::create(&env, dir(), 1, 8 * MIB).await;
        assert!(matches!(refused, Err(Error::DirectIoRefused { .. })));
        let options = Options { direct_io: DirectIo::Off, dsync: true };
        Group::create_with(&env, Path::new("/two"), 1, 8 * MIB, options).await.unwrap();
        assert!(Group::open(&env, Path::new("/two"), DirectIo::Off).await.is_ok());
        let refused = Group::open(&env, Path::new("/two"), DirectIo::Required).await;
        assert!(matches!(refused, Err(Error::DirectIoRefused { .. })));
    });
}

#[test]
fn a_crash_at_any_moment_of_a_layout_change_leaves_the_old_or_the_new_layout() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..60 {
        let world = world(seed);
        let (one, two) = (world.env(1), world.env(2));
        world.block_on(async {
            let group = create(&one, 2, 20).await;
            group.create_file(4, 100).await.unwrap();
            group.extend_file(4, 100).await.unwrap();
        });
        let task_env = one.clone();
        one.spawn_task("extend", env::Lane::Background, async move {
            let group = open(&task_env).await.unwrap();
            let _ = group.extend_file(4, 1000).await;
        });
        world.run_for(Duration::from_micros(seed * 80));
        world.crash(1);
        world.block_on(async {
            let group = open(&two).await.unwrap();
            match group.file_blocks(4) {
                Some(200) => old += 1,
                Some(1200) => new += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
            // The lock fell with its holder, and the next change goes on from what is there.
            let before = group.file_blocks(4).unwrap();
            assert_eq!(group.extend_file(4, 1).await.unwrap(), before + 1);
            assert_eq!(open(&two).await.unwrap().file_blocks(4), Some(before + 1));
        });
    }
    assert!(old > 5 && new > 5, "old {old}, new {new}");
}

/// What another instance is just writing can be read, and is lost if that one ends.
#[test]
fn a_layout_on_its_way_to_the_disk_is_not_relied_on() {
    let mut new = 0;
    for seed in 0..200 {
        let world = world(seed);
        let (one, two, three) = (world.env(1), world.env(2), world.env(3));
        let known = world.block_on(async {
            let group = create(&one, 2, 20).await;
            group.create_file(4, 100).await.unwrap();
            open(&two).await.unwrap()
        });
        let task_env = one.clone();
        one.spawn_task("extend", env::Lane::Background, async move {
            let group = open(&task_env).await.unwrap();
            let _ = group.extend_file(4, 1000).await;
        });
        let looker = known.clone();
        let slow = FaultKind::SlowWritesUs(2_000);
        let path_contains = String::new();
        let fault = DiskFault { instance: Some(1), path_contains, kind: slow, probability: 1.0 };
        world.set_fault(fault);
        world.run_for(Duration::from_micros(500 + seed * 20));
        two.spawn_task("refresh", env::Lane::Background, async move {
            looker.refresh().await.unwrap();
        });
        world.run_for(Duration::from_micros(400));
        world.crash(1);
        world.run_for(Duration::from_millis(20));
        let real = world.block_on(open(&three)).unwrap().file_blocks(4);
        let believed = known.file_blocks(4);
        assert!(believed <= real, "seed {seed}: {believed:?}, and the disks say {real:?}");
        new += usize::from(real == Some(1100));
    }
    assert!((20..180).contains(&new), "{new} of 200 survived the crash: the test proves nothing");
}

#[test]
fn a_damaged_copy_on_lun_0_is_replaced_by_a_mirror() {
    let world = world(8);
    let env = world.env(1);
    world.block_on(async {
        let group = create(&env, 2, 8).await;
        group.create_file(4, 100).await.unwrap();
        group.create_file(5, 100).await.unwrap();
        for au in [1, 2] {
            world.corrupt_file(Path::new("/db/luns/lun0"), au * MIB, 4096);
        }
        group.refresh().await.unwrap();
        group.extend_file(4, 1).await.unwrap();
        assert_eq!(open(&env).await.unwrap().files(), [(4, 101), (5, 100)]);
    });
}

#[test]
fn an_io_error_names_file_block_lun_and_offset() {
    let world = world(9);
    let env = world.env(1);
    world.block_on(async {
        let group = create(&env, 2, 8).await;
        group.create_file(4, 300).await.unwrap();
        for kind in [FaultKind::ReadError, FaultKind::WriteError] {
            let fault = DiskFault {
                instance: None,
                path_contains: "lun".to_owned(),
                kind,
                probability: 1.0,
            };
            world.set_fault(fault);
        }
        let (path, offset) = group.locate(Dba::new(4, 129)).unwrap();
        let read = group.read_block(Dba::new(4, 129)).await.unwrap_err().to_string();
        let write = group.write_block(Dba::new(4, 129), block_of(1)).await.unwrap_err().to_string();
        for text in [read, write] {
            assert!(text.contains("block 4.129"), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert!(text.contains(&format!("offset {offset}")), "{text}");
        }
    });
}

#[test]
fn without_dsync_only_sync_makes_writes_durable() {
    let (mut lost, options) = (0, Options { direct_io: DirectIo::Required, dsync: false });
    for seed in 0..10 {
        let world = world(seed);
        let (one, two) = (world.env(1), world.env(2));
        world.block_on(async {
            let group = Group::create_with(&one, dir(), 2, 8 * MIB, options).await.unwrap();
            group.create_file(4, 300).await.unwrap();
            group.write_block(Dba::new(4, 1), block_of(1)).await.unwrap();
            group.sync().await.unwrap();
            group.write_block(Dba::new(4, 2), block_of(2)).await.unwrap();
        });
        world.crash(1);
        world.block_on(async {
            let group = open(&two).await.unwrap();
            assert!(group.read_block(Dba::new(4, 1)).await.unwrap().iter().all(|b| *b == 1));
            let second = group.read_block(Dba::new(4, 2)).await.unwrap();
            lost += usize::from(second.iter().any(|b| *b != 2));
        });
    }
    assert!(lost > 2, "{lost}");
}

#[test]
fn metadata_bytes_round_trip_and_damage_is_found() {
    let aus = vec![Au { lun: 1, au: 3 }, Au { lun: 0, au: 4 }];
    let meta = Meta {
        id: [7; 16],
        sequence: 12,
        luns: vec![
            LunMeta { path: "luns/lun0".to_owned(), size_aus: 9 },
            LunMeta { path: "/dev/x".to_owned(), size_aus: 5 },
        ],
        files: [(4, FileMeta { blocks: 130, aus })].into(),
    };
    let bytes = meta.encode().unwrap();
    assert_eq!(Meta::decode(&bytes), Some(meta));
    for i in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[i] ^= 0x10;
        assert_eq!(Meta::decode(&bad), None, "byte {i}");
        assert_eq!(Meta::decode(&bytes[..i]), None, "cut at {i}");
    }
    let header = LunHeader { id: [3; 16], lun: 2, size_aus: 77 };
    assert_eq!(LunHeader::decode(&header.encode()), Ok(header));
}

#[test]
fn a_group_on_real_files_works_too() {
    let scratch = std::env::current_dir()
        .expect("the folder of the package")
        .join("../../target")
        .join(format!("disk-test-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let env = env::real::RealEnv::new();
    let work = async {
        let group = Group::create(&env, &scratch, 2, 8 * MIB).await?;
        group.create_file(4, 300).await?;
        let mut many = IoBuf::zeroed(200 * BLOCK_BYTES);
        many.fill(42);
        group.write_blocks(4, 50, many).await?;
        let group = Group::open(&env, &scratch, DirectIo::Required).await?;
        let back = group.read_blocks(4, 50, 200).await?;
        assert!(back.iter().all(|b| *b == 42));
        group.extend_file(4, 10).await
    };
    let result = futures::executor::block_on(work);
    std::fs::remove_dir_all(&scratch).unwrap();
    assert_eq!(result.unwrap(), 310);
}

#[test]
fn trouble_slows_all_and_fails_one_lun_until_it_is_over() {
    let world = world(3);
    let env = world.env(1);
    world.block_on(async {
        let group = create(&env, 2, 10).await;
        group.create_file(4, 2 * AU_BLOCKS).await.unwrap();
        let of_lun = |lun: &str| {
            let at = |au: &u32| group.locate(Dba::new(4, au * AU_BLOCKS)).unwrap().0;
            (0..2).find(|au| at(au).ends_with(lun)).map(|au| Dba::new(4, au * AU_BLOCKS)).unwrap()
        };
        let (good, bad) = (of_lun("lun0"), of_lun("lun1"));
        group.set_trouble(50_000, Some(1));
        let begin = env.now();
        group.write_block(good, block_of(1)).await.unwrap();
        assert!(env.now().since(begin) >= 50_000, "{}", env.now().since(begin));
        for failed in [
            group.write_block(bad, block_of(2)).await.unwrap_err(),
            group.read_block(bad).await.map(drop).unwrap_err(),
        ] {
            assert!(failed.to_string().contains("lun1"), "{failed}");
        }
        group.set_trouble(0, None);
        // What failed was not done.
        assert!(group.read_block(bad).await.unwrap().iter().all(|b| *b == 0));
        assert!(group.read_block(good).await.unwrap().iter().all(|b| *b == 1));
    });
}
