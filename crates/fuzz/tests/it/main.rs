//! Each target for a second, from a seed that is always the same; and that the rules are held.

use std::time::Duration;

/// One test: memory is counted for the whole process.
#[test]
fn decoders_stand_what_others_may_have_written() {
    for target in fuzz::targets() {
        let report = fuzz::run(target, 1, Duration::from_secs(1)).unwrap_or_else(|e| panic!("{e}"));
        println!("{}: {report:?}", target.name);
        assert!(report.inputs > 100 && report.answers > 1, "{}: {report:?}", target.name);
    }
}
