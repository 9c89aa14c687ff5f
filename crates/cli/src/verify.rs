//! `skein verify`: walks all of a database and says what is damaged. Takes no lock and writes
//! nothing: instances may run meanwhile, and a crashed database is left as it is.

use crate::config::Config;
use crate::error::{CliError, Exit, Result, say};
use crate::layout::Layout;
use crate::node;
use crate::runtime::probe;
use env::real::RealEnv;
use kernel::verify::{Counts, Finding, Report, verify};
use observe::{Observer, SessionKind};
use serde_json::{Value, json};
use std::path::Path;

/// Findings of one sort that are printed; the JSON has all that were kept.
const SHOWN_MAX: usize = 50;

/// Prints what was found; damage is a failure.
pub fn run(dir: &Path, as_json: bool) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    let mut report = None;
    node::with_group(&layout, &config, async |group| {
        let lives = (1..=config.instances)
            .map(|k| probe(&layout, k).map(|running| running.is_some()))
            .collect::<Result<Vec<bool>>>()?;
        let observer = Observer::new(RealEnv::new(), 1);
        let ctx = observer.ctx(SessionKind::Background, "verify");
        report = Some(verify(&ctx, &group, lives.contains(&true)).await?);
        Ok(())
    })?;
    let Some(report) = report else { return Err(CliError::failed("nothing was looked at")) };
    if as_json {
        say!("{}", to_json(&report));
    } else {
        print(&report);
    }
    if report.is_clean() {
        return Ok(());
    }
    let n = report.damage.len() as u64 + report.counts.not_kept;
    Err(CliError::new(Exit::Failed, format!("damage in {n} places")))
}

fn rows_of(c: &Counts) -> [(&'static str, u64); 14] {
    [
        ("blocks", c.blocks),
        ("blocks changed by redo not yet applied", c.redo_blocks),
        ("segments", c.segments),
        ("tables", c.tables),
        ("indexes", c.indexes),
        ("rows", c.rows),
        ("index entries", c.entries),
        ("open transactions", c.active),
        ("rows they are at", c.unsettled_rows),
        ("unfinished splits", c.unfinished_splits),
        ("index blocks in no tree", c.stray_blocks),
        ("damaged blocks of nobody", c.damaged_free_blocks),
        ("findings not kept", c.not_kept),
        ("passes", c.passes),
    ]
}

fn print(report: &Report) {
    say!("database {}", report.state.word());
    for (name, n) in rows_of(&report.counts) {
        say!("{n:>12} {name}");
    }
    let sorts = [
        ("damage", &report.damage),
        ("not judged", &report.not_judged),
        ("lost space", &report.lost),
    ];
    for (name, findings) in sorts {
        say!("{:>12} {name}", findings.len());
    }
    for (name, findings) in sorts {
        for finding in findings.iter().take(SHOWN_MAX) {
            say!("{name}: {finding}");
        }
        if findings.len() > SHOWN_MAX {
            say!("{name}: {} more", findings.len() - SHOWN_MAX);
        }
    }
    say!("{}", if report.is_clean() { "no damage found" } else { "DAMAGED" });
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.word(),
        "block": finding.dba.to_string(),
        "version": finding.version.to_string(),
        "of": finding.of,
        "what": finding.what,
    })
}

fn to_json(report: &Report) -> Value {
    let list = |all: &[Finding]| all.iter().map(finding_json).collect::<Vec<_>>();
    let counts: serde_json::Map<String, Value> = rows_of(&report.counts)
        .iter()
        .map(|(name, n)| (name.replace(' ', "_"), Value::from(*n)))
        .collect();
    json!({
        "state": report.state.word(),
        "clean": report.is_clean(),
        "counts": counts,
        "damage": list(&report.damage),
        "not_judged": list(&report.not_judged),
        "lost": list(&report.lost),
    })
}
