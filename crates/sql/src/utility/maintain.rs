//! VACUUM and ANALYZE.
//!
//! What it promises: statistics come from samples of blocks spread over the whole table and over
//! its indexes; each table is done by itself, so that nobody waits for all of them; two never look
//! through one table at the same time, whichever instance they are on. What it must never do: let a
//! name of a table or column that is not there pass.

use crate::ddl::is_temporary;
use crate::parse::{MaintainedTable, Maintenance};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use kernel::dict::{self, ExprStats, IndexDef, IndexStats, NewStats, TableDef};
use kernel::table::{self, LockWait};
use kernel::txn::{Holder, Isolation, Snapshot, TmMode, Transaction, analyze_resource};
use observe::{Ctx, Operation, Target};
use query::Relation;
use query::analyze::{SAMPLE_BLOCKS, Sample};
use std::sync::Arc;

/// Leaves of an index that are looked at; if it has no more, all of them.
const SAMPLE_LEAVES: u64 = 1_000;
/// Blocks that are looked at without a pause.
const BLOCKS_PER_PAUSE: u64 = 32;

/// A table with the positions of the columns to look at.
type Wanted = (Arc<TableDef>, Vec<usize>);

/// What was seen, as PostgreSQL tells it.
pub(crate) struct Seen {
    blocks: u64,
    total_blocks: u64,
    rows: u64,
    sampled: usize,
}

/// Looks through a sample of a table.
///
/// # Errors
/// What reading blocks can fail with.
pub(crate) async fn gather(
    ctx: &Ctx,
    def: &TableDef,
    snapshot: &Snapshot,
    positions: &[usize],
    automatic: bool,
) -> kernel::Result<(NewStats, Seen)> {
    let (scan, blocks, total_blocks) = table::sample(ctx, def, snapshot, SAMPLE_BLOCKS).await?;
    let target = Target::object(&def.schema, &def.name);
    let operation = Operation::begin(ctx, "Gather Table Statistics", target, (blocks, "Blocks"));
    let operation = Arc::new(operation);
    let mut scan = scan.telling(Some(operation.clone()));
    let mut sample = Sample::default();
    let env = ctx.env.clone();
    let mut read = 0u64;
    while scan.next_block(ctx, |_, row| sample.add(row, || env.random())).await? {
        read += 1;
        if read.is_multiple_of(BLOCKS_PER_PAUSE) {
            tokio::task::yield_now().await;
        }
    }
    let mut columns = Vec::with_capacity(positions.len());
    sample.sort();
    #[allow(clippy::cast_precision_loss)] // an estimate
    let rows = match blocks {
        0 => 0.0,
        _ => (sample.seen() as f64 / blocks as f64 * total_blocks as f64).round(),
    };
    // As planning sees the table's size: with the blocks that hold no rows.
    let (blocks_below, _) = table::blocks(ctx, snapshot.core(), def).await?;
    let seen = Seen { blocks, total_blocks, rows: sample.seen(), sampled: sample.len() };
    for position in positions {
        columns.push((*position, sample.column(&def.types, *position, rows)));
        ctx.check_interrupt()?;
        // Sorting takes a while: others shall not wait for all of it.
        tokio::task::yield_now().await;
    }
    let mut exprs = Vec::new();
    // Who names columns asks for no more than those.
    let computed = if positions.len() == def.columns.len() { &def.computed[..] } else { &[] };
    for index in computed {
        let known = sample.expressions(def, index, rows).into_iter().enumerate();
        let index = index.obj;
        exprs.extend(known.map(|(place, values)| ExprStats { index, place, values }));
        ctx.check_interrupt()?;
        tokio::task::yield_now().await;
    }
    let whole = positions.len() == def.columns.len();
    let indexes = if whole { look_at_indexes(ctx, def, snapshot).await? } else { Vec::new() };
    operation.end(ctx);
    let new = NewStats {
        rows,
        blocks: u64::from(blocks_below),
        row_bytes: sample.row_bytes(),
        sampled: sample.len() as u64,
        at_us: ctx.env.wall_us(),
        automatic,
        columns,
        exprs,
        indexes,
    };
    Ok((new, seen))
}

