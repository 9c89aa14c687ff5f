//! A toy engine: `rows N`, `echo`, `fail`, `panic`, `wait`, `copyin`, `copyout N`, `begin`,
//! `commit`.

use bytes::{BufMut, Bytes};
use server::engine::{
    ClientWaits, Column, Description, Engine, Fetched, Interrupt, Login, Notification, Parameters,
    Session, User,
};
use server::{Output, Report, Severity, scram_verifier};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

pub struct Toy {
    pub verifier: String,
    pub alerts: std::sync::Mutex<Vec<String>>,
    pub closed: AtomicUsize,
    pub writes: Arc<AtomicUsize>,
}

impl Toy {
    pub fn new() -> Toy {
        Toy {
            verifier: scram_verifier("secret"),
            alerts: std::sync::Mutex::default(),
            closed: AtomicUsize::new(0),
            writes: Arc::default(),
        }
    }
}

impl Engine for ToyEngine {
    type Session = ToySession;

    fn enter_session_thread(&self) {}

    async fn user(&self, name: &str) -> Result<Option<User>, Report> {
        Ok((name == "ann")
            .then(|| User { verifier: Some(self.0.verifier.clone()), superuser: false }))
    }

    async fn open(&self, login: Login) -> Result<ToySession, Report> {
        if login.database != "toy" {
            return Err(Report::fatal("3D000", "no such database"));
        }
        Ok(ToySession {
            pid: NEXT_PID.fetch_add(1, Ordering::Relaxed),
            toy: Arc::clone(&self.0),
            stop: Arc::default(),
            status: b'I',
            copied: 0,
            notices: Vec::new(),
            changes: vec![("server_version".into(), "15.0 (Toy)".into())],
        })
    }

    fn alert(&self, text: &str) {
        self.0.alerts.lock().unwrap().push(text.to_owned());
    }

    fn secret(&self) -> [u8; 32] {
        [9; 32]
    }
}

/// The engine as the server holds it.
pub struct ToyEngine(pub Arc<Toy>);

#[derive(Default)]
struct Stop {
    why: AtomicUsize,
    notify: Notify,
}

impl Interrupt for Stop {
    fn cancel(&self) {
        self.why.store(1, Ordering::SeqCst);
        self.notify.notify_one();
    }
    fn terminate(&self) {
        self.why.store(2, Ordering::SeqCst);
        self.notify.notify_one();
    }
}

struct Waits(Arc<AtomicUsize>);

impl ClientWaits for Waits {
    fn read(&self, _: bool, read: &mut dyn FnMut() -> usize) {
        read();
    }
    fn write(&self, _: bool, _: usize, write: &mut dyn FnMut()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        write();
    }
}

#[derive(Clone)]
pub struct Prepared {
    text: Arc<str>,
    columns: Arc<[Column]>,
    oids: Arc<[u32]>,
}

pub struct Portal {
    text: Arc<str>,
    next: usize,
    param: Option<Bytes>,
}

static NEXT_PID: AtomicI32 = AtomicI32::new(1);

pub struct ToySession {
    pid: i32,
    toy: Arc<Toy>,
    stop: Arc<Stop>,
    status: u8,
    copied: usize,
    notices: Vec<Report>,
    changes: Vec<(String, String)>,
}

fn put_row(out: &mut Output, value: &[u8]) {
    let row = out.row();
    row.put_u16(1);
    row.put_u32(u32::try_from(value.len()).unwrap());
    row.put_slice(value);
}

