//! The registry of wait events: one declarative table from which the enum, names, classes,
//! parameter labels, view rows and the manual page come.
//!
//! What it promises: a name is unique, every event has a class and a sentence that says what the
//! session waits for. What it must never do: hold an event that no code can raise. The names are
//! the field's, so that its scripts and habits carry over; ours alone are marked in the text.

use std::fmt;

use crate::statements::SqlId;

/// What kind of thing a wait is for. Reports leave [`WaitClass::Idle`] out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitClass {
    Administrative,
    Application,
    Cluster,
    Commit,
    Concurrency,
    Configuration,
    Idle,
    Network,
    Other,
    SystemIo,
    UserIo,
}

impl WaitClass {
    /// The class as the views show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WaitClass::Administrative => "Administrative",
            WaitClass::Application => "Application",
            WaitClass::Cluster => "Cluster",
            WaitClass::Commit => "Commit",
            WaitClass::Concurrency => "Concurrency",
            WaitClass::Configuration => "Configuration",
            WaitClass::Idle => "Idle",
            WaitClass::Network => "Network",
            WaitClass::Other => "Other",
            WaitClass::SystemIo => "System I/O",
            WaitClass::UserIo => "User I/O",
        }
    }

    /// The field's number of the class.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            WaitClass::Other => 0,
            WaitClass::Application => 1,
            WaitClass::Configuration => 2,
            WaitClass::Administrative => 3,
            WaitClass::Concurrency => 4,
            WaitClass::Commit => 5,
            WaitClass::Idle => 6,
            WaitClass::Network => 7,
            WaitClass::UserIo => 8,
            WaitClass::SystemIo => 9,
            WaitClass::Cluster => 11,
        }
    }

    /// The field's identifier of the class.
    #[must_use]
    pub const fn id(self) -> u32 {
        match self {
            WaitClass::Other => 1_893_977_003,
            WaitClass::Application => 4_217_450_380,
            WaitClass::Configuration => 3_290_255_840,
            WaitClass::Administrative => 4_166_625_743,
            WaitClass::Concurrency => 3_875_070_507,
            WaitClass::Commit => 3_386_400_367,
            WaitClass::Idle => 2_723_168_908,
            WaitClass::Network => 2_000_153_315,
            WaitClass::UserIo => 1_740_759_767,
            WaitClass::SystemIo => 4_108_307_767,
            WaitClass::Cluster => 3_871_361_733,
        }
    }

    /// Whether time in this class is somebody's loss: everything but idleness.
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, WaitClass::Idle)
    }
}

