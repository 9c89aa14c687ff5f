//! What sessions did over the last hour: samples of `gv$active_session_history`, kept here so that
//! each crosses the cluster once.
//!
//! What it promises: samples are fetched by the session of somebody who looks, and only those that
//! are newer than the last ones known of their instance; however many look, one fetches at a time,
//! and after a fetch that took long there is none for a while, since each has all instances make
//! all rows of the view; what is kept is bounded in age and number. The view has the same rows
//! for everybody who may log on, so that all who look may share them; texts of statements are not
//! among them. What it must never do: fetch while nobody looks.

mod shown;

use super::log_on::PROGRAM;
use super::viewer::Part;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use shown::{Range, Window, shown};

/// Between two fetches at the least.
const PERIOD: Duration = Duration::from_secs(1);
/// So many times as long as a fetch has taken there is none, but not longer than this.
const REST: u32 = 10;
const REST_MAX: Duration = Duration::from_secs(15);
/// Age up to which samples are kept.
const KEPT_US: i64 = 3_600_000_000;
/// Samples that are kept, of all instances; the newest.
const SAMPLES_MAX: usize = 200_000;
/// For so long a sample may change: what a wait has become, and which object its block is of, is
/// known a second later.
const OPEN_US: i64 = 2_500_000;

/// Classes in the order in which a chart stacks them; the first is no wait.
pub const CLASSES: [&str; 11] = [
    "CPU",
    "User I/O",
    "System I/O",
    "Concurrency",
    "Application",
    "Commit",
    "Configuration",
    "Cluster",
    "Network",
    "Administrative",
    "Other",
];

/// A client's session at work at some moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// By the clock of its instance, µs since 1970.
    at_us: i64,
    /// Seconds that it stands for: since the moment before.
    seconds: f64,
    /// Number of the moment on its instance.
    moment: u64,
    class: usize,
    /// Empty: it waited for nothing.
    event: Arc<str>,
    /// Empty: none.
    sql_id: Arc<str>,
    sid: u64,
    serial: u64,
    user: Arc<str>,
    program: Arc<str>,
    /// 0: none is known.
    object: u64,
}

/// Samples of each instance, the oldest first.
type Samples = BTreeMap<u64, VecDeque<Sample>>;

#[derive(Default)]
struct State {
    samples: Samples,
    /// Texts that samples have in common.
    texts: BTreeSet<Arc<str>>,
    /// Up to when samples have been fetched, µs since 1970.
    seen_us: i64,
    /// When the next fetch is due.
    due: Option<Instant>,
    fetching: bool,
}

/// Samples of all instances.
#[derive(Default)]
pub struct Activity(Mutex<State>);

/// The right to make the next fetch. Whoever drops it lets others try.
pub struct Turn<'a> {
    activity: &'a Activity,
    begun: Instant,
    /// What is known of each instance, up to when.
    known: BTreeMap<u64, i64>,
    wall_us: i64,
    oldest_us: i64,
    /// What has been fetched, with its instance.
    fetched: Vec<(u64, Sample)>,
}

impl Activity {
    /// Takes the turn, if a fetch is due and nobody else is at it.
    pub fn take_turn(&self, now: Instant, wall_us: i64) -> Option<Turn<'_>> {
        let mut state = self.0.lock();
        if state.fetching || state.due.is_some_and(|due| now < due) {
            return None;
        }
        state.fetching = true;
        let known = state.samples.iter().filter_map(|(instance, samples)| {
            samples.back().map(|last| (*instance, last.at_us - OPEN_US))
        });
        let (known, oldest_us) = (known.collect(), wall_us - KEPT_US);
        Some(Turn { activity: self, begun: now, known, wall_us, oldest_us, fetched: Vec::new() })
    }

    /// Looks at what is kept, and up to when it is known.
    pub fn look<T>(&self, look: impl FnOnce(&Samples, i64) -> T) -> T {
        let state = self.0.lock();
        look(&state.samples, state.seen_us)
    }
}

