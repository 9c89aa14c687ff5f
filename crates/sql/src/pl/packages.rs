//! Packages of the field that blocks do themselves: output, sleep, time, and values by chance.
//!
//! What it promises: a package or procedure that there is none of is refused by its name; after
//! `dbms_random.seed` the same values follow. What it must never do: take a seed for a secret.

use super::lex::Tok;
use super::long_operation::NO_HINT;
use super::parse::Parser;
use super::run::Machine;
use super::tree::{Access, Chance, Dialect, Kind, Measure, Sql, Use};
use crate::{PgError, Result};
use kernel::row::{ColType, TypeKind, Value};

/// Longest text by chance.
const TEXT_CHARS_MAX: usize = 4000;
/// A number with 53 bits is a fraction of this.
const FRACTIONS: f64 = 9_007_199_254_740_992.0;

/// Whether a procedure of a package is one that a block does itself, and can be called without one.
pub(crate) fn is_package_call(package: &str, name: &str) -> bool {
    super::attributes::is_attribute_call(package, name)
        || matches!(package, "dbms_output" | "dbms_lock" | "dbms_random")
        || (package == "dbms_session" && name == "sleep")
}

impl Parser<'_> {
    /// What stands in the brackets of a call; nothing where there are none.
    pub(super) fn call_arguments(&mut self) -> Result<Vec<Sql>> {
        let mut args = Vec::new();
        if self.symbol("(") && !self.symbol(")") {
            loop {
                args.push(self.expr_until(&[], &[",", ")"])?);
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        Ok(args)
    }

    /// The same where arguments may be given by name: in the order of the parameters.
    fn named_arguments(&mut self, called: &str, parameters: &[&str]) -> Result<Vec<Sql>> {
        let mut given: Vec<(usize, Sql)> = Vec::new();
        if self.symbol("(") && !self.symbol(")") {
            loop {
                let at = match (self.tok().clone(), self.peek(1)) {
                    (Tok::Word(name), Tok::Symbol("=>")) => {
                        let known = parameters.iter().position(|known| *known == name);
                        let missing =
                            || self.error("42883", format!("{called} has no such argument"));
                        let at = known.ok_or_else(missing)?;
                        self.advance();
                        self.advance();
                        at
                    }
                    _ => given.len(),
                };
                if given.iter().any(|(known, _)| *known == at) {
                    let text = format!("an argument of {called} is given twice");
                    return Err(self.error("42601", text));
                }
                given.push((at, self.expr_until(&[], &[",", ")"])?));
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        given.sort_by_key(|(at, _)| *at);
        // One that is left out has no value before the others.
        match given.iter().enumerate().all(|(place, (at, _))| place == *at) {
            true => Ok(given.into_iter().map(|(_, arg)| arg).collect()),
            false => Err(self.error("42883", format!("an argument of {called} is missing"))),
        }
    }

    /// Procedures of the field that the block does itself.
    pub(super) fn procedure(&mut self, package: &str) -> Result<Kind> {
        self.advance();
        let name = match self.symbol(".") {
            true => format!("{package}.{}", self.name()?),
            false => package.to_owned(),
        };
        if name == "dbms_output.get_line" {
            return self.get_line();
        }
        let parameters: &[&str] = match name.as_str() {
            "dbms_output.put_line" | "dbms_output.put" => &["a"],
            "dbms_output.enable" => &["buffer_size"],
            "dbms_output.get_lines" => &["lines", "numlines"],
            "dbms_lock.sleep" | "dbms_session.sleep" => &["seconds"],
            "dbms_random.seed" | "dbms_random.initialize" => &["val"],
            "raise_application_error" => &["num", "msg", "keeperrorstack"],
            _ => &[],
        };
        let args = self.named_arguments(&format!("procedure {name}"), parameters)?;
        self.expect_symbol(";")?;
        let count = args.len();
        let mut args = args.into_iter();
        match (name.as_str(), count) {
            ("dbms_output.put_line", 1) => Ok(Kind::Put { text: args.next(), ends: true }),
            ("dbms_output.put", 1) => Ok(Kind::Put { text: args.next(), ends: false }),
            ("dbms_output.new_line", 0) => Ok(Kind::Put { text: None, ends: true }),
            ("dbms_output.get_lines", _) => {
                Err(self.unsupported(name, "dbms_output.get_line takes one line at a time."))
            }
            ("dbms_output.enable", 0 | 1) => Ok(Kind::Output(true)),
            ("dbms_output.disable", 0) => Ok(Kind::Output(false)),
            ("dbms_lock.sleep" | "dbms_session.sleep", 1) => {
                let mut sql = args.next().expect("one");
                sql.text = format!("select pg_sleep({})", sql.text);
                Ok(Kind::Sql { sql, into: None, perform: true, is_query: true })
            }
            ("dbms_random.seed" | "dbms_random.initialize", 1) => {
                Ok(Kind::Seed(args.next().expect("one")))
            }
            ("dbms_random.terminate", 0) => Ok(Kind::Nothing),
            ("raise_application_error", 2 | 3) => {
                let (number, message) = (args.next().expect("two"), args.next().expect("two"));
                Ok(Kind::Fail { number, message, keeps: args.next() })
            }
            _ => Err(self
                .error("42883", format!("procedure {name} with {count} arguments does not exist"))),
        }
    }

    /// Packages and statements of the field that there are none of, by name.
    pub(super) fn refuse_known(&self, first: &str) -> Result<()> {
        if self.dialect == Dialect::Pg {
            return Ok(());
        }
        const PACKAGES: [&str; 14] = [
            "dbms_sql",
            "dbms_job",
            "dbms_scheduler",
            "dbms_lob",
            "utl_file",
            "utl_http",
            "utl_smtp",
            "dbms_pipe",
            "dbms_alert",
            "dbms_metadata",
            "dbms_xmlgen",
            "dbms_crypto",
            "dbms_aq",
            "dbms_mview",
        ];
        if PACKAGES.contains(&first) && self.is_at(1, ".") {
            let hint = "See docs/procedural.md for the packages that there are.";
            let name = match self.peek(2) {
                Tok::Word(name) => format!("{first}.{name}"),
                _ => format!("package {first}"),
            };
            return Err(self.unsupported(name, hint));
        }
        Ok(())
    }

    /// A function of `dbms_utility` or `dbms_random`, or a constant of `dbms_application_info`, of
    /// which only the package's name is known.
    pub(super) fn package_use(&mut self) -> Result<Option<Use>> {
        let package = self.name()?;
        self.expect_symbol(".")?;
        let name = self.name()?;
        let chance = match (package.as_str(), name.as_str()) {
            ("dbms_utility", "get_time") => None,
            ("dbms_utility", "get_cpu_time") => Some(Measure::Cpu),
            ("dbms_utility", "format_error_stack") => Some(Measure::ErrorStack),
            ("dbms_utility", "format_error_backtrace") => Some(Measure::ErrorBacktrace),
            ("dbms_application_info", NO_HINT) => Some(Measure::NoHint),
            ("dbms_random", _) => return self.chance(&name).map(Some),
            _ => {
                let hint = "See docs/procedural.md for the packages that there are.";
                return Err(self.unsupported(format!("{package}.{name}"), hint));
            }
        };
        if self.symbol("(") {
            self.expect_symbol(")")?;
        }
        Ok(Some(Use::with(0, Access::Measure(chance.unwrap_or(Measure::Time)))))
    }

    fn chance(&mut self, name: &str) -> Result<Use> {
        let args = self.call_arguments()?;
        let count = args.len();
        let chance = match (name, count) {
            ("value", 0 | 2) => Chance::Value,
            ("normal", 0) => Chance::Normal,
            ("random", 0) => Chance::Integer,
            ("string", 2) => Chance::Text,
            _ => {
                let text =
                    format!("function dbms_random.{name} with {count} arguments does not exist");
                return Err(self.error("42883", text));
            }
        };
        Ok(Use::with(0, Access::Chance(chance, args)))
    }
}

/// The next number of a sequence (Weyl's, mixed: SplitMix64).
fn next_of(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What of a number fits a BINARY_INTEGER, as the field's clocks count: on from the highest follows
/// the lowest.
fn wrapped(number: i64) -> i64 {
    const HALF: i64 = 1 << 31;
    number.wrapping_add(HALF).rem_euclid(2 * HALF) - HALF
}

impl Machine<'_> {
    pub(super) fn measure(&self, what: Measure) -> (Value, Option<ColType>) {
        let hundredths =
            |us: i64| (Value::Int8(wrapped(us / 10_000)), Some(ColType::new(TypeKind::Int8)));
        let ctx = &self.session.ctx;
        match what {
            Measure::Time => hundredths(ctx.env.wall_us()),
            Measure::Cpu => {
                let used_us = ctx.session.thread_cpu_us(&ctx.env).unwrap_or(0);
                hundredths(i64::try_from(used_us).unwrap_or(i64::MAX))
            }
            Measure::ErrorStack | Measure::ErrorBacktrace => {
                let text = self.error_text(what == Measure::ErrorStack);
                (text, Some(ColType::new(TypeKind::Text)))
            }
            Measure::NoHint => (Value::Int4(-1), Some(ColType::new(TypeKind::Int4))),
        }
    }

    fn next_chance(&mut self) -> u64 {
        let env = &self.session.ctx.env;
        let state = self.session.chance.get_or_insert_with(|| env.random());
        next_of(state)
    }

    /// At least 0 and less than 1.
    fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "it has 53 bits")]
        let bits = (self.next_chance() >> 11) as f64;
        bits / FRACTIONS
    }

    pub(super) async fn by_chance(
        &mut self,
        chance: Chance,
        args: &[Sql],
    ) -> Result<(Value, Option<ColType>)> {
        let mut given = Vec::with_capacity(args.len());
        for arg in args {
            given.push(self.eval(arg).await?.0);
        }
        let numeric = ColType::new(TypeKind::Numeric);
        let number = |machine: &Self, value: f64| {
            Ok((machine.converted(&Value::Float8(value), numeric)?, Some(numeric)))
        };
        match chance {
            Chance::Value => {
                let at = self.fraction();
                let mut bounds = [0.0, 1.0];
                for (bound, value) in bounds.iter_mut().zip(&given) {
                    match self.converted(value, ColType::new(TypeKind::Float8))? {
                        Value::Float8(value) => *bound = value,
                        _ => return Ok((Value::Null, Some(numeric))),
                    }
                }
                let [low, high] = bounds;
                number(self, low + at * (high - low))
            }
            Chance::Normal => {
                let (a, b) = (1.0 - self.fraction(), self.fraction());
                number(self, (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos())
            }
            Chance::Integer => {
                let bytes = self.next_chance().to_le_bytes();
                let number = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                Ok((Value::Int4(number), Some(ColType::new(TypeKind::Int4))))
            }
            Chance::Text => {
                const LARGE: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
                let text = ColType::new(TypeKind::Text);
                let [kind, length] = &given[..] else {
                    return Err(PgError::internal("two arguments"));
                };
                let (kind, length) = (
                    self.converted(kind, text)?,
                    self.converted(length, ColType::new(TypeKind::Int8))?,
                );
                let (Value::Text(kind), Value::Int8(length)) = (kind, length) else {
                    return Ok((Value::Null, Some(text)));
                };
                let of = match &*kind.to_ascii_lowercase() {
                    "l" => LARGE.to_ascii_lowercase(),
                    "a" => format!("{LARGE}{}", LARGE.to_ascii_lowercase()),
                    "x" => format!("{LARGE}0123456789"),
                    "p" => (' '..='~').collect(),
                    _ => LARGE.to_owned(),
                };
                let length = usize::try_from(length).unwrap_or(0).min(TEXT_CHARS_MAX);
                let (of, mut made) = (of.as_bytes(), String::with_capacity(length));
                for _ in 0..length {
                    let at = self.next_chance() % of.len() as u64;
                    made.push(char::from(of[usize::try_from(at).unwrap_or(0)]));
                }
                Ok((Value::Text(made.into()), Some(text)))
            }
        }
    }

    /// The same values follow the same seed, a number or a text.
    pub(super) async fn seed(&mut self, sql: &Sql) -> Result<()> {
        let (value, _) = self.eval(sql).await?;
        if let Value::Text(text) = self.converted(&value, ColType::new(TypeKind::Text))? {
            let mut state = text.len() as u64;
            for byte in text.bytes() {
                state = next_of(&mut state) ^ u64::from(byte);
            }
            self.session.chance = Some(state);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::pl::block_len;

    #[test]
    fn what_does_not_exist_is_told_where_it_stands() {
        let text = "begin\ndbms_output.put_line('a');\ndbms_output.put_lin('x');\n\
                    dbms_output.put_line('b');\nend;";
        let error = block_len(text).unwrap_err();
        assert_eq!((error.code, error.position), ("42883", Some(34)));
        let context = error.about.and_then(|about| about.context);
        assert_eq!(context.as_deref(), Some("line 3 of the block"));
        // What stands behind a statement is told where it is.
        let error = block_len("begin\nnull;\n\n);\nend;").unwrap_err();
        let context = error.about.and_then(|about| about.context);
        assert_eq!(context.as_deref(), Some("line 4 of the block"));
    }
}
