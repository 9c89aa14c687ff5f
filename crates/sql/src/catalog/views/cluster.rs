//! The cluster's services: what the block servers have done for other instances, rights to blocks
//! and enqueues, messages.

use super::int4;
use super::registry::{Column, Make, columns, views};
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, opt_text, text};
use block::{Dba, InstanceNo, Mode};
use kernel::gcs::{CrCount, EnqueueRow, GesMode, MessageClass, ReceivedTotals, Resource};
use kernel::instance::Instance;
use kernel::row::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What `v$ges_enqueue` has, and of some of its rows `v$ges_blocking_enqueue`.
const ENQUEUE: &[Column] = columns! {
    handle: Text, "The row, in hexadecimal: number of the owner, and of the enqueue.";
    resource_name1: Text, "The enqueue in hexadecimal: `[id1][id2],[type]`.";
    resource_name2: Text, "The same in decimal: `id1,id2,type`.";
    grant_level: Text, "What the owner has: KJUSERNL nothing, KJUSERCR row share (SS), \
        KJUSERCW row exclusive (SX), KJUSERPR share (S), KJUSERPW share row exclusive (SSX), \
        KJUSEREX exclusive (X).";
    request_level: Text, "What it waits for; KJUSERNL: nothing.";
    which_queue: Int4, "1: among those who have what they want; 2: among those who wait.";
    state: Text, "`GRANTED`; `OPENING`: the owner waits for a first right; `CONVERTING`: for \
        more than it has.";
    owner_node: Int4, "The instance that has or wants it.";
    master_node: Int4, "The instance that masters it; a transaction's is its own.";
    blocked: Int4, "1 if the owner waits.";
    blocker: Int4, "1 if another instance waits for what the owner has.";
    pid: Text, "Always NULL: an instance has a right for all its sessions; `gv$lock` names them.";
    transaction_id0: Int8, "Always NULL, for the same reason.";
    transaction_id1: Int8, "Always NULL, for the same reason.";
    group_id: Int4, "Always NULL, for the same reason.";
    open_opt_deadlock: Int4, "Always 1: who waits is looked at for deadlocks.";
    open_opt_persistent: Int4, "Always 0: an enqueue goes when nobody has or wants it.";
    open_opt_process_owned: Int4, "Always 0: the instance owns it.";
    open_opt_no_xid: Int4, "Always 1: no transaction is known with it.";
    convert_opt_getvalue: Int4, "Always 0: an enqueue has no value.";
    convert_opt_putvalue: Int4, "Always 0, for the same reason.";
    convert_opt_novalue: Int4, "Always 1, for the same reason.";
    convert_opt_dubvalue: Int4, "Always 0, for the same reason.";
    convert_opt_noqueue: Int4, "Always 0: who need not wait asks for nothing that it would wait for.";
    convert_opt_express: Int4, "Always 0: requests have turns.";
    convert_opt_nodeadlockwait: Int4, "Always 0: every wait is looked at.";
    convert_opt_nodeadlockblock: Int4, "Always 0: every holder is looked at.";
    ast_event0: Int4, "Always 0: an answer is a message.";
};

const INTERCONNECT: &[Column] = columns! {
    name: Text, "The network interface that has the address; NULL: it is that of all of them.";
    ip_address: Text, "The address.";
    port: Int4, "The port.";
    is_public: Text, "`YES`: clients are listened to at that address too; else `NO`.";
    source: Text, "`interconnect parameter`: what says which address it is.";
};

