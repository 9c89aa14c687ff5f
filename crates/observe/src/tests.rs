//! Registry completeness, accounting of waits, interruption, folding of totals.
//!
//! The clock is a number that the tests move; nothing here waits for real time, but the one
//! measurement at the end, which is run by hand.

use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use env::{
    BoxFuture, Connection, Elapsed, Env, EnvImpl, FileLock, Lane, Listener, Micros, OpenOptions,
    RawFile, TaskHandle,
};

use crate::*;

/// 2026-11-21T10:00:00.123456Z.
const WALL_US: i64 = 1_795_255_200_123_456;

/// An environment of nothing but a clock.
#[derive(Default)]
pub(crate) struct Clock {
    now_us: AtomicU64,
}

impl Clock {
    pub(crate) fn advance(&self, us: u64) {
        self.now_us.fetch_add(us, Ordering::SeqCst);
    }
}

struct ClockEnv(Arc<Clock>);

impl EnvImpl for ClockEnv {
    fn now(&self) -> Micros {
        Micros(self.0.now_us.load(Ordering::SeqCst))
    }
    fn wall_us(&self) -> i64 {
        WALL_US
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.0);
        let at = clock.now_us.load(Ordering::SeqCst) + duration.as_micros() as u64;
        Box::pin(poll_fn(move |_| {
            if clock.now_us.load(Ordering::SeqCst) >= at { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
    fn random(&self) -> u64 {
        unreachable!("the tests of observe need a clock only")
    }
    fn spawn(&self, _: &'static str, _: Lane, _: BoxFuture<'static, ()>) -> TaskHandle {
        unreachable!("the tests of observe need a clock only")
    }
    fn open(&self, _: &Path, _: OpenOptions) -> io::Result<Arc<dyn RawFile>> {
        unreachable!("the tests of observe need a clock only")
    }
    fn exists(&self, _: &Path) -> bool {
        unreachable!("the tests of observe need a clock only")
    }
    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        unreachable!("the tests of observe need a clock only")
    }
    fn try_lock(&self, _: &Path, _: u64, _: u64) -> io::Result<Option<Box<dyn FileLock>>> {
        unreachable!("the tests of observe need a clock only")
    }
    fn is_locked(&self, _: &Path, _: u64, _: u64) -> io::Result<bool> {
        unreachable!("the tests of observe need a clock only")
    }
    fn listen(&self, _: &str) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        unreachable!("the tests of observe need a clock only")
    }
    fn connect(&self, _: &str) -> BoxFuture<'_, io::Result<Connection>> {
        unreachable!("the tests of observe need a clock only")
    }
    fn kill_process(&self, _: u32) -> io::Result<()> {
        unreachable!("the tests of observe need a clock only")
    }
    fn pid(&self) -> u32 {
        unreachable!("the tests of observe need a clock only")
    }
    fn process_start_time(&self, _: u32) -> Option<u64> {
        unreachable!("the tests of observe need a clock only")
    }
    fn abort_instance(&self, reason: &str) -> ! {
        panic!("{reason}")
    }
}

pub(crate) fn world() -> (Arc<Clock>, Arc<Observer>) {
    let clock = Arc::new(Clock::default());
    let env = Env::new(Arc::new(ClockEnv(Arc::clone(&clock))));
    (clock, Observer::new(env, 1))
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Ready with `value` once the clock shows `at_us`.
pub(crate) async fn at<T: Copy>(clock: &Clock, at_us: u64, value: T) -> T {
    poll_fn(|_| {
        if clock.now_us.load(Ordering::SeqCst) >= at_us {
            Poll::Ready(value)
        } else {
            Poll::Pending
        }
    })
    .await
}

#[test]
fn every_event_has_a_unique_name_a_class_and_a_sentence() {
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for &event in WaitEvent::ALL {
        assert!(names.insert(event.name()), "{event} is registered twice");
        assert!(ids.insert(event.id()), "{event}: another has its number");
        assert!(event.doc().ends_with('.') && event.doc().len() > 10, "{event}: no sentence");
        assert_eq!(WaitEvent::from_number(event.number()), Some(event));
        let labels = event.p_labels();
        let used = labels.iter().take_while(|l| !l.is_empty()).count();
        assert!(labels[used..].iter().all(|l| l.is_empty()), "{event}: a gap in the labels");
        let prefix_class = [("gc ", WaitClass::Cluster), ("log file sync", WaitClass::Commit)];
        for (prefix, class) in prefix_class {
            assert!(!event.name().starts_with(prefix) || event.class() == class, "{event}");
        }
        let enqueue = event.name().starts_with("enq: ");
        assert_eq!(enqueue, labels[0] == "name|mode", "{event}: p1 of an enqueue is its name");
    }
    assert_eq!(WaitEvent::from_number(0), None);
    assert_eq!(WaitEvent::from_number(EVENT_COUNT as u32 + 1), None);
    assert!(!WaitEvent::SqlNetMessageFromClient.class().counts());
}

#[test]
fn every_statistic_has_a_unique_name_and_a_sentence() {
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for &stat in Stat::ALL {
        assert!(names.insert(stat.name()), "{stat} is registered twice");
        assert!(ids.insert(stat.id()), "{stat}: another has its number");
        assert!(stat.doc().ends_with('.'), "{stat}: no sentence");
        let parse = matches!(stat, Stat::ParseTimeElapsed | Stat::ParseTimeCpu);
        let time = stat.name().ends_with(" time") || stat == Stat::CpuUsed || parse;
        assert_eq!(time, stat.is_time(), "{stat}: times are counted in microseconds");
        // The field's are shown in its unit; those of its time model, which this table has too, in
        // the model's.
        let elapsed = stat.name().ends_with(" elapsed time") || stat.name().contains("broadcast");
        let shown = if time && !elapsed { 12 } else { 123_456 };
        assert_eq!(stat.shown(123_456), shown, "{stat}");
    }
}

#[test]
fn the_time_of_calls_is_counted_while_they_last() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let quiet = observer.ctx(SessionKind::Background, "LMS0");
    clock.advance(1_000);
    ctx.session.set_active(true, ctx.env.now());
    clock.advance(300);
    let of = |sid| {
        let all = observer.sesstat();
        all.into_iter().find(|(s, stat, _)| (*s, *stat) == (sid, Stat::DbTime)).map(|found| found.2)
    };
    assert_eq!(of(ctx.session.sid()), Some(300), "so far");
    assert_eq!(of(quiet.session.sid()), Some(0), "it works for no client");
    assert_eq!(observer.stat(Stat::DbTime), 300);
    ctx.session.set_active(false, ctx.env.now());
    clock.advance(5_000);
    ctx.session.set_active(true, ctx.env.now());
    clock.advance(20);
    let shown = observer.sysstat().into_iter().find(|(stat, _)| *stat == Stat::DbTime);
    assert_eq!(shown, Some((Stat::DbTime, 320)));
    // It ends in the middle of a call.
    drop(ctx);
    clock.advance(100);
    assert_eq!(observer.stat(Stat::DbTime), 320);
}

#[test]
fn sleeping_in_a_call_is_no_time_of_the_database() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let shown = || {
        let all = observer.sysstat();
        all.into_iter().find(|(stat, _)| *stat == Stat::DbTime).map(|(_, us)| us)
    };
    ctx.session.set_active(true, ctx.env.now());
    clock.advance(100);
    for (ends, worked) in [(400, 100), (825, 225)] {
        let mut sleep = pin!(ctx.wait(WaitEvent::PgSleep, [0; 3], at(&clock, ends, ())));
        assert!(poll(sleep.as_mut()).is_pending());
        clock.advance(150);
        assert_eq!(shown(), Some(worked), "while it sleeps");
        clock.advance(150);
        assert!(poll(sleep.as_mut()).is_ready());
        clock.advance(125);
    }
    ctx.session.set_active(false, ctx.env.now());
    assert_eq!(shown(), Some(350));
    // What is waited for in earnest counts.
    ctx.session.set_active(true, ctx.env.now());
    let mut read = pin!(ctx.wait(WaitEvent::DbFileSequentialRead, [0; 3], at(&clock, 0, ())));
    clock.advance(50);
    assert!(poll(read.as_mut()).is_ready());
    ctx.session.set_active(false, ctx.env.now());
    assert_eq!(shown(), Some(400));
}

