//! RETURNING: the rows a statement has changed, as a result.

use crate::plan::QueryPlan;
use query::Scalar;
use query::planner::PlannedQuery;

/// How returned rows are computed.
pub(crate) enum Returning {
    /// Simple expressions over the new row.
    Scalars(Vec<Scalar>),
    /// A query over the target, whose scan is given the rows.
    Query(Box<QueryPlan>),
}

impl Returning {
    /// The query, if it is one.
    pub(crate) fn query(&self) -> Option<&PlannedQuery> {
        match self {
            Returning::Scalars(_) => None,
            Returning::Query(plan) => Some(&plan.query),
        }
    }
}
