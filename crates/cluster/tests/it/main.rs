//! The lock of an instance's slot (hazard H7) with real files and real processes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use block::InstanceNo;
use cluster::voting::{VotingFile, read};
use cluster::{Claim, Error};
use env::Env;
use env::real::RealEnv;

/// Names the voting file to a process that is to claim a slot of it.
const CHILD: &str = "SKEIN_H7_VOTING_FILE";

/// A folder on a file system with direct I/O, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::current_dir()
            .expect("the folder of the package")
            .join("../../target")
            .join(format!("h7-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

fn voting_file(env: &Env, scratch: &Scratch) -> PathBuf {
    let path = scratch.0.join("voting");
    block_on(VotingFile::create(env, &path, 3, true)).expect("a voting file");
    path
}

fn claim(env: &Env, path: &Path, me: u8) -> Result<Claim, Error> {
    block_on(Claim::take(env, path, InstanceNo(me), true))
}

fn is_refused(claim: &Result<Claim, Error>, pid: u32) -> bool {
    matches!(claim, Err(Error::AlreadyRunning { pid: holder, .. }) if *holder == pid)
}

/// What peers and tools do to the file all the time: opening it, reading it, closing it.
fn open_and_close(env: &Env, path: &Path) {
    drop(std::fs::read(path).expect("readable"));
    let view = block_on(read(env, path, true)).expect("a voting file");
    assert!(view.is_locked(InstanceNo(1)));
}

#[test]
#[allow(clippy::disallowed_methods)] // it waits for processes
fn h7_the_lock_survives_other_descriptors_and_refuses_a_second_holder() {
    let scratch = Scratch::new("descriptors");
    let env = RealEnv::new();
    let path = voting_file(&env, &scratch);
    let held = claim(&env, &path, 1).expect("the slot is free");
    for _ in 0..3 {
        // Also from this very process, which a POSIX lock would let in.
        assert!(is_refused(&claim(&env, &path, 1), std::process::id()));
        open_and_close(&env, &path);
    }
    // A process started meanwhile has none of it.
    let mut bystander = Command::new("sleep").arg("60").spawn().expect("sleep");
    let other = claim(&env, &path, 2).expect("another slot is another lock");
    drop(held);
    // A process that another test starts has our descriptors between fork and exec.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut next = claim(&env, &path, 1);
    while is_refused(&next, std::process::id()) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
        next = claim(&env, &path, 1);
    }
    bystander.kill().expect("it runs");
    bystander.wait().expect("it has ended");
    assert_eq!(next.expect("the slot is free again").incarnation(), 2);
    drop(other);
}

/// Runs in a process of its own: claims slot 1, starts a process itself, says so, and stays.
#[test]
fn child_process_that_claims_a_slot() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let env = RealEnv::new();
    let _held = claim(&env, Path::new(&path), 1).expect("the slot is free");
    let mut grandchild = Command::new("sleep").arg("60").spawn().expect("sleep");
    println!("claimed {}", grandchild.id());
    std::io::stdout().flush().expect("the parent reads");
    grandchild.wait().expect("it ends after a minute");
}

fn start_child(path: &Path) -> (Child, u32) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["child_process_that_claims_a_slot", "--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let grandchild = lines
        .map_while(Result::ok)
        .find_map(|l| l.split_once("claimed ")?.1.trim().parse().ok())
        .expect("the child claims its slot");
    (child, grandchild)
}

#[test]
fn h7_a_killed_holder_frees_its_slot_at_once_whatever_it_had_started() {
    let scratch = Scratch::new("killed");
    let env = RealEnv::new();
    let path = voting_file(&env, &scratch);
    let (mut child, grandchild) = start_child(&path);
    open_and_close(&env, &path);
    assert!(is_refused(&claim(&env, &path, 1), child.id()));
    let began = env.now();
    child.kill().expect("SIGKILL");
    child.wait().expect("it has ended");
    let next = claim(&env, &path, 1);
    let took = Duration::from_micros(env.now().since(began));
    let outlived = env.process_start_time(grandchild).is_some();
    // Ours to end, by its number.
    let _ = env.kill_process(grandchild);
    assert!(outlived, "the test proves nothing");
    assert_eq!(next.expect("the dead hold no lock").incarnation(), 2);
    assert!(took < Duration::from_secs(1), "the lock fell free after {took:?}");
}