views! {
    "v$cr_block_server", Make::Local(cr_block_server), "What others asked this instance for to \
        read consistently; one row." {
        cr_requests: Int8, "Requests: those for data, undo and transactions together.";
        current_requests: Int8, "Requests to read that got the newest version, which both share \
            from then on; not among these.";
        data_requests: Int8, "For consistent copies of blocks.";
        undo_requests: Int8, "For undo blocks.";
        tx_requests: Int8, "For states of transactions, which stand in headers of undo segments.";
        other_requests: Int8, "Always 0: nothing else is asked for.";
        current_results: Int8, "Copies of which nothing had to be taken back.";
        private_results: Int8, "Always 0: every reader of the same snapshot may use a copy.";
        zero_results: Int8, "Copies of which changes were taken back, all that was needed.";
        disk_read_results: Int8, "Always 0: a copy is made of what is in memory, or sent unfinished.";
        fail_results: Int8, "Requests that met no right to the block here; the master was asked.";
        stale: Int8, "Always 0: what is asked for anew gets another number, and the old answer is \
            not waited for.";
        fairness_down_converts: Int8, "Blocks held to be changed that became shared, because they \
            were asked for often and not changed.";
        fairness_clears: Int8, "Always NULL: how often a block was asked for is forgotten, \
            uncounted, when it is changed.";
        free_gc_elements: Int8, "Always NULL: the right to a block is kept in its buffer.";
        flushes: Int8, "Copies that waited for the log writer.";
        flushes_queued: Int8, "The same: each is put before the log writer at once.";
        flush_queue_full: Int8, "Always 0: any number can wait for it.";
        flush_max_time: Int8, "Microseconds of the longest such wait.";
        light_works: Int8, "Copies sent unfinished, because finishing them would have meant reading \
            undo; the asker goes on.";
        errors: Int8, "Always 0: what cannot be served is a failed request.";
    }
    "v$current_block_server", Make::Local(current_block_server), "Blocks that this instance gave to \
        others in their newest version, by how long that took it; one row. `pin`: until users here \
        and a write to disk had let go; `flush`: for the log writer, those that waited for it. \
        `write`: blocks that were written because another instance's checkpoint needed them, by \
        the time from its request on." {
        pin0: Int8, "Below 100 µs.";
        pin1: Int8, "100 µs to 1 ms.";
        pin10: Int8, "1 to 10 ms.";
        pin100: Int8, "10 to 100 ms.";
        pin1000: Int8, "100 ms to 1 s.";
        pin10000: Int8, "1 s and more.";
        flush0: Int8, "Below 100 µs.";
        flush1: Int8, "100 µs to 1 ms.";
        flush10: Int8, "1 to 10 ms.";
        flush100: Int8, "10 to 100 ms.";
        flush1000: Int8, "100 ms to 1 s.";
        flush10000: Int8, "1 s and more.";
        write1: Int8, "Below 1 ms.";
        write10: Int8, "1 to 10 ms.";
        write100: Int8, "10 to 100 ms.";
        write1000: Int8, "100 ms to 1 s.";
        write10000: Int8, "1 s and more.";
        cleandc: Int8, "Always NULL: rights that were given up are not counted by what for.";
        rcvdc: Int8, "Always NULL, for the same reason.";
        queuedc: Int8, "Always NULL, for the same reason.";
        evictdc: Int8, "Always NULL, for the same reason.";
        writedc: Int8, "Always NULL, for the same reason.";
    }
    "v$ges_statistics", Make::Local(ges_statistics), "Messages of the block service (`gcs`), the \
        enqueue service (`ges`), and of transactions and memberships (names of our own)." {
        "statistic#": Int4, "Number of the statistic.";
        name: Text, "Its name, with the unit of a time.";
        value: Float8, "Messages, or milliseconds.";
    }
    "v$dlm_misc", Make::Local(ges_statistics), "The same, under the name of older releases." {
        "statistic#": Int4, "Number of the statistic.";
        name: Text, "Its name, with the unit of a time.";
        value: Float8, "Messages, or milliseconds.";
    }
    "v$ges_enqueue", Make::Local(ges_enqueue), "Enqueues that this instance masters, with what each \
        instance has and wants of them; and what this one has and wants of others' enqueues, and \
        of transactions of other instances." {} + ENQUEUE {}
    "v$ges_blocking_enqueue", Make::Local(ges_blocking_enqueue), "Those rows of `v$ges_enqueue` \
        whose owner waits, or is waited for." {} + ENQUEUE {}
    "v$ges_resource", Make::Local(ges_resource), "The enqueues of `v$ges_enqueue`, one row each." {
        resource_name: Text, "The enqueue, as `v$ges_enqueue.resource_name1` has it.";
        on_convert_q: Int4, "1 if an instance waits for it.";
        on_grant_q: Int4, "1 if an instance has it.";
        master_node: Int4, "The instance that masters it; a transaction's is its own.";
    }
    "v$gc_element", Make::Local(gc_element), "Blocks to which this instance has or wants a right, or \
        of which it keeps an image of the past." {
        gc_element_addr: Text, "Its name where `v$bh.lock_element_addr` has it.";
        gc_element_name: Text, "The block: file and number.";
        mode_held: Int4, "0 none, 3 to read, perhaps elsewhere too, 5 to change.";
        master_node: Int4, "The instance that masters the block.";
        acquiring: Int4, "1 if it is being asked for.";
        releasing: Int4, "1 if it is being given up, or another instance waits for it.";
        writing: Int4, "1 if a write to disk is in flight.";
        past_image: Int4, "1 if an image of the past is kept.";
    }
    "v$cluster_interconnects", Make::Local(interconnects), "Where this instance takes the messages \
        of the others." {} + INTERCONNECT {}
    "v$configured_interconnects", Make::Local(interconnects), "The same: what is configured \
        is used." {} + INTERCONNECT {}
    "v$interconnect_traffic", Make::Local(traffic), "Messages exchanged with each other instance (a \
        name of our own)." {
        remote_nid: Int4, "The other instance.";
        sent_messages: Int8, "Messages sent to it.";
        sent_bytes: Int8, "Their bytes.";
        received_messages: Int8, "Messages received from it.";
        received_bytes: Int8, "Their bytes.";
    }
    "v$active_instances", Make::Local(active_instances), "Members of the cluster, as this instance \
        sees them." {
        inst_number: Int4, "Number of the instance.";
        inst_name: Text, "Its name.";
    }
}

