//! What `alter system` keeps in `skein.toml`.
//!
//! What it promises: comments and all other lines stay as they are; the file is the old one or the
//! new one, whatever happens; instances that write at once wait for each other. What it must never
//! do: write a text that an instance could not start with.

use crate::config::Config;
use crate::layout::Layout;
use block::InstanceNo;
use kernel::params::SettingsFile;
use std::fs::File;
use std::io::{self, Write as _};
use toml_edit::{DocumentMut, Item, Table, value};

pub struct KeptSettings {
    layout: Layout,
}

impl KeptSettings {
    pub fn new(layout: &Layout) -> KeptSettings {
        KeptSettings { layout: layout.clone() }
    }
}

fn wrong(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_string())
}

/// The text with a parameter set, or taken out, in the section of an instance or of all.
fn changed(
    text: &str,
    of: Option<InstanceNo>,
    name: &str,
    kept: Option<&str>,
) -> io::Result<String> {
    let mut document: DocumentMut = text.parse().map_err(wrong)?;
    let section = match of {
        None => document.entry("parameters").or_insert(Item::Table(Table::new())),
        Some(one) => {
            let mut all = Table::new();
            all.set_implicit(true);
            let all = document.entry("instance").or_insert(Item::Table(all));
            let all = all.as_table_like_mut().ok_or_else(|| wrong("[instance] is no section"))?;
            all.entry(&one.0.to_string()).or_insert(Item::Table(Table::new()))
        }
    };
    let section = section.as_table_like_mut().ok_or_else(|| wrong("[parameters] is no section"))?;
    match (kept, section.get_mut(name)) {
        // The comment behind an old value stays.
        (Some(kept), Some(Item::Value(old))) => {
            let decor = old.decor().clone();
            *old = kept.into();
            *old.decor_mut() = decor;
        }
        (Some(kept), _) => {
            section.insert(name, value(kept));
        }
        (None, _) => {
            section.remove(name);
        }
    }
    let text = document.to_string();
    Config::check_text(&text).map_err(|e| wrong(e.message))?;
    Ok(text)
}

impl SettingsFile for KeptSettings {
    fn keep(&self, of: Option<InstanceNo>, name: &str, kept: Option<&str>) -> io::Result<()> {
        let path = self.layout.settings();
        // Held until this call returns.
        let lock = File::create(self.layout.settings_lock())?;
        lock.lock()?;
        let old = std::fs::read_to_string(&path)?;
        let text = changed(&old, of, name, kept)?;
        let new_path = path.with_extension("toml.new");
        let mut new = File::create(&new_path)?;
        new.set_permissions(std::fs::metadata(&path)?.permissions())?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&new_path, &path)?;
        File::open(self.layout.dir())?.sync_all()
    }

    fn value(&self, of: InstanceNo, name: &str) -> io::Result<String> {
        let config = Config::load(&self.layout).map_err(|e| wrong(e.message))?;
        let settings = config.for_instance(of.0.into()).map_err(|e| wrong(e.message))?;
        settings.parameters.show(name).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# All.\ninstances = 2\n\n[parameters]\n# One.\nlog_files = \"3\" # three\n\
                        # undo_retention = \"900\"\n\n[instance.1]\nlisten = \"127.0.0.1:0\"\n";

    #[test]
    fn a_value_is_set_in_its_section_and_all_else_stays() {
        let set = |of, name, value| changed(TEXT, of, name, value);
        let told = set(None, "log_files", Some("4")).unwrap();
        assert_eq!(told, TEXT.replace("\"3\"", "\"4\""));
        let told = set(None, "undo_retention", Some("60")).unwrap();
        assert!(told.contains("three\nundo_retention = \"60\"\n"), "{told}");
        let told = set(Some(InstanceNo(2)), "undo_retention", Some("60")).unwrap();
        assert!(told.ends_with("\n[instance.2]\nundo_retention = \"60\"\n"), "{told}");
        assert_eq!(changed(&told, Some(InstanceNo(2)), "undo_retention", None).unwrap(), {
            format!("{TEXT}\n[instance.2]\n")
        });
        let told = set(None, "log_files", None).unwrap();
        assert!(!told.contains("log_files") && told.contains("# undo_retention"), "{told}");
    }

    #[test]
    fn what_no_instance_could_start_with_is_refused() {
        let set = |of, name, value| changed(TEXT, of, name, Some(value)).unwrap_err().to_string();
        assert!(set(None, "log_files", "1").contains("log_files"));
        assert!(set(None, "listen", "127.0.0.1:1").contains("[instance.K]"));
        assert!(set(Some(InstanceNo(3)), "log_files", "4").contains("instance.3"));
        assert!(changed("instances = ", None, "log_files", Some("4")).is_err());
    }
}