#[test]
fn the_first_parameter_of_an_enqueue_packs_type_and_mode() {
    assert_eq!(enq_p1(*b"TX", 6), 1_415_053_318);
    assert_eq!(enq_p1(*b"HW", 6), 1_213_661_190);
    assert_eq!(enq_p1(*b"TM", 3), 1_414_332_419);
    assert_eq!(enq_p1(*b"SQ", 6), 1_397_817_350);
}

#[test]
fn a_wait_is_shown_while_it_lasts_and_counted_when_it_ends() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let event = WaitEvent::DbFileSequentialRead;
    clock.advance(100);
    let mut wait = pin!(ctx.wait(event, [4, 128, 1], at(&clock, 350, 7)));
    assert!(poll(wait.as_mut()).is_pending());
    clock.advance(150);
    let view = ctx.session.wait_view(ctx.env.now());
    assert_eq!((view.waiting, view.event, view.p), (true, Some(event), [4, 128, 1]));
    assert_eq!((view.wait_us, view.seq), (150, 1));
    clock.advance(100);
    assert_eq!(poll(wait.as_mut()), Poll::Ready(7));
    clock.advance(5);
    let view = ctx.session.wait_view(ctx.env.now());
    assert_eq!((view.waiting, view.wait_us, view.since_last_us), (false, 250, 5));
    let totals = ctx.session.totals().event(event);
    assert_eq!((totals.waits, totals.timeouts), (1, 0));
    assert_eq!((totals.time_us, totals.max_us), (250, 250));
    let row = &observer.sessions()[0];
    assert_eq!((&*row.about.program, row.sid, row.wait), ("psql", 1, view));
}

