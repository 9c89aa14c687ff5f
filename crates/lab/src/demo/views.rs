//! What the cluster says of itself: counters and waits from its `gv$` views.
//!
//! What it must never do: show a figure that was not read. A view that cannot be read is named.

use std::collections::BTreeMap;

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::client::describe;

/// Counters by instance and name; times in µs.
pub type Counters = BTreeMap<(usize, String), i64>;

/// One reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub statistics: Counters,
    pub wait_counts: Counters,
    pub wait_us: Counters,
}

/// Reads the views through one instance, while all `instances` are open.
///
/// # Errors
/// Which view could not be read, and why; or whose rows are missing in it.
pub async fn read(client: &Client, instances: usize) -> Result<Snapshot, String> {
    let mut snapshot = Snapshot::default();
    let statistics = "select inst_id, name, coalesce(value_us, value) from gv$sysstat";
    for row in query(client, statistics).await.map_err(|e| format!("gv$sysstat: {e}"))? {
        let [instance, name, value] = fields(&row).ok_or("gv$sysstat: a row is incomplete")?;
        put(&mut snapshot.statistics, instance, name, value)?;
    }
    let waits = "select inst_id, event, total_waits, time_waited_micro from gv$system_event \
                 where wait_class <> 'Idle'";
    for row in query(client, waits).await.map_err(|e| format!("gv$system_event: {e}"))? {
        let [instance, event, count, us] =
            fields(&row).ok_or("gv$system_event: a row is incomplete")?;
        put(&mut snapshot.wait_counts, instance, event, count)?;
        put(&mut snapshot.wait_us, instance, event, us)?;
    }
    complete("gv$sysstat", &snapshot.statistics, instances)?;
    complete("gv$system_event", &snapshot.wait_counts, instances)?;
    Ok(snapshot)
}

/// Every instance must be among the rows of a `gv$` view.
fn complete(view: &str, counters: &Counters, instances: usize) -> Result<(), String> {
    let seen: std::collections::BTreeSet<usize> = counters.keys().map(|(i, _)| *i).collect();
    match (1..=instances).find(|i| !seen.contains(i)) {
        Some(missing) => Err(format!("{view}: no row of instance {missing}")),
        None => Ok(()),
    }
}

pub type Row = Vec<Option<String>>;

/// Over the simple protocol: text, whatever the types.
///
/// # Errors
/// What the server said.
pub async fn query(client: &Client, text: &str) -> Result<Vec<Row>, String> {
    let messages = client.simple_query(text).await.map_err(|e| describe(&e))?;
    let row = |m: SimpleQueryMessage| match m {
        SimpleQueryMessage::Row(r) => {
            Some((0..r.len()).map(|i| r.get(i).map(str::to_owned)).collect())
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

fn fields<const N: usize>(row: &Row) -> Option<[&str; N]> {
    let all: Option<Vec<&str>> = row.iter().map(Option::as_deref).collect();
    all?.try_into().ok()
}

fn put(counters: &mut Counters, instance: &str, name: &str, value: &str) -> Result<(), String> {
    let wrong = || format!("not a counter: {instance} {name} {value}");
    let instance = instance.parse().map_err(|_| wrong())?;
    counters.insert((instance, name.to_owned()), value.parse().map_err(|_| wrong())?);
    Ok(())
}

/// Growth from `from` to `to`, added to `sum`; counters of `restarted` began at 0 in between.
pub fn add_growth(sum: &mut Counters, from: &Counters, to: &Counters, restarted: Option<usize>) {
    for ((instance, name), value) in to {
        let key = (*instance, name.clone());
        let base = if restarted == Some(*instance) { 0 } else { *from.get(&key).unwrap_or(&0) };
        *sum.entry(key).or_default() += value - base;
    }
}

/// Sums over all instances by name.
#[must_use]
pub fn by_name(counters: &Counters) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for ((_, name), value) in counters {
        *sums.entry(name.clone()).or_default() += value;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(list: &[(usize, &str, i64)]) -> Counters {
        list.iter().map(|(i, n, v)| ((*i, (*n).to_owned()), *v)).collect()
    }

    #[test]
    fn growth_of_a_restarted_instance_counts_from_zero() {
        let start = counters(&[(1, "a", 10), (2, "a", 100)]);
        let before_kill = counters(&[(1, "a", 15), (2, "a", 160)]);
        let end = counters(&[(1, "a", 25), (2, "a", 7)]);
        let mut sum = Counters::new();
        add_growth(&mut sum, &start, &before_kill, None);
        add_growth(&mut sum, &before_kill, &end, Some(2));
        assert_eq!(sum, counters(&[(1, "a", 15), (2, "a", 67)]));
        assert_eq!(by_name(&sum)["a"], 82);
    }

    #[test]
    fn a_view_without_rows_of_an_instance_is_incomplete() {
        let two = counters(&[(1, "a", 1), (2, "a", 1)]);
        assert_eq!(complete("gv$x", &two, 2), Ok(()));
        assert_eq!(complete("gv$x", &two, 3), Err("gv$x: no row of instance 3".to_owned()));
    }

    #[test]
    fn a_row_with_a_null_or_a_wrong_number_of_columns_is_refused() {
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(fields::<2>(&vec![some("a"), some("b")]), Some(["a", "b"]));
        assert_eq!(fields::<2>(&vec![some("a"), None]), None);
        assert_eq!(fields::<3>(&vec![some("a"), some("b")]), None);
        assert!(put(&mut Counters::new(), "1", "a", "x").is_err());
    }
}
