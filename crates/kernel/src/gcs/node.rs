//! The node: what it is made of, and how it sends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use block::{BLOCK_BYTES, Dba, InstanceNo, Mode, Scn, Version};
use cluster::{Class, Interconnect, Membership, MembershipEvent};
use disk::Group;
use env::Env;
use env::latch::Latch;
use global::msg::{Envelope, Frame, GcsMessage, Message, ReqId, TxnMessage, encode_frame};
use global::{Epoch, EpochMachine, Master, MasterMap, Rebuild};
use observe::{Ctx, Observer, SessionKind, Stat, WaitEvent};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, oneshot};

use super::direct::Looks;
use super::enqueues::Enqueues;
use super::own::Own;
use super::phases::Phases;
use super::recover::Recovery;
use super::served::Served;
use crate::cache::Cache;
use crate::txn::{Core, CrCopy};

/// The connections of this instance, made before its redo thread is opened.
pub struct Network {
    pub interconnect: Arc<Interconnect>,
    pub inboxes: [cluster::ClassInbox; cluster::interconnect::CLASSES],
    pub broken: mpsc::UnboundedReceiver<cluster::machine::Life>,
    pub membership: Membership,
    pub events: mpsc::Receiver<MembershipEvent>,
}

/// What a node is made with.
#[derive(Clone, Copy, Debug)]
pub struct NodeConfig {
    pub me: InstanceNo,
    pub incarnation: u64,
    /// It shows its memory to the machine's others, and looks into theirs.
    pub looks: bool,
}

/// Epoch, members and master map in force.
pub struct View {
    pub epoch: Epoch,
    pub members: Vec<InstanceNo>,
    pub map: MasterMap,
}

impl View {
    /// The instance that answers for the undo segments an instance was born with.
    #[must_use]
    pub fn answers_for(&self, born: InstanceNo) -> InstanceNo {
        if self.members.contains(&born) { born } else { self.members[0] }
    }
}

/// A consistent copy that has come.
pub(super) struct CrAnswer {
    pub copy: CrCopy,
    pub from: InstanceNo,
    /// What the wait for it was.
    pub event: WaitEvent,
}

/// What this instance has of one block, by its own view.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub dba: Dba,
    /// S or X with the image here; N for a past image alone.
    pub mode: Mode,
    pub version: Version,
    pub dirty: bool,
    pub past: Option<Version>,
}

/// A question whose answer is awaited.
pub(super) struct Call {
    pub to: InstanceNo,
    /// The other side answers as soon as it hears it.
    pub prompt: bool,
    pub answer: oneshot::Sender<TxnMessage>,
}

/// This instance's part of the cluster.
pub struct Node {
    pub(super) weak: Weak<Node>,
    pub me: InstanceNo,
    pub(super) incarnation: u64,
    pub env: Env,
    pub(super) observer: Arc<Observer>,
    pub(super) core: Arc<Core>,
    pub(super) enqueues: Enqueues,
    pub(super) cache: Arc<Cache>,
    pub(super) group: Arc<Group>,
    pub(super) net: Arc<Interconnect>,
    pub membership: Membership,
    /// Stepped, and its effects done, under this lock.
    pub(super) machine: Mutex<EpochMachine>,
    pub(super) view: RwLock<Arc<View>>,
    pub(super) master: Latch<Master>,
    pub(super) rebuild: Mutex<Rebuild>,
    /// Master messages that came before the directory was rebuilt.
    pub(super) before_directory: Mutex<Vec<(InstanceNo, GcsMessage)>>,
    pub(super) own: Own,
    pub(super) looks: Looks,
    /// Frames of an epoch about to be entered, by channel.
    pub(super) parked: Mutex<BTreeMap<(InstanceNo, usize), VecDeque<Frame>>>,
    next_req: AtomicU64,
    pub(super) calls: Mutex<FxHashMap<ReqId, Call>>,
    /// Who waits for which copy. One name may stand for a question about several blocks.
    pub(super) cr_waits: Mutex<FxHashMap<(Dba, ReqId), oneshot::Sender<CrAnswer>>>,
    pub(super) horizons: Mutex<BTreeMap<InstanceNo, Scn>>,
    /// Requests may be sent.
    pub(super) thawed: AtomicBool,
    pub(super) thaw: Notify,
    pub(super) recovery: Mutex<Recovery>,
    /// How long the parts of the newest change of membership took.
    pub(super) phases: Mutex<Phases>,
    /// All threads are recovered in this epoch.
    pub(super) settled: AtomicU64,
    pub(super) settle: Notify,
    /// Reports are in, the directory answers.
    pub(super) directory_ready: AtomicBool,
    /// Held while recovery writes blocks: a later epoch's begins when the earlier's writes have
    /// landed.
    pub(super) recovery_turn: tokio::sync::Mutex<()>,
    /// Held while a dead transaction is rolled back: one task at a time does (C9).
    pub(super) rollback_turn: tokio::sync::Mutex<()>,
    /// Epoch in which the recoverer has been told that nothing is owed.
    pub(super) duties_told: AtomicU64,
    /// Epoch whose undo segments are loaded.
    pub(super) segments_ready: AtomicU64,
    pub(super) segments_loaded: Notify,
    pub(super) served: Served,
    pub(super) call_handler: Mutex<Option<super::transactions::CallHandler>>,
    pub(super) ctx: Ctx,
}