impl Turn<'_> {
    /// The statement that fetches what is new, the oldest first: if that is too much for once, the
    /// next fetch goes on from there. Its text does not change with time, so that it is one
    /// statement in `v$sql`.
    pub fn part(&self) -> Part {
        let mut params = vec![self.oldest_us.to_string()];
        let mut since = String::new();
        for (instance, known_us) in &self.known {
            since += &format!("when {instance} then ${}::int8 ", params.len() + 1);
            params.push((*known_us).max(self.oldest_us).to_string());
        }
        let since = match since.is_empty() {
            true => "$1::int8".to_owned(),
            false => format!("case inst_id {since}else $1::int8 end"),
        };
        let text = format!(
            "select inst_id, (extract(epoch from sample_time) * 1000000)::bigint, sample_id, \
             case session_state when 'ON CPU' then 'CPU' else wait_class end, \
             case session_state when 'ON CPU' then '' else event end, sql_id, \
             session_id, session_serial#, username, program, current_obj# \
             from gv$active_session_history \
             where session_type = 'FOREGROUND' and coalesce(program, '') <> '{PROGRAM}' and \
             (extract(epoch from sample_time) * 1000000)::bigint > {since} order by 2"
        );
        Part { name: "samples", text: text.into(), params, rows_max: SAMPLES_MAX }
    }

    /// Takes a row of that statement.
    pub fn row(&mut self, row: &[Option<&str>]) {
        let texts = &mut self.activity.0.lock().texts;
        self.fetched.extend(sample(texts, row));
    }

    /// Keeps what has been fetched.
    pub fn keep(mut self) {
        let fetched = std::mem::take(&mut self.fetched);
        let mut state = self.activity.0.lock();
        let State { samples, texts, .. } = &mut *state;
        for (instance, known_us) in &self.known {
            if let Some(samples) = samples.get_mut(instance) {
                let kept = samples.partition_point(|sample| sample.at_us <= *known_us);
                samples.truncate(kept);
            }
        }
        for (instance, mut sample) in fetched {
            let samples = samples.entry(instance).or_default();
            sample.seconds = seconds(samples, &sample);
            samples.push_back(sample);
        }
        for samples in samples.values_mut() {
            let old = samples.partition_point(|sample| sample.at_us <= self.oldest_us);
            samples.drain(..old);
        }
        let kept: usize = samples.values().map(VecDeque::len).sum();
        for _ in SAMPLES_MAX..kept {
            let age =
                |samples: &&mut VecDeque<Sample>| samples.front().map_or(i64::MAX, |s| s.at_us);
            samples.values_mut().min_by_key(age).and_then(VecDeque::pop_front);
        }
        samples.retain(|_, samples| !samples.is_empty());
        texts.retain(|text| Arc::strong_count(text) > 1);
        state.seen_us = self.wall_us;
        state.due = Some(self.begun + (self.begun.elapsed() * REST).clamp(PERIOD, REST_MAX));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.activity.0.lock();
        state.fetching = false;
        // Without an answer the next one tries soon.
        state.due = state.due.max(Some(self.begun + PERIOD));
    }
}

/// Seconds since the moment before. Moments at which nobody worked have numbers, but no samples.
fn seconds(before: &VecDeque<Sample>, sample: &Sample) -> f64 {
    let Some(last) = before.back() else { return 1.0 };
    if last.moment == sample.moment {
        return last.seconds;
    }
    // An instance that was started anew counts from one again.
    let Some(moments) = sample.moment.checked_sub(last.moment) else { return 1.0 };
    #[allow(clippy::cast_precision_loss)] // an hour
    let between = (sample.at_us - last.at_us) as f64 / 1e6 / moments as f64;
    // One that was suspended did not work meanwhile.
    if (0.0..5.0).contains(&between) { between } else { 1.0 }
}