impl fmt::Display for WaitClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of the registry.
pub(crate) struct EventInfo {
    pub name: &'static str,
    pub class: WaitClass,
    pub p: [&'static str; 3],
    pub doc: &'static str,
}

macro_rules! wait_events {
    ($($variant:ident: $name:literal, $class:ident, [$p1:literal, $p2:literal, $p3:literal],
       $doc:literal;)*) => {
        /// Everything a session can wait for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum WaitEvent { $(#[doc = $doc] $variant,)* }

        impl WaitEvent {
            /// All events, in the order of the registry.
            pub const ALL: &'static [WaitEvent] = &[$(WaitEvent::$variant,)*];
        }

        static INFO: &[EventInfo] = &[$(EventInfo {
            name: $name,
            class: WaitClass::$class,
            p: [$p1, $p2, $p3],
            doc: $doc,
        },)*];
    };
}

wait_events! {
    // ---- data files
    DbFileSequentialRead: "db file sequential read", UserIo, ["file#", "block#", "blocks"],
        "A single block is read from disk into the cache: index, row by rowid, undo, header.";
    DbFileScatteredRead: "db file scattered read", UserIo, ["file#", "block#", "blocks"],
        "Several neighbouring blocks are read into cache buffers for a scan.";
    DbFileParallelRead: "db file parallel read", UserIo, ["files", "blocks", "requests"],
        "Several single blocks are read at once: prefetch and recovery.";
    TornBlockRecheck: "torn block recheck", UserIo, ["blocks", "round", ""],
        "Recovery looks again, after a pause, at blocks that failed their checks: somebody may be \
         writing them (a name of our own).";
    DirectPathReadTemp: "direct path read temp", UserIo, ["file number", "first dba", "block cnt"],
        "A step reads back what it has written to a temporary file.";
    DirectPathWriteTemp: "direct path write temp", UserIo,
        ["file number", "first dba", "block cnt"],
        "A sort, a group or a join writes what it may not hold in memory to a temporary file.";
    DbFileParallelWrite: "db file parallel write", SystemIo, ["requests", "interrupt", "timeout"],
        "The block writer waits for a batch of data block writes.";
    DataFileInitWrite: "Data file init write", UserIo, ["count", "intr", "timeout"],
        "Newly allotted space is being formatted.";

    // ---- redo
    LogFileSync: "log file sync", Commit, ["buffer#", "sync scn", ""],
        "A commit waits until its redo is durable.";
    LogFileParallelWrite: "log file parallel write", SystemIo, ["files", "blocks", "requests"],
        "The log writer waits for its own write.";
    LogFileSequentialRead: "log file sequential read", SystemIo, ["log#", "block#", "blocks"],
        "Recovery or the archiver reads redo.";
    LogBufferSpace: "log buffer space", Configuration, ["", "", ""],
        "Redo is produced faster than it is written: the log buffer is full.";
    LogFileSwitchCheckpoint: "log file switch (checkpoint incomplete)", Configuration, ["", "", ""],
        "The next log file still holds redo that a checkpoint needs.";

    // ---- control file
    ControlFileParallelWrite: "control file parallel write", SystemIo,
        ["files", "block#", "requests"],
        "Blocks of the control file are written.";

    // ---- buffer cache, this instance only
    FreeBufferWaits: "free buffer waits", Configuration, ["file#", "block#", "set-id#"],
        "No clean buffer was found for a block: the block writer is behind or the cache too small.";
    BufferBusyWaits: "buffer busy waits", Concurrency, ["file#", "block#", "class#"],
        "Another session of this instance has the block's latch: it changes the block, or reads it.";
    ReadByOtherSession: "read by other session", UserIo, ["file#", "block#", "class#"],
        "Another session of this instance is reading the block from disk.";

    // ---- global cache: requests in flight (placeholders), and what became of them
    GcCrRequest: "gc cr request", Cluster, ["file#", "block#", "class#"],
        "A consistent copy was asked for; renamed when the outcome is known.";
    GcCurrentRequest: "gc current request", Cluster, ["file#", "block#", "id#"],
        "The newest version of a block was asked for; renamed when the outcome is known.";
    GcCrMultiBlockRequest: "gc cr multi block request", Cluster, ["file#", "block#", "class#"],
        "A scan asked for several blocks at once to read them consistently.";
    GcCrBlock2Way: "gc cr block 2-way", Cluster, ["file#", "block#", "class#"],
        "A consistent copy came from the block's master itself.";
    GcCrBlock3Way: "gc cr block 3-way", Cluster, ["file#", "block#", "class#"],
        "A consistent copy came from an instance that is not the block's master.";
    GcCrBlockBusy: "gc cr block busy", Cluster, ["file#", "block#", "class#"],
        "A consistent copy came late: the holder waited for a log flush, a pin or a commit.";
    GcCrBlockCongested: "gc cr block congested", Cluster, ["file#", "block#", "class#"],
        "A consistent copy came late: its request waited more than 1 ms for a block server (LMS).";
    GcCurrentBlock2Way: "gc current block 2-way", Cluster, ["file#", "block#", "class#"],
        "The newest version came from the block's master itself.";
    GcCurrentBlock3Way: "gc current block 3-way", Cluster, ["file#", "block#", "class#"],
        "The newest version came from an instance that is not the block's master.";
    GcCurrentBlockBusy: "gc current block busy", Cluster, ["file#", "block#", "class#"],
        "The newest version came late: a log flush or a pin at the holder, or others queued.";
    GcCurrentBlockCongested: "gc current block congested", Cluster, ["file#", "block#", "class#"],
        "The newest version came late: its request waited more than 1 ms for a block server (LMS).";
    GcCrGrant2Way: "gc cr grant 2-way", Cluster, ["file#", "block#", "class#"],
        "No instance holds the block: the master gave leave to read it from disk, for a query.";
    GcCrGrantCongested: "gc cr grant congested", Cluster, ["file#", "block#", "class#"],
        "A grant for a query came late: its request waited more than 1 ms for the master's server.";
    GcCurrentGrantCongested: "gc current grant congested", Cluster, ["file#", "block#", "class#"],
        "A grant came late: its request waited more than 1 ms for the master's server.";
    GcCurrentGrant2Way: "gc current grant 2-way", Cluster, ["file#", "block#", "class#"],
        "The master gave the right asked for without an image: from disk, or to the copy held.";
    GcCrFailure: "gc cr failure", Cluster, ["file#", "block#", "class#"],
        "The holder answered a request for a consistent copy with an error; asked again.";
    GcCurrentRetry: "gc current retry", Cluster, ["file#", "block#", "class#"],
        "The answer to a request for the newest version was of no use; asked again.";
    GcBufferBusyAcquire: "gc buffer busy acquire", Cluster, ["file#", "block#", "class#"],
        "Another session of this instance has already asked the cluster for this block.";
    GcQuiesce: "gc quiesce", Cluster, ["file#", "block#", "class#"],
        "Block requests wait while the membership of the cluster changes.";
    GcsLogFlushSync: "gcs log flush sync", Other, ["waittime", "poll", "event"],
        "A block server's answer waits until the log writer has made the block's redo durable.";

    // ---- commit and visibility across instances
    WaitForScnAck: "wait for scn ack", Other, ["instance", "scn", ""],
        "A commit waits until every open instance has acknowledged its SCN.";
    CommitOutcome: "commit outcome", Concurrency, ["usn<<16 | slot", "sequence", "scn"],
        "A reader awaits the outcome of a commit that its snapshot covers (a name of our own).";
    TransactionEnquiry: "transaction state enquiry", Cluster,
        ["usn<<16 | slot", "sequence", "instance"],
        "The state of a transaction is asked from its owner (a name of our own).";

    // ---- enqueues
    EnqTxRowLock: "enq: TX - row lock contention", Application,
        ["name|mode", "usn<<16 | slot", "sequence"],
        "The row is locked by another open transaction, or an equal unique key is in flight.";
    EnqTxIndex: "enq: TX - index contention", Concurrency,
        ["name|mode", "usn<<16 | slot", "sequence"],
        "An inserter waits for another session's split of an index block.";
    EnqTxAllocateItl: "enq: TX - allocate ITL entry", Configuration,
        ["name|mode", "usn<<16 | slot", "sequence"],
        "All ITL entries of the block are taken by open transactions and there is no room for one.";
    EnqTm: "enq: TM - contention", Application, ["name|mode", "object #", "table/partition"],
        "The table is locked in a mode that excludes this one: DDL against DML, LOCK TABLE.";
    EnqUl: "enq: UL - contention", Application, ["name|mode", "id1", "id2"],
        "A lock that users name themselves (pg_advisory_lock) is held by another session.";
    EnqHw: "enq: HW - contention", Configuration, ["name|mode", "table space #", "block"],
        "Another session is raising the high-water mark of the segment.";
    EnqSq: "enq: SQ - contention", Configuration, ["name|mode", "object #", "0"],
        "Another session is refilling the cache of the sequence.";
    DfsLockHandle: "DFS lock handle", Other, ["type|mode", "id1", "id2"],
        "Another instance, or another session of this one, is taking a value of an ordered sequence.";
    EnqTs: "enq: TS - contention", Other, ["name|mode", "table space #", "dba"],
        "Extents of the tablespace are being allotted or given back by another session.";
    RowCacheLock: "row cache lock", Concurrency, ["cache id", "mode", "request"],
        "A dictionary entry is being loaded or changed on this or another instance.";
    LibraryCacheLock: "library cache lock", Concurrency,
        ["handle address", "lock address", "100*mode+namespace"],
        "A statement waits for the definition of an object that DDL is changing.";

    // ---- latches
    LatchCacheBuffersChains: "latch: cache buffers chains", Concurrency,
        ["address", "number", "tries"],
        "Another session looks for a block in the same part of the cache.";
    LatchRedoAllocation: "latch: redo allocation", Concurrency, ["address", "number", "tries"],
        "Another session puts redo into the log buffer.";
    LatchSharedPool: "latch: shared pool", Concurrency, ["address", "number", "tries"],
        "Another session looks for a statement among those in memory.";
    LatchLibraryCache: "latch: library cache", Concurrency, ["address", "number", "tries"],
        "Another session looks for a plan among those in memory.";
    LatchFree: "latch free", Other, ["address", "number", "tries"],
        "A latch without an event of its own is taken; `v$latch` tells which ones sleep.";

    // ---- undo and recovery
    UndoSegmentTxSlot: "undo segment tx slot", Configuration, ["segment#", "", ""],
        "Every slot of every online transaction table is taken.";

    // ---- clients
    SqlNetMessageFromClient: "SQL*Net message from client", Idle, ["driver id", "#bytes", ""],
        "The session waits for its client's next message.";
    SqlNetMessageToClient: "SQL*Net message to client", Network, ["driver id", "#bytes", ""],
        "A message is being handed to the network.";
    SqlNetMoreDataFromClient: "SQL*Net more data from client", Network, ["driver id", "#bytes", ""],
        "The rest of a message or of a COPY is awaited from the client.";
    SqlNetMoreDataToClient: "SQL*Net more data to client", Network, ["driver id", "#bytes", ""],
        "The client does not take the rows as fast as they are produced.";

    // ---- background
    RdbmsIpcMessage: "rdbms ipc message", Idle, ["timeout", "", ""],
        "A background process has nothing to do.";
    RdbmsIpcReply: "rdbms ipc reply", Other, ["from_process", "timeout", ""],
        "A session waits for a background process of this instance: checkpoint, log switch.";
    SmonTimer: "smon timer", Idle, ["sleep time", "failed", ""],
        "The clean-up process sleeps until its next round.";
    AutoAnalyzeTimer: "auto analyze timer", Idle, ["sleep time", "", ""],
        "The task that analyzes tables without being asked sleeps until its next look.";
    ReliableMessage: "reliable message", Other, ["channel context", "channel handle", "message"],
        "A question to other instances, as `gv$` views ask, waits for their answers.";
    PxDeqExecuteReply: "PX Deq: Execute Reply", Idle, ["sleeptime", "passes", ""],
        "The session has read its own parts of a table and waits for those of its workers.";
    PxDeqCreditSendBlkd: "PX Deq Credit: send blkd", Idle, ["sleeptime", "passes", "qref"],
        "A worker waits until the session has taken the rows that it has found.";
    SessionEnd: "session end", Other, ["session id", "timeout", ""],
        "`pg_terminate_backend` with a timeout waits until the session that it ends is gone.";
    PgSleep: "PL/SQL lock timer", Idle, ["duration", "", ""],
        "The session asked to sleep.";
}

/// How many events there are; sizes the per-session arrays.
pub const EVENT_COUNT: usize = WaitEvent::ALL.len();

impl WaitEvent {
    fn info(self) -> &'static EventInfo {
        &INFO[self.index()]
    }