fn cr_block_server(instance: &Arc<Instance>, rows: &mut Rows) {
    let served = instance.node.served();
    let requests = [CrCount::Data, CrCount::Undo, CrCount::UndoHeader];
    let of = |what: CrCount| int(served.cr(what));
    let none = || int(0);
    let sum: u64 = requests.iter().map(|what| served.cr(*what)).sum();
    let mut row = vec![int(sum), of(CrCount::CurrentRequests)];
    row.extend(requests.map(of));
    row.extend([
        none(),
        of(CrCount::Current),
        none(),
        of(CrCount::Zero),
        none(),
        of(CrCount::Fail),
        none(),
        of(CrCount::FairnessDownConverts),
        Value::Null,
        Value::Null,
        of(CrCount::Flushes),
        of(CrCount::Flushes),
        none(),
        of(CrCount::FlushMaxUs),
        of(CrCount::LightWorks),
        none(),
    ]);
    rows.push(row);
}

fn current_block_server(instance: &Arc<Instance>, rows: &mut Rows) {
    let served = instance.node.served();
    // The field has one column below a millisecond.
    let [fastest, fast, writes @ ..] = served.writes();
    let times = served.pins().into_iter().chain(served.flushes());
    let counted = times.chain([fastest + fast]).chain(writes).map(int);
    rows.push(counted.chain([const { Value::Null }; 5]).collect());
}

#[allow(clippy::cast_precision_loss)] // what is shown as a double is not exact beyond 2^53
fn ges_statistics(instance: &Arc<Instance>, rows: &mut Rows) {
    let served = instance.node.served();
    let [gcs, ges, transactions, members] = MessageClass::ALL.map(|class| served.messages(class));
    let all = [gcs, ges, transactions, members];
    let sum = |of: fn(&ReceivedTotals) -> u64| all.iter().map(of).sum::<u64>() as f64;
    let count = |of: ReceivedTotals| of.messages as f64;
    let ms = |us: u64| us as f64 / 1000.0;
    let (directly, with_next) = served.messages_sent();
    let statistics = [
        ("messages sent directly", directly as f64),
        ("messages sent indirectly", with_next as f64),
        ("messages received actual", sum(|of| of.messages)),
        ("msgs received queued", sum(|of| of.messages)),
        ("msgs received queue time (ms)", sum(|of| of.queue_us) / 1000.0),
        ("gcs msgs received", count(gcs)),
        ("gcs msgs queue time (ms)", ms(gcs.queue_us)),
        ("gcs msgs process time(ms)", ms(gcs.process_us)),
        ("ges msgs received", count(ges)),
        ("ges msgs queue time (ms)", ms(ges.queue_us)),
        ("ges msgs process time(ms)", ms(ges.process_us)),
        ("transaction msgs received", count(transactions)),
        ("transaction msgs process time(ms)", ms(transactions.process_us)),
        ("membership msgs received", count(members)),
        ("membership msgs process time(ms)", ms(members.process_us)),
    ];
    for (at, (name, value)) in statistics.into_iter().enumerate() {
        rows.push(vec![int4(at), text(name), Value::Float8(value)]);
    }
}

fn level(mode: GesMode) -> Value {
    text(match mode {
        GesMode::Null => "KJUSERNL",
        GesMode::SS => "KJUSERCR",
        GesMode::SX => "KJUSERCW",
        GesMode::S => "KJUSERPR",
        GesMode::SSX => "KJUSERPW",
        GesMode::X => "KJUSEREX",
    })
}

fn flag(yes: bool) -> Value {
    int4(i32::from(yes))
}

/// An enqueue in hexadecimal.
fn resource_name(resource: Resource) -> Value {
    let Resource { kind, id1, id2 } = resource;
    let kind: String = kind.map(char::from).iter().collect();
    text(format!("[0x{id1:x}][0x{id2:x}],[{kind}]"))
}

