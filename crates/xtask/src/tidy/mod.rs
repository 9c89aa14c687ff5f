//! The rules of the tree that need no compiler: layers, order of modules, names that may not be
//! used, lengths, licences. A rule that lives only in a document is not followed for long.
//!
//! Each rule is a function from text to complaints, with a test that shows it complain.

mod hazards;
mod layers;
mod licences;
mod registries;
mod sources;

use crate::harness::Tally;
use crate::run;

/// `cargo x tidy`.
pub fn command() -> Result<bool, String> {
    let mut tally = Tally::default();
    run(&mut tally)?;
    Ok(tally.finish())
}

/// Counts each rule as one check.
pub fn run(tally: &mut Tally) -> Result<(), String> {
    println!("== tidy");
    let metadata = run::metadata()?;
    let root = run::root();
    let text = |name: &str| {
        std::fs::read_to_string(root.join(name)).map_err(|e| format!("read {name}: {e}"))
    };
    let page = text("docs/dependencies.md")?;
    let mut rules = vec![
        ("layers of crates", layers::check(&metadata)),
        ("licences of dependencies", licences::check(&metadata)),
        ("reasons for dependencies", licences::undescribed(&text("Cargo.toml")?, &page)),
    ];
    rules.extend(sources::check(&root)?);
    for (name, complaints) in rules {
        for complaint in &complaints {
            println!("{complaint}");
        }
        tally.check(
            &format!("tidy: {name} ({} complaints)", complaints.len()),
            complaints.is_empty(),
        );
    }
    Ok(())
}
