//! Every dependency's licence must let us ship under Apache-2.0.

use serde_json::Value;

const ALLOWED: [&str; 14] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "CC0-1.0",
    "BSL-1.0",
    "MPL-2.0",
    "Unlicense",
];

pub fn check(metadata: &Value) -> Vec<String> {
    let packages = metadata.get("packages").and_then(Value::as_array);
    let Some(packages) = packages else {
        return vec!["cargo metadata names no packages".to_owned()];
    };
    let mut complaints = Vec::new();
    for package in packages {
        let text = |key: &str| package.get(key).and_then(Value::as_str).unwrap_or("");
        if !allowed(text("license")) {
            let (name, version) = (text("name"), text("version"));
            complaints.push(format!("{name} {version}: licence {:?}", text("license")));
        }
    }
    complaints
}

/// Every dependency of the workspace has its line in `docs/dependencies.md`.
pub fn undescribed(manifest: &str, page: &str) -> Vec<String> {
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap_or("");
    let lines = table.lines().take_while(|l| !l.starts_with('['));
    let names = lines.filter_map(|l| l.split_once('=').map(|(name, _)| name.trim()));
    let ours = |name: &&str| name.starts_with("skein-") || name.contains(['"', ' ']);
    let found = names.filter(|n| !ours(n) && !page.contains(&format!("| {n} |")));
    found.map(|n| format!("docs/dependencies.md: say what {n} is for")).collect()
}

/// Whether an SPDX expression can be met with the list. `/` is the old way to write OR.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&tokens, &mut at) == Some(true) && at == tokens.len()
}

fn either(tokens: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = both(tokens, at)?;
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(tokens, at)?;
    }
    Some(met)
}

fn both(tokens: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = one(tokens, at)?;
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at)?;
    }
    Some(met)
}

fn one(tokens: &[&str], at: &mut usize) -> Option<bool> {
    let token = *tokens.get(*at)?;
    *at += 1;
    if token == "(" {
        let met = either(tokens, at)?;
        (tokens.get(*at) == Some(&")")).then(|| *at += 1)?;
        return Some(met);
    }
    let mut name = token.to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        name = format!("{token} WITH {}", tokens.get(*at + 1)?);
        *at += 2;
    }
    Some(ALLOWED.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "MIT Apache-2.0", "OR MIT"] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn an_undescribed_dependency_is_found() {
        let manifest = "[workspace.dependencies]\nskein-a = 1\nclap = { x = 1,\n  \"y\"] }\n\
                        nix = 2\n[lints]\nz = 1\n";
        let found = undescribed(manifest, "| clap | command line |");
        assert_eq!(found, ["docs/dependencies.md: say what nix is for"]);
    }

    #[test]
    fn a_package_without_a_licence_is_found() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "version": "1", "license": "MIT"}, {"name": "b", "version": "2"}]});
        assert_eq!(check(&metadata), ["b 2: licence \"\""]);
    }
}
