//! Locks and transactions: who has them, and who waits for them.

use super::registry::{Make, SessionView, views};
use super::{int4, wall};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{NamedRow, Rows, int, text};
use crate::session::Session;
use block::Xid;
use kernel::gcs::{GesMode, Resource};
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::{TmMode, TxStatus};
use observe::{SessionRow, WaitEvent};
use std::collections::BTreeSet;
use std::sync::Arc;

views! {
    "v$lock", Make::Local(locks), "Locks that sessions of this instance hold or wait for. Modes: 0 \
        none, 2 row share (SS), 3 row exclusive (SX), 4 share (S), 5 share row exclusive (SSX), 6 \
        exclusive (X)." {
        sid: Int4, "The session; NULL: of a session outside of transactions, or of none.";
        type: Text, "`TM`: a table; `TX`: a transaction, and with it the rows it has changed; \
            `UL`, `UP`: a lock that users name; `UN`, `AN`: the turns of those who notify or \
            analyze.";
        id1: Int8, "The table; of a transaction its undo segment and slot, `usn<<16 | slot`.";
        id2: Int8, "Of a transaction its sequence number.";
        lmode: Int4, "How the session holds the lock.";
        request: Int4, "How it wants the lock; 0: it waits for nothing.";
        ctime: Int8, "Seconds since it waits, or since its transaction began to change something.";
        block: Int4, "1 if another session of this instance waits for it, 2 if another instance.";
    }
    "v$locked_object", Make::Local(locked_objects), "Tables that transactions of this instance have \
        locked." {
        xidusn: Int4, "The transaction: its undo segment; NULL: it has changed nothing yet.";
        xidslot: Int4, "Its slot there.";
        xidsqn: Int8, "Its sequence number.";
        object_id: Int8, "The table.";
        session_id: Int4, "The session.";
        oracle_username: Text, "Who has logged on there.";
        locked_mode: Int4, "How the table is locked, as in `v$lock`.";
    }
    "v$transaction", Make::Local(transactions), "Transactions of this instance's sessions that have \
        changed something." {
        xidusn: Int4, "Its undo segment.";
        xidslot: Int4, "Its slot there.";
        xidsqn: Int8, "Its sequence number.";
        sid: Int4, "The session.";
        start_date: Timestamptz, "When it began to change something.";
        used_ubytes: Int8, "Bytes of undo that it has written (the field counts blocks).";
    }
    "v$rollstat", Make::Local(rollstat), "Undo segments that this instance answers for." {
        usn: Int4, "Number of the segment.";
        extents: Int8, "Its extents.";
        rssize: Int8, "Its size in bytes.";
        xacts: Int8, "Its transactions that have not ended.";
    }
    "v$enqueue_statistics", Make::Local(enqueue_statistics), "Waits for enqueues, by type and \
        reason." {
        eq_type: Text, "Type of the enqueue.";
        req_reason: Text, "Why it is waited for.";
        total_wait_no: Int8, "Waits.";
        cum_wait_time: Int8, "Milliseconds waited.";
        event_no: Int4, "The wait event.";
        req_description: Text, "What a session waits for.";
    }
    "dba_waiters", Make::Session(SessionView::Waiters), "Sessions that wait for a lock, with those \
        that hold it, on all instances." {
        waiting_session: Int4, "Who waits.";
        holding_session: Int4, "Who holds the lock.";
        lock_type: Text, "As in `v$lock`.";
        mode_held: Int4, "As `lmode` in `v$lock`.";
        mode_requested: Int4, "As `request` in `v$lock`.";
        lock_id1: Int8, "As in `v$lock`.";
        lock_id2: Int8, "As in `v$lock`.";
    }
    "dba_blockers", Make::Session(SessionView::Blockers), "Sessions that others wait for, and that \
        wait for no lock themselves, on all instances." {
        holding_session: Int4, "The session.";
    }
}

fn tm_number(mode: TmMode) -> i32 {
    mode as i32
}

/// The lock of a transaction as `v$lock` names it.
fn tx_ids(xid: Xid) -> [Value; 2] {
    [int(u64::from(xid.usn) << 16 | u64::from(xid.slot)), int(xid.seq)]
}

/// The sessions of an instance, and what they work as.
struct Known<'a> {
    instance: &'a Instance,
    sessions: Vec<SessionRow>,
}

