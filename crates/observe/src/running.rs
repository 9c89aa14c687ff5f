//! What a session runs: its statement, its transaction, the row it waits for.
//!
//! What it promises: all of it is written by the session's own task, with plain stores, and read by
//! whoever wants to know. What it must never do: make the session wait for a reader.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use env::Micros;

use crate::statements::SqlId;

/// The statement at hand, as others may read it at any time.
#[derive(Default)]
pub(crate) struct Running {
    /// [`SqlId::number`]; 0: none.
    sql: AtomicU64,
    /// The client's own statement.
    top: AtomicU64,
    /// The client's statement before.
    previous: AtomicU64,
    plan_hash: AtomicU32,
    since_us: AtomicU64,
    parsing: AtomicBool,
    /// CPU time of the session's thread when it was asked last, and calls since then.
    cpu_us: AtomicU64,
    calls: AtomicU32,
    transaction: AtomicU64,
    xid: AtomicU64,
    lock_number: AtomicU64,
    row: RowWaited,
}

#[derive(Default)]
struct RowWaited {
    /// Since when a lock is waited for; 0: none is.
    since_us: AtomicU64,
    obj: AtomicU32,
    file: AtomicU32,
    block: AtomicU32,
    /// One more than the row's number; 0: not known.
    row: AtomicU32,
}

/// A row, a block or an object that a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitedFor {
    pub obj: u32,
    /// File and block; `None`: the whole object.
    pub block: Option<(u16, u32)>,
    /// Number of the row in its block.
    pub row: Option<u16>,
}

/// See [`Running`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RunningView {
    /// The statement that is parsed or executed now, be it one inside another.
    pub sql: Option<SqlId>,
    /// The client's statement that it belongs to.
    pub top: Option<SqlId>,
    /// The client's statement before that one.
    pub previous: Option<SqlId>,
    /// 0: none.
    pub plan_hash: u32,
    pub since: Micros,
    /// It is being planned.
    pub parsing: bool,
    pub waited_for: Option<WaitedFor>,
    /// Since when it waits for a lock, in whatever parts.
    pub lock_since: Option<Micros>,
}

/// After so many calls the thread's CPU time is asked again.
const CPU_CALLS: u32 = 64;

/// What ran before; put back when what runs inside it ends.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outer {
    sql: u64,
    plan_hash: u32,
    since_us: u64,
}

impl Outer {
    /// Nothing ran: what begins is the client's own.
    pub fn is_none(&self) -> bool {
        self.sql == 0
    }
}

impl Running {
    /// A statement begins: the client's if none runs.
    pub fn enter(&self, id: SqlId, plan_hash: u32, now: Micros) -> Outer {
        let outer = Outer {
            sql: self.sql.load(Relaxed),
            plan_hash: self.plan_hash.load(Relaxed),
            since_us: self.since_us.load(Relaxed),
        };
        if outer.sql == 0 {
            self.top.store(id.number(), Relaxed);
        }
        self.sql.store(id.number(), Relaxed);
        self.plan_hash.store(plan_hash, Relaxed);
        self.since_us.store(now.0, Relaxed);
        outer
    }

    /// It ends.
    pub fn leave(&self, id: SqlId, outer: Outer) {
        self.sql.store(outer.sql, Relaxed);
        self.plan_hash.store(outer.plan_hash, Relaxed);
        self.since_us.store(outer.since_us, Relaxed);
        if outer.sql == 0 {
            self.top.store(0, Relaxed);
            self.previous.store(id.number(), Relaxed);
        }
    }

    pub fn set_previous(&self, previous: Option<SqlId>) {
        self.previous.store(previous.map_or(0, SqlId::number), Relaxed);
    }

    /// Whether the CPU time of the thread is to be asked; counts a call.
    pub fn cpu_is_old(&self) -> bool {
        let calls = self.calls.load(Relaxed);
        self.calls.store(calls + 1, Relaxed);
        calls >= CPU_CALLS
    }

    /// It has been asked; gives it.
    pub fn set_cpu(&self, us: u64) -> u64 {
        self.cpu_us.store(us, Relaxed);
        self.calls.store(0, Relaxed);
        us
    }

    /// What it was when it was asked last.
    pub fn cpu(&self) -> u64 {
        self.cpu_us.load(Relaxed)
    }

    /// Nothing runs, however what ran before has ended.
    pub fn clear(&self) {
        self.sql.store(0, Relaxed);
        self.top.store(0, Relaxed);
        self.parsing.store(false, Relaxed);
    }

    /// Number of the statement that runs; 0: none.
    pub fn sql(&self) -> u64 {
        self.sql.load(Relaxed)
    }

    /// A statement is being planned from now on, or is no more; gives what was so before.
    pub fn set_parsing(&self, parsing: bool) -> bool {
        self.parsing.swap(parsing, Relaxed)
    }

    pub fn set_plan_hash(&self, hash: u32) {
        self.plan_hash.store(hash, Relaxed);
    }

    pub fn set_transaction(&self, id: u64) {
        self.xid.store(0, Relaxed);
        self.transaction.store(id, Relaxed);
    }

    pub fn transaction(&self) -> (u64, u64, u64) {
        let load = |cell: &AtomicU64| cell.load(Relaxed);
        (load(&self.transaction), load(&self.xid), load(&self.lock_number))
    }

    pub fn set_xid(&self, xid: u64) {
        self.xid.store(xid, Relaxed);
    }

    pub fn set_lock_number(&self, number: u64) {
        self.lock_number.store(number, Relaxed);
    }

    pub fn set_waited_for(&self, what: Option<WaitedFor>, now: Micros) {
        let row = &self.row;
        let Some(what) = what else {
            row.since_us.store(0, Relaxed);
            row.obj.store(0, Relaxed);
            return;
        };
        row.since_us.store(now.0.max(1), Relaxed);
        let (file, block) = what.block.unwrap_or_default();
        row.file.store(u32::from(file), Relaxed);
        row.block.store(block, Relaxed);
        row.row.store(what.row.map_or(0, |row| u32::from(row) + 1), Relaxed);
        row.obj.store(what.obj, Relaxed);
    }

    fn waited_for(&self) -> Option<WaitedFor> {
        let row = &self.row;
        let obj = Some(row.obj.load(Relaxed)).filter(|obj| *obj > 0)?;
        let file = u16::try_from(row.file.load(Relaxed)).unwrap_or(u16::MAX);
        let number = row.row.load(Relaxed).checked_sub(1).and_then(|n| u16::try_from(n).ok());
        let block = (file, row.block.load(Relaxed));
        // There is no block 0 of file 0 that holds rows.
        Some(WaitedFor { obj, block: Some(block).filter(|b| *b != (0, 0)), row: number })
    }

    pub fn view(&self) -> RunningView {
        let id = |cell: &AtomicU64| SqlId::from_number(cell.load(Relaxed));
        RunningView {
            sql: id(&self.sql),
            top: id(&self.top),
            previous: id(&self.previous),
            plan_hash: self.plan_hash.load(Relaxed),
            since: Micros(self.since_us.load(Relaxed)),
            parsing: self.parsing.load(Relaxed),
            waited_for: self.waited_for(),
            lock_since: Some(Micros(self.row.since_us.load(Relaxed))).filter(|at| at.0 > 0),
        }
    }
}
