//! Changes inputs, from a seed.

/// Inputs do not grow beyond this, bytes.
const INPUT_BYTES_MAX: usize = 20_000;
/// Numbers that lengths, counts and offsets go wrong with.
const ODD: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

pub struct Mutator {
    state: u64,
}

impl Mutator {
    pub fn new(seed: u64) -> Mutator {
        Mutator { state: seed }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).expect("below a usize")
    }

    /// One of the pool, changed a few times.
    pub fn change(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = pool[self.below(pool.len())].clone();
        for _ in 0..=self.below(4) {
            self.once(&mut input, pool);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn once(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let at = self.place(input.len());
        let len = (1 + self.below(16)).min(input.len() - at);
        match self.below(9) {
            0 if len > 0 => input[at] ^= 1 << self.below(8),
            1 if len > 0 => input[at] = self.next().to_le_bytes()[0],
            2 | 3 => self.number(input, at),
            4 => input.truncate(at),
            5 => drop(input.drain(at..at + len)),
            6 => {
                let part = input[at..at + len].to_vec();
                let to = self.place(input.len());
                input.splice(to..to, part);
            }
            7 => {
                let other = &pool[self.below(pool.len())];
                let from = self.place(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                let bytes = self.next().to_le_bytes();
                input.splice(at..at, bytes[..1 + len % 8].iter().copied());
            }
        }
    }

    /// Anywhere; more often near the beginning or the end, where headers and directories are.
    fn place(&mut self, len: usize) -> usize {
        let near = self.below(64).min(len);
        match self.below(4) {
            0 => near,
            1 => len - near,
            _ => self.below(len + 1),
        }
    }

    /// Writes a number of 1, 2, 4 or 8 bytes, of either order.
    fn number(&mut self, input: &mut [u8], at: usize) {
        let near = ODD[self.below(ODD.len())].wrapping_add(self.below(3) as u64).wrapping_sub(1);
        let width = (1 << self.below(4)).min(input.len() - at);
        let (little, big) = (near.to_le_bytes(), near.to_be_bytes());
        let bytes = if self.next() & 1 == 0 { &little[..width] } else { &big[8 - width..] };
        input[at..at + width].copy_from_slice(bytes);
    }
}