impl<'a> Known<'a> {
    fn of(instance: &'a Instance) -> Known<'a> {
        Known { instance, sessions: instance.observer.sessions() }
    }

    /// Who works as the transaction or holds locks under the number.
    fn session(&self, number: u64) -> Option<&SessionRow> {
        let transaction = self.instance.core.waits.transaction_of(number);
        self.sessions.iter().find(|s| s.working.transaction == transaction)
    }

    /// The transaction of a session, if it has changed something and not ended.
    fn xid(&self, session: &SessionRow) -> Option<Xid> {
        let xid = Xid::from_u64(session.working.xid);
        let status = self.instance.core.local_status(xid).filter(|_| !xid.is_none());
        matches!(status, Some(TxStatus::Active | TxStatus::Committing(_))).then_some(xid)
    }

    /// Seconds since a session waits, or has changed something.
    fn seconds(&self, session: Option<&SessionRow>, waits: bool) -> Value {
        let Some(session) = session else { return Value::Null };
        if waits {
            return int(session.wait.wait_us / 1_000_000);
        }
        if self.xid(session).is_none() {
            return Value::Null;
        }
        let now = self.instance.observer.env().wall_us();
        int((now - session.working.since_wall_us).max(0) / 1_000_000)
    }
}

fn sid_of(session: Option<&SessionRow>) -> Value {
    session.map_or(Value::Null, |s| int4(s.sid))
}

fn locks(instance: &Arc<Instance>, rows: &mut Rows) {
    let known = Known::of(instance);
    table_locks(&known, rows);
    transaction_locks(&known, rows);
}

fn table_locks(known: &Known<'_>, rows: &mut Rows) {
    let core = &known.instance.core;
    let all = core.table_locks.rows();
    for row in &all {
        let session = known.session(row.transaction);
        let stands_in_way = |held: TmMode| {
            let waits = |wanted: TmMode| !held.compatible(wanted);
            all.iter().any(|o| o.resource == row.resource && o.wanted.is_some_and(waits))
        };
        let is_revoked = |held: TmMode| {
            core.table_locks.revoking(row.resource).is_some_and(|r| !held.ges().compatible(r))
        };
        let block = match row.held {
            Some(held) if stands_in_way(held) => 1,
            Some(held) if is_revoked(held) => 2,
            _ => 0,
        };
        let Resource { kind, id1, id2 } = row.resource;
        rows.push(vec![
            sid_of(session),
            text(kind.map(char::from).iter().collect::<String>()),
            int(id1),
            int(id2),
            int4(row.held.map_or(0, tm_number)),
            int4(row.wanted.map_or(0, tm_number)),
            known.seconds(session, row.wanted.is_some()),
            int4(block),
        ]);
    }
}

fn transaction_locks(known: &Known<'_>, rows: &mut Rows) {
    let waits = known.instance.core.waits.all();
    for session in &known.sessions {
        let Some(xid) = known.xid(session) else { continue };
        let block = i32::from(waits.iter().any(|wait| wait.any_of.contains(&xid)));
        let [id1, id2] = tx_ids(xid);
        let since = known.seconds(Some(session), false);
        rows.push(vec![
            int4(session.sid),
            text("TX"),
            id1,
            id2,
            int4(6),
            int4(0),
            since,
            int4(block),
        ]);
    }
    for wait in &waits {
        let session = known.session(wait.id);
        let for_entry = session.is_some_and(|s| s.wait.event == Some(WaitEvent::EnqTxAllocateItl));
        for &xid in &wait.any_of {
            let [id1, id2] = tx_ids(xid);
            rows.push(vec![
                sid_of(session),
                text("TX"),
                id1,
                id2,
                int4(0),
                int4(if for_entry { 4 } else { 6 }),
                known.seconds(session, true),
                int4(0),
            ]);
        }
    }
}

/// The transaction in three columns.
fn xid_columns(xid: Option<Xid>) -> [Value; 3] {
    xid.map_or([Value::Null, Value::Null, Value::Null], |xid| {
        [int4(xid.usn), int4(xid.slot), int(xid.seq)]
    })
}

fn locked_objects(instance: &Arc<Instance>, rows: &mut Rows) {
    let known = Known::of(instance);
    for row in instance.core.table_locks.rows() {
        let Some(held) = row.held.filter(|_| row.resource.kind == *b"TM") else { continue };
        let session = known.session(row.transaction);
        let mut values = xid_columns(session.and_then(|s| known.xid(s))).to_vec();
        values.extend([
            int(row.resource.id1),
            sid_of(session),
            session.map_or(Value::Null, |s| text(&*s.about.username)),
            int4(tm_number(held)),
        ]);
        rows.push(values);
    }
}

fn transactions(instance: &Arc<Instance>, rows: &mut Rows) {
    let known = Known::of(instance);
    for session in &known.sessions {
        let Some(xid) = known.xid(session) else { continue };
        let mut values = xid_columns(Some(xid)).to_vec();
        values.extend([
            int4(session.sid),
            wall(session.working.since_wall_us),
            int(session.working.undo_bytes),
        ]);
        rows.push(values);
    }
}

fn rollstat(instance: &Arc<Instance>, rows: &mut Rows) {
    for segment in instance.core.all_segments() {
        let report = segment.report();
        rows.push(vec![
            int4(report.usn),
            int(report.extents),
            int(report.blocks * block::BLOCK_BYTES as u64),
            int(report.active),
        ]);
    }
}

fn enqueue_statistics(instance: &Arc<Instance>, rows: &mut Rows) {
    for of in instance.observer.system_events() {
        let name = of.event.name().strip_prefix("enq: ").and_then(|name| name.split_once(" - "));
        let Some((kind, reason)) = name else { continue };
        rows.push(vec![
            text(kind),
            text(reason),
            int(of.all.waits),
            int(of.all.time_us / 1000),
            int4(of.event.number()),
            text(of.event.doc()),
        ]);
    }
}

/// A row of `gv$lock`, as far as it takes to see who waits for whom.
struct Lock {
    sid: Value,
    name: [Value; 3],
    held: i64,
    wanted: i64,
}

impl Lock {
    fn of(row: NamedRow<'_>) -> Lock {
        let number = |column: &str| match row.get(column) {
            Value::Int4(n) => i64::from(n),
            _ => 0,
        };
        Lock {
            sid: row.get("sid"),
            name: [row.get("type"), row.get("id1"), row.get("id2")],
            held: number("lmode"),
            wanted: number("request"),
        }
    }

