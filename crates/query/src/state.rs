//! What one execution of a plan works with. Plans are shared; this is not.

use crate::error::{PgError, Result};
use crate::fixed::ViewRows;
use crate::join_keys::JoinKeys;
use crate::row_calls::RowCalls;
use crate::shared::SharedRows;
use crate::wire::FormatEnv;
use block::{Rowid, Scn};
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
    /// The views that the statement has read.
    pub views: Arc<ViewRows>,
    /// What its joins have told its scans.
    pub keys: JoinKeys,
    /// Whether tasks of the instance may help: it only reads, and to its end.
    pub parallel: bool,
    /// What several of its steps read.
    pub shared: SharedRows,
    /// Where its rows send their calls, if somebody answers.
    pub calls: Option<RowCalls>,
}

impl ExecState {
    /// The same for a scan that reads as of an SCN of the past, which is a parameter.
    pub(crate) fn as_of(&self, param: usize) -> Result<ExecState> {
        let Some(&Value::Int8(scn)) = self.params.get(param) else {
            return Err(PgError::internal("no SCN to read as of"));
        };
        let known = u64::try_from(scn).ok().map(Scn);
        // Of one that is still to come commits would lie below it.
        let past = known.filter(|scn| *scn <= self.snapshot.core().current_scn());
        let scn = past.ok_or_else(|| PgError::internal("an SCN that is not of the past"))?;
        Ok(ExecState {
            ctx: self.ctx.clone(),
            snapshot: self.snapshot.as_of(scn),
            params: self.params.clone(),
            env: self.env,
            target: None,
            given: self.given.clone(),
            views: self.views.clone(),
            keys: JoinKeys::default(),
            parallel: self.parallel,
            shared: SharedRows::default(),
            calls: self.calls.clone(),
        })
    }
}

/// A state as it travels in DataFusion's task context.
pub type SharedState = Arc<ExecState>;
