//! Nothing that a view shows stands still.
//!
//! Each column of each `v$` view must show two different values while a cluster is made to do what
//! it tells of. Wait events and statistics that only real processes move (the sockets of clients,
//! times too short for the simulator's clock) are moved here as well, and noted for `cargo x test`,
//! which adds what other tests move.

use crate::clients::{connect, strings};
use crate::db::Db;
use futures::SinkExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage};

/// What is the same on all instances of one build, what only peers can see, while an instance
/// closes (the tests of `sql` do), what there is one of, who all clients here are, what scripts ask
/// for and is not here (terminals, archived redo, memory that a process could free), the network
/// of one machine, and undo of instances that have failed.
const CONSTANT: [&str; 194] = [
    "v$sql.is_bind_sensitive",
    "v$sql.is_bind_aware",
    "v$sql.remote",
    "v$sql.sql_profile",
    "v$sqlarea.is_bind_sensitive",
    "v$sqlarea.is_bind_aware",
    "v$sqlarea.remote",
    "v$sqlarea.sql_profile",
    "v$librarycache.namespace",
    "v$librarycache.dlm_lock_requests",
    "v$librarycache.dlm_pin_requests",
    "v$librarycache.dlm_pin_releases",
    "v$librarycache.dlm_invalidation_requests",
    "v$librarycache.dlm_invalidations",
    "v$cr_block_server.other_requests",
    "v$cr_block_server.private_results",
    "v$cr_block_server.disk_read_results",
    "v$cr_block_server.stale",
    "v$cr_block_server.fairness_clears",
    "v$cr_block_server.free_gc_elements",
    "v$cr_block_server.flush_queue_full",
    "v$cr_block_server.errors",
    "v$bh.xnc",
    "v$bh.forced_reads",
    "v$bh.forced_writes",
    "v$bh.temp",
    "v$bh.stale",
    "v$bh.direct",
    "v$instance_cache_transfer.lost",
    "v$instance_cache_transfer.lost_time",
    "v$latch.immediate_gets",
    "v$latch.immediate_misses",
    "v$latch_parent.immediate_gets",
    "v$latch_parent.immediate_misses",
    "v$latch_children.immediate_gets",
    "v$latch_children.immediate_misses",
    "v$rowcache.type",
    "v$rowcache.subordinate#",
    "v$rowcache.scans",
    "v$rowcache.scanmisses",
    "v$rowcache.scancompletes",
    "v$current_block_server.cleandc",
    "v$current_block_server.rcvdc",
    "v$current_block_server.queuedc",
    "v$current_block_server.evictdc",
    "v$current_block_server.writedc",
    "v$ges_enqueue.pid",
    "v$ges_enqueue.transaction_id0",
    "v$ges_enqueue.transaction_id1",
    "v$ges_enqueue.group_id",
    "v$ges_enqueue.open_opt_deadlock",
    "v$ges_enqueue.open_opt_persistent",
    "v$ges_enqueue.open_opt_process_owned",
    "v$ges_enqueue.open_opt_no_xid",
    "v$ges_enqueue.convert_opt_getvalue",
    "v$ges_enqueue.convert_opt_putvalue",
    "v$ges_enqueue.convert_opt_novalue",
    "v$ges_enqueue.convert_opt_dubvalue",
    "v$ges_enqueue.convert_opt_noqueue",
    "v$ges_enqueue.convert_opt_express",
    "v$ges_enqueue.convert_opt_nodeadlockwait",
    "v$ges_enqueue.convert_opt_nodeadlockblock",
    "v$ges_enqueue.ast_event0",
    "v$ges_blocking_enqueue.pid",
    "v$ges_blocking_enqueue.transaction_id0",
    "v$ges_blocking_enqueue.transaction_id1",
    "v$ges_blocking_enqueue.group_id",
    "v$ges_blocking_enqueue.open_opt_deadlock",
    "v$ges_blocking_enqueue.open_opt_persistent",
    "v$ges_blocking_enqueue.open_opt_process_owned",
    "v$ges_blocking_enqueue.open_opt_no_xid",
    "v$ges_blocking_enqueue.convert_opt_getvalue",
    "v$ges_blocking_enqueue.convert_opt_putvalue",
    "v$ges_blocking_enqueue.convert_opt_novalue",
    "v$ges_blocking_enqueue.convert_opt_dubvalue",
    "v$ges_blocking_enqueue.convert_opt_noqueue",
    "v$ges_blocking_enqueue.convert_opt_express",
    "v$ges_blocking_enqueue.convert_opt_nodeadlockwait",
    "v$ges_blocking_enqueue.convert_opt_nodeadlockblock",
    "v$ges_blocking_enqueue.ast_event0",
    "v$parameter.isadjusted",
    "v$parameter.isdeprecated",
    "v$parameter.update_comment",
    "v$system_parameter.isadjusted",
    "v$system_parameter.isdeprecated",
    "v$system_parameter.update_comment",
    "v$sql.service",
    "v$sqlarea.service",
    "v$sql.kept_versions",
    "v$sql.literal_hash_value",
    "v$sql.object_status",
    "v$sql.is_obsolete",
    "v$sql.is_shareable",
    "v$sqlarea.kept_versions",
    "v$sqlarea.literal_hash_value",
    "v$sqlarea.object_status",
    "v$sqlarea.is_obsolete",
    "v$sqlarea.is_shareable",
    "v$sql_plan.parsing_user",
    "v$sql_plan.time",
    "v$sql_plan.other_tag",
    "v$sql_plan.partition_start",
    "v$sql_plan.partition_stop",
    "v$sql_plan_statistics.last_disk_writes",
    "v$sql_plan_statistics.disk_writes",
    "v$sql_plan_statistics_all.parsing_user",
    "v$sql_plan_statistics_all.time",
    "v$sql_plan_statistics_all.other_tag",
    "v$sql_plan_statistics_all.partition_start",
    "v$sql_plan_statistics_all.partition_stop",
    "v$sql_plan_statistics_all.last_disk_writes",
    "v$sql_plan_statistics_all.disk_writes",
    "v$instance.version",
    "v$instance.host_name",
    "v$datafile.bytes",
    "v$datafile.blocks",
    "v$datafile.block_size",
    "v$datafile.status",
    "v$datafile.enabled",
    "v$tablespace.bigfile",
    "v$open_cursor.user_name",
    "v$version.banner",
    "v$version.banner_full",
    "v$cluster_interconnects.name",
    "v$cluster_interconnects.ip_address",
    "v$cluster_interconnects.is_public",
    "v$cluster_interconnects.source",
    "v$configured_interconnects.name",
    "v$configured_interconnects.ip_address",
    "v$configured_interconnects.is_public",
    "v$configured_interconnects.source",
    "v$active_services.service_id",
    "v$active_services.name",
    "v$active_services.name_hash",
    "v$active_services.network_name",
    "v$active_services.creation_date",
    "v$active_services.blocked",
    "v$database.dbid",
    "v$database.name",
    "v$database.db_unique_name",
    "v$database.created",
    "v$database.open_mode",
    "v$database.log_mode",
    "v$database.database_role",
    "v$database.force_logging",
    "v$database.flashback_on",
    "v$database.cdb",
    "v$instance.parallel",
    "v$instance.archiver",
    "v$instance.logins",
    "v$instance.database_status",
    "v$instance.instance_role",
    "v$instance.active_state",
    "v$instance.blocked",
    "v$services.service_id",
    "v$services.name",
    "v$services.name_hash",
    "v$services.network_name",
    "v$services.creation_date",
    "v$instance.status",
    "v$instance.shutdown_pending",
    "v$sgainfo.resizeable",
    "v$process.pga_freeable_mem",
    "v$session.osuser",
    "v$session.terminal",
    "v$session.failover_type",
    "v$session.failover_method",
    "v$session.failed_over",
    "v$session.resource_consumer_group",
    "v$session.pdml_enabled",
    "v$session.pdml_status",
    "v$session.pddl_status",
    "v$session.pq_status",
    "v$session.current_queue_duration",
    "v$session_longops.username",
    "v$segstat.ts#",
    "v$segment_statistics.subobject_name",
    "v$segment_statistics.tablespace_name",
    "v$segment_statistics.ts#",
    "v$tempseg_usage.username",
    "v$locked_object.oracle_username",
    "v$locked_object.os_user_name",
    "v$locked_object.process",
    "v$transaction.ubafil",
    "v$transaction.status",
    "v$thread.status",
    "v$thread.enabled",
    "v$thread.groups",
    "v$log.bytes",
    "v$log.members",
    "v$log.archived",
    "v$logfile.status",
    "v$logfile.type",
    "v$rollstat.status",
];

