//! Whether somebody may look: the same questions as a client of the protocol is asked.
//!
//! What it promises: the rules of `pg_hba.conf`, the password's verifier or the certificate, the
//! place among the connections, the role's own limits and the audit trail all count, in the order
//! and with the words they have for any client. What it must never do: keep a password.

use super::Shared;
use super::viewer::{STATEMENT_TIMEOUT, Viewer, begin};
use crate::auth::{certificate_fits, no_role, password_fits, wrong_password};
use crate::engine::{Asked, Engine, Login, Method, User};
use crate::registry::Slot;
use crate::report::Report;
use crate::sql_engine::SqlSession;
use crate::tls::Encryption;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the sessions are called in `v$session`.
pub const PROGRAM: &str = "skein console";
/// How long a log-on may take, and wait for others.
const LOG_ON_LIMIT: Duration = Duration::from_secs(20);

/// Who wants to look.
pub struct Applicant {
    pub user: String,
    pub password: String,
    pub from: SocketAddr,
    pub encryption: Option<Encryption>,
}

/// Why somebody has not been let in.
pub enum Refused {
    /// Too many failures from this address: come again after so long.
    Wait(Duration),
    /// No room for one more now.
    Full(&'static str),
    Told(Report),
}

/// Logs somebody on.
pub async fn log_on(shared: &Arc<Shared>, applicant: Applicant) -> Result<Arc<Viewer>, Refused> {
    let from = applicant.from.ip().to_canonical();
    let waits =
        || shared.throttle.wait(from, Instant::now()).map_or(Ok(()), |w| Err(Refused::Wait(w)));
    waits()?;
    let full = Refused::Full("all console sessions are taken; log off elsewhere, or wait");
    let place = shared.viewers.take_place().ok_or(full)?;
    let busy = || Refused::Full("too many are logging on at once; try again");
    let turn = tokio::time::timeout(LOG_ON_LIMIT, Arc::clone(&shared.log_ons).acquire_owned());
    let _turn = turn.await.ok().and_then(Result::ok).ok_or_else(busy)?;
    // Others of this address may have failed while it stood in line.
    waits()?;
    let begun = begin(shared, applicant, place);
    let hears = begun.map_err(|_| Refused::Full("the machine has no room for one more thread"))?;
    let told = tokio::time::timeout(LOG_ON_LIMIT, hears).await.ok().and_then(Result::ok);
    match told.ok_or_else(busy)? {
        Ok(viewer) => {
            shared.throttle.succeeded(from);
            Ok(viewer)
        }
        Err(report) => {
            // Places and privileges are no guesses.
            if report.code().starts_with("28") {
                shared.throttle.failed(from, Instant::now());
            }
            Err(Refused::Told(report))
        }
    }
}

impl Applicant {
    /// On the session's own thread: proves, takes a place, opens.
    ///
    /// # Errors
    /// What any client would be told.
    pub async fn log_on(self, shared: &Shared) -> Result<(SqlSession, Slot), Report> {
        let (engine, places) = (&*shared.engine, &shared.places);
        let peer = self.from.to_string();
        let note = |report: &Report| {
            engine.refused(&self.user, &peer, report);
            engine.alert(&format!("console log-on from {peer} refused: {report}"));
        };
        let slot = places.take().inspect_err(note)?;
        let (user, method) = self.prove(shared).await.inspect_err(note)?;
        places.keep(&slot, user.superuser).inspect_err(note)?;
        let login = Login {
            user: self.user.clone(),
            database: sql::DATABASE.to_owned(),
            parameters: parameters(),
            peer: peer.clone(),
            os_process: None,
            encryption: self.encryption.as_ref().map(|of| (of.version.clone(), of.cipher.clone())),
            method: Some(method),
        };
        let session = engine.open(login).await.inspect_err(note)?;
        Ok((session, slot))
    }

    async fn prove(&self, shared: &Shared) -> Result<(User, Method), Report> {
        let engine = &*shared.engine;
        let user = engine.user(&self.user).await?;
        let asked = Asked {
            user: &self.user,
            database: sql::DATABASE,
            peer: Some(self.from.ip().to_canonical()),
            encrypted: self.encryption.is_some(),
        };
        let method = engine.admit(asked).await?;
        match method {
            Method::Trust => {}
            Method::Certificate => {
                let shown = self.encryption.as_ref().and_then(|of| of.client_name.as_deref());
                certificate_fits(&self.user, shown)?;
            }
            Method::Scram => {
                let verifier = user.as_ref().and_then(|user| user.verifier.as_deref());
                if !password_fits(&self.user, verifier, &engine.secret(), &self.password) {
                    return Err(wrong_password(&self.user));
                }
            }
        }
        Ok((user.ok_or_else(|| no_role(&self.user))?, method))
    }
}

/// What a console's session begins with.
fn parameters() -> Vec<(String, String)> {
    [
        ("application_name", PROGRAM),
        ("default_transaction_read_only", "on"),
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT),
        ("DateStyle", "ISO"),
        ("TimeZone", "UTC"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}
