//! Whose session it is, and of which instance: `connect`.
//!
//! What it promises: the superuser comes through the Unix socket in the folder of the database,
//! everybody else over the network, where the server asks for the password; a session that cannot
//! be begun leaves the one that there is, and what is open in it. What it must never do: show a
//! password.

use super::place::HIDDEN;
use super::stream::{Address, Link};
use super::words::{command, first_word};
use super::{Flow, Notice, Shell, query};
use crate::config::Config;
use crate::error::{CliError, Result};
use crate::layout::Layout;
use crate::runtime::{State, probe};
use futures::{StreamExt, stream};
use std::path::PathBuf;
use std::rc::Rc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// COMMIT or ROLLBACK with nothing to end.
const NO_TRANSACTION: SqlState = SqlState::NO_ACTIVE_SQL_TRANSACTION;
const USAGE: &str = "connect [USER[/PASSWORD]][@K], or connect K: K is an instance's number, and a \
                     password with an @ or a blank stands in \"quotes\"";

/// Who somebody is; by default the superuser.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Login {
    pub(super) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("skein")
    }

    pub(super) fn is_superuser(&self) -> bool {
        self.user.is_none()
    }
}

/// What `connect` says.
#[derive(PartialEq, Eq)]
struct Wanted {
    /// `None`: who it was.
    login: Option<Login>,
    /// `None`: where it was.
    instance: Option<u16>,
}

/// A name or a password: one in quotes is what it is, another name has small letters.
fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(|t| !t.is_empty())
}

/// Where the last of these characters stands outside of quotes.
fn outside(text: &str, wanted: char, last: bool) -> Option<usize> {
    let mut quoted = false;
    let places = text.char_indices().filter(|(_, c)| {
        quoted ^= *c == '"';
        !quoted && *c == wanted
    });
    let all: Vec<usize> = places.map(|(at, _)| at).collect();
    if last { all.last().copied() } else { all.first().copied() }
}

/// `2`, or the name of an instance: `skein2`.
fn instance_of(text: &str) -> Option<u16> {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_');
    digits.parse().ok()
}

fn wanted(text: &str) -> Option<Wanted> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_ascii_whitespace().collect();
    let as_what = match &words[..] {
        [.., "as", "sysdba" | "sysoper"] => Some(true),
        [.., "as", "normal"] => Some(false),
        _ => None,
    };
    let text = match as_what {
        Some(_) => lower.rfind(" as ").map_or("", |end| text[..end].trim()),
        None => text.trim(),
    };
    if text.is_empty() {
        return Some(Wanted { login: as_what.map(|_| Login::default()), instance: None });
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Wanted { login: None, instance: Some(text.parse().ok()?) });
    }
    let (who, instance) = match outside(text, '@', true) {
        Some(at) => (&text[..at], Some(instance_of(&text[at + 1..])?)),
        None => (text, None),
    };
    let (user, password) = match outside(who, '/', false) {
        Some(at) => (&who[..at], Some(&who[at + 1..])),
        None => (who, None),
    };
    if user.is_empty() || as_what == Some(true) {
        return Some(Wanted { login: Some(Login::default()), instance });
    }
    let plain = unquoted(user).is_none();
    if plain && user.contains(char::is_whitespace) {
        return None;
    }
    let user = unquoted(user).map_or_else(|| user.to_lowercase(), str::to_owned);
    let password = password.map(|text| unquoted(text).unwrap_or(text).to_owned());
    Some(Wanted { login: Some(Login { user: Some(user), password }), instance })
}

/// Where what follows the word begins, if a command is `connect`.
fn wanted_at(line: &str) -> Option<usize> {
    let text = line.trim_start();
    let (text, len, is_own) = match text.strip_prefix('\\') {
        Some(text) => {
            let text = text.trim_start();
            let len = text.find(char::is_whitespace).unwrap_or(text.len());
            (text, len, matches!(&text[..len], "c" | "connect"))
        }
        None => {
            let word = first_word(text);
            (text, word.len(), command(word) == Some("connect"))
        }
    };
    is_own.then_some(line.len() - text.len() + len)
}

