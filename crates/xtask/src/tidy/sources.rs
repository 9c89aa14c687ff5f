//! Rules about source text: names that may not be used, order of the kernel's modules, lengths.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{hazards, registries};

/// Order inside `kernel`: a module may use only those of lines above its own.
const KERNEL_ORDER: &[&[&str]] = &[
    &["error"],
    &["params"],
    &["shown"],
    &["clock"],
    &["row"],
    &["redo"],
    &["cache"],
    &["change"],
    &["space"],
    &["undo"],
    &["txn"],
    &["read"],
    &["heap", "btree"],
    &["dict", "seq", "table"],
    &["recovery"],
    &["gcs", "lms"],
    &["instance"],
    &["verify"],
];

/// The dictionary is kept in tables, tables are described by the dictionary, and sequences are rows
/// of it: one level whose modules use each other. A second such circle needs a decision record.
const CIRCLE: &[&str] = &["dict", "seq", "table"];

const COLUMNS_MAX: usize = 100;
/// No file becomes longer than this; those that are stand in `long-files.txt` and may only shrink.
const LINES_MAX: usize = 1500;
const LONG_FILES: &str = include_str!("../../long-files.txt");

/// Crates that must behave the same from the same seed.
const DETERMINISTIC: [&str; 7] = ["block", "env", "observe", "global", "disk", "cluster", "kernel"];
/// Crates that may contain `unsafe`, each with the reason beside it.
const UNSAFE_CRATES: [&str; 3] = ["disk", "env", "block"];

/// (text, why not, what instead) in deterministic crates, tests excepted.
const NOT_DETERMINISTIC: &[(&str, &str)] = &[
    ("std::collections::HashMap", "iterates in a random order: BTreeMap, or rustc-hash's map"),
    ("collections::{HashMap", "iterates in a random order: BTreeMap, or rustc-hash's map"),
    ("HashMap::new(", "iterates in a random order: BTreeMap, or rustc-hash's map"),
    ("RandomState", "is random: rustc-hash"),
    ("Instant::now", "reads a clock: env.now()"),
    ("SystemTime::now", "reads a clock: env.wall_us()"),
    ("thread::spawn", "starts a thread: env.spawn_task()"),
    ("tokio::spawn", "needs a runtime: env.spawn_task()"),
    ("tokio::time", "needs a runtime: env.sleep()"),
];
/// In all our sources.
const LEFTOVERS: &[(&str, &str)] = &[
    ("todo!(", "is unfinished"),
    ("unimplemented!(", "is unfinished"),
    ("dbg!(", "is left over"),
    ("FIXME", "is unfinished"),
    ("/work/", "is a path of one machine"),
    ("/home/", "is a path of one machine"),
];
/// The glossary's one word per thing, in the crates that are ours alone.
const OTHER_WORDS: &[(&str, &str)] = &[("LSN", "SCN or Rba"), ("WAL", "redo"), ("tuple", "row")];
const WORD_CRATES: [&str; 4] = ["block", "global", "disk", "kernel"];

/// One Rust source file, as the rules look at it.
struct Source {
    /// Relative to the repository.
    path: String,
    text: String,
}

impl Source {
    fn krate(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|p| p.split('/').next()).unwrap_or("")
    }

    /// Tests may read clocks and start threads.
    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or("");
        name == "tests.rs" || self.path.contains("/tests/") || self.path.contains("/benches/")
    }

    /// Lines up to a test module at the end of the file.
    fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.take_while(|(_, l)| *l != "#[cfg(test)]").map(|(i, l)| (i + 1, l))
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// All rules over all sources.
pub fn check(root: &Path) -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let mut paths = Vec::new();
    walk(&root.join("crates"), "rs", &mut paths)?;
    let mut sources = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        sources.push(Source { path, text });
    }
    if sources.is_empty() {
        return Err(format!("no sources below {}", root.display()));
    }
    let all = |rule: fn(&Source) -> Vec<String>| sources.iter().flat_map(rule).collect();
    Ok(vec![
        ("names that are not deterministic", all(not_deterministic)),
        ("leftovers", all(leftovers)),
        ("words of the glossary", all(other_words)),
        ("order of the kernel's modules", all(kernel_order)),
        ("unsafe code", all(unsafe_code)),
        ("columns", all(columns)),
        ("length of files", all(|s| length(s, LONG_FILES))),
        ("a text at the top of each module", all(module_text)),
        ("READMEs", readmes(root)?),
        ("tests of the hazards", hazard_tests(root, &sources)?),
        ("producers of wait events and statistics", producers(&sources)),
    ])
}

