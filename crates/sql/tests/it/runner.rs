//! An open instance, sessions on threads of their own, and what scripts do with them.

use crate::hop::Sessions;
use crate::script::{Block, parse};
use bytes::{Bytes, BytesMut};
use kernel::instance::{Instance, InstanceConfig, NewDatabase, create_database};
use kernel::params::Parameters;
use observe::{Observer, SessionKind};
use sql::{Fetched, PgError, RowSink, Session, Severity};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A statement that has not answered after this long never will.
const STUCK: Duration = Duration::from_secs(60);

/// A database in a folder of its own, open on one or several instances of this process.
pub struct Database {
    pub instances: Vec<Arc<Instance>>,
    runtime: tokio::runtime::Runtime,
    dir: PathBuf,
}

impl Database {
    pub fn create(instances: u8) -> Database {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("skein-sql-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let env = env::real::RealEnv::new();
        let observer = Observer::new(env.clone(), 1);
        let ctx = observer.ctx(SessionKind::Background, "create");
        // Correctness is tested here, not disks: any file system will do.
        let options = disk::Options { direct_io: disk::DirectIo::Off, dsync: false };
        let new = NewDatabase {
            dir: &dir,
            options,
            instances,
            luns: 2,
            lun_size_bytes: 256 << 20,
            log_files: 3,
            log_file_bytes: 16 << 20,
            verifier: "none",
        };
        runtime.block_on(create_database(&ctx, &env, &new)).expect("a new database");
        let open = |me| open(&runtime, &dir, me);
        Database { instances: (1..=instances).map(open).collect(), runtime, dir }
    }
}

fn open(runtime: &tokio::runtime::Runtime, dir: &Path, me: u8) -> Arc<Instance> {
    let env = env::real::RealEnv::new();
    let observer = Observer::new(env.clone(), me);
    let params = Parameters::default();
    params.set("filesystemio_options", "none").expect("a parameter");
    // Plans shall be the same each time.
    params.set("autovacuum", "off").expect("a parameter");
    let mut config = InstanceConfig {
        dir: dir.to_owned(),
        me: block::InstanceNo(me),
        params: Arc::new(params),
        secret: [7; 32],
        interconnect: "127.0.0.1:0".to_owned(),
        membership: Default::default(),
    };
    // Statements are tested here, not who lives: a machine that stands still for a while is no
    // reason to put anybody out, which would end the process of all tests.
    config.membership.misscount = std::time::Duration::from_secs(60);
    let opened = runtime.block_on(Instance::open(&env, &observer, config));
    let instance = opened.expect("the instance opens");
    sql::connect_instances(&instance);
    instance
}

/// Whether `v$instance` shows a word.
fn instance_shows(runtime: &tokio::runtime::Runtime, instance: &Arc<Instance>, word: &str) -> bool {
    let rows = runtime.block_on(sql::local_view_rows(instance, "v$instance")).expect("a view");
    rows.iter().any(|row| String::from_utf8_lossy(row).contains(word))
}

impl Drop for Database {
    fn drop(&mut self) {
        // On a thread of its own: a thread that panics may not do what an instance does.
        let closed = std::thread::scope(|scope| scope.spawn(|| self.close()).join());
        // The environment's threads may have the files open for longer than we live: they shall
        // hold no space.
        for lun in std::fs::read_dir(self.dir.join("luns")).into_iter().flatten().flatten() {
            if let Ok(file) = std::fs::File::options().write(true).open(lun.path()) {
                let _ = file.set_len(0);
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        assert!(closed.is_ok() || std::thread::panicking(), "the instances close");
    }
}

impl Database {
    fn close(&self) {
        for instance in &self.instances {
            moved::note_all(&instance.observer);
            assert!(
                instance_shows(&self.runtime, instance, "OPEN"),
                "v$instance says how far it is"
            );
            self.runtime.block_on(instance.close()).expect("the instance closes");
            for word in ["CLOSING", "YES"] {
                assert!(
                    instance_shows(&self.runtime, instance, word),
                    "v$instance says how far it is"
                );
            }
        }
    }
}

/// Rows as lines of text.
#[derive(Default)]
struct Lines {
    row: BytesMut,
    rows: Vec<String>,
    copying: bool,
    open: bool,
}

impl Lines {
    fn close(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let row = self.row.split();
        if self.copying {
            self.rows.push(String::from_utf8_lossy(&row).trim_end_matches('\n').to_owned());
            return;
        }
        let mut rest = &row[2..];
        let mut values = Vec::new();
        while !rest.is_empty() {
            let len = i32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
            rest = &rest[4..];
            match usize::try_from(len) {
                Err(_) => values.push("NULL".to_owned()),
                Ok(len) => {
                    values.push(String::from_utf8_lossy(&rest[..len]).into_owned());
                    rest = &rest[len..];
                }
            }
        }
        self.rows.push(values.join("|"));
    }
}

impl RowSink for Lines {
    fn row(&mut self) -> &mut BytesMut {
        self.close();
        self.open = true;
        &mut self.row
    }

    fn flush_if_large(&mut self) {
        self.close();
    }

    fn copy_out(&mut self, _binary: bool, _columns: usize) {
        self.copying = true;
    }
}

#[derive(Clone)]
pub struct Order {
    pub text: String,
    pub params: Option<Vec<Option<String>>>,
}

/// What a message came to, and whether it left a transaction block open.
pub struct Answer {
    pub result: Result<String, PgError>,
    pub in_block: bool,
}

/// A client: a thread with a session, as the server has it.
pub struct Client {
    orders: Option<Sender<Order>>,
    answers: Receiver<Answer>,
    sid: u32,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Client {
    pub fn new(instance: &Arc<Instance>, name: &str) -> Client {
        let (orders, inbox) = channel::<Order>();
        let (outbox, answers) = channel();
        let (instance, name) = (instance.clone(), name.to_owned());
        let ctx = instance.user_ctx(&name);
        let sid = ctx.session.sid();
        let thread = std::thread::spawn(move || {
            env::real::mark_blocking_thread();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let session = Session::new(instance, ctx, "skein", &[]);
                let mut session = session.expect("a session");
                while let Ok(order) = inbox.recv() {
                    let result = execute(&mut session, &order).await;
                    let in_block = session.transaction_status() != b'I';
                    if outbox.send(Answer { result, in_block }).is_err() {
                        break;
                    }
                }
                session.close().await;
            });
        });
        Client { orders: Some(orders), answers, sid, thread: Some(thread) }
    }

    pub fn order(&self, order: Order) {
        self.orders.as_ref().expect("an open client").send(order).expect("the client lives");
    }

    pub fn answer(&self, text: &str) -> Answer {
        let answer = self.answers.recv_timeout(STUCK);
        answer.unwrap_or_else(|_| panic!("no answer to: {text}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One message: statements, then what the protocol does at its end.
async fn execute(session: &mut Session, order: &Order) -> Result<String, PgError> {
    let done = statements(session, order).await;
    let synced = session.sync().await;
    let out = done.and_then(|out| synced.map(|()| out));
    let mut notices = String::new();
    for notice in session.take_notices() {
        if notice.severity != Severity::Error {
            let _ = writeln!(notices, "{}: {}", notice.severity.name(), notice.message);
        }
    }
    if session.transaction_status() == b'I' {
        for one in session.take_notifications() {
            let _ = writeln!(notices, "NOTIFY: {} {}", one.channel, one.payload);
        }
    }
    out.map(|out| format!("{out}{notices}"))
}

async fn statements(session: &mut Session, order: &Order) -> Result<String, PgError> {
    let mut out = String::new();
    if let Some(values) = &order.params {
        let prepared = session.prepare(&order.text, &[]).await?;
        let values: Vec<Option<Bytes>> =
            values.iter().map(|v| v.as_ref().map(|v| Bytes::from(v.clone()))).collect();
        let mut portal = session.bind(&prepared, &values, &[], &[])?;
        return fetch(session, &mut portal, &mut out).await.map(|()| out);
    }
    for statement in session.split(&order.text)? {
        let prepared = session.prepare_statement(statement).await?;
        let mut portal = session.bind(&prepared, &[], &[], &[])?;
        fetch(session, &mut portal, &mut out).await?;
    }
    Ok(out)
}

async fn fetch(
    session: &mut Session,
    portal: &mut sql::Portal,
    out: &mut String,
) -> Result<(), PgError> {
    let mut lines = Lines::default();
    let fetched = session.fetch(portal, 0, &mut lines).await?;
    lines.close();
    for row in &lines.rows {
        let _ = writeln!(out, "{row}");
    }
    match fetched {
        Fetched::Complete(tag) => {
            let _ = writeln!(out, "{tag}");
        }
        Fetched::CopyIn { .. } => {
            let _ = writeln!(out, "{}", session.copy_done().await?);
        }
        Fetched::Empty => out.push_str("EMPTY\n"),
        Fetched::Suspended => out.push_str("SUSPENDED\n"),
    }
    Ok(())
}

/// What an answer looks like in a script.
fn shown(answer: &Result<String, PgError>) -> String {
    match answer {
        Ok(text) => text.clone(),
        Err(error) => {
            let mut out = format!("{} {}\n", error.code, error.message);
            if let Some(detail) = &error.detail {
                let _ = writeln!(out, "DETAIL: {detail}");
            }
            out
        }
    }
}

/// Waits until a session stands in a wait for another one.
pub fn await_wait(instance: &Instance, client: &Client) {
    let deadline = std::time::Instant::now() + STUCK;
    loop {
        let row = instance.observer.sessions().into_iter().find(|s| s.sid == client.sid);
        let waits = row.is_some_and(|s| {
            let lock = s.wait.event.is_some_and(|e| e.name().starts_with("enq:"));
            s.wait.waiting && lock
        });
        if waits {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "the statement does not wait");
        std::thread::yield_now();
    }
}

/// The text with an `N` for each number.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut number = false;
    for c in text.chars() {
        let digit = c.is_ascii_digit() || (number && c == '.');
        if digit && !number {
            out.push('N');
        } else if !digit {
            out.push(c);
        }
        number = digit;
    }
    out
}

/// Runs a script; gives it with what really came out.
pub fn run(database: &Database, text: &str) -> String {
    let mut out = String::new();
    let mut sessions = Sessions::new(database);
    let (mut current, mut params) = ("main".to_owned(), None);
    for block in parse(text) {
        match block {
            Block::Prose(line) => {
                let _ = writeln!(out, "{line}");
            }
            Block::Session(name) => {
                let _ = writeln!(out, "session {name}");
                current = name;
            }
            Block::Stay(stay, line) => {
                let _ = writeln!(out, "{line}");
                sessions.stay(stay);
            }
            Block::Params(values) => {
                let texts: Vec<String> =
                    values.iter().map(|v| v.clone().unwrap_or("NULL".into())).collect();
                let _ = writeln!(out, "params {}", texts.join(", "));
                params = Some(values);
            }
            Block::Statement { word, arg, text } => {
                let name = if matches!(&*word, "begin" | "end") { &arg } else { &current };
                if word != "end" {
                    sessions.order(name, Order { text: text.clone(), params: params.take() });
                }
                if word == "begin" {
                    sessions.await_wait(name);
                    let _ = writeln!(out, "begin {arg}\n{text}");
                    continue;
                }
                let answer = sessions.answer(name);
                let head = match (&*word, &answer) {
                    ("end", _) => format!("end {arg}"),
                    ("masked", Ok(_)) => "masked".to_owned(),
                    (_, Ok(_)) => "run".to_owned(),
                    (_, Err(error)) => format!("error {}", error.code),
                };
                let text = if text.is_empty() { text } else { format!("{text}\n") };
                let mut shown = shown(&answer);
                if word == "masked" {
                    shown = masked(&shown);
                }
                let _ = write!(out, "{head}\n{text}----\n{shown}");
            }
        }
    }
    out
}
