//! How long clients of survivors stood still after a kill, and what the alert logs say of it.

use std::path::Path;
use std::sync::Mutex;

use super::load::locked;

/// One SIGKILL of one instance.
pub struct Kill {
    pub victim: usize,
    pub at_ns: u64,
    /// Until then the others were alone.
    pub until_ns: u64,
    /// What the survivors say of the change.
    pub splits: Vec<String>,
}

#[must_use]
pub fn alert_log(db: &Path, instance: usize) -> String {
    std::fs::read_to_string(db.join(format!("alert_{instance}.log"))).unwrap_or_default()
}

/// `epoch N: ` of a line, and what follows.
fn epoch_of(line: &str) -> Option<(u64, &str)> {
    let (number, rest) = line.split_once(" epoch ")?.1.split_once(": ")?;
    Some((number.parse().ok()?, rest))
}

/// The newest epoch of an alert log; 0 if there is none.
#[must_use]
pub fn epoch(log: &str) -> u64 {
    log.lines().filter_map(epoch_of).map(|(epoch, _)| epoch).max().unwrap_or(0)
}

/// The members of the newest epoch that an instance has noted.
#[must_use]
pub fn members(log: &str) -> Vec<usize> {
    let last = log.lines().rev().find_map(|line| line.split("members ").nth(1));
    let list = last.unwrap_or_default();
    list.split(", ").filter_map(|k| k.trim().parse().ok()).collect()
}

/// The line that says how long the change after epoch `before` took.
#[must_use]
pub fn split(log: &str, before: u64) -> Option<String> {
    let mut lines = log.lines().filter_map(epoch_of);
    let said = lines.find(|(epoch, rest)| *epoch > before && rest.starts_with("blocks are served"));
    said.map(|(epoch, rest)| format!("epoch {epoch}: {rest}"))
}

/// Why an instance was put out, as another tells it.
#[must_use]
pub fn account(log: &str, victim: usize) -> Option<String> {
    let text = format!("instance {victim} is put out");
    log.lines().rev().find(|line| line.contains(&text)).map(str::to_owned)
}

/// The longest time, in nanoseconds, that a survivor's client waited for its next answer and that
/// ended or began while the others were alone; and the same for whole instances.
#[must_use]
pub fn longest_stall(told: &[Mutex<Vec<u64>>], clients_of: usize, kill: &Kill) -> (u64, u64) {
    let gap = |times: &[u64]| {
        let pairs = times.windows(2).map(|w| (w[0], w[1]));
        let meets = pairs.filter(|(from, to)| *to > kill.at_ns && *from < kill.until_ns);
        meets.map(|(from, to)| to - from.max(kill.at_ns)).max().unwrap_or(0)
    };
    let (mut client_ns, mut instance_ns) = (0, 0);
    for (index, clients) in told.chunks(clients_of).enumerate() {
        if index + 1 == kill.victim {
            continue;
        }
        let mut all = Vec::new();
        for client in clients {
            let times = locked(client);
            client_ns = client_ns.max(gap(&times));
            all.extend_from_slice(&times);
        }
        all.sort_unstable();
        instance_ns = instance_ns.max(gap(&all));
    }
    (client_ns, instance_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-01-01T00:00:00.000Z epoch 4: members 1, 2, 3
2026-01-01T00:00:00.100Z epoch 4: blocks are served after 5.0 ms (links 1.0 ms)
2026-01-01T00:00:01.000Z warning: instance 2 is put out: its heartbeat has stopped
2026-01-01T00:00:01.000Z epoch 5: members 1, 3
2026-01-01T00:00:01.100Z epoch 5: blocks are served after 75.2 ms (links 1.0 ms, freeze 2.0 ms)
";

    #[test]
    fn alert_logs_are_understood() {
        assert_eq!((epoch(LOG), epoch("")), (5, 0));
        assert_eq!(members(LOG), [1, 3]);
        let said = split(LOG, 4).expect("a line");
        assert!(said.starts_with("epoch 5: blocks are served after 75.2 ms"), "{said}");
        assert_eq!(split(LOG, 5), None);
        assert!(account(LOG, 2).expect("a line").contains("heartbeat"));
        assert_eq!(account(LOG, 3), None);
    }

    #[test]
    fn the_longest_stall_is_that_of_survivors_after_the_kill() {
        let told = [
            vec![5, 10, 90, 95],
            vec![20, 30, 50],
            // The victim's.
            vec![1, 500],
            vec![2],
            // One that stood still before, and one after.
            vec![1, 9],
            vec![300, 900],
        ]
        .map(Mutex::new);
        let kill = Kill { victim: 2, at_ns: 20, until_ns: 200, splits: Vec::new() };
        // 20 to 90 for one client; from the kill to 300 for all of instance 3 together.
        assert_eq!(longest_stall(&told, 2, &kill), (70, 280));
    }
}
