//! Commands of the shell: psql's, which begin with a backslash, and the field's.
//!
//! What it promises: a command that it does not know is an error that says so. What it must never
//! do: take a statement of SQL for a command.

use super::defines::Unknown;
use super::place::{Edited, Place};
use super::settings::{format_of, switched};
use super::transaction::End;
use super::words::{absent, command, first_word, is_line_number, joined, quoted_words};
use super::{Flow, Format, Shell, query};
use crate::error::{CliError, Doing, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

const HELP: &str = "\
Statements end with a semicolon, blocks and routines in the field's language with a line that
holds a slash; a slash by itself runs the statement before once more. Tab completes, Ctrl-C ends
what runs.

  \\d [NAME]  \\dt \\dv \\dm \\di \\ds \\df \\dn \\du \\dT \\l     (with PATTERN, * and ?)
  \\x  \\pset format aligned|expanded|csv|json  \\pset null TEXT  \\timing  \\conninfo
  \\i FILE  \\o [FILE]  \\c INSTANCE  \\! COMMAND  \\echo TEXT  \\q

  set timing|serveroutput|feedback|heading|echo|termout|define on|off    set format, null, colsep X
  set autotrace on|off|traceonly [explain] [statistics]
  set autocommit on|off   set autoprint on|off   show NAME   show errors   show parameter NAME
  set sqlprompt TEXT   set verify on   set numformat 999,990.99   set numwidth N
  exec STATEMENT;   variable NAME TYPE [= VALUE]   print [NAME]   :NAME in statements and blocks
  @FILE [VALUES] with &1 ..   define NAME = TEXT   accept NAME prompt TEXT   prompt TEXT   rem TEXT
  describe NAME   timing start|show|stop   spool FILE|off
  column NAME format a20|999,990.99 heading 'A|B' null TEXT new_value VARIABLE noprint clear
  break on COLUMN [skip N]   compute sum of COLUMN on COLUMN   clear breaks|computes
  list   N   append TEXT   change/OLD/NEW/   input TEXT   del [N [M]]   run   save FILE   get FILE
  connect [USER/PASSWORD][@K]   disconnect   host COMMAND
  whenever sqlerror|oserror exit [N|sql.sqlcode|oscode|:NAME] [commit|rollback] | continue
  exit [N|sql.sqlcode|oscode|:NAME] [commit|rollback]
";

/// A word and what follows it.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn usage(text: impl std::fmt::Display) -> CliError {
    CliError::failed(format!("{text}"))
}

pub(super) fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix(['\'', '"']).and_then(|t| t.strip_suffix(['\'', '"']));
    inner.unwrap_or(text)
}

/// Where a script that another one names is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    /// Where the shell was called, then beside the script that names it.
    Caller,
    Script,
}

/// The file of a name in a folder, with the usual ending if there is none without.
pub(super) fn file_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    let usual = path.extension().is_none().then(|| path.with_extension("sql"));
    let is_file = |path: &PathBuf| path.exists() && !path.is_dir();
    [Some(path), usual].into_iter().flatten().find(is_file)
}

