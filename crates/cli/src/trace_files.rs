//! Where sessions' traces are written: files in a folder beside the database's settings.
//!
//! What it promises: a file is only ever appended to, and one write a call; the folder is made when
//! the first trace is written. What it must never do: keep a file open, so that one that has been
//! moved away or removed is simply made again.

use crate::layout::Layout;
use observe::{Observer, TraceFiles};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

struct Folder {
    dir: PathBuf,
    prefix: String,
    banner: String,
    node: String,
}

/// Lets the sessions of instance `k` be traced.
pub fn follow(observer: &Observer, layout: &Layout, k: u16, set: &str) {
    let dir = match set {
        "" => layout.traces(),
        set => layout.dir().join(set),
    };
    let node = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let node = node.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned());
    let banner = format!(
        "Skein {} SQL trace\nNode name:\t{node}\nInstance name:\tskein{k}\n\
         Redo thread mounted by this instance: {k}\nUnix process pid: {}, image: skein@{node}\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    );
    let prefix = format!("skein_{k}");
    observer.set_trace_files(Box::new(Folder { dir, prefix, banner, node }));
}

impl TraceFiles for Folder {
    fn append(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let path = self.dir.join(name);
        let open = || File::options().create(true).append(true).open(&path);
        let mut file = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&self.dir)?;
                open()?
            }
            opened => opened?,
        };
        file.write_all(text)
    }

    fn size_bytes(&self, name: &str) -> u64 {
        std::fs::metadata(self.dir.join(name)).map_or(0, |file| file.len())
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn banner(&self) -> &str {
        &self.banner
    }

    fn node(&self) -> &str {
        &self.node
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_with_its_folder_and_appended_to() {
        let dir = std::env::temp_dir().join(format!("skein-traces-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let files = Folder {
            dir: dir.clone(),
            prefix: "skein_1".to_owned(),
            banner: String::new(),
            node: String::new(),
        };
        assert_eq!(files.size_bytes("a.trc"), 0);
        files.append("a.trc", b"one\n").expect("written");
        files.append("a.trc", b"two\n").expect("written");
        let there = std::fs::read_to_string(files.path("a.trc")).expect("the file");
        assert_eq!((there.as_str(), files.size_bytes("a.trc")), ("one\ntwo\n", 8));
        std::fs::remove_dir_all(&dir).expect("removed");
        std::fs::write(&dir, b"a file, no folder").expect("written");
        assert!(files.append("a.trc", b"lost").is_err());
        std::fs::remove_file(&dir).expect("removed");
    }
}
