//! `skein tkprof` and `skein trcsess`: files and options around what the crate `report` does.
//!
//! What it promises: a report is written before the exit code says that parts of the input could
//! not be read. What it must never do: write into a file that it also reads.

use crate::error::{CliError, Doing, Result};
use report::{Filter, Options, SortKey, Trace};
use std::io::Write;
use std::path::Path;

/// Arguments taken apart: files, and options with their values.
fn apart(arguments: &[String]) -> (Vec<&str>, Vec<(String, &str)>) {
    let (mut files, mut options) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument.split_once('=') {
            // A path may hold the sign; an option's name is letters.
            Some((name, value)) if name.chars().all(|c| c.is_ascii_alphabetic()) => {
                options.push((name.to_ascii_lowercase(), value));
            }
            _ => files.push(argument.as_str()),
        }
    }
    (files, options)
}

fn yes(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err(CliError::usage(format!("{name} is yes or no, not \"{value}\""))),
    }
}

/// Prints, or writes the file.
fn put(text: &str, output: Option<&str>, inputs: &[&str]) -> Result<()> {
    let Some(path) = output else {
        // A reader that has gone (`| head`) is no failure.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(());
    };
    let same = |input: &&str| match (std::fs::canonicalize(input), std::fs::canonicalize(path)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if inputs.iter().any(same) {
        return Err(CliError::usage(format!("{path} is read; it cannot be written as well")));
    }
    std::fs::write(path, text).doing(format_args!("write {path}"))
}

fn is_trace(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("trc"))
}

/// How lines begin that only a trace has.
const HEADS: [&str; 12] = [
    "Trace file ",
    "*** ",
    "PARSING IN ",
    "PARSE #",
    "PARSE ERROR #",
    "EXEC #",
    "FETCH #",
    "WAIT #",
    "BINDS #",
    "STAT #",
    "CLOSE #",
    "XCTEND ",
];

fn holds_a_trace(text: &[u8]) -> bool {
    let begins = |line: &[u8]| HEADS.iter().any(|head| line.starts_with(head.as_bytes()));
    text.split(|byte| *byte == b'\n').any(begins)
}

/// Sums up trace files.
pub fn tkprof(arguments: &[String]) -> Result<()> {
    let (mut files, options) = apart(arguments);
    let (mut shown, mut aggregate) = (Options::default(), true);
    let (mut output, mut record) = (None, None);
    for (name, value) in options {
        match &*name {
            "sort" => shown.sort = SortKey::parse_list(value).map_err(CliError::usage)?,
            "print" => {
                let number = value.parse();
                let number = number.map_err(|_| CliError::usage("print takes a number"))?;
                shown.print = Some(number);
            }
            "sys" => shown.sys = yes(&name, value)?,
            "waits" => shown.waits = yes(&name, value)?,
            "aggregate" => aggregate = yes(&name, value)?,
            "output" => output = Some(value),
            "record" => record = Some(value),
            "width" => {
                let number = value.parse();
                let number = number.map_err(|_| CliError::usage("width takes a number"))?;
                shown.width = Some(number);
            }
            "insert" | "table" => {
                let text = format!("{name} is not supported: the figures are in the report alone");
                return Err(CliError::usage(text));
            }
            "explain" => {
                yes(&name, value).ok().filter(|explain| !explain).ok_or_else(|| {
                    CliError::usage("explain is not supported; use EXPLAIN in a session")
                })?;
            }
            other => return Err(CliError::usage(format!("tkprof has no option {other}="))),
        }
    }
    let named;
    if output.is_none() && files.len() > 1 && files.last().is_some_and(|last| !is_trace(last)) {
        let last = files.pop().unwrap_or_default();
        // `rep` is `rep.prf`, as in the field; what is there already and no file is written to.
        let bare = Path::new(last).extension().is_none() && !Path::new(last).exists();
        named = if bare { format!("{last}.prf") } else { last.to_owned() };
        output = Some(&named);
    }
    if files.is_empty() {
        return Err(CliError::usage("tkprof needs a trace file"));
    }
    let mut trace = Trace::default();
    for file in &files {
        let text = std::fs::read(file).doing(format_args!("read {file}"))?;
        if text.is_empty() && files.len() > 1 {
            eprintln!("WARNING:  {file} is empty");
            continue;
        }
        if !holds_a_trace(&text) {
            let why = format!("{file} is no trace file: none of its lines is one of a trace");
            return Err(CliError::failed(why));
        }
        trace.read(file, &text, aggregate);
    }
    let names: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
    put(&report::tkprof(&trace, &names, &shown), output, &files)?;
    if record.is_some() {
        put(&report::recorded(&trace), record, &files)?;
    }
    match trace.notes.len() {
        0 => Ok(()),
        1 => Err(CliError::failed("one place of the input could not be read")),
        count => Err(CliError::failed(format!("{count} places of the input could not be read"))),
    }
}

