//! What an instance may ask another one, outside of the protocol of blocks and locks.

/// The kind of a question, as it travels. The layers above have theirs here too, so that no two
/// have one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum CallKind {
    /// The newest past image of a block.
    PastImage = 1,
    /// Rows of a `v$` view.
    View = 2,
    /// Notifications for who listens there.
    Notify = 3,
    /// How a session there is to be traced.
    Trace = 4,
    /// Where the memory is that it shows.
    Memory = 5,
    /// A session there, or that it is to stop.
    Signal = 6,
    /// Which session stands for a lock that another one waits for.
    Waits = 7,
    /// A parameter there is to have another value.
    Parameter = 8,
}

impl CallKind {
    const ALL: [CallKind; 8] = [
        CallKind::PastImage,
        CallKind::View,
        CallKind::Notify,
        CallKind::Trace,
        CallKind::Memory,
        CallKind::Signal,
        CallKind::Waits,
        CallKind::Parameter,
    ];

    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Inverse of `code`.
    pub(super) fn of_code(code: u16) -> Option<CallKind> {
        CallKind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::CallKind;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        for kind in CallKind::ALL {
            assert_eq!(CallKind::of_code(kind.code()), Some(kind));
        }
        assert_eq!(CallKind::of_code(0), None);
    }
}
