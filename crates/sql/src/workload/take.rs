//! Taking a snapshot, and dropping old ones.

use super::statements::{Statements, number};
use super::tables::{
    ACTIVE_SESSIONS, SOURCES, SQL_PLAN, SQL_PLAN_COLUMNS, SQL_TEXT, Whose, check_range,
};
use crate::Result;
use futures::future::LocalBoxFuture;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::Ctx;
use query::datetime::EPOCH_US;
use std::sync::Arc;

/// What came of a request for a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// It is there under this number. Left out are instances that do not answer.
    Snapshot { id: i64, left_out: Vec<i64> },
    /// The newest one was taken at this time, µs of the wall clock: it is too early for another.
    Early { last_us: i64 },
    /// Another session is taking one.
    Busy,
}

/// An instance that answers: its number, and when it was started.
type Answering = (i64, i64);

const INSTANCES: &str = "select inst_id, startup_time from gv$instance order by inst_id";

/// Takes a snapshot in a transaction of its own. With `interval_us`, only if the newest one is
/// older than that and nobody else is taking one.
///
/// # Errors
/// What a statement on the repository's tables fails with; nothing is kept then.
pub(crate) fn take<'a>(
    instance: &'a Arc<Instance>,
    ctx: &'a Ctx,
    interval_us: Option<i64>,
) -> LocalBoxFuture<'a, Result<Taken>> {
    // A boxed future of a named type: a statement of a session may be the caller.
    env::boxed!(async move {
        let mut statements = Statements::new(instance, ctx).await?;
        statements.install().await?;
        let fills = statements.fills().await?;
        statements.begin();
        let done = statements.snapshot(&fills, interval_us).await;
        let done = match statements.end(done).await {
            Err(error) if error.code == "55P03" && interval_us.is_some() => Ok(Taken::Busy),
            done => done,
        }?;
        if matches!(done, Taken::Snapshot { .. }) {
            let kept_us = i64::try_from(instance.params.awr_snapshot_retention())
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000);
            statements.begin();
            let purged = statements.purge(ctx.env.wall_us().saturating_sub(kept_us)).await;
            statements.end(purged).await?;
        }
        Ok(done)
    })
}

/// Drops the snapshots of a range; how many there were.
///
/// # Errors
/// 22023 for a range that goes backwards.
pub(crate) fn drop_range<'a>(
    instance: &'a Arc<Instance>,
    ctx: &'a Ctx,
    (low, high): (i64, i64),
) -> LocalBoxFuture<'a, Result<i64>> {
    env::boxed!(async move {
        check_range(low, high)?;
        let mut statements = Statements::new(instance, ctx).await?;
        statements.install().await?;
        statements.begin();
        let dropped = statements.drop_where(&format!("snap_id between {low} and {high}")).await;
        statements.end(dropped).await
    })
}

/// Keeps what this instance has sampled of its sessions since somebody did so last, for the
/// snapshot that comes next. `false`: somebody is taking one.
///
/// # Errors
/// What a statement on the repository's tables fails with; nothing is kept then.
pub(crate) fn keep_samples<'a>(
    instance: &'a Arc<Instance>,
    ctx: &'a Ctx,
) -> LocalBoxFuture<'a, Result<bool>> {
    env::boxed!(async move {
        let mut statements = Statements::new(instance, ctx).await?;
        statements.install().await?;
        let fills = statements.fills().await?;
        let of = |fill: &&Fill| SOURCES[fill.at].table == ACTIVE_SESSIONS;
        let Some(Fill { at, view, columns }) = fills.iter().find(of) else { return Ok(true) };
        statements.begin();
        let done = async {
            statements.lock(true).await?;
            let id = statements.last_snapshot().await? + 1;
            let fill = SOURCES[*at].fill(view, columns, id, Whose::Own(instance.me.0));
            statements.run(&fill.expect("it was one before")).await
        }
        .await;
        match statements.end(done).await {
            Err(error) if error.code == "55P03" => Ok(false),
            done => done.map(|_| true),
        }
    })
}

/// A view that fills a table, by what statement.
struct Fill {
    at: usize,
    view: &'static str,
    columns: Vec<String>,
}

