//! A load like TPC-C's through several instances, with its consistency conditions checked from each
//! of them while it runs.
//!
//! What it promises: success only if every condition held in every snapshot, every snapshot had all
//! that was committed before it was taken, and at the end each instance shows exactly what clients
//! were told is committed. Deadlocks and serialization failures are repeated and counted; any other
//! error fails. It is no TPC-C result: there are no thinking times and no screens. What it must
//! never do: end by itself a transaction that waits, and call the rest good.

mod check;
mod ledger;
mod options;
mod report;
mod tables;
mod terminal;
mod values;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::client::connect;
use check::Checker;
use ledger::Progress;
pub use ledger::{Kind, Ledger};
pub use options::Options;
pub use report::Report;
use terminal::{Done, Line, Task, Terminal, Trouble, Who};
use values::{DISTRICTS, Draw};

/// The longest an attempt may take before it counts as hung.
const HUNG: Duration = Duration::from_mins(1);
/// One round of the mix: each client works through it in an order of its own (clause 5.2.4.2).
const DECK: [(Kind, usize); 5] = [
    (Kind::NewOrder, 10),
    (Kind::Payment, 10),
    (Kind::OrderStatus, 1),
    (Kind::Delivery, 1),
    (Kind::StockLevel, 1),
];

/// Runs the load and prints its report.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    crate::args::main(options::parse(args), options::USAGE, async |options| {
        print!("{}", run(&options).await?.text());
        Ok(true)
    })
}

