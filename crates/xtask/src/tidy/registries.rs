//! Wait events, statistics, marks and points against the sources: what no code produces is deleted,
//! so that every row of a view can move, and every mark be reached.

/// (file of the registry, its macro, its enum)
pub const REGISTRIES: [(&str, &str, &str); 4] = [
    ("crates/env/src/marks.rs", "marks! {", "Mark"),
    ("crates/env/src/marks.rs", "points! {", "Point"),
    ("crates/observe/src/events.rs", "wait_events! {", "WaitEvent"),
    ("crates/observe/src/stats.rs", "statistics! {", "Stat"),
];

/// Whether a source may produce what is registered: product code above or in `observe`, but not the
/// registries, nor what only shows them.
pub fn may_produce(path: &str) -> bool {
    let shows = ["crates/sql/src/catalog/views", "crates/lab/", "crates/sim/", "crates/xtask/"];
    let registry = REGISTRIES.iter().any(|r| r.0 == path);
    !registry && !shows.iter().any(|s| path.starts_with(s))
}

/// The names in a registry: the lines `Name: "its name", …` of its macro's call.
fn names<'a>(registry: &'a str, call: &str) -> Vec<&'a str> {
    let lines = registry.lines().skip_while(|l| *l != call).take_while(|l| *l != "}");
    let names = lines.filter_map(|l| l.strip_prefix("    ")?.split_once(": \""));
    names.map(|(name, _)| name).filter(|n| n.chars().all(char::is_alphanumeric)).collect()
}

fn is_named(source: &str, path: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    source.match_indices(path).any(|(at, _)| ends(&source[at + path.len()..]))
}

/// Complaints about one registry; `sources`: all that may produce what it registers.
pub fn check(file: &str, registry: &str, call: &str, kind: &str, sources: &[&str]) -> Vec<String> {
    let names = names(registry, call);
    if names.is_empty() {
        return vec![format!("{file}: no names found after {call}")];
    }
    let dead = names.into_iter().filter(|name| {
        let path = format!("{kind}::{name}");
        !sources.iter().any(|s| is_named(s, &path))
    });
    dead.map(|name| format!("{file}: nothing produces {kind}::{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_produces_is_found() {
        let registry = "macro\nstats! {\n    // ---- redo\n    Redo: \"redo\", Redo,\n        \
                        \"Text: \\\"x\\\".\";\n    RedoSize: \"redo size\", Redo, \"Text.\";\n}\n\
                        Later: \"no\"\n";
        let check = |sources: &[&str]| check("stats.rs", registry, "stats! {", "Stat", sources);
        assert!(check(&["bump(Stat::Redo, 1)", "Stat::RedoSize"]).is_empty());
        assert_eq!(check(&["Stat::RedoSize"]), ["stats.rs: nothing produces Stat::Redo"]);
        assert_eq!(check(&["MyStat::Redo;", ""]).len(), 1, "a name is looked for as it is used");
        assert_eq!(super::check("f", "", "stats! {", "Stat", &[]).len(), 1);
    }

    #[test]
    fn what_shows_a_registry_does_not_produce() {
        assert!(may_produce("crates/kernel/src/cache/pool.rs"));
        assert!(may_produce("crates/observe/src/observer.rs"));
        assert!(!may_produce("crates/observe/src/stats.rs"));
        assert!(!may_produce("crates/sql/src/catalog/views/cache.rs"));
    }
}
