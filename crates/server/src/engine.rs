//! What the protocol loop asks of the database behind it.
//!
//! [`Engine`] is the instance: it knows users and opens sessions. [`Session`] is one client's
//! session. The traits exist so that the protocol is built and tested without a database, and
//! measured without one (how much of a statement's CPU time is the wire's).

use crate::output::Output;
use crate::report::Report;
use bytes::Bytes;
use std::future::Future;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A user as log-on needs it.
#[derive(Clone, Default, Debug)]
pub struct User {
    /// `SCRAM-SHA-256$iterations:salt$stored key:server key`; `None`: no password is set.
    pub verifier: Option<String>,
    /// May take the places that are kept for superusers.
    pub superuser: bool,
}

/// Who wants to log on, before anything is proved.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub user: &'a str,
    pub database: &'a str,
    /// `None`: through the Unix socket.
    pub peer: Option<IpAddr>,
    pub encrypted: bool,
}

/// How a client has to prove who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Not at all.
    Trust,
    /// With a password.
    Scram,
    /// With a certificate whose common name is the user's.
    Certificate,
}

/// Who logs on.
#[derive(Clone, Debug)]
pub struct Login {
    pub user: String,
    pub database: String,
    /// Every option of the startup packet but user and database, `options=-c a=b` taken apart.
    pub parameters: Vec<(String, String)>,
    /// Where from: `127.0.0.1:40000` or `[local]`.
    pub peer: String,
    /// The client's process and whom it runs as, of one that has come through the Unix socket.
    pub os_process: Option<(u32, String)>,
    /// Version and cipher of TLS.
    pub encryption: Option<(String, String)>,
    /// How it has proved who it is.
    pub method: Option<Method>,
}

/// The instance.
pub trait Engine: Send + Sync + 'static {
    type Session: Session;

    /// Called once on each session's thread, first: the thread may block.
    fn enter_session_thread(&self);

    /// Looks up a user; `None` if there is none of that name.
    fn user(&self, name: &str) -> impl Future<Output = Result<Option<User>, Report>>;

    /// How this client has to prove who it is.
    ///
    /// # Errors
    /// It may not log on at all.
    fn admit(&self, _: Asked<'_>) -> impl Future<Output = Result<Method, Report>> {
        std::future::ready(Ok(Method::Scram))
    }

    /// Somebody has not been let in.
    fn refused(&self, _user: &str, _peer: &str, _why: &Report) {}

    /// Opens a session for a client that has proved who it is.
    fn open(&self, login: Login) -> impl Future<Output = Result<Self::Session, Report>>;

    /// A cancel request names a session that is none of this instance.
    fn cancel_elsewhere(&self, _pid: i32, _secret: i32) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// A line for the alert log.
    fn alert(&self, text: &str);

    /// Bytes that are the same on each call and secret: an unknown user's salt comes from them, so
    /// that names cannot be tried.
    fn secret(&self) -> [u8; 32];
}

/// What a statement's result looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub type_oid: u32,
    pub type_len: i16,
    pub type_modifier: i32,
    /// 0 where the column is not a table's.
    pub table_oid: u32,
    pub attnum: i16,
}

/// What a prepared statement looks like.
pub struct Description<'a> {
    pub param_oids: &'a [u32],
    pub columns: &'a [Column],
    /// Whether it answers with rows, be it none.
    pub returns_rows: bool,
}

/// What a client that listens is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// [`Session::pid`] of who has notified.
    pub pid: i32,
    pub channel: String,
    pub payload: String,
}

/// How far one call of [`Session::fetch`] came.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The row limit was reached; there may be more.
    Suspended,
    /// All done; the command tag.
    Complete(String),
    /// The statement waits for lines from the client.
    CopyIn { binary: bool, columns: usize },
    /// The text held no statement.
    Empty,
}

/// The parameters of a Bind message.
pub struct Parameters {
    pub values: Vec<Option<Bytes>>,
    pub formats: Vec<i16>,
}

/// Stops what a session does, from another thread.
pub trait Interrupt: Send + Sync {
    /// The running statement ends with 57014.
    fn cancel(&self);
    /// The running statement ends with 57P01.
    fn terminate(&self);
    /// Calls `end` when somebody asks that the session end, as one that waits for its client must
    /// be woken.
    fn on_terminate(&self, _end: Box<dyn Fn() + Send + Sync>) {}
    /// Whether somebody has.
    fn is_terminated(&self) -> bool {
        false
    }
}