#[test]
fn the_last_waits_are_kept_with_the_one_that_lasts() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let read = WaitEvent::DbFileSequentialRead;
    let now = || Micros(clock.now_us.load(Ordering::SeqCst));
    assert_eq!(ctx.session.past_waits(now()), []);
    // Twelve reads of 10 µs each, 5 µs of work before each.
    for block in 1..=12 {
        clock.advance(5);
        let ends = now().0 + 10;
        let mut wait = pin!(ctx.wait(read, [4, block, 1], at(&clock, ends, ())));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(10);
        assert!(poll(wait.as_mut()).is_ready());
    }
    let blocks = |waits: &[PastWait]| waits.iter().map(|w| w.p[1]).collect::<Vec<_>>();
    let kept = ctx.session.past_waits(now());
    assert_eq!(blocks(&kept), [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
    assert_eq!((kept[0].event, kept[0].us, kept[0].since_last_us), (read, 10, Some(5)));
    assert_eq!(kept[9].since_last_us, None, "the one before it is not kept");
    clock.advance(7);
    let mut wait = pin!(ctx.wait(WaitEvent::LogFileSync, [0, 99, 0], pending::<()>()));
    assert!(poll(wait.as_mut()).is_pending());
    clock.advance(3);
    let kept = ctx.session.past_waits(now());
    assert_eq!(blocks(&kept), [99, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
    let newest = (kept[0].event, kept[0].us, kept[0].since_last_us);
    assert_eq!(newest, (WaitEvent::LogFileSync, 3, Some(7)));
    assert_eq!(kept[9].since_last_us, Some(5));
}

#[test]
fn what_is_ready_at_once_is_no_wait() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let mut wait = pin!(ctx.wait(WaitEvent::LogFileSync, [0; 3], async { 1 }));
    assert_eq!(poll(wait.as_mut()), Poll::Ready(1));
    let mut wait = pin!(ctx.wait_or_cancel(WaitEvent::LogFileSync, [0; 3], async { 2 }));
    assert_eq!(poll(wait.as_mut()), Poll::Ready(Ok(2)));
    assert_eq!(ctx.session.wait_view(ctx.env.now()).event, None);
    assert!(observer.system_events().is_empty());
    assert!(observer.session_events().is_empty());
}

#[test]
fn what_was_asked_of_others_is_a_wait_however_soon_it_is_answered() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let answer = async { (3, WaitEvent::GcCurrentBlock2Way) };
    let wait = ctx.wait_relabel_or_cancel(WaitEvent::GcCurrentRequest, [4, 9, 1], answer).begun();
    let shown = ctx.session.wait_view(ctx.env.now());
    assert_eq!((shown.waiting, shown.event), (true, Some(WaitEvent::GcCurrentRequest)));
    let mut wait = pin!(wait);
    assert_eq!(poll(wait.as_mut()), Poll::Ready(Ok(3)));
    assert!(!ctx.session.wait_view(ctx.env.now()).waiting);
    assert_eq!(ctx.session.totals().event(WaitEvent::GcCurrentBlock2Way).waits, 1);
}

#[test]
fn a_dropped_wait_ends() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    {
        let mut wait = pin!(ctx.wait(WaitEvent::EnqTxRowLock, [0; 3], pending::<()>()));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(40);
    }
    let view = ctx.session.wait_view(ctx.env.now());
    assert_eq!((view.waiting, view.wait_us), (false, 40));
    assert_eq!(ctx.session.totals().event(WaitEvent::EnqTxRowLock).time_us, 40);
}

