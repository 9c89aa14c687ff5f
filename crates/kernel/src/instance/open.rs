//! Opening and closing an instance.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::{BLOCK_BYTES, InstanceNo, Scn};
use cluster::machine::Reconfiguration;
use cluster::membership::voting_path;
use cluster::{
    Claim, Interconnect, InterconnectConfig, Membership, MembershipConfig, MembershipEvent, Started,
};
use disk::{DirectIo, Group, Options};
use env::{Env, Lane};
use observe::{AlertLevel, Ctx, Observer, SessionKind, WaitEvent};

use crate::btree::Finder;
use crate::cache::{Cache, CacheConfig, Dbwr};
use crate::clock::ScnClock;
use crate::dict::{self, ObjectDef};
use crate::error::{Error, Result};
use crate::gcs::{Network, Node, NodeConfig};
use crate::params::{ParamError, Parameters, SettingsFile};
use crate::recovery;
use crate::redo::{Log, LogConfig, read_thread};
use crate::space::Space;
use crate::txn::{Core, CoreConfig, Isolation, ScnTimes, Transaction};
use crate::undo::{Segment, UndoHistory};

/// What an instance is opened with.
#[derive(Clone)]
pub struct InstanceConfig {
    pub dir: PathBuf,
    pub me: InstanceNo,
    pub params: Arc<Parameters>,
    /// What instances prove to each other that they belong together with.
    pub secret: [u8; 32],
    /// Where the interconnect listens; port 0 takes a free one.
    pub interconnect: String,
    pub membership: MembershipConfig,
}

/// The sizes `build_core` needs.
pub(super) struct Parts {
    pub cache_blocks: usize,
    pub log_buffer_bytes: usize,
    pub undo_retention_us: u64,
    pub itl_entries_max: u8,
    pub start_scn: Scn,
    /// Others of the machine may look into its memory.
    pub shown: bool,
}

/// Redo a second of recovery is taken to read and apply.
const RECOVERY_BYTES_PER_S: u64 = 40 << 20;

/// Builds what stands on the redo thread, which is yet to be begun.
pub(super) async fn build_core(
    env: &Env,
    group: &Arc<Group>,
    me: InstanceNo,
    parts: &Parts,
) -> Result<Arc<Core>> {
    let clock = Arc::new(ScnClock::new(parts.start_scn));
    let log_config = LogConfig { buffer_bytes: parts.log_buffer_bytes };
    let log = Log::prepare(env, group, me, &clock, log_config).await?;
    let cache = Cache::new(
        env,
        group,
        &log,
        &clock,
        CacheConfig { blocks: parts.cache_blocks, shown: parts.shown },
    );
    let space = Space::new(cache.clone(), me);
    let config = CoreConfig {
        undo_retention_us: parts.undo_retention_us,
        itl_entries_max: parts.itl_entries_max,
    };
    let core = Core::new(env, me, &cache, space, config);
    core.set_leaf_finder(Arc::new(Finder));
    Ok(core)
}

/// Hands the parameters that may change while the instance runs to those who go by them.
fn apply_settings(core: &Core, params: &Parameters) {
    core.set_undo_retention_us(params.undo_retention().saturating_mul(1_000_000));
    let lag_bytes = params.fast_start_mttr_target().saturating_mul(RECOVERY_BYTES_PER_S);
    core.cache.set_lag_bytes(lag_bytes);
    core.log.set_flush_delay_us(params._lgwr_flush_delay_us());
    let failing = params._disk_failing_lun().checked_sub(1);
    core.cache.group.set_trouble(params._disk_delay_us(), failing);
}

/// Starts answering for undo segments.
pub(super) async fn load_segments(
    ctx: &Ctx,
    core: &Arc<Core>,
    usns: impl Iterator<Item = u16>,
    own: bool,
) -> Result<()> {
    for usn in usns {
        let segment = Arc::new(Segment::load(ctx, &core.cache, usn, own).await?);
        core.add_segment(segment, own);
    }
    Ok(())
}

