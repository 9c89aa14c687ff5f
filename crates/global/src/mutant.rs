//! Rules that a build for the purpose can break, to learn whether the simulation notices.
//!
//! Without the feature `mutants` nothing here can be chosen: [`broken`] is a constant `false`, and
//! what asks it is compiled away. With it, a thread chooses at most one mutant; a simulated cluster
//! runs in one thread. Must never be asked for anything but "is this rule broken".

/// A rule, broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A block leaves its instance before its redo is durable.
    ShipBeforeFlush,
    /// The past image goes when the block does, as if its version were on disk.
    DropPastImageEarly,
    /// A block is sent in S, and its sender keeps X for the time being.
    DemoteAfterSend,
    /// A commit is acknowledged without the other instances knowing its SCN.
    SkipScnBroadcast,
    /// Who gets a changed block takes it for one that need not be written.
    ForgetWriteDuty,
    /// Messages of an epoch that closes or is over, those of the departed too, are taken for
    /// messages of the one in force.
    AcceptStaleEpoch,
    /// Who asks for the state of a transaction is told of its commit before that is durable.
    AnswerBeforeFlush,
    /// Undo is written over while its transaction, or a snapshot, still needs it.
    ReuseUndoEarly,
    /// Who has stood still beyond the end of its lease answers from what it knew.
    AnswerAfterLease,
    /// An epoch begins without an instance when its lease has ended, while the storage still takes
    /// what it writes.
    SkipFence,
}

impl Mutant {
    pub const ALL: [Mutant; 10] = [
        Mutant::ShipBeforeFlush,
        Mutant::DropPastImageEarly,
        Mutant::DemoteAfterSend,
        Mutant::SkipScnBroadcast,
        Mutant::ForgetWriteDuty,
        Mutant::AcceptStaleEpoch,
        Mutant::AnswerBeforeFlush,
        Mutant::ReuseUndoEarly,
        Mutant::AnswerAfterLease,
        Mutant::SkipFence,
    ];

    /// As scenario files and the command line name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mutant::ShipBeforeFlush => "ship-before-flush",
            Mutant::DropPastImageEarly => "drop-past-image-early",
            Mutant::DemoteAfterSend => "demote-after-send",
            Mutant::SkipScnBroadcast => "skip-scn-broadcast",
            Mutant::ForgetWriteDuty => "forget-write-duty",
            Mutant::AcceptStaleEpoch => "accept-stale-epoch",
            Mutant::AnswerBeforeFlush => "answer-before-flush",
            Mutant::ReuseUndoEarly => "reuse-undo-early",
            Mutant::AnswerAfterLease => "answer-after-lease",
            Mutant::SkipFence => "skip-fence",
        }
    }

    /// Inverse of [`Mutant::name`].
    #[must_use]
    pub fn of_name(name: &str) -> Option<Mutant> {
        Mutant::ALL.into_iter().find(|m| m.name() == name)
    }
}

#[cfg(feature = "mutants")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Chooses what is broken in this thread from now on.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.set(mutant);
}

/// Whether this rule is broken.
#[cfg(feature = "mutants")]
#[must_use]
pub fn broken(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant)
}

/// Whether this rule is broken: never.
#[cfg(not(feature = "mutants"))]
#[must_use]
#[inline(always)]
pub const fn broken(_: Mutant) -> bool {
    false
}
