//! What one execution of a plan works with. Plans are shared; this is not.

use crate::join_keys::JoinKeys;
use crate::row_calls::RowCalls;
use crate::shared::SharedRows;
use crate::wire::FormatEnv;
use block::Rowid;
use datafusion::arrow::array::RecordBatch;
use kernel::row::Value;
use kernel::txn::Snapshot;
use observe::Ctx;
use std::sync::Arc;

/// Rows that stand in for the target table of a statement: the new version of a row that another
/// transaction has changed, or the rows that `RETURNING` speaks of.
pub struct Override {
    pub rows: Vec<(Rowid, Vec<u8>)>,
}

/// Session, snapshot and parameters of one execution.
pub struct ExecState {
    pub ctx: Ctx,
    pub snapshot: Snapshot,
    pub params: Vec<Value>,
    pub env: FormatEnv,
    /// Read instead of the target table, if set.
    pub target: Option<Override>,
    /// Rows that parts of the statement have given so far.
    pub given: Arc<Vec<RecordBatch>>,
    /// What its joins have told its scans.
    pub keys: JoinKeys,
    /// Whether tasks of the instance may help: it only reads, and to its end.
    pub parallel: bool,
    /// What several of its steps read.
    pub shared: SharedRows,
    /// Where its rows send their calls, if somebody answers.
    pub calls: Option<RowCalls>,
}

/// A state as it travels in DataFusion's task context.
pub type SharedState = Arc<ExecState>;
