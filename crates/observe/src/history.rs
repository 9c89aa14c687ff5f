//! Active session history: what sessions were doing, looked at once a second.
//!
//! What it promises: a session is in a sample if it works or waits for something that counts; the
//! ring holds the newest samples that fit its bytes; the last sample of a wait tells how long the
//! whole of it took once that is known. What it must never do: cost the sessions that are looked at
//! more than a load at the end of a wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::{Env, Micros};
use parking_lot::Mutex;

use crate::events::{WaitClass, WaitEvent};
use crate::observer::Observer;
use crate::running::WaitedFor;
use crate::session::{About, SessionKind, SessionState};
use crate::signature::Signatures;
use crate::statements::SqlId;
use crate::stats::Stat;

/// What a session that is sampled does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampledState {
    OnCpu,
    Waiting,
}

/// Who stands in a session's way.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Blocking {
    /// It waits for no lock.
    #[default]
    NotInWait,
    /// It waits, and no session holds what it waits for: it has just gone, or its instance has.
    NoHolder,
    /// The instance that knows has not answered; its number if that is known.
    Unknown(Option<u8>),
    By {
        sid: u32,
        serial: u32,
        instance: u8,
    },
}

/// One session at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Counts the moments.
    pub id: u64,
    /// When, wall clock in µs since 1970.
    pub wall_us: i64,
    pub sid: u32,
    pub serial: u32,
    pub kind: SessionKind,
    /// As [`SessionState::user_no`].
    pub user_no: u32,
    pub about: About,
    pub sql: Option<SqlId>,
    pub top: Option<SqlId>,
    /// What is known of the two.
    pub text: TextFacts,
    pub top_text: TextFacts,
    /// Which of its children, and number of the call on it; `None`: it is being parsed.
    pub child: Option<u32>,
    pub exec: Option<u64>,
    /// 0: none.
    pub plan_hash: u32,
    /// Since when the statement runs, wall clock in µs since 1970.
    pub exec_start_wall_us: Option<i64>,
    /// Number of the routine whose code runs, and of the outermost around it.
    pub code: Option<u32>,
    pub entry_code: Option<u32>,
    pub parsing: bool,
    pub state: SampledState,
    /// Working: how long the wait before took, in µs; 0: it waits, or has never waited.
    pub last_wait_us: u64,
    /// Waiting: for what.
    pub event: Option<WaitEvent>,
    /// Number of the session's wait.
    pub seq: u32,
    pub p: [u64; 3],
    /// How long the whole wait took, in µs, in the last sample of it; 0 in others, and until it is
    /// known.
    pub time_waited_us: u64,
    /// The instance that the block came from which it waited for; `None`: none did, or not yet.
    pub served_by: Option<u8>,
    pub blocking: Blocking,
    /// What the wait is about, as far as that is known; object 0: not known yet.
    pub current: Option<WaitedFor>,
    /// 0: none.
    pub xid: u64,
    pub since: Since,
    /// What its statements hold in memory and in temporary files, in bytes. The latter is told by
    /// who takes the sample.
    pub held_bytes: u64,
    pub temp_bytes: u64,
}

/// What the text of a statement tells; 0: that is not known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TextFacts {
    /// The field's number of the command.
    pub command: u32,
    /// As [`Signatures::force`].
    pub signature: u64,
}

impl TextFacts {
    /// Those of the statement of a session: it may be one that is planned for the first time.
    fn of(id: Option<SqlId>, state: &SessionState, observer: &Observer) -> TextFacts {
        let Some(id) = id else { return TextFacts::default() };
        if let Some(cursor) = observer.statements.child_of(id) {
            let signature = cursor.signatures().force;
            return TextFacts { command: cursor.command(), signature };
        }
        let own = state.sql();
        match own.as_deref().map(str::trim).filter(|text| SqlId::of(text) == id) {
            Some(text) => TextFacts {
                command: crate::trace::command(text),
                signature: Signatures::of(text).force,
            },
            None => TextFacts::default(),
        }
    }
}

/// What a session has done since it was sampled last, or since it began.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Since {
    /// How long that is.
    pub us: u64,
    /// µs of its calls, and on a processor; `None`: a process, which shares its thread.
    pub calls: Option<[u64; 2]>,
    /// Requests to read and to write blocks of data files, and the blocks.
    pub requests: [u64; 2],
    pub blocks: [u64; 2],
}