/// Makes the tables, runs the load and checks it.
///
/// # Errors
/// All that went wrong: what a server said, a broken condition with its rows, a difference between
/// what was acknowledged and what is there.
pub async fn run(options: &Options) -> Result<Report, String> {
    let began = Instant::now();
    tables::make(options).await?;
    let load_s = began.elapsed().as_secs_f64();
    let progress = Arc::new(Progress::default());
    let mut checkers = checkers(options).await?;
    for checker in &mut checkers {
        checker.round(&progress).await.map_err(|e| format!("before the load: {e}"))?;
        checker.rounds = 0;
    }
    let mut terminals = Vec::new();
    for k in 0..options.clients * options.connect.len() {
        terminals.push(Terminal::connect(&options.connect[k % options.connect.len()]).await?);
    }
    let (ended, watched) = watch::channel(false);
    let pause = Duration::from_secs(options.check_every_s);
    let watching: Vec<_> = checkers
        .into_iter()
        .map(|c| tokio::spawn(watch_over(c, Arc::clone(&progress), watched.clone(), pause)))
        .collect();
    let began = Instant::now();
    let clients: Vec<_> = terminals
        .into_iter()
        .enumerate()
        .map(|(k, t)| tokio::spawn(client(t, k, options.clone(), Arc::clone(&progress))))
        .collect();
    let (mut ledger, mut problems) = (Ledger::new()?, Vec::new());
    for task in clients {
        match task.await.unwrap_or_else(|e| Err(format!("a client failed: {e}"))) {
            Ok(one) => ledger.add(&one)?,
            Err(why) => problems.push(why),
        }
    }
    let run_s = began.elapsed().as_secs_f64();
    ended.send_replace(true);
    let mut checked = Vec::new();
    for task in watching {
        match task.await.unwrap_or_else(|e| Err(format!("a checker failed: {e}"))) {
            Ok(checker) => checked.push(checker),
            Err(why) => problems.push(why),
        }
    }
    let rounds_meanwhile = checked.iter().map(|c| c.rounds).collect();
    if problems.is_empty() {
        for checker in &mut checked {
            problems.extend(checker.round(&progress).await.err());
            problems.extend(checker.compare(&ledger.changes).await.err());
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let longest_round = checked.iter().map(|c| c.longest).max().unwrap_or_default();
    Ok(Report { load_s, run_s, ledger, rounds_meanwhile, longest_round })
}

async fn checkers(options: &Options) -> Result<Vec<Checker>, String> {
    let mut all = Vec::new();
    for (url, number) in options.connect.iter().zip(1..) {
        all.push(Checker::new(connect(url).await?, format!("instance {number}"), options));
    }
    Ok(all)
}

/// Checks until the load has ended; at least once after it has begun.
async fn watch_over(
    mut checker: Checker,
    progress: Arc<Progress>,
    mut ended: watch::Receiver<bool>,
    pause: Duration,
) -> Result<Checker, String> {
    loop {
        if let Err(why) = checker.round(&progress).await {
            progress.stop.store(true, SeqCst);
            return Err(why);
        }
        // Gone without a word is ended, too.
        let over = tokio::time::timeout(pause, ended.wait_for(|ended| *ended)).await;
        let over = over.is_ok();
        if over {
            return Ok(checker);
        }
    }
}

/// One client: its share of transactions, or as many as there is time for.
async fn client(
    terminal: Terminal,
    k: usize,
    options: Options,
    progress: Arc<Progress>,
) -> Result<Ledger, String> {
    let mut player = Player::new(k, options);
    let mut ledger = Ledger::new()?;
    let until = Instant::now() + Duration::from_secs(player.options.seconds);
    let mut made = 0;
    while !progress.stop.load(SeqCst) {
        if player.options.transactions.map_or(Instant::now() >= until, |limit| made >= limit) {
            break;
        }
        made += 1;
        let (kind, task) = player.draw();
        if let Err(why) = transaction(&terminal, kind, &task, &mut ledger, &progress).await {
            progress.stop.store(true, SeqCst);
            let instance = k % player.options.connect.len() + 1;
            return Err(format!("instance {instance}: {}: {why}", kind.name()));
        }
    }
    Ok(ledger)
}

/// Attempts until one ends.
async fn transaction(
    terminal: &Terminal,
    kind: Kind,
    task: &Task,
    ledger: &mut Ledger,
    progress: &Progress,
) -> Result<(), String> {
    let counters = match kind {
        Kind::NewOrder => Some((&progress.orders_begun, &progress.orders_committed)),
        Kind::Payment => Some((&progress.payments_begun, &progress.payments_committed)),
        _ => None,
    };
    if let Some((begun, _)) = counters {
        begun.fetch_add(1, SeqCst);
    }
    let began = Instant::now();
    loop {
        let attempt = tokio::time::timeout(HUNG, terminal.attempt(task)).await;
        match attempt.map_err(|_| format!("hung for {HUNG:?}: {task:?}"))? {
            Ok(Done::Committed(changes)) => {
                if let Some((_, committed)) = counters {
                    committed.fetch_add(1, SeqCst);
                }
                ledger.changes.add(&changes);
            }
            Ok(Done::RolledBack) => ledger.rolled_back += 1,
            Err(Trouble::Again(code)) => {
                ledger.repeated(kind, &code);
                continue;
            }
            Err(Trouble::Wrong(why)) => return Err(format!("{why} ({task:?})")),
        }
        ledger.ended(kind, began.elapsed());
        return Ok(());
    }
}

/// Draws a client's transactions.
struct Player {
    options: Options,
    draw: Draw,
    deck: Vec<Kind>,
    /// Homes to choose from.
    homes: Vec<i32>,
}

impl Player {
    fn new(k: usize, options: Options) -> Player {
        let seed = u64::from(options.seed) * 10_000 + u64::try_from(k).unwrap_or(0);
        let instances = options.connect.len();
        let all = 1..=options.warehouses;
        let own: Vec<i32> = all.clone().skip(k % instances).step_by(instances).collect();
        let homes = if options.partitioned && !own.is_empty() { own } else { all.collect() };
        Player { draw: Draw::new(seed), deck: Vec::new(), homes, options }
    }

    /// Another warehouse than `w`, if there is one.
    fn other(&mut self, w: i32) -> i32 {
        match self.options.warehouses {
            1 => w,
            n => (w - 1 + self.draw.between(1, n - 1)) % n + 1,
        }
    }

    fn who(&mut self) -> Who {
        let customers = self.options.customers;
        if self.draw.chance(60) {
            Who::LastName(self.draw.name(customers))
        } else {
            Who::Id(self.draw.customer(customers))
        }
    }

    fn draw(&mut self) -> (Kind, Task) {
        if self.deck.is_empty() {
            self.deck = DECK.iter().flat_map(|(k, n)| std::iter::repeat_n(*k, *n)).collect();
            self.draw.shuffle(&mut self.deck);
        }
        let kind = self.deck.pop().unwrap_or(Kind::NewOrder);
        let home = self.draw.between(1, i32::try_from(self.homes.len()).unwrap_or(1)) - 1;
        let w = self.homes[usize::try_from(home).unwrap_or(0)];
        let d = self.draw.between(1, DISTRICTS);
        let task = match kind {
            Kind::NewOrder => self.new_order(w, d),
            Kind::Payment => {
                let home = self.draw.chance(85) || self.options.warehouses == 1;
                let (c_w, c_d) =
                    if home { (w, d) } else { (self.other(w), self.draw.between(1, DISTRICTS)) };
                let cents = i64::from(self.draw.between(100, 500_000));
                Task::Payment { w, d, c_w, c_d, who: self.who(), cents }
            }
            Kind::OrderStatus => Task::OrderStatus { w, d, who: self.who() },
            Kind::Delivery => Task::Delivery { w, carrier: self.draw.between(1, 10) },
            Kind::StockLevel => Task::StockLevel { w, d, threshold: self.draw.between(10, 20) },
        };
        (kind, task)
    }

    fn new_order(&mut self, w: i32, d: i32) -> Task {
        let c = self.draw.customer(self.options.customers);
        let mut lines = Vec::new();
        for _ in 0..self.draw.between(5, 15) {
            let item = self.draw.item(self.options.items);
            let supply = if self.draw.chance(1) { self.other(w) } else { w };
            lines.push(Line { item, supply, quantity: self.draw.between(1, 10) });
        }
        if self.draw.chance(1)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.options.items + 1;
        }
        Task::NewOrder { w, d, c, lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(k: usize, partitioned: bool) -> Player {
        let connect = vec![String::new(); 3];
        let options = Options { connect, warehouses: 6, partitioned, ..Options::default() };
        Player::new(k, options)
    }

    #[test]
    fn each_deck_has_the_whole_mix() {
        let mut player = player(0, false);
        for _ in 0..3 {
            let drawn: Vec<Kind> = (0..23).map(|_| player.draw().0).collect();
            for (kind, count) in DECK {
                assert_eq!(drawn.iter().filter(|k| **k == kind).count(), count, "{kind:?}");
            }
        }
    }

    #[test]
    fn some_lines_and_payments_are_of_other_warehouses() {
        let mut player = player(1, true);
        let (mut lines, mut remote, mut invalid, mut payments, mut abroad) = (0, 0, 0, 0, 0);
        for _ in 0..23_000 {
            match player.draw().1 {
                Task::NewOrder { w, lines: all, .. } => {
                    assert!([2, 5].contains(&w), "{w}");
                    lines += all.len();
                    remote += all.iter().filter(|l| l.supply != w).count();
                    invalid += all.iter().filter(|l| l.item > 100_000).count();
                }
                Task::Payment { w, c_w, .. } => {
                    payments += 1;
                    abroad += usize::from(c_w != w);
                }
                _ => {}
            }
        }
        let parts = [(remote, lines / 100), (invalid, 100), (abroad, payments * 15 / 100)];
        assert!(parts.iter().all(|(n, of)| (of * 7 / 10..=of * 13 / 10).contains(n)), "{parts:?}");
    }
}
