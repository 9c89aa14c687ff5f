//! Commands of the shell: psql's, which begin with a backslash, and the field's.
//!
//! What it promises: a command that it does not know is an error that says so. What it must never
//! do: take a statement of SQL for a command.

use super::pieces::SETTINGS;
use super::{Flow, Format, Place, Shell, Variable, query};
use crate::error::{CliError, Doing, Result};
use std::fs::File;
use std::path::PathBuf;

/// What `set` and `\pset` have set.
pub(super) struct Settings {
    pub(super) format: Format,
    pub(super) timing: bool,
    /// `None`: notices are shown as such.
    pub(super) serveroutput: Option<bool>,
    pub(super) feedback: bool,
    pub(super) heading: bool,
    pub(super) echo: bool,
    pub(super) termout: bool,
    /// Whether `&name` is replaced.
    pub(super) define: bool,
    pub(super) null: String,
    pub(super) separator: String,
    pub(super) on_error: Flow,
}

impl Settings {
    pub(super) fn new(interactive: bool) -> Settings {
        Settings {
            format: Format::Aligned,
            timing: false,
            serveroutput: None,
            feedback: true,
            heading: true,
            echo: false,
            termout: true,
            define: true,
            null: String::new(),
            separator: "|".to_owned(),
            on_error: if interactive { Flow::Next } else { Flow::Exit(1) },
        }
    }
}

const HELP: &str = "\
Statements end with a semicolon, blocks and routines in the field's language with a line that
holds a slash; a slash by itself runs the statement before once more. Tab completes, Ctrl-C ends
what runs.

  \\d [NAME]  \\dt \\dv \\dm \\di \\ds \\df \\dn \\du \\dT \\l     (with PATTERN, * and ?)
  \\x  \\pset format aligned|expanded|csv|json  \\pset null TEXT  \\timing  \\conninfo
  \\i FILE  \\o [FILE]  \\c INSTANCE  \\! COMMAND  \\echo TEXT  \\q

  set timing|serveroutput|feedback|heading|echo|termout|define on|off    set format, null, colsep X
  exec STATEMENT;   variable NAME TYPE   print [NAME]   :NAME in statements and blocks
  @FILE [VALUES] with &1 ..   define NAME = TEXT   prompt TEXT   rem TEXT   describe NAME
  spool FILE|off   whenever sqlerror exit [N]|continue   connect INSTANCE   host COMMAND   exit [N]
";

/// A word and what follows it.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn usage(text: impl std::fmt::Display) -> CliError {
    CliError::failed(format!("{text}"))
}

/// `on` and `off`; nothing switches.
fn switched(text: &str, now: bool) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(!now),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(usage(format!("on or off, not {other}"))),
    }
}

fn format_of(name: &str) -> Result<Format> {
    Ok(match name {
        "aligned" => Format::Aligned,
        "expanded" => Format::Expanded,
        "csv" => Format::Csv,
        "json" => Format::Json,
        other => return Err(usage(format!("format {other}: aligned, expanded, csv or json"))),
    })
}

fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix(['\'', '"']).and_then(|t| t.strip_suffix(['\'', '"']));
    inner.unwrap_or(text)
}

