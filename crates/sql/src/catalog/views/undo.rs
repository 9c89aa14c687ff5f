//! Undo: the segments, and what became of it in the last days.

use super::registry::{Make, views};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use block::BLOCK_BYTES;
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$rollstat", Make::Local(rollstat), "Undo segments that this instance answers for." {
        usn: Int4, "Number of the segment.";
        extents: Int8, "Its extents.";
        rssize: Int8, "Its size in bytes.";
        xacts: Int8, "Its transactions that have not ended.";
        gets: Int8, "Times that what is in memory of its header was asked for.";
        waits: Int8, "Of these, those that slept until it was free.";
        hwmsize: Int8, "The most bytes that it has had since the instance answers for it.";
        shrinks: Int8, "Extents that it has given to other segments, which had no room.";
        status: Text, "`ONLINE`: new transactions go to it; `PENDING OFFLINE`: none do, it is that \
            of an instance which has failed.";
        curext: Int4, "Number of the extent that undo goes to, from 0; NULL: none has been needed \
            since the instance's start.";
        curblk: Int8, "Number of the block in it, from 0.";
    }
    "v$rollname", Make::Local(rollname), "Names of the same." {
        usn: Int4, "Number of the segment.";
        name: Text, "`_SYSSMU`, the number, and `$`.";
    }
    "v$undostat", Make::Local(undostat), "What became of undo, ten minutes a row, for four days; the \
        newest first." {
        begin_time: Timestamptz, "When the row begins.";
        end_time: Timestamptz, "When it ends; of the newest, the last look.";
        undoblks: Int8, "Blocks begun with undo records.";
        txncount: Int8, "Transactions that ended.";
        maxquerylen: Int8, "Seconds that the longest statement had run.";
        maxqueryid: Text, "Name of that statement.";
        maxconcurrency: Int8, "Most transactions at work at once.";
        ssolderrcnt: Int8, "Reads that failed because their undo was gone.";
        activeblks: Int8, "Blocks of extents that transactions at work have, at the end.";
        unexpiredblks: Int8, "Blocks of the others that `undo_retention` still keeps.";
        expiredblks: Int8, "Blocks that may be used anew.";
        tuned_undoretention: Int8, "Seconds that undo is kept for readers now: `undo_retention`.";
    }
}

fn rollstat(instance: &Arc<Instance>, rows: &mut Rows) {
    let (now, kept_us) = (instance.core.env.now(), instance.core.undo_retention_us());
    for segment in instance.core.all_segments() {
        let report = segment.report(now, kept_us);
        let own = instance.core.is_own_segment(report.usn);
        rows.push(vec![
            int4(report.usn),
            int(report.extents),
            int(report.blocks * BLOCK_BYTES as u64),
            int(report.active),
            int(report.latched.gets),
            int(report.latched.sleeps),
            int(report.blocks_most * BLOCK_BYTES as u64),
            int(report.lent),
            text(if own { "ONLINE" } else { "PENDING OFFLINE" }),
            report.current.map_or(Value::Null, |(extent, _)| int4(extent)),
            report.current.map_or(Value::Null, |(_, block)| int(block)),
        ]);
    }
}

fn rollname(instance: &Arc<Instance>, rows: &mut Rows) {
    let (now, kept_us) = (instance.core.env.now(), instance.core.undo_retention_us());
    for segment in instance.core.all_segments() {
        let usn = segment.report(now, kept_us).usn;
        rows.push(vec![int4(usn), text(format!("_SYSSMU{usn}$"))]);
    }
}

fn undostat(instance: &Arc<Instance>, rows: &mut Rows) {
    let kept_s = instance.core.undo_retention_us() / 1_000_000;
    for row in instance.undo_history.rows() {
        let longest = row.longest.map(|(id, _)| id.to_string());
        rows.push(vec![
            wall(row.begin_wall_us),
            wall(row.end_wall_us),
            int(row.counted.blocks_used),
            int(row.counted.transactions),
            int(row.longest.map_or(0, |(_, us)| us / 1_000_000)),
            opt_text(longest.as_deref()),
            int(row.most_running),
            int(row.counted.too_old),
            int(row.blocks.active),
            int(row.blocks.unexpired),
            int(row.blocks.expired),
            int(kept_s),
        ]);
    }
}
