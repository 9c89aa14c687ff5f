//! Where things are in a database's folder.

use std::path::{Path, PathBuf};

/// The folder of a database.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    pub fn new(dir: &Path) -> Layout {
        // Absolute, because background instances are started with it and sockets are named by it.
        Layout { dir: std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()) }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn settings(&self) -> PathBuf {
        self.dir.join("skein.toml")
    }

    /// Held locked by whoever changes the settings.
    pub fn settings_lock(&self) -> PathBuf {
        self.run().join("settings.lock")
    }

    /// What instances prove to each other that they belong to the cluster with.
    pub fn secret(&self) -> PathBuf {
        self.dir.join("secret")
    }

    /// Files of running instances; nothing in it outlives them.
    pub fn run(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// Held locked by instance `k`'s process for as long as it lives.
    pub fn lock(&self, k: u16) -> PathBuf {
        self.run().join(format!("instance_{k}.lock"))
    }

    /// What instance `k` says of itself.
    pub fn runtime(&self, k: u16) -> PathBuf {
        self.run().join(format!("instance_{k}.json"))
    }

    /// What a background instance prints.
    pub fn console(&self, k: u16) -> PathBuf {
        self.run().join(format!("instance_{k}.out"))
    }

    /// Trace files of all instances, unless `diagnostic_dest` says otherwise.
    pub fn traces(&self) -> PathBuf {
        self.dir.join("trace")
    }

    pub fn alert_log(&self, k: u16) -> PathBuf {
        self.dir.join(format!("alert_{k}.log"))
    }
}
