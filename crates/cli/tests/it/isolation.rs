//! Isolation, by interleavings: what each session of a spec in `tests/isolation` is told, with all
//! sessions on one instance, with sessions spread over three, and by PostgreSQL.

mod run;
mod spec;
mod system;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::db::Db;
use spec::{Place, Spec};
use system::System;

/// Specs are of this folder.
fn folder() -> PathBuf {
    PathBuf::from("../../tests/isolation")
}

/// All specs; only those whose name contains `ISOLATION`, if that is set.
fn specs() -> Vec<Spec> {
    let only = std::env::var("ISOLATION").unwrap_or_default();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the specs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "spec"))
        .filter(|p| p.to_string_lossy().contains(&only))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no specs");
    paths.iter().map(|path| Spec::read(path)).collect()
}

/// Runs all specs and compares; with `BLESS` set writes what was said.
async fn check(system: &System, place: Place) {
    let bless = std::env::var_os("BLESS").is_some();
    let mut complaints = String::new();
    for mut spec in specs() {
        for (at, case, said) in run::run(system, &spec, place).await {
            if bless {
                spec.bless(at, case, said);
                continue;
            }
            if spec.expected(at, &case) != Some(&said) {
                let of = &spec.permutations[at];
                let expected = spec.expected(at, &case).map_or("nothing", String::as_str);
                let _ = writeln!(
                    complaints,
                    "{} line {}, {} {}: expected\n{expected}but was told\n{said}",
                    spec.name(),
                    of.line,
                    of.text,
                    case.level,
                );
            }
        }
        if bless {
            spec.write();
        }
    }
    assert!(complaints.is_empty(), "{place:?}\n{complaints}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interleavings_on_one_instance_and_over_three() {
    let db = Db::open(3);
    let system = System::skein(&db).await;
    check(&system, Place::OneInstance).await;
    check(&system, Place::Spread).await;
}

/// The same in PostgreSQL, of which `SKEIN_ISOLATION_PG` names a database by a connection string
/// of a superuser; `scripts/isolation-pg` makes one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: scripts/isolation-pg"]
async fn interleavings_in_postgresql() {
    let url = std::env::var("SKEIN_ISOLATION_PG").expect("SKEIN_ISOLATION_PG names a database");
    let system = System::postgresql(&url).await;
    check(&system, Place::PostgreSql).await;
}

/// An answer of PostgreSQL's own, or of several instances' own, is a difference, and
/// `docs/isolation.md` tells of each file with one.
#[test]
fn every_difference_is_told() {
    let page = Path::new("../../docs/isolation.md");
    let page = std::fs::read_to_string(page).expect("docs/isolation.md");
    for spec in specs() {
        let cases = spec.permutations.iter().flat_map(|p| p.expected.keys());
        let differs = cases.clone().any(|case| case.place != Place::OneInstance);
        let told = page.contains(&format!("`{}`", spec.name()));
        assert!(told || !differs, "docs/isolation.md does not say how {} differs", spec.name());
        assert!(cases.count() > 0, "{} expects nothing", spec.name());
    }
}