/// Counters of a session at a sample.
#[derive(Clone, Copy)]
struct Counters {
    at: Micros,
    calls: [u64; 2],
    io: [u64; 4],
}

impl Counters {
    fn of(state: &SessionState, env: &Env) -> Counters {
        let times = state.times(env);
        let time_of =
            |stat: Stat| times.iter().find(|(of, _)| *of == stat).map_or(0, |(_, us)| *us);
        let of = |stat: Stat| state.totals().stat(stat);
        Counters {
            at: env.now(),
            calls: [time_of(Stat::DbTime), time_of(Stat::CpuUsed)],
            io: [
                of(Stat::PhysicalReadRequests),
                of(Stat::PhysicalWriteRequests),
                of(Stat::PhysicalReads),
                of(Stat::PhysicalWrites),
            ],
        }
    }

    /// `before`: at the sample before; `None`: this is the first, `age_us` after it began.
    fn since(&self, before: Option<&Counters>, age_us: u64, kind: SessionKind) -> Since {
        let (calls, io) = before.map_or(([0; 2], [0; 4]), |before| (before.calls, before.io));
        let call_us = |at: usize| self.calls[at].saturating_sub(calls[at]);
        let done = |at: usize| self.io[at].saturating_sub(io[at]);
        Since {
            us: before.map_or(age_us, |before| self.at.since(before.at)),
            calls: (kind == SessionKind::User).then(|| [0, 1].map(call_us)),
            requests: [0, 1].map(done),
            blocks: [2, 3].map(done),
        }
    }
}

#[derive(Default)]
struct Ring {
    samples: VecDeque<Sample>,
    /// Position of the first of them among all that there ever were.
    first: u64,
}

impl Ring {
    fn at(&mut self, position: u64) -> Option<&mut Sample> {
        let at = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.samples.get_mut(at)
    }
}

/// The samples of an instance.
#[derive(Default)]
pub struct History {
    ring: Mutex<Ring>,
    last_id: AtomicU64,
}

impl History {
    /// All samples that are kept, the oldest first.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        self.ring.lock().samples.iter().cloned().collect()
    }

    /// What those that are newer than this moment take in memory.
    #[must_use]
    pub fn newer_bytes(&self, id: u64) -> u64 {
        let ring = self.ring.lock();
        let older = ring.samples.partition_point(|sample| sample.id <= id);
        ((ring.samples.len() - older) * size_of::<Sample>()) as u64
    }

    /// What they take in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.ring.lock().samples.capacity() * size_of::<Sample>()) as u64
    }

    /// Number of the last moment that was looked at; 0: none yet.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }
}

/// Finds the object that a block belongs to: file, block.
pub type ObjectOf<'a> = &'a dyn Fn(u16, u32) -> Option<u32>;

/// A sample whose wait goes on.
struct Open {
    position: u64,
    state: Arc<SessionState>,
    seq: u32,
}

/// When sessions are looked at: number and time of the moment.
#[derive(Clone, Copy)]
struct Moment {
    id: u64,
    now: Micros,
    wall_us: i64,
}

/// Takes the samples; there is one in an instance.
#[derive(Default)]
pub struct Sampler {
    /// Processes that tell when they have nothing to do, by sid and serial number: of the others
    /// nobody knows whether they work.
    telling: BTreeSet<(u32, u32)>,
    open: Vec<Open>,
    /// Of those that have been sampled and are there, by the same.
    counters: BTreeMap<(u32, u32), Counters>,
}

fn is_about_a_block(event: WaitEvent) -> bool {
    let [first, second, _] = event.p_labels();
    first == "file#" && second == "block#"
}

impl Sampler {
    /// What sessions do now.
    #[must_use]
    pub fn look(&mut self, observer: &Observer) -> Vec<(Arc<SessionState>, Sample)> {
        let env = observer.env();
        let id = observer.history.last_id() + 1;
        let moment = Moment { id, now: env.now(), wall_us: env.wall_us() };
        let states = observer.session_states();
        let there: BTreeSet<(u32, u32)> = states.iter().map(|s| (s.sid(), s.serial())).collect();
        self.telling.retain(|who| there.contains(who));
        self.counters.retain(|who, _| there.contains(who));
        let mut out = Vec::new();
        for state in states {
            if let Some(sample) = self.look_at(observer, &state, moment) {
                out.push((state, sample));
            }
        }
        observer.history.last_id.store(id, Ordering::Relaxed);
        out
    }

