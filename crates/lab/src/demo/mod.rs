//! The demonstration: three instances, one database, transfers through all of them, one instance
//! killed with SIGKILL under the load and restarted; then the books are checked.
//!
//! What it promises: success only if every acknowledged transfer is there, nothing unexplained is,
//! all sums agree, and no client of a surviving instance saw more than a delay. What it must never
//! do: leave a process or a file behind, unless asked to keep the cluster.

pub(crate) mod bank;
pub(crate) mod book;
pub(crate) mod check;
pub(crate) mod cluster;
mod options;
mod report;
pub(crate) mod views;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use bank::Load;
use book::Book;
use cluster::Cluster;
use options::Options;
use report::{Moved, Timeline};
use views::Snapshot;

/// How long the load goes on after a restarted instance has opened, at least.
const AFTER_OPEN: Duration = Duration::from_secs(3);
/// How long clients may take to finish their last transfer.
const FINISH_LIMIT: Duration = Duration::from_secs(90);

/// Runs the demonstration and cleans up.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    crate::args::main(options::parse(args), options::USAGE, supervise)
}

/// Runs the demonstration until it ends or a signal comes, then ends what it has started.
async fn supervise(options: Options) -> Result<bool, String> {
    let work_dir = work_dir(&options)?;
    let cluster = if options.connect.is_empty() { Some(Cluster::new(&work_dir)?) } else { None };
    let mut task = tokio::spawn(run(options.clone(), cluster.clone(), work_dir.clone()));
    let (result, whole) = tokio::select! {
        done = &mut task => {
            let failed = |e| Err(format!("the demonstration failed: {e}"));
            (done.unwrap_or_else(failed), true)
        }
        why = crate::args::stopped() => {
            task.abort();
            (why.map(|()| false), false)
        }
    };
    let result = match result {
        // Said before the cleaning up, which may take a moment.
        Err(why) if !whole => {
            eprintln!("\n{why}");
            Ok(false)
        }
        other => other,
    };
    let keep = options.keep && whole;
    let problems = match &cluster {
        Some(cluster) if keep => {
            println!("\n{}", cluster.kept_text(options.instances));
            Vec::new()
        }
        Some(cluster) => cluster.end(true),
        None => {
            std::fs::remove_dir_all(&work_dir).err().map(|e| e.to_string()).into_iter().collect()
        }
    };
    for problem in &problems {
        eprintln!("{problem}");
    }
    result.map(|good| good && problems.is_empty())
}

/// The folder to work in, made if need be. It must be empty but for the binaries: it is removed.
fn work_dir(options: &Options) -> Result<PathBuf, String> {
    let dir = options
        .work_dir
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("skein-demo-{}", std::process::id())));
    cluster::empty_folder(&dir, "bin")?;
    Ok(dir)
}

async fn run(options: Options, cluster: Option<Cluster>, work: PathBuf) -> Result<bool, String> {
    let urls = match &cluster {
        Some(cluster) => start(&options, cluster)?,
        None => options.connect.clone(),
    };
    load_accounts(&options, &urls).await?;
    let list = work.join("transfers.list");
    let (load, timeline, moved) = transfers(&options, cluster.as_ref(), urls, &list).await?;
    println!("{}", report::text(&load, &timeline, &moved));
    let mut good = books(&options, &load, &list).await?;
    // A server of another make, named by --connect, has no such views.
    let foreign = |why: &str| cluster.is_none() && why.starts_with("gv$sysstat: 42P01");
    if let Err(why) = &moved
        && !foreign(why)
    {
        println!("PROBLEM: the cluster's own counters cannot be read: {why}");
        good = false;
    }
    let problems = load.problems.lock().unwrap_or_else(PoisonError::into_inner);
    for (problem, count) in problems.iter() {
        println!("PROBLEM: {problem} ({count} times)");
        good = false;
    }
    println!("{}", if good { "\nThe books are right." } else { "\nFAILED." });
    Ok(good)
}

/// Makes the database and starts all instances; how to reach them.
fn start(options: &Options, cluster: &Cluster) -> Result<Vec<String>, String> {
    let began = Instant::now();
    println!("{}", cluster.init(options.instances, &options.set)?);
    println!("{}", cluster.start_all()?);
    println!("made and started in {:.1} s", began.elapsed().as_secs_f64());
    (1..=options.instances).map(|i| cluster.url(i)).collect()
}