impl Shell {
    pub(super) async fn command(&mut self, line: &str, place: &Place) -> Result<Flow> {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('\\') {
            return self.backslash(rest.trim_end_matches(';').trim_end()).await;
        }
        if let Some(rest) = line.strip_prefix("@@") {
            return self.script(rest, Beside::Script).await;
        }
        if let Some(rest) = line.strip_prefix('@') {
            return self.script(rest, Beside::Caller).await;
        }
        if let Some(rest) = line.strip_prefix('!') {
            return self.host(rest);
        }
        let word = first_word(line);
        let rest = line[word.len()..].trim();
        let plain = rest.trim_end_matches(';').trim_end();
        if let Some(text) = absent(word) {
            self.refuse(&text);
            return Ok(Flow::Next);
        }
        // As it was written, with its blanks.
        let raw = &line[word.len()..];
        let raw = raw.strip_suffix(';').unwrap_or(raw);
        if is_line_number(word) {
            self.go_to_line(word, plain)?;
            return Ok(Flow::Next);
        }
        match command(word).unwrap_or("") {
            "accept" => self.accept(plain).await?,
            "append" => self.append(raw)?,
            "break" => self.set_breaks(plain)?,
            "change" => self.change(raw)?,
            "column" => self.column(plain),
            "compute" => self.compute(plain)?,
            "connect" => return self.reconnect(plain).await,
            "define" => self.define(plain)?,
            "del" => self.delete_lines(plain)?,
            "describe" => self.describe_columns(plain).await?,
            "disconnect" => return self.disconnect().await,
            "execute" => return self.exec(line, plain, place).await,
            "exit" | "quit" => return self.exit(plain).await,
            "get" => self.get(plain)?,
            "help" => self.print(HELP),
            "host" => return self.host(plain),
            "input" => self.input(raw).await?,
            "list" => self.list_buffer(plain)?,
            "pause" => self.pause(plain).await?,
            "print" => self.print_variables(plain).await?,
            "prompt" => self.print(&format!("{rest}\n")),
            "run" => return self.run_again(true).await,
            "save" => self.save(plain)?,
            "set" => self.set(plain)?,
            "show" => self.tell_of(plain).await?,
            "spool" => self.spool_to(plain)?,
            "start" => return self.script(plain, Beside::Caller).await,
            "timing" => self.timing(plain)?,
            "undefine" => plain.split_whitespace().for_each(|name| {
                self.defines.remove(&name.to_lowercase());
            }),
            "variable" => self.declare(plain).await?,
            "whenever" => self.whenever(plain)?,
            "clear" => match plain.to_ascii_lowercase() {
                what if what.starts_with("bre") => self.clear_breaks(),
                what if what.starts_with("col") => self.columns.clear(),
                what if what.starts_with("comp") => self.clear_computes(),
                what if what.starts_with("timi") => self.timers.clear(),
                what if what.starts_with("buff") || what == "sql" => self.buffer = None,
                _ => {}
            },
            "remark" => {}
            // They only say how a report looks on paper.
            "btitle" | "repfooter" | "repheader" | "ttitle" => {}
            _ => return Err(usage(format!("{word}: no command"))),
        }
        Ok(Flow::Next)
    }