/// What only a slow machine or disk fills, what instances of one machine read from each other's
/// memory instead of asking, what a copy for a reader waits for only where structure changes, what
/// needs more redo than this test makes (a write for another's checkpoint, the next log file), what
/// a transaction reads from disk behind its first change, the plan of what takes long, what a
/// sample a second may miss, and what takes a minute.
const SELDOM: [&str; 56] = [
    "v$current_block_server.pin100",
    "v$current_block_server.pin1000",
    "v$current_block_server.pin10000",
    "v$current_block_server.flush0",
    "v$current_block_server.flush10",
    "v$current_block_server.flush100",
    "v$current_block_server.flush1000",
    "v$current_block_server.flush10000",
    "v$current_block_server.write1",
    "v$current_block_server.write10",
    "v$current_block_server.write100",
    "v$current_block_server.write1000",
    "v$current_block_server.write10000",
    "v$instance_cache_transfer.cr_congested",
    "v$instance_cache_transfer.cr_congested_time",
    "v$instance_cache_transfer.current_congested",
    "v$instance_cache_transfer.current_congested_time",
    "v$instance_cache_transfer.cr_busy",
    "v$instance_cache_transfer.cr_busy_time",
    "v$gc_element.writing",
    "v$bh.new",
    "v$cr_block_server.flushes",
    "v$cr_block_server.flushes_queued",
    "v$cr_block_server.flush_max_time",
    "v$cr_block_server.undo_requests",
    "v$cr_block_server.tx_requests",
    "v$thread.sequence#",
    "v$thread.current_group#",
    "v$transaction.cr_get",
    "v$transaction.phy_io",
    "v$process.latchwait",
    "v$latch_parent.misses",
    "v$latch_parent.sleeps",
    "v$latch_parent.spin_gets",
    "v$latch_parent.wait_time",
    "v$ges_resource.on_grant_q",
    "v$waitstat.time",
    "v$filestat.readtim",
    "v$filestat.singleblkrdtim",
    "v$filestat.writetim",
    "v$filestat.avgiotim",
    "v$rollstat.waits",
    "v$rollstat.shrinks",
    "v$sysmetric.group_id",
    "v$session_longops.sql_plan_hash_value",
    "v$sql_plan_statistics.last_disk_reads",
    "v$sql_plan_statistics.disk_reads",
    "v$active_session_history.delta_read_io_requests",
    "v$active_session_history.delta_write_io_requests",
    "v$active_session_history.delta_read_io_bytes",
    "v$active_session_history.delta_write_io_bytes",
    "v$active_session_history.pga_allocated",
    "v$active_session_history.temp_space_allocated",
    "v$undostat.maxquerylen",
    "v$undostat.ssolderrcnt",
    "v$undostat.tuned_undoretention",
];

