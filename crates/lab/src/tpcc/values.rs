//! Values as TPC-C draws them (clause 2.1.6 and 4.3.2), for tables of any size.
//!
//! Ranges of fewer customers or items keep the constants A of NURand: what is drawn stays uneven.

use crate::random::Random;

/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;
const LAST_NAMES: i32 = 1000;
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const DIGITS: &[u8] = b"0123456789";
const ORIGINAL: &str = "ORIGINAL";

/// The last name with a number from 0 to 999.
#[must_use]
pub fn last_name(number: i32) -> String {
    [number / 100, number / 10, number]
        .map(|n| SYLLABLES[usize::try_from(n % 10).unwrap_or(0)])
        .concat()
}

/// Draws values.
pub struct Draw {
    random: Random,
    /// The constants C of NURand for last names, customers and items.
    c: [i32; 3],
}

impl Draw {
    /// A sequence of its own for each `seed`; the constants C are the same for all.
    #[must_use]
    pub fn new(seed: u64) -> Draw {
        Draw { random: Random::new(seed << 32), c: [123, 517, 4211] }
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.random.below(high - low + 1)
    }

    /// True `percent` times of 100.
    pub fn chance(&mut self, percent: i32) -> bool {
        self.random.below(100) < percent
    }

    fn nurand(&mut self, a: i32, c: i32, low: i32, high: i32) -> i32 {
        let mixed = self.between(0, a) | self.between(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    pub fn customer(&mut self, customers: i32) -> i32 {
        self.nurand(1023, self.c[1], 1, customers)
    }

    pub fn item(&mut self, items: i32) -> i32 {
        self.nurand(8191, self.c[2], 1, items)
    }

    /// The last name of some customer: the first thousand bear all the names there are.
    pub fn name(&mut self, customers: i32) -> String {
        last_name(self.nurand(255, self.c[0], 0, customers.min(LAST_NAMES) - 1))
    }

    /// The last name that customer `id` is given at first.
    pub fn name_of(&mut self, id: i32, customers: i32) -> String {
        if id <= LAST_NAMES { last_name(id - 1) } else { self.name(customers) }
    }

    fn of(&mut self, from: &[u8], count: i32) -> String {
        let limit = i32::try_from(from.len()).unwrap_or(1);
        let one = |_| char::from(from[usize::try_from(self.random.below(limit)).unwrap_or(0)]);
        (0..count).map(one).collect()
    }

    /// Letters and digits.
    pub fn text(&mut self, low: i32, high: i32) -> String {
        let count = self.between(low, high);
        self.of(LETTERS, count)
    }

    pub fn digits(&mut self, count: i32) -> String {
        self.of(DIGITS, count)
    }

    /// Data of an item or of stock: one of ten says that it is an original.
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.chance(10) {
            let at = self.between(0, i32::try_from(text.len() - ORIGINAL.len()).unwrap_or(0));
            let at = usize::try_from(at).unwrap_or(0);
            text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        text
    }

    /// `1..=count` in any order.
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut all: Vec<i32> = (1..=count).collect();
        self.shuffle(&mut all);
        all
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            let limit = i32::try_from(i + 1).unwrap_or(i32::MAX);
            all.swap(i, usize::try_from(self.random.below(limit)).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!((last_name(0), last_name(999)), ("BARBARBAR".into(), "EINGEINGEING".into()));
    }

    #[test]
    fn uneven_numbers_stay_in_range_whatever_it_is() {
        let mut draw = Draw::new(3);
        for customers in [10, 300, 3000] {
            let all: Vec<i32> = (0..2000).map(|_| draw.customer(customers)).collect();
            assert!(all.iter().all(|c| (1..=customers).contains(c)), "{customers}");
        }
        assert!((0..1000).all(|_| (1..=20).contains(&draw.item(20))));
        let few: Vec<String> = (0..30).map(last_name).collect();
        assert!((0..1000).all(|_| few.contains(&draw.name(30))));
    }

    #[test]
    fn data_is_sometimes_original() {
        let mut draw = Draw::new(5);
        let all: Vec<String> = (0..1000).map(|_| draw.data()).collect();
        let originals = all.iter().filter(|d| d.contains(ORIGINAL)).count();
        assert!((50..200).contains(&originals), "{originals}");
        assert!(all.iter().all(|d| (26..=50).contains(&d.len())));
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut all = Draw::new(1).permutation(100);
        assert!(all.windows(2).any(|w| w[0] > w[1]));
        all.sort_unstable();
        assert_eq!(all, (1..=100).collect::<Vec<_>>());
    }
}
