//! The hash of PostgreSQL's hash indexes: Bob Jenkins' lookup3, with PostgreSQL's seed.
//!
//! What it promises: the numbers that PostgreSQL gives, by which applications name advisory locks.

/// Begins the state.
const SEED: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

fn last([mut a, mut b, mut c]: [u32; 3]) -> [u32; 2] {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    [b, c]
}

/// The upper and the lower half of the 64 bits; the lower one alone, with a seed of 0, is the hash
/// of 32 bits.
pub(super) fn of_bytes(bytes: &[u8], seed: u64) -> [u32; 2] {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut state = [SEED.wrapping_add(length); 3];
    if seed != 0 {
        let [a, b, c, d, e, f, g, h] = seed.to_be_bytes();
        state[0] = state[0].wrapping_add(u32::from_be_bytes([a, b, c, d]));
        state[1] = state[1].wrapping_add(u32::from_be_bytes([e, f, g, h]));
        state = mix(state);
    }
    let mut words = bytes.chunks_exact(12);
    for part in &mut words {
        for (at, word) in part.chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            state[at] = state[at].wrapping_add(word);
        }
        state = mix(state);
    }
    // The lowest byte of the last word is kept for the length.
    for (at, byte) in words.remainder().iter().enumerate() {
        let place = if at < 8 { at } else { at + 1 };
        let word = u32::from(*byte) << (8 * (place % 4));
        state[place / 4] = state[place / 4].wrapping_add(word);
    }
    last(state)
}

#[cfg(test)]
mod tests {
    use super::of_bytes;

    #[test]
    fn hashes_are_those_of_postgresql() {
        let hash = |text: &str| of_bytes(text.as_bytes(), 0)[1].cast_signed();
        for (text, wanted) in HASHES {
            assert_eq!(hash(text), *wanted, "{text}");
        }
    }

    const HASHES: &[(&str, i32)] = &[
        ("", -1_477_818_771),
        ("a", 1_075_015_857),
        ("abcdefghijk", -1_483_803_693),
        ("hello world!", 1_400_155_871),
        ("hello world 123", 224_367_023),
    ];

    #[test]
    fn seeds_make_other_hashes() {
        let hash = |text: &str, seed| {
            let [high, low] = of_bytes(text.as_bytes(), seed);
            u64::from(high) << 32 | u64::from(low)
        };
        assert_eq!(hash("hello world 123", 0), 2_369_420_761_780_687_279);
        assert_eq!(hash("job", 42), 1_472_403_002_632_457_895);
    }
}
