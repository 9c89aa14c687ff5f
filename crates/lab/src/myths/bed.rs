//! The cluster of an experiment and its sessions.
//!
//! What it promises: figures come from views and traces of the cluster itself. What it must never
//! do: outlive its experiment; who made the cluster ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use tokio_postgres::Client;

use crate::client::{connect, describe};
use crate::demo::cluster::Cluster;
use crate::demo::views::{self, Snapshot, query};

use super::tkprof;

/// MiB of each of two LUNs: for all, and for each instance's redo and undo.
const LUN_MIB: usize = 256;
const LUN_MIB_OF_INSTANCE: usize = 160;

/// A cluster that is open.
pub struct Bed {
    cluster: Cluster,
    pub instances: usize,
    urls: Vec<String>,
}

/// Counts and times in µs of waits by event.
pub type Waits = BTreeMap<String, (i64, i64)>;

impl Bed {
    /// Makes and starts a cluster; `own` are parameters of single instances.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn open(
        cluster: &Cluster,
        instances: usize,
        set: &[String],
        own: &[(usize, &str, String)],
    ) -> Result<Bed, String> {
        let size = format!("--lun-size={}M", LUN_MIB + LUN_MIB_OF_INSTANCE * instances);
        cluster.init_with(instances, set, &["--luns=2", &size])?;
        for (instance, name, value) in own {
            cluster.set_for(*instance, name, value)?;
        }
        Bed::start(cluster, instances)
    }

    fn start(cluster: &Cluster, instances: usize) -> Result<Bed, String> {
        cluster.start_all()?;
        let urls = (1..=instances).map(|k| cluster.url(k)).collect::<Result<_, _>>()?;
        Ok(Bed { cluster: cluster.clone(), instances, urls })
    }

    /// Stops all instances in order, sets parameters, and starts them again.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn restart_with(&mut self, own: &[(usize, &str, String)]) -> Result<(), String> {
        self.cluster.stop_all()?;
        for (instance, name, value) in own {
            self.cluster.set_for(*instance, name, value)?;
        }
        *self = Bed::start(&self.cluster, self.instances)?;
        Ok(())
    }

    /// Stops all instances but the first, as far as they are open.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn leave_one(&self) -> Result<(), String> {
        for instance in 2..=self.instances {
            if self.cluster.pid(instance).is_ok() {
                self.cluster.stop(instance)?;
            }
        }
        Ok(())
    }

    /// Starts those that are not open.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn open_all(&mut self) -> Result<(), String> {
        if (1..=self.instances).all(|instance| self.cluster.pid(instance).is_ok()) {
            return Ok(());
        }
        *self = Bed::start(&self.cluster, self.instances)?;
        Ok(())
    }

    /// A new session on an instance, counted from 1.
    ///
    /// # Errors
    /// It cannot log on.
    pub async fn session(&self, instance: usize) -> Result<Session, String> {
        let url = self.urls.get(instance.wrapping_sub(1)).ok_or("there is no such instance")?;
        let client = connect(url).await.map_err(|e| format!("instance {instance}: {e}"))?;
        Ok(Session { client, instance })
    }

    /// The counters of all instances.
    ///
    /// # Errors
    /// A view cannot be read.
    pub async fn counters(&self) -> Result<Snapshot, String> {
        views::read(&self.session(1).await?.client, self.instances).await
    }

    /// `skein tkprof` of trace files.
    ///
    /// # Errors
    /// As [`tkprof::run`].
    pub fn tkprof(&self, traces: &[PathBuf]) -> Result<(String, Vec<tkprof::Statement>), String> {
        tkprof::run(self.cluster.skein(), traces)
    }
}

/// A client's session.
pub struct Session {
    client: Client,
    pub instance: usize,
}

impl Session {
    /// Runs a statement, or a script of several.
    ///
    /// # Errors
    /// What the instance said, with the statement's beginning.
    pub async fn run(&self, text: &str) -> Result<(), String> {
        self.client.batch_execute(text).await.map_err(|e| self.failed(text, &describe(&e)))
    }

    fn failed(&self, text: &str, why: &str) -> String {
        let head: String = text.trim().chars().take(80).collect();
        format!("instance {}: {head}: {why}", self.instance)
    }

