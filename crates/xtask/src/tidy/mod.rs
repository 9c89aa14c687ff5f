//! The rules of the tree that need no compiler: layers, order of modules, names that may not be
//! used, lengths, licences. A rule that lives only in a document is not followed for long.
//!
//! Each rule is a function from text to complaints, with a test that shows it complain.

mod layers;
mod licences;
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
    let mut rules = vec![
        ("layers of crates", layers::check(&metadata)),
        ("licences of dependencies", licences::check(&metadata)),
    ];
    rules.extend(sources::check(&run::root())?);
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
