//! The harmful events: what each does, and how it is known to have struck.
//!
//! What it promises: each waits for its effect by a condition, and brings all instances back before
//! it ends. What it must never do: end a process that is not an instance of this run's database.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::failover::{self, Kill};
use super::load::Load;
use super::proxy::Proxy;
use crate::client::{connect, describe};
use crate::demo::cluster::{Cluster, send_signal};
use crate::random::Random;

/// The longest that an effect, or the way back, may take.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
/// How long a slow LUN, log writer or a full group lasts.
const LASTS: Duration = Duration::from_millis(2500);
/// How long survivors go on alone.
const ALONE: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Kill,
    KillTwo,
    KillAll,
    KillRecovering,
    Freeze,
    Rolling,
    Full,
    SlowLun,
    FailingLun,
    SlowLgwr,
    Cut,
    Reset,
}

impl Harm {
    pub const ALL: [Harm; 12] = [
        Harm::Kill,
        Harm::KillTwo,
        Harm::KillAll,
        Harm::KillRecovering,
        Harm::Freeze,
        Harm::Rolling,
        Harm::Full,
        Harm::SlowLun,
        Harm::FailingLun,
        Harm::SlowLgwr,
        Harm::Cut,
        Harm::Reset,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Harm::Kill => "kill",
            Harm::KillTwo => "kill-two",
            Harm::KillAll => "kill-all",
            Harm::KillRecovering => "kill-recovering",
            Harm::Freeze => "freeze",
            Harm::Rolling => "rolling",
            Harm::Full => "full",
            Harm::SlowLun => "slow-lun",
            Harm::FailingLun => "failing-lun",
            Harm::SlowLgwr => "slow-lgwr",
            Harm::Cut => "cut",
            Harm::Reset => "reset",
        }
    }

    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Harm::Kill => "SIGKILL of an instance",
            Harm::KillTwo => "SIGKILL of two at once",
            Harm::KillAll => "SIGKILL of all",
            Harm::KillRecovering => "SIGKILL of one, and of the recoverer while it recovers",
            Harm::Freeze => "SIGSTOP until evicted: dead before the new epoch begins",
            Harm::Rolling => "each instance stopped in order and started again",
            Harm::Full => "the disk group filled up, then a LUN added",
            Harm::SlowLun => "each I/O of an instance takes 20 ms longer",
            Harm::FailingLun => "each I/O of an instance to one LUN fails",
            Harm::SlowLgwr => "each log write of an instance takes 60 ms longer",
            Harm::Cut => "the interconnect of an instance cut until it is evicted",
            Harm::Reset => "all connections of the interconnect broken once",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Harm> {
        Harm::ALL.into_iter().find(|h| h.name() == name)
    }
}

/// What needs root, and why it is left out.
pub const SKIPPED: &str = "\
left out, since it needs root and changes the machine: LUNs on a device-mapper target that \
delays or fails (slow-lun and failing-lun do it in the instance instead); packets dropped by \
the kernel's filter (cut and reset do it with proxies instead); a clock that jumps";

/// What a seed chooses: at least one instance is killed, so that commits are interrupted.
#[must_use]
pub fn choose(random: &mut Random, count: usize) -> Vec<Harm> {
    let mut chosen = vec![Harm::Kill];
    let mut rest: Vec<Harm> = Harm::ALL[1..].to_vec();
    while chosen.len() < count {
        if rest.is_empty() {
            rest = Harm::ALL.to_vec();
        }
        let at = random.below(i32::try_from(rest.len()).unwrap_or(1));
        chosen.push(rest.swap_remove(usize::try_from(at).unwrap_or(0)));
    }
    chosen
}

/// Does the harm.
pub struct Nemesis {
    pub cluster: Cluster,
    pub load: Arc<Load>,
    pub proxies: Vec<Proxy>,
    pub random: Random,
    pub settle: Duration,
    /// SIGKILLs of one instance, for the account of failovers.
    pub kills: Vec<Kill>,
}

type Done = Result<(), String>;

