//! What the page shows of the samples: a chart's points, and what stands out in a range of it.
//!
//! What it promises: figures are sessions at work on average; a range's parts add up to the whole.
//! What it must never do: show a step before all of its samples can be known.

use super::{CLASSES, Sample, Samples};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Sessions at work by class.
type Counts = [f64; CLASSES.len()];

/// Rows of a list.
const TOP_MAX: usize = 12;
/// By then a sample is here.
const LAG_MS: i64 = 2_000;
/// [`Range::Last`].
const LAST_MS: i64 = 30_000;

/// What the lists are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The last half minute.
    Last,
    /// All that the chart shows.
    Whole,
    /// From one moment to another, milliseconds since 1970.
    Between(i64, i64),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// How far the chart goes back.
    pub minutes: i64,
    pub range: Range,
    /// Of the lists; 0: all.
    pub instance: u64,
    /// Of chart and lists; `None`: all.
    pub sql_id: Option<String>,
}

/// A row of a list.
#[derive(Serialize, Debug)]
pub struct Top<K: Serialize> {
    #[serde(flatten)]
    key: K,
    /// Sessions at work on average, and by class.
    active: f64,
    classes: Counts,
    /// What it waited for most; empty: nothing.
    event: String,
    /// How many sessions these were.
    sessions: usize,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventKey {
    name: String,
    class: &'static str,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SqlKey {
    sql_id: String,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SessionKey {
    inst_id: u64,
    sid: u64,
    serial: u64,
    username: String,
    program: String,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectKey {
    object: u64,
}

/// What the page is made of.
#[derive(Serialize, Debug)]
pub struct Shown {
    classes: [&'static str; CLASSES.len()],
    /// The chart's bounds, and of the lists; milliseconds since 1970.
    from: i64,
    to: i64,
    range_from: i64,
    range_to: i64,
    step_ms: i64,
    /// End of a step, instance, sessions of each class.
    points: Vec<(i64, u64, Counts)>,
    /// Sessions at work on average in the range.
    active: f64,
    events: Vec<Top<EventKey>>,
    statements: Vec<Top<SqlKey>>,
    sessions: Vec<Top<SessionKey>>,
    objects: Vec<Top<ObjectKey>>,
}

/// Time between two points of a chart that goes back so far.
fn step_of(minutes: i64) -> i64 {
    match minutes {
        ..=5 => 5_000,
        6..=15 => 10_000,
        _ => 30_000,
    }
}

/// Puts together what is asked for. `now_us`: up to when samples are known.
pub fn shown(samples: &Samples, window: &Window, now_us: i64) -> Shown {
    let step_ms = step_of(window.minutes);
    let to = (now_us / 1_000 - LAG_MS).div_euclid(step_ms) * step_ms;
    let from = to - window.minutes * 60_000;
    let wanted = |sample: &&Sample| window.sql_id.as_ref().is_none_or(|id| **id == *sample.sql_id);
    let mut points = Vec::new();
    for (instance, samples) in samples {
        // Before the oldest sample nothing is known.
        let Some(oldest) = samples.front() else { continue };
        let mut steps: BTreeMap<i64, Counts> = BTreeMap::new();
        let first = (oldest.at_us / 1_000).div_euclid(step_ms).max(from / step_ms);
        steps.extend((first..to / step_ms).map(|step| (step, Counts::default())));
        for sample in samples.iter().filter(wanted) {
            spread(&mut steps, sample, step_ms);
        }
        points.extend(steps.into_iter().map(|(step, sums)| {
            #[allow(clippy::cast_precision_loss)] // seconds
            let seconds = step_ms as f64 / 1e3;
            ((step + 1) * step_ms, *instance, sums.map(|sum| rounded(sum / seconds)))
        }));
    }
    let newest = now_us / 1_000 - LAG_MS;
    let (range_from, range_to) = match window.range {
        Range::Last => (newest - LAST_MS, newest),
        Range::Whole => (from, newest),
        Range::Between(from, to) => (from, to),
    };
    let lists = Lists {
        samples: samples
            .iter()
            .filter(|(instance, _)| window.instance == 0 || window.instance == **instance)
            .flat_map(|(instance, samples)| samples.iter().map(|sample| (*instance, sample)))
            .filter(|(_, sample)| wanted(sample))
            .filter(|(_, sample)| (range_from..range_to).contains(&(sample.at_us / 1_000)))
            .collect(),
        #[allow(clippy::cast_precision_loss)] // seconds
        seconds: (range_to - range_from).max(1_000) as f64 / 1e3,
    };
    Shown {
        classes: CLASSES,
        from,
        to,
        range_from,
        range_to,
        step_ms,
        points,
        active: rounded(lists.samples.iter().map(|(_, s)| s.seconds).sum::<f64>() / lists.seconds),
        events: lists
            .top(|_, s| Some(EventKey { name: s.event.to_string(), class: CLASSES[s.class] })),
        statements: lists
            .top(|_, s| (!s.sql_id.is_empty()).then(|| SqlKey { sql_id: s.sql_id.to_string() })),
        sessions: lists.top(|inst_id, s| {
            Some(SessionKey {
                inst_id,
                sid: s.sid,
                serial: s.serial,
                username: s.user.to_string(),
                program: s.program.to_string(),
            })
        }),
        objects: lists.top(|_, s| (s.object > 0).then_some(ObjectKey { object: s.object })),
    }
}

/// Adds a sample to the steps that the time it stands for is in.
fn spread(steps: &mut BTreeMap<i64, Counts>, sample: &Sample, step_ms: i64) {
    let end_ms = sample.at_us / 1_000;
    #[allow(clippy::cast_possible_truncation)] // seconds
    let begin_ms = end_ms - (sample.seconds * 1e3) as i64;
    for step in begin_ms.div_euclid(step_ms)..=end_ms.div_euclid(step_ms) {
        let begin = begin_ms.max(step * step_ms);
        let end = end_ms.min((step + 1) * step_ms);
        if let Some(counts) = steps.get_mut(&step).filter(|_| end > begin) {
            #[allow(clippy::cast_precision_loss)] // seconds
            let seconds = (end - begin) as f64 / 1e3;
            counts[sample.class] += seconds;
        }
    }
}

/// Digits that say nothing cost bytes. The sum of nothing is -0.0.
fn rounded(value: f64) -> f64 {
    (value * 1e5).round() / 1e5 + 0.0
}

struct Lists<'a> {
    samples: Vec<(u64, &'a Sample)>,
    seconds: f64,
}

#[derive(Default)]
struct Sum<'a> {
    classes: Counts,
    events: BTreeMap<&'a str, f64>,
    sessions: BTreeSet<(u64, u64)>,
}

impl Lists<'_> {
    /// Those with most samples; a sample without a key is in no row.
    fn top<K: Serialize + Ord>(&self, key: impl Fn(u64, &Sample) -> Option<K>) -> Vec<Top<K>> {
        let mut sums: BTreeMap<K, Sum<'_>> = BTreeMap::new();
        for (instance, sample) in &self.samples {
            let Some(key) = key(*instance, sample) else { continue };
            let sum = sums.entry(key).or_default();
            sum.classes[sample.class] += sample.seconds;
            *sum.events.entry(&sample.event).or_default() += sample.seconds;
            sum.sessions.insert((sample.sid, sample.serial));
        }
        let row = |(key, sum): (K, Sum<'_>)| {
            let most = sum.events.iter().max_by(|a, b| a.1.total_cmp(b.1));
            Top {
                key,
                active: rounded(sum.classes.iter().sum::<f64>() / self.seconds),
                classes: sum.classes.map(|seconds| rounded(seconds / self.seconds)),
                event: most.map_or_else(String::new, |(event, _)| (*event).to_owned()),
                sessions: sum.sessions.len(),
            }
        };
        let mut rows: Vec<Top<K>> = sums.into_iter().map(row).collect();
        // Of equal ones the order of their keys stays, so that rows do not jump about.
        rows.sort_by(|a, b| b.active.total_cmp(&a.active));
        rows.truncate(TOP_MAX);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::Activity;
    use super::super::tests::{NOW_US, keep, row};
    use super::*;

    /// Milliseconds of a second as the rows of tests have it.
    fn ms(s: i64) -> i64 {
        NOW_US / 1_000 - 100_000 + s * 1_000
    }

    fn activity() -> Activity {
        let activity = Activity::default();
        let mut rows = Vec::new();
        for s in 1..=40 {
            let moment = u64::try_from(s).unwrap();
            rows.push(row((1, s, moment), ["CPU", "", "one"], (7, 0)));
            rows.push(row((1, s, moment), ["Cluster", "gc cr block 2-way", "two"], (8, 42)));
            if s > 20 {
                rows.push(row((2, s, moment), ["Application", "enq: TX", "two"], (9, 42)));
            }
        }
        keep(&activity, &rows);
        activity
    }

    fn window(range: Range) -> Window {
        Window { minutes: 5, range, instance: 0, sql_id: None }
    }

    #[test]
    fn a_chart_has_whole_steps_of_each_instance() {
        let shown = activity().look(|all, seen| shown(all, &window(Range::Last), seen));
        assert_eq!((shown.to - shown.from, shown.step_ms, shown.to), (300_000, 5_000, ms(95)));
        let at = |instance: u64, s: i64| {
            let found = shown.points.iter().find(|p| p.0 == ms(s) && p.1 == instance);
            found.map(|(_, _, counts)| (counts[0], counts[4], counts[7]))
        };
        assert_eq!(at(1, 20), Some((1.0, 0.0, 1.0)), "{:?}", shown.points);
        assert_eq!(at(2, 30), Some((0.0, 1.0, 0.0)));
        assert_eq!(at(1, 50), Some((0.0, 0.0, 0.0)), "nobody worked");
        assert_eq!(at(2, 10), None, "nothing is known of it");
    }

    #[test]
    fn a_range_has_its_lists() {
        let activity = activity();
        let range = Range::Between(ms(21), ms(41));
        let all = activity.look(|all, seen| shown(all, &window(range), seen));
        assert_eq!(all.active, 3.0);
        let events: Vec<_> = all.events.iter().map(|e| (e.key.class, e.active)).collect();
        assert_eq!(events, [("CPU", 1.0), ("Application", 1.0), ("Cluster", 1.0)]);
        let top = &all.statements[0];
        assert_eq!((top.key.sql_id.as_str(), top.active, top.sessions), ("two", 2.0, 2));
        assert_eq!((all.objects[0].key.object, all.objects.len()), (42, 1));
        assert_eq!(all.sessions.len(), 3);
        let two = Window { instance: 2, sql_id: Some("two".to_owned()), ..window(range) };
        let two = activity.look(|all, seen| shown(all, &two, seen));
        assert_eq!((two.active, two.events.len()), (1.0, 1));
        assert!(two.points.iter().all(|(_, _, counts)| counts[0] == 0.0), "of that statement");
        let half = activity.look(|all, seen| shown(all, &window(Range::Last), seen));
        assert_eq!((half.active, half.events.len()), (0.0, 0), "the last half minute was quiet");
        let whole = activity.look(|all, seen| shown(all, &window(Range::Whole), seen));
        assert_eq!((whole.range_from, whole.range_to), (whole.from, ms(98)));
        assert_eq!((whole.sessions.len(), whole.statements.len()), (3, 2));
    }
}
