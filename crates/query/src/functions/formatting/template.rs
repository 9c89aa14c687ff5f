//! Templates of dates and times, taken apart.

/// What stands before a pattern: `FM` leaves no blanks; `TM` gives names of the locale, which is
/// C, and leaves none behind them.
const PREFIXES: [(&str, bool); 4] = [("FM", true), ("fm", true), ("TM", false), ("tm", false)];

/// Patterns as they are written in capitals, longer ones before their beginnings; whether a number
/// is read for it.
const FIELDS: &[(&str, bool)] = &[
    ("A.D.", false),
    ("A.M.", false),
    ("AD", false),
    ("AM", false),
    ("B.C.", false),
    ("BC", false),
    ("CC", true),
    ("DAY", false),
    ("DDD", true),
    ("DD", true),
    ("DY", false),
    ("D", true),
    ("FF1", false),
    ("FF2", false),
    ("FF3", false),
    ("FF4", false),
    ("FF5", false),
    ("FF6", false),
    ("FX", false),
    ("HH24", true),
    ("HH12", true),
    ("HH", true),
    ("IDDD", true),
    ("ID", true),
    ("IW", true),
    ("IYYY", true),
    ("IYY", true),
    ("IY", true),
    ("I", true),
    ("J", true),
    ("MI", true),
    ("MM", true),
    ("MONTH", false),
    ("MON", false),
    ("MS", true),
    ("OF", false),
    ("P.M.", false),
    ("PM", false),
    ("Q", true),
    ("RM", false),
    ("SSSSS", true),
    ("SSSS", true),
    ("SS", true),
    ("TZH", false),
    ("TZM", true),
    ("TZ", false),
    ("US", true),
    ("WW", true),
    ("W", true),
    ("Y,YYY", true),
    ("YYYY", true),
    ("YYY", true),
    ("YY", true),
    ("Y", true),
];

/// Patterns that may have one capital.
const MIXED: [(&str, &str); 4] = [("Day", "DAY"), ("Dy", "DY"), ("Month", "MONTH"), ("Mon", "MON")];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Letters {
    Upper,
    Lower,
    Mixed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Field {
    /// The pattern in capitals.
    pub id: &'static str,
    pub letters: Letters,
    /// Whether it is read as a number.
    pub is_digit: bool,
    /// `FM`: without padding.
    pub fill_mode: bool,
    /// `TH` or `th` behind it: whether the ending is in capitals.
    pub ordinal: Option<bool>,
}

impl Field {
    /// The pattern as it was written.
    pub fn name(&self) -> String {
        match self.letters {
            Letters::Upper => self.id.to_owned(),
            Letters::Lower => self.id.to_ascii_lowercase(),
            Letters::Mixed => {
                let mixed = MIXED.iter().find(|(_, id)| *id == self.id);
                mixed.map_or(self.id, |(mixed, _)| mixed).to_owned()
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Field(Field),
    Separator(char),
    Space(char),
    Char(char),
}

impl Node {
    pub fn character(self) -> Option<char> {
        match self {
            Node::Field(_) => None,
            Node::Separator(c) | Node::Space(c) | Node::Char(c) => Some(c),
        }
    }
}

/// A sign between fields.
pub(super) fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

/// The pattern that a text begins with, and its length.
fn field(rest: &str) -> Option<(Field, usize)> {
    let make =
        |id, letters, is_digit| Field { id, letters, is_digit, fill_mode: false, ordinal: None };
    for (mixed, id) in MIXED {
        if rest.starts_with(mixed) {
            return Some((make(id, Letters::Mixed, false), mixed.len()));
        }
    }
    FIELDS.iter().find_map(|(id, is_digit)| {
        let head = rest.get(..id.len())?;
        if head == *id {
            return Some((make(id, Letters::Upper, *is_digit), id.len()));
        }
        let lower = head.chars().zip(id.chars()).all(|(c, up)| c == up.to_ascii_lowercase());
        lower.then(|| (make(id, Letters::Lower, *is_digit), id.len()))
    })
}

/// A text in quotes, from behind the first; what is behind the last.
fn quoted<'t>(mut rest: &'t str, nodes: &mut Vec<Node>) -> &'t str {
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '"' {
            break;
        }
        let escaped = rest.chars().next().filter(|_| c == '\\');
        if let Some(next) = escaped {
            rest = &rest[next.len_utf8()..];
        }
        nodes.push(Node::Char(escaped.unwrap_or(c)));
    }
    rest
}

pub(super) fn parse(template: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let prefix = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(*prefix));
        rest = &rest[prefix.map_or(0, |(prefix, _)| prefix.len())..];
        if let Some((mut found, length)) = field(rest) {
            let named = matches!(found.id, "MONTH" | "DAY");
            found.fill_mode = prefix.is_some_and(|(_, fills)| *fills || named);
            rest = &rest[length..];
            for (ending, upper) in [("TH", Some(true)), ("th", Some(false)), ("SP", None)] {
                if let Some(after) = rest.strip_prefix(ending) {
                    found.ordinal = upper;
                    rest = after;
                    break;
                }
            }
            nodes.push(Node::Field(found));
            continue;
        }
        if let Some(after) = rest.strip_prefix('"') {
            rest = quoted(after, &mut nodes);
            continue;
        }
        if rest.starts_with("\\\"") {
            rest = &rest[1..];
        }
        let Some(c) = rest.chars().next() else { break };
        rest = &rest[c.len_utf8()..];
        nodes.push(if is_separator(c) {
            Node::Separator(c)
        } else if c.is_ascii_whitespace() {
            Node::Space(c)
        } else {
            Node::Char(c)
        });
    }
    nodes
}
