//! Planning that can be cancelled: the library's optimizer waits for nothing and asks nobody.
//!
//! What it promises: between any two of the optimizer's rules a cancelled or timed-out statement
//! ends with its error. What it must never do: outlive the planning it was made for.

use crate::error::PgError;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use observe::Ctx;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Whose statement is being planned on this thread; planning awaits nothing.
    static PLANNING: RefCell<Option<Ctx>> = const { RefCell::new(None) };
}

/// Says whose statement is planned until it is dropped.
pub(crate) struct Planning {
    before: Option<Ctx>,
}

impl Planning {
    pub(crate) fn of(ctx: Option<&Ctx>) -> Planning {
        Planning { before: PLANNING.replace(ctx.cloned()) }
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        PLANNING.replace(self.before.take());
    }
}

/// An error if the statement that is planned is to end.
pub(crate) fn check() -> DfResult<()> {
    PLANNING.with_borrow(|ctx| match ctx {
        Some(ctx) => ctx.check_interrupt().map_err(|interrupt| PgError::from(interrupt).into()),
        None => Ok(()),
    })
}

/// A rule that changes nothing.
#[derive(Debug)]
struct Check;

impl OptimizerRule for Check {
    fn name(&self) -> &str {
        "check_interrupt"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        check()?;
        Ok(Transformed::no(plan))
    }
}

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, with a look at the statement's end before each.
pub(crate) fn with_checks(rules: &[Rule]) -> Vec<Rule> {
    let check: Rule = Arc::new(Check);
    rules.iter().flat_map(|rule| [check.clone(), rule.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::optimizer::Optimizer;
    use env::simulated::{SimConfig, SimWorld};
    use observe::{Observer, SessionKind};

    #[test]
    fn planning_ends_with_its_statement_and_nobody_elses() {
        let world = SimWorld::new(1, SimConfig::default());
        let observer = Observer::new(world.env(1), 1);
        let (mine, others) =
            (observer.ctx(SessionKind::User, "a"), observer.ctx(SessionKind::User, "b"));
        assert!(check().is_ok(), "nobody plans");
        let planning = Planning::of(Some(&mine));
        assert!(check().is_ok());
        mine.session.cancel_flag().cancel();
        assert_eq!(PgError::from(check().unwrap_err()).code, "57014");
        {
            // A query that is planned while another one is.
            let _inner = Planning::of(Some(&others));
            assert!(check().is_ok());
        }
        assert!(check().is_err());
        drop(planning);
        assert!(check().is_ok());
    }

    #[test]
    fn each_rule_comes_after_a_look() {
        let rules = Optimizer::default().rules;
        let checked = with_checks(&rules);
        assert_eq!(checked.len(), 2 * rules.len());
        assert!(checked.iter().step_by(2).all(|rule| rule.name() == "check_interrupt"));
    }
}
