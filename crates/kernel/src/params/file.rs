//! The file that parameters are read from when an instance starts, as the instance sees it.
//!
//! What it promises: the kernel asks for a change and knows nothing of the file's form or place.
//! What it must never do: be asked for a value that has not been checked.

use std::io;

use block::InstanceNo;

/// Where parameters stand that outlive an instance.
pub trait SettingsFile: Send + Sync {
    /// Writes a value; `None` takes it out, so that the default holds again. Of all instances, or
    /// of one alone: there it goes before what is said of all.
    ///
    /// # Errors
    /// The file cannot be read or written, or what would stand in it is not allowed there. It is
    /// then as it was.
    fn keep(&self, of: Option<InstanceNo>, name: &str, value: Option<&str>) -> io::Result<()>;

    /// The value that an instance would start with, as a user would write it.
    ///
    /// # Errors
    /// The file cannot be read, or an instance could not start with it.
    fn value(&self, of: InstanceNo, name: &str) -> io::Result<String>;
}
