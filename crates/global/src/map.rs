//! Who masters what: 1024 buckets of resources, shared out over the members of an epoch.
//!
//! Every member computes the same map from the sorted member list alone (rendezvous hashing), so
//! that nothing has to be agreed on, and a member's departure moves only the buckets it had.

use block::{Dba, InstanceNo};

/// Buckets of the map; a resource's bucket never changes.
pub const BUCKETS: usize = 1024;

/// The master of every bucket in one epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MasterMap {
    members: Vec<InstanceNo>,
    buckets: Box<[InstanceNo]>,
}

impl MasterMap {
    /// The map over `members` (in any order, duplicates ignored).
    ///
    /// # Panics
    /// If there are no members: a running instance is one itself.
    #[must_use]
    pub fn new(members: &[InstanceNo]) -> MasterMap {
        let mut members = members.to_vec();
        members.sort_unstable();
        members.dedup();
        assert!(!members.is_empty(), "a master map needs a member");
        let buckets = (0..BUCKETS as u64).map(|bucket| winner(&members, bucket)).collect();
        MasterMap { members, buckets }
    }

    /// The members, ascending.
    #[must_use]
    pub fn members(&self) -> &[InstanceNo] {
        &self.members
    }

    /// The master of a block; one and the same for the 128 blocks of a group.
    #[must_use]
    pub fn master_of(&self, addr: Dba) -> InstanceNo {
        self.buckets[bucket_of(addr.group())]
    }

    /// The master of an enqueue resource, given [`crate::msg::Resource::hash`].
    #[must_use]
    pub fn master_of_hash(&self, hash: u64) -> InstanceNo {
        self.buckets[bucket_of(hash)]
    }
}

/// The bucket of a key.
#[must_use]
pub fn bucket_of(key: u64) -> usize {
    (mix(key) % BUCKETS as u64) as usize
}

fn winner(members: &[InstanceNo], bucket: u64) -> InstanceNo {
    let weight = |m: &InstanceNo| mix(mix(bucket) ^ u64::from(m.0));
    *members.iter().max_by_key(|m| (weight(m), m.0)).expect("members is not empty")
}

/// A fixed 64-bit mixer (splitmix64's finisher): the map is part of the protocol, so it may not
/// depend on a hasher that could change under us.
pub(crate) fn mix(v: u64) -> u64 {
    let mut z = v.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(list: &[u8]) -> Vec<InstanceNo> {
        list.iter().map(|&n| InstanceNo(n)).collect()
    }

    #[test]
    fn every_member_computes_the_same_map_from_any_order() {
        assert_eq!(MasterMap::new(&members(&[3, 1, 2])), MasterMap::new(&members(&[1, 2, 3, 3])));
    }

    #[test]
    fn a_departure_moves_only_the_departed_ones_buckets() {
        let all = MasterMap::new(&members(&[1, 2, 3]));
        let rest = MasterMap::new(&members(&[1, 3]));
        let mut moved = 0;
        for b in 0..BUCKETS {
            if all.buckets[b] == InstanceNo(2) {
                moved += 1;
            } else {
                assert_eq!(all.buckets[b], rest.buckets[b]);
            }
        }
        // Near a third; far from it would be a skewed mixer.
        assert!((250..450).contains(&moved), "{moved} buckets of 1024 moved");
    }

    #[test]
    fn the_128_blocks_of_a_group_share_a_master() {
        let map = MasterMap::new(&members(&[1, 2, 3, 4]));
        for group in 0..50 {
            let first = map.master_of(Dba::new(4, group * 128));
            for b in 0..128 {
                assert_eq!(map.master_of(Dba::new(4, group * 128 + b)), first);
            }
        }
    }

    #[test]
    fn the_map_is_a_promise_between_versions() {
        // A rolling restart is a mixed cluster: these values may never change.
        let map = MasterMap::new(&members(&[1, 2, 3]));
        let firsts: Vec<u8> = map.buckets.iter().take(12).map(|i| i.0).collect();
        assert_eq!((bucket_of(0), bucket_of(1), bucket_of(4 << 25)), FROZEN_BUCKETS);
        assert_eq!(firsts, FROZEN_FIRSTS);
    }

    const FROZEN_BUCKETS: (usize, usize, usize) = (431, 193, 998);
    const FROZEN_FIRSTS: [u8; 12] = [2, 1, 1, 1, 1, 1, 3, 3, 2, 3, 1, 3];
}
