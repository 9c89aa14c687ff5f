//! Active session history: what sessions were doing, looked at once a second.
//!
//! What it promises: a session is in a sample if it works or waits for something that counts; the
//! ring holds the newest samples that fit its bytes; the last sample of a wait tells how long the
//! whole of it took once that is known. What it must never do: cost the sessions that are looked at
//! more than a load at the end of a wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::events::{WaitClass, WaitEvent};
use crate::observer::Observer;
use crate::running::WaitedFor;
use crate::session::{About, SessionKind, SessionState};
use crate::statements::SqlId;

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
    /// 0: none.
    pub plan_hash: u32,
    /// Since when the statement runs, wall clock in µs since 1970.
    pub exec_start_wall_us: Option<i64>,
    pub parsing: bool,
    pub state: SampledState,
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

/// Takes the samples; there is one in an instance.
#[derive(Default)]
pub struct Sampler {
    /// Processes that tell when they have nothing to do, by sid and serial number: of the others
    /// nobody knows whether they work.
    telling: BTreeSet<(u32, u32)>,
    open: Vec<Open>,
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
        let (now, wall_us) = (env.now(), env.wall_us());
        let id = observer.history.last_id() + 1;
        let states = observer.session_states();
        let there: BTreeSet<(u32, u32)> = states.iter().map(|s| (s.sid(), s.serial())).collect();
        self.telling.retain(|who| there.contains(who));
        let mut out = Vec::new();
        for state in states {
            let wait = state.wait_view(now);
            let event = wait.event.filter(|_| wait.waiting);
            // Its workers are the session too, and work.
            let event = event.filter(|event| *event != WaitEvent::PxDeqExecuteReply);
            let idle = event.is_some_and(|event| event.class() == WaitClass::Idle);
            if idle && state.kind() == SessionKind::Background {
                self.telling.insert((state.sid(), state.serial()));
            }
            let works = match state.kind() {
                SessionKind::User => state.is_active(),
                SessionKind::Background => self.telling.contains(&(state.sid(), state.serial())),
            };
            if idle || !(works || event.is_some()) {
                continue;
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
            let since = running.sql.map(|_| now.since(running.since));
            let sample = Sample {
                id,
                wall_us,
                sid: state.sid(),
                serial: state.serial(),
                kind: state.kind(),
                user_no: state.user_no(),
                about: state.about(),
                sql: running.sql,
                top: running.top,
                plan_hash: running.plan_hash,
                exec_start_wall_us: since.map(|ago| wall_us.saturating_sub_unsigned(ago)),
                parsing: running.parsing,
                state: if event.is_some() { SampledState::Waiting } else { SampledState::OnCpu },
                event,
                seq: wait.seq,
                p: wait.p,
                time_waited_us: 0,
                served_by: None,
                blocking: Blocking::NotInWait,
                current,
                xid: state.own_numbers().1,
            };
            out.push((state, sample));
        }
        observer.history.last_id.store(id, Ordering::Relaxed);
        out
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
    use env::Micros;
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