    /// What one does; `None`: nothing that counts.
    fn look_at(
        &mut self,
        observer: &Observer,
        state: &SessionState,
        Moment { id, now, wall_us }: Moment,
    ) -> Option<Sample> {
        let who = (state.sid(), state.serial());
        let wait = state.wait_view(now);
        let event = wait.event.filter(|_| wait.waiting);
        // Its workers are the session too, and work.
        let event = event.filter(|event| *event != WaitEvent::PxDeqExecuteReply);
        let idle = event.is_some_and(|event| event.class() == WaitClass::Idle);
        if idle && state.kind() == SessionKind::Background {
            self.telling.insert(who);
        }
        let works = match state.kind() {
            SessionKind::User => state.is_active(),
            SessionKind::Background => self.telling.contains(&who),
        };
        if idle || !(works || event.is_some()) {
            return None;
        }
        let running = state.running();
        let current = running.waited_for.filter(|_| event.is_some()).or_else(|| {
            let block = (u16::try_from(wait.p[0]).ok()?, u32::try_from(wait.p[1]).ok()?);
            let about_block = event.is_some_and(is_about_a_block);
            about_block.then_some(WaitedFor { obj: 0, block: Some(block), row: None })
        });
        if event.is_some() {
            state.note_sampled(wait.seq);
        }
        let runs_us = running.sql.map(|_| now.since(running.since));
        let counters = Counters::of(state, observer.env());
        let before = self.counters.insert(who, counters);
        let age_us = wall_us.saturating_sub(state.logon_wall_us()).max(0).unsigned_abs();
        Some(Sample {
            id,
            wall_us,
            sid: state.sid(),
            serial: state.serial(),
            kind: state.kind(),
            user_no: state.user_no(),
            about: state.about(),
            sql: running.sql,
            top: running.top,
            text: TextFacts::of(running.sql, state, observer),
            top_text: TextFacts::of(running.top, state, observer),
            child: running.child,
            exec: running.exec,
            plan_hash: running.plan_hash,
            exec_start_wall_us: runs_us.map(|ago| wall_us.saturating_sub_unsigned(ago)),
            code: running.code,
            entry_code: running.entry_code,
            parsing: running.parsing,
            state: if event.is_some() { SampledState::Waiting } else { SampledState::OnCpu },
            last_wait_us: if wait.waiting { 0 } else { wait.wait_us },
            event,
            seq: wait.seq,
            p: wait.p,
            time_waited_us: 0,
            served_by: None,
            blocking: Blocking::NotInWait,
            current,
            xid: state.own_numbers().1,
            since: counters.since(before.as_ref(), age_us, state.kind()),
            held_bytes: state.held_bytes(),
            temp_bytes: 0,
        })
    }

    /// Keeps what was seen, in at most `bytes_max`, and tells the samples of waits that have ended
    /// meanwhile how long these took.
    pub fn keep(
        &mut self,
        observer: &Observer,
        seen: Vec<(Arc<SessionState>, Sample)>,
        bytes_max: u64,
        object_of: ObjectOf<'_>,
    ) {
        let samples_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / size_of::<Sample>();
        let goes_on: BTreeMap<(u32, u32), u32> = seen
            .iter()
            .filter(|(_, sample)| sample.state == SampledState::Waiting)
            .map(|(state, sample)| ((state.sid(), state.serial()), sample.seq))
            .collect();
        let now = observer.env().now();
        let mut ring = observer.history.ring.lock();
        for open in self.open.drain(..) {
            let Some(sample) = ring.at(open.position) else { continue };
            name_object(sample, object_of);
            let who = (open.state.sid(), open.state.serial());
            if goes_on.get(&who) == Some(&open.seq) {
                // There is a later sample of the same wait.
                continue;
            }
            if let Some(ended) = open.state.ended_wait(open.seq, now) {
                sample.time_waited_us = ended.us;
                sample.event = ended.event.or(sample.event);
                sample.served_by = ended.served_by;
            }
        }
        for (state, mut sample) in seen {
            name_object(&mut sample, object_of);
            if sample.state == SampledState::Waiting {
                let position = ring.first + ring.samples.len() as u64;
                self.open.push(Open { position, state, seq: sample.seq });
            }
            ring.samples.push_back(sample);
        }
        while ring.samples.len() > samples_max.max(1) {
            ring.samples.pop_front();
            ring.first += 1;
        }
    }
}

