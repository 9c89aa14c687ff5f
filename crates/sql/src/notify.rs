//! LISTEN and NOTIFY, over all instances.
//!
//! What it promises: a notification is given when its transaction has committed, and never if it
//! has not; once for each listening session, in one order for all of them, which is that of the
//! commits. A session that listens has everything that commits after its LISTEN. Notifications are
//! kept in memory: an instance that dies loses those that its sessions have not shown yet, and
//! those of its own that it has not handed on.
//!
//! What it must never do: let a client that does not read stop those who notify.

use crate::session::Session;
use crate::{PgError, Result};
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::txn::{Holder, TmMode, notification_resource};
use observe::{Stat, WaitEvent};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

/// Notifications handed on by one call: at most 1 MiB.
const CALL_NOTIFICATIONS: usize = 128;
/// Bytes that wait for a client which does not take them before its session is ended.
const INBOX_BYTES_MAX: usize = 16 << 20;
/// What one costs beside its texts.
const ENTRY_BYTES: usize = 64;
/// Longest name of a channel.
const CHANNEL_BYTES_MAX: usize = 63;
/// A payload is shorter than this.
const PAYLOAD_BYTES_END: usize = 8000;

/// What a listening client is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// Who has notified: what `pg_backend_pid()` is there.
    pub pid: i32,
    pub channel: String,
    pub payload: String,
}

/// What a transaction does to who listens, once it has committed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Action {
    Listen(String),
    /// One channel, or all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

/// What a transaction has asked for, in order.
#[derive(Default)]
pub(crate) struct Actions {
    list: Vec<Action>,
    /// The notifications among them: the same said twice is told once.
    said: BTreeSet<Action>,
}

impl Actions {
    fn push(&mut self, action: Action) {
        let notifies = matches!(action, Action::Notify { .. });
        if !notifies || self.said.insert(action.clone()) {
            self.list.push(action);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        for action in self.list.drain(len..) {
            self.said.remove(&action);
        }
    }

    /// Whether there are notifications among them.
    pub(crate) fn notify(&self) -> bool {
        !self.said.is_empty()
    }
}

#[derive(Default)]
struct Waiting {
    list: VecDeque<Notification>,
    bytes: usize,
}

/// The notifications of one session that its client has not been told yet.
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    /// To be ended if it takes too long.
    session: Arc<observe::Session>,
    /// Holds one byte while some wait: the session's thread sleeps until its client or this has
    /// something to say.
    bell: (PipeReader, PipeWriter),
}

impl Inbox {
    fn new(session: Arc<observe::Session>) -> Result<Inbox> {
        let bell = std::io::pipe().map_err(|error| {
            PgError::new("53000", format!("cannot listen: no pipe can be made: {error}"))
                .with_hint("The instance's limit of open files may be reached.")
        })?;
        Ok(Inbox { waiting: Mutex::default(), session, bell })
    }

    /// False if there is no room: the session is ended and has listened.
    fn push(&self, notification: Notification) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.bytes += notification.channel.len() + notification.payload.len() + ENTRY_BYTES;
        if waiting.bytes > INBOX_BYTES_MAX {
            self.session.cancel_flag().terminate();
            return false;
        }
        if waiting.list.is_empty() {
            // There is room for the one byte: the reader takes it whenever nothing waits.
            let rung = (&self.bell.1).write_all(&[1]);
            assert!(rung.is_ok(), "a pipe of the session's own takes one byte: {rung:?}");
        }
        waiting.list.push_back(notification);
        true
    }

    fn take(&self) -> Vec<Notification> {
        let mut waiting = self.waiting.lock();
        if !waiting.list.is_empty() {
            let heard = (&self.bell.0).read_exact(&mut [0]);
            assert!(heard.is_ok(), "the byte that says that something waits: {heard:?}");
        }
        std::mem::take(&mut *waiting).list.into()
    }
}

/// Who listens at this instance.
#[derive(Default)]
pub(crate) struct Listeners {
    channels: Mutex<BTreeMap<String, Vec<Weak<Inbox>>>>,
}

impl Listeners {
    fn add(&self, channel: &str, inbox: &Arc<Inbox>) {
        let mut channels = self.channels.lock();
        channels.entry(channel.to_owned()).or_default().push(Arc::downgrade(inbox));
    }

    fn remove(&self, channel: &str, inbox: &Arc<Inbox>) {
        let mut channels = self.channels.lock();
        let Some(listening) = channels.get_mut(channel) else { return };
        listening.retain(|known| known.strong_count() > 0 && known.as_ptr() != Arc::as_ptr(inbox));
        if listening.is_empty() {
            channels.remove(channel);
        }
    }

