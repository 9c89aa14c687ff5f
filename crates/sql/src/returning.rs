//! RETURNING: the rows a statement has changed, as a result.

use crate::plan::QueryPlan;
use query::Scalar;

/// How returned rows are computed.
pub(crate) enum Returning {
    /// Simple expressions over the new row.
    Scalars(Vec<Scalar>),
    /// A query over the target, whose scan is given the rows.
    Query(Box<QueryPlan>),
}
