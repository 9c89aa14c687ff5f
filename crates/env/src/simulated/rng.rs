//! The simulator's random numbers: splitmix64, the same on every machine for ever.

/// A seeded generator.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number in `low..=high`.
    pub(super) fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits, so that the conversion is exact.
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }
}

/// The finalizer of splitmix64: a bijection that spreads every bit.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A quick hash of bytes, four words at a time, for the trace: a multiplication waits for the one
/// before it, and four chains of them do not wait for each other.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |h: u64, word: &[u8; 8]| {
        (h ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(29)
    };
    let mut h = bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    let (fours, words) = words.as_chunks::<4>();
    let mut chains = [1_u64, 2, 3, 4];
    for four in fours {
        for (chain, word) in chains.iter_mut().zip(four) {
            *chain = step(*chain, word);
        }
    }
    for chain in chains {
        h = step(h, &chain.to_le_bytes());
    }
    for word in words {
        h = step(h, word);
    }
    for b in rest {
        h = (h ^ u64::from(*b)).wrapping_mul(PRIME);
    }
    mix(h)
}
