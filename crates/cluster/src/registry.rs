//! Where the members of a cluster are written down, and what their lives hang on: the trait, and
//! its implementation by locks on the voting file. The other one is in [`crate::lease`].
//!
//! What both promise: a life that a view shows as ended will never write to the shared disks again;
//! the control record is written only by whoever decides, upon the very record it has seen; an
//! incarnation is above all earlier ones of its instance.

use env::{BoxFuture, Env, FileLock, Micros};
use parking_lot::Mutex;

use crate::Error;
use crate::machine::Life;
use crate::voting::{Control, Slot, VotingFile, VotingView};

/// What has become of a life that is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It has ended, or will: the next views tell.
    UnderWay,
    /// Its process is gone, yet something holds its lock.
    Stuck,
}

/// See the module's text. All calls are those of one life.
pub(crate) trait Registry: Send + Sync {
    /// Prolongs what the own life hangs on, where time ends it. To be called at each look.
    fn renew(&self) -> BoxFuture<'_, Result<(), Error>>;
    /// When the own life ends unless it is renewed before; `None`: it hangs on the process alone.
    fn deadline(&self) -> Option<Micros>;
    fn view(&self) -> BoxFuture<'_, Result<VotingView, Error>>;
    fn write_slot<'a>(&'a self, slot: &'a Slot) -> BoxFuture<'a, Result<(), Error>>;
    /// Whether this instance decides, as of this view.
    fn is_deciding(&self, view: &VotingView) -> bool;
    /// Tries to become the one that decides. What it decides upon is what it reads after that.
    fn begin_deciding(&self) -> BoxFuture<'_, Result<bool, Error>>;
    fn end_deciding(&self) -> BoxFuture<'_, ()>;
    /// Writes the control record that follows the one in `seen`.
    fn write_control<'a>(
        &'a self,
        control: &'a Control,
        seen: &'a VotingView,
    ) -> BoxFuture<'a, Result<(), Error>>;
    /// Brings about that a life that is to be put out ends, without waiting for it; to be repeated
    /// while it has not. `process`: its id and when it began.
    fn end(&self, life: Life, process: (u32, u64)) -> Ending;
    /// Ends the own life cleanly: `slot` is the last that is to be known of it.
    fn leave<'a>(&'a self, slot: &'a Slot) -> BoxFuture<'a, Result<(), Error>>;
}

/// Lives hang on locks of the voting file, which fall with their processes.
pub(crate) struct FileRegistry {
    env: Env,
    me: Life,
    file: VotingFile,
    /// Held until the instance leaves or its process ends.
    lock: Mutex<Option<Box<dyn FileLock>>>,
    reconfiguration: Mutex<Option<Box<dyn FileLock>>>,
}

impl FileRegistry {
    /// `lock` is that of the slot of `me`.
    pub fn new(env: &Env, me: Life, file: VotingFile, lock: Box<dyn FileLock>) -> FileRegistry {
        FileRegistry {
            env: env.clone(),
            me,
            file,
            lock: Mutex::new(Some(lock)),
            reconfiguration: Mutex::new(None),
        }
    }
}

impl Registry for FileRegistry {
    fn renew(&self) -> BoxFuture<'_, Result<(), Error>> {
        env::boxed!(std::future::ready(Ok(())))
    }

    fn deadline(&self) -> Option<Micros> {
        None
    }

    fn view(&self) -> BoxFuture<'_, Result<VotingView, Error>> {
        env::boxed!(self.file.view())
    }

    fn write_slot<'a>(&'a self, slot: &'a Slot) -> BoxFuture<'a, Result<(), Error>> {
        env::boxed!(self.file.write_slot(self.me.instance, slot))
    }

    fn is_deciding(&self, _: &VotingView) -> bool {
        self.reconfiguration.lock().is_some()
    }

    fn begin_deciding(&self) -> BoxFuture<'_, Result<bool, Error>> {
        let taken = self.file.lock_reconfiguration();
        let taken = taken.map_err(|e| Error::io("take the reconfiguration lock", e)).map(|lock| {
            let taken = lock.is_some();
            *self.reconfiguration.lock() = lock;
            taken
        });
        env::boxed!(std::future::ready(taken))
    }

    fn end_deciding(&self) -> BoxFuture<'_, ()> {
        *self.reconfiguration.lock() = None;
        env::boxed!(std::future::ready(()))
    }

    fn write_control<'a>(
        &'a self,
        control: &'a Control,
        seen: &'a VotingView,
    ) -> BoxFuture<'a, Result<(), Error>> {
        assert!(self.is_deciding(seen), "only the lock's holder decides");
        env::boxed!(self.file.write_control(control))
    }

    fn end(&self, life: Life, (pid, began): (u32, u64)) -> Ending {
        if self.env.process_start_time(pid) == Some(began) {
            // It may end by itself at this very moment.
            let _ = self.env.kill_process(pid);
        } else if self.file.is_slot_locked(life.instance).unwrap_or(false) {
            return Ending::Stuck;
        }
        Ending::UnderWay
    }

    fn leave<'a>(&'a self, slot: &'a Slot) -> BoxFuture<'a, Result<(), Error>> {
        env::boxed!(async move {
            let written = self.file.write_slot(self.me.instance, slot).await;
            // A decision that is under way is written down under its lock; whoever decides lets
            // it go when it learns that this instance has left.
            *self.lock.lock() = None;
            written
        })
    }
}
