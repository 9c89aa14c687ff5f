//! The words of a statement that the library does not parse, read one by one.
//!
//! What it promises: what is not there is left where it is, and an error names the word that is
//! wrong. What it must never do: take the text of a quoted name for a word of the language.

use super::*;

/// Words of the statements that the library does not parse.
pub(crate) struct Words<'a> {
    pub(super) tokens: Vec<&'a Token>,
    pub(super) at: usize,
    /// The same with the blanks between them.
    pub(super) all: &'a [TokenWithSpan],
}

impl Words<'_> {
    pub(crate) fn is(&self, word: &str) -> bool {
        match self.tokens.get(self.at) {
            Some(Token::Word(w)) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
            _ => false,
        }
    }

    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.at += usize::from(found);
        found
    }

    /// Back to the first word.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
    }

    /// These words, one after the other, or an error at the first that is missing.
    pub(crate) fn expect(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|word| if self.take(word) { Ok(()) } else { Err(self.near()) })
    }

    /// Whether the word at hand is `first` and the next one `second`.
    pub(crate) fn follows(&self, first: &str, second: &str) -> bool {
        let next = Words { tokens: self.tokens.clone(), at: self.at + 1, all: self.all };
        self.is(first) && next.is(second)
    }

    pub(crate) fn comma(&mut self) -> bool {
        self.take_token(&Token::Comma)
    }

    pub(crate) fn equals(&mut self) -> bool {
        self.take_token(&Token::Eq)
    }

    pub(crate) fn open(&mut self) -> bool {
        self.take_token(&Token::LParen)
    }

    /// Whether a name and `=>` come next.
    pub(super) fn names_argument(&self) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Word(_)))
            && matches!(self.tokens.get(self.at + 1), Some(Token::RArrow))
    }

    pub(super) fn arrow(&mut self) -> bool {
        self.take_token(&Token::RArrow)
    }

    pub(crate) fn close(&mut self) -> bool {
        self.take_token(&Token::RParen)
    }

    /// Whether a procedure of a package comes next of which `is` says yes.
    pub(super) fn calls(&self, is: impl Fn(&str, &str) -> bool) -> bool {
        let word = |at: usize| match self.tokens.get(self.at + at) {
            Some(Token::Word(w)) if w.quote_style.is_none() => Some(w.value.to_ascii_lowercase()),
            _ => None,
        };
        let dot = matches!(self.tokens.get(self.at + 1), Some(Token::Period));
        dot && word(0).zip(word(2)).is_some_and(|(package, name)| is(&package, &name))
    }

    /// What is left, as a text again; there is nothing left then.
    pub(super) fn rest_text(&mut self) -> String {
        let (mut seen, mut out) = (0, String::new());
        for token in self.all.iter().map(|t| &t.token) {
            if seen >= self.at {
                match token {
                    Token::SingleQuotedString(text) => {
                        out.push_str(&format!("'{}'", text.replace('\'', "''")));
                    }
                    other => out.push_str(&other.to_string()),
                }
            }
            seen += usize::from(!is_space(token));
        }
        self.at = self.tokens.len();
        out.trim().trim_end_matches(';').trim_end().to_owned()
    }

    /// Passes one token over.
    pub(crate) fn skip(&mut self) -> Result<()> {
        if self.at_end() {
            return Err(self.near());
        }
        self.at += 1;
        Ok(())
    }

    /// Whether a text in quotes comes next.
    pub(crate) fn at_text(&self) -> bool {
        matches!(
            self.tokens.get(self.at),
            Some(
                Token::SingleQuotedString(_)
                    | Token::EscapedStringLiteral(_)
                    | Token::DollarQuotedString(_)
            )
        )
    }

    /// A text in quotes.
    pub(crate) fn text(&mut self) -> Result<String> {
        let text = match self.tokens.get(self.at) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                text.clone()
            }
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(self.near()),
        };
        self.at += 1;
        Ok(text)
    }

    pub(crate) fn name_or_text(&mut self) -> Result<String> {
        match self.tokens.get(self.at) {
            Some(Token::SingleQuotedString(_)) => self.text(),
            _ => self.name(),
        }
    }

    /// A name with the types of arguments in parentheses, as it was written.
    pub(crate) fn routine(&mut self) -> Result<String> {
        let from = self.at;
        self.qualified()?;
        if self.open() {
            let mut depth = 1;
            while depth > 0 {
                depth += usize::from(self.tokens.get(self.at) == Some(&&Token::LParen));
                depth -= usize::from(self.tokens.get(self.at) == Some(&&Token::RParen));
                self.skip()?;
            }
        }
        let parts = self.tokens[from..self.at].iter().map(|token| token.to_string());
        Ok(parts.collect::<Vec<_>>().join(" "))
    }

    /// A name that may have parts.
    pub(crate) fn dotted(&mut self) -> Result<String> {
        let mut name = self.name()?;
        while self.take_token(&Token::Period) {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name)
    }

    /// Words, texts and numbers up to the end, between commas.
    pub(crate) fn values(&mut self) -> Result<String> {
        let mut out = String::new();
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::SingleQuotedString(text) => out.push_str(text),
                Token::Word(word) if word.quote_style.is_some() => {
                    out.push_str(&query::functions::quote_ident(&word.value));
                }
                Token::Word(word) => out.push_str(&word.value),
                Token::Comma => out.push_str(", "),
                other => out.push_str(&other.to_string()),
            }
            self.at += 1;
        }
        if out.is_empty() { Err(self.near()) } else { Ok(out) }
    }

    pub(super) fn take_token(&mut self, token: &Token) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Whether no further word of a name comes next: a sign or the end.
    pub(crate) fn at_name_end(&self) -> bool {
        !matches!(self.tokens.get(self.at), Some(Token::Word(_)))
    }

    pub(crate) fn near(&self) -> PgError {
        match self.tokens.get(self.at) {
            Some(token) => PgError::syntax(format!("syntax error at or near \"{token}\"")),
            None => PgError::syntax("syntax error at end of input"),
        }
    }

    pub(crate) fn name(&mut self) -> Result<String> {
        let Some(Token::Word(word)) = self.tokens.get(self.at) else { return Err(self.near()) };
        let name = match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        };
        self.at += 1;
        Ok(name)
    }

    /// A name or a text with the letters that it was written with.
    pub(crate) fn as_written(&mut self) -> Result<String> {
        let word = match self.tokens.get(self.at) {
            Some(Token::Word(word)) => word.value.clone(),
            _ => return self.text(),
        };
        self.at += 1;
        Ok(word)
    }

    pub(crate) fn qualified(&mut self) -> Result<(Option<String>, String)> {
        let first = self.name()?;
        if self.take_token(&Token::Period) {
            return Ok((Some(first), self.name()?));
        }
        Ok((None, first))
    }

    pub(crate) fn at_number(&self) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Number(..) | Token::Minus | Token::Plus))
    }

    pub(crate) fn number(&mut self) -> Result<i64> {
        let sign = if self.take_token(&Token::Minus) { "-" } else { "" };
        let Some(Token::Number(digits, _)) = self.tokens.get(self.at) else {
            return Err(self.near());
        };
        let number = format!("{sign}{digits}");
        let number = number.parse().map_err(|_| {
            PgError::new("22003", format!("value \"{number}\" is out of range for type bigint"))
        })?;
        self.at += 1;
        Ok(number)
    }

    /// Everything up to the end as it was written.
    pub(crate) fn rest(&mut self) -> String {
        let used = self.all.iter().enumerate().filter(|(_, t)| !is_space(&t.token));
        let from = used.map(|(i, _)| i).nth(self.at).unwrap_or(self.all.len());
        self.at = self.tokens.len();
        let rest = self.all[from..].iter().filter(|t| t.token != Token::SemiColon);
        rest.map(|t| t.token.to_string()).collect::<String>().trim().to_owned()
    }

    /// What is left, which stays.
    pub(super) fn rest_ahead(&mut self) -> String {
        let at = self.at;
        let rest = self.rest();
        self.at = at;
        rest
    }

    /// Everything up to the end, as one value.
    pub(super) fn value(&mut self) -> Result<String> {
        self.value_until(self.tokens.len())
    }

    /// The same, up to a token.
    pub(super) fn value_until(&mut self, end: usize) -> Result<String> {
        let (from, mut out) = (self.at, String::new());
        while let Some(token) = self.tokens.get(self.at).filter(|_| self.at < end) {
            match token {
                Token::SingleQuotedString(text) => out.push_str(text),
                Token::Word(word) => out.push_str(&word.value),
                other => out.push_str(&other.to_string()),
            }
            self.at += 1;
        }
        if self.at == from { Err(self.near()) } else { Ok(out) }
    }
}
