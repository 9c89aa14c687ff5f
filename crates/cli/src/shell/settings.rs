//! What `set` and `\pset` set, and what `show` says of it.
//!
//! What it promises: a setting that the shell does not know, or does not have, is named on one line
//! and stops nothing.

use super::autotrace::Told;
use super::columns::TEMPLATES;
use super::format::{Csv, Format};
use super::shapes::Template;
use super::transaction::End;
use super::whenever::{Code, OnError};
use super::words::{quoted_words, setting};
use super::{Shell, query};
use crate::error::{CliError, Result};

/// What stands between columns.
pub(super) const SEPARATOR: &str = "|";

/// Characters of a line and lines of a page, as the field has them.
const LINESIZE: u32 = 80;
const PAGESIZE: u32 = 14;

/// Characters that numbers may be kept within.
const NUMBER_WIDTHS: std::ops::RangeInclusive<usize> = 2..=50;

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
    /// Whether lines are shown with the values of `&name`.
    pub(super) verify: bool,
    /// What stands before a line that is typed, if it is not the usual one.
    pub(super) sqlprompt: Option<String>,
    /// What `&name` begins with; `None`: names are not replaced.
    pub(super) define: Option<char>,
    /// What takes that from it.
    pub(super) escape: Option<char>,
    pub(super) null: String,
    pub(super) separator: String,
    pub(super) csv: Csv,
    /// Kept for `show` only, but that no lines of a page are no heading.
    pub(super) linesize: u32,
    pub(super) pagesize: u32,
    /// How numbers are written, or within how many characters, of which `column` says nothing.
    pub(super) numformat: Option<Template>,
    pub(super) numwidth: Option<usize>,
    /// Whether texts that are wider than their columns go on in the next line.
    pub(super) wraps: bool,
    /// What stands between the lines of a heading.
    pub(super) headsep: Option<char>,
    /// What follows an error of a statement, and of the operating system; `None`: the same.
    pub(super) on_error: OnError,
    pub(super) on_os_error: Option<OnError>,
    pub(super) autocommit: bool,
    /// Whether the variables of a block are printed when it has run.
    pub(super) autoprint: bool,
    /// What is told behind each statement that has a plan.
    pub(super) autotrace: Option<Told>,
    /// Whether `exit` commits.
    pub(super) exit_commits: bool,
}

impl Settings {
    /// `commands`: what runs are the words of the call, each in its place for those before it.
    pub(super) fn new(interactive: bool, commands: bool) -> Settings {
        Settings {
            format: Format::Aligned,
            timing: false,
            serveroutput: None,
            feedback: true,
            heading: true,
            echo: false,
            termout: true,
            verify: false,
            sqlprompt: None,
            define: Some('&'),
            escape: None,
            null: String::new(),
            separator: SEPARATOR.to_owned(),
            csv: Csv::USUAL,
            linesize: LINESIZE,
            pagesize: PAGESIZE,
            numformat: None,
            numwidth: None,
            wraps: true,
            headsep: Some('|'),
            on_error: match (interactive, commands) {
                (true, _) => OnError::Continue(End::Nothing),
                (false, false) => OnError::GoOn,
                (false, true) => OnError::Exit(Code::Number(1), End::Rollback),
            },
            on_os_error: None,
            autocommit: true,
            autoprint: false,
            autotrace: None,
            exit_commits: true,
        }
    }
}

/// `on` and `off`; nothing switches.
pub(super) fn switched(text: &str, now: bool) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(!now),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(CliError::failed(format!("on or off, not {other}"))),
    }
}

pub(super) fn format_of(name: &str) -> Result<Format> {
    Ok(match name {
        "aligned" => Format::Aligned,
        "expanded" => Format::Expanded,
        "csv" => Format::Csv,
        "json" => Format::Json,
        other => {
            let text = format!("format {other}: aligned, expanded, csv or json");
            return Err(CliError::failed(text));
        }
    })
}

/// A character, or whether there is one.
fn character(value: &str, usual: char) -> Result<Option<char>> {
    let mut chars = value.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if c.is_ascii_punctuation() => Ok(Some(c)),
        _ => Ok(switched(value, false)?.then_some(usual)),
    }
}

/// How CSV is written, by the words behind `set markup csv on`.
fn csv_of(words: &[&str]) -> Result<Csv> {
    let mut csv = Csv::USUAL;
    for form in words.chunks(2) {
        let value = form.get(1).copied().unwrap_or("");
        let mut chars = value.chars();
        match (form[0].to_ascii_lowercase().as_str(), chars.next(), chars.next()) {
            ("delim" | "delimiter", Some(c), None) if !c.is_alphanumeric() && c != '"' => {
                csv.delimiter = c;
            }
            ("delim" | "delimiter", ..) => {
                let text = "set markup csv on delimiter C: one character, and no letter or digit";
                return Err(CliError::failed(text));
            }
            ("quote", Some(_), _) => csv.quotes = switched(value, true)?,
            _ => {
                let text = "set markup csv on|off [delimiter C] [quote on|off]";
                return Err(CliError::failed(text));
            }
        }
    }
    Ok(csv)
}

