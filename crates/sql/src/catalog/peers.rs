//! What instances ask of each other's sessions: the rows of `gv$` views, to hand on notifications,
//! to trace or stop a session, to change a parameter.
//!
//! An instance that leaves or dies while it is asked is simply not among the rows.

use std::sync::{Arc, Weak};

use env::BoxFuture;
use futures::future::join_all;
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use observe::{Ctx, WaitEvent};

use super::{PeerRows, ViewPeers, local_view_rows, set_view_peers};
use crate::Result;

struct NodePeers(Weak<Instance>);

/// Connects the sessions and views of `instance` with those of the others, both ways.
pub fn connect_instances(instance: &Arc<Instance>) {
    let known = Arc::downgrade(instance);
    instance.node.set_call_handler(Arc::new(move |kind, body| {
        let known = known.clone();
        env::boxed!(async move {
            let instance = known.upgrade()?;
            match kind {
                CallKind::Notify => crate::notify::receive(&instance, &body),
                CallKind::Trace => crate::trace::receive(&instance, &body),
                CallKind::Signal => crate::session::receive_signal(&instance, &body),
                CallKind::Parameter => crate::utility::receive_parameter(&instance, &body),
                CallKind::View => {
                    let view = String::from_utf8(body).ok()?;
                    Some(pack(&local_view_rows(&instance, &view).await?))
                }
                // The kernel's own.
                CallKind::PastImage | CallKind::Memory | CallKind::Waits => None,
            }
        })
    }));
    crate::trace::start(instance);
    crate::history::start(instance);
    set_view_peers(instance, Arc::new(NodePeers(Arc::downgrade(instance))));
}

fn pack(rows: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        let length = u32::try_from(row.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(row);
    }
    out
}

/// The rows of `pack`; what is cut off at the end is left out.
fn unpack(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((row, rest)) = rest.split_at_checked(length) else { break };
        rows.push(row.to_vec());
        bytes = rest;
    }
    rows
}

impl ViewPeers for NodePeers {
    fn ask<'a>(&'a self, ctx: &'a Ctx, view: &'a str) -> BoxFuture<'a, Result<Vec<PeerRows>>> {
        env::boxed!(async move {
            let Some(instance) = self.0.upgrade() else { return Ok(Vec::new()) };
            let node = &instance.node;
            let members = node.view();
            let peers = members.members.iter().copied().filter(|m| *m != node.me);
            let asked = join_all(peers.map(async |peer| {
                let rows = node.call_peer(peer, CallKind::View, view.as_bytes()).await?;
                Some((peer.0, unpack(&rows)))
            }));
            let p = [0, 0, u64::from(CallKind::View.code())];
            let answers = ctx.wait_or_cancel(WaitEvent::ReliableMessage, p, asked).await?;
            Ok(answers.into_iter().flatten().collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack};

    #[test]
    fn rows_travel_whole() {
        let rows = vec![vec![1, 2, 3], Vec::new(), vec![0; 300]];
        let packed = pack(&rows);
        assert_eq!(unpack(&packed), rows);
        assert_eq!(unpack(&packed[..packed.len() - 1]), rows[..2]);
    }
}