/// Takes the instance's slot and asks to be let into the cluster; returns when it is a member.
async fn join(
    env: &Env,
    config: &InstanceConfig,
    direct: bool,
) -> Result<(Network, Reconfiguration, u64)> {
    let path = voting_path(&config.dir);
    let claim = Claim::take_as(env, &path, config.me, direct, &config.membership).await?;
    let incarnation = claim.incarnation();
    let Started { interconnect, inboxes, broken } = Interconnect::start(
        env,
        config.me,
        incarnation,
        config.secret,
        &config.interconnect,
        InterconnectConfig::default(),
    )
    .await?;
    let (sender, mut events) = tokio::sync::mpsc::channel(64);
    let published = config.params.interconnect_published();
    let addr = if published.is_empty() { interconnect.addr().to_owned() } else { published };
    let membership = Membership::start(claim, &addr, "", config.membership, sender)?;
    membership.probe_through(&interconnect);
    loop {
        match events.recv().await {
            Some(MembershipEvent::Joined(first)) => {
                let network = Network { interconnect, inboxes, broken, membership, events };
                return Ok((network, first, incarnation));
            }
            Some(MembershipEvent::Evicted { reason }) => {
                return Err(Error::Disk(format!("not let into the cluster: {reason}")));
            }
            Some(_) => {}
            None => return Err(Error::Closing),
        }
    }
}

