//! `skein report --ash`: what sessions did in the last minutes, out of samples of them.

use crate::error::{CliError, Exit, Result};
use crate::reports::{ask, name_of, put};
use std::path::Path;

/// Reports on the samples of all instances, or of one.
///
/// # Errors
/// No instance is open, or none keeps samples; the file cannot be written.
pub fn report(
    dir: &Path,
    minutes: u32,
    instance: Option<u16>,
    html: bool,
    output: Option<&Path>,
) -> Result<()> {
    if let Some(k) = instance {
        crate::config::Config::load(&crate::layout::Layout::new(dir))?.check_instance(k)?;
    }
    let database = name_of(dir);
    let samples = ask(dir, async |asked| {
        let answers = asked.all(report::samples_statements(minutes, instance)).await?;
        let none = "this server keeps no active session history";
        report::samples(&database, answers).ok_or_else(|| CliError::new(Exit::State, none))
    })?;
    let text = if html { report::ash_html(&samples) } else { report::ash_text(&samples) };
    put(&text, output)
}
