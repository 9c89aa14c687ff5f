//! Chaos: real processes under a load, harmed in ways that a seed chooses, and every client's
//! history checked.
//!
//! What it promises: success only if every history is what the level of isolation allows, nothing
//! acknowledged is lost, `skein verify` finds no damage, and commits were interrupted on the way;
//! else the seed is printed and the folder is kept. What it must never do: call a run good that
//! proves nothing.

mod failover;
mod harm;
mod load;
mod options;
mod proxy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::client::{connect, describe};
use crate::demo::book::{self, Book};
use crate::demo::check::{self, INITIAL_BALANCE};
use crate::demo::cluster::Cluster;
use crate::random::Random;
use harm::Nemesis;
use histories::append::{self, Level};
use histories::{Operation, Outcome, Recorder, register};
use load::{ACCOUNTS, Load, Log, Work, locked};
use options::Options;
use proxy::Proxy;

/// How long clients may take to finish their last operation.
const FINISH_LIMIT: Duration = Duration::from_secs(90);
/// Two LUNs: small, so that they can be filled up.
const LUN_SIZE: &str = "--lun-size=144M";

/// Runs the program.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    crate::args::main(options::parse(args), &options::usage(), supervise)
}

/// Runs seed after seed until the time is over, one fails, or a signal comes.
async fn supervise(options: Options) -> Result<bool, String> {
    let began = Instant::now();
    let mut seed = options.seed;
    println!("{}", harm::SKIPPED);
    loop {
        if !run_seed(&options, seed).await? {
            return Ok(false);
        }
        if began.elapsed() >= Duration::from_secs(60 * options.minutes) {
            return Ok(true);
        }
        seed = seed.wrapping_add(1);
    }
}

