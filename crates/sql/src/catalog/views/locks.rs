//! Locks and transactions: who has them, and who waits for them.

use super::registry::{Column, Make, SessionView, columns, views};
use super::session::{process, process_address, transaction_address};
use super::{int4, wall};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{NamedRow, Rows, int, opt_text, text};
use crate::session::Session;
use block::Xid;
use kernel::gcs::{GesMode, Resource};
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::{TmMode, TxStatus};
use observe::{EnqueueKind, EnqueueTotals, SessionRow, WaitEvent};
use query::datetime::{US_PER_DAY, US_PER_SECOND, civil};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LOCKS: &[Column] = columns! {
    session_id: Int4, "The session, as `v$lock.sid` has it.";
    lock_type: Text, "`Transaction`, `DML` (a table), `PL/SQL User Lock`; else the letters of \
        `v$lock.type`.";
    mode_held: Text, "How it is held: `None`, `Row-S (SS)`, `Row-X (SX)`, `Share`, `S/Row-X \
        (SSX)` or `Exclusive`.";
    mode_requested: Text, "How it is wanted, in the same words.";
    lock_id1: Text, "As `v$lock.id1`.";
    lock_id2: Text, "As `v$lock.id2`.";
    last_convert: Int8, "As `v$lock.ctime`.";
    blocking_others: Text, "`Blocking`: a session of the same instance waits for it; `Global`: one \
        of another waits or might; else `Not Blocking`.";
};

