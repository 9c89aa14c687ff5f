//! Enqueue class: locks with a name, six modes and a small value; probes for deadlocks.

use std::fmt;

use block::{InstanceNo, Xid};

use super::{ReqId, Seq};
use crate::map::mix;
use crate::wire::{DecodeError, Element, Reader, Wire, wire_enum, wire_struct};

/// The name of an enqueue: a type of two letters (TX, TM, SQ, HW, CF, US, IR, RC …) and two
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub kind: [u8; 2],
    pub id1: u32,
    pub id2: u32,
}

impl Resource {
    #[must_use]
    pub const fn new(kind: [u8; 2], id1: u32, id2: u32) -> Resource {
        Resource { kind, id1, id2 }
    }

    /// The key of the master map; part of the protocol, so fixed.
    #[must_use]
    pub fn hash(self) -> u64 {
        let kind = u64::from(u16::from_be_bytes(self.kind));
        mix(mix(kind) ^ (u64::from(self.id1) << 32 | u64::from(self.id2)))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.kind.map(char::from);
        write!(f, "{a}{b}-{}-{}", self.id1, self.id2)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Wire for Resource {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.kind);
        self.id1.put(out);
        self.id2.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = [Wire::get(r)?, Wire::get(r)?];
        Ok(Resource { kind, id1: Wire::get(r)?, id2: Wire::get(r)? })
    }
}
impl Element for Resource {}

/// Modes of an enqueue, with the field's numbers: null 1, SS (row share) 2, SX (row exclusive) 3,
/// S 4, SSX (share row exclusive) 5, X 6. The order of the numbers is not an order of strength:
/// S and SX are not comparable (see [`GesMode::covers`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum GesMode {
    #[default]
    Null,
    SS,
    SX,
    S,
    SSX,
    X,
}
wire_enum!(GesMode { 1 => Null, 2 => SS, 3 => SX, 4 => S, 5 => SSX, 6 => X });

impl GesMode {
    pub const ALL: [GesMode; 6] =
        [GesMode::Null, GesMode::SS, GesMode::SX, GesMode::S, GesMode::SSX, GesMode::X];

    /// The number shown in `v$lock.lmode` and packed into p1 of the wait events.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The modes another may have at the same time, as bits 1 << mode.
    const fn friends(self) -> u8 {
        match self {
            GesMode::Null => 0b11_1111,
            GesMode::SS => 0b01_1111,
            GesMode::SX => 0b00_0111,
            GesMode::S => 0b00_1011,
            GesMode::SSX => 0b00_0011,
            GesMode::X => 0b00_0001,
        }
    }

    #[must_use]
    pub const fn compatible(self, other: GesMode) -> bool {
        self.friends() & (1 << other as u8) != 0
    }

    /// Whether who has `self` may do all that `other` allows.
    #[must_use]
    pub const fn covers(self, other: GesMode) -> bool {
        // Stronger = fewer friends; this reproduces null < SS < {SX, S} < SSX < X.
        self.friends() & other.friends() == self.friends()
    }

    /// The weakest mode that covers both (S and SX: SSX).
    #[must_use]
    pub const fn join(self, other: GesMode) -> GesMode {
        if self.covers(other) {
            self
        } else if other.covers(self) {
            other
        } else {
            GesMode::SSX
        }
    }
}

impl fmt::Display for GesMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A small value that travels with an enqueue; written by a holder in SSX or X when it lowers its
/// mode. `dubious` after the loss of a master or of a holder that could write it (H21).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ValueBlock {
    pub value: u64,
    pub limit: u64,
    /// Grows with every change; the copy with the greater one is the newer.
    pub serial: u64,
    pub dubious: bool,
}
wire_struct!(ValueBlock { value, limit, serial, dubious });

/// To the master of an enqueue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GesMasterMsg {
    /// Raise this instance's mode to `mode`. `no_wait`: refuse instead of queueing.
    Request {
        req_id: ReqId,
        mode: GesMode,
        no_wait: bool,
    },
    /// This instance has lowered its mode (null: it holds nothing); with the value it has written.
    /// `seq` is that of its last grant: void if a newer grant has crossed it.
    Lowered {
        mode: GesMode,
        seq: Seq,
        value: Option<ValueBlock>,
    },
    Cancel {
        req_id: ReqId,
    },
    /// Answer to a Blocking that asks for one: users here exclude `wanted`.
    Busy {
        wanted: GesMode,
    },
}
wire_enum!(GesMasterMsg {
    0 => Request { req_id, mode, no_wait },
    1 => Lowered { mode, seq, value },
    2 => Cancel { req_id },
    3 => Busy { wanted },
});

