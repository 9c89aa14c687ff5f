//! `trcsess`: the lines of one logical session out of several trace files.
//!
//! What it promises: lines keep their order within a file, and parts of several files come in the
//! order of time. What it must never do: give a line to two sessions.

/// Which session; everything that is given must be so.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Filter {
    /// `sid.serial`.
    pub session: Option<String>,
    pub client_id: Option<String>,
    pub service: Option<String>,
    pub action: Option<String>,
    pub module: Option<String>,
}

/// What a part of a file says of itself.
#[derive(Clone, Default)]
struct Part<'a> {
    /// Time of day of its first line.
    wall: &'a str,
    attributes: [&'a str; 5],
    lines: Vec<&'a str>,
}

const ATTRIBUTES: [&str; 5] =
    ["SESSION ID:(", "CLIENT ID:(", "SERVICE NAME:(", "ACTION NAME:(", "MODULE NAME:("];

/// Which attribute a line tells, its value and the time.
fn attribute(line: &str) -> Option<(usize, &str, &str)> {
    let rest = line.strip_prefix("*** ")?;
    let at = ATTRIBUTES.iter().position(|name| rest.starts_with(name))?;
    // A program's name may have brackets; the time has none.
    let (value, wall) = rest[ATTRIBUTES[at].len()..].rsplit_once(')')?;
    Some((at, value, wall.trim()))
}

/// The parts of a file: a new one begins where something about the session changes.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut all: Vec<Part<'_>> = Vec::new();
    let mut now = Part::default();
    for line in text.lines() {
        if let Some((at, value, wall)) = attribute(line) {
            let told = now.lines.iter().any(|line| !heading(line));
            if told {
                let attributes = now.attributes;
                all.push(std::mem::take(&mut now));
                now.attributes = attributes;
            }
            if at == 0 {
                now.attributes = [""; 5];
            }
            now.attributes[at] = value;
            now.wall = wall;
        }
        now.lines.push(line);
    }
    all.push(now);
    all
}

/// Whether a line is one of those before a session's first call.
fn heading(line: &str) -> bool {
    const WORDS: [&str; 9] = [
        "PARSING IN",
        "PARSE ",
        "EXEC ",
        "FETCH ",
        "WAIT ",
        "BINDS ",
        "STAT ",
        "XCTEND ",
        "CLOSE ",
    ];
    !WORDS.iter().any(|word| line.starts_with(word))
}

/// The lines that belong to the session that `filter` names.
#[must_use]
pub fn trcsess(files: &[String], filter: &Filter) -> String {
    let Filter { session, client_id, service, action, module } = filter;
    let wanted = [session, client_id, service, action, module];
    let mut all: Vec<Part<'_>> = files.iter().flat_map(|text| parts(text)).collect();
    let suits = |part: &Part<'_>| {
        let mut both = wanted.iter().zip(part.attributes);
        both.all(|(wanted, is)| wanted.as_ref().is_none_or(|wanted| wanted == is))
    };
    all.retain(suits);
    all.sort_by_key(|part| part.wall);
    let mut out = String::new();
    for line in all.iter().flat_map(|part| &part.lines) {
        out.push_str(line);
        out.push('\n');
    }
    out
}