/// A command with a password as it may be shown; `None`: it has none.
pub(super) fn masked(line: &str) -> Option<String> {
    let (head, text) = line.split_at(wanted_at(line)?);
    let end = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace()).len();
    let lower = text[..end].to_ascii_lowercase();
    let words: Vec<&str> = lower.split_ascii_whitespace().collect();
    let end = match &words[..] {
        [.., "as", "sysdba" | "sysoper" | "normal"] => lower.rfind(" as ").unwrap_or(end),
        _ => end,
    };
    let who = text[..end].trim_end();
    // What names no instance is part of a password that lacks its quotes.
    let at = outside(who, '@', true).filter(|at| instance_of(&who[at + 1..]).is_some());
    let end = at.unwrap_or(who.len());
    if let Some(slash) = outside(&who[..end], '/', false) {
        let has_password = !who[slash + 1..end].trim().is_empty();
        return has_password.then(|| format!("{head}{}/{HIDDEN}{}", &text[..slash], &text[end..]));
    }
    // What is not understood may be one, too.
    let user = who[..end].trim();
    let blank = user.find(char::is_whitespace).filter(|_| !user.starts_with('"'))?;
    Some(format!("{head} {} {HIDDEN}{}", &user[..blank], &text[end..]))
}

/// Where an instance listens; without a number, the first that is open.
fn find_listen(layout: &Layout, instance: Option<u16>) -> Result<String> {
    let config = Config::load(layout)?;
    let candidates: Vec<u16> = match instance {
        Some(k) => {
            config.check_instance(k)?;
            vec![k]
        }
        None => (1..=config.instances).collect(),
    };
    for k in candidates {
        if let Some(runtime) = probe(layout, k)?.filter(|r| r.state == State::Open) {
            return Ok(runtime.listen);
        }
    }
    Err(CliError::state(match instance {
        Some(k) => format!("instance {k} is not open"),
        None => "no instance is open".to_owned(),
    }))
}

fn parts(listen: &str) -> Result<(&str, u16)> {
    let parts = listen.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| CliError::failed(format!("{listen}: no usable address of an instance")))
}

/// The port of an instance; without a number, of the first that is open.
///
/// # Errors
/// None is open.
pub(crate) fn find_port(layout: &Layout, instance: Option<u16>) -> Result<u16> {
    Ok(parts(&find_listen(layout, instance)?)?.1)
}

/// A session as it has begun.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
    /// What carries its messages.
    pub(super) task: JoinHandle<()>,
    pub(super) link: Link,
}

/// The socket of an instance in the folder of the database.
fn socket(layout: &Layout, port: u16) -> PathBuf {
    layout.dir().join(format!(".s.PGSQL.{port}"))
}

/// A session of the superuser.
///
/// # Errors
/// The instance cannot be reached.
pub(crate) async fn connect(
    layout: &Layout,
    port: u16,
) -> Result<(Client, mpsc::UnboundedReceiver<Notice>)> {
    let mut config = tokio_postgres::Config::new();
    config.user("skein");
    let Session { client, notices, .. } =
        session(config, Address::Unix(socket(layout, port))).await?;
    Ok((client, notices))
}

/// A session of somebody.
pub(super) async fn begin(
    layout: &Layout,
    instance: Option<u16>,
    login: &Login,
) -> Result<Session> {
    let listen = find_listen(layout, instance)?;
    let (host, port) = parts(&listen)?;
    let mut config = tokio_postgres::Config::new();
    config.user(login.user());
    if let Some(password) = &login.password {
        config.password(password);
    }
    let address = match login.is_superuser() {
        true => Address::Unix(socket(layout, port)),
        false => {
            let host = match host {
                "0.0.0.0" => "127.0.0.1",
                "[::]" => "::1",
                host => host.trim_start_matches('[').trim_end_matches(']'),
            };
            Address::Tcp(host.to_owned(), port)
        }
    };
    session(config, address).await
}

async fn session(mut config: tokio_postgres::Config, address: Address) -> Result<Session> {
    config.dbname("skein").application_name("skein sql");
    let opened = Link::open(address).await;
    let (link, wire) =
        opened.map_err(|e| CliError::failed(format!("error connecting to server: {e}")))?;
    let connected = config.connect_raw(wire, NoTls).await;
    let (client, mut connection) =
        connected.map_err(|e| CliError::failed(query::error_text(&e)))?;
    let (sender, notices) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            let notice = match message {
                AsyncMessage::Notice(notice) => Notice {
                    severity: notice.severity().to_owned(),
                    text: notice.message().to_owned(),
                    ends_nothing: *notice.code() == NO_TRANSACTION,
                },
                AsyncMessage::Notification(told) => Notice {
                    severity: "NOTIFY".to_owned(),
                    text: format!("{} \"{}\"", told.channel(), told.payload()),
                    ends_nothing: false,
                },
                _ => continue,
            };
            if sender.send(notice).is_err() {
                return;
            }
        }
    });
    Ok(Session { client, notices, task, link })
}

