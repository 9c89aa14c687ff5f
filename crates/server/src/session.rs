//! The message loop of one session.
//!
//! What it promises: messages are handled in order; after an error in the extended protocol all is
//! skipped up to Sync; one write answers what the client waits for. A panic while a message is
//! handled ends that statement with `XX000`, not the session.
//!
//! Reads block the thread: it is the session's own. Everything else is awaited.

use crate::engine::{ClientWaits, Fetched, Parameters, Session};
use crate::input::{Arrived, Input, MESSAGE_BYTES_MAX};
use crate::message::{Bind, DecodeError, Frontend, Target, decode};
use crate::output::Output;
use crate::registry::{Entry, Registry};
use crate::report::{Report, Severity};
use crate::stream::{Stream, Woken};
use futures::FutureExt;
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// A bound statement, with what Describe needs of it.
struct Portal<S: Session> {
    portal: S::Portal,
    prepared: S::Prepared,
    result_formats: Vec<i16>,
    /// It has given its command tag: executing it again gives nothing more.
    done: Option<String>,
}

/// Which protocol a copy from the client came in by; it decides what follows the copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyVia {
    Simple,
    Extended,
}

/// How a session's loop goes on after a message.
enum Next {
    Continue,
    /// The client said goodbye, or was told why it must go.
    Close,
}

/// One logged-on session and its protocol state.
pub struct Conn<S: Session> {
    session: S,
    out: Output,
    prepared_max: usize,
    statements: HashMap<String, S::Prepared>,
    portals: HashMap<String, Portal<S>>,
    /// Unnamed ones are replaced at each use: they stay out of the maps.
    unnamed_statement: Option<S::Prepared>,
    unnamed_portal: Option<Portal<S>>,
    /// What is left of a simple query while one of its statements copies from the client.
    simple: VecDeque<S::Statement>,
    copy_in: Option<CopyVia>,
    skip_to_sync: bool,
    /// The log-on, or the first prepared statement, is not yet followed by a wait for the client.
    has_begun: bool,
    /// The protocol of the message that is being handled.
    current: CopyVia,
}

/// What a session is tied to.
struct Link {
    stream: Arc<Stream>,
    entry: Arc<Entry>,
    registry: Arc<Registry>,
    waits: Arc<dyn ClientWaits>,
}

/// What a logged-on session works with.
pub struct Parts<S: Session> {
    pub session: S,
    pub out: Output,
    pub input: Input,
    pub stream: Arc<Stream>,
    pub entry: Arc<Entry>,
    pub registry: Arc<Registry>,
    pub prepared_max: usize,
}

/// Serves a session until it ends. Log-on is done and answered; the loop begins with a read.
pub async fn serve<S: Session>(parts: Parts<S>) {
    let Parts { session, mut out, mut input, stream, entry, registry, prepared_max } = parts;
    let waits = session.client_waits();
    out.set_waits(Arc::clone(&waits));
    let mut conn = Conn {
        session,
        out,
        prepared_max,
        statements: HashMap::new(),
        portals: HashMap::new(),
        unnamed_statement: None,
        unnamed_portal: None,
        simple: VecDeque::new(),
        copy_in: None,
        skip_to_sync: false,
        has_begun: true,
        current: CopyVia::Simple,
    };
    let link = Link { stream, entry, registry, waits };
    loop {
        // Caught here and not for each message: a wrapper around each would copy it about.
        let ran = AssertUnwindSafe(conn.run(&mut input, &link)).catch_unwind().await;
        let Err(panic) = ran else { break };
        let (report, via) = (internal_error(&*panic), conn.current);
        let answer = AssertUnwindSafe(conn.failed(report, via)).catch_unwind().boxed_local();
        if !matches!(answer.await, Ok(Next::Continue)) {
            break;
        }
    }
    conn.out.flush();
    link.entry.set_busy(false);
    let Conn { session, portals, unnamed_portal, .. } = conn;
    drop((portals, unnamed_portal));
    session.close().boxed_local().await;
}

/// The error a client gets when the instance stops.
pub fn shutting_down() -> Report {
    Report::fatal("57P01", "terminating connection due to administrator command")
}

/// What ended a wait for the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Got {
    Bytes,
    /// There is something to tell it meanwhile.
    Bell,
    /// It has gone.
    End,
    /// It has thought for too long.
    TooLate,
}