#[test]
fn a_placeholder_is_counted_under_the_name_of_the_outcome() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let answer = at(&clock, 90, ("block", WaitEvent::GcCrBlock3Way));
    let mut wait = pin!(ctx.wait_relabel(WaitEvent::GcCrRequest, [4, 9, 1], answer));
    assert!(poll(wait.as_mut()).is_pending());
    let shown = ctx.session.wait_view(ctx.env.now());
    assert_eq!(shown.event, Some(WaitEvent::GcCrRequest));
    clock.advance(90);
    assert_eq!(poll(wait.as_mut()), Poll::Ready("block"));
    assert_eq!(ctx.session.totals().event(WaitEvent::GcCrRequest).waits, 0);
    assert_eq!(ctx.session.totals().event(WaitEvent::GcCrBlock3Way).time_us, 90);
    let last = ctx.session.wait_view(ctx.env.now());
    assert_eq!((last.event, last.p), (Some(WaitEvent::GcCrBlock3Way), [4, 9, 1]));
}

#[test]
fn a_wait_around_another_is_shown_when_the_inner_one_ends() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let inner = async {
        ctx.wait(WaitEvent::DbFileSequentialRead, [1, 2, 1], at(&clock, 10, ())).await;
        at(&clock, 30, ()).await;
    };
    // The inner wait begins first: the outer one is known to be a wait only once it is pending.
    let mut outer = pin!(ctx.wait(WaitEvent::RowCacheLock, [8, 0, 3], inner));
    assert!(poll(outer.as_mut()).is_pending());
    let view = ctx.session.wait_view(ctx.env.now());
    assert_eq!((view.waiting, view.event), (true, Some(WaitEvent::DbFileSequentialRead)));
    clock.advance(10);
    assert!(poll(outer.as_mut()).is_pending());
    let view = ctx.session.wait_view(ctx.env.now());
    assert_eq!((view.waiting, view.event), (true, Some(WaitEvent::RowCacheLock)));
    clock.advance(20);
    assert!(poll(outer.as_mut()).is_ready());
    assert!(!ctx.session.wait_view(ctx.env.now()).waiting);
    assert_eq!(ctx.session.totals().event(WaitEvent::DbFileSequentialRead).time_us, 10);
    assert_eq!(ctx.session.totals().event(WaitEvent::RowCacheLock).time_us, 30);
}