/// A sample of a row, and its instance.
fn sample(texts: &mut BTreeSet<Arc<str>>, row: &[Option<&str>]) -> Option<(u64, Sample)> {
    let cell = |at: usize| row.get(at).copied().flatten().unwrap_or("");
    let mut text = |at: usize| {
        let text = cell(at);
        if let Some(known) = texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        texts.insert(Arc::clone(&new));
        new
    };
    let number = |at: usize| cell(at).parse::<u64>().ok();
    let class = CLASSES.iter().position(|known| *known == cell(3)).unwrap_or(CLASSES.len() - 1);
    let sample = Sample {
        at_us: cell(1).parse().ok()?,
        seconds: 1.0,
        moment: number(2)?,
        class,
        event: text(4),
        sql_id: text(5),
        sid: number(6)?,
        serial: number(7)?,
        user: text(8),
        program: text(9),
        object: number(10).unwrap_or(0),
    };
    Some((number(0)?, sample))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The time of the samples' last hour.
    pub const NOW_US: i64 = 10_000_000_000;

    /// A row as it is fetched: instance, second, moment; class, event, statement; session, object.
    pub fn row(
        (instance, s, moment): (u64, i64, u64),
        [class, event, sql_id]: [&str; 3],
        (sid, object): (u64, u64),
    ) -> Vec<String> {
        let at_us = NOW_US - 100_000_000 + s * 1_000_000;
        let [instance, moment, sid, object] =
            [instance, moment, sid, object].map(|n| n.to_string());
        let at = at_us.to_string();
        [&instance, &at, &moment, class, event, sql_id, &sid, "1", "ann", "psql", &object]
            .map(str::to_owned)
            .to_vec()
    }

    fn cpu(instance: u64, s: i64, moment: u64) -> Vec<String> {
        row((instance, s, moment), ["CPU", "", ""], (7, 0))
    }

    fn keep_in(mut turn: Turn<'_>, rows: &[Vec<String>]) {
        for row in rows {
            let cells: Vec<Option<&str>> = row.iter().map(|cell| Some(cell.as_str())).collect();
            turn.row(&cells);
        }
        turn.keep();
    }

    /// Keeps rows.
    pub fn keep(activity: &Activity, rows: &[Vec<String>]) {
        activity.0.lock().due = None;
        let turn = activity.take_turn(Instant::now(), NOW_US).expect("nobody else fetches");
        keep_in(turn, rows);
    }

    fn times(activity: &Activity, instance: u64) -> Vec<(u64, f64)> {
        activity.look(|all, _| all[&instance].iter().map(|s| (s.moment, s.seconds)).collect())
    }

    #[test]
    fn only_what_is_newer_is_fetched_and_what_may_have_changed_once_more() {
        let activity = Activity::default();
        let turn = activity.take_turn(Instant::now(), NOW_US).unwrap();
        let part = turn.part();
        assert!(part.text.ends_with("::bigint > $1::int8 order by 2"), "{}", part.text);
        assert_eq!(part.params, ["6400000000"]);
        drop(turn);
        keep(&activity, &[cpu(1, 10, 1), cpu(2, 11, 5), cpu(1, 12, 3)]);
        activity.0.lock().due = None;
        let turn = activity.take_turn(Instant::now(), NOW_US).unwrap();
        let part = turn.part();
        let expected = "case inst_id when 1 then $2::int8 when 2 then $3::int8 else $1::int8 end";
        assert!(part.text.contains(expected), "{}", part.text);
        assert_eq!(part.params, ["6400000000", "9909500000", "9908500000"]);
        assert!(activity.take_turn(Instant::now(), NOW_US).is_none(), "one at a time");
        // The samples that were open come again with what they have become.
        let again = row((1, 12, 3), ["Cluster", "gc cr block 2-way", ""], (7, 9));
        keep_in(turn, &[cpu(1, 10, 1), cpu(2, 11, 5), again, cpu(1, 13, 4)]);
        assert_eq!(times(&activity, 1), [(1, 1.0), (3, 1.0), (4, 1.0)]);
        let classes = activity.look(|all, _| all[&1].iter().map(|s| s.class).collect::<Vec<_>>());
        assert_eq!(classes, [0, 7, 0]);
    }

    #[test]
    fn a_fetch_that_takes_long_is_rare_and_one_that_fails_is_tried_again() {
        let (activity, now) = (Activity::default(), Instant::now());
        drop(activity.take_turn(now, NOW_US).unwrap());
        assert!(activity.take_turn(now, NOW_US).is_none());
        let mut turn = activity.take_turn(now + PERIOD, NOW_US).expect("it is tried again");
        turn.begun = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        turn.keep();
        assert!(activity.take_turn(Instant::now() + Duration::from_secs(10), NOW_US).is_none());
        assert!(activity.take_turn(Instant::now() + Duration::from_secs(20), NOW_US).is_some());
    }

    #[test]
    fn a_sample_stands_for_the_time_since_the_moment_before() {
        let activity = Activity::default();
        // Two moments without work; then the instance is started anew.
        keep(&activity, &[cpu(1, 1, 8), cpu(1, 1, 8), cpu(1, 7, 11), cpu(1, 9, 1)]);
        assert_eq!(times(&activity, 1), [(8, 1.0), (8, 1.0), (11, 2.0), (1, 1.0)]);
    }

    #[test]
    fn what_is_kept_is_bounded_in_age_and_number() {
        let activity = Activity::default();
        keep(&activity, &[cpu(1, -3600, 1), cpu(1, 5, 2)]);
        assert_eq!(times(&activity, 1).len(), 1);
        let many: Vec<_> = (0..SAMPLES_MAX as u64).map(|_| cpu(2, 6, 1)).collect();
        keep(&activity, &many);
        assert_eq!(activity.look(|all, _| all.keys().copied().collect::<Vec<_>>()), [2]);
        assert_eq!(times(&activity, 2).len(), SAMPLES_MAX);
        assert!(activity.0.lock().texts.len() < 5);
    }
}