/// Looks along the leaves of a table's indexes.
async fn look_at_indexes(
    ctx: &Ctx,
    def: &TableDef,
    snapshot: &Snapshot,
) -> kernel::Result<Vec<IndexStats>> {
    let mut all = Vec::new();
    for index in def.all_indexes() {
        match look_at(ctx, def, index, snapshot).await {
            Ok(stats) => all.push(stats),
            // It was dropped or made anew meanwhile, of which the table knows nothing.
            Err(kernel::Error::ObjectGone) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

async fn look_at(
    ctx: &Ctx,
    def: &TableDef,
    index: &IndexDef,
    snapshot: &Snapshot,
) -> kernel::Result<IndexStats> {
    let env = ctx.env.clone();
    let random = move || env.random();
    let mut look = table::look_at_index(ctx, def, index, snapshot, SAMPLE_LEAVES, random).await?;
    while look.go_on(ctx).await? {
        tokio::task::yield_now().await;
    }
    Ok(look.stats(ctx.env.wall_us()))
}

/// All columns.
fn all_columns(def: &TableDef) -> Vec<usize> {
    (0..def.columns.len()).collect()
}

impl Session {
    pub(super) async fn vacuum(&mut self, what: &Maintenance) -> Result<()> {
        if !what.analyze && what.tables.iter().any(|table| !table.columns.is_empty()) {
            let text = "ANALYZE option must be specified when a column list is provided";
            return Err(PgError::new("0A000", text));
        }
        let text = "VACUUM has nothing to do: space of old row versions is reused by the changes that follow";
        self.notice(Severity::Notice, text);
        if what.analyze {
            return self.analyze_tables(what).await;
        }
        for table in &what.tables {
            self.find_relation(table.schema.as_deref(), &table.name).await?;
        }
        Ok(())
    }

    pub(crate) async fn analyze_tables(&mut self, what: &Maintenance) -> Result<()> {
        self.begin_if_needed();
        let mut all: Vec<Wanted> = Vec::new();
        for table in &what.tables {
            all.extend(self.wanted(table).await?);
        }
        let txn = self.transaction()?;
        let every = what.tables.is_empty();
        if every {
            for def in dict::tables(&self.ctx, &txn).await? {
                // Only its own session reads a temporary table.
                let others = is_temporary(&def.schema) && !self.is_own_temporary(&def.schema);
                if def.schema != dict::SYS && !others && self.may_analyze(&def).await? {
                    let positions = all_columns(&def);
                    all.push((def, positions));
                }
            }
        }
        // What the client's transaction has changed must not be committed by the way.
        let alone = self.txn.as_ref().is_some_and(|txn| !txn.explicit) && txn.xid().is_none();
        let several = all.len() > 1;
        let work = (all.len() as u64, "Objects");
        let begin = || Operation::begin(&self.ctx, "Gather Statistics", Target::Nothing, work);
        let operation = several.then(begin);
        for (def, positions) in all {
            self.begin_if_needed();
            // Another session may have dropped or changed it by now.
            let Some(def) = self.still_there(&def).await? else { continue };
            match self.analyze_table(&def, &positions, what).await {
                // While it was looked through.
                Err(error) if every && self.still_there(&def).await?.is_none() => {
                    self.notice(Severity::Warning, format!("skipping \"{}\": {error}", def.name));
                }
                done => done?,
            }
            if several && alone {
                self.commit().await?;
            }
            if let Some(operation) = &operation {
                operation.advance(&self.ctx, 1);
            }
        }
        if let Some(operation) = operation {
            operation.end(&self.ctx);
        }
        self.begin_if_needed();
        Ok(())
    }

    async fn still_there(&mut self, def: &TableDef) -> Result<Option<Arc<TableDef>>> {
        let txn = self.transaction()?;
        let now = dict::table_by_obj(&self.ctx, &txn, def.obj).await?;
        Ok(now.filter(|now| now.types.to_vec() == def.types.to_vec()))
    }

    /// What is meant, or nothing if it is not for this role, which is warned.
    async fn wanted(&mut self, table: &MaintainedTable) -> Result<Option<Wanted>> {
        let found = self.find_relation(table.schema.as_deref(), &table.name).await?;
        let Relation::Table(def) = found else {
            let text = format!(
                "skipping \"{}\" --- cannot analyze non-tables or special system tables",
                table.name
            );
            self.notice(Severity::Warning, text);
            return Ok(None);
        };
        if !self.may_analyze(&def).await? {
            return Ok(None);
        }
        let mut positions = Vec::new();
        for name in &table.columns {
            let position = def.column(name).ok_or_else(|| {
                let text = format!("column \"{name}\" of relation \"{}\" does not exist", def.name);
                PgError::new("42703", text)
            })?;
            if positions.contains(&position) {
                let text = format!(
                    "column \"{name}\" of relation \"{}\" appears more than once",
                    def.name
                );
                return Err(PgError::new("42701", text));
            }
            positions.push(position);
        }
        if table.columns.is_empty() {
            positions = all_columns(&def);
        }
        Ok(Some((def, positions)))
    }

    async fn may_analyze(&mut self, def: &TableDef) -> Result<bool> {
        if def.schema == dict::SYS {
            let text = format!(
                "skipping \"{}\" --- only superuser or database owner can analyze it",
                def.name
            );
            self.notice(Severity::Warning, text);
            return Ok(false);
        }
        if self.has_role(def.owner).await? || self.has_role(dict::DATABASE_OWNER_ROLE).await? {
            return Ok(true);
        }
        let text =
            format!("skipping \"{}\" --- only table or database owner can analyze it", def.name);
        self.notice(Severity::Warning, text);
        Ok(false)
    }

    async fn analyze_table(
        &mut self,
        def: &TableDef,
        positions: &[usize],
        what: &Maintenance,
    ) -> Result<()> {
        let txn = match self.apart(def).await? {
            Some(apart) => apart,
            None => self.transaction()?,
        };
        let apart = txn.local_id() != self.transaction()?.local_id();
        let done = self.analyze_in(&txn, def, positions, what).await;
        match done {
            Ok(()) if apart => {
                txn.commit(&self.ctx).await?;
                Ok(())
            }
            Err(error) if apart => {
                txn.rollback(&self.ctx).await?;
                Err(error)
            }
            done => done,
        }
    }

    /// A transaction of its own for a table's statistics: where the client's stays open, what it
    /// has locked of the dictionary would keep others waiting. `None`: the client's has changed
    /// something, of which others shall not know, or has locked the table.
    async fn apart(&mut self, def: &TableDef) -> Result<Option<Arc<Transaction>>> {
        let open = self.txn.as_ref().is_some_and(|txn| txn.explicit);
        if !open || self.transaction()?.xid().is_some() {
            return Ok(None);
        }
        let txn = self.instance.begin(&self.ctx, Isolation::ReadCommitted);
        let core = self.instance.core.clone();
        let locked = core.lock_table(&self.ctx, &txn, def.obj, TmMode::SS, LockWait::NoWait).await;
        match locked {
            Ok(_) => Ok(Some(txn)),
            Err(error) => {
                txn.rollback(&self.ctx).await?;
                match error {
                    kernel::Error::RowLocked => Ok(None),
                    error => Err(error.into()),
                }
            }
        }
    }

    async fn analyze_in(
        &mut self,
        txn: &Arc<Transaction>,
        def: &TableDef,
        positions: &[usize],
        what: &Maintenance,
    ) -> Result<()> {
        let who = Holder { id: txn.local_id(), same: None };
        let wait = if what.skip_locked { LockWait::NoWait } else { self.lock_wait() };
        let turn = analyze_resource(def.obj);
        let core = self.instance.core.clone();
        match core.lock_resource(&self.ctx, txn, who, turn, TmMode::X, wait).await {
            Ok(()) => {}
            Err(kernel::Error::RowLocked) if what.skip_locked => {
                let text = format!("skipping analyze of \"{}\" --- lock not available", def.name);
                self.notice(Severity::Warning, text);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        if what.verbose {
            self.notice(Severity::Info, format!("analyzing \"{}.{}\"", def.schema, def.name));
        }
        let snapshot = self.later_snapshot()?;
        let (new, seen) = gather(&self.ctx, def, &snapshot, positions, false).await?;
        if what.verbose {
            let text = format!(
                "\"{}\": scanned {} of {} pages, containing {} live rows and 0 dead rows; \
                 {} rows in sample, {} estimated total rows",
                def.name, seen.blocks, seen.total_blocks, seen.rows, seen.sampled, new.rows
            );
            self.notice(Severity::Info, text);
        }
        dict::set_statistics(&self.ctx, txn, def, &new).await?;
        Ok(())
    }
}
