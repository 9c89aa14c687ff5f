//! What an experiment holds its figures against, and the spread of figures over rounds.
//!
//! What it promises: a check says what was wanted and what was found, whether it holds or not. What
//! it must never do: hold by itself.

use serde_json::{Value, json};

/// How much a check means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An exact number: the work done was what it should be.
    Count,
    /// The effect of the experiment, by ratios and attributions.
    Effect,
    /// An effect in times too short to tell it from noise: told, and not judged.
    Unjudged,
    /// A figure to be beaten, which depends on the machine: a miss is told, and no failure.
    Goal,
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Count => "count",
            Kind::Effect => "effect",
            Kind::Unjudged => "unjudged",
            Kind::Goal => "goal",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub kind: Kind,
    pub what: String,
    pub wanted: String,
    pub found: String,
    pub holds: bool,
}

impl Check {
    /// A number that is known beforehand.
    #[must_use]
    pub fn count(what: impl Into<String>, wanted: i64, found: i64) -> Check {
        Check::that(Kind::Count, what, wanted.to_string(), found.to_string(), wanted == found)
    }

    /// A text that is known beforehand.
    #[must_use]
    pub fn story(what: impl Into<String>, wanted: &str, found: &str) -> Check {
        Check::that(Kind::Count, what, wanted.to_owned(), found.to_owned(), wanted == found)
    }

    /// `found` does not exceed `limit`.
    #[must_use]
    pub fn at_most(
        kind: Kind,
        what: impl Into<String>,
        limit: f64,
        found: f64,
        unit: &str,
    ) -> Check {
        let holds = found <= limit;
        Check::that(
            kind,
            what,
            format!("at most {}", shown(limit, unit)),
            shown(found, unit),
            holds,
        )
    }

    /// `found` reaches `limit`.
    #[must_use]
    pub fn at_least(
        kind: Kind,
        what: impl Into<String>,
        limit: f64,
        found: f64,
        unit: &str,
    ) -> Check {
        let holds = found >= limit;
        let wanted = format!("at least {}", shown(limit, unit));
        Check::that(kind, what, wanted, shown(found, unit), holds)
    }

    #[must_use]
    pub fn that(
        kind: Kind,
        what: impl Into<String>,
        wanted: impl Into<String>,
        found: impl Into<String>,
        holds: bool,
    ) -> Check {
        Check { kind, what: what.into(), wanted: wanted.into(), found: found.into(), holds }
    }

    /// Whether the experiment's effect is in doubt by it.
    #[must_use]
    pub fn fails(&self) -> bool {
        !self.holds && matches!(self.kind, Kind::Count | Kind::Effect)
    }

    /// One word for it.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.holds, self.kind) {
            (_, Kind::Unjudged) => "-",
            (true, _) => "ok",
            (false, Kind::Goal) => "missed",
            (false, _) => "FAILED",
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "kind": self.kind.name(), "what": self.what, "wanted": self.wanted,
            "found": self.found, "holds": self.holds,
        })
    }
}

/// A figure with its unit, with as many digits as say something.
#[must_use]
pub fn shown(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        a if a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        _ => 2,
    };
    let number = format!("{value:.digits$}");
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// The same figure of several rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    values: Vec<f64>,
}

impl Spread {
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
        self.values.sort_by(f64::total_cmp);
    }

    /// Middle one, or the mean of the two in the middle; not a number without rounds.
    #[must_use]
    pub fn median(&self) -> f64 {
        let n = self.values.len();
        match (self.values.get(n.saturating_sub(1) / 2), self.values.get(n / 2)) {
            (Some(a), Some(b)) => f64::midpoint(*a, *b),
            _ => f64::NAN,
        }
    }

    #[must_use]
    pub fn min(&self) -> f64 {
        self.values.first().copied().unwrap_or(f64::NAN)
    }

    #[must_use]
    pub fn max(&self) -> f64 {
        self.values.last().copied().unwrap_or(f64::NAN)
    }

    /// Median and range, for a table.
    #[must_use]
    pub fn text(&self, unit: &str) -> String {
        let (low, high) = (shown(self.min(), ""), shown(self.max(), ""));
        format!("{} ({low} to {high})", shown(self.median(), unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_holds_only_if_it_is_the_one() {
        let good = Check::count("gets", 39, 39);
        assert!(good.holds && !good.fails() && good.verdict() == "ok");
        let bad = Check::count("gets", 39, 40);
        assert!(bad.fails() && bad.verdict() == "FAILED");
        assert_eq!((bad.wanted.as_str(), bad.found.as_str()), ("39", "40"));
        assert!(
            !Check::story("walk", "10", "10").fails() && Check::story("walk", "9", "10").fails()
        );
    }

    #[test]
    fn limits_are_reached_and_not_passed() {
        assert!(!Check::at_most(Kind::Effect, "ratio", 3.0, 3.0, "").fails());
        assert!(Check::at_most(Kind::Effect, "ratio", 3.0, 3.01, "").fails());
        assert!(!Check::at_least(Kind::Effect, "ratio", 10.0, 10.0, "").fails());
        assert!(Check::at_least(Kind::Effect, "ratio", 10.0, 9.9, "").fails());
        // What was not measured is no success.
        assert!(Check::at_most(Kind::Effect, "ratio", 3.0, f64::NAN, "").fails());
        assert!(Check::at_least(Kind::Effect, "ratio", 3.0, f64::NAN, "").fails());
    }

    #[test]
    fn a_goal_that_is_missed_is_told_and_does_not_fail() {
        let missed = Check::at_most(Kind::Goal, "look-up", 5.0, 6.0, "us");
        assert!(!missed.fails() && missed.verdict() == "missed");
        assert_eq!(missed.found, "6.00 us");
    }

    #[test]
    fn what_is_not_judged_neither_holds_nor_fails() {
        for ratio in [2.0, 4.0] {
            let check = Check::at_most(Kind::Unjudged, "ratio", 3.0, ratio, "");
            assert!(!check.fails() && check.verdict() == "-");
        }
    }

    #[test]
    fn a_spread_has_its_middle_and_its_ends() {
        let mut spread = Spread::default();
        assert!(spread.median().is_nan());
        for value in [9.0, 1.0, 4.0] {
            spread.add(value);
        }
        assert_eq!((spread.min(), spread.median(), spread.max()), (1.0, 4.0, 9.0));
        spread.add(5.0);
        assert_eq!(spread.median().to_bits(), 4.5_f64.to_bits());
        assert_eq!(spread.text("s"), "4.50 s (1.00 to 9.00)");
    }
}