#[test]
fn a_cancel_wakes_the_waiter_and_ends_its_wait() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut wait = pin!(ctx.wait_or_cancel(WaitEvent::EnqTxRowLock, [0; 3], pending::<()>()));
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    assert_eq!(ctx.session.cancel_flag().listeners(), 1, "one task listens once");
    clock.advance(70);
    observer.session(1).expect("open").cancel_flag().cancel();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(wait.as_mut().poll(&mut cx), Poll::Ready(Err(Interrupt::Cancelled)));
    assert_eq!(ctx.check_interrupt(), Err(Interrupt::Cancelled));
}

#[test]
fn an_interrupted_wait_leaves_no_listener_and_no_current_wait() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    {
        let mut wait = pin!(ctx.wait_or_cancel(WaitEvent::EnqTm, [0; 3], pending::<()>()));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(70);
        ctx.session.cancel_flag().terminate();
        assert_eq!(poll(wait.as_mut()), Poll::Ready(Err(Interrupt::Terminated)));
    }
    assert_eq!(ctx.session.cancel_flag().listeners(), 0);
    assert!(!ctx.session.wait_view(ctx.env.now()).waiting);
    assert_eq!(ctx.session.totals().event(WaitEvent::EnqTm).time_us, 70);
    ctx.session.cancel_flag().begin_statement();
    assert_eq!(ctx.check_interrupt(), Err(Interrupt::Terminated), "termination stays");
}

#[test]
fn a_shield_puts_off_what_is_asked() {
    let flag = crate::CancelFlag::default();
    flag.set_deadline(Some(Micros(1)));
    flag.terminate();
    {
        let _outer = flag.shield();
        drop(flag.shield());
        assert_eq!((flag.requested(), flag.deadline()), (None, None));
    }
    assert_eq!(flag.requested(), Some(Interrupt::Terminated));
    assert_eq!(flag.deadline(), Some(Micros(1)));
}

#[test]
fn a_cancel_between_statements_is_forgotten() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    ctx.session.cancel_flag().cancel();
    ctx.session.cancel_flag().begin_statement();
    assert_eq!(ctx.check_interrupt(), Ok(()));
    let mut wait = pin!(ctx.wait_or_cancel(WaitEvent::EnqTm, [0; 3], pending::<()>()));
    assert!(poll(wait.as_mut()).is_pending());
}

#[test]
fn a_wait_that_must_finish_is_not_interrupted() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let mut wait = pin!(ctx.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 20, ())));
    assert!(poll(wait.as_mut()).is_pending());
    ctx.session.cancel_flag().terminate();
    assert!(poll(wait.as_mut()).is_pending());
    clock.advance(20);
    assert!(poll(wait.as_mut()).is_ready());
}

#[test]
fn waits_can_be_awaited_by_tasks_that_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    is_send(&ctx.wait(WaitEvent::EnqTm, [0; 3], async {}));
    is_send(&ctx.wait_or_cancel(WaitEvent::EnqTm, [0; 3], async {}));
    is_send(&ctx.wait_for_or_cancel(WaitEvent::EnqTm, [0; 3], Duration::ZERO, async {}));
}

#[test]
fn the_deadline_of_a_statement_ends_its_waits() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    ctx.session.cancel_flag().set_deadline(Some(Micros(500)));
    let mut wait = pin!(ctx.wait_or_cancel(WaitEvent::EnqTxRowLock, [0; 3], pending::<()>()));
    assert!(poll(wait.as_mut()).is_pending());
    clock.advance(499);
    assert!(poll(wait.as_mut()).is_pending());
    assert_eq!(ctx.check_interrupt(), Ok(()));
    clock.advance(1);
    assert_eq!(poll(wait.as_mut()), Poll::Ready(Err(Interrupt::TimedOut)));
    assert_eq!(ctx.check_interrupt(), Err(Interrupt::TimedOut));
    assert_eq!(ctx.session.totals().event(WaitEvent::EnqTxRowLock).timeouts, 1);
}

