//! The clients' own list of transfers: what the database has acknowledged, and what it has not
//! answered.
//!
//! What it promises: entries reach the disk (written and synced) in batches, in order; the check
//! reads them back from the file. What it must never do: hold an entry that no client reported.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// One transfer; `id` is unique over all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    pub id: i64,
    pub src: i32,
    pub dst: i32,
    pub amount: i32,
}

/// How the client was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// COMMIT was confirmed: it must be there.
    Acknowledged,
    /// COMMIT was sent and not answered: it may be there.
    Unknown,
}

type Entry = (Outcome, Transfer);

/// The list while it is being written.
pub struct Book {
    writer: JoinHandle<io::Result<()>>,
    sender: Sender<Entry>,
}

/// A client's way to write to the list.
#[derive(Clone)]
pub struct Pen(Sender<Entry>);

impl Pen {
    /// Adds an entry. If the writer has ended, its error shows when the book is closed.
    pub fn write(&self, outcome: Outcome, transfer: Transfer) {
        let _ = self.0.send((outcome, transfer));
    }
}

impl Book {
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> io::Result<Book> {
        let file = File::create_new(path)?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new()
            .name("book".to_owned())
            .spawn(move || write_all(file, &receiver))?;
        Ok(Book { writer, sender })
    }

    #[must_use]
    pub fn pen(&self) -> Pen {
        Pen(self.sender.clone())
    }

    /// Waits until all is on disk; every pen must be gone.
    ///
    /// # Errors
    /// An entry could not be written.
    pub fn close(self) -> io::Result<()> {
        drop(self.sender);
        self.writer.join().map_err(|_| io::Error::other("the writer of the list has failed"))?
    }
}

fn write_all(mut file: File, receiver: &Receiver<Entry>) -> io::Result<()> {
    let mut batch = Vec::new();
    while let Ok(first) = receiver.recv() {
        batch.clear();
        for (outcome, t) in std::iter::once(first).chain(receiver.try_iter()) {
            let mark = match outcome {
                Outcome::Acknowledged => 'A',
                Outcome::Unknown => 'U',
            };
            writeln!(batch, "{mark} {} {} {} {}", t.id, t.src, t.dst, t.amount)?;
        }
        file.write_all(&batch)?;
        file.sync_data()?;
    }
    Ok(())
}

/// Reads a list back, sorted by id.
///
/// # Errors
/// The file cannot be read, or a line is not an entry.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let wrong = || io::Error::other(format!("not an entry of the list: {line}"));
        entries.push(parse(&line).ok_or_else(wrong)?);
    }
    entries.sort_by_key(|(_, t)| t.id);
    Ok(entries)
}

fn parse(line: &str) -> Option<Entry> {
    let mut parts = line.split(' ');
    let outcome = match parts.next()? {
        "A" => Outcome::Acknowledged,
        "U" => Outcome::Unknown,
        _ => return None,
    };
    let transfer = Transfer {
        id: parts.next()?.parse().ok()?,
        src: parts.next()?.parse().ok()?,
        dst: parts.next()?.parse().ok()?,
        amount: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some((outcome, transfer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_in_order() {
        let path = std::env::temp_dir().join(format!("skein-book-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let book = Book::create(&path).expect("a list");
        let transfer = |id| Transfer { id, src: 1, dst: 2, amount: 30 };
        let pen = book.pen();
        pen.write(Outcome::Unknown, transfer(7));
        pen.write(Outcome::Acknowledged, transfer(3));
        drop(pen);
        book.close().expect("written");
        let expected = [(Outcome::Acknowledged, transfer(3)), (Outcome::Unknown, transfer(7))];
        assert_eq!(read(&path).expect("readable"), expected);
        assert!(Book::create(&path).is_err(), "a list is never written over");
        std::fs::write(&path, "A 1 2\n").expect("written");
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).expect("removed");
    }
}