/// Loads an equal part through each instance at the same time.
async fn load_accounts(options: &Options, urls: &[String]) -> Result<(), String> {
    let began = Instant::now();
    bank::create_tables(&urls[0]).await?;
    let loaded = Arc::new(AtomicI64::new(0));
    let count = i32::try_from(urls.len()).map_err(|e| e.to_string())?;
    let part = options.accounts / count;
    let mut tasks: Vec<JoinHandle<Result<(), String>>> = Vec::new();
    for (k, url) in (0..count).zip(urls) {
        let to = if k + 1 == count { options.accounts } else { part * (k + 1) };
        tasks.push(tokio::spawn(bank::load(url.clone(), part * k + 1, to, Arc::clone(&loaded))));
    }
    let total = options.accounts;
    let mut progress = Progress::new();
    while tasks.iter().any(|t| !t.is_finished()) {
        progress.show(&format!("loading accounts: {} of {total}", loaded.load(Relaxed)));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for task in tasks {
        task.await.map_err(|e| format!("load: {e}"))??;
    }
    let s = began.elapsed().as_secs_f64();
    progress.end(&format!("{total} accounts loaded through {count} instances in {s:.1} s"));
    Ok(())
}

/// The load with the kill in it.
async fn transfers(
    options: &Options,
    cluster: Option<&Cluster>,
    urls: Vec<String>,
    list: &Path,
) -> Result<(Arc<Load>, Timeline, Result<Moved, String>), String> {
    let failed = |e: std::io::Error| format!("the clients' list: {e}");
    let book = Book::create(list).map_err(failed)?;
    let mut moved = Growth::begin(&urls).await;
    let load = Arc::new(Load::new(options.accounts, urls, options.seconds)?);
    let mut clients = Vec::new();
    for number in 0..load.down.len() * options.clients {
        let instance = number % load.down.len();
        let number = i32::try_from(number + 1).map_err(|e| e.to_string())?;
        let task = bank::client(Arc::clone(&load), number, instance, book.pen());
        clients.push(tokio::spawn(task));
    }
    let timeline = conduct(options, cluster, &load, &mut moved).await;
    load.stop.store(true, Relaxed);
    let all = futures::future::join_all(clients);
    let finished = tokio::time::timeout(FINISH_LIMIT, all).await;
    let finished = finished.map_err(|_| format!("clients still wait after {FINISH_LIMIT:?}"))?;
    for client in finished {
        client.map_err(|e| format!("a client failed: {e}"))?;
    }
    book.close().map_err(failed)?;
    let timeline = timeline?;
    let moved = moved.end(timeline.victim.map(|v| v + 1)).await;
    Ok((load, timeline, moved))
}

/// Watches the load, kills one instance after a third of the time and restarts it.
async fn conduct(
    options: &Options,
    cluster: Option<&Cluster>,
    load: &Load,
    moved: &mut Growth,
) -> Result<Timeline, String> {
    let mut progress = Progress::new();
    let mut timeline = Timeline::default();
    // Not the first, which the counters are read through.
    let victim = 1;
    let kill_s = options.seconds / 3;
    let restart_s = kill_s + (options.seconds / 6).max(3);
    let mut restarted = Instant::now();
    let mut end = Duration::from_secs(options.seconds);
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = load.started.elapsed();
        progress.show(&progress_line(load, now.as_secs()));
        if let Some(cluster) = cluster {
            if timeline.kill_s.is_none() && now.as_secs() >= kill_s {
                moved.before_kill().await;
                load.down[victim].store(true, Relaxed);
                let pid = cluster.kill(victim + 1)?;
                timeline.victim = Some(victim);
                timeline.kill_s = Some(load.started.elapsed().as_secs());
                progress
                    .end(&format!("instance {} (process {pid}) killed with SIGKILL", victim + 1));
            } else if timeline.restart_s.is_none() && now.as_secs() >= restart_s {
                cluster.start(victim + 1)?;
                restarted = Instant::now();
                timeline.restart_s = Some(now.as_secs());
            } else if timeline.restart_s.is_some()
                && timeline.open_s.is_none()
                && cluster.opened(victim + 1, restarted)?
            {
                load.set_url(victim, cluster.url(victim + 1)?);
                timeline.open_s = Some(load.started.elapsed().as_secs());
                let took = restarted.elapsed().as_secs_f64();
                progress.end(&format!("instance {} is open again after {took:.1} s", victim + 1));
                end = end.max(load.started.elapsed() + AFTER_OPEN);
            }
        }
        // Clients that were just refused by the old address may still be on their way to say so.
        if timeline.open_s.is_some_and(|s| now.as_secs() > s) {
            load.down[victim].store(false, Relaxed);
        }
        let open = cluster.is_none() || timeline.open_s.is_some();
        if open && now >= end {
            timeline.end_s = now.as_secs();
            progress.end("load ended");
            return Ok(timeline);
        }
    }
}