#[test]
fn a_limit_of_the_wait_itself_counts_as_a_timeout() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let limit = Duration::from_micros(30);
    {
        let event = WaitEvent::EnqTxRowLock;
        let mut wait = pin!(ctx.wait_for_or_cancel(event, [0; 3], limit, pending::<()>()));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(30);
        assert_eq!(poll(wait.as_mut()), Poll::Ready(Ok(Err(Elapsed))));
    }
    {
        let event = WaitEvent::RdbmsIpcMessage;
        let mut wait = pin!(ctx.wait_for(event, [0; 3], limit, pending::<()>()));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(30);
        assert_eq!(poll(wait.as_mut()), Poll::Ready(Err(Elapsed)));
    }
    for event in [WaitEvent::EnqTxRowLock, WaitEvent::RdbmsIpcMessage] {
        let totals = ctx.session.totals().event(event);
        assert_eq!((totals.waits, totals.timeouts, totals.time_us), (1, 1, 30), "{event}");
    }
}

#[test]
fn totals_of_a_session_outlive_it() {
    let (_, observer) = world();
    let user = observer.ctx(SessionKind::User, "psql");
    let lgwr = observer.ctx(SessionKind::Background, "LGWR");
    user.record_wait(WaitEvent::LogFileSync, 100);
    user.bump(Stat::UserCommits, 2);
    lgwr.record_wait(WaitEvent::LogFileSync, 900);
    lgwr.bump(Stat::RedoWrites, 1);
    let check = |when: &str| {
        let rows = observer.system_events();
        assert_eq!(rows.len(), 1, "{when}");
        assert_eq!((rows[0].all.waits, rows[0].all.time_us), (2, 1000), "{when}");
        assert_eq!((rows[0].all.max_us, rows[0].foreground.time_us), (900, 100), "{when}");
        assert_eq!(observer.stat(Stat::UserCommits), 2, "{when}");
        let sysstat = observer.sysstat();
        assert_eq!(sysstat.len(), STAT_COUNT);
        assert!(sysstat.contains(&(Stat::RedoWrites, 1)), "{when}");
        assert!(sysstat.contains(&(Stat::LogonsCumulative, 1)), "{when}");
    };
    check("both open");
    let clone = user.clone();
    drop(user);
    assert_eq!(observer.user_session_count(), 1, "a clone keeps the session open");
    drop(clone);
    assert_eq!(observer.user_session_count(), 0);
    check("the client is gone");
    assert!(observer.session(1).is_none());
    drop(lgwr);
    check("both are gone");
    let again = observer.open_session(SessionKind::User, "psql");
    assert_eq!((again.sid(), again.serial()), (1, 3), "the sid is used again, the serial is not");
}

#[test]
fn what_sessions_have_done_is_told_by_service() {
    let (_, observer) = world();
    let client = observer.ctx(SessionKind::User, "psql");
    client.session.describe(|about| about.service = Arc::from("orders"));
    client.bump(Stat::UserCommits, 2);
    client.record_wait(WaitEvent::LogFileSync, 100);
    let lgwr = observer.ctx(SessionKind::Background, "LGWR");
    lgwr.bump(Stat::RedoWrites, 1);
    let check = |when: &str| {
        let all = observer.service_totals();
        let names: Vec<&str> = all.keys().map(|name| &**name).collect();
        assert_eq!(names, ["SYS$BACKGROUND", "orders"], "{when}");
        let (own, orders) = (&all["SYS$BACKGROUND"], &all["orders"]);
        assert_eq!(orders.stats[Stat::UserCommits.index()], 2, "{when}");
        assert_eq!(orders.events[WaitEvent::LogFileSync.index()].time_us, 100, "{when}");
        assert_eq!(own.stats[Stat::UserCommits.index()], 0, "{when}");
        assert_eq!(own.stats[Stat::RedoWrites.index()], 1, "{when}");
    };
    check("both open");
    drop(client);
    drop(lgwr);
    check("both are gone");
}