    /// Position in [`WaitEvent::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Number shown in the views (`event#`), from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32 + 1
    }

    /// Inverse of [`WaitEvent::number`]; `None` for 0 and for what is not registered.
    #[must_use]
    pub fn from_number(number: u32) -> Option<WaitEvent> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        WaitEvent::ALL.get(index).copied()
    }

    /// The name as the views show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    #[must_use]
    pub fn class(self) -> WaitClass {
        self.info().class
    }

    /// Labels of p1, p2 and p3; empty where the parameter means nothing.
    #[must_use]
    pub fn p_labels(self) -> [&'static str; 3] {
        self.info().p
    }

    /// A number made from its name: unlike [`WaitEvent::number`] it stays when events are added.
    #[must_use]
    pub fn id(self) -> u32 {
        SqlId::of(self.name()).hash_value()
    }

    /// One sentence: what is waited for.
    #[must_use]
    pub fn doc(self) -> &'static str {
        self.info().doc
    }
}

impl fmt::Display for WaitEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// p1 of an `enq:` event: the two letters of the type in the high half, the mode (1 null, 2 SS, 3
/// SX, 4 S, 5 SSX, 6 X) in the low half.
#[must_use]
pub const fn enq_p1(name: [u8; 2], mode: u8) -> u64 {
    ((name[0] as u64) << 24) | ((name[1] as u64) << 16) | mode as u64
}

/// p1 of the `SQL*Net` events: the letters "TCP".
pub const DRIVER_TCP: u64 = 1_413_697_536;