/// A block that was on its way tells whose it is once it has come.
fn name_object(sample: &mut Sample, object_of: ObjectOf<'_>) {
    if let Some(WaitedFor { obj: obj @ 0, block: Some((file, block)), .. }) = &mut sample.current {
        *obj = object_of(*file, *block).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{at, poll, world};
    use std::pin::pin;

    const BYTES_MAX: u64 = 1 << 20;

    fn look(sampler: &mut Sampler, observer: &Observer, bytes_max: u64) {
        let seen = sampler.look(observer);
        let object_of = |file, block| (file == 4).then_some(block + 100);
        sampler.keep(observer, seen, bytes_max, &object_of);
    }

    #[test]
    fn only_sessions_that_work_or_wait_for_something_are_sampled() {
        let (_, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let quiet = observer.ctx(SessionKind::Background, "LMS0");
        let mut sampler = Sampler::default();
        look(&mut sampler, &observer, BYTES_MAX);
        assert!(observer.history.samples().is_empty(), "nobody works");
        ctx.session.set_active(true, Micros(0));
        look(&mut sampler, &observer, BYTES_MAX);
        let mut idle =
            pin!(quiet.wait(WaitEvent::RdbmsIpcMessage, [0; 3], std::future::pending::<()>()));
        assert!(poll(idle.as_mut()).is_pending());
        look(&mut sampler, &observer, BYTES_MAX);
        let samples = observer.history.samples();
        let seen: Vec<_> = samples.iter().map(|s| (s.id, s.sid, s.state, s.event)).collect();
        let (sid, on_cpu) = (ctx.session.sid(), SampledState::OnCpu);
        assert_eq!(seen, [(2, sid, on_cpu, None), (3, sid, on_cpu, None)]);
    }

    #[test]
    fn a_process_that_tells_when_it_is_idle_works_when_it_is_not() {
        let (clock, observer) = world();
        let lgwr = observer.ctx(SessionKind::Background, "LGWR");
        let mut sampler = Sampler::default();
        let mut idle = pin!(lgwr.wait(WaitEvent::RdbmsIpcMessage, [0; 3], at(&clock, 50, ())));
        assert!(poll(idle.as_mut()).is_pending());
        look(&mut sampler, &observer, BYTES_MAX);
        clock.advance(50);
        assert!(poll(idle.as_mut()).is_ready());
        look(&mut sampler, &observer, BYTES_MAX);
        let samples = observer.history.samples();
        assert_eq!(samples.len(), 1);
        assert_eq!(
            (samples[0].state, samples[0].kind),
            (SampledState::OnCpu, SessionKind::Background)
        );
    }

    #[test]
    fn the_last_sample_of_a_wait_tells_how_long_it_took() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        ctx.session.set_active(true, Micros(0));
        let mut sampler = Sampler::default();
        let event = WaitEvent::GcCrBlock2Way;
        let told = ((), crate::Told { event, until: None, served_by: Some(3) });
        let came = at(&clock, 2_500_000, told);
        let mut wait = pin!(ctx.wait_relabel(WaitEvent::GcCrRequest, [4, 7, 1], came));
        assert!(poll(wait.as_mut()).is_pending());
        look(&mut sampler, &observer, BYTES_MAX);
        clock.advance(1_000_000);
        look(&mut sampler, &observer, BYTES_MAX);
        clock.advance(1_500_000);
        assert!(poll(wait.as_mut()).is_ready());
        // What comes after it does not hide how it ended.
        let mut next = pin!(ctx.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 9_000_000, ())));
        assert!(poll(next.as_mut()).is_pending());
        look(&mut sampler, &observer, BYTES_MAX);
        let samples = observer.history.samples();
        let from: Vec<_> = samples.iter().map(|s| s.served_by).collect();
        assert_eq!(from, [None, Some(3), None]);
        let told: Vec<_> = samples.iter().map(|s| (s.event, s.time_waited_us)).collect();
        let asked = (Some(WaitEvent::GcCrRequest), 0);
        let ended = (Some(WaitEvent::GcCrBlock2Way), 2_500_000);
        assert_eq!(told, [asked, ended, (Some(WaitEvent::LogFileSync), 0)]);
        let place = WaitedFor { obj: 107, block: Some((4, 7)), row: None };
        assert_eq!(samples[1].current, Some(place));
        assert_eq!(samples[2].current, None);
    }

    #[test]
    fn a_sample_tells_what_runs_and_what_was_done_since_the_one_before() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let lgwr = observer.ctx(SessionKind::Background, "LGWR");
        let mut sampler = Sampler::default();
        ctx.session.set_active(true, Micros(0));
        // It is planned for the first time: nobody else knows it.
        ctx.session.set_sql(Some(Arc::from("update t set v = 1 ")));
        let planning = ctx.begin_planning("update t set v = 1");
        ctx.bump(Stat::PhysicalReads, 4);
        ctx.bump(Stat::PhysicalReadRequests, 2);
        look(&mut sampler, &observer, BYTES_MAX);
        let cursor = ctx.parsed_sql("update t set v = 1", 1, ("u", 10));
        ctx.end_planning(&planning, Some(&cursor));
        let call = ctx.enter_sql(&cursor);
        let outer = ctx.session.enter_code(7);
        let inner = ctx.parsed_sql("SELECT w FROM t WHERE id = 5", 1, ("u", 10));
        let called = ctx.enter_sql(&inner);
        let mut wait = pin!(lgwr.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 9_000_000, ())));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(1_000_000);
        ctx.session.hold(64);
        ctx.bump(Stat::PhysicalReads, 1);
        ctx.bump(Stat::PhysicalReadRequests, 1);
        ctx.bump(Stat::PhysicalWrites, 3);
        look(&mut sampler, &observer, BYTES_MAX);
        let samples = observer.history.samples();
        let [first, second, process] = &samples[..] else { panic!("{}", samples.len()) };
        let update = TextFacts { command: 6, signature: cursor.signatures().force };
        assert_eq!(
            (first.text, first.top_text, first.child, first.exec),
            (update, update, None, None)
        );
        assert_eq!((first.since.requests, first.since.blocks), ([2, 0], [4, 0]));
        let select = Signatures::of("select w from t where id = 6").force;
        let select = TextFacts { command: 3, signature: select };
        assert_eq!((second.text, second.top_text), (select, update));
        assert_eq!((second.child, second.code, second.entry_code), (Some(0), Some(7), Some(7)));
        assert!(second.exec.is_some());
        assert_eq!((second.since.us, second.since.requests), (1_000_000, [1, 0]));
        assert_eq!((second.since.blocks, second.held_bytes), ([1, 3], 64));
        assert_eq!(second.since.calls.map(|[call_us, _]| call_us), Some(1_000_000));
        assert_eq!((process.kind, process.since.calls), (SessionKind::Background, None));
        assert_eq!(process.text, TextFacts::default());
        ctx.leave_sql(&inner, &called, crate::Outcome::default());
        ctx.session.leave_code(outer);
        ctx.leave_sql(&cursor, &call, crate::Outcome::default());
    }

    #[test]
    fn who_works_tells_how_long_it_waited_before() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        ctx.session.set_active(true, Micros(0));
        let mut sampler = Sampler::default();
        let mut wait = pin!(ctx.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 700, ())));
        assert!(poll(wait.as_mut()).is_pending());
        look(&mut sampler, &observer, BYTES_MAX);
        clock.advance(700);
        assert!(poll(wait.as_mut()).is_ready());
        look(&mut sampler, &observer, BYTES_MAX);
        let samples = observer.history.samples();
        let told: Vec<_> = samples.iter().map(|s| s.last_wait_us).collect();
        assert_eq!(told, [0, 700]);
    }

    #[test]
    fn old_samples_go_when_there_is_no_room() {
        let (_, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        ctx.session.set_active(true, Micros(0));
        let mut sampler = Sampler::default();
        for _ in 0..5 {
            look(&mut sampler, &observer, 3 * size_of::<Sample>() as u64);
        }
        let ids: Vec<u64> = observer.history.samples().iter().map(|s| s.id).collect();
        assert_eq!(ids, [3, 4, 5]);
    }
}
