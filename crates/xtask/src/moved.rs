//! What the tests of a whole run have seen move: every statistic and wait event must be among it.
//!
//! The test executables write what they note to a folder (`crates/moved`). What it must never do:
//! pass because nothing was noted.

use std::collections::BTreeMap;
use std::path::Path;

/// What must have been noted at all.
const KINDS: [&str; 2] = ["statistic", "event"];

/// Complaints about what the files in `folder` say.
pub fn check(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("read {}: {e}", folder.display());
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        text.push_str(&std::fs::read_to_string(path).map_err(failed)?);
    }
    Ok(complaints(&text))
}

/// `text`: lines of a kind, a name, whether it has moved (0 or 1), and who noted it.
fn complaints(text: &str) -> Vec<String> {
    let mut moved: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    let mut complaints = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            [kind, name, "0" | "1", _] => {
                *moved.entry((kind, name)).or_default() |= words[2] == "1";
            }
            _ => complaints.push(format!("not a note of what moved: {line}")),
        }
    }
    for kind in KINDS {
        if !moved.keys().any(|(k, _)| *k == kind) {
            complaints.push(format!("no test has noted any {kind}"));
        }
    }
    let still = moved.iter().filter(|(_, moved)| !**moved);
    complaints.extend(still.map(|((kind, name), _)| format!("no test moves the {kind} {name}")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_test_moves_is_named() {
        let text = "statistic\tredo size\t0\ta\nevent\tlog file sync\t0\ta\n\
                    event\tlog file sync\t1\tb\nstatistic\tredo size\t1\tc\n";
        assert_eq!(complaints(text), Vec::<String>::new());
        let still = format!("{text}statistic\tredo wastage\t0\tc\n");
        assert_eq!(complaints(&still), ["no test moves the statistic redo wastage"]);
        assert_eq!(complaints("statistic\tredo size\t1\tc\n"), ["no test has noted any event"]);
        assert_eq!(complaints("").len(), KINDS.len(), "silence is no success");
        assert!(
            complaints(&format!("{text}redo")).contains(&"not a note of what moved: redo".into())
        );
    }

    #[test]
    fn the_files_of_a_folder_count_together() {
        let folder = std::env::temp_dir().join(format!("skein-moved-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("1"), "statistic\ta\t0\tx\nevent\tb\t1\tx\n").expect("a file");
        assert_eq!(check(&folder).expect("readable"), ["no test moves the statistic a"]);
        std::fs::write(folder.join("2"), "statistic\ta\t1\ty\n").expect("a file");
        assert!(check(&folder).expect("readable").is_empty());
        std::fs::remove_dir_all(&folder).expect("it goes");
        assert!(check(&folder).is_err());
    }
}
