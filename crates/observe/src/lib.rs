#![doc = include_str!("../README.md")]

mod alert;
mod call_time;
mod calls;
mod cancel;
mod ctx;
mod cursors;
mod enqueues;
mod events;
mod generation;
mod held;
mod history;
mod latches;
mod long_operations;
mod metrics;
mod observer;
mod past;
mod plan_steps;
pub mod reference;
mod running;
mod secrets;
mod session;
mod signature;
mod split;
mod statements;
mod stats;
mod totals;
mod trace;
mod waiting;

#[cfg(test)]
mod tests;

pub use alert::{AlertLevel, AlertLine, AlertLog, AlertSink, format_wall};
pub use call_time::{TimePart, Timed};
pub use calls::{Planning, SqlCall};
pub use cancel::{CancelFlag, CancelWait, Interrupt, Shield};
pub use ctx::Ctx;
pub use cursors::{Counted, CursorKind, OpenCursor, OpenCursors};
pub use enqueues::{AskedEnqueue, EnqueueKind, EnqueueTotals, Enqueues, HeldEnqueue};
pub use events::{DRIVER_TCP, EVENT_COUNT, WaitClass, WaitEvent, enq_p1};
pub use history::{Blocking, History, Sample, SampledState, Sampler, Since, TextFacts};
pub use latches::attribute_latches;
pub use long_operations::{
    LONG_OPERATIONS_MAX, LongOperations, LongRow, Operation, Progress, SHOWN_AFTER_US, Target,
};
pub use metrics::{METRIC_GROUPS, METRICS, Metric, MetricGroup, MetricInterval, Metrics};
pub use observer::{
    HistogramRow, Observer, SIDS_PER_INSTANCE, SessionCounts, SessionEventRow, SystemEventRow,
    instance_of_sid,
};
pub use past::{PAST_WAITS, PastWait, WaitView};
pub use plan_steps::{PlanFigures, PlanRow, StepFigures};
pub use running::{RunningView, WaitedFor};
pub use secrets::without_passwords;
pub use session::{
    About, BACKGROUND_SERVICE, Session, SessionKind, SessionRow, SessionState, USER_SERVICE, Work,
    Working,
};
pub use signature::Signatures;
pub use split::{
    BlockWaitSplit, TransferClass, TransferHow, TransferKind, TransferRow, TransferTimes,
    TransferTotals,
};
pub use statements::{
    Cost, CursorRow, Figures, LibraryTotals, Outcome, Parsed, ParsedBy, STATEMENTS_MAX,
    SharedCursor, SqlId, Statements,
};
pub use stats::{STAT_COUNT, Stat, StatClass, Unit};
pub use totals::{EventTotals, HISTOGRAM_BUCKETS, LiveTotals, Totals, bucket, bucket_limit_us};
pub use trace::{
    Bind, COMMANDS, Call, CallMark, PlanLine, Recursive, TRACE_BINDS, TRACE_CALLS, TRACE_PLANS_ALL,
    TRACE_PLANS_NEVER, TRACE_WAITS, TraceFiles, TraceRequest, TraceRule, TracedPlanning, command,
    command_name, sql_id,
};
pub use waiting::{AsShown, AsTold, Label, Told, Waiting, WaitingOrCancel};
