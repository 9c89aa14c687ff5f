//! Transaction class: states and ends of transactions, the clock, undo by copy, calls between
//! kernels.

use block::{Dba, ObjId, Scn, Xid};

use super::ReqId;
use crate::wire::wire_enum;

/// State of a transaction as its owner answers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TxnState {
    /// Never cached beyond the enquiry.
    Active,
    /// Commit drawn, not durable yet: an asker whose snapshot covers it waits for the end.
    Committing {
        scn: Scn,
    },
    /// Durable and acknowledged; only this state may be put into a block (C7).
    Committed {
        scn: Scn,
    },
    /// Committed at `scn` at the latest; the exact SCN is forgotten (H2).
    CommittedBefore {
        scn: Scn,
    },
    RolledBack,
    /// The segment's table has never given out this xid (H1).
    NeverWas,
}
wire_enum!(TxnState {
    0 => Active,
    1 => Committing { scn },
    2 => Committed { scn },
    3 => CommittedBefore { scn },
    4 => RolledBack,
    5 => NeverWas,
});

/// A message of the transaction class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TxnMessage {
    /// Asked of the instance that answers for the xid's undo segment.
    TransactionState {
        req_id: ReqId,
        xid: Xid,
    },
    TransactionStateReply {
        req_id: ReqId,
        xid: Xid,
        state: TxnState,
    },
    /// Tell me when it has ended; asked of an adopter, it rolls the transaction back first (C9).
    AwaitEnd {
        req_id: ReqId,
        xid: Xid,
    },
    /// The waiter has gone (cancel, time-out).
    AwaitCancel {
        req_id: ReqId,
        xid: Xid,
    },
    Ended {
        req_id: ReqId,
        xid: Xid,
        state: TxnState,
    },
    /// A commit draws `scn`; dictionary objects changed by it travel along and are applied before
    /// the acknowledgement (H19).
    ScnBroadcast {
        req_id: ReqId,
        scn: Scn,
        objects: Vec<ObjId>,
    },
    ScnAck {
        req_id: ReqId,
        scn: Scn,
    },
    /// The sender's oldest snapshot, exported and parallel ones included.
    Horizon {
        oldest: Scn,
    },
    /// A copy of an undo block: no mode, no flush (M4).
    UndoBlock {
        req_id: ReqId,
        addr: Dba,
    },
    /// `image` is empty when the owner does not cache it: read it from disk.
    UndoBlockReply {
        req_id: ReqId,
        addr: Dba,
        image: Vec<u8>,
    },
    /// The owner has heard it, but must wait for the block itself, perhaps for a third instance:
    /// it is not to blame for the time that takes.
    UndoBlockLater {
        req_id: ReqId,
    },
    /// A call of one kernel to another (views over all instances and the like); `kind` is the
    /// kernel's business.
    Call {
        req_id: ReqId,
        kind: u16,
        body: Vec<u8>,
    },
    CallReply {
        req_id: ReqId,
        ok: bool,
        body: Vec<u8>,
    },
}
wire_enum!(TxnMessage {
    0 => TransactionState { req_id, xid },
    1 => TransactionStateReply { req_id, xid, state },
    2 => AwaitEnd { req_id, xid },
    3 => AwaitCancel { req_id, xid },
    4 => Ended { req_id, xid, state },
    5 => ScnBroadcast { req_id, scn, objects },
    6 => ScnAck { req_id, scn },
    7 => Horizon { oldest },
    8 => UndoBlock { req_id, addr },
    9 => UndoBlockReply { req_id, addr, image },
    10 => Call { req_id, kind, body },
    11 => CallReply { req_id, ok, body },
    12 => UndoBlockLater { req_id },
});