    /// Rows of a query, NULL as an empty text.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn rows(&self, text: &str) -> Result<Vec<Vec<String>>, String> {
        let rows = query(&self.client, text).await.map_err(|why| self.failed(text, &why))?;
        let plain = |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default);
        Ok(rows.into_iter().map(|row| plain(row).collect()).collect())
    }

    /// The one number of a query.
    ///
    /// # Errors
    /// As [`Session::run`]; another answer.
    pub async fn number(&self, text: &str) -> Result<i64, String> {
        let rows = self.rows(text).await?;
        let number = match &rows[..] {
            [row] => row.first().and_then(|value| value.parse().ok()),
            _ => None,
        };
        number.ok_or_else(|| self.failed(text, &format!("not a number: {rows:?}")))
    }

    /// The session's own counters; times in µs.
    ///
    /// # Errors
    /// As [`Session::run`]; a row that cannot be read.
    pub async fn statistics(&self) -> Result<BTreeMap<String, i64>, String> {
        let text = "select name, coalesce(value_us, value) from v$sesstat \
                    where sid = pg_backend_pid()";
        let mut found = BTreeMap::new();
        for row in self.rows(text).await? {
            let [name, value] = &row[..] else { return Err(self.failed(text, "two columns")) };
            let value = value.parse().map_err(|_| self.failed(text, value))?;
            found.insert(name.clone(), value);
        }
        Ok(found)
    }

    /// The session's own waits, those for its client left out.
    ///
    /// # Errors
    /// As [`Session::statistics`].
    pub async fn waits(&self) -> Result<Waits, String> {
        let text = "select event, total_waits, time_waited_micro from v$session_event \
                    where sid = pg_backend_pid() and event not like 'SQL*Net%'";
        let mut found = Waits::new();
        for row in self.rows(text).await? {
            let [event, count, us] = &row[..] else { return Err(self.failed(text, "columns")) };
            let number = |value: &String| value.parse().map_err(|_| self.failed(text, value));
            found.insert(event.clone(), (number(count)?, number(us)?));
        }
        Ok(found)
    }

    /// Switches the trace of event 10046, level 8, on, into a file of this name; its path.
    ///
    /// # Errors
    /// As [`Session::run`]; no file is told of.
    pub async fn trace_on(&self, identifier: &str) -> Result<PathBuf, String> {
        self.run(&format!("alter session set tracefile_identifier = '{identifier}'")).await?;
        self.run("alter session set events '10046 trace name context forever, level 8'").await?;
        let text = "select value from v$diag_info where name = 'Default Trace File' \
                    and sid = pg_backend_pid()";
        let rows = self.rows(text).await?;
        let path = rows.first().and_then(|row| row.first());
        path.map(PathBuf::from).ok_or_else(|| self.failed(text, "no trace file"))
    }

    /// Switches it off; the file is whole then.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn trace_off(&self) -> Result<(), String> {
        self.run("alter session set events '10046 trace name context off'").await
    }
}

/// What counters have grown by.
#[must_use]
pub fn growth(from: &BTreeMap<String, i64>, to: &BTreeMap<String, i64>, name: &str) -> i64 {
    to.get(name).unwrap_or(&0) - from.get(name).unwrap_or(&0)
}

/// Waits between two readings whose event begins with `prefix`: how many, and µs.
#[must_use]
pub fn waited(from: &Waits, to: &Waits, prefix: &str) -> (i64, i64) {
    let mut sum = (0, 0);
    for (event, (count, us)) in to.iter().filter(|(event, _)| event.starts_with(prefix)) {
        let (count_before, us_before) = from.get(event).copied().unwrap_or_default();
        sum = (sum.0 + count - count_before, sum.1 + us - us_before);
    }
    sum
}

/// Runs the same work in several sessions, begun together; seconds until the last one is done.
///
/// # Errors
/// The first session's failure.
pub async fn together(sessions: &[Session], text: &str) -> Result<f64, String> {
    let began = Instant::now();
    let all = sessions.iter().map(|session| session.run(text));
    futures::future::try_join_all(all).await?;
    Ok(began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_between_two_readings_are_summed_by_their_beginning() {
        let waits = |list: &[(&str, i64, i64)]| -> Waits {
            list.iter().map(|(event, count, us)| ((*event).to_owned(), (*count, *us))).collect()
        };
        let from = waits(&[("gc cr request", 1, 10), ("log file sync", 5, 50)]);
        let to = waits(&[
            ("gc cr request", 3, 25),
            ("gc current request", 2, 7),
            ("log file sync", 9, 90),
        ]);
        assert_eq!(waited(&from, &to, "gc "), (4, 22));
        assert_eq!(waited(&from, &to, "row cache"), (0, 0));
    }
}
