//! Random numbers of the loads.

/// Small and seeded by the client's number: the load is the same in each run.
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// From 0 to `limit` - 1.
    pub fn below(&mut self, limit: i32) -> i32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let limit = u64::try_from(limit.max(1)).unwrap_or(1);
        i32::try_from((z ^ (z >> 31)) % limit).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_stay_in_range_and_reach_its_ends() {
        let mut random = Random::new(7);
        let seen: Vec<i32> = (0..1000).map(|_| random.below(5)).collect();
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&0), Some(&4)));
    }
}
