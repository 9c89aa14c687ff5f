//! From an accepted socket to a session: encryption requests, the startup packet, log-on.
//!
//! What it promises: until log-on has succeeded a client can make the server hold 10 KB and a
//! thread, for at most a minute.

use crate::auth::{AuthError, Exchange, MECHANISM, certificate_fits, no_role, wrong_password};
use crate::engine::{Asked, Engine, Login, Method, User};
use crate::input::Input;
use crate::message::{DecodeError, Reader};
use crate::output::Output;
use crate::report::Report;
use crate::stream::Stream;
use crate::tls::Tls;
use bytes::Bytes;
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion};
use std::io;
use std::time::Duration;

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
/// Version 3.0, the only one spoken.
const PROTOCOL_3_0: i32 = 3 << 16;
/// How long a client may take to log on.
pub const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(60);

/// What a connection turned out to be.
pub enum Opening {
    /// A client that wants a session.
    Session(Startup),
    /// A request to cancel what another session does.
    Cancel { pid: i32, secret: i32 },
}

/// The startup packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Startup {
    pub user: String,
    pub database: String,
    pub parameters: Vec<(String, String)>,
    /// The client asked for a newer minor version.
    newer_minor: bool,
    /// Protocol options (`_pq_.…`) that are not known here.
    unknown_options: Vec<String>,
}

/// Why there is no session.
pub enum Failure {
    /// Tell the client, then close.
    Tell(Report),
    /// The client has gone.
    Gone,
    /// There is no way to tell the client; the log is told.
    Untold(String),
}

impl From<Report> for Failure {
    fn from(report: Report) -> Failure {
        Failure::Tell(report)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Failure::Tell(Report::fatal("57014", "canceling authentication due to timeout"))
            }
            _ => Failure::Gone,
        }
    }
}

/// Reads until the client has said what it wants.
pub fn read_opening(
    stream: &Stream,
    tls: Option<&Tls>,
    input: &mut Input,
    out: &mut Output,
) -> Result<Opening, Failure> {
    loop {
        let body = loop {
            if let Some(body) = input.next_startup()? {
                break input.body(body).to_vec();
            }
            fill(stream, input)?;
        };
        let mut r = Reader { rest: &body };
        match r.i32().map_err(malformed)? {
            SSL_REQUEST | GSS_REQUEST => {
                // Bytes sent before the answer would be taken for the encrypted session's.
                if input.has_bytes() {
                    return Err(Report::protocol(
                        "received unencrypted data after SSL or GSSAPI request",
                    )
                    .into());
                }
                let asked = i32::from_be_bytes([body[0], body[1], body[2], body[3]]);
                match tls.filter(|_| asked == SSL_REQUEST && stream.is_tcp()) {
                    Some(tls) if stream.encryption().is_none() => {
                        out.raw_byte(b'S');
                        out.flush();
                        let text = |e| format!("could not accept SSL connection: {e}");
                        stream.encrypt(tls).map_err(|e| Failure::Untold(text(e)))?;
                    }
                    _ => {
                        out.raw_byte(b'N');
                        out.flush();
                    }
                }
            }
            CANCEL_REQUEST => {
                let pid = r.i32().map_err(malformed)?;
                let secret = r.i32().map_err(malformed)?;
                return Ok(Opening::Cancel { pid, secret });
            }
            version if version >> 16 == 3 => {
                return parse_startup(version, r.rest).map(Opening::Session).map_err(Into::into);
            }
            version => {
                let (major, minor) = (version >> 16, version & 0xffff);
                return Err(Report::fatal(
                    "0A000",
                    format!(
                        "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
                    ),
                )
                .into());
            }
        }
    }
}

fn fill(stream: &Stream, input: &mut Input) -> Result<(), Failure> {
    if input.fill(&mut { stream })? == 0 { Err(Failure::Gone) } else { Ok(()) }
}

fn malformed(e: DecodeError) -> Report {
    Report::protocol(match e {
        DecodeError::Malformed(_) => "invalid startup packet layout: expected terminator",
        DecodeError::NotUtf8 => "invalid startup packet: a text is not UTF-8",
    })
}

/// The startup packet after its version.
///
/// # Errors
/// What the client is told.
pub fn parse_startup(version: i32, body: &[u8]) -> Result<Startup, Report> {
    let mut r = Reader { rest: body };
    let (mut user, mut database) = (None, None);
    let (mut parameters, mut unknown_options) = (Vec::new(), Vec::new());
    loop {
        let name = r.text().map_err(malformed)?;
        if name.is_empty() {
            break;
        }
        let value = r.text().map_err(malformed)?;
        match name {
            "user" => user = Some(value.to_owned()),
            "database" => database = Some(value.to_owned()),
            "options" => parse_options(value, &mut parameters)?,
            "replication" if !matches!(value, "false" | "off" | "no" | "0") => {
                return Err(Report::fatal("0A000", "replication connections are not supported"));
            }
            "replication" => {}
            name if name.starts_with("_pq_.") => unknown_options.push(name.to_owned()),
            name => parameters.push((name.to_owned(), value.to_owned())),
        }
    }
    if !r.rest.is_empty() {
        return Err(malformed(DecodeError::Malformed("")));
    }
    let user = user.filter(|u| !u.is_empty()).ok_or_else(|| {
        Report::fatal("28000", "no PostgreSQL user name specified in startup packet")
    })?;
    let database = database.filter(|d| !d.is_empty()).unwrap_or_else(|| user.clone());
    let newer_minor = version > PROTOCOL_3_0;
    Ok(Startup { user, database, parameters, newer_minor, unknown_options })
}

