//! A set of instances.

use block::{INSTANCES_MAX, InstanceNo};

/// A set of instances, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct InstanceSet(u16);

const _: () = assert!((INSTANCES_MAX as u32) < u16::BITS);

impl InstanceSet {
    #[must_use]
    pub fn contains(self, i: InstanceNo) -> bool {
        self.0 & (1 << i.0) != 0
    }

    pub fn insert(&mut self, i: InstanceNo) {
        self.0 |= 1 << i.0;
    }

    #[must_use]
    pub fn without(self, i: InstanceNo) -> InstanceSet {
        InstanceSet(self.0 & !(1 << i.0))
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn minus(self, other: InstanceSet) -> InstanceSet {
        InstanceSet(self.0 & !other.0)
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Ascending.
    pub fn iter(self) -> impl Iterator<Item = InstanceNo> {
        (1..=INSTANCES_MAX).map(InstanceNo).filter(move |&i| self.contains(i))
    }
}

impl FromIterator<InstanceNo> for InstanceSet {
    fn from_iter<I: IntoIterator<Item = InstanceNo>>(items: I) -> InstanceSet {
        let mut set = InstanceSet::default();
        items.into_iter().for_each(|i| set.insert(i));
        set
    }
}
