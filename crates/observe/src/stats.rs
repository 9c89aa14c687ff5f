//! The registry of statistics: counters that every session keeps and the instance sums.
//!
//! Names are the field's. What it promises: a counter only grows; times are counted in
//! microseconds, and shown in hundredths of a second where the field shows them so
//! ([`Stat::shown`]). What it must never do: hold a counter that nothing raises.

use std::fmt;

use crate::statements::SqlId;

/// What a statistic counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Count,
    Bytes,
    Micros,
    /// A time that is counted in microseconds and shown in hundredths of a second.
    Centis,
    Blocks,
}

impl Unit {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Micros => "us",
            Unit::Centis => "cs",
            Unit::Blocks => "blocks",
        }
    }
}

/// What a statistic is about; sums of these numbers combine, as in the field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatClass {
    User = 1,
    Redo = 2,
    Enqueue = 4,
    Cache = 8,
    Rac = 32,
    Sql = 64,
}

impl StatClass {
    /// The number the views show.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

struct StatInfo {
    name: &'static str,
    class: StatClass,
    unit: Unit,
    doc: &'static str,
}

macro_rules! statistics {
    ($($variant:ident: $name:literal, $class:ident, $unit:ident, $doc:literal;)*) => {
        /// A counter of work done.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum Stat { $(#[doc = $doc] $variant,)* }

        impl Stat {
            /// All statistics, in the order of the registry.
            pub const ALL: &'static [Stat] = &[$(Stat::$variant,)*];
        }

        static INFO: &[StatInfo] = &[$(StatInfo {
            name: $name,
            class: StatClass::$class,
            unit: Unit::$unit,
            doc: $doc,
        },)*];
    };
}

statistics! {
    // ---- sessions and statements
    LogonsCumulative: "logons cumulative", User, Count, "Sessions that clients have opened.";
    LogonsCurrent: "logons current", User, Count, "Of these, sessions that are open now.";
    UserCalls: "user calls", User, Count, "Calls of clients: texts parsed by themselves, \
        statements executed, and further fetches from them.";
    RecursiveCalls: "recursive calls", User, Count, "Calls inside these: statements of code, and \
        looks into tables of the dictionary and changes of them.";
    OpenedCursorsCumulative: "opened cursors cumulative", User, Count,
        "Cursors opened by DECLARE and in code, those of loops over rows with them.";
    OpenedCursorsCurrent: "opened cursors current", User, Count, "Cursors open now between two \
        statements of a client: those of type `OPEN` in `v$open_cursor`.";
    CursorCacheHits: "session cursor cache hits", Sql, Count,
        "EXECUTE of statements that the session had named by PREPARE.";
    CursorCacheCount: "session cursor cache count", Sql, Count,
        "Statements that sessions have named by PREPARE and hold now.";
    UserCommits: "user commits", User, Count,
        "Transactions of clients with changes that were committed.";
    RecursiveCommits: "recursive commits", User, Count, "Commits of the database itself, beside \
        clients' transactions: refills of sequences, numbers of new objects, processes' own work \
        (a name of our own).";
    UserRollbacks: "user rollbacks", User, Count, "Transactions that were rolled back on request.";
    DbTime: "DB time", User, Centis, "Time of clients' calls: from a message until the next one is \
        waited for.";
    CpuUsed: "CPU used by this session", User, Centis,
        "Processor time of clients' sessions, their parallel workers' with it.";
    ConnectionTime: "connection management call elapsed time", User, Micros,
        "Time of log-ons, from the proof of who it is until the session stands.";
    ApplicationWaitTime: "application wait time", User, Centis,
        "Time of waits of class Application, those inside others left out.";
    ConcurrencyWaitTime: "concurrency wait time", User, Centis,
        "Time of waits of class Concurrency, those inside others left out.";
    ClusterWaitTime: "cluster wait time", User, Centis,
        "Time of waits of class Cluster, those inside others left out.";
    UserIoWaitTime: "user I/O wait time", User, Centis,
        "Time of waits of class User I/O, those inside others left out.";
    SqlExecuteTime: "sql execute elapsed time", Sql, Micros,
        "Time of clients' statements, with all that they call, in `DB time`.";
    HardParseTime: "hard parse elapsed time", Sql, Micros, "Time of planning, failed or not.";
    ParseTimeElapsed: "parse time elapsed", Sql, Centis,
        "The same as `hard parse elapsed time`: the look for a plan that is there is not in it.";
    ParseTimeCpu: "parse time cpu", Sql, Centis, "Processor time of planning.";
    SequenceLoadTime: "sequence load elapsed time", Sql, Micros,
        "Time of taking new values of sequences from the dictionary.";
    ExecuteCount: "execute count", Sql, Count, "Statements run.";
    ParseCountTotal: "parse count (total)", Sql, Count, "Statements parsed, plan found or not.";
    ParseCountHard: "parse count (hard)", Sql, Count, "Statements planned anew.";
    ParseCountFailures: "parse count (failures)", Sql, Count, "Statements that failed to parse.";
    TableFetchByRowid: "table fetch by rowid", Sql, Count, "Rows fetched by their address.";
    BytesReceivedFromClient: "bytes received via SQL*Net from client", User, Bytes,
        "Bytes read from clients.";
    BytesSentToClient: "bytes sent via SQL*Net to client", User, Bytes, "Bytes sent to clients.";
    RoundtripsClient: "SQL*Net roundtrips to/from client", User, Count,
        "Times the client was answered and waited for.";

    NotificationsSent: "notifications sent", User, Count,
        "Notifications of committed transactions, however many listen.";
    NotificationsReceived: "notifications received", User, Count,
        "Notifications that listening clients have been told.";

    SortsMemory: "sorts (memory)", Sql, Count, "Steps of statements that sorted in memory.";
    SortsDisk: "sorts (disk)", Sql, Count,
        "Steps of statements that could not, and wrote to temporary files.";

    // ---- buffer cache
    SessionLogicalReads: "session logical reads", User, Count,
        "Blocks visited: `consistent gets` and `db block gets` together.";
    ConsistentGets: "consistent gets", Cache, Count, "Blocks visited as of a snapshot.";
    DbBlockGets: "db block gets", Cache, Count, "Blocks visited in their newest version.";
    DbBlockChanges: "db block changes", Cache, Count, "Change vectors applied to cached blocks.";
    NoWorkGets: "no work - consistent read gets", Cache, Count,
        "Consistent gets that needed neither undo nor cleanout.";
    CrBlocksCreated: "CR blocks created", Cache, Blocks, "Consistent copies made with undo.";
    CrCopiesUsedAgain: "CR copies used again", Cache, Count,
        "Consistent gets served by a copy that the same statement had made before.";
    PhysicalReads: "physical reads", Cache, Blocks, "Blocks read from disk.";
    PhysicalReadRequests: "physical read total IO requests", Cache, Count,
        "Read requests for data blocks.";
    PhysicalReadMultiRequests: "physical read total multi block requests", Cache, Count,
        "Read requests for more than one block.";
    PhysicalWrites: "physical writes", Cache, Blocks, "Blocks written to disk.";
    PhysicalWriteRequests: "physical write total IO requests", Cache, Count,
        "Write requests for data blocks.";
    PhysicalReadsDirectTemp: "physical reads direct temporary tablespace", Cache, Blocks,
        "Blocks of temporary files read: sorts, groups and joins that do not fit into memory.";
    PhysicalWritesDirectTemp: "physical writes direct temporary tablespace", Cache, Blocks,
        "Blocks written to temporary files.";
    DbwrCheckpointBuffers: "DBWR checkpoint buffers written", Cache, Blocks,
        "Blocks written so that a checkpoint could move on.";
    DbwrLruBuffers: "DBWR lru buffers written", Cache, Blocks,
        "Blocks written to make room in the cache.";
    DbwrCheckpoints: "DBWR checkpoints", Cache, Count, "Times a thread checkpoint moved on.";
    DbwrDoubleWriteBlocks: "DBWR double-write blocks", Cache, Blocks,
        "Blocks written to the double-write area first.";
    FreeBufferRequested: "free buffer requested", Cache, Count, "Buffers needed for a block.";
    BlockChecksumRetries: "physical read checksum retries", Cache, Count,
        "Blocks read again because their checksum was wrong.";
    TornBlocksRestored: "torn blocks restored", Cache, Blocks,
        "Blocks restored from the double-write area in recovery.";

    // ---- redo
    RedoEntries: "redo entries", Redo, Count, "Redo records appended.";
    RedoSize: "redo size", Redo, Bytes, "Redo produced.";
    RedoWrites: "redo writes", Redo, Count, "Writes by the log writer.";
    RedoBlocksWritten: "redo blocks written", Redo, Count, "Sectors of redo written.";
    RedoWastage: "redo wastage", Redo, Bytes, "Redo written only to fill a sector.";
    RedoWriteTime: "redo write time", Redo, Centis, "Time of the writes of redo, whoever writes it. Two that overlap count twice.";
    RedoSynchWrites: "redo synch writes", Redo, Count, "Commits that waited for the log writer.";
    RedoLogSpaceRequests: "redo log space requests", Redo, Count,
        "Waits for space in the log files.";
    RedoBufferRetries: "redo buffer allocation retries", Redo, Count,
        "Waits for space in the log buffer.";
    RecoveryRedoRead: "redo bytes read by recovery", Redo, Bytes, "Redo read in recovery.";
    RecoveryVectors: "recovery change vectors applied", Redo, Count,
        "Change vectors that recovery applied.";

    // ---- undo and transactions
    UndoBlocksUsed: "undo blocks used", Cache, Blocks, "Blocks begun with undo records.";
    UndoSize: "undo change vector size", Cache, Bytes, "Bytes of undo records.";
    UndoRecordsApplied: "rollback changes - undo records applied", Cache, Count,
        "Undo records applied to take changes back.";
    TransactionRollbacks: "transaction rollbacks", Cache, Count, "Transactions rolled back.";
    UndoBlocksRead: "data blocks consistent reads - undo records applied", Cache, Count,
        "Undo records read for consistent copies.";
    SnapshotTooOld: "snapshot too old errors", Cache, Count,
        "Reads that failed because their undo was gone.";
    DeadTransactionsRecovered: "dead transactions rolled back", Cache, Count,
        "Transactions of dead instances and sessions that were rolled back.";
    Savepoints: "savepoints set", User, Count, "Savepoints set.";
    LeafSplits: "leaf node splits", Cache, Count, "Index leaf blocks split.";
    LeafSplits9010: "leaf node 90-10 splits", Cache, Count, "Leaf splits at the right end.";
    BranchSplits: "branch node splits", Cache, Count, "Index branch blocks split.";
    RootSplits: "root node splits", Cache, Count, "Times an index grew one level higher.";

    // ---- enqueues
    EnqueueRequests: "enqueue requests", Enqueue, Count,
        "Enqueues asked for by who had them in no mode. With the conversions they are the requests \
         of `v$enqueue_stat`.";
    EnqueueConversions: "enqueue conversions", Enqueue, Count,
        "Enqueues asked for in a higher mode than the asker had.";
    EnqueueWaits: "enqueue waits", Enqueue, Count,
        "Waits for enqueues, those of `v$enqueue_stat`.";
    EnqueueTimeouts: "enqueue timeouts", Enqueue, Count,
        "Requests for enqueues that ended at their time limit.";
    EnqueueReleases: "enqueue releases", Enqueue, Count,
        "Enqueues let go, each once, in whatever modes it was held.";
    EnqueueDeadlocks: "enqueue deadlocks", Enqueue, Count, "Deadlocks broken here.";
    GlobalEnqueueGetsSync: "global enqueue gets sync", Enqueue, Count,
        "Enqueues asked from another instance.";
    GlobalEnqueueGetTime: "global enqueue get time", Enqueue, Centis,
        "From asking for an enqueue from another instance until it was granted or given up.";
    GlobalEnqueueReleases: "global enqueue releases", Enqueue, Count,
        "Enqueues given back to another instance.";

    // ---- global cache
    GcCrBlocksReceived: "gc cr blocks received", Rac, Blocks, "Consistent copies received.";
    GcCrBlocksSeen: "gc cr blocks read directly", Rac, Blocks,
        "Blocks for consistent reads that were read from the memory of another instance.";
    GcUndoBlocksSeen: "gc undo blocks read directly", Rac, Blocks,
        "Undo blocks that were read from the memory of another instance.";
    GcCrReceiveTime: "gc cr block receive time", Rac, Centis,
        "From asking for a consistent copy until it was here.";
    GcCurrentBlocksReceived: "gc current blocks received", Rac, Blocks,
        "Blocks received in their newest version.";
    GcCurrentReceiveTime: "gc current block receive time", Rac, Centis,
        "From asking for the newest version until it was here.";
    GcBlocksUnasked: "gc blocks received unasked", Rac, Blocks,
        "Blocks that came a second time, because the question for them had been said again.";
    GcCrBlocksServed: "gc cr blocks served", Rac, Blocks, "Consistent copies served.";
    GcCrBuildTime: "gc cr block build time", Rac, Centis,
        "Time to make consistent copies for others.";
    GcCrFlushTime: "gc cr block flush time", Rac, Centis,
        "Time that consistent copies for others waited for the log writer.";
    GcCrFlushes: "gc cr block flushes", Rac, Count,
        "Consistent copies for others that waited for the log writer.";
    GcCrSendTime: "gc cr block send time", Rac, Centis,
        "Time to hand consistent copies for others to the network.";
    GcCurrentBlocksServed: "gc current blocks served", Rac, Blocks,
        "Blocks served in their newest version.";
    GcCurrentPinTime: "gc current block pin time", Rac, Centis,
        "Time that blocks for others waited for local pins.";
    GcCurrentFlushTime: "gc current block flush time", Rac, Centis,
        "Time that blocks for others waited for the log writer.";
    GcCurrentFlushes: "gc current block flushes", Rac, Count,
        "Blocks for others that waited for the log writer.";
    GcCurrentSendTime: "gc current block send time", Rac, Centis,
        "Time to hand blocks for others to the network.";
    GcLocalGrants: "gc local grants", Rac, Count, "Rights granted by this instance's directory.";
    GcRemoteGrants: "gc remote grants", Rac, Count, "Rights granted by another instance.";
    GcLightWorks: "gc cr light works", Rac, Count,
        "Copies sent unfinished because finishing them would have meant reading undo.";
    GcPastImages: "gc past images kept", Rac, Count, "Dirty blocks given away and kept as images.";
    GcsMessagesSent: "gcs messages sent", Rac, Count, "Block service messages sent.";
    GcsMessagesReceived: "gcs messages received", Rac, Count, "Block service messages received.";
    GesMessagesSent: "ges messages sent", Rac, Count, "Enqueue service messages sent.";
    GesMessagesReceived: "ges messages received", Rac, Count, "Enqueue service messages received.";
    GcKbytesSent: "gc kbytes sent", Rac, Count, "Kilobytes of blocks and messages sent to peers.";
    DbwrFusionWrites: "DBWR fusion writes", Rac, Blocks,
        "Blocks written because another instance's checkpoint needed them.";
    ScnBroadcasts: "redo write broadcast ack count", Rac, Count,
        "Commit SCNs that all instances acknowledged.";
    ScnBroadcastTime: "redo write broadcast ack time", Rac, Micros,
        "Time until all instances had acknowledged a commit SCN.";
    TransactionEnquiries: "transaction state enquiries", Rac, Count,
        "Questions about a transaction's state to the instance that owns it.";
    TransactionStatesSeen: "transaction states read directly", Rac, Count,
        "States of transactions that were read from the memory of the instance that owns them.";
    Reconfigurations: "cluster reconfigurations", Rac, Count, "Epoch changes gone through.";
    InstanceRecoveries: "instance recoveries", Rac, Count, "Dead instances recovered here.";
}

/// How many statistics there are.
pub const STAT_COUNT: usize = Stat::ALL.len();

impl Stat {
    fn info(self) -> &'static StatInfo {
        &INFO[self.index()]
    }

    /// Position in [`Stat::ALL`]; `statistic#` in the views.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// A number made from its name: unlike [`Stat::index`] it stays when statistics are added.
    #[must_use]
    pub fn id(self) -> u32 {
        SqlId::of(self.name()).hash_value()
    }

    /// The name as the views show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    #[must_use]
    pub fn class(self) -> StatClass {
        self.info().class
    }

    #[must_use]
    pub fn unit(self) -> Unit {
        self.info().unit
    }

    /// A count as the views show it: times in the field's unit.
    #[must_use]
    pub fn shown(self, value: u64) -> u64 {
        match self.unit() {
            Unit::Centis => value / 10_000,
            _ => value,
        }
    }

    /// Whether it says what is and not what was done: it goes down again, and the difference of two
    /// values is no work.
    #[must_use]
    pub const fn is_gauge(self) -> bool {
        matches!(self, Stat::LogonsCurrent | Stat::OpenedCursorsCurrent | Stat::CursorCacheCount)
    }

    /// Whether it is counted in microseconds.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self.unit(), Unit::Micros | Unit::Centis)
    }

    /// One sentence: what is counted.
    #[must_use]
    pub fn doc(self) -> &'static str {
        self.info().doc
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