fn progress_line(load: &Load, second: u64) -> String {
    // The last whole second.
    let at = usize::try_from(second.saturating_sub(1)).unwrap_or(0);
    let mut line = format!("{second:>4} s  transfers a second:");
    for (instance, done) in load.done.iter().enumerate() {
        let n = done.get(at).map_or(0, |n| n.load(Relaxed));
        let state = if load.down[instance].load(Relaxed) { " (down)" } else { "" };
        line.push_str(&format!("  i{} {n}{state}", instance + 1));
    }
    line
}

/// Counters over the load, whatever happens to an instance in between.
struct Growth {
    url: String,
    instances: usize,
    last: Result<Snapshot, String>,
    sum: Moved,
}

impl Growth {
    async fn begin(urls: &[String]) -> Growth {
        let (url, instances) = (urls[0].clone(), urls.len());
        let last = Growth::read(&url, instances).await;
        Growth { url, instances, last, sum: Moved::default() }
    }

    async fn read(url: &str, instances: usize) -> Result<Snapshot, String> {
        views::read(&crate::client::connect(url).await?, instances).await
    }

    async fn step(&mut self, restarted: Option<usize>) {
        let next = Growth::read(&self.url, self.instances).await;
        if let (Ok(from), Ok(to)) = (&self.last, &next) {
            let sum = &mut self.sum;
            views::add_growth(&mut sum.statistics, &from.statistics, &to.statistics, restarted);
            views::add_growth(&mut sum.wait_counts, &from.wait_counts, &to.wait_counts, restarted);
            views::add_growth(&mut sum.wait_us, &from.wait_us, &to.wait_us, restarted);
        }
        if self.last.is_ok() {
            self.last = next;
        }
    }

    async fn before_kill(&mut self) {
        self.step(None).await;
    }

    async fn end(mut self, restarted: Option<usize>) -> Result<Moved, String> {
        self.step(restarted).await;
        self.last.map(|_| self.sum)
    }
}

/// Checks the books through every instance.
async fn books(options: &Options, load: &Load, list: &Path) -> Result<bool, String> {
    let told = book::read(list).map_err(|e| format!("read the clients' list: {e}"))?;
    let mut good = !told.is_empty();
    if told.is_empty() {
        println!("PROBLEM: no transfer was acknowledged");
    }
    let urls = load.urls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (instance, url) in urls.iter().enumerate() {
        let client = crate::client::connect(url).await?;
        let rows = bank::read_transfers(&client).await?;
        let balances = bank::read_balances(&client).await?;
        let verdict = check::compare_transfers(&told, &rows);
        let accounts = check::compare_balances(options.accounts, &rows, &balances);
        println!(
            "through instance {}: {} of {} acknowledged transfers there, \
             {} of {} without an answer there; {} accounts",
            instance + 1,
            verdict.acknowledged - verdict.lost,
            verdict.acknowledged,
            verdict.unknown_there,
            verdict.unknown,
            balances.len()
        );
        for verdict in [&verdict, &accounts] {
            good &= verdict.is_good();
            for difference in &verdict.differences {
                println!("PROBLEM: {difference}");
            }
            if verdict.more > 0 {
                println!("PROBLEM: and {} more", verdict.more);
            }
        }
    }
    Ok(good)
}

/// A line that is written over on a terminal, once a second elsewhere.
struct Progress {
    terminal: bool,
    shown: Option<Instant>,
}

impl Progress {
    fn new() -> Progress {
        Progress { terminal: std::io::stdout().is_terminal(), shown: None }
    }

    fn show(&mut self, line: &str) {
        if self.shown.is_some_and(|at| at.elapsed() < Duration::from_secs(1)) && !self.terminal {
            return;
        }
        self.shown = Some(Instant::now());
        let mut out = std::io::stdout().lock();
        // A closed output must not end the demonstration before it has cleaned up.
        let _ = if self.terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    fn end(&mut self, line: &str) {
        let mut out = std::io::stdout().lock();
        let _ =
            if self.terminal { writeln!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }
}
