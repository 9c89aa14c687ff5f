//! The simulated cluster: a database and its instances.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block::InstanceNo;
use cluster::MembershipConfig;
use disk::{Group, Options};
use env::simulated::{SimConfig, SimWorld};
use kernel::instance::{Instance, InstanceConfig, NewDatabase, create_database};
use kernel::params::Parameters;
use observe::{Observer, SessionKind, Stat};

/// Longest virtual time anything may take before the run is called stuck.
pub const STUCK: Duration = Duration::from_secs(60);

/// How large a database is made.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes of each of the two LUNs.
    pub lun_bytes: u64,
    pub log_files: u16,
    pub log_file_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { lun_bytes: 192 << 20, log_files: 3, log_file_bytes: 2 << 20 }
    }
}

/// A database in a simulated world.
pub struct Cluster {
    pub world: SimWorld,
    pub dir: PathBuf,
    pub settings: Vec<(&'static str, String)>,
    pub open: BTreeMap<u8, Arc<Instance>>,
    pub membership: MembershipConfig,
    observers: BTreeMap<u8, Arc<Observer>>,
    /// Whether its seed is one of those that always run.
    fixed_seed: bool,
    /// Blocks that instances of former lives have sent to others.
    past_transfers: u64,
}

/// Not an instance: the process that walks the disks.
const LOOKER: u8 = 200;

fn transfers_of(observer: &Observer) -> u64 {
    let copies = [Stat::GcCrBlocksServed, Stat::GcCrBlocksSeen];
    observer.stat(Stat::GcCurrentBlocksServed)
        + copies.map(|s| observer.stat(s)).iter().sum::<u64>()
}

impl Cluster {
    /// Makes a database for `instances` instances.
    ///
    /// # Panics
    /// When that fails: a failed run.
    #[must_use]
    pub fn create(seed: u64, config: SimConfig, instances: u8, sizes: &Sizes) -> Cluster {
        let world = SimWorld::new(seed, config);
        let env = world.env(1);
        let observer = Observer::new(env.clone(), 1);
        let ctx = observer.ctx(SessionKind::Background, "create");
        let dir = PathBuf::from("/db");
        let new = NewDatabase {
            dir: Path::new("/db"),
            options: Options::default(),
            instances,
            luns: 2,
            lun_size_bytes: sizes.lun_bytes,
            log_files: sizes.log_files,
            log_file_bytes: sizes.log_file_bytes,
            verifier: "none",
        };
        world
            .block_on_for(STUCK, create_database(&ctx, &env, &new))
            .expect("creating a database does not hang")
            .expect("a database can be created");
        world.crash(1);
        Cluster {
            world,
            dir,
            settings: Vec::new(),
            open: BTreeMap::new(),
            membership: MembershipConfig::default(),
            observers: BTreeMap::new(),
            past_transfers: 0,
            fixed_seed: std::env::var("SKEIN_SIM_FRESH_SEED").ok() != Some(seed.to_string()),
        }
    }

    fn parameters(&self) -> Arc<Parameters> {
        let params = Parameters::default();
        for (name, value) in &self.settings {
            params.set(name, value).expect("a known parameter");
        }
        Arc::new(params)
    }

    /// Opens instance `k` in a new process.
    ///
    /// # Panics
    /// When it cannot be opened, or hangs.
    pub fn start(&mut self, k: u8) {
        if !self.open_within(k, STUCK) {
            self.print_alerts();
            panic!("instance {k} hangs while it opens");
        }
    }

    /// Opens instance `k` in a new process, and kills that if it is not open after `limit`: a crash
    /// in the middle of recovery. Returns whether it is open.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn start_or_crash(&mut self, k: u8, limit: Duration) -> bool {
        let open = self.open_within(k, limit);
        if !open {
            self.world.crash(k);
        }
        open
    }

    fn open_within(&mut self, k: u8, limit: Duration) -> bool {
        let env = if self.observers.contains_key(&k) || k == 1 {
            self.world.restart_env(k)
        } else {
            self.world.env(k)
        };
        let observer = Observer::new(env.clone(), k);
        let config = InstanceConfig {
            dir: self.dir.clone(),
            me: InstanceNo(k),
            params: self.parameters(),
            secret: [7; 32],
            interconnect: "127.0.0.1:0".to_owned(),
            membership: self.membership,
        };
        let old = self.observers.insert(k, observer.clone());
        self.past_transfers += old.as_deref().map_or(0, transfers_of);
        self.note_moved(old.iter());
        let opened = self.world.block_on_for(limit, Instance::open(&env, &observer, config));
        let Some(opened) = opened else { return false };
        let instance = opened.unwrap_or_else(|e| panic!("instance {k} does not open: {e}"));
        self.open.insert(k, instance);
        true
    }

