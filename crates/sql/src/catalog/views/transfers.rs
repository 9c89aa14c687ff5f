//! Blocks that came from other instances, and where the time of each went.

use super::int4;
use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{TransferClass, TransferHow, TransferKind, TransferRow, TransferTotals};
use std::collections::BTreeMap;
use std::sync::Arc;

views! {
    "v$instance_cache_transfer", Make::Local(cache_transfer), "Blocks that came from each other \
        instance, and how. Times are microseconds from the request to the block's arrival." {
        instance: Int4, "The instance that sent them.";
        class: Text, "`data block`, `undo header`, `undo block` or `others`.";
        lost: Int8, "Always 0: the network between instances loses nothing; a connection that \
            breaks is made anew, and what was on its way is asked for again.";
        lost_time: Int8, "Always 0, for the same reason.";
        cr_block: Int8, "Consistent copies that came without delay: the next two together.";
        cr_block_time: Int8, "Time of these.";
        cr_2hop: Int8, "Consistent copies from the block's master itself.";
        cr_2hop_time: Int8, "Time of these.";
        cr_3hop: Int8, "Consistent copies from an instance that is not the master.";
        cr_3hop_time: Int8, "Time of these.";
        cr_busy: Int8, "Consistent copies that came late: the holder waited for its log.";
        cr_busy_time: Int8, "Time of these.";
        cr_congested: Int8, "Consistent copies whose request waited more than 1 ms, and longer \
            than for log and pins, for the block servers (LMS) of master and holder.";
        cr_congested_time: Int8, "Time of these.";
        current_block: Int8, "Newest versions that came without delay: the next two together.";
        current_block_time: Int8, "Time of these.";
        current_2hop: Int8, "Newest versions from the block's master itself.";
        current_2hop_time: Int8, "Time of these.";
        current_3hop: Int8, "Newest versions from an instance that is not the master.";
        current_3hop_time: Int8, "Time of these.";
        current_busy: Int8, "Newest versions that came late: pinned, or for the holder's log.";
        current_busy_time: Int8, "Time of these.";
        current_congested: Int8, "Newest versions whose request waited for block servers, as above.";
        current_congested_time: Int8, "Time of these.";
    }
    "v$gc_wait_split", Make::Local(wait_split), "Where the time of the blocks that came from each \
        other instance went (a name of our own)." {
        instance: Int4, "The instance that sent them.";
        class: Text, "`data block`, `undo header`, `undo block` or `others`.";
        kind: Text, "`cr`: consistent copies; `current`: newest versions.";
        blocks: Int8, "Blocks.";
        total_us: Int8, "Microseconds from the request to the arrival: the sum of the following.";
        interconnect_us: Int8, "Of these, what none of the other parts accounts for: the network.";
        master_queue_us: Int8, "Of these, at the master behind others who wanted the block.";
        master_lms_us: Int8, "Of these, for the master's block server (LMS) to take the request, if \
            the master is another instance.";
        lms_queue_us: Int8, "Of these, for the sender's block server to take the request.";
        lms_build_us: Int8, "Of these, to make the copy.";
        pin_us: Int8, "Of these, for users of the block at the holder, and for its write to disk.";
        lgwr_flush_us: Int8, "Of these, for the holder's log writer.";
        own_lms_us: Int8, "Of these, arrived here, for this instance's block server.";
        flushes: Int8, "Blocks that waited for the holder's log writer.";
        max_us: Int8, "Microseconds of the longest.";
    }
}

/// Counts and times of one kind, in the order of the columns.
fn by_how(totals: &TransferTotals) -> Vec<Value> {
    let of = |how: TransferHow| (totals.how_count[how as usize], totals.how_us[how as usize]);
    let (two, three) = (of(TransferHow::TwoWay), of(TransferHow::ThreeWay));
    let undelayed = (two.0 + three.0, two.1 + three.1);
    let all = [undelayed, two, three, of(TransferHow::Busy), of(TransferHow::Congested)];
    all.into_iter().flat_map(|(count, us)| [int(count), int(us)]).collect()
}

fn cache_transfer(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut pairs: BTreeMap<(u8, usize), [TransferTotals; 2]> = BTreeMap::new();
    for TransferRow { instance, kind, class, totals } in instance.observer.block_waits.rows() {
        pairs.entry((instance, class as usize)).or_default()[kind as usize] = totals;
    }
    for ((from, class), [cr, current]) in pairs {
        let mut row = vec![int4(from), text(TransferClass::ALL[class].name()), int(0), int(0)];
        row.extend(by_how(&cr));
        row.extend(by_how(&current));
        rows.push(row);
    }
}

fn wait_split(instance: &Arc<Instance>, rows: &mut Rows) {
    for row in instance.observer.block_waits.rows() {
        let t = &row.totals;
        rows.push(vec![
            int4(row.instance),
            text(row.class.name()),
            text(kind_name(row.kind)),
            int(t.blocks()),
            int(t.total_us),
            int(t.interconnect_us),
            int(t.master_queue_us),
            int(t.master_lms_us),
            int(t.lms_us),
            int(t.build_us),
            int(t.pin_us),
            int(t.flush_us),
            int(t.own_lms_us),
            int(t.flushes),
            int(t.max_us),
        ]);
    }
}

fn kind_name(kind: TransferKind) -> &'static str {
    match kind {
        TransferKind::Cr => "cr",
        TransferKind::Current => "current",
    }
}