    fn excludes(&self, other: &Lock) -> bool {
        let mode = |number: i64| GesMode::ALL.into_iter().find(|m| i64::from(m.number()) == number);
        let (held, wanted) = (mode(self.held), mode(other.wanted));
        let clash = held.zip(wanted).is_some_and(|(held, wanted)| !held.compatible(wanted));
        clash && self.name == other.name && self.sid != other.sid
    }
}

impl Session {
    async fn all_locks(&mut self) -> Result<Vec<Lock>> {
        let all = self.rows_of_all("v$lock").await?;
        Ok(all.iter().flat_map(Rows::named).map(Lock::of).collect())
    }

    pub(super) async fn waiters(&mut self, rows: &mut Rows) -> Result<()> {
        let all = self.all_locks().await?;
        for waiter in all.iter().filter(|lock| lock.wanted > 0) {
            for holder in all.iter().filter(|lock| lock.excludes(waiter)) {
                let [kind, id1, id2] = waiter.name.clone();
                rows.push(vec![
                    waiter.sid.clone(),
                    holder.sid.clone(),
                    kind,
                    int4(holder.held),
                    int4(waiter.wanted),
                    id1,
                    id2,
                ]);
            }
        }
        Ok(())
    }

    pub(super) async fn blockers(&mut self, rows: &mut Rows) -> Result<()> {
        let all = self.all_locks().await?;
        let number = |sid: &Value| match sid {
            Value::Int4(n) => Some(*n),
            _ => None,
        };
        let waiting: BTreeSet<i32> =
            all.iter().filter(|lock| lock.wanted > 0).filter_map(|l| number(&l.sid)).collect();
        let is_waited_for =
            |holder: &&Lock| all.iter().any(|waiter| waiter.wanted > 0 && holder.excludes(waiter));
        let blockers: BTreeSet<i32> =
            all.iter().filter(is_waited_for).filter_map(|l| number(&l.sid)).collect();
        blockers.difference(&waiting).for_each(|sid| rows.push(vec![Value::Int4(*sid)]));
        Ok(())
    }
}
