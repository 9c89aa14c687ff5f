//! Runs golden scripts: commands, `---`, what happened, a blank line, and again. The files are the
//! protocol's specification by example. `SKEIN_BLESS=1` rewrites the outputs; the diff is reviewed.

use std::fs;
use std::path::{Path, PathBuf};

use block::InstanceNo;
use global::holder::HolderEvent;
use global::msg::{HolderMsg, Seq, Want};

use crate::world::{ADDR, Session, World, cr, v};

/// Something that executes the commands of a script, line by line.
pub trait Machine {
    /// Executes one command; appends what happened.
    fn command(&mut self, line: &str, out: &mut Vec<String>);
}

/// Runs every script in `tests/scripts/<folder>`, each with a fresh machine.
pub fn run_folder(folder: &str, machine: impl Fn() -> Box<dyn Machine>) {
    let dir = Path::new("tests/scripts").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&dir).expect("the script folder").map(|e| e.expect("entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no scripts in {}", dir.display());
    let bless = std::env::var_os("SKEIN_BLESS").is_some();
    let mut failed = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a script");
        let actual = run(&text, machine().as_mut());
        if actual == text {
            continue;
        }
        if bless {
            fs::write(file, actual).expect("write the script back");
        } else {
            println!("=== {} ===\n{actual}", file.display());
            failed.push(file.file_name().expect("a name").to_owned());
        }
    }
    assert!(failed.is_empty(), "output differs in {failed:?} (SKEIN_BLESS=1 rewrites it)");
}

/// The script with its outputs replaced by what happens now.
fn run(text: &str, machine: &mut dyn Machine) -> String {
    let mut result = String::new();
    let mut lines = text.lines().peekable();
    while lines.peek().is_some() {
        let mut out = Vec::new();
        let mut any = false;
        for line in lines.by_ref() {
            if line == "---" {
                break;
            }
            result.push_str(line);
            result.push('\n');
            let command = line.split('#').next().unwrap_or_default().trim();
            if !command.is_empty() {
                any = true;
                machine.command(command, &mut out);
            }
        }
        if any {
            result.push_str("---\n");
            for line in out {
                result.push_str(&line);
                result.push('\n');
            }
        }
        // The old output ends at an empty line.
        for line in lines.by_ref() {
            if line.trim().is_empty() {
                break;
            }
        }
        if lines.peek().is_some() {
            result.push('\n');
        }
    }
    result
}

pub fn instance(word: &str) -> InstanceNo {
    let digits = word.strip_prefix('i').unwrap_or_else(|| panic!("an instance, not {word:?}"));
    InstanceNo(digits.parse().unwrap_or_else(|_| panic!("an instance, not {word:?}")))
}

/// A cluster around one block.
struct Blocks(Option<World>);

impl Machine for Blocks {
    fn command(&mut self, line: &str, out: &mut Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["cluster", n, "master", m, "disk", d] = words[..] {
            let disk = d.strip_prefix('v').expect("a version").parse().expect("a version");
            let mut w = World::new(n.parse().expect("a count"), instance(m).0, disk);
            w.tracing = true;
            self.0 = Some(w);
            return;
        }
        let w = self.0.as_mut().expect("a script begins with `cluster`");
        w.now_us += 1;
        if let Some((who, act)) = line.split_once(": ") {
            node_command(w, instance(who), act);
        } else {
            cluster_command(w, &words);
        }
        w.check();
        out.append(&mut w.trace);
    }
}

fn cluster_command(w: &mut World, words: &[&str]) {
    match words {
        ["deliver"] => w.deliver_all(),
        ["deliver", from, to] => {
            assert!(w.deliver(instance(from), instance(to)), "nothing from {from} to {to}");
        }
        ["settle"] => {
            w.settle();
            w.check_at_rest();
        }
        ["lock", who] => {
            let master = w.master_no;
            let by = instance(who);
            w.masters.get_mut(&master).expect("master").lock_for_recovery(ADDR, by);
        }
        ["recovered", version] => {
            let version = v(version.trim_start_matches('v').parse().expect("a version"));
            w.disk = version;
            w.newest = version;
            let master = w.master_no;
            let mut out = Vec::new();
            let m = w.masters.get_mut(&master).expect("master");
            m.recovered(w.now_us, ADDR, version, &mut out);
            w.send_all(master, out);
        }
        ["show"] => show(w),
        ["crash", who] => w.crash(instance(who)),
        ["epoch"] => w.change_epoch(),

        _ => panic!("unknown command {words:?}"),
    }
}

fn show(w: &mut World) {
    let master = w.master_no;
    let entry = w.masters[&master].view(ADDR).map_or("nothing".into(), |e| e.to_string());
    w.note(|| format!("master i{master}: {entry}"));
    let lines: Vec<String> = w
        .nodes
        .iter()
        .filter(|(_, n)| n.alive)
        .map(|(i, n)| {
            let mut line = format!("i{i}: {}", n.holder.mode());
            if n.holder.readable() {
                line += &format!(" {}", n.version);
            }
            if n.dirty {
                line += " dirty";
            }
            if let Some(p) = n.past {
                line += &format!(", past image {p}");
            }
            line
        })
        .collect();
    let disk = w.disk;
    for line in lines {
        w.note(|| line);
    }
    w.note(|| format!("disk: {disk}"));
}

fn node_command(w: &mut World, i: InstanceNo, act: &str) {
    let newest = w.newest;
    let want = |want: Want| Session { want, newest };
    match act {
        "want S" => w.want(i, want(Want::S)),
        "want X" => w.want(i, want(Want::X)),
        "change" => w.change(i),
        "pin" => w.node(i).pins += 1,
        "pin X" => {
            w.node(i).pins += 1;
            w.node(i).change_pins += 1;
        }
        "unpin" | "unpin X" => {
            w.node(i).pins -= 1;
            w.node(i).change_pins -= u32::from(act == "unpin X");
            w.step(i, HolderEvent::Progress);
        }
        "flush done" => w.flush_done(i),
        "read done" => w.read_done(i, true),
        "read fails" => {
            w.node(i).waiting.clear();
            w.read_done(i, false);
        }
        "compare done" => w.compared(i),
        "write" => w.start_write(i),
        "write done" => w.write_done(i),
        "evict" => w.step(i, HolderEvent::EvictWanted),
        "checkpoint" => w.step(i, HolderEvent::CheckpointPast),
        "cancel" => {
            w.node(i).waiting.clear();
            w.step(i, HolderEvent::Cancel);
        }
        "repeat" => w.step(i, HolderEvent::Repeat),
        "freeze" => w.freeze(i),
        _ if act.starts_with("is told to invalidate, seq ") => {
            let seq = act.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
            let (from, msg) = (w.master_no, HolderMsg::Invalidate { seq: Seq(seq) });
            w.step(i, HolderEvent::Message { from, msg });
        }
        _ => match act.strip_prefix("want CR@") {
            Some(scn) => w.want(i, want(cr(scn.parse().expect("an SCN")))),
            None => panic!("unknown command {act:?}"),
        },
    }
}

#[test]
fn master_scripts() {
    run_folder("master", || Box::new(Blocks(None)));
}

#[test]
fn holder_scripts() {
    run_folder("holder", || Box::new(Blocks(None)));
}

#[test]
fn epoch_scripts() {
    run_folder("epoch", || Box::new(Blocks(None)));
}
