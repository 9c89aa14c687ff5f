//! What a session runs: its statement, its transaction, the row it waits for.
//!
//! What it promises: all of it is written by the session's own task, with plain stores, and read by
//! whoever wants to know. What it must never do: make the session wait for a reader.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use env::Micros;

use crate::generation::Generation;
use crate::held::Held;
use crate::statements::SqlId;

/// The statement at hand, as others may read it at any time.
#[derive(Default)]
pub(crate) struct Running {
    /// Of the cells that say which statement runs, and since when.
    generation: Generation,
    /// [`SqlId::number`]; 0: none.
    sql: AtomicU64,
    /// One more than the number of its child; 0: not known.
    child: AtomicU32,
    /// Number of the call on it; 0: it is not being executed.
    exec: AtomicU64,
    /// The client's own statement, and its child.
    top: AtomicU64,
    top_child: AtomicU32,
    /// The client's statement before, with the same.
    previous: AtomicU64,
    previous_child: AtomicU32,
    previous_exec: AtomicU64,
    previous_since_us: AtomicU64,
    /// The routine whose code runs, and the outermost of those around it; 0: none.
    code: AtomicU32,
    entry_code: AtomicU32,
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
    pub held: Held,
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
    /// Which of its children; `None`: it is being parsed.
    pub child: Option<u32>,
    /// Number of the call on it among all that there were on this child; `None`: it is being
    /// parsed.
    pub exec: Option<u64>,
    /// The client's statement that it belongs to, and its child.
    pub top: Option<SqlId>,
    pub top_child: Option<u32>,
    /// The client's statement before that one, with the same, and when its last call began.
    pub previous: Option<SqlId>,
    pub previous_child: Option<u32>,
    pub previous_exec: Option<u64>,
    pub previous_since: Micros,
    /// Number of the routine whose code runs, and of the outermost around it.
    pub code: Option<u32>,
    pub entry_code: Option<u32>,
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

/// A statement that begins.
#[derive(Clone, Copy)]
pub(crate) struct Entered {
    pub id: SqlId,
    /// Its child, and the number of the call on it; `None`: it is being parsed.
    pub call: Option<(u32, u64)>,
    pub plan_hash: u32,
}

/// What ran before; put back when what runs inside it ends.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outer {
    sql: u64,
    child: u32,
    exec: u64,
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
    pub fn enter(&self, entered: Entered, now: Micros) -> Outer {
        let Entered { id, call, plan_hash } = entered;
        let (child, exec) = call.map_or((0, 0), |(child, exec)| (child.saturating_add(1), exec));
        let outer = Outer {
            sql: self.sql.load(Relaxed),
            child: self.child.load(Relaxed),
            exec: self.exec.load(Relaxed),
            plan_hash: self.plan_hash.load(Relaxed),
            since_us: self.since_us.load(Relaxed),
        };
        self.generation.write(|| {
            if outer.sql == 0 {
                self.top.store(id.number(), Relaxed);
                self.top_child.store(child, Relaxed);
            }
            self.sql.store(id.number(), Relaxed);
            self.child.store(child, Relaxed);
            self.exec.store(exec, Relaxed);
            self.plan_hash.store(plan_hash, Relaxed);
            self.since_us.store(now.0, Relaxed);
        });
        outer
    }

    /// It ends. What has been executed as the client's own is the one before from now on.
    pub fn leave(&self, id: SqlId, outer: Outer) {
        self.generation.write(|| {
            if outer.sql == 0 {
                self.previous.store(id.number(), Relaxed);
                self.previous_child.store(self.child.load(Relaxed), Relaxed);
                self.previous_exec.store(self.exec.load(Relaxed), Relaxed);
                self.previous_since_us.store(self.since_us.load(Relaxed), Relaxed);
            }
            self.restore(outer);
        });
    }

    /// It ends without having been executed.
    pub fn put_back(&self, outer: Outer) {
        self.generation.write(|| self.restore(outer));
    }

    fn restore(&self, outer: Outer) {
        self.sql.store(outer.sql, Relaxed);
        self.child.store(outer.child, Relaxed);
        self.exec.store(outer.exec, Relaxed);
        self.plan_hash.store(outer.plan_hash, Relaxed);
        self.since_us.store(outer.since_us, Relaxed);
        if outer.sql == 0 {
            self.top.store(0, Relaxed);
        }
    }

    /// Child of the statement that runs, and number of the call on it; `None`: it is being parsed.
    pub fn call(&self) -> Option<(u32, u64)> {
        let child = self.child.load(Relaxed).checked_sub(1)?;
        Some((child, self.exec.load(Relaxed)))
    }

    /// The code of this routine begins; gives the number of the one around it, 0: there is none.
    pub fn enter_code(&self, obj: u32) -> u32 {
        let outer = self.code.load(Relaxed);
        if outer == 0 {
            self.entry_code.store(obj, Relaxed);
        }
        self.code.store(obj, Relaxed);
        outer
    }

    /// It ends.
    pub fn leave_code(&self, outer: u32) {
        self.code.store(outer, Relaxed);
        if outer == 0 {
            self.entry_code.store(0, Relaxed);
        }
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
        self.generation.write(|| {
            self.sql.store(0, Relaxed);
            self.top.store(0, Relaxed);
        });
        self.parsing.store(false, Relaxed);
        self.leave_code(0);
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
        self.generation.consistent(|| self.view_once())
    }

    fn view_once(&self) -> RunningView {
        let id = |cell: &AtomicU64| SqlId::from_number(cell.load(Relaxed));
        let child = |cell: &AtomicU32| cell.load(Relaxed).checked_sub(1);
        let exec = |cell: &AtomicU64| Some(cell.load(Relaxed)).filter(|number| *number > 0);
        let code = |cell: &AtomicU32| Some(cell.load(Relaxed)).filter(|obj| *obj > 0);
        let (sql, top, previous) = (id(&self.sql), id(&self.top), id(&self.previous));
        RunningView {
            sql,
            child: sql.and_then(|_| child(&self.child)),
            exec: sql.and_then(|_| exec(&self.exec)),
            top,
            top_child: top.and_then(|_| child(&self.top_child)),
            previous,
            previous_child: previous.and_then(|_| child(&self.previous_child)),
            previous_exec: previous.and_then(|_| exec(&self.previous_exec)),
            previous_since: Micros(self.previous_since_us.load(Relaxed)),
            code: code(&self.code),
            entry_code: code(&self.entry_code),
            plan_hash: self.plan_hash.load(Relaxed),
            since: Micros(self.since_us.load(Relaxed)),
            parsing: self.parsing.load(Relaxed),
            waited_for: self.waited_for(),
            lock_since: Some(Micros(self.row.since_us.load(Relaxed))).filter(|at| at.0 > 0),
        }
    }
}