fn producers(sources: &[Source]) -> Vec<String> {
    let product = |s: &&Source| !s.is_test() && registries::may_produce(&s.path);
    let texts: Vec<String> = sources
        .iter()
        .filter(product)
        .map(|s| s.product_lines().map(|(_, l)| l).filter(|l| !is_comment(l)).collect::<Vec<_>>())
        .map(|lines| lines.join("\n"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let check = |(file, call, kind): (&str, &str, &str)| {
        let registry = sources.iter().find(|s| s.path == file).map_or("", |s| s.text.as_str());
        registries::check(file, registry, call, kind, &texts)
    };
    registries::REGISTRIES.into_iter().flat_map(check).collect()
}

fn hazard_tests(root: &Path, sources: &[Source]) -> Result<Vec<String>, String> {
    let page = fs::read_to_string(root.join(hazards::PAGE));
    let page = page.map_err(|e| format!("{}: {e}", hazards::PAGE))?;
    let mut scripts = Vec::new();
    walk(&root.join("crates/global/tests/scripts"), "txt", &mut scripts)?;
    let stem = |p: &PathBuf| Some(p.file_stem()?.to_str()?.to_owned());
    let mut tests: BTreeSet<String> = scripts.iter().filter_map(stem).collect();
    // This rule's own tests name examples.
    let ours = sources.iter().filter(|s| s.krate() != "xtask");
    tests.extend(ours.flat_map(|s| hazards::functions(&s.text)).map(str::to_owned));
    Ok(hazards::check(&page, &tests))
}

fn walk(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("read {}: {e}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, extension, out)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
    Ok(())
}

fn banned(source: &Source, list: &[(&str, &str)], comments: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for (no, line) in source.product_lines() {
        for (text, why) in list {
            if (comments || !is_comment(line)) && line.contains(text) {
                complaints.push(format!("{}:{no}: {text} {why}", source.path));
            }
        }
    }
    complaints
}

fn not_deterministic(source: &Source) -> Vec<String> {
    // The real environment is where clocks and threads come from.
    let real = source.path.starts_with("crates/env/src/real");
    if real || source.is_test() || !DETERMINISTIC.contains(&source.krate()) {
        return Vec::new();
    }
    banned(source, NOT_DETERMINISTIC, false)
}

fn leftovers(source: &Source) -> Vec<String> {
    // This file names them.
    if source.path.ends_with("tidy/sources.rs") {
        return Vec::new();
    }
    banned(source, LEFTOVERS, true)
}

fn other_words(source: &Source) -> Vec<String> {
    if source.is_test() || !WORD_CRATES.contains(&source.krate()) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (no, line) in source.product_lines() {
        let words = line.split(|c: char| !c.is_alphanumeric());
        for (word, ours) in OTHER_WORDS {
            if words.clone().any(|w| w == *word) {
                complaints.push(format!("{}:{no}: not {word} but {ours}", source.path));
            }
        }
    }
    complaints
}

fn kernel_rank(module: &str) -> Option<usize> {
    KERNEL_ORDER.iter().position(|group| group.contains(&module))
}

/// The modules that a line of the kernel names as `crate::module`.
fn modules_used(line: &str) -> Vec<&str> {
    let mut used = Vec::new();
    for (at, prefix) in line.match_indices("crate::") {
        let macro_path = line[..at].ends_with('$');
        let rest = &line[at + prefix.len()..];
        let group = rest.strip_prefix('{').and_then(|r| r.split('}').next());
        let names: Vec<&str> = group.map_or_else(|| vec![rest], |g| g.split(',').collect());
        for name in names {
            let end = name.trim().find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = name.trim();
            let name = &name[..end.unwrap_or(name.len())];
            // Types and functions at the crate's root are re-exports: their modules are not named.
            if name.starts_with(|c: char| c.is_lowercase()) && !macro_path {
                used.push(name);
            }
        }
    }
    used
}

fn kernel_order(source: &Source) -> Vec<String> {
    let Some(inside) = source.path.strip_prefix("crates/kernel/src/") else {
        return Vec::new();
    };
    let own = inside.split(['/', '.']).next().unwrap_or("");
    if source.is_test() || ["lib", "tests", "testing"].contains(&own) {
        return Vec::new();
    }
    let Some(own_rank) = kernel_rank(own) else {
        let table = "crates/xtask/src/tidy/sources.rs";
        return vec![format!("{}: give module {own} a place in {table}", source.path)];
    };
    let mut complaints = Vec::new();
    for (no, line) in source.product_lines() {
        if is_comment(line) {
            continue;
        }
        for used in modules_used(line) {
            let circle = CIRCLE.contains(&used) && CIRCLE.contains(&own);
            let allowed =
                used == own || circle || kernel_rank(used).is_none_or(|rank| rank < own_rank);
            if !allowed {
                complaints.push(format!("{}:{no}: {own} may not use {used}", source.path));
            }
        }
    }
    complaints
}

fn unsafe_code(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut explained = false;
    for (no, line) in source.product_lines() {
        if is_comment(line) {
            explained |= line.contains("SAFETY");
            continue;
        }
        let code = line.split("//").next().unwrap_or(line);
        let used = ["unsafe {", "unsafe impl", "unsafe fn"].iter().any(|w| code.contains(w))
            && !code.contains('"');
        if used && !UNSAFE_CRATES.contains(&source.krate()) {
            complaints.push(format!("{}:{no}: unsafe code in this crate", source.path));
        } else if used && !explained {
            complaints.push(format!("{}:{no}: unsafe code without // SAFETY", source.path));
        }
        // A comment speaks for the statement that follows it.
        if code.trim_end().ends_with([';', '}']) {
            explained = false;
        }
    }
    complaints
}

fn columns(source: &Source) -> Vec<String> {
    let long = |(i, line): (usize, &str)| {
        let count = line.chars().count();
        // A string literal is one thing: the formatter leaves it whole, and so does this rule.
        let literal = line.contains('"');
        (count > COLUMNS_MAX && !literal)
            .then(|| format!("{}:{}: {count} columns", source.path, i + 1))
    };
    source.text.lines().enumerate().filter_map(long).collect()
}

/// `list` holds `path lines` for the files that are already longer.
fn length(source: &Source, list: &str) -> Vec<String> {
    if source.is_test() {
        return Vec::new();
    }
    let entry = list.lines().filter_map(|l| l.split_once(' ')).find(|(p, _)| *p == source.path);
    let listed: Option<usize> = entry.and_then(|(_, lines)| lines.trim().parse().ok());
    let limit = listed.unwrap_or(LINES_MAX).max(LINES_MAX);
    let lines = source.text.lines().count();
    if lines > limit {
        return vec![format!("{}: {lines} lines, at most {limit}", source.path)];
    }
    if listed.is_some_and(|l| lines < l) {
        return vec![format!("{}: now {lines} lines: say so in long-files.txt", source.path)];
    }
    Vec::new()
}

fn module_text(source: &Source) -> Vec<String> {
    let first = source.text.trim_start();
    let included = first.starts_with("#![doc = include_str!");
    let exempt = source.is_test() || !source.path.contains("/src/");
    if first.starts_with("//!") || included || exempt {
        return Vec::new();
    }
    vec![format!("{}: say at the top what it is for (//!)", source.path)]
}

/// Every crate, and every folder right below the kernel's, says what it is.
fn readmes(root: &Path) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for parent in ["crates", "crates/kernel/src"] {
        let entries = fs::read_dir(root.join(parent)).map_err(|e| format!("{parent}: {e}"))?;
        let mut folders: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        folders.sort();
        for folder in folders.iter().filter(|f| f.is_dir()) {
            if !folder.join("README.md").is_file() {
                let name = folder.strip_prefix(root).unwrap_or(folder);
                complaints.push(format!("{}: has no README.md", name.display()));
            }
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn clocks_are_found_in_the_kernel_but_not_where_they_belong() {
        let text = "fn f() {\n    let t = Instant::now();\n}\n// Instant::now in words\n";
        let found = not_deterministic(&source("crates/kernel/src/redo/mod.rs", text));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/kernel/src/redo/mod.rs:2: Instant::now"));
        for path in
            ["crates/env/src/real/mod.rs", "crates/server/src/a.rs", "crates/disk/tests/it/main.rs"]
        {
            assert!(not_deterministic(&source(path, text)).is_empty(), "{path}");
        }
        let in_tests = format!("fn g() {{}}\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert!(not_deterministic(&source("crates/disk/src/a.rs", &in_tests)).is_empty());
    }

    #[test]
    fn leftovers_are_found_in_comments_too() {
        let found = leftovers(&source("crates/sql/src/a.rs", "// FIXME later\nfn f() { todo!() }"));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn other_words_are_found_as_words() {
        let text = "// the LSN of it\nlet walk = WALL;\n";
        let found = other_words(&source("crates/block/src/a.rs", text));
        assert_eq!(found, ["crates/block/src/a.rs:1: not LSN but SCN or Rba"]);
    }

    #[test]
    fn modules_are_used_only_leftwards() {
        let used = modules_used("use crate::{cache::Buffer, redo}; crate::txn::x($crate::undo::y)");
        assert_eq!(used, ["cache", "redo", "txn"]);
        assert_eq!(modules_used("use crate::Error;"), Vec::<&str>::new());
        let found = |path: &str, text: &str| kernel_order(&source(path, text));
        let cache = "crates/kernel/src/cache/mod.rs";
        assert!(found(cache, "use crate::redo::Log;\nuse crate::cache::x;").is_empty());
        assert_eq!(found(cache, "use crate::txn::Txn;").len(), 1);
        assert_eq!(found("crates/kernel/src/heap/a.rs", "use crate::btree::B;").len(), 1);
        assert!(found("crates/kernel/src/dict/a.rs", "use crate::table::T;").is_empty());
        assert_eq!(found("crates/kernel/src/dict/a.rs", "use crate::instance::I;").len(), 1);
        assert_eq!(found("crates/kernel/src/novel.rs", "").len(), 1);
        assert!(found("crates/kernel/src/cache/tests.rs", "use crate::txn::Txn;").is_empty());
    }

    #[test]
    fn unsafe_code_needs_a_place_and_a_reason() {
        let bare = "fn f() {\n    unsafe { g() };\n}\n";
        let good = "fn f() {\n    // SAFETY: g has no conditions.\n    unsafe { g() };\n}\n";
        assert_eq!(unsafe_code(&source("crates/env/src/a.rs", bare)).len(), 1);
        assert!(unsafe_code(&source("crates/env/src/a.rs", good)).is_empty());
        assert_eq!(unsafe_code(&source("crates/kernel/src/a.rs", good)).len(), 1);
    }

    #[test]
    fn long_lines_and_files_are_found() {
        let wide = "x".repeat(101);
        assert_eq!(
            columns(&source("crates/a/src/a.rs", &wide)),
            ["crates/a/src/a.rs:1: 101 columns"]
        );
        let text = "\n".repeat(1501);
        let long = source("crates/a/src/a.rs", &text);
        assert_eq!(length(&long, "").len(), 1);
        assert_eq!(length(&long, "crates/a/src/a.rs 1501"), Vec::<String>::new());
        assert_eq!(length(&long, "crates/a/src/a.rs 1600").len(), 1, "the list only shrinks");
    }

    #[test]
    fn a_module_says_what_it_is_for() {
        assert_eq!(module_text(&source("crates/a/src/a.rs", "use x;\n")).len(), 1);
        assert!(module_text(&source("crates/a/src/a.rs", "//! What for.\n")).is_empty());
    }
}