#[test]
fn what_follows_from_counters_is_the_same_for_a_session_and_for_all() {
    let (clock, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    ctx.bump(Stat::ConsistentGets, 5);
    ctx.bump(Stat::DbBlockGets, 2);
    ctx.record_wait(WaitEvent::DbFileSequentialRead, 30_000);
    ctx.record_wait(WaitEvent::LogFileSync, 1_000);
    let planning = ctx.begin_planning("select 1");
    clock.advance(40);
    ctx.end_planning(&planning, None);
    ctx.session.totals().set_gauge(Stat::OpenedCursorsCurrent, 3);
    let expected = [
        (Stat::SessionLogicalReads, 7),
        (Stat::UserIoWaitTime, 30_000),
        (Stat::ClusterWaitTime, 0),
        (Stat::ParseTimeElapsed, 40),
    ];
    let (sid, sesstat) = (ctx.session.sid(), observer.sesstat());
    for (stat, value) in expected {
        assert!(sesstat.contains(&(sid, stat, value)), "{stat}");
    }
    let check = |cursors: u64, logons: u64| {
        let gauges = [(Stat::OpenedCursorsCurrent, cursors), (Stat::LogonsCurrent, logons)];
        for (stat, value) in expected.into_iter().chain(gauges) {
            assert!(observer.sysstat().contains(&(stat, value)), "{stat}");
            assert_eq!(observer.stat(stat), value, "{stat}");
        }
    };
    check(3, 1);
    let other = observer.ctx(SessionKind::User, "psql");
    check(3, 2);
    drop(ctx);
    check(0, 1);
    drop(other);
    check(0, 0);
}

#[test]
fn the_most_sessions_that_were_open_at_once_are_remembered() {
    let (_, observer) = world();
    let own = observer.open_session(SessionKind::Background, "mmon");
    let one = observer.open_session(SessionKind::User, "psql");
    drop(observer.open_session(SessionKind::User, "psql"));
    let counts = SessionCounts { users: 1, users_most: 2, all: 2, all_most: 3 };
    assert_eq!(observer.session_counts(), counts);
    drop((own, one));
    assert_eq!(observer.session_counts(), SessionCounts { users: 0, all: 0, ..counts });
}

#[test]
fn the_histogram_counts_each_wait_in_its_power_of_two() {
    assert_eq!([0, 1, 2, 3, 4, 1023, 1024].map(bucket), [0, 1, 2, 2, 3, 10, 11]);
    assert_eq!(bucket(u64::MAX), HISTOGRAM_BUCKETS - 1);
    assert_eq!(bucket_limit_us(HISTOGRAM_BUCKETS - 1), None);
    for us in [0_u64, 1, 2, 7, 8, 1 << 20] {
        assert!(bucket_limit_us(bucket(us)).is_some_and(|limit| us < limit), "{us}");
    }
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    for us in [0, 3, 3, 5] {
        ctx.record_wait(WaitEvent::LogFileSync, us);
    }
    let counts: Vec<_> = observer.event_histogram().iter().map(|r| (r.below_us, r.count)).collect();
    assert_eq!(counts, [(Some(1), 1), (Some(2), 0), (Some(4), 2), (Some(8), 1)]);
}

#[test]
fn a_transfer_is_split_and_the_rest_is_the_interconnect() {
    let split = BlockWaitSplit::default();
    let times = TransferTimes {
        total_us: 100,
        master_queue_us: 5,
        master_lms_us: 2,
        lms_us: 3,
        build_us: 20,
        pin_us: 1,
        flush_us: 30,
        own_lms_us: 4,
    };
    let (cr, data) = (TransferKind::Cr, TransferClass::Data);
    split.record(2, cr, data, TransferHow::Busy, &times);
    let fast = TransferTimes { total_us: 40, ..TransferTimes::default() };
    split.record(2, cr, data, TransferHow::TwoWay, &fast);
    split.record(3, TransferKind::Current, TransferClass::UndoHeader, TransferHow::ThreeWay, &fast);
    let rows = split.rows();
    assert_eq!(rows.len(), 2);
    let sums = &rows[0].totals;
    assert_eq!((rows[0].instance, rows[0].kind, rows[0].class), (2, cr, data));
    assert_eq!((sums.blocks(), sums.how_count), (2, [1, 0, 1, 0]));
    assert_eq!((sums.total_us, sums.interconnect_us, sums.flush_us), (140, 75, 30));
    assert_eq!((sums.flushes, sums.max_us), (1, 100));
    assert_eq!((rows[1].instance, rows[1].class), (3, TransferClass::UndoHeader));
    let odd = TransferTimes { total_us: 1, flush_us: 9, ..TransferTimes::default() };
    assert_eq!(odd.interconnect_us(), 0, "clocks of two hosts may disagree");
}

#[test]
fn alert_lines_carry_the_wall_clock_and_reach_a_sink_set_later() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::Background, "SMON");
    ctx.alert(AlertLevel::Info, "opening\nthe database\n");
    let seen = Arc::new(parking_lot::Mutex::new(Vec::<String>::new()));
    let sink = Arc::clone(&seen);
    observer.alert_log.set_sink(Box::new(move |line: &str| sink.lock().push(line.to_owned())));
    ctx.alert(AlertLevel::Error, "read block 4.128");
    let expected = [
        "2026-11-21T10:00:00.123456Z opening\n    the database",
        "2026-11-21T10:00:00.123456Z error: read block 4.128",
    ];
    assert_eq!(*seen.lock(), expected);
    assert_eq!(observer.alert_log.lines().len(), 2);
    assert_eq!(format_wall(0), "1970-01-01T00:00:00.000000Z");
    assert_eq!(format_wall(951_782_400_000_000), "2000-02-29T00:00:00.000000Z");
    assert_eq!(format_wall(-1), "1969-12-31T23:59:59.999999Z");
}