impl Shell {
    pub(super) async fn command(&mut self, line: &str, place: Place<'_>) -> Result<Flow> {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('\\') {
            return self.backslash(rest.trim_end_matches(';').trim_end()).await;
        }
        if let Some(rest) = line.strip_prefix("@@").or_else(|| line.strip_prefix('@')) {
            return self.script(rest).await;
        }
        if let Some(rest) = line.strip_prefix('!') {
            return self.host(rest);
        }
        let (word, rest) = split_word(line);
        let word = word.trim_end_matches(';').to_ascii_lowercase();
        let plain = rest.trim_end_matches(';').trim_end();
        match word.as_str() {
            "rem" | "remark" => {}
            "prompt" => self.print(&format!("{rest}\n")),
            "set" => self.set(plain)?,
            "show" => self.tell_of(plain),
            "exec" | "execute" => return self.exec(plain, place).await,
            "variable" | "var" => self.declare(plain)?,
            "print" => self.print_variables(plain)?,
            "start" => return self.script(plain).await,
            "spool" => self.spool_to(plain)?,
            "whenever" => self.whenever(plain)?,
            "define" => self.define(plain)?,
            "undefine" => {
                self.defines.remove(&plain.to_lowercase());
            }
            "accept" | "pause" => return Err(usage(format!("{word} is not supported: use &1"))),
            "host" => return self.host(plain),
            "desc" | "describe" => self.describe_columns(plain).await?,
            "connect" | "conn" => self.reconnect(plain).await?,
            "help" => self.print(HELP),
            "timing" => self.settings.timing = switched(plain, self.settings.timing)?,
            // They only say how a report looks on paper.
            "clear" | "column" | "col" | "ttitle" | "btitle" | "break" | "compute" => {}
            "exit" | "quit" => return exit_code(plain).map(Flow::Exit),
            other => return Err(usage(format!("{other}: no command"))),
        }
        Ok(Flow::Next)
    }

    async fn backslash(&mut self, line: &str) -> Result<Flow> {
        let (word, rest) = split_word(line);
        match word {
            "q" | "quit" => return Ok(Flow::Exit(0)),
            "?" | "h" | "help" => self.print(HELP),
            "x" => {
                let now = self.settings.format == Format::Expanded;
                self.settings.format = match switched(rest, now)? {
                    true => Format::Expanded,
                    false => Format::Aligned,
                };
            }
            "timing" => self.settings.timing = switched(rest, self.settings.timing)?,
            "pset" => {
                let (name, value) = split_word(rest);
                match name {
                    "format" => self.settings.format = format_of(value)?,
                    "null" => unquoted(value).clone_into(&mut self.settings.null),
                    "fieldsep" => unquoted(value).clone_into(&mut self.settings.separator),
                    other => return Err(usage(format!("\\pset {other}: no such setting"))),
                }
            }
            "a" | "t" | "H" => return Err(usage(format!("\\{word}: use \\pset format"))),
            "i" | "ir" => return self.script(rest).await,
            "o" => self.spool_to(if rest.is_empty() { "off" } else { rest })?,
            "echo" => self.print(&format!("{}\n", unquoted(rest))),
            "!" => return self.host(rest),
            "c" | "connect" => self.reconnect(rest).await?,
            "conninfo" => {
                let text = "select 'instance ' || instance_number || ', user ' || current_user as \
                            connected from v$instance";
                let table = query::rows(self, text).await?;
                self.show(&table);
            }
            _ if word.starts_with('d') || word == "l" => self.describe(word, rest).await?,
            other => {
                let text = format!("\\{other}: no command; \\? lists them");
                return Err(usage(text));
            }
        }
        Ok(Flow::Next)
    }

    fn set(&mut self, text: &str) -> Result<()> {
        let (name, value) = split_word(text);
        let settings = &mut self.settings;
        match name.to_ascii_lowercase().as_str() {
            "timing" => settings.timing = switched(value, settings.timing)?,
            "serveroutput" => {
                // `set serveroutput on size unlimited`
                let (on, _) = split_word(value);
                settings.serveroutput = Some(switched(on, settings.serveroutput == Some(true))?);
            }
            "feedback" | "feed" => {
                settings.feedback = value
                    .parse::<u32>()
                    .map_or_else(|_| switched(value, settings.feedback), |rows| Ok(rows > 0))?;
            }
            "heading" | "head" => settings.heading = switched(value, settings.heading)?,
            "pagesize" | "pages" => settings.heading = value != "0",
            "echo" => settings.echo = switched(value, settings.echo)?,
            "termout" | "term" => settings.termout = switched(value, settings.termout)?,
            "define" => settings.define = switched(value, settings.define)?,
            "format" => settings.format = format_of(&value.to_ascii_lowercase())?,
            "null" => unquoted(value).clone_into(&mut settings.null),
            "colsep" => unquoted(value).clone_into(&mut settings.separator),
            // They only say how a report looks on paper.
            other if SETTINGS.contains(&other) => {}
            other => return Err(usage(format!("set {other}: no such setting"))),
        }
        Ok(())
    }

    fn tell_of(&mut self, what: &str) {
        let text = match split_word(what).0.to_ascii_lowercase().as_str() {
            "user" => "USER is \"skein\"\n".to_owned(),
            "release" => format!("release {}\n", env!("CARGO_PKG_VERSION")),
            // They are told where they happen.
            _ => "No errors.\n".to_owned(),
        };
        self.print(&text);
    }

    async fn exec(&mut self, statement: &str, place: Place<'_>) -> Result<Flow> {
        let lower = statement.to_ascii_lowercase();
        // Those that switch traces are statements of their own.
        let traces = ["dbms_monitor.", "dbms_session.session_trace"];
        let text = match traces.iter().any(|begin| lower.starts_with(begin)) {
            true => format!("call {statement}"),
            false => format!("begin {statement}; end;"),
        };
        self.last = Some(text.clone());
        self.run_statement(&text, place).await
    }

    /// `variable x number`, or what there is.
    fn declare(&mut self, text: &str) -> Result<()> {
        let (name, ty) = split_word(text);
        if name.is_empty() {
            let all = self.variables.iter().map(|(name, v)| format!("{name} {}\n", v.ty));
            let all: String = all.collect();
            self.print(&all);
            return Ok(());
        }
        if ty.is_empty() {
            return Err(usage("variable NAME TYPE"));
        }
        let variable = Variable { ty: ty.to_owned(), value: None };
        self.variables.insert(name.trim_start_matches(':').to_lowercase(), variable);
        Ok(())
    }

    fn print_variables(&mut self, text: &str) -> Result<()> {
        let wanted: Vec<String> =
            text.split_whitespace().map(|n| n.trim_start_matches(':').to_lowercase()).collect();
        if let Some(name) = wanted.iter().find(|name| !self.variables.contains_key(*name)) {
            return Err(usage(format!("bind variable \"{name}\" is not declared")));
        }
        let shown = self.variables.iter().filter(|(n, _)| wanted.is_empty() || wanted.contains(n));
        let (header, row) = shown.map(|(name, v)| (name.clone(), v.value.clone())).unzip();
        let table = super::format::Table { header, rows: vec![row], kinds: Vec::new() };
        if !table.header.is_empty() {
            self.show(&table);
        }
        Ok(())
    }

    async fn script(&mut self, text: &str) -> Result<Flow> {
        let mut words = text.trim_end_matches(';').split_whitespace();
        let name = words.next().ok_or_else(|| usage("which file?"))?;
        let folder = self.folders.last().cloned().unwrap_or_default();
        let mut path = folder.join(unquoted(name));
        if !path.exists() && path.extension().is_none() {
            path.set_extension("sql");
        }
        let before = self.defines.clone();
        for (i, value) in words.enumerate() {
            self.defines.insert((i + 1).to_string(), unquoted(value).to_owned());
        }
        let done = Box::pin(self.run_file(&path)).await;
        self.defines.retain(|name, _| name.parse::<u32>().is_err());
        let numbers = before.into_iter().filter(|(name, _)| name.parse::<u32>().is_ok());
        self.defines.extend(numbers);
        done
    }

    fn spool_to(&mut self, text: &str) -> Result<()> {
        let (name, how) = split_word(text);
        if name.is_empty() || name.eq_ignore_ascii_case("off") {
            self.spool = None;
            return Ok(());
        }
        let mut path = PathBuf::from(unquoted(name));
        if path.extension().is_none() {
            path.set_extension("lst");
        }
        let appends = how.to_ascii_lowercase().starts_with("app");
        let mut options = File::options();
        let options = options.create(true).write(true).append(appends).truncate(!appends);
        self.spool = Some(options.open(&path).doing(format_args!("write {}", path.display()))?);
        Ok(())
    }

    fn whenever(&mut self, text: &str) -> Result<()> {
        let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match &words[..] {
            ["oserror", ..] => Ok(()),
            ["sqlerror", "continue", ..] => {
                self.settings.on_error = Flow::Next;
                Ok(())
            }
            ["sqlerror", "exit", rest @ ..] => {
                let code = rest.iter().find(|word| !matches!(**word, "commit" | "rollback"));
                let code = code.map_or(Ok(1), |code| exit_code(code))?;
                self.settings.on_error = Flow::Exit(code);
                Ok(())
            }
            _ => Err(usage("whenever sqlerror exit [N] or continue")),
        }
    }

    fn define(&mut self, text: &str) -> Result<()> {
        let Some((name, value)) = text.split_once('=') else {
            if text.is_empty() {
                let all = self.defines.iter().map(|(n, v)| format!("DEFINE {n} = \"{v}\"\n"));
                let all: String = all.collect();
                self.print(&all);
                return Ok(());
            }
            return Err(usage("define NAME = TEXT"));
        };
        let value = unquoted(value.trim()).to_owned();
        self.defines.insert(name.trim().to_lowercase(), value);
        Ok(())
    }

    fn host(&mut self, text: &str) -> Result<Flow> {
        let status = std::process::Command::new("/bin/sh").args(["-c", text]).status();
        let status = status.doing("run /bin/sh")?;
        match status.success() {
            true => Ok(Flow::Next),
            false => Err(CliError::failed(format!("{text}: {status}"))),
        }
    }

    /// Goes on with another instance, in a session of its own.
    async fn reconnect(&mut self, text: &str) -> Result<()> {
        let number = text.parse::<u16>().map_err(|_| usage("connect INSTANCE, by its number"))?;
        let port = super::find_port(&self.layout, Some(number))?;
        let (client, notices) = super::connect(&self.layout, port).await?;
        (self.client, self.notices, self.instance) = (client, notices, Some(number));
        self.print(&format!("connected to instance {number}\n"));
        Ok(())
    }

    /// Names to be completed; none if the catalog cannot be read.
    pub(super) async fn words(&mut self) -> Vec<String> {
        let text = "select relname from pg_class c join pg_namespace n on n.oid = relnamespace \
                    where nspname not in ('pg_catalog', 'information_schema') union select attname \
                    from pg_attribute a join pg_class c on c.oid = attrelid join pg_namespace n on \
                    n.oid = relnamespace where attnum > 0 and nspname not in ('pg_catalog', \
                    'information_schema') union select proname from pg_proc where pronamespace <> 11";
        let found = query::rows(self, text).await;
        let rows = found.map(|table| table.rows).unwrap_or_default();
        rows.into_iter().flatten().flatten().collect()
    }
}

fn exit_code(text: &str) -> Result<u8> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "" | "success" => 0,
        "failure" | "warning" | "sql.sqlcode" => 1,
        number => number.parse().map_err(|_| usage("an exit code is a number from 0 to 255"))?,
    })
}
