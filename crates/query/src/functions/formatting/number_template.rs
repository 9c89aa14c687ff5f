//! Templates of numbers, taken apart.

use crate::error::{PgError, Result};

/// Patterns, longer ones before their beginnings.
const KEYS: [(&str, Key); 20] = [
    (",", Key::Comma),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("C", Key::Ignored),
    ("D", Key::Point),
    ("EEEE", Key::Exponent),
    ("FM", Key::Ignored),
    ("G", Key::Group),
    ("L", Key::Currency),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Bracket),
    ("RN", Key::Roman),
    ("SG", Key::Sign),
    ("SP", Key::Ignored),
    ("S", Key::Anchored),
    ("TH", Key::Ordinal),
    ("V", Key::Shift),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    Exponent,
    Group,
    Currency,
    Minus,
    Plus,
    Bracket,
    Roman,
    Sign,
    /// `S`: the sign beside the number.
    Anchored,
    Ordinal,
    Shift,
    /// What has only an effect on others, or none.
    Ignored,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// A pattern; whether it is written in capitals.
    Key(Key, bool),
    Char(char),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Anchor {
    #[default]
    None,
    Before,
    Behind,
}

/// What the patterns say together.
#[derive(Clone, Default, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a word of the template
pub(super) struct Picture {
    pub parts: Vec<Part>,
    /// Digits before and behind the point.
    pub before: usize,
    pub behind: usize,
    pub anchor: Anchor,
    /// Digits that stand before `S`.
    pub before_anchor: usize,
    /// Digits that `V` moves the point by.
    pub shift: usize,
    /// Where zeros begin, from 1, and end.
    pub zero_start: usize,
    pub zero_end: usize,
    pub decimal: bool,
    pub anchored: bool,
    pub zero: bool,
    pub blank: bool,
    pub fill_mode: bool,
    pub bracket: bool,
    pub minus: bool,
    pub plus: bool,
    pub roman: bool,
    pub shifted: bool,
    pub exponent: bool,
}

fn wrong(message: &str) -> PgError {
    PgError::syntax(message)
}

impl Picture {
    pub fn parse(template: &str) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut rest = template;
        while !rest.is_empty() {
            if let Some((name, key, upper)) = key_of(rest) {
                rest = &rest[name.len()..];
                picture.take(key)?;
                picture.fill_mode |= name == "FM";
                picture.parts.push(Part::Key(key, upper));
                continue;
            }
            if let Some(after) = rest.strip_prefix('"') {
                rest = picture.quoted(after);
                continue;
            }
            if rest.starts_with("\\\"") {
                rest = &rest[1..];
            }
            let Some(c) = rest.chars().next() else { break };
            rest = &rest[c.len_utf8()..];
            picture.parts.push(Part::Char(c));
        }
        Ok(picture)
    }

    /// A text in quotes, from behind the first; what is behind the last.
    fn quoted<'t>(&mut self, mut rest: &'t str) -> &'t str {
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c == '"' {
                break;
            }
            let escaped = rest.chars().next().filter(|_| c == '\\');
            if let Some(next) = escaped {
                rest = &rest[next.len_utf8()..];
            }
            self.parts.push(Part::Char(escaped.unwrap_or(c)));
        }
        rest
    }

    fn take(&mut self, key: Key) -> Result<()> {
        if self.exponent && key != Key::Exponent {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        match key {
            Key::Nine | Key::Zero => return self.digit(key),
            Key::Blank => self.blank |= self.before == 0 && self.behind == 0 && !self.zero,
            Key::Point => {
                if self.decimal {
                    return Err(wrong("multiple decimal points"));
                }
                if self.shifted {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.decimal = true;
            }
            Key::Anchored | Key::Minus | Key::Plus | Key::Sign | Key::Bracket => {
                return self.sign(key);
            }
            Key::Roman => self.roman = true,
            Key::Shift => {
                if self.decimal {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.shifted = true;
            }
            Key::Exponent => {
                if self.exponent {
                    return Err(wrong("cannot use \"EEEE\" twice"));
                }
                let signs = self.anchored || self.bracket || self.minus || self.plus;
                if signs || self.blank || self.fill_mode || self.roman || self.shifted {
                    return Err(wrong("\"EEEE\" is incompatible with other formats").with_detail(
                        "\"EEEE\" may only be used together with digit and decimal point patterns.",
                    ));
                }
                self.exponent = true;
            }
            Key::Comma | Key::Group | Key::Currency | Key::Ordinal | Key::Ignored => {}
        }
        Ok(())
    }

    fn digit(&mut self, key: Key) -> Result<()> {
        if self.bracket {
            let digit = if key == Key::Nine { '9' } else { '0' };
            return Err(wrong(&format!("\"{digit}\" must be ahead of \"PR\"")));
        }
        if key == Key::Nine && self.shifted {
            self.shift += 1;
            return Ok(());
        }
        if key == Key::Zero && !self.zero && !self.decimal {
            self.zero = true;
            self.zero_start = self.before + 1;
        }
        if self.decimal {
            self.behind += 1;
        } else {
            self.before += 1;
        }
        if key == Key::Zero {
            self.zero_end = self.before + self.behind;
        }
        Ok(())
    }

    fn sign(&mut self, key: Key) -> Result<()> {
        let beside = |with: &str| Err(wrong(&format!("cannot use \"S\" and \"{with}\" together")));
        match key {
            Key::Anchored => {
                if self.anchored {
                    return Err(wrong("cannot use \"S\" twice"));
                }
                if self.plus || self.minus || self.bracket {
                    return beside("PL\"/\"MI\"/\"SG\"/\"PR");
                }
                if self.decimal {
                    self.anchor = Anchor::Behind;
                } else {
                    self.anchor = Anchor::Before;
                    self.before_anchor = self.before;
                }
                self.anchored = true;
            }
            Key::Minus if self.anchored => return beside("MI"),
            Key::Plus if self.anchored => return beside("PL"),
            Key::Sign if self.anchored => return beside("SG"),
            Key::Minus => self.minus = true,
            Key::Plus => self.plus = true,
            Key::Sign => (self.minus, self.plus) = (true, true),
            _ if self.anchored || self.plus || self.minus => {
                return Err(wrong("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
            }
            _ => self.bracket = true,
        }
        Ok(())
    }
}

/// The pattern that a text begins with: its name, and whether it is in capitals.
fn key_of(rest: &str) -> Option<(&'static str, Key, bool)> {
    KEYS.iter().find_map(|(name, key)| {
        let head = rest.get(..name.len())?;
        let lower = head.chars().zip(name.chars()).all(|(c, up)| c == up.to_ascii_lowercase());
        (head == *name || lower).then_some((*name, *key, head == *name))
    })
}
