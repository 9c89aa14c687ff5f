//! Whose turn it is, over all instances, to take values of a sequence without a cache, or of an
//! ordered one.
//!
//! Each value that is in no cache is a change of `seq$`, durable before it is handed out; if two
//! instances take them in turn, the entry's block travels for each value. So an instance that has
//! the turn (the enqueue SQ of the sequence, in X) and whose sessions come back for more keeps it
//! for a few values, which the others wait a little longer for once instead of each time. Promises
//! that the turn ends after [`LENT_VALUES`] values, and [`IDLE`] after the last one. SQ is for
//! speed only: that no value is given twice is what the row in `seq$` is for, whoever has the turn.
//!
//! The cache of an ordered sequence belongs to all instances: what is left of it travels as the
//! value of the enqueue SV. Where that is in doubt, its holder having died, it is given up and new
//! values are taken from `seq$`, which is ahead of all that were handed out (H21).

use std::sync::Arc;
use std::time::Duration;

use env::{Lane, Micros};
use global::msg::Resource;
use observe::{Ctx, WaitEvent};

use super::cache::{Range, Slot};
use crate::dict::SequenceDef;
use crate::error::{Error, Result};
use crate::txn::{Core, Holder, LockWait, TmMode, Transaction, sequence_resource};

/// Values that an instance takes in one turn while others wait for theirs.
const LENT_VALUES: u32 = 8;
/// The turn is kept if the last request came within this time after the value before.
const SOON_US: u64 = 250;
/// Values that all instances can have in common: their number has 32 bits.
pub(super) const COMMON_MAX: u64 = u32::MAX as u64;
/// How long a kept turn waits for the next request.
const IDLE: Duration = Duration::from_micros(500);

/// What an instance knows of its turns at a sequence; guarded by the right to take values here.
#[derive(Default)]
pub(super) struct Turns {
    /// The turn it has kept.
    kept: Option<Turn>,
    /// When it took a value last.
    taken_at: Option<Micros>,
}

/// The instance's turn; dropped, it is over.
pub(super) struct Turn {
    core: Arc<Core>,
    resource: Resource,
    number: u64,
    /// Values it may still be kept for.
    left: u32,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.core.table_locks.release_holder(self.number);
    }
}

impl Turn {
    /// What is left of the values that all instances have in common, taken by these rules.
    pub fn common(&self, def: &SequenceDef) -> Option<Range> {
        common_here(&self.core, def)
    }

    /// Leaves these values to whoever comes next.
    ///
    /// # Errors
    /// [`Error::Invariant`] if the turn is over.
    pub fn set_common(&self, def: &SequenceDef, left: Range) -> Result<()> {
        let Some(values) = self.core.table_locks.values() else { return Err(Error::Closing) };
        assert!(left.count <= COMMON_MAX, "more values than are taken at once");
        let value = u64::from_ne_bytes(left.first.to_ne_bytes());
        values.set_value(self.resource, value, left.count << 32 | version_of(def))
    }
}

/// The values that all instances have in common and that can be taken by these rules, if their
/// enqueue is with this instance. Whoever has no turn learns what was there a moment ago.
pub(super) fn common_here(core: &Core, def: &SequenceDef) -> Option<Range> {
    let block = core.table_locks.values()?.value(sequence_resource(def.obj, true))?;
    let (count, version) = (block.limit >> 32, block.limit & COMMON_MAX);
    let usable = !block.dubious && count > 0 && version == version_of(def);
    let first = i64::from_ne_bytes(block.value.to_ne_bytes());
    usable.then_some(Range { first, increment: def.increment, count })
}

/// What tells the definition by which values were taken from others of the sequence.
fn version_of(def: &SequenceDef) -> u64 {
    def.version & COMMON_MAX
}

impl Turns {
    /// The turn that was kept, or a new one, to take one value. What is waited for is the enqueue;
    /// `over`: a use of the dictionary's entry, of which that is a part.
    ///
    /// # Errors
    /// Interrupted, or what asking the cluster can fail with.
    pub async fn begin(
        &mut self,
        ctx: &Ctx,
        txn: &Transaction,
        def: &SequenceDef,
        over: Option<(WaitEvent, [u64; 3])>,
    ) -> Result<Turn> {
        let core = txn.core();
        let resource = sequence_resource(def.obj, def.has_common_cache());
        // One by other rules is over: whoever asks by these waits for another enqueue.
        if let Some(turn) = self.kept.take().filter(|turn| turn.resource == resource) {
            return Ok(turn);
        }
        let number = core.session_number();
        let who = Holder { id: number, same: None };
        let turn = Turn { core: core.clone(), resource, number, left: LENT_VALUES };
        let locked = core.lock_resource(ctx, txn, who, resource, TmMode::X, LockWait::Wait);
        match over {
            Some((event, p)) => ctx.wait_over(event, p, locked).await?,
            None => locked.await?,
        }
        Ok(turn)
    }

    /// The turn that is kept ends, if there is one.
    pub fn give_up(&mut self) {
        self.kept = None;
    }

    /// A value has been taken, which was asked for at `asked`.
    pub fn end(&mut self, mut turn: Turn, asked: Micros, slot: &Arc<Slot>) {
        let (core, now) = (turn.core.clone(), turn.core.env.now());
        let soon = self.taken_at.is_some_and(|last| asked.since(last) <= SOON_US);
        self.taken_at = Some(now);
        turn.left -= 1;
        let wanted = core.table_locks.revoking(turn.resource).is_some();
        if !wanted || !soon || turn.left == 0 {
            return; // Nobody else asks for it, or it goes to who does.
        }
        let (number, left) = (turn.number, turn.left);
        self.kept = Some(turn);
        let (env, slot) = (core.env.clone(), slot.clone());
        core.env.spawn_task("sequence turn", Lane::Serve, async move {
            env.sleep(IDLE).await;
            // Whoever takes values meanwhile leaves another count behind; who has the right for
            // something else, or gives up, leaves the turn as it is.
            let mut turns = slot.refill.lock().await;
            turns.kept.take_if(|turn| (turn.number, turn.left) == (number, left));
        });
    }
}
