//! What sessions do over time: samples of `gv$session`, one a second while somebody looks.
//!
//! What it promises: a sample counts clients' sessions that work or wait, by instance and wait
//! class (`CPU`: they wait for nothing), never those that are idle or of a console; samples of the
//! last hour are kept. They hold numbers only, so that all who look may share them. What it must
//! never do: sample more than once a second, however many look.

use super::log_on::PROGRAM;
use super::viewer::Part;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(1);
/// Samples that are kept: an hour.
const SAMPLES_MAX: usize = 3_600;
/// Rows of one sample: instances times classes, with room to spare.
const ROWS_MAX: usize = 256;

/// Classes in the order in which a chart stacks them; the first is no wait.
const CLASSES: [&str; 11] = [
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

type Counts = [f32; CLASSES.len()];

struct Sample {
    wall_us: i64,
    /// By instance; one that does not work is there with zeros.
    instances: BTreeMap<u64, Counts>,
}

/// The right to take the next sample.
pub struct Turn(());

#[derive(Default)]
struct State {
    /// When the last turn was taken.
    taken: Option<Instant>,
    samples: VecDeque<Sample>,
}

/// Samples of all instances.
#[derive(Default)]
pub struct Activity(Mutex<State>);

/// What a chart is made of.
#[derive(Serialize)]
pub struct Series {
    classes: [&'static str; CLASSES.len()],
    /// Milliseconds since 1970, instance, then the average number of sessions of each class.
    points: Vec<(i64, u64, Counts)>,
}

/// The statement that a sample is made of.
pub fn sample_part(own_pid: i32) -> Part {
    // Instances come from `gv$instance`: one where nobody works is a line at zero, not a gap.
    let text = format!(
        "select i.inst_id, s.class, count(s.sid) from gv$instance i left join (select inst_id, \
         sid, case when state = 'WAITING' then wait_class else 'CPU' end as class from gv$session \
         where type = 'USER' and status = 'ACTIVE' and sid <> {own_pid} \
         and program <> '{PROGRAM}') s on s.inst_id = i.inst_id group by 1, 2"
    );
    Part { name: "sample", text: text.into(), params: Vec::new(), rows_max: ROWS_MAX }
}

impl Activity {
    /// How long until the next sample is due.
    pub fn due_in(&self, now: Instant) -> Duration {
        let taken = self.0.lock().taken;
        taken.map_or(Duration::ZERO, |taken| (taken + PERIOD).saturating_duration_since(now))
    }

    /// Takes the turn, if it is due and nobody else has.
    pub fn take_turn(&self, now: Instant) -> Option<Turn> {
        let mut state = self.0.lock();
        if state.taken.is_some_and(|taken| now < taken + PERIOD) {
            return None;
        }
        state.taken = Some(now);
        Some(Turn(()))
    }

    /// Keeps a sample.
    pub fn note(&self, _turn: Turn, wall_us: i64, sampled: &Map<String, Value>) {
        let mut instances: BTreeMap<u64, Counts> = BTreeMap::new();
        let rows = sampled.get("sample").and_then(|table| table["rows"].as_array());
        for row in rows.into_iter().flatten() {
            let (Some(instance), Some(count)) = (row[0].as_u64(), row[2].as_f64()) else {
                continue;
            };
            let counts = instances.entry(instance).or_default();
            // Without a class: nobody works there. Idle: it waits for its own sake.
            if let Some(name) = row[1].as_str().filter(|name| *name != "Idle") {
                let class = CLASSES.iter().position(|known| *known == name);
                let class = class.unwrap_or(CLASSES.len() - 1);
                #[allow(clippy::cast_possible_truncation)] // sessions of one instance
                let count = count as f32;
                counts[class] += count;
            }
        }
        let mut state = self.0.lock();
        if state.samples.len() == SAMPLES_MAX {
            state.samples.pop_front();
        }
        state.samples.push_back(Sample { wall_us, instances });
    }

    /// Averages over steps of `step_s` seconds, of what came after `since_ms`.
    pub fn series(&self, since_ms: i64, step_s: i64) -> Series {
        let step_us = step_s.clamp(1, 600) * 1_000_000;
        let state = self.0.lock();
        let mut steps: BTreeMap<(i64, u64), (Counts, f32)> = BTreeMap::new();
        // A step's own time is its end, and only whole steps are told: a point never changes.
        let newest = state.samples.back().map_or(0, |sample| sample.wall_us / step_us);
        for sample in &state.samples {
            let step = sample.wall_us / step_us;
            if step >= newest && step_us > 1_000_000 {
                continue;
            }
            if (step + 1) * step_us / 1_000 <= since_ms {
                continue;
            }
            for (instance, counts) in &sample.instances {
                let (sums, samples) = steps.entry((step, *instance)).or_default();
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                *samples += 1.0;
            }
        }
        let point = |((step, instance), (sums, samples)): ((i64, u64), (Counts, f32))| {
            ((step + 1) * step_us / 1_000, instance, sums.map(|sum| sum / samples))
        };
        Series { classes: CLASSES, points: steps.into_iter().map(point).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sampled(rows: Value) -> Map<String, Value> {
        json!({ "sample": { "rows": rows } }).as_object().unwrap().clone()
    }

    #[test]
    fn samples_are_averaged_over_whole_steps() {
        let activity = Activity::default();
        let note = |s: i64, rows: Value| activity.note(Turn(()), s * 1_000_000, &sampled(rows));
        note(10, json!([[1, "CPU", 2], [1, "Idle", 9], [2, null, 0]]));
        note(12, json!([[1, "CPU", 1], [1, "Cluster", 3], [2, null, 0]]));
        note(15, json!([[1, "CPU", 7]]));
        let series = activity.series(0, 5);
        let points: Vec<_> = series.points.iter().map(|p| (p.0, p.1, p.2[0], p.2[7])).collect();
        assert_eq!(points, [(15_000, 1, 1.5, 1.5), (15_000, 2, 0.0, 0.0)]);
        assert!(activity.series(15_000, 5).points.is_empty(), "nothing newer is whole");
        assert_eq!(activity.series(15_000, 1).points.len(), 1);
    }

    #[test]
    fn a_turn_is_taken_once_a_second() {
        let (activity, now) = (Activity::default(), Instant::now());
        assert!(activity.due_in(now).is_zero());
        assert!(activity.take_turn(now).is_some() && activity.take_turn(now).is_none());
        assert_eq!(activity.due_in(now), PERIOD);
        assert!(activity.take_turn(now + PERIOD).is_some());
    }

    #[test]
    fn an_hour_is_kept() {
        let activity = Activity::default();
        for s in 0..5_000 {
            activity.note(Turn(()), s * 1_000_000, &sampled(json!([[1, "CPU", 1]])));
        }
        assert_eq!(activity.series(0, 1).points.len(), SAMPLES_MAX);
    }
}