views! {
    "v$lock", Make::Local(locks), "Locks that sessions of this instance hold or wait for. Modes: 0 \
        none, 2 row share (SS), 3 row exclusive (SX), 4 share (S), 5 share row exclusive (SSX), 6 \
        exclusive (X)." {
        addr: Text, "Of `TX`: the transaction, as `v$transaction.addr` has it; else as `kaddr`.";
        kaddr: Text, "The lock, as `v$session.lockwait` has it of who waits for it.";
        sid: Int4, "The session; NULL: of a session outside of transactions, or of none.";
        type: Text, "`TM`: a table; `TX`: a transaction, and with it the rows it has changed; \
            `UL`, `UP`: a lock that users name; `UN`, `AN`: the turns of those who notify or \
            analyze; `SQ`: an instance's turn at a sequence without a cache, `SV`: at an ordered \
            one with a cache.";
        id1: Int8, "The table or sequence; of a transaction its undo segment and slot, \
            `usn<<16 | slot`.";
        id2: Int8, "Of a transaction its sequence number.";
        lmode: Int4, "How the session holds the lock.";
        request: Int4, "How it wants the lock; 0: it waits for nothing.";
        ctime: Int8, "Seconds since it waits, or since its transaction began to change something.";
        block: Int4, "1 if another session of this instance waits for it; 2 if one of another \
            instance waits, or, of `TM` and `TX` while several instances are open, might wait.";
    }
    "v$locked_object", Make::Local(locked_objects), "Tables that transactions of this instance have \
        locked." {
        xidusn: Int4, "The transaction: its undo segment; NULL: it has changed nothing yet.";
        xidslot: Int4, "Its slot there.";
        xidsqn: Int8, "Its sequence number.";
        object_id: Int8, "The table.";
        session_id: Int4, "The session.";
        oracle_username: Text, "Who has logged on there.";
        os_user_name: Text, "Whom its client's process runs as, as `v$session.osuser` has it.";
        process: Text, "The number of that process, as `v$session.process` has it.";
        locked_mode: Int4, "How the table is locked, as in `v$lock`.";
    }
    "v$transaction", Make::Local(transactions), "Transactions of this instance's sessions that have \
        changed something." {
        addr: Text, "Its name, as `v$session.taddr` has it.";
        xidusn: Int4, "Its undo segment.";
        xidslot: Int4, "Its slot there.";
        xidsqn: Int8, "Its sequence number.";
        xid: Text, "These three, as `v$active_session_history.xid` has them.";
        ubafil: Int4, "File of its last undo record.";
        ubablk: Int8, "Block of that.";
        ubarec: Int4, "Number of that in its block.";
        sid: Int4, "The session.";
        ses_addr: Text, "The session, as `v$session.saddr` has it.";
        status: Text, "`ACTIVE`: it has not ended.";
        start_time: Text, "When it began to change something, as `MM/DD/YY HH24:MI:SS` in the time \
            zone of the session that asks.";
        start_date: Timestamptz, "The same.";
        used_ublk: Int8, "Blocks that its undo would fill.";
        used_urec: Int8, "Undo records that it has written, those taken back among them.";
        log_io: Int8, "Blocks that its session has visited since, in their newest version.";
        phy_io: Int8, "Blocks that its session has read from disk since.";
        cr_get: Int8, "Blocks that its session has visited since, as of a snapshot.";
        used_ubytes: Int8, "Bytes of undo that it has written (the field counts blocks).";
    }
    "v$enqueue_statistics", Make::Local(enqueue_statistics), "Requests and waits for enqueues, by \
        type and reason; `enqueue requests`, `enqueue conversions` and `enqueue waits` of \
        `v$sysstat` are their sums. A request that lasts may have several waits." {
        eq_name: Text, "The field's name of the enqueue.";
        eq_type: Text, "Type of the enqueue.";
        req_reason: Text, "Why it is waited for; `contention` of `TX`: of a transaction that has \
            begun to change something and takes its own, for which nobody waits.";
        "total_req#": Int8, "Requests, and conversions: requests for more of what was there \
            already. Who has it in that mode, as a transaction that changes a second row of a \
            table, makes none.";
        "total_wait#": Int8, "Waits.";
        "succ_req#": Int8, "Those that were granted, at once or in the end.";
        "failed_req#": Int8, "Those that were given up: refused at once, by a time limit, by a \
            deadlock, or on demand.";
        cum_wait_time: Int8, "Milliseconds waited.";
        req_description: Text, "What a session waits for.";
        "event#": Int4, "The wait event; NULL: there is none.";
    }
    "v$enqueue_stat", Make::Local(enqueue_stat), "The same, by type." {
        eq_type: Text, "Type of the enqueue.";
        "total_req#": Int8, "Requests and conversions.";
        "total_wait#": Int8, "Waits.";
        "succ_req#": Int8, "Those requests and conversions that were granted.";
        "failed_req#": Int8, "Those that were given up.";
        cum_wait_time: Int8, "Milliseconds waited.";
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
    "dba_lock", Make::Session(SessionView::Locks), "Locks of all instances in words: `gv$lock`." {
    } + LOCKS {}
    "dba_locks", Make::Session(SessionView::Locks), "The same." {} + LOCKS {}
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

/// The name of a lock where the field shows an address: its type and numbers, in hexadecimal.
fn lock_address(kind: [u8; 2], id1: u64, id2: u64) -> Value {
    text(format!("{:04X}{id1:08X}{id2:012X}", u16::from_be_bytes(kind)))
}

fn tx_address(xid: Xid) -> Value {
    lock_address(*b"TX", u64::from(xid.usn) << 16 | u64::from(xid.slot), u64::from(xid.seq))
}

/// The lock that a session waits for, as [`lock_address`] has it.
pub(super) fn lock_wait(session: &SessionRow) -> Value {
    let wait = &session.wait;
    let of_lock = wait.event.filter(|event| wait.waiting && enqueue_of(*event).is_some());
    of_lock.map_or(Value::Null, |_| {
        let [.., high, low, _, _] = wait.p[0].to_be_bytes();
        lock_address([high, low], wait.p[1], wait.p[2])
    })
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

    /// Whether sessions of other instances might wait for a table or a transaction.
    fn is_global(&self) -> bool {
        self.instance.node.view().members.len() > 1
    }

    /// Who works as the transaction or holds locks under the number.
    fn session(&self, number: u64) -> Option<&SessionRow> {
        let transaction = self.instance.core.waits.transaction_of(number);
        self.sessions.iter().find(|s| s.working.transaction == transaction)
    }

    fn xid(&self, session: &SessionRow) -> Option<Xid> {
        open_xid(self.instance, session)
    }

    /// Seconds since a session waits, or has changed something.
    fn seconds(&self, session: Option<&SessionRow>, waits: bool) -> Value {
        let Some(session) = session else { return Value::Null };
        if waits {
            let since = session.running.lock_since;
            let us =
                since.map_or(session.wait.wait_us, |at| self.instance.core.env.now().since(at));
            return int(us / 1_000_000);
        }
        if self.xid(session).is_none() {
            return Value::Null;
        }
        let now = self.instance.observer.env().wall_us();
        int((now - session.working.since_wall_us).max(0) / 1_000_000)
    }
}

/// The transaction of a session, if it has changed something and not ended.
pub(super) fn open_xid(instance: &Instance, session: &SessionRow) -> Option<Xid> {
    let xid = Xid::from_u64(session.working.xid);
    let status = instance.core.local_status(xid).filter(|_| !xid.is_none());
    matches!(status, Some(TxStatus::Active | TxStatus::Committing(_))).then_some(xid)
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
            Some(_) if row.resource.kind == *b"TM" && known.is_global() => 2,
            _ => 0,
        };
        let Resource { kind, id1, id2 } = row.resource;
        let address = lock_address(kind, u64::from(id1), u64::from(id2));
        rows.push(vec![
            address.clone(),
            address,
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
        let block = match waits.iter().any(|wait| wait.any_of.contains(&xid)) {
            true => 1,
            false if known.is_global() => 2,
            false => 0,
        };
        let [id1, id2] = tx_ids(xid);
        let since = known.seconds(Some(session), false);
        rows.push(vec![
            transaction_address(xid),
            tx_address(xid),
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
        // Rows are waited for in X, what an index says of them in S.
        let wanted = session.and_then(|s| s.wait.tx_mode()).unwrap_or(6);
        for &xid in &wait.any_of {
            let [id1, id2] = tx_ids(xid);
            rows.push(vec![
                transaction_address(xid),
                tx_address(xid),
                sid_of(session),
                text("TX"),
                id1,
                id2,
                int4(0),
                int4(wanted),
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
            session.map_or(Value::Null, |s| {
                opt_text(Some(&*s.about.os_user).filter(|u| !u.is_empty()))
            }),
            session.map_or(Value::Null, |s| process(instance, s)),
            int4(tm_number(held)),
        ]);
        rows.push(values);
    }
}

fn transactions(instance: &Arc<Instance>, rows: &mut Rows) {
    let known = Known::of(instance);
    for session in &known.sessions {
        let Some(xid) = known.xid(session) else { continue };
        let did = &session.working;
        let mut values = vec![transaction_address(xid)];
        values.extend(xid_columns(Some(xid)));
        values.push(text(xid.to_string()));
        values.extend(did.last_undo.map_or([Value::Null, Value::Null, Value::Null], |undo| {
            [int4(undo.0), int(undo.1), int4(undo.2)]
        }));
        values.extend([
            int4(session.sid),
            process_address(session.sid),
            text("ACTIVE"),
            // In the asker's time zone, who fills it in.
            Value::Null,
            wall(did.since_wall_us),
            int(did.undo_bytes.div_ceil(block::BLOCK_BYTES as u64)),
            int(did.undo_records),
            int(did.work.current_gets),
            int(did.work.disk_reads),
            int(did.work.consistent_gets),
            int(did.undo_bytes),
        ]);
        rows.push(values);
    }
}

/// A moment, in µs since 2000 by a local clock, as the field writes times where it has texts for
/// them.
fn field_time(local_us: i64) -> String {
    let days = i32::try_from(local_us.div_euclid(US_PER_DAY)).unwrap_or(i32::MAX);
    let (year, month, day) = civil(days);
    let second = local_us.rem_euclid(US_PER_DAY) / US_PER_SECOND;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let year = year.rem_euclid(100);
    format!("{month:02}/{day:02}/{year:02} {hour:02}:{minute:02}:{second:02}")
}

/// The field's names of the enqueues that have wait events.
fn enqueue_name(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "TX" => "Transaction",
        "TM" => "DML",
        "UL" => "User-defined",
        "HW" => "Segment High Water Mark",
        "SQ" => "Sequence Cache",
        "SV" => "Sequence Ordering",
        "TS" => "Temporary Segment",
        _ => return None,
    })
}

/// Type of the enqueue that an event is a wait for, and what for.
fn enqueue_of(event: WaitEvent) -> Option<(&'static str, &'static str)> {
    // The one that has the name of a call from old.
    if event == WaitEvent::DfsLockHandle {
        return Some(("SV", "contention"));
    }
    event.name().strip_prefix("enq: ")?.split_once(" - ")
}

/// What has been asked for and waited for, of one kind.
struct Enqueue {
    kind: &'static str,
    reason: &'static str,
    event: Option<WaitEvent>,
    asked: EnqueueTotals,
    waits: u64,
    wait_us: u64,
}

fn enqueues(instance: &Instance) -> Vec<Enqueue> {
    let (asked, events) = (instance.observer.enqueues(), instance.observer.system_events());
    let mut all: Vec<Enqueue> = Vec::new();
    for counted in EnqueueKind::ALL {
        let (event, asked) = (counted.event(), asked.of(counted));
        let waited = events.iter().find(|of| event == Some(of.event));
        if asked.requests == 0 && waited.is_none() {
            continue;
        }
        let (kind, reason) = event.and_then(enqueue_of).unwrap_or(("TX", "contention"));
        let (waits, wait_us) = waited.map_or((0, 0), |of| (of.all.waits, of.all.time_us));
        all.push(Enqueue { kind, reason, event, asked, waits, wait_us });
    }
    all
}

/// Requests and conversions made, granted and given up.
fn requests(asked: EnqueueTotals) -> [Value; 3] {
    [asked.requests + asked.conversions, asked.granted, asked.failed].map(int)
}

fn enqueue_statistics(instance: &Arc<Instance>, rows: &mut Rows) {
    for of in enqueues(instance) {
        let [made, granted, failed] = requests(of.asked);
        rows.push(vec![
            opt_text(enqueue_name(of.kind)),
            text(of.kind),
            text(of.reason),
            made,
            int(of.waits),
            granted,
            failed,
            int(of.wait_us / 1000),
            text(of.event.map_or(OWN_TRANSACTION, WaitEvent::doc)),
            of.event.map_or(Value::Null, |event| int4(event.number())),
        ]);
    }
}

/// What the request of a transaction that begins is.
const OWN_TRANSACTION: &str = "A transaction has begun to change something.";

fn enqueue_stat(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut types: BTreeMap<&str, (EnqueueTotals, u64, u64)> = BTreeMap::new();
    for of in enqueues(instance) {
        let (asked, waits, us) = types.entry(of.kind).or_default();
        asked.add(&of.asked);
        *waits += of.waits;
        *us += of.wait_us;
    }
    for (kind, (asked, waits, us)) in types {
        let [made, granted, failed] = requests(asked);
        rows.push(vec![text(kind), made, int(waits), granted, failed, int(us / 1000)]);
    }
}

/// The field's words for a mode.
fn mode_words(mode: i64) -> &'static str {
    match mode {
        0 => "None",
        1 => "Null",
        2 => "Row-S (SS)",
        3 => "Row-X (SX)",
        4 => "Share",
        5 => "S/Row-X (SSX)",
        _ => "Exclusive",
    }
}

/// The field's words for a type.
fn type_words(kind: &str) -> &str {
    match kind {
        "TX" => "Transaction",
        "TM" => "DML",
        "UL" => "PL/SQL User Lock",
        other => other,
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

    /// Fills in `v$transaction.start_time`, in the session's time zone.
    pub(in crate::catalog) fn tell_start_times(&self, rows: &mut Rows) {
        rows.fill("start_time", |row| match row.get("start_date") {
            Value::Timestamptz(us) => text(field_time(self.settings.zone.local(us))),
            _ => Value::Null,
        });
    }

    pub(super) async fn locks_in_words(&mut self, rows: &mut Rows) -> Result<()> {
        let words = |value: Value, say: fn(i64) -> &'static str| match value {
            Value::Int4(n) => text(say(i64::from(n))),
            other => other,
        };
        let plain = |value: Value| match value {
            Value::Int8(n) => text(n.to_string()),
            other => other,
        };
        let all = self.rows_of_all("v$lock").await?;
        for row in all.iter().flat_map(Rows::named) {
            rows.push(vec![
                row.get("sid"),
                text(type_words(row.text("type"))),
                words(row.get("lmode"), mode_words),
                words(row.get("request"), mode_words),
                plain(row.get("id1")),
                plain(row.get("id2")),
                row.get("ctime"),
                words(row.get("block"), |block| match block {
                    0 => "Not Blocking",
                    1 => "Blocking",
                    _ => "Global",
                }),
            ]);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_enqueue_that_is_waited_for_has_a_name() {
        for (kind, _) in WaitEvent::ALL.iter().filter_map(|event| enqueue_of(*event)) {
            assert!(enqueue_name(kind).is_some(), "{kind} has none");
        }
    }
}
