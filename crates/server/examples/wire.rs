//! Serves one constant row: how much of a statement's CPU time is the wire's.
//!
//! `cargo run --release -p skein-server --no-default-features --example wire -- 6555`, then
//! `pgbench -n -S -M prepared -h 127.0.0.1 -p 6555 -U skein skein` (password `skein`). At the end
//! of each session it prints the CPU time its thread used for each statement.

use bytes::BufMut;
use server::engine::{
    ClientWaits, Column, Description, Engine, Fetched, Interrupt, Login, Notification, Parameters,
    Session, User,
};
use server::{Output, Report, Server, ServerConfig, scram_verifier};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Constant(String);

#[derive(Clone)]
struct Plan(Arc<([Column; 1], bool, [u32; 1], usize)>);

struct Nothing;

impl Interrupt for Nothing {
    fn cancel(&self) {}
    fn terminate(&self) {}
}

impl ClientWaits for Nothing {
    fn read(&self, _: bool, read: &mut dyn FnMut() -> usize) {
        read();
    }
    fn write(&self, _: bool, _: usize, write: &mut dyn FnMut()) {
        write();
    }
}

static NEXT_PID: AtomicI32 = AtomicI32::new(1);

struct One {
    pid: i32,
    executed: u64,
    cpu_us: u64,
}

/// User and system CPU time of this thread.
fn cpu_us() -> u64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |u| {
        let (user, system) = (u.user_time(), u.system_time());
        let us = (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec();
        us.cast_unsigned()
    })
}

impl Engine for Constant {
    type Session = One;

    fn enter_session_thread(&self) {}

    async fn user(&self, _: &str) -> Result<Option<User>, Report> {
        Ok(Some(User { verifier: Some(self.0.clone()), superuser: false }))
    }

    async fn open(&self, _: Login) -> Result<One, Report> {
        Ok(One { pid: NEXT_PID.fetch_add(1, Ordering::Relaxed), executed: 0, cpu_us: cpu_us() })
    }

    fn alert(&self, text: &str) {
        eprintln!("{text}");
    }

    fn secret(&self) -> [u8; 32] {
        [0; 32]
    }
}

fn plan(text: &str) -> Plan {
    let column = Column {
        name: "abalance".into(),
        type_oid: 23,
        type_len: 4,
        type_modifier: -1,
        table_oid: 16384,
        attnum: 3,
    };
    let params = usize::from(text.contains("$1"));
    Plan(Arc::new(([column], text.to_ascii_lowercase().starts_with("select"), [23], params)))
}

impl Session for One {
    type Statement = String;
    type Prepared = Plan;
    type Portal = Plan;

    fn pid(&self) -> i32 {
        self.pid
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        Arc::new(Nothing)
    }

    fn client_waits(&self) -> Arc<dyn ClientWaits> {
        Arc::new(Nothing)
    }

    fn begin_request(&mut self) {}

    fn split(&mut self, text: &str) -> Result<Vec<String>, Report> {
        Ok(vec![text.to_owned()])
    }

    async fn prepare_statement(&mut self, statement: String) -> Result<Plan, Report> {
        Ok(plan(&statement))
    }

    async fn prepare(&mut self, text: &str, _: &[u32]) -> Result<Plan, Report> {
        Ok(plan(text))
    }

    fn describe<'a>(&self, p: &'a Plan) -> Description<'a> {
        let (columns, rows, oids, params) = &*p.0;
        Description {
            param_oids: &oids[..*params],
            columns: if *rows { columns } else { &[] },
            returns_rows: *rows,
        }
    }

    fn bind(&mut self, p: &Plan, _: Parameters, _: &[i16]) -> Result<Plan, Report> {
        Ok(p.clone())
    }

    async fn fetch(&mut self, p: &mut Plan, _: usize, out: &mut Output) -> Result<Fetched, Report> {
        self.executed += 1;
        if p.0.1 {
            let row = out.row();
            row.put_u16(1);
            row.put_u32(1);
            row.put_u8(b'1');
        }
        Ok(Fetched::Complete("SELECT 1".to_owned()))
    }

    async fn copy_data(&mut self, _: &[u8]) -> Result<(), Report> {
        Ok(())
    }

    async fn copy_done(&mut self) -> Result<String, Report> {
        Ok("COPY 0".to_owned())
    }

    async fn copy_fail(&mut self, reason: &str) -> Report {
        Report::error("57014", reason)
    }

    async fn sync(&mut self) -> Result<(), Report> {
        Ok(())
    }

    fn transaction_status(&self) -> u8 {
        b'I'
    }

    async fn fail_transaction(&mut self) {}

    fn take_notifications(&mut self) -> Vec<Notification> {
        Vec::new()
    }

    fn bell(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn take_notices(&mut self) -> Vec<Report> {
        Vec::new()
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn close(self) {
        let us = cpu_us() - self.cpu_us;
        if let Some(each) = (us * 1000).checked_div(self.executed) {
            println!("{} statements, {each} ns CPU each", self.executed);
        }
    }
}

fn main() {
    let port = std::env::args().nth(1).unwrap_or_else(|| "6555".into());
    let config = ServerConfig {
        listen: format!("127.0.0.1:{port}"),
        socket_dir: None,
        max_connections: 1000,
        reserved_connections: 0,
        tls: None,
        open_cursors: 1000,
    };
    let engine = Arc::new(Constant(scram_verifier("skein")));
    match Server::start(engine, config) {
        Ok(server) => {
            println!("listening on {}", server.address());
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        Err(e) => eprintln!("cannot listen: {e}"),
    }
}