impl Statements {
    /// Which views of this server fill which tables.
    async fn fills(&mut self) -> Result<Vec<Fill>> {
        let mut fills = Vec::new();
        for (at, source) in SOURCES.iter().enumerate() {
            for view in source.views {
                let Some(columns) = self.columns_of(view).await? else { continue };
                if source.fill(view, &columns, 0, Whose::All).is_some() {
                    fills.push(Fill { at, view, columns });
                    break;
                }
            }
        }
        Ok(fills)
    }

    async fn snapshot(&mut self, fills: &[Fill], interval_us: Option<i64>) -> Result<Taken> {
        let began_us = self.session.ctx.env.wall_us();
        self.lock(interval_us.is_some()).await?;
        if let Some(interval_us) = interval_us {
            let last = self.run("select max(end_interval_time) from pg_awr.wrm$_snapshot").await?;
            if let Some(last_us) = time(&last[0][0])
                && began_us - last_us < interval_us
            {
                return Ok(Taken::Early { last_us });
            }
        }
        let id = self.last_snapshot().await? + 1;
        let before = self.instances(INSTANCES).await?;
        self.begin_snapshot(id, interval_us.is_some()).await?;
        for Fill { at, view, columns } in fills {
            let statement = SOURCES[*at].fill(view, columns, id, Whose::All);
            self.run(&statement.expect("it was one before")).await?;
        }
        self.keep_texts().await?;
        self.keep_plans().await?;
        let left_out = self.leave_out(id, &before).await?;
        let took_us = self.session.ctx.env.wall_us() - began_us;
        self.run(&format!(
            "update pg_awr.wrm$_snapshot set flush_elapsed_us = {took_us} where snap_id = {id}"
        ))
        .await?;
        Ok(Taken::Snapshot { id, left_out })
    }

    /// Takes the turn of who writes into the repository.
    async fn lock(&mut self, no_wait: bool) -> Result<()> {
        let no_wait = if no_wait { " nowait" } else { "" };
        let lock = format!("lock table pg_awr.wrm$_snapshot in share row exclusive mode{no_wait}");
        self.run(&lock).await.map(|_| ())
    }

    /// Number of the newest snapshot; 0: there is none.
    async fn last_snapshot(&mut self) -> Result<i64> {
        number(&self.run("select max(snap_id) from pg_awr.wrm$_snapshot").await?)
    }

    async fn instances(&mut self, text: &str) -> Result<Vec<Answering>> {
        let rows = self.run(text).await?;
        let row =
            |row: &Vec<Value>| Some((number(std::slice::from_ref(row)).ok()?, time(&row[1])?));
        Ok(rows.iter().filter_map(row).collect())
    }

    /// The snapshot's own rows. Its time is that of the first view's, and one for all instances.
    async fn begin_snapshot(&mut self, id: i64, automatic: bool) -> Result<()> {
        let flag = i32::from(!automatic);
        let now_us = self.session.ctx.env.wall_us() - EPOCH_US;
        self.run(&format!(
            "insert into pg_awr.wrm$_snapshot (snap_id, instance_number, instance_name, host_name, \
             version, startup_time, begin_interval_time, end_interval_time, sessions, snap_flag) \
             select {id}, i.inst_id, i.instance_name, i.host_name, i.version, i.startup_time, \
             coalesce((select max(s.end_interval_time) from pg_awr.wrm$_snapshot s \
             where s.instance_number = i.inst_id and s.startup_time = i.startup_time), \
             i.startup_time), \
             timestamptz '2000-01-01 00:00:00+00' + {now_us} * interval '1 microsecond', \
             (select count(*) from gv$session s where s.inst_id = i.inst_id and s.type = 'USER'), \
             {flag} from gv$instance i"
        ))
        .await
        .map(|_| ())
    }

    /// Texts of statements that no snapshot has met before, and who parsed them first.
    async fn keep_texts(&mut self) -> Result<()> {
        self.run(
            "insert into pg_awr.wrh$_sqltext (sql_id, sql_text, command_type, \
             parsing_schema_name, module, action) \
             select a.sql_id, max(a.sql_fulltext), max(a.command_type), \
             max(a.parsing_schema_name), max(a.module), max(a.action) from gv$sqlarea a \
             where not exists \
             (select 1 from pg_awr.wrh$_sqltext t where t.sql_id = a.sql_id) group by a.sql_id",
        )
        .await
        .map(|_| ())
    }

