//! `docs/hazards.md` against the tests: every hazard has a line, every test named there exists, and
//! every test that is named for a hazard stands there.

use std::collections::{BTreeMap, BTreeSet};

pub const PAGE: &str = "docs/hazards.md";
/// How many hazards of each kind there are.
const COUNTS: [(char, u32); 3] = [('C', 18), ('H', 24), ('M', 9)];
/// What a line says that has no test, and why.
const NO_CODE: &str = "no code yet: ";

/// The names of the functions in a source.
pub fn functions(source: &str) -> impl Iterator<Item = &str> {
    let names = source.lines().filter_map(|l| {
        let l = l.trim_start();
        let l = l.strip_prefix("pub ").unwrap_or(l);
        let l = l.strip_prefix("async ").unwrap_or(l);
        l.strip_prefix("fn ")
    });
    names.filter_map(|l| l.split(['(', '<']).next())
}

/// Whether a test's name begins with the numbers of hazards: `c5_…`, `h5b_and_h6_…`, `hazard_m8_…`.
fn is_named_for_one(name: &str) -> bool {
    let name = name.strip_prefix("hazard_").unwrap_or(name);
    let Some((first, rest)) = name.split_once('_') else { return false };
    let number = first.trim_start_matches(['c', 'h', 'm']).trim_end_matches(['a', 'b', 'c']);
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    digits && first.starts_with(['c', 'h', 'm']) && !rest.is_empty()
}

/// Complaints about the page; `tests`: the names of all test functions and scripts.
pub fn check(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut lines: BTreeMap<String, u32> = BTreeMap::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", number, _, covered, ""] = cells[..] else { continue };
        if !number.ends_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        *lines.entry(number.to_owned()).or_default() += 1;
        if covered.starts_with(NO_CODE) {
            continue;
        }
        let names: Vec<&str> = covered.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            complaints.push(format!("{PAGE}: {number} has no test"));
        }
        for name in names {
            named.insert(name);
            if !tests.contains(name) {
                complaints.push(format!("{PAGE}: {number}: there is no test {name}"));
            }
        }
    }
    for (kind, count) in COUNTS {
        for n in 1..=count {
            let found = lines.get(&format!("{kind}{n}")).copied().unwrap_or(0);
            if found != 1 {
                complaints.push(format!("{PAGE}: {found} lines for {kind}{n}"));
            }
        }
    }
    for test in tests.iter().filter(|t| is_named_for_one(t) && !named.contains(t.as_str())) {
        complaints.push(format!("{PAGE}: test {test} is not in it"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let line = |kind, n| format!("| {kind}{n} | text | `a_test` |\n");
        COUNTS.iter().flat_map(|&(kind, count)| (1..=count).map(move |n| line(kind, n))).collect()
    }

    fn tests(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn missing_lines_tests_and_names_are_found() {
        let all = tests(&["a_test"]);
        assert!(check(&page(), &all).is_empty());
        let found = check(&page().replace("| C5 ", "| C4 "), &all);
        assert_eq!(found, ["docs/hazards.md: 2 lines for C4", "docs/hazards.md: 0 lines for C5"]);
        let found = check(&page().replace("| H2 | text | `a_test` |", "| H2 | text | |"), &all);
        assert_eq!(found, ["docs/hazards.md: H2 has no test"]);
        let without = "| H2 | text | no code yet: reason |";
        assert!(check(&page().replace("| H2 | text | `a_test` |", without), &all).is_empty());
        let found = check(&page(), &tests(&[]));
        assert_eq!(found.len(), 51);
        assert_eq!(found[0], "docs/hazards.md: C1: there is no test a_test");
        let found = check(&page(), &tests(&["a_test", "c7_c8_both", "hazard_m8_a", "cr_2_way"]));
        let expected =
            ["c7_c8_both", "hazard_m8_a"].map(|t| format!("{PAGE}: test {t} is not in it"));
        assert_eq!(found, expected);
    }

    #[test]
    fn functions_of_a_source_are_found() {
        let source = "#[test]\nfn c5_one() {\n    async fn two<T>(x: T) {}\n}\npub fn three() {}\n";
        assert_eq!(functions(source).collect::<Vec<_>>(), ["c5_one", "two", "three"]);
    }
}