/// Position of a class in arrays.
pub(super) fn class_idx(class: Class) -> usize {
    Class::ALL.iter().position(|c| *c == class).expect("a class")
}

/// The channel class of a message.
pub(super) fn class_of(message: &Message) -> Class {
    match message.class() {
        global::msg::Class::Block => Class::Blocks,
        global::msg::Class::Enqueue => Class::Enqueues,
        global::msg::Class::Transaction => Class::Transactions,
        global::msg::Class::Epoch => Class::Epochs,
    }
}

impl Node {
    /// Makes the node and starts its tasks. Nothing happens before the first reconfiguration.
    #[must_use]
    pub fn start(
        config: NodeConfig,
        observer: &Arc<Observer>,
        core: &Arc<Core>,
        network: Network,
    ) -> Arc<Node> {
        let env = core.env.clone();
        let first_req = config.incarnation << 40;
        let node = Arc::new_cyclic(|weak| Node {
            weak: weak.clone(),
            me: config.me,
            incarnation: config.incarnation,
            env: env.clone(),
            observer: observer.clone(),
            core: core.clone(),
            enqueues: Enqueues::new(config.me),
            cache: core.cache.clone(),
            group: core.cache.group.clone(),
            net: network.interconnect.clone(),
            membership: network.membership.clone(),
            machine: Mutex::new(EpochMachine::new(config.me, super::epochs::channels())),
            view: RwLock::new(Arc::new(View {
                epoch: Epoch(0),
                members: vec![config.me],
                map: MasterMap::new(&[config.me]),
            })),
            master: Latch::new("gcs resource hash", Master::new(config.me)),
            rebuild: Mutex::new(Rebuild::new()),
            before_directory: Mutex::new(Vec::new()),
            own: Own::default(),
            looks: Looks::new(config.looks),
            parked: Mutex::new(BTreeMap::new()),
            next_req: AtomicU64::new(first_req + 1),
            calls: Mutex::default(),
            cr_waits: Mutex::default(),
            horizons: Mutex::default(),
            thawed: AtomicBool::new(false),
            thaw: Notify::new(),
            recovery: Mutex::default(),
            phases: Mutex::default(),
            settled: AtomicU64::new(0),
            settle: Notify::new(),
            directory_ready: AtomicBool::new(false),
            recovery_turn: tokio::sync::Mutex::new(()),
            rollback_turn: tokio::sync::Mutex::new(()),
            duties_told: AtomicU64::new(0),
            segments_ready: AtomicU64::new(0),
            segments_loaded: Notify::new(),
            served: Served::default(),
            call_handler: Mutex::new(None),
            ctx: observer.ctx(SessionKind::Background, "LMS0"),
        });
        core.cache.set_grants(&node);
        core.set_peers(&node);
        core.table_locks.set_enqueues(&node);
        core.waits.set_remote(&node);
        for (class, inbox) in Class::ALL.into_iter().zip(network.inboxes) {
            node.start_class(class, inbox);
        }
        node.start_lmon(network.events, network.broken);
        node.start_horizons();
        node.start_watch();
        node
    }

    pub(super) fn arc(&self) -> Arc<Node> {
        self.weak.upgrade().expect("the node is in use")
    }

    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    /// What it has done for the others.
    #[must_use]
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// The connections to the other instances, for views and status.
    #[must_use]
    pub fn interconnect(&self) -> &Arc<Interconnect> {
        &self.net
    }

    /// Every block this instance holds or keeps a past image of, for checkers.
    #[must_use]
    pub fn holdings(&self) -> Vec<Held> {
        let of = |b: &Arc<crate::cache::Buffer>| {
            let st = b.latch().read();
            st.check_version();
            let held = st.holder.holding(&self.cache.facts(b, &st))?;
            let (mode, version, past) = (held.mode, held.version, held.past);
            Some(Held { dba: b.dba, mode, version, dirty: held.writer, past })
        };
        self.cache.buffers().iter().filter_map(of).collect()
    }

    /// The state of one block at this instance, as holder and as master: for whoever looks into a
    /// hang.
    #[must_use]
    pub fn block_state(&self, addr: Dba) -> String {
        let held = self.cache.lookup(addr).map(|b| {
            let st = b.latch().read();
            let facts = self.cache.facts(&b, &st);
            let (loading, error) = (st.loading, st.read_error.is_some());
            format!("{:?} {facts:?} loading {loading} error {error}", st.holder)
        });
        let mastered = self.master.lock().view(addr);
        let master = self.master_of(addr);
        format!("held: {held:?}; master {master}: {mastered:?}")
    }