/// Waits for bytes, for the bell, or until `limit` is over.
fn read_more(
    input: &mut Input,
    stream: &Stream,
    waits: &dyn ClientWaits,
    copying: bool,
    bell: Option<BorrowedFd<'_>>,
    limit: Option<Duration>,
) -> Got {
    let mut got = Got::End;
    waits.read(copying || input.has_bytes(), &mut || {
        if bell.is_some() || limit.is_some() {
            got = match stream.wait(bell, limit) {
                Woken::Client => Got::End,
                Woken::Bell => Got::Bell,
                Woken::TimedOut => Got::TooLate,
            };
            if got != Got::End {
                return 0;
            }
        }
        // An error is a client that has gone, as an end is.
        let bytes = input.fill(&mut { stream }).unwrap_or(0);
        if bytes > 0 {
            got = Got::Bytes;
        }
        bytes
    });
    got
}

impl<S: Session> Conn<S> {
    /// Reads and handles messages until the session must end.
    ///
    /// What is not done for every statement is boxed: else the stack frame of this function would
    /// be as large as all of it together, and each idle session would keep it touched.
    async fn run(&mut self, input: &mut Input, link: &Link) {
        loop {
            loop {
                let (tag, body) = match input.next_message() {
                    Ok(Some(Arrived::Message(tag, body))) => (tag, body),
                    Ok(Some(Arrived::TooLong(tag, len))) => {
                        if self.skip_to_sync {
                            continue;
                        }
                        link.entry.set_busy(true);
                        let text =
                            format!("message of {len} bytes is longer than {MESSAGE_BYTES_MAX}");
                        let report = Report::error("54000", text);
                        if let Next::Close = self.failed(report, via(tag)).boxed_local().await {
                            return;
                        }
                        continue;
                    }
                    Ok(None) => break,
                    Err(report) => return self.out.report(&report),
                };
                if self.skip_to_sync && !matches!(tag, b'S' | b'X') {
                    continue;
                }
                link.entry.set_busy(true);
                self.current = via(tag);
                let handled = match decode(tag, input.body(body)) {
                    Ok(Frontend::Bind(bind)) => self.bind(bind),
                    Ok(Frontend::Describe(target, name)) => self.describe(target, name),
                    Ok(Frontend::Execute { portal, max_rows }) => {
                        self.execute(portal, max_rows).await
                    }
                    Ok(Frontend::Sync) => self.sync().await,
                    Ok(Frontend::Terminate) => return,
                    Ok(other) => self.other(other).boxed_local().await,
                    Err(e) => Err(undecoded(e)),
                };
                let Err(report) = handled else { continue };
                if let Next::Close = self.failed(report, self.current).boxed_local().await {
                    return;
                }
            }
            link.entry.set_busy(false);
            if std::mem::take(&mut self.has_begun) {
                self.session.rests();
            }
            let copying = self.copy_in.is_some();
            let rests = self.session.transaction_status() == b'I' && !copying;
            let bell = if rests { self.session.bell() } else { None };
            let limit = if copying { None } else { self.session.idle_limit() };
            let (limit, told) = limit.unzip();
            let got = match self.out.is_broken() {
                true => Got::End,
                false => read_more(input, &link.stream, &*link.waits, copying, bell, limit),
            };
            match got {
                Got::Bytes => {}
                Got::Bell => {
                    self.put_notifications();
                    self.out.flush();
                }
                Got::TooLate => {
                    told.iter().for_each(|report| self.out.report(report));
                    return;
                }
                Got::End => {
                    if link.registry.is_stopping() || link.entry.is_terminated() {
                        self.out.report(&shutting_down());
                    }
                    return;
                }
            }
        }
    }

    /// Handles the messages that [`Conn::run`] does not.
    async fn other(&mut self, message: Frontend<'_>) -> Result<(), Report> {
        match message {
            Frontend::Parse { name, query, param_oids } => {
                self.parse(name, query, &param_oids).await
            }
            Frontend::Query(text) => self.query(text).await,
            Frontend::Close(target, name) => {
                self.close(target, name);
                Ok(())
            }
            Frontend::Flush => {
                self.out.flush();
                Ok(())
            }
            Frontend::CopyData(data) if self.copy_in.is_some() => {
                self.session.copy_data(data).await
            }
            Frontend::CopyDone => match self.copy_in.take() {
                Some(via) => self.copy_done(via).boxed_local().await,
                None => Ok(()),
            },
            Frontend::CopyFail(reason) => match self.copy_in.take() {
                Some(_) => Err(self.session.copy_fail(reason).await),
                None => Ok(()),
            },
            Frontend::FunctionCall => {
                Err(Report::error("0A000", "function call messages are not supported"))
            }
            // Lines that a client sent before it learned that its copy had failed; and what `run`
            // has handled.
            _ => Ok(()),
        }
    }