/// One open instance of a database.
pub struct Instance {
    pub core: Arc<Core>,
    pub node: Arc<Node>,
    pub observer: Arc<Observer>,
    pub params: Arc<Parameters>,
    pub group: Arc<Group>,
    pub me: InstanceNo,
    /// What became of undo, for `v$undostat`.
    pub undo_history: UndoHistory,
    /// Which SCN was current when.
    pub scn_times: ScnTimes,
    settings_file: OnceLock<Arc<dyn SettingsFile>>,
    closing: AtomicBool,
    /// Held by a background task of the layers above while it has a transaction: closing waits
    /// for it.
    pub background_turn: tokio::sync::Mutex<()>,
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
        let direct = direct_io == DirectIo::Required;
        // From here to the end of the epoch change the others wait: what can be done before is.
        let group = Group::open_with(env, &config.dir, options).await?;
        let (network, first, incarnation) = join(env, &config, direct).await?;
        let members: Vec<InstanceNo> = first.members.iter().map(|m| m.instance).collect();
        let sole = members == [config.me];
        let start_scn = if sole {
            // The first instance up recovers all threads; nobody else is admitted meanwhile.
            recovery::recover_all(&ctx, &group).await?.max_scn
        } else {
            // Its own thread has been recovered before it was let in.
            read_thread(&group, config.me).await?.1.scn
        };
        let cache_bytes = usize::try_from(params.db_cache_size()).unwrap_or(usize::MAX);
        let cache_blocks = match params._db_block_buffers() {
            0 => cache_bytes / BLOCK_BYTES,
            blocks => blocks,
        };
        let parts = Parts {
            cache_blocks,
            itl_entries_max: params._itl_entries_max(),
            log_buffer_bytes: usize::try_from(params.log_buffer()).unwrap_or(1 << 20),
            undo_retention_us: params.undo_retention().saturating_mul(1_000_000),
            start_scn: start_scn.next(),
            shown: params._gc_direct_reads(),
        };
        let core = build_core(env, &group, config.me, &parts).await?;
        core.set_deadline(network.membership.deadline());
        core.cache.set_alone(sole);
        apply_settings(&core, &params);
        let node = Node::start(
            NodeConfig { me: config.me, incarnation, looks: params._gc_direct_reads() },
            observer,
            &core,
            network,
        );
        let epoch = first.epoch;
        node.reconfigure(first).await;
        core.log.begin().await?;
        core.log.start_writer(observer.ctx(SessionKind::Background, "LGWR"));
        let dbwr = Dbwr { interval: Duration::from_micros(params._dbwr_interval_us()) };
        core.cache.start_dbwr(observer.ctx(SessionKind::Background, "DBWR"), config.me, dbwr);
        node.wait_settled().await;
        node.wait_segments_of(epoch).await;
        core.begin_life(&ctx).await?;
        dict::open(&ctx, &core, node.object_locks()).await?;
        let instance = Arc::new(Instance {
            core,
            node: node.clone(),
            observer: observer.clone(),
            params,
            group,
            me: config.me,
            undo_history: UndoHistory::default(),
            scn_times: ScnTimes::default(),
            settings_file: OnceLock::new(),
            closing: AtomicBool::new(false),
            background_turn: tokio::sync::Mutex::new(()),
        });
        let left = dict::left_temporary(&ctx, &instance.core).await?;
        instance.start_smon(ctx, left);
        node.membership.set_open();
        Ok(instance)
    }

    /// Notes which SCN is current now.
    pub fn note_scn(&self) {
        self.scn_times.note(self.core.env.wall_us(), self.core.current_scn());
    }

    /// Frees, in the background, what an earlier life left.
    fn start_smon(self: &Arc<Instance>, ctx: Ctx, left: Vec<ObjectDef>) {
        let core = self.core.clone();
        let env = core.env.clone();
        env.spawn_task("SMON", Lane::Background, async move {
            // Segments of transactions that were rolled back, or that ended unseen, belong to
            // nobody.
            loop {
                // First what was active when an earlier life ended must be rolled back.
                while core.all_segments().iter().any(|s| !s.left_by_crash().is_empty()) {
                    ctx.sleep(WaitEvent::SmonTimer, Duration::from_millis(100)).await;
                }
                let done = match dict::drop_left(&ctx, &core, &left).await {
                    Ok(()) => dict::free_orphans(&ctx, &core).await,
                    Err(e) => Err(e),
                };
                match done {
                    Ok(_) | Err(Error::Closing) => return,
                    Err(e) => {
                        ctx.alert(AlertLevel::Warning, format!("free dropped segments: {e}"));
                    }
                }
                ctx.sleep(WaitEvent::SmonTimer, Duration::from_secs(5)).await;
            }
        });
    }

    /// Whether [`Instance::close`] has begun; until then it is open.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Changes a parameter of the running instance (`alter system set`).
    ///
    /// # Errors
    /// Unknown name, a value its kind does not allow, or one that only `skein.toml` sets.
    pub fn alter_system(&self, name: &str, value: &str) -> std::result::Result<(), ParamError> {
        self.params.alter_system(name, value)?;
        apply_settings(&self.core, &self.params);
        Ok(())
    }

    /// Tells where parameters are kept over restarts; once, before sessions begin.
    pub fn set_settings_file(&self, file: Arc<dyn SettingsFile>) {
        let _ = self.settings_file.set(file);
    }

    /// Where parameters are kept over restarts; `None`: nowhere.
    #[must_use]
    pub fn settings_file(&self) -> Option<&Arc<dyn SettingsFile>> {
        self.settings_file.get()
    }

    /// Begins a transaction of the session.
    #[must_use]
    pub fn begin(&self, ctx: &Ctx, isolation: Isolation) -> Arc<Transaction> {
        let txn = Transaction::begin(&self.core, isolation, Scn(ctx.session.commit_floor()));
        ctx.session.set_transaction(txn.local_id());
        txn
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
        self.closing.store(true, Ordering::SeqCst);
        let ctx = self.observer.ctx(SessionKind::Background, "shutdown");
        // What is changed after the checkpoint below would be in no redo that a recovery reads.
        let turn = self.background_turn.lock();
        let _turn = ctx.wait(WaitEvent::RdbmsIpcReply, [0; 3], turn).await;
        self.core.space.close(&ctx).await?;
        self.core.cache.checkpoint_all(&ctx, self.me).await?;
        self.core.log.close(&ctx).await?;
        self.node.membership.leave().await.map_err(|e| Error::Disk(e.to_string()))
    }
}
