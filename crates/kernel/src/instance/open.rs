//! Opening and closing an instance.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use block::{BLOCK_BYTES, InstanceNo, Scn};
use disk::{DirectIo, Group, Options};
use env::{Env, Lane};
use observe::{AlertLevel, Ctx, Observer, SessionKind, WaitEvent};

use crate::btree::Finder;
use crate::cache::{Cache, CacheConfig, Dbwr};
use crate::clock::ScnClock;
use crate::dict::{self, OneInstance};
use crate::error::Result;
use crate::params::Parameters;
use crate::recovery;
use crate::redo::{Log, LogConfig};
use crate::space::Space;
use crate::txn::{Core, CoreConfig, Isolation, Transaction};
use crate::undo::{Segment, segments_of};

/// What an instance is opened with.
#[derive(Clone)]
pub struct InstanceConfig {
    pub dir: PathBuf,
    pub me: InstanceNo,
    pub params: Arc<Parameters>,
}

/// How far an instance is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    Starting = 0,
    Recovering = 1,
    Open = 2,
    Closing = 3,
}

/// The sizes `build_core` needs.
pub(super) struct Parts {
    pub cache_blocks: usize,
    pub log_buffer_bytes: usize,
    pub undo_retention_us: u64,
    pub start_scn: Scn,
}

/// Redo a second of recovery is taken to read and apply.
const RECOVERY_BYTES_PER_S: u64 = 40 << 20;

/// Opens the redo thread and builds what stands on it.
pub(super) async fn build_core(
    env: &Env,
    group: &Arc<Group>,
    me: InstanceNo,
    parts: &Parts,
) -> Result<Arc<Core>> {
    let clock = Arc::new(ScnClock::new(parts.start_scn));
    let log_config = LogConfig { buffer_bytes: parts.log_buffer_bytes };
    let log = Log::open(env, group, me, &clock, log_config).await?;
    let cache =
        Cache::new(env, group, &log, &clock, CacheConfig { blocks: parts.cache_blocks });
    let space = Space::new(cache.clone(), me);
    let config = CoreConfig { undo_retention_us: parts.undo_retention_us };
    let core = Core::new(env, me, &cache, space, config);
    core.set_leaf_finder(Arc::new(Finder));
    Ok(core)
}

/// Starts answering for undo segments.
pub(super) async fn load_segments(
    ctx: &Ctx,
    core: &Arc<Core>,
    usns: impl Iterator<Item = u16>,
    own: bool,
) -> Result<()> {
    for usn in usns {
        let segment = Arc::new(Segment::load(ctx, &core.cache, usn).await?);
        core.add_segment(segment, own);
    }
    Ok(())
}

/// One open instance of a database.
pub struct Instance {
    pub core: Arc<Core>,
    pub observer: Arc<Observer>,
    pub params: Arc<Parameters>,
    pub group: Arc<Group>,
    pub me: InstanceNo,
    phase: AtomicU8,
}

impl Instance {
    /// Opens an instance, recovering first what its predecessors left.
    ///
    /// # Errors
    /// The disk group is missing or damaged; the redo cannot be recovered.
    pub async fn open(
        env: &Env,
        observer: &Arc<Observer>,
        config: InstanceConfig,
    ) -> Result<Arc<Instance>> {
        let ctx = observer.ctx(SessionKind::Background, "SMON");
        let params = config.params.clone();
        let direct_io = if params.direct_io() {
            DirectIo::Required
        } else {
            let text = "filesystemio_options allows files without direct I/O";
            ctx.alert(AlertLevel::Warning, text);
            DirectIo::Off
        };
        let options = Options { direct_io, ..Options::default() };
        let group = Group::open_with(env, &config.dir, options).await?;
        let recovered = recovery::recover_all(&ctx, &group).await?;
        let cache_bytes = usize::try_from(params.db_cache_size()).unwrap_or(usize::MAX);
        let parts = Parts {
            cache_blocks: cache_bytes / BLOCK_BYTES,
            log_buffer_bytes: usize::try_from(params.log_buffer()).unwrap_or(1 << 20),
            undo_retention_us: params.undo_retention().saturating_mul(1_000_000),
            start_scn: recovered.max_scn.next(),
        };
        let core = build_core(env, &group, config.me, &parts).await?;
        core.log.start_writer(observer.ctx(SessionKind::Background, "LGWR"));
        let dbwr = Dbwr {
            lag_bytes: params.fast_start_mttr_target().saturating_mul(RECOVERY_BYTES_PER_S),
            interval: Duration::from_millis(100),
        };
        core.cache.start_dbwr(observer.ctx(SessionKind::Background, "DBWR"), config.me, dbwr);
        // Alone: this instance answers for every segment; new transactions use its own.
        for k in 1..=block::INSTANCES_MAX {
            let k = InstanceNo(k);
            load_segments(&ctx, &core, segments_of(k), k == config.me).await?;
        }
        dict::open(&ctx, &core, Arc::new(OneInstance)).await?;
        let instance = Arc::new(Instance {
            core,
            observer: observer.clone(),
            params,
            group,
            me: config.me,
            phase: AtomicU8::new(Phase::Starting as u8),
        });
        instance.start_smon(ctx);
        instance.phase.store(Phase::Open as u8, Ordering::SeqCst);
        Ok(instance)
    }

    /// Rolls back, in the background, what was active when an earlier life ended.
    fn start_smon(self: &Arc<Instance>, ctx: Ctx) {
        let core = self.core.clone();
        let env = core.env.clone();
        env.spawn_task("SMON", Lane::Background, async move {
            loop {
                let mut left = 0;
                for segment in core.all_segments() {
                    for xid in segment.left_by_crash() {
                        if let Err(e) = core.roll_back_dead(&ctx, &segment, xid).await {
                            left += 1;
                            let text = format!("cannot roll back transaction {xid} yet: {e}");
                            ctx.alert(AlertLevel::Warning, text);
                        }
                    }
                }
                if left == 0 {
                    // Segments of the transactions that were rolled back belong to nobody now.
                    if let Err(e) = dict::free_orphans(&ctx, &core).await {
                        ctx.alert(AlertLevel::Warning, format!("free dropped segments: {e}"));
                    }
                    return;
                }
                ctx.sleep(WaitEvent::SmonTimer, Duration::from_secs(1)).await;
            }
        });
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Starting,
            1 => Phase::Recovering,
            2 => Phase::Open,
            _ => Phase::Closing,
        }
    }

    /// Begins a transaction of the session.
    #[must_use]
    pub fn begin(&self, ctx: &Ctx, isolation: Isolation) -> Arc<Transaction> {
        Transaction::begin(&self.core, isolation, Scn(ctx.session.commit_floor()))
    }

    /// A context for a new user session.
    #[must_use]
    pub fn user_ctx(&self, program: &str) -> Ctx {
        self.observer.ctx(SessionKind::User, program)
    }

    /// Closes the instance: everything to disk, the redo thread closed.
    ///
    /// # Errors
    /// A disk error: the next start recovers.
    pub async fn close(&self) -> Result<()> {
        self.phase.store(Phase::Closing as u8, Ordering::SeqCst);
        let ctx = self.observer.ctx(SessionKind::Background, "shutdown");
        self.core.space.close(&ctx).await?;
        self.core.cache.checkpoint_all(&ctx, self.me).await?;
        self.core.log.close(&ctx).await
    }
}