    /// Answers a failed message.
    async fn failed(&mut self, report: Report, via: CopyVia) -> Next {
        let via = self.copy_in.take().unwrap_or(via);
        self.simple.clear();
        self.put_notices();
        self.out.report(&report);
        if report.severity == Severity::Fatal || self.out.is_broken() {
            return Next::Close;
        }
        self.session.fail_transaction().await;
        match via {
            CopyVia::Simple => self.end_request().await,
            CopyVia::Extended => {
                self.skip_to_sync = true;
                // A client that copies waits for nothing and would not send Sync before it knows.
                self.out.flush_if_large();
                Next::Continue
            }
        }
    }

    // ---- simple protocol ----------------------------------------------------------------------

    async fn query(&mut self, text: &str) -> Result<(), Report> {
        self.session.begin_request();
        // A simple query ends the unnamed statement and portal of the extended protocol.
        self.unnamed_statement = None;
        self.unnamed_portal = None;
        self.simple = self.session.split(text)?.into();
        if self.simple.is_empty() {
            self.out.bare(b'I');
        }
        self.run_simple().await
    }

    /// Runs the statements of a simple query that are left, unless one of them begins a copy.
    async fn run_simple(&mut self) -> Result<(), Report> {
        while let Some(statement) = self.simple.pop_front() {
            let prepared = self.session.prepare_statement(statement).await?;
            let none = Parameters { values: Vec::new(), formats: Vec::new() };
            let mut portal = self.session.bind(&prepared, none, &[])?;
            let description = self.session.describe(&prepared);
            if description.returns_rows {
                self.out.row_description(description.columns, &[]);
            }
            match self.session.fetch(&mut portal, 0, &mut self.out).await? {
                Fetched::Complete(tag) => {
                    drop(portal);
                    self.simple_complete(&tag).await?;
                }
                Fetched::CopyIn { binary, columns } => {
                    self.begin_copy_in(CopyVia::Simple, binary, columns);
                    return Ok(());
                }
                Fetched::Empty => self.out.bare(b'I'),
                Fetched::Suspended => {
                    return Err(Report::error("XX000", "a statement stopped before its end"));
                }
            }
        }
        self.end_simple().await
    }

    /// The tag of a simple query's last statement is sent only when the commit has succeeded.
    async fn simple_complete(&mut self, tag: &str) -> Result<(), Report> {
        self.out.close_row();
        if self.simple.is_empty() {
            self.session.sync().await?;
        }
        if self.out.is_copying() {
            self.out.copy_out_done();
        }
        self.complete(tag);
        Ok(())
    }

    /// Sends a command tag. Two commands of SQL reach the statements of the extended protocol.
    fn complete(&mut self, tag: &str) {
        if matches!(tag, "DISCARD ALL" | "DEALLOCATE ALL") {
            self.statements.clear();
            self.unnamed_statement = None;
        }
        self.put_notices();
        self.out.command_complete(tag);
    }

    async fn end_simple(&mut self) -> Result<(), Report> {
        self.session.sync().await?;
        self.ready();
        Ok(())
    }

    fn begin_copy_in(&mut self, via: CopyVia, binary: bool, columns: usize) {
        self.copy_in = Some(via);
        self.put_notices();
        self.out.copy_in(binary, columns);
        self.out.flush();
    }

    async fn copy_done(&mut self, via: CopyVia) -> Result<(), Report> {
        // From here on an error belongs to what came before the copy's end.
        let done = self.session.copy_done().await;
        match (done, via) {
            (Ok(tag), CopyVia::Simple) => {
                self.simple_complete(&tag).await?;
                self.run_simple().await
            }
            (Ok(tag), CopyVia::Extended) => {
                self.complete(&tag);
                Ok(())
            }
            (Err(report), via) => {
                // `failed` looks here for the protocol that the copy came by.
                self.copy_in = Some(via);
                Err(report)
            }
        }
    }

