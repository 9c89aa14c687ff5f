//! A crate imports only from layers below it, and only what its purpose allows.

use serde_json::Value;

/// Crate, layer, and what of ours it may import. The layers say what "below" is; the lists keep
/// the pure crates pure and the heavy ones away. See `docs/ARCHITECTURE.md`.
const CRATES: &[(&str, u8, &[&str])] = &[
    ("block", 0, &[]),
    ("env", 0, &[]),
    // The one import inside a layer: waits are timed by the environment's clock.
    ("observe", 0, &["env"]),
    ("global", 1, &["block"]),
    ("disk", 1, &["block", "env", "observe"]),
    ("cluster", 1, &["block", "env", "observe"]),
    // Tests note here what they have seen move.
    ("moved", 1, &["observe"]),
    // Pure: what clients were told.
    ("histories", 1, &[]),
    // Pure: text in, text out.
    ("report", 1, &[]),
    ("kernel", 2, &["block", "env", "observe", "global", "disk", "cluster", "moved"]),
    ("query", 3, &["kernel", "observe", "env", "block"]),
    (
        "sql",
        4,
        &["query", "kernel", "block", "env", "observe", "global", "disk", "cluster", "moved"],
    ),
    ("server", 5, &["sql", "query", "kernel", "cluster", "env", "observe", "block", "report"]),
    (
        "sim",
        6,
        &["kernel", "block", "env", "observe", "global", "disk", "cluster", "moved", "histories"],
    ),
    // Feeds decoders.
    ("fuzz", 6, &["block", "global", "cluster", "server"]),
    // Speaks only the client protocol.
    ("lab", 6, &["histories"]),
    (
        "cli",
        7,
        &[
            "server", "sql", "query", "kernel", "cluster", "disk", "env", "observe", "block",
            "moved", "lab", "report",
        ],
    ),
    ("xtask", 7, &[]),
];

/// A package of the workspace and the packages of the workspace it imports (tests' included).
struct Member {
    name: String,
    imports: Vec<String>,
}

pub fn check(metadata: &Value) -> Vec<String> {
    let members = members(metadata);
    if members.is_empty() {
        return vec!["cargo metadata names no packages of the workspace".to_owned()];
    }
    members.iter().flat_map(complaints).collect()
}

fn short(package: &str) -> &str {
    package.strip_prefix("skein-").unwrap_or(package)
}

fn members(metadata: &Value) -> Vec<Member> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let ids = list(metadata.get("workspace_members"));
    let mut members = Vec::new();
    for package in list(metadata.get("packages")) {
        if !package.get("id").is_some_and(|id| ids.contains(id)) {
            continue;
        }
        let name = |v: &Value| v.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
        let ours = |d: &&Value| d.get("path").is_some_and(Value::is_string);
        let imports = list(package.get("dependencies")).iter().filter(ours).map(name).collect();
        members.push(Member { name: name(&package), imports });
    }
    members
}

fn complaints(member: &Member) -> Vec<String> {
    let own = short(&member.name);
    let find = |name: &str| CRATES.iter().find(|(n, _, _)| *n == name);
    let Some((_, layer, allowed)) = find(own) else {
        return vec![format!("crate {own}: give it a layer in crates/xtask/src/tidy/layers.rs")];
    };
    let mut complaints = Vec::new();
    for import in member.imports.iter().map(|i| short(i)) {
        if !allowed.contains(&import) {
            let other = find(import).map_or(0, |(_, layer, _)| *layer);
            complaints.push(format!(
                "crates/{own}/Cargo.toml: {own} (layer {layer}) may not import {import} ({other})"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_only_point_downwards() {
        for (name, layer, allowed) in CRATES {
            for import in *allowed {
                let below = CRATES.iter().find(|(n, _, _)| n == import).expect("a crate of ours").1;
                let exception = *name == "observe" && *import == "env";
                assert!(below < *layer || exception, "{name} imports {import}");
            }
        }
    }

    #[test]
    fn an_upward_import_is_found() {
        let metadata = serde_json::json!({
            "workspace_members": ["a"],
            "packages": [
                {"id": "a", "name": "skein-disk", "dependencies": [
                    {"name": "skein-block", "path": "/x"}, {"name": "bytes", "path": null},
                    {"name": "skein-kernel", "path": "/x"}]},
                {"id": "b", "name": "bytes", "dependencies": []}]});
        let found = check(&metadata);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("disk (layer 1) may not import kernel (2)"), "{found:?}");
        assert_eq!(check(&serde_json::json!({})).len(), 1);
    }
}