/// Takes `-c name=value` and `--name=value` apart; a backslash keeps the next character.
fn parse_options(text: &str, into: &mut Vec<(String, String)>) -> Result<(), Report> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--") {
            Some(rest) => Some(rest.replace('-', "_")),
            None if word == "-c" => words.next(),
            None => word.strip_prefix("-c").map(str::to_owned),
        };
        let pair = setting.as_deref().and_then(|s| s.split_once('='));
        let Some((name, value)) = pair else {
            return Err(Report::fatal(
                "42601",
                format!("invalid command-line argument for server process: {word}"),
            ));
        };
        into.push((name.to_owned(), value.to_owned()));
    }
    Ok(())
}

/// Lets the client prove who it is, and says how it did. `trusted`: the operating system has
/// vouched for it already.
pub async fn log_on<E: Engine>(
    engine: &E,
    startup: &Startup,
    trusted: bool,
    stream: &Stream,
    input: &mut Input,
    out: &mut Output,
) -> Result<(User, Method), Failure> {
    if startup.newer_minor || !startup.unknown_options.is_empty() {
        out.message(&NegotiateProtocolVersion::new(PROTOCOL_3_0, startup.unknown_options.clone()));
    }
    let user = engine.user(&startup.user).await?;
    let method = match trusted {
        true => Method::Trust,
        false => {
            let asked = Asked {
                user: &startup.user,
                database: &startup.database,
                peer: stream.peer_ip(),
                encrypted: stream.encryption().is_some(),
            };
            engine.admit(asked).await?
        }
    };
    let missing = || no_role(&startup.user);
    match method {
        Method::Trust => return Ok((user.ok_or_else(missing)?, method)),
        Method::Certificate => {
            let shown = stream.encryption().and_then(|of| of.client_name.as_deref());
            certificate_fits(&startup.user, shown)?;
            return Ok((user.ok_or_else(missing)?, method));
        }
        Method::Scram => {}
    }
    let verifier = user.as_ref().and_then(|user| user.verifier.clone());
    let mut exchange = Exchange::new(&startup.user, verifier.as_deref(), &engine.secret());
    let refuse = |e: AuthError| match e {
        AuthError::Refused => wrong_password(&startup.user),
        AuthError::Protocol(why) => Report::protocol(format!("malformed SCRAM message: {why}")),
    };
    out.message(&Authentication::SASL(vec![MECHANISM.to_owned()]));
    out.flush();
    let first = read_password(stream, input)?;
    let reply = exchange.client_first(initial_response(&first)?).map_err(refuse)?;
    out.message(&Authentication::SASLContinue(Bytes::from(reply)));
    out.flush();
    let proof = read_password(stream, input)?;
    let reply = exchange.client_final(&proof).map_err(refuse)?;
    out.message(&Authentication::SASLFinal(Bytes::from(reply)));
    // Whoever has proved a password is a user.
    Ok((user.ok_or_else(missing)?, method))
}

fn read_password(stream: &Stream, input: &mut Input) -> Result<Vec<u8>, Failure> {
    loop {
        if let Some(body) = input.next_password()? {
            return Ok(input.body(body).to_vec());
        }
        fill(stream, input)?;
    }
}

/// The mechanism's data in a SASLInitialResponse.
fn initial_response(body: &[u8]) -> Result<&[u8], Report> {
    let bad = |_| Report::protocol("malformed SASL initial response");
    let mut r = Reader { rest: body };
    let mechanism = r.text().map_err(bad)?;
    if mechanism != MECHANISM {
        return Err(Report::protocol("client selected an invalid SASL authentication mechanism"));
    }
    let len = usize::try_from(r.i32().map_err(bad)?)
        .map_err(|_| Report::protocol("SASL initial response is empty"))?;
    let data = r.take(len).map_err(bad)?;
    if r.rest.is_empty() { Ok(data) } else { Err(bad(DecodeError::NotUtf8)) }
}

impl Startup {
    /// What the engine is told.
    pub fn into_login(self, peer: String) -> Login {
        let Startup { user, database, parameters, .. } = self;
        Login { user, database, parameters, peer, os_process: None, encryption: None, method: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_kept_and_options_taken_apart() {
        let body = b"user\0ann\0search_path\0x\0options\0-c a=1 -cb=two\\ words --c-d=3\0\
                     _pq_.new\0on\0\0";
        let s = parse_startup(PROTOCOL_3_0 + 2, body).unwrap();
        assert_eq!((s.user.as_str(), s.database.as_str()), ("ann", "ann"));
        let pairs: Vec<_> = s.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("search_path", "x"), ("a", "1"), ("b", "two words"), ("c_d", "3")]);
        assert!(s.newer_minor);
        assert_eq!(s.unknown_options, ["_pq_.new"]);
    }

    #[test]
    fn startup_packets_that_are_cut_or_name_no_user_are_refused() {
        let body = b"user\0ann\0database\0d\0\0";
        assert!(parse_startup(PROTOCOL_3_0, body).is_ok());
        for len in 0..body.len() {
            assert!(parse_startup(PROTOCOL_3_0, &body[..len]).is_err(), "cut at {len}");
        }
        assert_eq!(parse_startup(PROTOCOL_3_0, b"\0").unwrap_err().code(), "28000");
        assert!(parse_startup(PROTOCOL_3_0, b"user\0a\0\0x").is_err());
        assert!(parse_options("-x", &mut Vec::new()).is_err());
    }
}