impl Shell {
    /// Goes on with another instance or as another user, in a session of its own; what is open is
    /// committed as soon as that stands.
    pub(super) async fn reconnect(&mut self, text: &str) -> Result<Flow> {
        let wanted = wanted(text).ok_or_else(|| CliError::usage(USAGE))?;
        let mut login = wanted.login.unwrap_or_else(|| self.login.clone());
        if login.user.is_some() && login.password.is_none() && self.interactive {
            login.password = self.ask_for("Enter password: ", true).await?;
        }
        let instance = wanted.instance.or(self.instance);
        // What is open is not ended for a session that there may not be.
        let Session { client, notices, task, link } = begin(&self.layout, instance, &login).await?;
        match self.commit_open().await {
            Ok(Flow::Next) => {}
            stays => {
                task.abort();
                return stays;
            }
        }
        self.task.abort();
        self.watcher = None;
        self.prepared.clear();
        // Its cursors ended with the session before.
        for variable in self.variables.values_mut().filter(|variable| variable.is_cursor()) {
            variable.value = None;
        }
        (self.client, self.notices, self.task) = (Rc::new(client), notices, task);
        self.link = link;
        (self.instance, self.is_connected) = (instance, true);
        let mut told = "connected".to_owned();
        if let Some(number) = instance {
            told.push_str(&format!(" to instance {number}"));
        }
        if let Some(user) = &login.user {
            told.push_str(&format!(" as {user}"));
        }
        self.login = login;
        self.print(&format!("{told}\n"));
        Ok(Flow::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let Some(Wanted { login, instance }) = wanted(text) else { return "?".to_owned() };
        let who = login.map(|l| {
            let part = |part: Option<String>| part.unwrap_or("-".to_owned());
            format!("{} {}", part(l.user), part(l.password))
        });
        let number = instance.map_or("same".to_owned(), |k| k.to_string());
        format!("{} {number}", who.unwrap_or("same".to_owned()))
    }

    #[test]
    fn users_and_instances_are_read() {
        for (text, expected) in [
            ("", "same same"),
            ("2", "same 2"),
            ("/", "- - same"),
            ("/ as sysdba", "- - same"),
            ("/@2 as sysdba", "- - 2"),
            ("sys/x@skein2 AS SYSDBA", "- - 2"),
            ("scott", "scott - same"),
            ("Scott/Tiger", "scott Tiger same"),
            ("scott/tiger@2", "scott tiger 2"),
            ("scott/tiger@skein3", "scott tiger 3"),
            ("scott@1", "scott - 1"),
            ("\"Scott\"/\"p@s/s\"@1", "Scott p@s/s 1"),
            ("scott/a/b", "scott a/b same"),
            ("scott/tiger@nowhere", "?"),
            ("no user", "?"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn passwords_of_commands_are_not_shown() {
        for (line, expected) in [
            ("connect scott/tiger@1", "connect scott/***@1"),
            ("  CONN Scott/Tiger ;", "  CONN Scott/*** ;"),
            ("connec scott/tiger@skein2", "connec scott/***@skein2"),
            ("\\c scott/tiger", "\\c scott/***"),
            ("\\connect scott/tiger@2;", "\\connect scott/***@2;"),
            ("connect \"Scott\"/\"p@s/s\"@1", "connect \"Scott\"/***@1"),
            ("connect \"a/b\"/\"it's; x\"", "connect \"a/b\"/***"),
            ("connect scott/\"two words\" as normal", "connect scott/*** as normal"),
            ("connect sys/x@2 AS SYSDBA", "connect sys/***@2 AS SYSDBA"),
            ("connect scott/p@ss", "connect scott/***"),
            ("connect scott/p@ss@1", "connect scott/***@1"),
            ("connect scott/\"open@1", "connect scott/***"),
            ("connect scott@1/tiger", "connect scott@1/***"),
            ("connect scott/a/b@1", "connect scott/***@1"),
            ("connect scott/ -\n  tiger@1", "connect scott/***@1"),
            ("connect /secret@1", "connect /***@1"),
            ("connect scott tiger@1", "connect scott ***@1"),
        ] {
            assert_eq!(masked(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "connect",
            "connect 2",
            "connect scott",
            "connect scott@1",
            "connect scott as normal",
            "connect / as sysdba",
            "connect /@2",
            "connect scott/",
            "connect \"no password\"@1",
            "\\conninfo a/b",
            "\\cd a/b",
            "compute sum of a/b on c",
            "select 1/2",
        ] {
            assert_eq!(masked(line), None, "{line}");
        }
    }
}