    /// What the instances have to say, for a run that has failed.
    pub fn print_alerts(&self) {
        let (mut blocks, mut full) = (BTreeSet::new(), BTreeSet::new());
        for (k, observer) in &self.observers {
            for line in observer.alert_log.lines() {
                println!("instance {k}: {}", line.formatted());
            }
            for session in observer.sessions() {
                if session.wait.waiting {
                    let event = session.wait.event.map_or("", observe::WaitEvent::name);
                    let p = session.wait.p;
                    println!("instance {k}: {} waits for {event} {p:?}", session.about.program);
                    if event == observe::WaitEvent::FreeBufferWaits.name() {
                        full.insert(*k);
                    }
                    if event.starts_with("gc ") {
                        let word = |i: usize| u32::try_from(p[i]).unwrap_or(u32::MAX);
                        let file = u16::try_from(p[0]).unwrap_or(u16::MAX);
                        blocks.insert(block::Dba::new(file, word(1)));
                    }
                }
            }
        }
        for (k, instance) in &self.open {
            for &dba in &blocks {
                println!("instance {k}: block {dba}: {}", instance.node.block_state(dba));
            }
            for buffer in instance.core.cache.buffers().iter().filter(|_| full.contains(k)) {
                let state = instance.node.block_state(buffer.dba);
                println!("instance {k}: in its cache {}: {state}", buffer.dba);
            }
        }
    }

    /// Whether the alert log of instance `k`'s last life has a line with this text.
    #[must_use]
    pub fn has_alert(&self, k: u8, text: &str) -> bool {
        self.observers[&k].alert_log.lines().iter().any(|l| l.formatted().contains(text))
    }

    /// Blocks that instances have sent to each other.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.past_transfers + self.observers.values().map(|o| transfers_of(o)).sum::<u64>()
    }

    /// Walks the disks as they are. Nobody may run.
    ///
    /// # Panics
    /// When it hangs, or the disks cannot be opened.
    #[must_use]
    pub fn look_at_disks(&self) -> kernel::verify::Report {
        let env = self.world.restart_env(LOOKER);
        let observer = Observer::new(env.clone(), LOOKER);
        let ctx = observer.ctx(SessionKind::Background, "verify");
        let looking = async {
            let group = Group::open_with(&env, &self.dir, Options::default()).await;
            kernel::verify::verify(&ctx, &group.expect("the group opens"), false).await
        };
        let report = self.world.block_on_for(STUCK, looking);
        self.world.crash(LOOKER);
        report.expect("a walk of the disks does not hang").expect("the disks can be walked")
    }

    /// What lies on the disks must be whole; `when`: for the message.
    ///
    /// # Panics
    /// When it is not: the seed has found a bug.
    pub fn check_disks(&self, when: &str) {
        let report = self.look_at_disks();
        if !report.is_clean() || !report.not_judged.is_empty() {
            self.print_alerts();
            for finding in report.damage.iter().chain(&report.not_judged) {
                println!("{finding}");
            }
            panic!("the disks are damaged {when}: {:?}", report.counts);
        }
    }

    /// Notes what has moved; a run that nobody can count on notes nothing.
    fn note_moved<'a>(&self, observers: impl Iterator<Item = &'a Arc<Observer>>) {
        if self.fixed_seed {
            observers.for_each(|o| moved::note_all(o));
        }
    }

    /// Kills instance `k`'s process.
    pub fn crash(&mut self, k: u8) {
        self.world.crash(k);
        self.open.remove(&k);
    }

    /// Closes instance `k` and ends its process.
    ///
    /// # Panics
    /// When it does not close.
    pub fn stop(&mut self, k: u8) {
        if let Some(instance) = self.open.remove(&k) {
            self.world
                .block_on_for(STUCK, instance.close())
                .unwrap_or_else(|| panic!("instance {k} hangs while it closes"))
                .unwrap_or_else(|e| panic!("instance {k} does not close: {e}"));
            drop(instance);
            self.world.crash(k);
        }
    }

    /// Some open instance.
    ///
    /// # Panics
    /// When none is open.
    #[must_use]
    pub fn any(&self) -> &Arc<Instance> {
        self.open.values().next().expect("an instance is open")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.note_moved(self.observers.values());
    }
}