    fn deliver(&self, notifications: &[Notification]) {
        let mut channels = self.channels.lock();
        for one in notifications {
            let Some(listening) = channels.get_mut(&one.channel) else { continue };
            listening.retain(|inbox| inbox.upgrade().is_some_and(|inbox| inbox.push(one.clone())));
        }
    }
}

/// What one session listens to.
#[derive(Default)]
pub(crate) struct Listening {
    channels: BTreeSet<String>,
    inbox: Option<Arc<Inbox>>,
}

impl Listening {
    /// What the session listens to.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(String::as_str)
    }
}

/// Gives what another instance has handed on to who listens here.
pub(crate) fn receive(instance: &Arc<Instance>, body: &[u8]) -> Option<Vec<u8>> {
    let database = crate::database::Database::of(instance).ok()?;
    database.listeners.deliver(&unpack(body)?);
    Some(Vec::new())
}

fn pack(notifications: &[Notification]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in notifications {
        out.extend_from_slice(&one.pid.to_le_bytes());
        for text in [&one.channel, &one.payload] {
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// The notifications of `pack`; `None` if it has not made these bytes.
fn unpack(mut bytes: &[u8]) -> Option<Vec<Notification>> {
    fn text(bytes: &mut &[u8]) -> Option<String> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        *bytes = rest;
        String::from_utf8(text.to_vec()).ok()
    }
    let mut out = Vec::new();
    while let Some((pid, rest)) = bytes.split_first_chunk::<4>() {
        bytes = rest;
        let (channel, payload) = (text(&mut bytes)?, text(&mut bytes)?);
        out.push(Notification { pid: i32::from_le_bytes(*pid), channel, payload });
    }
    bytes.is_empty().then_some(out)
}

impl Session {
    pub(crate) fn listen(&mut self, channel: String) -> Result<()> {
        // What it needs is made while it can still fail.
        if self.listening.inbox.is_none() {
            self.listening.inbox = Some(Arc::new(Inbox::new(self.ctx.session.clone())?));
        }
        self.act(Action::Listen(channel))
    }

    pub(crate) fn unlisten(&mut self, channel: String) -> Result<()> {
        self.act(Action::Unlisten(Some(channel).filter(|channel| channel != "*")))
    }

    /// NOTIFY, also as `pg_notify`.
    pub(crate) fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        let invalid = |text: &str| Err(PgError::new("22023", text));
        if channel.is_empty() {
            return invalid("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return invalid("channel name too long");
        }
        if payload.len() >= PAYLOAD_BYTES_END {
            return invalid("payload string too long");
        }
        self.act(Action::Notify { channel: channel.to_owned(), payload: payload.to_owned() })
    }

    fn act(&mut self, action: Action) -> Result<()> {
        let txn = self.txn.as_mut().ok_or_else(|| PgError::internal("no transaction"))?;
        txn.actions.push(action);
        Ok(())
    }

    /// Before the commit of a transaction that notifies: none commits between it and its turn.
    pub(crate) async fn await_turn(&mut self) -> Result<()> {
        let txn = self.transaction()?;
        let core = self.instance.core.clone();
        let number = self.user_locks.number_in(txn.local_id());
        self.ctx.session.set_lock_number(number);
        let who = Holder { id: number, same: Some(txn.local_id()) };
        let wait = kernel::table::LockWait::Wait;
        Ok(core
            .lock_resource(&self.ctx, &txn, who, notification_resource(), TmMode::X, wait)
            .await?)
    }

    /// What a transaction wanted to be done once it has committed, or not, if it has not.
    pub(crate) async fn finish_actions(&mut self, actions: Actions, committed: bool) {
        let resource = notification_resource();
        if committed {
            let mut notifications = Vec::new();
            for action in actions.list {
                match action {
                    Action::Listen(channel) => self.begin_to_listen(channel),
                    Action::Unlisten(channel) => self.end_to_listen(channel.as_deref()),
                    Action::Notify { channel, payload } => {
                        notifications.push(Notification { pid: self.pid(), channel, payload });
                    }
                }
            }
            if !notifications.is_empty() {
                self.hand_on(&notifications).await;
            }
        }
        if let Some(number) = self.user_locks.number() {
            self.instance.core.table_locks.lower(number, resource, None);
        }
    }

    async fn hand_on(&mut self, notifications: &[Notification]) {
        self.database.listeners.deliver(notifications);
        self.ctx.bump(Stat::NotificationsSent, notifications.len() as u64);
        let node = &self.instance.node;
        let members = node.view();
        let peers = members.members.iter().copied().filter(|member| *member != node.me);
        let bodies: Vec<Vec<u8>> = notifications.chunks(CALL_NOTIFICATIONS).map(pack).collect();
        // An instance that is gone has nobody who listens.
        let told = futures::future::join_all(peers.map(async |peer| {
            for body in &bodies {
                node.call_peer(peer, CallKind::Notify, body).await;
            }
        }));
        let p = [0, 0, u64::from(CallKind::Notify.code())];
        self.ctx.wait(WaitEvent::ReliableMessage, p, told).await;
    }

    fn begin_to_listen(&mut self, channel: String) {
        let Some(inbox) = &self.listening.inbox else { return };
        if !self.listening.channels.contains(&channel) {
            self.database.listeners.add(&channel, inbox);
            self.listening.channels.insert(channel);
        }
    }

    /// One channel, or all.
    pub(crate) fn end_to_listen(&mut self, channel: Option<&str>) {
        let Listening { channels, inbox: Some(inbox) } = &mut self.listening else { return };
        let listeners = &self.database.listeners;
        channels.retain(|known| {
            let ends = channel.is_none_or(|channel| channel == known);
            if ends {
                listeners.remove(known, inbox);
            }
            !ends
        });
    }

    /// What is to be told to the client: not within a transaction block.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        let Some(inbox) = &self.listening.inbox else { return Vec::new() };
        let mut taken = inbox.take();
        // What came before UNLISTEN is not wanted any more.
        taken.retain(|one| self.listening.channels.contains(&one.channel));
        self.ctx.bump(Stat::NotificationsReceived, taken.len() as u64);
        taken
    }

    /// What is readable while there are some; `None` if the session listens to nothing.
    #[must_use]
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.listening.inbox.as_ref().map(|inbox| inbox.bell.0.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(channel: &str, payload: &str) -> Notification {
        Notification { pid: 7, channel: channel.to_owned(), payload: payload.to_owned() }
    }

    fn inbox() -> Inbox {
        let observer = observe::Observer::new(env::real::RealEnv::new(), 1);
        Inbox::new(observer.ctx(observe::SessionKind::User, "listener").session).unwrap()
    }

    #[test]
    fn who_takes_nothing_is_ended_before_it_fills_the_memory() {
        let (listeners, inbox) = (Listeners::default(), Arc::new(inbox()));
        listeners.add("a", &inbox);
        let large = said("a", &"x".repeat(7999));
        for _ in 0..3000 {
            listeners.deliver(std::slice::from_ref(&large));
        }
        let kept = inbox.take();
        assert!(kept.len() > 1000 && kept.len() * 8000 < INBOX_BYTES_MAX, "{}", kept.len());
        assert!(inbox.session.cancel_flag().requested().is_some());
        assert!(listeners.channels.lock()["a"].is_empty());
    }

    #[test]
    fn what_is_rolled_back_can_be_said_again() {
        let mut actions = Actions::default();
        let notify =
            |payload: &str| Action::Notify { channel: "a".to_owned(), payload: payload.to_owned() };
        actions.push(notify("1"));
        actions.push(notify("2"));
        actions.push(notify("1"));
        assert_eq!(actions.len(), 2);
        actions.truncate(1);
        actions.push(notify("2"));
        actions.push(Action::Listen("a".to_owned()));
        assert!(actions.notify());
        assert_eq!(actions.list, [notify("1"), notify("2"), Action::Listen("a".to_owned())]);
    }

    #[test]
    fn notifications_travel_whole() {
        let all = vec![said("a", ""), said("ä b", &"x".repeat(7999))];
        let packed = pack(&all);
        assert_eq!(unpack(&packed), Some(all));
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(unpack(&[]), Some(Vec::new()));
    }

    #[test]
    fn who_listens_is_given_what_is_said_on_the_channel() {
        let listeners = Listeners::default();
        let (one, two) = (Arc::new(inbox()), Arc::new(inbox()));
        listeners.add("a", &one);
        listeners.add("a", &two);
        listeners.add("b", &two);
        listeners.deliver(&[said("a", "1"), said("b", "2"), said("c", "3")]);
        assert_eq!(one.take(), [said("a", "1")]);
        assert_eq!(two.take(), [said("a", "1"), said("b", "2")]);
        assert_eq!(two.take(), []);
        listeners.remove("a", &one);
        drop(two);
        listeners.deliver(&[said("a", "4"), said("b", "5")]);
        assert_eq!(one.take(), []);
    }
}
