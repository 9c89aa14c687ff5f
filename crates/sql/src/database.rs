//! What all sessions of an instance share: the planner, the plan cache, who listens.

use crate::audit::Trail;
use crate::cache::PlanCache;
use crate::hba::Hba;
use crate::key_exprs::KeyMaker;
use crate::log_on::Seats;
use crate::notify::Listeners;
use crate::sharing::Sharing;
use crate::{PgError, Result};
use kernel::instance::Instance;
use parking_lot::Mutex;
use query::Planner;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// Shared by the sessions of one instance.
pub(crate) struct Database {
    pub(crate) planner: Planner,
    pub(crate) cache: PlanCache,
    pub(crate) sharing: Sharing,
    pub(crate) listeners: Listeners,
    pub(crate) hba: Hba,
    pub(crate) trail: Trail,
    pub(crate) seats: Arc<Seats>,
    /// Views of the history that stay as an older release made them, of which the alert log knows.
    pub(crate) old_views: Mutex<BTreeSet<String>>,
    keys: Arc<KeyMaker>,
}

/// Open instances of this process: one, or several in tests.
static OPEN: Mutex<Vec<(Weak<Instance>, Arc<Database>)>> = Mutex::new(Vec::new());

impl Database {
    /// What belongs to `instance`.
    pub(crate) fn of(instance: &Arc<Instance>) -> Result<Arc<Database>> {
        let mut open = OPEN.lock();
        open.retain(|(known, _)| known.strong_count() > 0);
        let same = |known: &Weak<Instance>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(instance));
        if let Some((_, database)) = open.iter().find(|(known, _)| same(known)) {
            return Ok(database.clone());
        }
        let memory = usize::try_from(instance.params.pga_aggregate_target())
            .map_err(|_| PgError::internal("pga_aggregate_target"))?;
        let planner = Planner::new(memory, &instance.params.temp_directory())?;
        let database = Arc::new_cyclic(|own| Database {
            planner,
            cache: PlanCache::default(),
            sharing: Sharing::default(),
            listeners: Listeners::default(),
            hba: Hba::default(),
            trail: Trail::default(),
            seats: Arc::default(),
            old_views: Mutex::default(),
            keys: Arc::new(KeyMaker(own.clone())),
        });
        kernel::dict::set_key_expressions(&instance.core, database.keys.clone())?;
        instance.core.set_work_memory(query::memory::scans_memory(database.planner.pga()));
        open.push((Arc::downgrade(instance), database.clone()));
        crate::auto_analyze::start(instance);
        Ok(database)
    }
}