/// Takes a session's lines out of trace files.
pub fn trcsess(arguments: &[String]) -> Result<()> {
    let (files, options) = apart(arguments);
    let (mut filter, mut output) = (Filter::default(), None);
    for (name, value) in options {
        let slot = match &*name {
            "output" => {
                output = Some(value);
                continue;
            }
            "session" => &mut filter.session,
            "clientid" => &mut filter.client_id,
            "service" => &mut filter.service,
            "action" => &mut filter.action,
            "module" => &mut filter.module,
            other => return Err(CliError::usage(format!("trcsess has no option {other}="))),
        };
        *slot = Some(value.to_owned());
    }
    if filter == Filter::default() {
        let text = "trcsess needs one of session=, clientid=, service=, action= and module=";
        return Err(CliError::usage(text));
    }
    if files.is_empty() {
        return Err(CliError::usage("trcsess needs trace files"));
    }
    let read = |file: &&str| {
        let text = std::fs::read(file).doing(format_args!("read {file}"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let texts = files.iter().map(read).collect::<Result<Vec<String>>>()?;
    let found = report::trcsess(&texts, &filter);
    if found.is_empty() {
        eprintln!("WARNING:  no line of these files is of such a session");
    }
    put(&found, output, &files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "a.trc sort=nonsense",
            "a.trc sys=perhaps",
            "a.trc print=few",
            "a.trc explain=scott/tiger",
            "a.trc insert=figures.sql",
            "a.trc width=wide",
            "a.trc colour=red",
            "sys=no",
        ] {
            assert_eq!(tkprof(&words(bad)).expect_err(bad).code(), 2, "{bad}");
        }
        for bad in ["a.trc", "session=1.2", "thing=1 a.trc"] {
            assert_eq!(trcsess(&words(bad)).expect_err(bad).code(), 2, "{bad}");
        }
        assert_eq!(tkprof(&words("/nowhere/a.trc")).expect_err("no file").code(), 1);
    }

    #[test]
    fn the_last_file_is_written_unless_it_is_a_trace() {
        let dir = std::env::temp_dir().join(format!("skein-tkprof-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let path = |name: &str| dir.join(name).display().to_string();
        let (one, out) = (path("one.trc"), path("out.prf"));
        std::fs::write(&one, "XCTEND rlbk=0, rd_only=0, tim=7\n").expect("written");
        tkprof(&[one.clone(), out.clone(), "waits=no".to_owned()]).expect("a report");
        let shown = std::fs::read_to_string(&out).expect("it is there");
        assert!(shown.contains("       1  transactions committed.\n"), "{shown}");
        let again = tkprof(&[one.clone(), format!("output={one}")]);
        assert_eq!(again.expect_err("it is read").code(), 2);
        std::fs::write(&one, "").expect("written");
        let empty = tkprof(std::slice::from_ref(&one)).expect_err("it is empty");
        assert!(
            empty.code() == 1 && empty.message.contains("is no trace file"),
            "{}",
            empty.message
        );
        std::fs::write(&one, "XCTEND rlbk=0, rd_only=0, tim=7\nEXEC #1:c=").expect("written");
        assert_eq!(tkprof(&[one, out.clone()]).expect_err("it is cut").code(), 1);
        let shown = std::fs::read_to_string(&out).expect("it is there");
        assert!(shown.contains("one.trc:2: the file ends within this line"), "{shown}");
        std::fs::write(path("two.trc"), "XCTEND rlbk=0, rd_only=0, tim=7\n").expect("written");
        tkprof(&[path("two.trc"), path("report")]).expect("a report");
        assert!(std::fs::exists(path("report.prf")).expect("looked for"));
        let cursor = "PARSING IN CURSOR #1 len=8 dep=0 uid=10 oct=3 lid=10 tim=1 hv=7 ad='7' \
                      sqlid='abc'\nselect 1\nEND OF STMT\nEXEC #1:c=0,e=1,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=7\n";
        std::fs::write(path("three.trc"), cursor).expect("written");
        let record = format!("record={}", path("asked.sql"));
        tkprof(&[path("three.trc"), path("report"), record]).expect("a report");
        let asked = std::fs::read_to_string(path("asked.sql")).expect("it is there");
        assert_eq!(asked, "select 1;\n");
        std::fs::write(path("other.trc"), "root:x:0:0\n").expect("written");
        let error = tkprof(&[path("other.trc")]).expect_err("no trace");
        assert!(error.to_string().contains("is no trace file"), "{error}");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