/// To an instance that holds or wants an enqueue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GesHolderMsg {
    Granted {
        req_id: ReqId,
        mode: GesMode,
        seq: Seq,
        value: ValueBlock,
    },
    /// `no_wait` and not free.
    Refused {
        req_id: ReqId,
    },
    /// Somebody wants `wanted`, which this instance's mode excludes: lower it when you can; or,
    /// with
    /// `no_wait`, at once or not at all (then answer Busy).
    Blocking {
        wanted: GesMode,
        no_wait: bool,
    },
    Withdrawn {
        req_id: ReqId,
    },
    TooLate {
        req_id: ReqId,
    },
}
wire_enum!(GesHolderMsg {
    0 => Granted { req_id, mode, seq, value },
    1 => Refused { req_id },
    2 => Blocking { wanted, no_wait },
    3 => Withdrawn { req_id },
    4 => TooLate { req_id },
});

/// What an instance has of an enqueue when it enters an epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EnqueueHolding {
    pub resource: Resource,
    pub mode: GesMode,
    pub value: ValueBlock,
}
wire_struct!(EnqueueHolding { resource, mode, value });

/// A vertex of the wait-for graph, at the instance that knows its edges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Waiter {
    /// A transaction (or a session without one: `xid` made from its session) at its home.
    Owner { home: InstanceNo, xid: Xid },
    /// The wish of an instance in the queue of an enqueue, at the enqueue's master.
    Queued { home: InstanceNo, resource: Resource, asker: InstanceNo },
    /// Those at an instance who hold an enqueue in a mode that excludes `wanted`.
    Held { home: InstanceNo, resource: Resource, wanted: GesMode },
    /// Those at an instance who wait for it, and are before us in the queue.
    Ahead { home: InstanceNo, resource: Resource, wanted: GesMode },
}
wire_enum!(Waiter {
    0 => Owner { home, xid },
    1 => Queued { home, resource, asker },
    2 => Held { home, resource, wanted },
    3 => Ahead { home, resource, wanted },
});

impl Waiter {
    /// The instance that knows its edges.
    #[must_use]
    pub fn home(&self) -> InstanceNo {
        match *self {
            Waiter::Owner { home, .. }
            | Waiter::Queued { home, .. }
            | Waiter::Held { home, .. }
            | Waiter::Ahead { home, .. } => home,
        }
    }
}

/// Vertices as bytes, for questions outside of the protocol.
#[must_use]
pub fn encode_waiters(all: &[Waiter]) -> Vec<u8> {
    let mut out = Vec::new();
    all.to_vec().put(&mut out);
    out
}

/// Inverse of [`encode_waiters`].
///
/// # Errors
/// The bytes are none.
pub fn decode_waiters(bytes: &[u8]) -> Result<Vec<Waiter>, DecodeError> {
    Vec::get(&mut Reader::new(bytes))
}

/// Why a vertex waits. `wait_no` changes with every new wait of the vertex, so that two sightings
/// can be told apart. `any_of`: one of `on` suffices (an ITL entry), else all must go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wait {
    pub who: Waiter,
    pub wait_no: u64,
    pub any_of: bool,
    pub on: Vec<Waiter>,
}
wire_struct!(Wait { who, wait_no, any_of, on });

/// A walk over the wait-for graph: what has been seen, and where to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    pub start: Waiter,
    pub start_wait_no: u64,
    pub seen: Vec<Wait>,
    pub to_visit: Vec<Waiter>,
}
wire_struct!(Probe { start, start_wait_no, seen, to_visit });

/// A message of the enqueue class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GesMessage {
    ToMaster {
        resource: Resource,
        msg: GesMasterMsg,
    },
    ToHolder {
        resource: Resource,
        msg: GesHolderMsg,
    },
    Probe {
        probe: Probe,
    },
    /// The finished walk, back at the instance of its start.
    ProbeDone {
        probe: Probe,
    },
    /// This transaction is the victim, if it still is in this wait.
    Victim {
        xid: Xid,
        wait_no: u64,
        cycle: Vec<Wait>,
    },
}
wire_enum!(GesMessage {
    0 => ToMaster { resource, msg },
    1 => ToHolder { resource, msg },
    2 => Probe { probe },
    3 => ProbeDone { probe },
    4 => Victim { xid, wait_no, cycle },
});

#[cfg(test)]
mod tests {
    use super::GesMode::{self, Null, S, SS, SSX, SX, X};

    #[test]
    fn compatibility_is_the_fields_matrix() {
        let yes = [
            (Null, "111111"),
            (SS, "111110"),
            (SX, "111000"),
            (S, "110100"),
            (SSX, "110000"),
            (X, "100000"),
        ];
        for (mode, row) in yes {
            for (other, bit) in GesMode::ALL.into_iter().zip(row.chars()) {
                assert_eq!(mode.compatible(other), bit == '1', "{mode} with {other}");
                assert_eq!(mode.compatible(other), other.compatible(mode));
            }
        }
    }

    #[test]
    fn join_is_the_weakest_cover() {
        for a in GesMode::ALL {
            for b in GesMode::ALL {
                let join = a.join(b);
                assert!(join.covers(a) && join.covers(b));
                let weaker = |m: &GesMode| m.covers(a) && m.covers(b) && !m.covers(join);
                assert!(!GesMode::ALL.iter().any(weaker), "{a} and {b}");
            }
        }
        assert_eq!(S.join(SX), SSX);
    }
}