/// One run in a folder of its own; what it started is ended however it ends.
async fn run_seed(options: &Options, seed: u64) -> Result<bool, String> {
    let parent = options.work_dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = parent.join(format!("skein-chaos-{seed}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("make {}: {e}", dir.display()))?;
    let cluster = Cluster::new(&dir)?;
    let mut task = tokio::spawn(run(options.clone(), seed, cluster.clone(), dir.clone()));
    let result = tokio::select! {
        done = &mut task => done.unwrap_or_else(|e| Err(format!("the run failed: {e}"))),
        stopped = crate::args::stopped() => {
            task.abort();
            let problems = cluster.end(true);
            return Err(stopped.err().into_iter().chain(problems).collect::<Vec<_>>().join("\n"));
        }
    };
    let complaints = match result {
        Ok(complaints) => complaints,
        Err(why) => vec![why],
    };
    let good = complaints.is_empty();
    let left = cluster.end(good);
    for complaint in complaints.iter().chain(&left) {
        println!("PROBLEM: {complaint}");
    }
    if good && left.is_empty() {
        println!("seed {seed}: every history holds");
        return Ok(true);
    }
    println!("FAILED with seed {seed}; kept: {}", dir.display());
    Ok(false)
}

/// Everything but the cleaning up; the complaints.
async fn run(
    options: Options,
    seed: u64,
    cluster: Cluster,
    dir: PathBuf,
) -> Result<Vec<String>, String> {
    let mut random = Random::new(seed);
    let drawn = usize::try_from(random.below(3)).unwrap_or(0) + 3;
    let instances = options.instances.unwrap_or(drawn);
    let drawn = harm::choose(&mut random, options.harms);
    let harms = if options.only.is_empty() { drawn } else { options.only.clone() };
    let names: Vec<&str> = harms.iter().map(|h| h.name()).collect();
    println!("seed {seed}: {instances} instances; {}", names.join(", "));
    let proxies = open(&options, &cluster, instances).await?;
    let urls: Vec<String> = (1..=instances).map(|k| cluster.url(k)).collect::<Result<_, _>>()?;
    make_tables(&urls[0]).await?;

    let list = dir.join("transfers.list");
    let book = Book::create(&list).map_err(|e| format!("make {}: {e}", list.display()))?;
    let mut logs = BTreeMap::new();
    for work in Work::ALL {
        let recorder = Recorder::create(&history_path(&dir, work))?;
        logs.insert(work, Log::new(recorder));
    }
    let load = Arc::new(Load::new(urls, logs));
    let mut clients = Vec::new();
    for instance in 1..=instances {
        for work in Work::ALL {
            let pen = (work == Work::Bank).then(|| book.pen());
            let seed = seed.wrapping_mul(1000).wrapping_add(clients.len() as u64);
            let client = load::client(Arc::clone(&load), work, instance, seed, pen);
            clients.push(tokio::spawn(client));
        }
    }
    let settle = Duration::from_millis(options.settle_ms);
    let (kills, load_too) = (Vec::new(), Arc::clone(&load));
    let mut nemesis =
        Nemesis { cluster: cluster.clone(), load: load_too, proxies, random, settle, kills };
    tokio::time::sleep(settle).await;
    let mut struck = Ok(());
    for harm in harms {
        struck = nemesis.strike(harm).await.map_err(|why| format!("{}: {why}", harm.name()));
        if struck.is_err() {
            break;
        }
    }
    load.stop.store(true, Relaxed);
    let all = futures::future::join_all(clients);
    let finished = tokio::time::timeout(FINISH_LIMIT, all).await;
    let mut complaints: Vec<String> = struck.err().into_iter().collect();
    if finished.is_err() {
        complaints.push(format!("clients still wait after {FINISH_LIMIT:?}"));
    }
    book.close().map_err(|e| format!("write {}: {e}", list.display()))?;
    for log in load.logs.values() {
        log.recorder.flush().map_err(|e| format!("write a history: {e}"))?;
    }
    if complaints.is_empty() {
        complaints.extend(books(&cluster, instances, &list).await?);
    }
    complaints.extend(histories(&dir, &load)?);
    tell(&load, &nemesis);
    complaints.extend(logs_of(&cluster, instances));
    let problems = locked(&load.problems).clone();
    complaints.extend(problems.iter().map(|(text, count)| format!("{text} ({count} times)")));
    if complaints.is_empty() {
        cluster.stop_all()?;
        match cluster.verify() {
            Ok(said) => println!("{said}"),
            Err(why) => complaints.push(why),
        }
    }
    Ok(complaints)
}

fn history_path(dir: &Path, work: Work) -> PathBuf {
    dir.join(format!("history-{}.jsonl", work.name()))
}

/// Makes the database, with a proxy before each interconnect, and starts it.
async fn open(
    options: &Options,
    cluster: &Cluster,
    instances: usize,
) -> Result<Vec<Proxy>, String> {
    let mut set = vec!["db_cache_size=32M".to_owned(), "log_file_size=4M".to_owned()];
    set.extend(options.set.iter().cloned());
    cluster.init_with(instances, &set, &["--luns=2", LUN_SIZE])?;
    let path = cluster.db().join("skein.toml");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut text = std::fs::read_to_string(&path).map_err(failed)?;
    let mut proxies = Vec::new();
    for k in 1..=instances {
        let target = proxy::free_port()?;
        let proxy = Proxy::to(target).await?;
        let line = "\ninterconnect = \"127.0.0.1:0\"";
        text = text.replacen(line, &format!("\ninterconnect = \"127.0.0.1:{target}\""), 1);
        let own = format!("[instance.{k}]");
        let published = format!("interconnect_published = \"127.0.0.1:{}\"", proxy.port);
        text = text.replace(&own, &format!("{own}\n{published}"));
        proxies.push(proxy);
    }
    std::fs::write(&path, text).map_err(failed)?;
    cluster.start_all()?;
    Ok(proxies)
}

async fn make_tables(url: &str) -> Result<(), String> {
    let client = connect(url).await?;
    let fill = format!(
        "insert into chaos_account select g, {INITIAL_BALANCE} from generate_series(1, {ACCOUNTS}) g"
    );
    for sql in [load::TABLES, &fill] {
        client.batch_execute(sql).await.map_err(|e| format!("make tables: {}", describe(&e)))?;
    }
    Ok(())
}

/// Every acknowledged transfer is there, and nothing else, through each instance.
async fn books(cluster: &Cluster, instances: usize, list: &Path) -> Result<Vec<String>, String> {
    let told = book::read(list).map_err(|e| format!("read {}: {e}", list.display()))?;
    let mut complaints = Vec::new();
    for instance in 1..=instances {
        let client = connect(&cluster.url(instance)?).await?;
        let rows = crate::demo::bank::transfers_of(&client, "chaos_transfer").await?;
        let balances = crate::demo::bank::balances_of(&client, "chaos_account").await?;
        let transfers = check::compare_transfers(&told, &rows);
        let accounts = check::compare_balances(ACCOUNTS, &rows, &balances);
        println!(
            "through instance {instance}: {} of {} acknowledged transfers there, {} of {} \
             without an answer there",
            transfers.acknowledged - transfers.lost,
            transfers.acknowledged,
            transfers.unknown_there,
            transfers.unknown,
        );
        for verdict in [transfers, accounts] {
            complaints.extend(verdict.differences.iter().map(|d| format!("{instance}: {d}")));
            if verdict.more > 0 {
                complaints.push(format!("{instance}: and {} more", verdict.more));
            }
        }
    }
    Ok(complaints)
}

/// Checks the histories as they are on disk.
fn histories(dir: &Path, load: &Load) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for work in Work::ALL {
        let operations = histories::read(&history_path(dir, work))?;
        let count = |o| operations.iter().filter(|op| op.outcome == o).count();
        let unknown = count(Outcome::Unknown);
        println!(
            "{}: {} done, {} failed, {unknown} of unknown outcome",
            work.name(),
            count(Outcome::Done),
            count(Outcome::Failed),
        );
        if count(Outcome::Done) == 0 {
            complaints.push(format!("{}: nothing was done", work.name()));
        }
        let checked = match work {
            Work::ListRepeatable => append::check(&operations, Level::StrongSnapshotIsolation),
            Work::ListCommitted => append::check(&operations, Level::StrongReadCommitted),
            Work::Register => register::check(&operations).map(drop),
            Work::Bank => totals(&operations),
        };
        if let Err(why) = checked {
            complaints.push(format!("{}: {why}", work.name()));
        }
    }
    let unknown: u64 = load.logs.values().map(|log| log.unknown.load(Relaxed)).sum();
    if unknown == 0 {
        complaints.push("no commit was interrupted: this run proves nothing".to_owned());
    }
    Ok(complaints)
}

/// Every look at all accounts has the same sum.
fn totals(operations: &[Operation]) -> Result<(), String> {
    let sum = i64::from(ACCOUNTS) * INITIAL_BALANCE;
    let right = serde_json::json!(["total", ACCOUNTS, sum]);
    let mut looks = operations.iter().filter(|o| o.value[0] == "total").peekable();
    if looks.peek().is_none() {
        return Err("nobody has looked at all accounts".to_owned());
    }
    match looks.find(|o| o.value != right) {
        Some(wrong) => Err(format!("a total is wrong: {wrong:?}")),
        None => Ok(()),
    }
}

/// Stalls and errors.
fn tell(load: &Load, nemesis: &Nemesis) {
    let ms = |ns: u64| ns / 1_000_000;
    for kill in &nemesis.kills {
        let (client, instance) = failover::longest_stall(&load.told, load.clients_of, kill);
        println!(
            "after the SIGKILL of instance {}: a survivor's client waited up to {} ms, a whole \
             instance up to {} ms",
            kill.victim,
            ms(client),
            ms(instance),
        );
        for split in &kill.splits {
            println!("    {split}");
        }
    }
    let errors: Vec<String> =
        locked(&load.errors).iter().map(|(code, count)| format!("{code} {count}")).collect();
    println!("errors that clients met: {}", errors.join(", "));
}

/// What no alert log may hold.
fn logs_of(cluster: &Cluster, instances: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    for instance in 1..=instances {
        let log = failover::alert_log(&cluster.db(), instance);
        let bad = log.lines().find(|line| line.contains("panic in thread"));
        complaints.extend(bad.map(|line| format!("alert log of instance {instance}: {line}")));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wrong_total_and_none_at_all_are_refused() {
        let look = |sum: i64| Operation {
            process: 1,
            begin_ns: 1,
            end_ns: 2,
            outcome: Outcome::Done,
            value: json!(["total", ACCOUNTS, sum]),
        };
        let right = i64::from(ACCOUNTS) * INITIAL_BALANCE;
        assert_eq!(totals(&[look(right)]), Ok(()));
        assert!(totals(&[look(right), look(right - 1)]).is_err());
        assert!(totals(&[]).is_err());
    }
}