    // ---- extended protocol --------------------------------------------------------------------

    async fn parse(&mut self, name: &str, query: &str, oids: &[u32]) -> Result<(), Report> {
        self.session.begin_request();
        if !name.is_empty() {
            if self.statements.contains_key(name) {
                return Err(Report::error(
                    "42P05",
                    format!("prepared statement \"{name}\" already exists"),
                ));
            }
            if self.statements.len() >= self.prepared_max {
                return Err(Report::error(
                    "53400",
                    format!("maximum open cursors exceeded ({})", self.prepared_max),
                )
                .with_hint("Close prepared statements, or raise open_cursors."));
            }
        }
        let prepared = self.session.prepare(query, oids).await?;
        if name.is_empty() {
            self.unnamed_statement = Some(prepared);
        } else {
            self.statements.insert(name.to_owned(), prepared);
            // Most clients that keep statements prepare them first and work then.
            self.has_begun |= self.statements.len() == 1;
        }
        self.out.bare(b'1');
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<&S::Prepared, Report> {
        if name.is_empty() {
            return self.unnamed_statement.as_ref().ok_or_else(|| {
                Report::error("26000", "unnamed prepared statement does not exist")
            });
        }
        self.statements.get(name).ok_or_else(|| {
            Report::error("26000", format!("prepared statement \"{name}\" does not exist"))
        })
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal<S>, Report> {
        let portal =
            if name.is_empty() { self.unnamed_portal.as_mut() } else { self.portals.get_mut(name) };
        portal.ok_or_else(|| Report::error("34000", format!("portal \"{name}\" does not exist")))
    }

    fn bind(&mut self, bind: Bind<'_>) -> Result<(), Report> {
        self.session.begin_request();
        let prepared = self.statement(bind.statement)?.clone();
        let description = self.session.describe(&prepared);
        let (got, wanted) = (bind.params.len(), description.param_oids.len());
        if got != wanted {
            return Err(Report::error(
                "08P01",
                format!(
                    "bind message supplies {got} parameters, but prepared statement \"{}\" \
                     requires {wanted}",
                    bind.statement
                ),
            ));
        }
        let (formats, columns) = (bind.result_formats.len(), description.columns.len());
        if formats > 1 && formats != columns {
            return Err(Report::error(
                "08P01",
                format!(
                    "bind message has {formats} result formats but query has {columns} columns"
                ),
            ));
        }
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            return Err(Report::error(
                "42P03",
                format!("cursor \"{}\" already exists", bind.portal),
            ));
        }
        let parameters = Parameters { values: bind.params, formats: bind.param_formats };
        // The old portal goes first: what it holds may be what the new one needs.
        if bind.portal.is_empty() {
            self.unnamed_portal = None;
        }
        let portal = self.session.bind(&prepared, parameters, &bind.result_formats)?;
        let portal = Portal { portal, prepared, result_formats: bind.result_formats, done: None };
        if bind.portal.is_empty() {
            self.unnamed_portal = Some(portal);
        } else {
            self.portals.insert(bind.portal.to_owned(), portal);
        }
        self.out.bare(b'2');
        Ok(())
    }

    fn describe(&mut self, target: Target, name: &str) -> Result<(), Report> {
        match target {
            Target::Statement => {
                let prepared = self.statement(name)?.clone();
                let description = self.session.describe(&prepared);
                self.out.parameter_description(description.param_oids);
                self.describe_rows(&prepared, &[]);
            }
            Target::Portal => {
                if !name.is_empty()
                    && !self.portals.contains_key(name)
                    && let Some(columns) = self.session.cursor(name)
                {
                    self.out.row_description(&columns, &[]);
                    return Ok(());
                }
                let portal = self.portal(name)?;
                let prepared = portal.prepared.clone();
                let formats = std::mem::take(&mut portal.result_formats);
                self.describe_rows(&prepared, &formats);
                self.portal(name)?.result_formats = formats;
            }
        }
        Ok(())
    }

    fn describe_rows(&mut self, prepared: &S::Prepared, formats: &[i16]) {
        let description = self.session.describe(prepared);
        if description.returns_rows {
            self.out.row_description(description.columns, formats);
        } else {
            self.out.bare(b'n');
        }
    }

    async fn execute(&mut self, name: &str, max_rows: usize) -> Result<(), Report> {
        self.session.begin_request();
        let portal =
            if name.is_empty() { self.unnamed_portal.as_mut() } else { self.portals.get_mut(name) };
        let Some(portal) = portal else {
            return Err(Report::error("34000", format!("portal \"{name}\" does not exist")));
        };
        if let Some(tag) = &portal.done {
            let tag = tag.clone();
            return self.execute_again(&tag);
        }
        let fetched = self.session.fetch(&mut portal.portal, max_rows, &mut self.out).await?;
        self.out.close_row();
        if let Fetched::Complete(tag) = &fetched {
            portal.done = Some(tag.clone());
        }
        match fetched {
            Fetched::Complete(tag) => {
                if self.out.is_copying() {
                    self.out.copy_out_done();
                }
                self.complete(&tag);
            }
            Fetched::Suspended => self.out.bare(b's'),
            Fetched::CopyIn { binary, columns } => {
                portal.done = Some("COPY 0".to_owned());
                self.begin_copy_in(CopyVia::Extended, binary, columns);
            }
            Fetched::Empty => self.out.bare(b'I'),
        }
        Ok(())
    }

    /// A finished query gives no more rows; anything else must not be done twice.
    fn execute_again(&mut self, tag: &str) -> Result<(), Report> {
        if tag.starts_with("SELECT") {
            self.out.command_complete("SELECT 0");
            return Ok(());
        }
        Err(Report::error("55000", "portal has been run and cannot be run again"))
    }

    fn close(&mut self, target: Target, name: &str) {
        match (target, name.is_empty()) {
            (Target::Statement, true) => self.unnamed_statement = None,
            (Target::Statement, false) => drop(self.statements.remove(name)),
            (Target::Portal, true) => self.unnamed_portal = None,
            (Target::Portal, false) => drop(self.portals.remove(name)),
        }
        self.out.bare(b'3');
    }

    async fn sync(&mut self) -> Result<(), Report> {
        // As PostgreSQL does: client libraries send it without having noticed that what they
        // executed was a copy, and send another after its end.
        if self.copy_in.is_some() {
            return Ok(());
        }
        self.skip_to_sync = false;
        self.end_simple().await
    }

    // ---- ends of requests ---------------------------------------------------------------------

    /// Ends the implicit transaction of a failed request.
    async fn end_request(&mut self) -> Next {
        if let Err(report) = self.session.sync().await {
            self.out.report(&report);
            if report.severity == Severity::Fatal {
                return Next::Close;
            }
        }
        self.ready();
        Next::Continue
    }

    fn ready(&mut self) {
        let status = self.session.transaction_status();
        if status == b'I' {
            // Portals live as long as their transaction.
            self.unnamed_portal = None;
            self.portals.clear();
        }
        self.put_notices();
        if status == b'I' {
            self.put_notifications();
        }
        self.out.ready(status);
        self.out.flush();
    }

    fn put_notifications(&mut self) {
        for notification in self.session.take_notifications() {
            self.out.notification(&notification);
        }
    }

    /// Notices and changed settings that have come up since the last call.
    fn put_notices(&mut self) {
        for notice in self.session.take_notices() {
            self.out.report(&notice);
        }
        for (name, value) in self.session.take_parameter_changes() {
            self.out.parameter_status(&name, &value);
        }
    }
}

/// The protocol that a message with this tag belongs to. Sync counts as simple: a failed one is
/// answered with ReadyForQuery at once, since no other Sync will come.
fn via(tag: u8) -> CopyVia {
    match tag {
        b'P' | b'B' | b'D' | b'E' | b'C' | b'H' => CopyVia::Extended,
        _ => CopyVia::Simple,
    }
}

fn undecoded(e: DecodeError) -> Report {
    match e {
        DecodeError::Malformed(why) => Report::protocol(why),
        DecodeError::NotUtf8 => {
            Report::error("22021", "invalid byte sequence for encoding \"UTF8\"")
        }
    }
}

fn internal_error(panic: &(dyn std::any::Any + Send)) -> Report {
    let why = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned());
    // What columns of texts say that have 31 bits for a place in them.
    if why.contains("offset overflow") {
        let text = "out of memory: texts of rows that are worked on together hold more than 2 GiB";
        return Report::error("53200", text);
    }
    Report::error("XX000", format!("internal error: {why}"))
        .with_hint("This is a bug. The session goes on; the alert log has the place.")
}