fn enqueue(row: &EnqueueRow) -> Vec<Value> {
    let Resource { kind, id1, id2 } = row.resource;
    let kind: String = kind.map(char::from).iter().collect();
    let state = match (row.requested, row.granted) {
        (None, _) => "GRANTED",
        (Some(_), GesMode::Null) => "OPENING",
        (Some(_), _) => "CONVERTING",
    };
    let type_number = u16::from_be_bytes(row.resource.kind);
    let mut values = vec![
        text(format!("{:04X}{type_number:04X}{id1:08X}{id2:08X}", row.owner.0)),
        resource_name(row.resource),
        text(format!("{id1},{id2},{kind}")),
        level(row.granted),
        level(row.requested.unwrap_or(GesMode::Null)),
        int4(if row.requested.is_some() { 2 } else { 1 }),
        text(state),
        int4(row.owner.0),
        int4(row.master.0),
        flag(row.requested.is_some()),
        flag(row.is_blocker),
    ];
    values.extend([const { Value::Null }; 4]);
    // From `open_opt_deadlock` on.
    let options = [1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    values.extend(options.map(Value::Int4));
    values
}

fn ges_enqueue(instance: &Arc<Instance>, rows: &mut Rows) {
    instance.node.enqueue_rows().iter().for_each(|row| rows.push(enqueue(row)));
}

fn ges_blocking_enqueue(instance: &Arc<Instance>, rows: &mut Rows) {
    let all = instance.node.enqueue_rows();
    let blocking = all.iter().filter(|row| row.requested.is_some() || row.is_blocker);
    blocking.for_each(|row| rows.push(enqueue(row)));
}

fn ges_resource(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut all: BTreeMap<Resource, (InstanceNo, bool, bool)> = BTreeMap::new();
    for row in instance.node.enqueue_rows() {
        let known = all.entry(row.resource).or_insert((row.master, false, false));
        known.1 |= row.requested.is_some();
        known.2 |= row.granted != GesMode::Null;
    }
    for (resource, (master, waited_for, granted)) in all {
        rows.push(vec![resource_name(resource), flag(waited_for), flag(granted), int4(master.0)]);
    }
}

/// The name of a block where the field shows an address.
pub(super) fn element_address(dba: Dba) -> Value {
    text(format!("{:016X}", dba.to_u64()))
}

fn gc_element(instance: &Arc<Instance>, rows: &mut Rows) {
    for row in instance.node.element_rows() {
        rows.push(vec![
            element_address(row.dba),
            text(row.dba.to_string()),
            int4(match row.mode {
                Mode::N => 0,
                Mode::S => 3,
                Mode::X => 5,
            }),
            int4(row.master.0),
            flag(row.acquiring),
            flag(row.releasing),
            flag(row.writing),
            flag(row.past_image),
        ]);
    }
}

/// Host and port of an address, as far as it has them.
fn parts(address: &str) -> (&str, &str) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.trim_matches(['[', ']']), port)
}

fn ip(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

/// Whether who may reach one host at an address may reach the other: they are the same, or one is
/// that of all interfaces.
fn is_shared(one: &str, other: &str) -> bool {
    one == other || [one, other].into_iter().filter_map(ip).any(|ip| ip.is_unspecified())
}

fn interconnects(instance: &Arc<Instance>, rows: &mut Rows) {
    let (host, port) = parts(instance.node.interconnect().addr());
    let clients = instance.params.listen();
    let public = is_shared(host, parts(&clients).0);
    let interface = ip(host).and_then(|ip| instance.observer.env().interface_of(ip));
    rows.push(vec![
        opt_text(interface.as_deref()),
        text(host),
        port.parse().map_or(Value::Null, Value::Int4),
        text(if public { "YES" } else { "NO" }),
        text("interconnect parameter"),
    ]);
}

fn traffic(instance: &Arc<Instance>, rows: &mut Rows) {
    for peer in instance.node.interconnect().counters() {
        rows.push(vec![
            int4(peer.instance),
            int(peer.sent_messages),
            int(peer.sent_bytes),
            int(peer.received_messages),
            int(peer.received_bytes),
        ]);
    }
}

fn active_instances(instance: &Arc<Instance>, rows: &mut Rows) {
    for member in &instance.node.view().members {
        rows.push(vec![int4(member.0), text(format!("skein{member}"))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shared_with_its_like_and_with_all() {
        assert_eq!(parts("10.0.0.1:6701"), ("10.0.0.1", "6701"));
        assert_eq!(parts("[::1]:6701"), ("::1", "6701"));
        assert!(is_shared("10.0.0.1", "10.0.0.1"));
        assert!(is_shared("10.0.0.1", "0.0.0.0"));
        assert!(is_shared("::", "10.0.0.1"));
        assert!(!is_shared("10.0.0.1", "192.168.0.1"));
    }
}