fn on_off(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

impl Shell {
    /// `set NAME VALUE ..`, of one or several.
    pub(super) fn set(&mut self, text: &str) -> Result<()> {
        let words = quoted_words(text);
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(name) = words.next() {
            let Some(known) = setting(name) else {
                self.refuse(&format!("unknown SET option \"{name}\""));
                return Ok(());
            };
            let value = words.next().unwrap_or("");
            match known {
                "serveroutput" => {
                    let now = self.settings.serveroutput == Some(true);
                    self.settings.serveroutput = Some(switched(value, now)?);
                    // `set serveroutput on size unlimited format wrapped`
                    while words
                        .next_if(|w| ["size", "format"].iter().any(|k| k.eq_ignore_ascii_case(w)))
                        .is_some()
                    {
                        words.next();
                    }
                }
                "markup" => {
                    if !value.eq_ignore_ascii_case("csv") {
                        let text = format!("set markup {value}: this shell has csv and no other");
                        self.refuse(&text);
                        return Ok(());
                    }
                    let parts: Vec<&str> = words.collect();
                    return self.set_csv(&parts);
                }
                "describe" => return Ok(()),
                "numformat" => match Template::read(value) {
                    None if !value.is_empty() => {
                        self.refuse(&format!("set numformat {value}: {TEMPLATES}"));
                        return Ok(());
                    }
                    template => self.settings.numformat = template,
                },
                "autotrace" => {
                    let parts: Vec<&str> = std::iter::once(value).chain(words).collect();
                    return self.set_autotrace(&parts);
                }
                _ => self.set_one(known, value)?,
            }
        }
        Ok(())
    }

    /// `set markup csv on delimiter | quote off`, of which these words stand behind `csv`.
    fn set_csv(&mut self, words: &[&str]) -> Result<()> {
        let csv = csv_of(words.get(1..).unwrap_or_default())?;
        let on = words.first().copied().unwrap_or("");
        let on = switched(on, self.settings.format == Format::Csv)?;
        self.settings.format = if on { Format::Csv } else { Format::Aligned };
        self.settings.csv = csv;
        Ok(())
    }

    fn set_one(&mut self, name: &str, value: &str) -> Result<()> {
        let settings = &mut self.settings;
        match name {
            "timing" => settings.timing = switched(value, settings.timing)?,
            "feedback" => {
                settings.feedback = value
                    .parse::<u32>()
                    .map_or_else(|_| switched(value, settings.feedback), |rows| Ok(rows > 0))?;
            }
            "heading" => settings.heading = switched(value, settings.heading)?,
            "pagesize" => {
                settings.heading = value != "0";
                settings.pagesize = value.parse().unwrap_or(settings.pagesize);
            }
            "linesize" => settings.linesize = value.parse().unwrap_or(settings.linesize),
            "echo" => settings.echo = switched(value, settings.echo)?,
            "termout" => settings.termout = switched(value, settings.termout)?,
            "define" | "scan" => settings.define = character(value, '&')?,
            "escape" => settings.escape = character(value, '\\')?,
            "format" => settings.format = format_of(&value.to_ascii_lowercase())?,
            "null" => value.clone_into(&mut settings.null),
            "sqlprompt" => settings.sqlprompt = Some(value.to_owned()),
            "verify" => settings.verify = switched(value, settings.verify)?,
            "numwidth" => {
                // Zero: numbers are as wide as they are.
                let width = match value.parse::<usize>() {
                    Ok(0) => None,
                    Ok(width) if NUMBER_WIDTHS.contains(&width) => Some(width),
                    _ => return Err(CliError::failed("set numwidth N: 2 to 50, or 0 for any")),
                };
                settings.numwidth = width;
            }
            "wrap" => settings.wraps = switched(value, settings.wraps)?,
            "headsep" => settings.headsep = character(value, '|')?,
            "colsep" => value.clone_into(&mut settings.separator),
            "autoprint" => settings.autoprint = switched(value, settings.autoprint)?,
            "exitcommit" => settings.exit_commits = switched(value, settings.exit_commits)?,
            // What is open stays so: the next change commits it with itself.
            "autocommit" => {
                settings.autocommit = match value.to_ascii_lowercase().as_str() {
                    "immediate" => true,
                    other => switched(other, settings.autocommit)?,
                };
            }
            // The others only say how a report looks on paper.
            _ => {}
        }
        Ok(())
    }

    /// `show`, of what is the shell's.
    pub(super) async fn tell_of(&mut self, what: &str) -> Result<()> {
        let words = quoted_words(what);
        let word = words.first().map_or(String::new(), |word| word.to_ascii_lowercase());
        let text = match word.as_str() {
            "user" => format!("USER is \"{}\"\n", self.login.user()),
            "release" => format!("release {}\n", env!("CARGO_PKG_VERSION")),
            "err" | "error" | "errors" => self.compile_errors(words.get(1..).unwrap_or_default()),
            // As it is in messages, without its sign.
            "sqlcode" => match self.has_failed {
                true => format!("sqlcode {}\n", self.sqlcode.unsigned_abs()),
                false => "sqlcode 0\n".to_owned(),
            },
            "spool" if self.spool.is_some() => "currently spooling\n".to_owned(),
            "spool" => "not spooling currently\n".to_owned(),
            "sga" => return self.list_rows("select * from v$sga").await,
            "parameter" | "parameters" => {
                let name = words.get(1).map_or("", String::as_str).to_lowercase();
                let name = query::literal(&format!("%{name}%"));
                let text = format!(
                    "select name, type, display_value as value from v$parameter where name like \
                     {name} order by name"
                );
                return self.list_rows(&text).await;
            }
            other => match setting(other).and_then(|name| self.shown_setting(name)) {
                Some(shown) => shown,
                None => {
                    self.refuse(&format!("show {other}: this shell has nothing to show for it"));
                    return Ok(());
                }
            },
        };
        self.print(&text);
        Ok(())
    }

    async fn list_rows(&mut self, text: &str) -> Result<()> {
        let table = query::rows(self, text).await?;
        self.show(&table);
        Ok(())
    }

    /// `None`: it has no effect, so that it is not kept.
    fn shown_setting(&self, name: &str) -> Option<String> {
        let settings = &self.settings;
        let marked = |c: Option<char>| c.map_or("OFF".to_owned(), |c| format!("\"{c}\""));
        Some(match name {
            "autocommit" => format!("autocommit {}\n", on_off(settings.autocommit)),
            "autoprint" => format!("autoprint {}\n", on_off(settings.autoprint)),
            "autotrace" => Told::shown(settings.autotrace),
            "exitcommit" => format!("exitcommit {}\n", on_off(settings.exit_commits)),
            "timing" => format!("timing {}\n", on_off(settings.timing)),
            "serveroutput" => {
                format!("serveroutput {}\n", on_off(settings.serveroutput == Some(true)))
            }
            "feedback" => format!("feedback {}\n", on_off(settings.feedback)),
            "heading" => format!("heading {}\n", on_off(settings.heading)),
            "echo" => format!("echo {}\n", on_off(settings.echo)),
            "termout" => format!("termout {}\n", on_off(settings.termout)),
            "define" | "scan" => format!("define {}\n", marked(settings.define)),
            "escape" => format!("escape {}\n", marked(settings.escape)),
            "null" => format!("null \"{}\"\n", settings.null),
            "sqlprompt" => {
                let text = settings.sqlprompt.as_deref().unwrap_or("skein=# ");
                format!("sqlprompt \"{text}\"\n")
            }
            "verify" => format!("verify {}\n", on_off(settings.verify)),
            "headsep" => format!("headsep {}\n", marked(settings.headsep)),
            "numformat" => {
                let text = settings.numformat.as_ref().map_or("", Template::written);
                format!("numformat \"{text}\"\n")
            }
            "numwidth" => format!("numwidth {}\n", settings.numwidth.unwrap_or(0)),
            "linesize" => format!("linesize {}\n", settings.linesize),
            "pagesize" => format!("pagesize {}\n", settings.pagesize),
            "wrap" => format!("wrap {}\n", on_off(settings.wraps)),
            "colsep" => format!("colsep \"{}\"\n", settings.separator),
            "format" => format!("format {}\n", format!("{:?}", settings.format).to_lowercase()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_delimiter_and_quotes() {
        let of = |text: &str| {
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            csv_of(&words).ok().map(|csv| (csv.delimiter, csv.quotes))
        };
        assert_eq!(of(""), Some((',', true)));
        assert_eq!(of("delimiter | quote off"), Some(('|', false)));
        assert_eq!(of("QUOTE on DELIM ;"), Some((';', true)));
        for text in ["delimiter", "delimiter ||", "delimiter x", "quote", "quote no", "header on"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn characters_and_switches_are_told_apart() {
        let of = |value| character(value, '&').ok();
        assert_eq!(of("^"), Some(Some('^')));
        assert_eq!((of("on"), of("OFF")), (Some(Some('&')), Some(None)));
        assert_eq!(of("maybe"), None);
    }
}
