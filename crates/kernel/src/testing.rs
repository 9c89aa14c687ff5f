//! A whole instance for tests: the real thing in a simulated world, alone on its disk group. It can
//! be killed and opened again.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{InstanceNo, Scn};
use disk::Options;
use env::Env;
use env::simulated::{SimConfig, SimWorld};
use observe::{Ctx, Observer, SessionKind};

use crate::instance::{Instance, InstanceConfig, NewDatabase, create_database};
use crate::params::Parameters;
use crate::txn::{Core, Isolation, Transaction};

const DIR: &str = "/db";

/// One instance in a world of its own.
pub(crate) struct TestInstance {
    pub world: SimWorld,
    pub env: Env,
    pub observer: Arc<Observer>,
    pub instance: Arc<Instance>,
    pub core: Arc<Core>,
    cache_blocks: usize,
}

impl TestInstance {
    /// A new database with one instance whose cache has `cache_blocks` buffers.
    pub fn new(seed: u64, cache_blocks: usize) -> TestInstance {
        let world = SimWorld::new(seed, SimConfig::default());
        let env = world.env(1);
        let observer = Observer::new(env.clone(), 1);
        let ctx = observer.ctx(SessionKind::Background, "create");
        let new = NewDatabase {
            dir: Path::new(DIR),
            options: Options::default(),
            instances: 1,
            luns: 2,
            lun_size_bytes: 256 << 20,
            log_files: 3,
            log_file_bytes: 16 << 20,
            verifier: "none",
        };
        world.block_on(create_database(&ctx, &env, &new)).expect("a new database");
        let instance = world.block_on(open(&env, &observer, cache_blocks));
        let core = instance.core.clone();
        TestInstance { world, env, observer, instance, core, cache_blocks }
    }

    /// Kills the instance and opens it again.
    pub fn crash(&mut self) {
        moved::note_all(&self.observer);
        self.world.crash(1);
        self.env = self.world.restart_env(1);
        self.observer = Observer::new(self.env.clone(), 1);
        let opening = open(&self.env, &self.observer, self.cache_blocks);
        self.instance = self.world.block_on(opening);
        self.core = self.instance.core.clone();
    }

    /// Context of a new session.
    pub fn session(&self, name: &str) -> Ctx {
        self.observer.ctx(SessionKind::User, name)
    }

    pub fn begin(&self) -> Arc<Transaction> {
        Transaction::begin(&self.core, Isolation::ReadCommitted, Scn::ZERO)
    }

    pub fn begin_repeatable(&self) -> Arc<Transaction> {
        Transaction::begin(&self.core, Isolation::RepeatableRead, Scn::ZERO)
    }

    /// Runs a future to its end in virtual time.
    ///
    /// # Panics
    /// When it has not ended after an hour of it.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let limit = Duration::from_secs(3600);
        self.world.block_on_for(limit, future).expect("a test ends within an hour of its time")
    }
}

impl Drop for TestInstance {
    fn drop(&mut self) {
        moved::note_all(&self.observer);
    }
}

async fn open(env: &Env, observer: &Arc<Observer>, cache_blocks: usize) -> Arc<Instance> {
    let params = Parameters::default();
    let cache_bytes = (cache_blocks * block::BLOCK_BYTES).to_string();
    params.set("db_cache_size", &cache_bytes).expect("a cache size");
    let config = InstanceConfig {
        dir: DIR.into(),
        me: InstanceNo(1),
        params: Arc::new(params),
        secret: [7; 32],
        interconnect: "127.0.0.1:0".to_owned(),
        membership: cluster::MembershipConfig::default(),
    };
    Instance::open(env, observer, config).await.expect("the instance opens")
}
