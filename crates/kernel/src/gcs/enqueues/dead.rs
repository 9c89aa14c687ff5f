//! Table locks of dead transactions (H18).
//!
//! Who answers for a dead transaction holds its tables in SX until it is rolled back, or DDL would
//! come between a change and its undo. Promises that the locks are taken before anybody's wishes go
//! on after the death: the adopter alone asks while enqueues are frozen, and its own users' wishes
//! queue behind. They cannot conflict with what the living hold, which went along with the dead's.

use std::collections::BTreeSet;
use std::time::Duration;

use block::ObjId;
use global::Epoch;
use global::ges::ShadowEvent;
use global::msg::{GesMode, Resource};
use observe::AlertLevel;

use super::super::node::Node;
use super::{Answer, DEAD, INSTANCE, Step};
use crate::error::{Error, Result};
use crate::txn::table_resource;

/// How often a request looks whether an epoch change has overtaken it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Node {
    /// Locks the tables of the dead transactions in the segments this instance answers for, before
    /// enqueues thaw.
    ///
    /// # Errors
    /// The disk; an epoch change has overtaken it.
    pub(in super::super) async fn lock_dead_tables(&self, epoch: Epoch) -> Result<()> {
        let mut tables: BTreeSet<ObjId> = BTreeSet::new();
        for segment in self.core.all_segments() {
            for xid in segment.left_by_crash() {
                match self.core.tables_of_dead(&self.ctx, &segment, xid).await {
                    Ok(of) => tables.extend(of),
                    // The rollback will fail on it too; the cluster must not stand still for it.
                    Err(e @ (Error::Invariant(_) | Error::Corrupt { .. })) => {
                        let text = format!("undo of dead transaction {xid}: {e}");
                        self.ctx.alert(AlertLevel::Error, text);
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        for obj in tables {
            if self.view().epoch != epoch {
                return Err(Error::Closing);
            }
            self.lock_dead_table(epoch, table_resource(obj)).await?;
        }
        Ok(())
    }

    async fn lock_dead_table(&self, epoch: Epoch, resource: Resource) -> Result<()> {
        let mut asking = {
            let _gate = self.cache.enter_protocol();
            let mut state = self.enqueues.state.lock();
            if state.mode_of(resource, DEAD) != GesMode::Null {
                return Ok(()); // Kept over an epoch change.
            }
            state.dead.insert(resource);
            // Local wishes were there before: they step back, and are told to ask again.
            if let Some(asker) = state.entry(resource).answers.remove(&INSTANCE) {
                let event = ShadowEvent::Cancel { owner: INSTANCE, req_id: self.req_id() };
                self.run(&mut state, Step::Shadow(resource, event));
                let _ = asker.send(Answer::Again);
            }
            let asking = self.ask_in(&mut state, resource, GesMode::SX, DEAD, false);
            let event = ShadowEvent::Thaw { req_id: self.req_id() };
            self.run(&mut state, Step::Shadow(resource, event));
            asking
        };
        loop {
            match self.env.timeout(LOOK_EVERY, asking.answer()).await {
                Ok(answer) => return answer,
                // The request is void then, and the next epoch's recovery asks again.
                Err(_) if self.view().epoch != epoch => return Err(Error::Closing),
                Err(_) => {}
            }
        }
    }

    /// Whether the tables of dead transactions are being locked just now, and this is one of them.
    pub(super) fn is_being_adopted(&self, resource: Resource) -> bool {
        let state = self.enqueues.state.lock();
        state.dead.contains(&resource) && state.mode_of(resource, DEAD) == GesMode::Null
    }

    /// The dead transactions are rolled back.
    pub(in super::super) fn unlock_dead_tables(&self) {
        let dead = std::mem::take(&mut self.enqueues.state.lock().dead);
        for resource in dead {
            self.enqueue_unlock(resource, DEAD);
        }
    }
}
