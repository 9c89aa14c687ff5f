//! One instance's transactions and space on a simulated disk group, without an instance around it:
//! for tests of the modules below `instance`.

use std::path::Path;
use std::sync::Arc;

use block::InstanceNo;
use env::simulated::{SimConfig, SimWorld};
use observe::{Ctx, Observer, SessionKind};

use crate::cache::{Cache, CacheConfig, DW_BLOCKS, DW_FILE, Dbwr};
use crate::clock::ScnClock;
use crate::error::Result;
use crate::redo::{CONTROL_BLOCKS, CONTROL_FILE, Log, LogConfig, log_file_no};
use crate::space::{DATA_FILE, Space, UNDO_FILE};
use crate::txn::{Core, CoreConfig, Isolation, Transaction};
use crate::undo::{self, UNDO_HEADER_FILE};

pub struct Rig {
    pub world: SimWorld,
    pub observer: Arc<Observer>,
    pub ctx: Ctx,
    pub core: Arc<Core>,
}

/// How a rig is made.
pub struct RigConfig {
    pub seed: u64,
    pub lun_mib: u64,
    pub cache_blocks: usize,
}

impl Default for RigConfig {
    fn default() -> RigConfig {
        RigConfig { seed: 1, lun_mib: 256, cache_blocks: 4096 }
    }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(&RigConfig::default())
    }

    pub fn with(config: &RigConfig) -> Rig {
        let world = SimWorld::new(config.seed, SimConfig::default());
        let env = world.env(1);
        let observer = Observer::new(env.clone(), 1);
        let ctx = observer.ctx(SessionKind::User, "test");
        let core = world.block_on(open(&env, &ctx, &observer, config)).expect("the rig opens");
        Rig { world, observer, ctx, core }
    }

    pub fn begin(&self) -> Arc<Transaction> {
        self.begin_at(Isolation::ReadCommitted)
    }

    pub fn begin_at(&self, isolation: Isolation) -> Arc<Transaction> {
        Transaction::begin(&self.core, isolation, self.core.current_scn())
    }

    pub fn session(&self, name: &str) -> Ctx {
        self.observer.ctx(SessionKind::User, name)
    }
}

async fn open(
    env: &env::Env,
    ctx: &Ctx,
    observer: &Arc<Observer>,
    config: &RigConfig,
) -> Result<Arc<Core>> {
    let me = InstanceNo(1);
    let group = disk::Group::create(env, Path::new("/db"), 1, config.lun_mib << 20).await?;
    group.create_file(CONTROL_FILE, CONTROL_BLOCKS).await?;
    group.create_file(DW_FILE, 8 * (DW_BLOCKS + 1)).await?;
    for file in [UNDO_FILE, DATA_FILE, UNDO_HEADER_FILE] {
        group.create_file(file, 128).await?;
    }
    for idx in 0..3 {
        group.create_file(log_file_no(me, idx), 2048).await?;
    }
    let clock = Arc::new(ScnClock::new(block::Scn(100)));
    let log = Log::open(env, &group, me, &clock, LogConfig { buffer_bytes: 4 << 20 }).await?;
    let background = |name| observer.ctx(SessionKind::Background, name);
    log.start_writer(background("LGWR"));
    let cache = Cache::new(env, &group, &log, &clock, CacheConfig { blocks: config.cache_blocks });
    let interval = std::time::Duration::from_millis(100);
    cache.start_dbwr(background("DBWR"), me, Dbwr { lag_bytes: 2 << 20, interval });
    let space = Space::new(cache.clone(), me);
    for file in [UNDO_FILE, DATA_FILE] {
        space.format_file(ctx, file).await?;
    }
    let core = Core::new(env, me, &cache, space, CoreConfig { undo_retention_us: 0 });
    for usn in undo::segments_of(me) {
        undo::format_header(ctx, &cache, usn).await?;
        core.add_segment(Arc::new(undo::Segment::load(ctx, &cache, usn).await?), true);
    }
    Ok(core)
}
