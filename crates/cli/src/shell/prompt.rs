//! What stands before a line that is typed, and names that stand for what the shell knows of its
//! session: `_user` and its like.

use super::Shell;

/// A prompt with the values of names that begin with an underline; what stands in single quotes is
/// as it is.
fn filled(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::new(), template);
    while let Some(first) = rest.chars().next() {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        let quoted = rest.strip_prefix('\'').and_then(|inner| inner.find('\''));
        let len = match quoted {
            Some(len) => {
                out.push_str(&rest[1..=len]);
                len + 2
            }
            None if inside(first) => {
                let len = rest.find(|c| !inside(c)).unwrap_or(rest.len());
                let word = &rest[..len];
                let known = if first == '_' { value(&word.to_lowercase()) } else { None };
                out.push_str(known.as_deref().unwrap_or(word));
                len
            }
            None => {
                out.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    out
}

impl Shell {
    /// What a name in small letters stands for: what was defined, or what the shell knows.
    pub(super) fn defined(&self, name: &str) -> Option<String> {
        if let Some(value) = self.defines.get(name) {
            return Some(value.clone());
        }
        let user = self.login.user();
        Some(match name {
            "_user" | "_privilege" | "_connect_identifier" if !self.is_connected => String::new(),
            // As views show it.
            "_user" if user.chars().any(char::is_uppercase) => user.to_owned(),
            "_user" => user.to_uppercase(),
            "_privilege" if self.login.is_superuser() => "AS SYSDBA".to_owned(),
            "_privilege" => String::new(),
            "_connect_identifier" => {
                self.instance.map_or("skein".to_owned(), |k| format!("skein{k}"))
            }
            _ => return None,
        })
    }

    /// What stands before the next line of a statement of which so many are there.
    pub(super) fn prompt(&self, lines: usize) -> String {
        if let Some(template) = &self.settings.sqlprompt {
            return match lines {
                0 => filled(template, |name| self.defined(name)),
                _ => format!("{:>3}  ", lines + 1),
            };
        }
        let number = self.instance.map_or(String::new(), |k| k.to_string());
        let open = if self.transaction.open { "*" } else { "" };
        format!("skein{number}{}{open}# ", if lines == 0 { "=" } else { "-" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_prompt_have_their_values() {
        let value = |name: &str| (name == "_user").then(|| "SKEIN".to_owned());
        let of = |template| filled(template, value);
        assert_eq!(of("_user'@'x_user> "), "SKEIN@x_user> ");
        assert_eq!(of("_USER_NAME '_user' it's "), "_USER_NAME _user it's ");
        assert_eq!(of("SQL> é"), "SQL> é");
    }
}