fn number(text: &str) -> usize {
    text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl ToySession {
    fn plan(text: &str) -> Prepared {
        let returns_rows = ["rows", "echo"].iter().any(|w| text.starts_with(w));
        let column = Column {
            name: "v".into(),
            type_oid: 25,
            type_len: -1,
            type_modifier: -1,
            table_oid: 0,
            attnum: 0,
        };
        Prepared {
            text: text.into(),
            columns: returns_rows.then_some(column).into_iter().collect(),
            oids: if text.starts_with("echo") { [25].into() } else { [].into() },
        }
    }

    async fn run(
        &mut self,
        p: &mut Portal,
        max: usize,
        out: &mut Output,
    ) -> Result<Fetched, Report> {
        let text = Arc::clone(&p.text);
        if self.status == b'E' && &*text != "commit" {
            return Err(Report::error("25P02", "current transaction is aborted"));
        }
        match text.split(' ').next().unwrap_or("") {
            "rows" => {
                let n = number(&text);
                let end = if max == 0 { n } else { n.min(p.next + max) };
                while p.next < end {
                    put_row(out, p.next.to_string().as_bytes());
                    p.next += 1;
                    out.flush_if_large();
                }
                if max > 0 && p.next < n {
                    return Ok(Fetched::Suspended);
                }
                return Ok(Fetched::Complete(format!("SELECT {n}")));
            }
            "echo" => put_row(out, p.param.as_deref().unwrap_or(b"")),
            "fail" => {
                put_row(out, b"never seen");
                return Err(Report::error("22012", "division by zero"));
            }
            "panic" => panic!("a bug"),
            "notice" => self.notices.push(Report::new(Severity::Notice, "00000", "look")),
            "wait" => {
                self.stop.notify.notified().await;
                return Err(match self.stop.why.load(Ordering::SeqCst) {
                    1 => Report::error("57014", "canceling statement due to user request"),
                    _ => Report::fatal("57P01", "terminating connection"),
                });
            }
            "copyin" => return Ok(Fetched::CopyIn { binary: false, columns: 1 }),
            "copyout" => {
                out.copy_out(false, 1);
                for i in 0..number(&text) {
                    out.row().put_slice(format!("{i}\n").as_bytes());
                    out.flush_if_large();
                }
                return Ok(Fetched::Complete(format!("COPY {}", number(&text))));
            }
            "discard" => return Ok(Fetched::Complete("DISCARD ALL".into())),
            "begin" => self.status = b'T',
            "commit" => self.status = b'I',
            _ => return Err(Report::error("42601", "syntax error")),
        }
        Ok(Fetched::Complete(text.to_uppercase()))
    }
}

impl Session for ToySession {
    type Statement = String;
    type Prepared = Prepared;
    type Portal = Portal;

    fn pid(&self) -> i32 {
        self.pid
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        Arc::clone(&self.stop) as Arc<dyn Interrupt>
    }

    fn client_waits(&self) -> Arc<dyn ClientWaits> {
        Arc::new(Waits(Arc::clone(&self.toy.writes)))
    }

    fn begin_request(&mut self) {}

    fn split(&mut self, text: &str) -> Result<Vec<String>, Report> {
        Ok(text.split(';').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect())
    }

    async fn prepare_statement(&mut self, statement: String) -> Result<Prepared, Report> {
        Ok(ToySession::plan(&statement))
    }

    async fn prepare(&mut self, text: &str, _: &[u32]) -> Result<Prepared, Report> {
        if text.starts_with("bad") {
            return Err(Report::error("42601", "syntax error"));
        }
        Ok(ToySession::plan(text))
    }

    fn describe<'a>(&self, prepared: &'a Prepared) -> Description<'a> {
        Description {
            param_oids: &prepared.oids,
            columns: &prepared.columns,
            returns_rows: !prepared.columns.is_empty(),
        }
    }

    fn bind(
        &mut self,
        prepared: &Prepared,
        mut parameters: Parameters,
        _: &[i16],
    ) -> Result<Portal, Report> {
        let param = parameters.values.pop().flatten();
        Ok(Portal { text: Arc::clone(&prepared.text), next: 0, param })
    }

    async fn fetch(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        out: &mut Output,
    ) -> Result<Fetched, Report> {
        self.run(portal, max_rows, out).await
    }

    async fn copy_data(&mut self, data: &[u8]) -> Result<(), Report> {
        self.copied += data.iter().filter(|b| **b == b'\n').count();
        if data.windows(3).any(|w| w == b"bad") {
            return Err(Report::error("22P04", "bad line"));
        }
        Ok(())
    }

    async fn copy_done(&mut self) -> Result<String, Report> {
        Ok(format!("COPY {}", std::mem::take(&mut self.copied)))
    }

    async fn copy_fail(&mut self, reason: &str) -> Report {
        Report::error("57014", format!("COPY from stdin failed: {reason}"))
    }

    async fn sync(&mut self) -> Result<(), Report> {
        Ok(())
    }

    fn transaction_status(&self) -> u8 {
        self.status
    }

    async fn fail_transaction(&mut self) {
        if self.status == b'T' {
            self.status = b'E';
        }
    }

    fn take_notifications(&mut self) -> Vec<Notification> {
        Vec::new()
    }

    fn bell(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn take_notices(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.notices)
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.changes)
    }

    async fn close(self) {
        self.toy.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until a condition holds; fails the test when it never does.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("still not so: {what}");
}