impl Nemesis {
    fn instances(&self) -> usize {
        self.proxies.len()
    }

    fn any(&mut self) -> usize {
        let count = i32::try_from(self.instances()).unwrap_or(1);
        usize::try_from(self.random.below(count)).unwrap_or(0) + 1
    }

    fn any_but(&mut self, other: usize) -> usize {
        loop {
            let one = self.any();
            if one != other {
                return one;
            }
        }
    }

    fn say(&self, text: &str) {
        println!("{:>7.1} s  {text}", self.load.began.elapsed().as_secs_f64());
    }

    async fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool, String>) -> Done {
        let began = Instant::now();
        while !holds()? {
            if began.elapsed() > LIMIT {
                return Err(format!("still not so after {LIMIT:?}: {what}"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Does one event and waits until all are open and every workload has gone on.
    ///
    /// # Errors
    /// What did not happen that should have, or happened that must not.
    pub async fn strike(&mut self, harm: Harm) -> Done {
        self.say(&format!("{}: {}", harm.name(), harm.what()));
        match harm {
            Harm::Kill => self.kill().await?,
            Harm::KillTwo => {
                let one = self.any();
                let two = self.any_but(one);
                self.kill_these(&[one, two]).await?;
                tokio::time::sleep(ALONE).await;
            }
            Harm::KillAll => {
                let all: Vec<usize> = (1..=self.instances()).collect();
                self.kill_these(&all).await?;
            }
            Harm::KillRecovering => self.kill_recovering().await?,
            Harm::Freeze => self.freeze().await?,
            Harm::Rolling => self.rolling().await?,
            Harm::Full => self.full().await?,
            Harm::SlowLun => self.slow("_disk_delay_us", "20000").await?,
            Harm::SlowLgwr => self.slow("_lgwr_flush_delay_us", "60000").await?,
            Harm::FailingLun => self.failing().await?,
            Harm::Cut => self.cut().await?,
            Harm::Reset => self.proxies.iter().for_each(Proxy::interrupt),
        }
        self.all_back().await?;
        self.all_work().await?;
        tokio::time::sleep(self.settle).await;
        Ok(())
    }

    fn down(&self, instance: usize) {
        self.load.set_url(instance, None);
    }

    async fn kill_these(&self, these: &[usize]) -> Done {
        let status = self.cluster.status()?;
        let mut killed = Vec::new();
        for one in these {
            self.down(*one);
            let pid = status.iter().find(|s| s.instance == *one).and_then(|s| s.pid);
            let pid = pid.ok_or_else(|| format!("instance {one} has no process"))?;
            if !send_signal(pid, "KILL") {
                return Err(format!("process {pid} cannot be killed"));
            }
            killed.push(pid);
        }
        self.say(&format!("SIGKILL to instances {these:?}"));
        self.until("they are dead", || Ok(killed.iter().all(|pid| is_dead(*pid)))).await
    }

    async fn kill(&mut self) -> Done {
        let victim = self.any();
        let pid = self.cluster.pid(victim)?;
        self.down(victim);
        let before = self.epochs();
        let at_ns = self.load.now_ns();
        if !send_signal(pid, "KILL") {
            return Err(format!("process {pid} cannot be killed"));
        }
        self.say(&format!("SIGKILL to instance {victim}"));
        let survivor = self.any_but(victim);
        self.until("survivors serve blocks without it", || {
            let log = failover::alert_log(&self.cluster.db(), survivor);
            Ok(failover::split(&log, before).is_some())
        })
        .await?;
        let logs: Vec<String> = (1..=self.instances())
            .filter(|k| *k != victim)
            .filter_map(|k| failover::split(&failover::alert_log(&self.cluster.db(), k), before))
            .collect();
        tokio::time::sleep(ALONE).await;
        self.kills.push(Kill { victim, at_ns, until_ns: self.load.now_ns(), splits: logs });
        Ok(())
    }

    async fn kill_recovering(&mut self) -> Done {
        let first = self.any();
        let before = self.epochs();
        self.kill_these(&[first]).await?;
        // The lowest survivor recovers.
        let second = if first == 1 { 2 } else { 1 };
        self.until("the survivors begin an epoch", || {
            let log = failover::alert_log(&self.cluster.db(), second);
            Ok(failover::epoch(&log) > before)
        })
        .await?;
        self.kill_these(&[second]).await?;
        tokio::time::sleep(ALONE).await;
        Ok(())
    }

    /// The newest epoch that anybody has noted.
    fn epochs(&self) -> u64 {
        let logs = (1..=self.instances()).map(|k| failover::alert_log(&self.cluster.db(), k));
        logs.map(|log| failover::epoch(&log)).max().unwrap_or(0)
    }

    async fn freeze(&mut self) -> Done {
        let victim = self.any();
        let pid = self.cluster.pid(victim)?;
        if !send_signal(pid, "STOP") {
            return Err(format!("process {pid} cannot be stopped"));
        }
        self.say(&format!("SIGSTOP to instance {victim}"));
        self.evicted(victim, pid).await
    }

    /// Waits until the others begin an epoch without it; its process must be gone by then.
    async fn evicted(&mut self, victim: usize, pid: u32) -> Done {
        let witness = self.any_but(victim);
        self.until("the others go on without it", || {
            let log = failover::alert_log(&self.cluster.db(), witness);
            Ok(!failover::members(&log).contains(&victim))
        })
        .await?;
        if !is_dead(pid) {
            return Err(format!("an epoch has begun without instance {victim}, which lives"));
        }
        self.down(victim);
        let log = failover::alert_log(&self.cluster.db(), witness);
        match failover::account(&log, victim) {
            Some(line) => self.say(&format!("instance {witness} says: {line}")),
            None => self.say(&format!("instance {witness} leaves the account to another")),
        }
        Ok(())
    }

    async fn rolling(&mut self) -> Done {
        for one in 1..=self.instances() {
            self.down(one);
            self.cluster.stop(one)?;
            self.back(one).await?;
        }
        Ok(())
    }

    async fn session(&self, instance: usize) -> Result<tokio_postgres::Client, String> {
        connect(&self.cluster.url(instance)?).await
    }

    async fn full(&mut self) -> Done {
        let one = self.any();
        let client = self.session(one).await?;
        let failed = |e: tokio_postgres::Error| describe(&e);
        let make = "create table if not exists chaos_filler (v text)";
        client.batch_execute(make).await.map_err(failed)?;
        let fill =
            "insert into chaos_filler select repeat('x', 8000) from generate_series(1, 1500)";
        let began = Instant::now();
        loop {
            match client.batch_execute(fill).await {
                Ok(()) if began.elapsed() > LIMIT => {
                    return Err("the disk group never fills up".to_owned());
                }
                Ok(()) => {}
                Err(e) if describe(&e).starts_with("53100") => break,
                Err(e) => return Err(format!("fill the disk group: {}", describe(&e))),
            }
        }
        self.say(&format!("the disk group is full, instance {one} says"));
        tokio::time::sleep(LASTS).await;
        // Dropped once there is room again; a drop, too, wants undo.
        self.cluster.add_lun("32M")?;
        client.batch_execute("drop table chaos_filler").await.map_err(failed)
    }

    async fn alter(&self, instance: usize, name: &str, value: &str) -> Done {
        let client = self.session(instance).await?;
        let sql = format!("alter system set {name} = '{value}' scope = memory sid = '{instance}'");
        client.batch_execute(&sql).await.map_err(|e| format!("{sql}: {}", describe(&e)))
    }

    async fn slow(&mut self, parameter: &str, value: &str) -> Done {
        let one = self.any();
        self.alter(one, parameter, value).await?;
        self.say(&format!("instance {one}: {parameter} = {value}"));
        tokio::time::sleep(LASTS).await;
        self.alter(one, parameter, "0").await
    }

    async fn failing(&mut self) -> Done {
        let one = self.any();
        let lun = (self.random.below(2) + 1).to_string();
        self.load.disk_fails.store(true, Relaxed);
        // Whoever sets it may find its own commit among what fails.
        let set = self.alter(one, "_disk_failing_lun", &lun).await;
        self.say(&format!("instance {one}: LUN {lun} fails; {set:?}"));
        tokio::time::sleep(LASTS).await;
        let up = self.cluster.status()?.iter().any(|s| s.instance == one && s.pid.is_some());
        if up && let Err(why) = self.alter(one, "_disk_failing_lun", "0").await {
            self.say(&format!("instance {one} is asked in vain: {why}"));
        }
        let up = self.cluster.status()?.iter().any(|s| s.instance == one && s.pid.is_some());
        self.say(&format!("instance {one} {}", if up { "has lived" } else { "has ended itself" }));
        if !up {
            self.down(one);
        }
        self.load.disk_fails.store(false, Relaxed);
        Ok(())
    }

    async fn cut(&mut self) -> Done {
        let victim = self.any();
        let pid = self.cluster.pid(victim)?;
        self.proxies[victim - 1].cut();
        self.say(&format!("nobody reaches instance {victim} any more"));
        let done = self.evicted(victim, pid).await;
        self.proxies[victim - 1].mend();
        done
    }

    /// Starts an instance that is down and waits until it is open.
    async fn back(&self, instance: usize) -> Done {
        self.until("its process is gone", || {
            let status = self.cluster.status()?;
            Ok(status.iter().any(|s| s.instance == instance && s.state == "DOWN"))
        })
        .await?;
        self.cluster.start(instance)?;
        self.open(instance).await
    }

    async fn open(&self, instance: usize) -> Done {
        let what = format!("instance {instance} is open");
        self.until(&what, || {
            let status = self.cluster.status()?;
            let mut ours = status.iter().filter(|s| s.instance == instance && s.state == "OPEN");
            Ok(ours.any(|s| s.pid.is_some_and(|pid| !is_dead(pid))))
        })
        .await?;
        self.load.set_url(instance, Some(self.cluster.url(instance)?));
        Ok(())
    }

    /// All that are down are started at once, as who restarts a cluster would.
    async fn all_back(&self) -> Done {
        let status = self.cluster.status()?;
        let open = |k: usize| status.iter().any(|s| s.instance == k && s.state == "OPEN");
        let away: Vec<usize> = (1..=self.instances()).filter(|k| !open(*k)).collect();
        if away.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        for one in &away {
            self.until("its process is gone", || {
                let status = self.cluster.status()?;
                Ok(status.iter().any(|s| s.instance == *one && s.state == "DOWN"))
            })
            .await?;
            self.cluster.start(*one)?;
        }
        for one in &away {
            self.open(*one).await?;
        }
        let took = began.elapsed().as_secs_f64();
        self.say(&format!("instances {away:?} are open again after {took:.1} s"));
        Ok(())
    }

    /// Every workload has done something since.
    async fn all_work(&self) -> Done {
        let before = self.load.done();
        self.until("every workload goes on", || {
            Ok(self.load.done().iter().zip(&before).all(|(now, then)| now > then))
        })
        .await
    }
}

/// A process that has ended may wait for its parent to take note of it.
fn is_dead(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_none_or(|end| stat[end + 1..].trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_chooses_the_same_each_time_and_always_kills() {
        let of = |seed| choose(&mut Random::new(seed), 7);
        assert_eq!(of(1), of(1));
        assert!((0..20).all(|seed| of(seed)[0] == Harm::Kill && of(seed).len() == 7));
        assert!((0..20).any(|seed| of(seed) != of(1)));
        let many: Vec<Harm> = (0..20).flat_map(of).collect();
        assert!(Harm::ALL.iter().all(|harm| many.contains(harm)), "{many:?}");
        assert_eq!(choose(&mut Random::new(3), 30).len(), 30);
        for harm in Harm::ALL {
            assert_eq!(Harm::named(harm.name()), Some(harm));
        }
    }
}
