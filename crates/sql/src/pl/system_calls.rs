//! Procedures that switch traces, and those of the repository, in blocks.
//!
//! What it promises: arguments are expressions, by position or by name, and what is called is the
//! same as in a statement by itself. What it must never do: take a value for a part of the text.

use super::exec::Source;
use super::lex::Tok;
use super::parse::Parser;
use super::run::Machine;
use super::tree::{Kind, Sql};
use crate::Result;
use crate::parse::{ANY_OF_RULE, procedure};
use kernel::row::{ColType, TypeKind, Value};

/// A call.
#[derive(Clone, Debug)]
pub(super) struct SystemCall {
    name: &'static str,
    /// By the names of the parameters; `None`: any module, or action.
    given: Vec<(&'static str, Option<Sql>)>,
}

impl SystemCall {
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Sql> {
        self.given.iter().filter_map(|(_, sql)| sql.as_ref())
    }
}

/// Whether a procedure of a package is one of these.
pub(super) fn is_system_call(package: &str, name: &str) -> bool {
    procedure(&format!("{package}.{name}")).is_some()
}

/// Parameters that are whole numbers.
const NUMBERS: [&str; 5] = ["session_id", "serial_num", "inst_id", "low_snap_id", "high_snap_id"];

/// The value of a parameter as a statement has it.
fn literal(parameter: &str, ty: ColType, text: Option<&str>) -> String {
    let Some(text) = text else { return "null".to_owned() };
    // `24/2` has digits behind the point.
    let whole = |text: &str| match text.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|digit| digit == b'0') => whole.to_owned(),
        _ => text.to_owned(),
    };
    match ty.kind {
        TypeKind::Bool => if matches!(text, "t" | "true") { "true" } else { "false" }.to_owned(),
        _ if NUMBERS.contains(&parameter) && whole(text).parse::<i64>().is_ok() => whole(text),
        _ => format!("'{}'", text.replace('\'', "''")),
    }
}

impl Parser<'_> {
    /// A call of one of these, and the `;`.
    pub(super) fn system_call(&mut self) -> Result<Kind> {
        let package = self.name()?;
        self.expect_symbol(".")?;
        let name = format!("{package}.{}", self.name()?);
        let Some((name, parameters)) = procedure(&name) else {
            return Err(self.error("42883", format!("procedure {name} does not exist")));
        };
        let mut given: Vec<(&'static str, Option<Sql>)> = Vec::new();
        if self.symbol("(") && !self.symbol(")") {
            let mut next = 0;
            loop {
                let at = match (self.tok().clone(), self.peek(1)) {
                    (Tok::Word(word), Tok::Symbol("=>")) => {
                        self.advance();
                        self.advance();
                        parameters.iter().position(|known| *known == word)
                    }
                    _ => {
                        next += 1;
                        Some(next - 1)
                    }
                };
                let Some(parameter) = at.and_then(|at| parameters.get(at)) else {
                    let text = format!("procedure {name} has no such argument");
                    return Err(self.error("42883", text));
                };
                if given.iter().any(|(known, _)| known == parameter) {
                    let text = format!("argument \"{parameter}\" is given twice");
                    return Err(self.error("42601", text));
                }
                let value = match self.names_any() {
                    true => None,
                    false => Some(self.expr_until(&[], &[",", ")"])?),
                };
                given.push((parameter, value));
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        self.expect_symbol(";")?;
        Ok(Kind::System(SystemCall { name, given }))
    }

    /// Takes the constant that stands for any module, or action.
    fn names_any(&mut self) -> bool {
        let (Tok::Word(package), Tok::Word(name)) = (self.tok(), self.peek(2)) else {
            return false;
        };
        let any = self.is_at(1, ".") && ANY_OF_RULE.contains(&&*format!("{package}.{name}"));
        if any {
            (0..3).for_each(|_| self.advance());
        }
        any
    }
}

impl Machine<'_> {
    pub(super) async fn call_system(&mut self, call: &SystemCall) -> Result<()> {
        let mut values = Vec::with_capacity(call.given.len());
        for (parameter, sql) in &call.given {
            let value = match sql {
                None => ANY_OF_RULE[0].to_owned(),
                Some(sql) => {
                    let (value, ty) = self.eval(sql).await?;
                    let text = self.converted(&value, ColType::new(TypeKind::Text))?;
                    match &text {
                        Value::Text(text) => literal(parameter, ty, Some(text)),
                        _ => literal(parameter, ty, None),
                    }
                }
            };
            values.push(format!("{parameter} => {value}"));
        }
        let text = format!("call {}({})", call.name, values.join(", "));
        let source = Source::Dynamic { text: &text, types: &[], values: Vec::new() };
        self.run_sql(source, None, false).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_a_statement_as_what_they_are() {
        let of = |kind, text| literal("client_id", ColType::new(kind), text);
        assert_eq!(of(TypeKind::Bool, Some("true")), "true");
        assert_eq!(of(TypeKind::Bool, Some("f")), "false");
        assert_eq!(of(TypeKind::Numeric, Some("12")), "'12'");
        let number = |kind, text| literal("session_id", ColType::new(kind), Some(text));
        assert_eq!(number(TypeKind::Numeric, "12.0000"), "12");
        assert_eq!(number(TypeKind::Numeric, "12.5"), "'12.5'");
        assert_eq!(number(TypeKind::Text, "12"), "12");
        assert_eq!(of(TypeKind::Text, Some("it's")), "'it''s'");
        assert_eq!(of(TypeKind::Text, Some("x'); drop table t; --")), "'x''); drop table t; --'");
        assert_eq!(of(TypeKind::Text, None), "null");
        assert!(is_system_call("dbms_monitor", "session_trace_enable"));
        assert!(!is_system_call("dbms_monitor", "nothing"));
    }
}