    /// A fresh name for a request.
    pub(super) fn req_id(&self) -> ReqId {
        ReqId(self.next_req.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends one message, in a step of the protocol at its end; to this instance itself through its
    /// queue. A broken channel loses it: a new epoch is due then, and whoever waits asks again.
    pub(super) fn send(&self, to: InstanceNo, message: Message) {
        let class = class_of(&message);
        if to == self.me {
            self.own.push(class, self.view().epoch, message);
            return;
        }
        if crate::cache::in_protocol() {
            let bytes = self.frame_of(self.view().epoch, class, message, self.env.now().0);
            // Broken: the membership hears of it from the interconnect itself.
            let _ = self.net.queue(to, class, bytes);
        } else {
            self.send_in(self.view().epoch, to, class, message);
        }
    }

    /// As `send`, for what nobody waits for: it costs the other side no look of its own.
    pub(super) fn send_with_next(&self, to: InstanceNo, message: Message) {
        if to == self.me {
            return self.send(to, message);
        }
        let class = class_of(&message);
        let bytes = self.frame_of(self.view().epoch, class, message, 0);
        // Broken: as below.
        let _ = self.net.send_with_next(to, class, bytes);
    }

    /// Sends in the name of an epoch (Markers close the old one).
    pub(super) fn send_in(&self, epoch: Epoch, to: InstanceNo, class: Class, message: Message) {
        let bytes = self.frame_of(epoch, class, message, self.env.now().0);
        // Broken: the membership hears of it from the interconnect itself.
        let _ = self.net.send(to, class, bytes);
    }

    /// The frame of a message, counted as sent. `sent_us` as in [`Envelope`].
    fn frame_of(&self, epoch: Epoch, class: Class, message: Message, sent_us: u64) -> Vec<u8> {
        let envelope = Envelope {
            epoch,
            scn: self.core.clock.current(),
            from: self.me,
            incarnation: u32::try_from(self.incarnation).unwrap_or(u32::MAX),
            sent_us,
        };
        let with_image =
            matches!(message, Message::Gcs(GcsMessage::Block { .. } | GcsMessage::CrBlock { .. }));
        let image_bytes = if with_image { BLOCK_BYTES } else { 0 };
        let mut bytes = Vec::with_capacity(256 + image_bytes);
        encode_frame(&envelope, &[message], &mut bytes);
        let stat =
            if class == Class::Enqueues { Stat::GesMessagesSent } else { Stat::GcsMessagesSent };
        self.ctx.bump(stat, 1);
        self.served.sent(sent_us == 0);
        self.ctx.bump(Stat::GcKbytesSent, (bytes.len() as u64).div_ceil(1024));
        bytes
    }

    /// Wakes all class tasks: an epoch has been entered.
    pub(super) fn wake_classes(&self) {
        self.own.wake_all();
    }

    pub(super) fn master_of(&self, addr: Dba) -> InstanceNo {
        self.view.read().map.master_of(addr)
    }

    /// Asks another instance and waits for its answer. `None`: a change of membership has overtaken
    /// the question, which must be asked again.
    pub(super) async fn call(
        &self,
        to: InstanceNo,
        make: impl FnOnce(ReqId) -> TxnMessage,
    ) -> Option<TxnMessage> {
        let req_id = self.req_id();
        let (answer, answered) = oneshot::channel();
        {
            let _gate = self.cache.enter_protocol();
            if self.cache.is_frozen() || !self.view().members.contains(&to) {
                drop(_gate);
                self.wait_next_epoch().await;
                return None;
            }
            let question = make(req_id);
            let prompt =
                matches!(question, TxnMessage::ScnBroadcast { .. } | TxnMessage::UndoBlock { .. });
            self.calls.lock().insert(req_id, Call { to, prompt, answer });
            self.send(to, Message::Txn(question));
        }
        let guard = CallGuard { node: self, req_id };
        let reply = answered.await.ok();
        drop(guard);
        reply
    }

    /// A short wait while the membership changes.
    pub(super) async fn wait_next_epoch(&self) {
        let thawed = self.thaw.notified();
        let pause = self.env.sleep(std::time::Duration::from_millis(2));
        futures::future::select(env::boxed!(thawed), pause).await;
    }

    /// Waits until requests for blocks may be sent.
    pub(super) async fn wait_thaw(&self) {
        loop {
            let thawed = self.thaw.notified();
            let mut thawed = std::pin::pin!(thawed);
            thawed.as_mut().enable();
            if self.thawed.load(Ordering::SeqCst) {
                return;
            }
            thawed.await;
        }
    }

    /// Waits until no thread is unrecovered in the epoch in force.
    pub async fn wait_settled(&self) {
        loop {
            let done = self.settle.notified();
            let mut done = std::pin::pin!(done);
            done.as_mut().enable();
            let epoch = self.view().epoch.0;
            if epoch > 0 && self.settled.load(Ordering::SeqCst) >= epoch {
                return;
            }
            done.await;
        }
    }
}

/// Forgets a call whose caller has gone.
struct CallGuard<'a> {
    node: &'a Node,
    req_id: ReqId,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.node.calls.lock().remove(&self.req_id);
    }
}