/// Lets the other thread end also when an assertion fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_sees_event_and_parameters_of_one_wait() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                for _ in 0..200 {
                    std::hint::spin_loop();
                }
                let event = WaitEvent::ALL[n as usize % EVENT_COUNT];
                let mut wait = pin!(ctx.wait(event, [n, n, n], pending::<()>()));
                assert!(poll(wait.as_mut()).is_pending());
            }
        });
        let state = observer.session(ctx.session.sid()).expect("open");
        let mut seen = BTreeSet::new();
        while seen.len() < 200 {
            let view = state.wait_view(Micros(0));
            let Some(event) = view.event else { continue };
            let n = view.p[0];
            assert_eq!(view.p, [n; 3]);
            assert_eq!(WaitEvent::ALL[n as usize % EVENT_COUNT], event);
            seen.insert(n);
        }
    });
}

#[test]
fn the_manual_pages_are_those_of_the_registries() {
    let docs = Path::new("../../docs/reference");
    let pages = [
        ("wait-events.md", reference::wait_events_page()),
        ("statistics.md", reference::statistics_page()),
    ];
    let bless = std::env::var_os("BLESS").is_some();
    for (name, page) in pages {
        let path = docs.join(name);
        if bless {
            std::fs::create_dir_all(docs).expect("docs/reference can be made");
            std::fs::write(&path, &page).expect("the page can be written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == page, "docs/reference/{name} is old: run `cargo x bless`");
    }
}

/// What a wait costs: `cargo test --release -p skein-observe -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement, not a check"]
#[allow(clippy::disallowed_methods)] // it measures real time
fn cost_of_a_wait() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    let rounds = 1_000_000_u32;
    let once = || {
        let mut first = true;
        poll_fn(move |_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) })
    };
    let mut ns = [0_u128; 2];
    for (wait, ns) in ns.iter_mut().enumerate() {
        let start = std::time::Instant::now();
        for _ in 0..rounds {
            if wait == 1 {
                let mut future = pin!(ctx.wait(WaitEvent::LogFileSync, [1, 2, 3], once()));
                assert!(poll(future.as_mut()).is_pending() && poll(future.as_mut()).is_ready());
            } else {
                let mut future = pin!(once());
                assert!(poll(future.as_mut()).is_pending() && poll(future.as_mut()).is_ready());
            }
        }
        *ns = start.elapsed().as_nanos() / u128::from(rounds);
    }
    println!("{} ns a wait ({} without), real clock readings aside", ns[1], ns[0]);
}