    async fn backslash(&mut self, line: &str) -> Result<Flow> {
        let (word, rest) = split_word(line);
        match word {
            "q" | "quit" => return Ok(Flow::Exit(0, End::Rollback)),
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
            "i" => return self.script(rest, Beside::Caller).await,
            "ir" => return self.script(rest, Beside::Script).await,
            "o" => self.spool_to(if rest.is_empty() { "off" } else { rest })?,
            "echo" => self.print(&format!("{}\n", unquoted(rest))),
            "!" => return self.host(rest),
            "c" | "connect" => return self.reconnect(rest).await,
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

    /// Runs what a line has behind `exec`.
    async fn exec(&mut self, line: &str, statement: &str, place: &Place) -> Result<Flow> {
        let lower = statement.to_ascii_lowercase();
        // Those that switch traces are statements of their own.
        let traces = ["dbms_monitor.", "dbms_session.session_trace"];
        let (before, behind) = match traces.iter().any(|begin| lower.starts_with(begin)) {
            true => ("call ", ""),
            false => ("begin ", "; end;"),
        };
        // Errors have their places in the line.
        let at = line.rfind(statement).unwrap_or(0);
        let mut text = Edited::default();
        text.put(0, before);
        text.copy(at, statement);
        text.put(line.len(), behind);
        self.buffer = Some(super::buffer::Buffer::new(text.text.clone(), place.clone()));
        self.run_statement(line, &text, place).await
    }

    async fn script(&mut self, text: &str, beside: Beside) -> Result<Flow> {
        let words = quoted_words(text.trim_end_matches(';'));
        let mut words = words.iter();
        let name = words.next().ok_or_else(|| usage("which file?"))?;
        let folder = self.folders.last().cloned().unwrap_or_default();
        let path = match beside {
            Beside::Caller => file_in(Path::new(""), name).or_else(|| file_in(&folder, name)),
            Beside::Script => file_in(&folder, name),
        };
        // One that is not there is named in the error.
        let path = path.unwrap_or_else(|| folder.join(name));
        let before = self.defines.clone();
        for (i, value) in words.enumerate() {
            self.defines.insert((i + 1).to_string(), value.clone());
        }
        let done = Box::pin(self.run_file(&path)).await;
        self.defines.retain(|name, _| name.parse::<u32>().is_err());
        let numbers = before.into_iter().filter(|(name, _)| name.parse::<u32>().is_ok());
        self.defines.extend(numbers);
        done
    }

    /// Waits for the Enter key of whoever sits before it.
    async fn pause(&mut self, text: &str) -> Result<()> {
        if self.editor.is_some() {
            self.ask_for(&format!("{text} "), false).await?;
        } else {
            self.print(&format!("{text}\n"));
        }
        Ok(())
    }

    fn spool_to(&mut self, text: &str) -> Result<()> {
        let (name, how) = split_word(text);
        if name.is_empty() || name.eq_ignore_ascii_case("off") {
            self.spool = None;
            return Ok(());
        }
        let mut path = PathBuf::from(unquoted(name));
        // Devices have no endings.
        if path.extension().is_none() && !path.starts_with("/dev") {
            path.set_extension("lst");
        }
        let appends = how.to_ascii_lowercase().starts_with("app");
        let mut options = File::options();
        let options = options.create(true).write(true).append(appends).truncate(!appends);
        self.spool = Some(options.open(&path).doing(format_args!("write {}", path.display()))?);
        Ok(())
    }

    fn host(&mut self, text: &str) -> Result<Flow> {
        let status = std::process::Command::new("/bin/sh").args(["-c", text]).status();
        let status = status.doing("run /bin/sh")?;
        if status.success() {
            return Ok(Flow::Next);
        }
        // With these the shell says that it cannot start a command.
        let os = status.code().filter(|code| matches!(code, 126 | 127));
        Err(CliError { os, ..CliError::failed(format!("{text}: {status}")) })
    }

    /// Ends the session; what is open is committed first.
    async fn disconnect(&mut self) -> Result<Flow> {
        let flow = self.commit_open().await?;
        self.task.abort();
        self.is_connected = false;
        self.print("disconnected\n");
        Ok(flow)
    }

    /// How names without a value are taken in a command.
    pub(super) fn unknown_in(line: &str) -> Unknown {
        let word = command(first_word(line)).unwrap_or("");
        let is_other = line.starts_with(['\\', '!']) || matches!(word, "host" | "remark");
        if is_other { Unknown::Stays } else { Unknown::AskInCommand }
    }

    /// A command's lines as one, as far as it is one of the field's.
    pub(super) fn one_line(text: &str) -> String {
        if text.contains('\n') { joined(text) } else { text.to_owned() }
    }

    /// Names to be completed; none if the catalog cannot be read.
    pub(super) async fn words(&mut self) -> Vec<String> {
        let text = "select relname from pg_class c join pg_namespace n on n.oid = relnamespace \
                    where nspname not in ('pg_catalog', 'information_schema') union select attname \
                    from pg_attribute a join pg_class c on c.oid = attrelid join pg_namespace n on \
                    n.oid = relnamespace where attnum > 0 and nspname not in ('pg_catalog', \
                    'information_schema') union select proname from pg_proc where pronamespace <> \
                    11 union select lower(name) from v$fixed_table union select lower(column_name) \
                    from v$fixed_view_columns";
        let found = query::rows(self, text).await;
        let rows = found.map(|table| table.rows).unwrap_or_default();
        rows.into_iter().flatten().flatten().collect()
    }
}