/// What scripts ask for and there is nothing of; and of which there is nothing with so little redo.
const EMPTY: [&str; 2] = ["v$tempfile.", "v$log_history."];

/// What no simulated instance moves: the sockets of clients, times too short for its clock.
const EVENTS: [&str; 9] = [
    "SQL*Net message from client",
    "SQL*Net message to client",
    "SQL*Net more data from client",
    "SQL*Net more data to client",
    "PL/SQL lock timer",
    "session end",
    "reliable message",
    "direct path read temp",
    "direct path write temp",
];
const STATISTICS: [&str; 16] = [
    "bytes received via SQL*Net from client",
    "bytes sent via SQL*Net to client",
    "SQL*Net roundtrips to/from client",
    "logons current",
    "opened cursors current",
    "session cursor cache count",
    "sorts (disk)",
    "parse time cpu",
    "DB time",
    "CPU used by this session",
    "connection management call elapsed time",
    "gc cr block build time",
    "gc cr block send time",
    "gc current block send time",
    "physical reads direct temporary tablespace",
    "physical writes direct temporary tablespace",
];

/// Bound for a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// What each column has shown.
#[derive(Default)]
struct Seen(BTreeMap<String, BTreeSet<Option<String>>>);

impl Seen {
    /// Reads all views of one instance.
    async fn look(&mut self, client: &Client) {
        // Those of which each instance has rows of its own.
        let local = "select lower(name) from v$fixed_table where name like 'V$%' and 'G' || name \
                     in (select name from v$fixed_table)";
        for view in strings(client, local).await {
            let sql = format!("select * from {view}");
            for message in client.simple_query(&sql).await.expect("a view can be read") {
                match message {
                    SimpleQueryMessage::RowDescription(columns) => {
                        for column in columns.iter() {
                            self.0.entry(format!("{view}.{}", column.name())).or_default();
                        }
                    }
                    SimpleQueryMessage::Row(row) => {
                        for (i, column) in row.columns().iter().enumerate() {
                            let seen = self.0.entry(format!("{view}.{}", column.name()));
                            let seen = seen.or_default();
                            if seen.len() < 2 {
                                seen.insert(row.get(i).map(str::to_owned));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Columns that have always shown the same.
    fn still(&self) -> Vec<&str> {
        let there = |name: &str| !EMPTY.iter().any(|view| name.starts_with(view));
        let all = self.0.iter().filter(|(name, _)| there(name));
        let still = all.filter(|(name, seen)| {
            let seldom = SELDOM.contains(&name.as_str());
            let values = if seldom || CONSTANT.contains(&name.as_str()) { 1 } else { 2 };
            seen.len() < values
        });
        still.map(|(name, _)| name.as_str()).collect()
    }
}

/// Clients that change rows of the same blocks on every instance, and one that has its statements
/// planned and takes values of a sequence, until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    async fn start(db: &Db) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for n in 0..6 {
            let client = connect(db, n % 3 + 1).await;
            let stop = Arc::clone(&stop);
            clients.push(tokio::spawn(async move {
                let update = format!("update t set v = v + 1 where id % 6 = {n}");
                while !stop.load(Ordering::Relaxed) {
                    client.batch_execute(&update).await.expect("an update");
                    client.batch_execute("select sum(v) from t").await.expect("a sum");
                }
            }));
        }
        let planner = connect(db, 1).await;
        let stopped = Arc::clone(&stop);
        clients.push(tokio::spawn(async move {
            for n in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                planner.prepare(&long_to_plan(n)).await.expect("a plan");
                // Two sequences may have taken equally long, to the microsecond.
                planner.batch_execute("select nextval('elsewhere.c')").await.expect("a value");
            }
        }));
        Load { stop, clients }
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("a client of the load");
        }
    }
}

/// A statement of which nobody has a plan, and that takes long to plan: a sample of the sessions,
/// once a second, meets it there.
fn long_to_plan(n: usize) -> String {
    let parts = (0..100).map(|i| format!("select v from t where id = {i}"));
    format!("select {n} as v union all {}", parts.collect::<Vec<_>>().join(" union all "))
}

/// What a session says of itself.
const ABOUT: &str = "call dbms_application_info.set_module('mover', 'waits'); \
                     call dbms_application_info.set_client_info('of this test'); \
                     call dbms_session.set_identifier('anna')";

/// A transaction that holds tables, a row and a lock of the users' own, and some that wait for
/// them, here and on other instances.
struct Locks {
    holder: Client,
    waiters: Vec<(tokio_postgres::CancelToken, JoinHandle<()>)>,
}

impl Locks {
    async fn take(db: &Db) -> Locks {
        let holder = connect(db, 1).await;
        let locks = "begin; lock table t in row share mode; update held set v = 1; \
                     select pg_advisory_lock(7)";
        holder.batch_execute(locks).await.expect("locks");
        let mut waiters = Vec::new();
        for (k, sql) in [
            (1, "update held set v = 2"),
            (1, "lock table held in exclusive mode"),
            (2, "lock table held in exclusive mode"),
            (3, "select pg_advisory_lock(7)"),
            (3, "select waits()"),
        ] {
            let client = connect(db, k).await;
            let cancel = client.cancel_token();
            client.batch_execute(ABOUT).await.expect("a session tells of itself");
            let waiter = tokio::spawn(async move {
                let _ = client.batch_execute(&format!("begin; {sql}")).await;
            });
            waiters.push((cancel, waiter));
        }
        let waiting = "select event from gv$session_wait where event like 'enq: %' \
                       and state = 'WAITING'";
        let deadline = Instant::now() + LIMIT;
        while strings(&holder, waiting).await.len() < waiters.len() {
            assert!(Instant::now() < deadline, "nobody waits for a lock");
        }
        let sampled = "select sample_id from v$active_session_history where current_row# \
                       is not null and blocking_session is not null and module is not null";
        let in_code = "select sample_id from gv$active_session_history \
                       where plsql_object_id is not null";
        for sampled in [sampled, in_code] {
            while strings(&holder, sampled).await.is_empty() {
                assert!(Instant::now() < deadline, "no waiter is sampled");
            }
        }
        Locks { holder, waiters }
    }

    async fn release(self) {
        for (cancel, waiter) in self.waiters {
            cancel.cancel_query(tokio_postgres::NoTls).await.expect("a cancel is taken");
            waiter.await.expect("a waiter");
        }
        self.holder.batch_execute("rollback").await.expect("a rollback");
    }
}

/// Statements for what a client's connection waits for.
async fn talk(client: &Client) {
    let rows = client.simple_query("select repeat('x', 1000) from generate_series(1, 2000)").await;
    assert!(rows.expect("a large result").len() > 2000);
    client.batch_execute("select pg_sleep(0.02)").await.expect("a sleep");
    client.batch_execute("select count(*) from gv$instance").await.expect("a global view");
    client.batch_execute("select v from t order by v desc").await.expect("sorted rows");
    let sink = client.copy_in("copy held from stdin").await.expect("a copy");
    let mut sink = std::pin::pin!(sink);
    sink.send(bytes::Bytes::from_static(b"1\n2\n")).await.expect("rows are taken");
    assert_eq!(sink.finish().await.expect("the copy ends"), 2);
}

/// Statements of which several kinds of sessions have plans, some of them measured, and one whose
/// plan is found out of date when it is executed.
async fn plan_again(client: &Client) {
    let measured = "select /*+ gather_plan_statistics */ v from public.t where id in (1, 2, 3)";
    for path in ["public", "pg_catalog, public"] {
        let sql = format!("set search_path = {path}; select count(*) from public.held; {measured}");
        client.batch_execute(&sql).await.expect("statements of this path");
    }
    client.batch_execute(measured).await.expect("a statement that is measured again");
    let changed = "update /*+ gather_plan_statistics */ public.t set v = v where id = 1";
    client.batch_execute(changed).await.expect("a change that is measured");
    client.batch_execute("create table public.pinned (a int)").await.expect("a table");
    let pinned =
        client.prepare("select count(*) from public.pinned where a = 1").await.expect("a plan");
    client.query(&pinned, &[]).await.expect("a count");
    client.batch_execute("create index on public.pinned (a)").await.expect("an index");
    client.query(&pinned, &[]).await.expect("a count by another plan");
    let kept = "prepare kept as select count(*) from public.held; execute kept; \
                declare kept cursor with hold for select 1";
    client.batch_execute(kept).await.expect("a statement and a cursor that stay");
}

/// Takes values of sequences that have nothing in common, of one more than once.
async fn draw(client: &Client) {
    let other = "create schema if not exists elsewhere; \
                 create sequence if not exists elsewhere.c increment by 2 minvalue 5 \
                 maxvalue 100000 nocache order cycle";
    // Of what its transaction has made an instance keeps no values.
    client.batch_execute(other).await.expect("a sequence");
    let values =
        "select nextval('s'); select nextval('elsewhere.c'); select nextval('elsewhere.c')";
    client.batch_execute(values).await.expect("values of sequences");
}

/// Ends a session and waits for its end.
async fn end_another(db: &Db, client: &Client) {
    let other = connect(db, 1).await;
    let pid = strings(&other, "select pg_backend_pid()").await.remove(0);
    let end = format!("select pg_terminate_backend({pid}, 60000)");
    assert_eq!(strings(client, &end).await, ["t"]);
}

/// Sessions that have sorted and grouped more than fits into memory, and are not done with it.
async fn spill(db: &Db) -> Vec<Client> {
    let rows = "(select repeat('x', 1000) || i as v from generate_series(1, 30000) i) r";
    let mut clients = Vec::new();
    for (sql, n) in [
        (format!("select v from {rows} order by v"), 1),
        (format!("select v, count(*) from {rows} group by v"), 2),
    ] {
        let client = connect(db, 1).await;
        let held = format!("begin; declare c cursor for {sql}; fetch {n} from c");
        client.batch_execute(&held).await.expect("a cursor over temporary files");
        clients.push(client);
    }
    clients
}

/// Sessions tell of operations of their own, one of them of more than a second.
async fn tell_of_operations(db: &Db) {
    let clients = [connect(db, 1).await, connect(db, 1).await];
    for (client, (name, n, sleep)) in
        clients.iter().zip([("load", 1, "dbms_session.sleep(1.2);"), ("check", 2, "")])
    {
        let call = |sofar: i32| {
            format!(
                "dbms_application_info.set_session_longops(r, s, '{name}', {n}, {n}, {sofar}, \
                 {n}0, 'all of {name}', '{name}s');"
            )
        };
        let (first, last) = (call(1), call(n + 1));
        let block = format!("declare r int := -1; s int; begin {first} {sleep} {last} end;");
        client.batch_execute(&block).await.expect("a session tells of an operation");
    }
}

/// Fails unless `sql` gives each of `names`; notes them.
async fn note(client: &Client, kind: &'static str, sql: &str, names: &[&str]) {
    let moved = strings(client, sql).await;
    for name in names {
        assert!(moved.iter().any(|m| m == name), "{kind} {name} has not moved");
    }
    moved::note(names.iter().map(|name| (kind, (*name).to_owned(), true)));
}

/// Nothing is waited for by time: the load goes on until all has been seen.
#[tokio::test(flavor = "multi_thread")]
async fn every_column_of_every_view_moves() {
    let db = Db::init_with(3, "256M", &["pga_aggregate_target=16M"]);
    db.start_all();
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "create table held (v int)");
    db.sql(1, "insert into held values (0)");
    db.sql(1, "insert into t select g, 0 from generate_series(1, 2000) g");
    db.sql(1, "create sequence s");
    let waits = "create function waits() returns int language plpgsql as \
                 'begin update held set v = 3; return 1; end'";
    db.sql(1, waits);
    // What is not in memory is read from disk.
    db.stop();
    db.start_all();
    let clients = [connect(&db, 1).await, connect(&db, 2).await, connect(&db, 3).await];
    let mut seen = Seen::default();
    let locks = Locks::take(&db).await;
    for client in &clients {
        seen.look(client).await;
    }
    // A wait of a client that ends by its time limit.
    let timed = "set lock_timeout = '10ms'; update held set v = 3";
    let refused = clients[0].batch_execute(timed).await.expect_err("the row is locked");
    assert_eq!(refused.code().map(|c| c.code()), Some("55P03"));
    // How long a lock has been held is told in seconds.
    let deadline = Instant::now() + LIMIT;
    while seen.still().contains(&"v$lock.ctime") {
        assert!(Instant::now() < deadline, "no lock grows old");
        seen.look(&clients[0]).await;
    }
    locks.release().await;
    // Copies for the others have much to take back: it takes long enough to be seen.
    let writer = connect(&db, 1).await;
    writer.batch_execute("begin; update t set v = v + 1; update t set v = v + 1").await.unwrap();
    for client in &clients[1..] {
        assert_eq!(strings(client, "select sum(v) from t").await, ["0"]);
    }
    writer.batch_execute("commit").await.unwrap();
    talk(&clients[0]).await;
    tell_of_operations(&db).await;
    plan_again(&clients[0]).await;
    draw(&clients[0]).await;
    end_another(&db, &clients[0]).await;
    let spilling = spill(&db).await;
    seen.look(&clients[0]).await;
    drop(spilling);
    // A session that is traced.
    let traced = "alter session set events '10046 trace name context forever, level 28'";
    clients[0].batch_execute(traced).await.unwrap();
    clients[0].batch_execute("alter system set audit_files = 6").await.unwrap();
    seen.look(&clients[0]).await;
    // The audit trail: another user and role, and a statement that is refused.
    let others = "create role mover; set session authorization mover; \
                  reset session authorization";
    clients[0].batch_execute(others).await.unwrap();
    clients[0].batch_execute("drop table nowhere").await.expect_err("it is not there");
    let load = Load::start(&db).await;
    let deadline = Instant::now() + LIMIT;
    while !seen.still().is_empty() {
        assert!(Instant::now() < deadline, "these never move: {:?}", seen.still());
        for client in &clients {
            seen.look(client).await;
        }
    }
    load.stop().await;
    let events = "select event from v$system_event where total_waits > 0";
    note(&clients[0], moved::EVENT, events, &EVENTS).await;
    let statistics = "select name from v$sysstat where coalesce(value_us, value) > 0";
    note(&clients[0], moved::STATISTIC, statistics, &STATISTICS).await;
}