/// Accounts the waits for the client. Each call runs the closure exactly once.
pub trait ClientWaits: Send + Sync {
    /// `SQL*Net message from client`; `more`: the rest of a message or of a copy is awaited
    /// (`SQL*Net more data from client`). The closure gives the bytes received.
    fn read(&self, more: bool, read: &mut dyn FnMut() -> usize);
    /// `SQL*Net message to client`; `more`: rows are handed over in the midst of a statement
    /// (`SQL*Net more data to client`).
    fn write(&self, more: bool, bytes: usize, write: &mut dyn FnMut());
}

/// One client's session. All calls come from one thread, one at a time.
pub trait Session {
    /// One statement of a simple query.
    type Statement;
    type Prepared: Clone;
    type Portal;

    /// The number that clients know it by, none other's while it lives.
    fn pid(&self) -> i32;

    /// What cancel requests for it will carry, wherever they come in.
    fn set_cancel_secret(&self, _secret: i32) {}

    fn interrupt(&self) -> Arc<dyn Interrupt>;
    fn client_waits(&self) -> Arc<dyn ClientWaits>;

    /// A request begins: an interrupt that came too late for the last one is forgotten.
    fn begin_request(&mut self);

    /// The statements of one simple query.
    ///
    /// # Errors
    /// Those of the parser.
    fn split(&mut self, text: &str) -> Result<Vec<Self::Statement>, Report>;

    /// Prepares a statement of a simple query.
    fn prepare_statement(
        &mut self,
        statement: Self::Statement,
    ) -> impl Future<Output = Result<Self::Prepared, Report>>;

    /// Prepares the one statement in `text`.
    fn prepare(
        &mut self,
        text: &str,
        param_oids: &[u32],
    ) -> impl Future<Output = Result<Self::Prepared, Report>>;

    fn describe<'a>(&self, prepared: &'a Self::Prepared) -> Description<'a>;

    /// The columns of a cursor that a statement has declared, by its name; none: there is no such.
    fn cursor(&self, _name: &str) -> Option<Vec<Column>> {
        None
    }

    /// Binds values to a prepared statement.
    ///
    /// # Errors
    /// What is wrong with a value.
    fn bind(
        &mut self,
        prepared: &Self::Prepared,
        parameters: Parameters,
        result_formats: &[i16],
    ) -> Result<Self::Portal, Report>;

    /// Runs a portal on, at most `max_rows` rows (0: all). Rows go to `out`; a copy to the client
    /// calls [`Output::copy_out`] first and is complete when the call is.
    fn fetch(
        &mut self,
        portal: &mut Self::Portal,
        max_rows: usize,
        out: &mut Output,
    ) -> impl Future<Output = Result<Fetched, Report>>;

    /// Bytes of a copy from the client, cut anywhere.
    fn copy_data(&mut self, data: &[u8]) -> impl Future<Output = Result<(), Report>>;
    /// The copy's end; gives the command tag.
    fn copy_done(&mut self) -> impl Future<Output = Result<String, Report>>;
    /// The client gave the copy up; the error to show for it.
    fn copy_fail(&mut self, reason: &str) -> impl Future<Output = Report>;

    /// Ends the implicit transaction: it commits, or rolls back after an error. Portals are gone
    /// when the status is `I` afterwards.
    fn sync(&mut self) -> impl Future<Output = Result<(), Report>>;

    /// `I` idle, `T` in a transaction, `E` in a failed one.
    fn transaction_status(&self) -> u8;

    /// An error the engine does not know of (unknown portal, a panic): the transaction has failed.
    fn fail_transaction(&mut self) -> impl Future<Output = ()>;

    fn take_notices(&mut self) -> Vec<Report>;

    /// What others have notified it of. Asked for outside transaction blocks only.
    fn take_notifications(&mut self) -> Vec<Notification>;
    /// A descriptor that is readable while there are some; `None` if the session listens to
    /// nothing.
    fn bell(&self) -> Option<BorrowedFd<'_>>;

    /// The session has begun, or prepared its first statement, and is about to wait for its client
    /// on its own thread: what only that needed may be given back.
    fn rests(&mut self) {}

    /// How long the client may think now, and what it is told when that is over.
    fn idle_limit(&self) -> Option<(Duration, Report)> {
        None
    }

    /// Settings a client must be told of: `ParameterStatus`.
    fn take_parameter_changes(&mut self) -> Vec<(String, String)>;

    /// Rolls back what is open and gives everything back.
    fn close(self) -> impl Future<Output = ()>;
}