    /// Plans that no snapshot has met before: of several sessions' or instances' one, as they have
    /// the same steps.
    async fn keep_plans(&mut self) -> Result<()> {
        let columns: Vec<&str> = SQL_PLAN_COLUMNS.iter().map(|(name, _)| *name).collect();
        let columns = columns.join(", ");
        self.run(&format!(
            "insert into pg_awr.{SQL_PLAN} ({columns}) select {columns} from \
             (select g.*, dense_rank() over (partition by g.sql_id, g.plan_hash_value \
             order by g.inst_id, g.child_number) as place from gv$sql_plan g \
             where g.plan_hash_value > 0) p where p.place = 1 and not exists \
             (select 1 from pg_awr.{SQL_PLAN} t where t.sql_id = p.sql_id \
             and t.plan_hash_value = p.plan_hash_value)"
        ))
        .await
        .map(|_| ())
    }

    /// Takes out who has not answered from the beginning to the end, and notes those that were in
    /// the snapshot before.
    async fn leave_out(&mut self, id: i64, before: &[Answering]) -> Result<Vec<i64>> {
        let after = self.instances(INSTANCES).await?;
        let there = self
            .run(&format!(
                "select distinct instance_number from pg_awr.wrm$_snapshot where snap_id = {id}"
            ))
            .await?;
        let there: Vec<i64> =
            there.iter().filter_map(|row| number(std::slice::from_ref(row)).ok()).collect();
        let whole: Vec<i64> =
            before.iter().filter(|one| after.contains(one)).map(|(no, _)| *no).collect();
        for no in there.iter().filter(|no| !whole.contains(no)) {
            // Its samples are as good as any, and tell what it did at last.
            let tables = SOURCES.iter().map(|source| source.table);
            let tables = tables.filter(|table| *table != ACTIVE_SESSIONS);
            for table in tables.chain(["wrm$_snapshot"]) {
                self.run(&format!(
                    "delete from pg_awr.{table} where snap_id = {id} and instance_number = {no}"
                ))
                .await?;
            }
        }
        let known = self
            .run(&format!(
                "select distinct instance_number from pg_awr.wrm$_snapshot where snap_id = \
                 (select max(snap_id) from pg_awr.wrm$_snapshot where snap_id < {id})"
            ))
            .await?;
        let known = known.iter().filter_map(|row| number(std::slice::from_ref(row)).ok());
        let mut left_out: Vec<i64> = known.chain(there).filter(|no| !whole.contains(no)).collect();
        left_out.sort_unstable();
        left_out.dedup();
        for no in &left_out {
            self.run(&format!(
                "insert into pg_awr.wrm$_snap_error values ({id}, {no}, \
                 'the instance is down or did not answer')"
            ))
            .await?;
        }
        Ok(left_out)
    }

    /// Drops what is older than a time, but for the newest snapshot.
    async fn purge(&mut self, before_us: i64) -> Result<i64> {
        let before_us = before_us - EPOCH_US;
        self.drop_where(&format!(
            "snap_id in (select snap_id from pg_awr.wrm$_snapshot where end_interval_time < \
             timestamptz '2000-01-01 00:00:00+00' + {before_us} * interval '1 microsecond' \
             and snap_id < (select max(snap_id) from pg_awr.wrm$_snapshot))"
        ))
        .await
    }

    /// Drops snapshots; how many.
    async fn drop_where(&mut self, condition: &str) -> Result<i64> {
        let counted =
            format!("select count(distinct snap_id) from pg_awr.wrm$_snapshot where {condition}");
        let count = number(&self.run(&counted).await?)?;
        if count == 0 {
            return Ok(0);
        }
        // The list of snapshots goes last: the condition may ask it.
        let tables = SOURCES.iter().map(|source| source.table);
        for table in tables.chain(["wrm$_snap_error", "wrm$_snapshot"]) {
            self.run(&format!("delete from pg_awr.{table} where {condition}")).await?;
        }
        for table in [SQL_TEXT, SQL_PLAN] {
            self.run(&format!(
                "delete from pg_awr.{table} where sql_id not in \
                 (select sql_id from pg_awr.wrh$_sqlstat where sql_id is not null)"
            ))
            .await?;
        }
        Ok(count)
    }
}

/// A time in µs of the wall clock.
fn time(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamptz(us) => Some(us + EPOCH_US),
        _ => None,
    }
}
