//! `dbms_application_info.set_session_longops`: what code tells of an operation of its own.
//!
//! What it promises: the row that the call made before goes on with the number in `rindex`; with
//! `set_session_longops_nohint`, or after the row has gone, there is a new one. What it must never
//! do: change another session's row.

use super::lex::Tok;
use super::parse::Parser;
use super::run::Machine;
use super::tree::{Kind, Sql, Use};
use crate::Result;
use kernel::row::{ColType, TypeKind, Value};
use observe::{Progress, Target};

const NAME: &str = "dbms_application_info.set_session_longops";
/// The package's constant that stands for no row.
pub(super) const NO_HINT: &str = "set_session_longops_nohint";
/// Arguments that are given and get a value.
const PLACES: [&str; 2] = ["rindex", "slno"];
/// The others, in their order.
const VALUES: [&str; 7] =
    ["op_name", "target", "context", "sofar", "totalwork", "target_desc", "units"];
/// Longest texts; the rest is cut off.
const NAME_CHARS_MAX: usize = 64;
const DESC_CHARS_MAX: usize = 32;

/// A call.
#[derive(Clone, Debug)]
pub(super) struct LongCall {
    /// What [`PLACES`] hold, and where they are.
    places: [(Sql, Use); 2],
    /// By the places of [`VALUES`].
    values: [Option<Sql>; 7],
}

impl LongCall {
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Sql> {
        self.places.iter().map(|(value, _)| value).chain(self.values.iter().flatten())
    }
}

/// Whether it is this procedure.
pub(super) fn is_long_operation(name: &str) -> bool {
    name == NAME
}

impl Parser<'_> {
    /// A call behind its name, and the `;`.
    pub(super) fn long_operation_call(&mut self) -> Result<Kind> {
        let mut places: [Option<(Sql, Use)>; 2] = Default::default();
        let mut values: [Option<Sql>; 7] = Default::default();
        self.expect_symbol("(")?;
        let mut next = 0;
        loop {
            let at = match (self.tok().clone(), self.peek(1)) {
                (Tok::Word(word), Tok::Symbol("=>")) => {
                    self.advance();
                    self.advance();
                    PLACES.iter().chain(&VALUES).position(|known| *known == word)
                }
                _ => {
                    next += 1;
                    Some(next - 1).filter(|at| *at < PLACES.len() + VALUES.len())
                }
            };
            let Some(at) = at else {
                let text = format!("procedure {NAME} has no such argument");
                return Err(self.error("42883", text));
            };
            let twice = match at.checked_sub(PLACES.len()) {
                None => {
                    let from = self.at;
                    let target = self.target()?;
                    self.at = from;
                    let value = self.expr_until(&[], &[",", ")"])?;
                    places[at].replace((value, target)).is_some()
                }
                Some(at) => {
                    let value = self.expr_until(&[], &[",", ")"])?;
                    values[at].replace(value).is_some()
                }
            };
            if twice {
                return Err(self.error("42601", format!("an argument of {NAME} is given twice")));
            }
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.expect_symbol(";")?;
        let [Some(rindex), Some(slno)] = places else {
            let text = format!("procedure {NAME} without rindex and slno does not exist");
            return Err(self.error("42883", text));
        };
        Ok(Kind::TellLong(Box::new(LongCall { places: [rindex, slno], values })))
    }
}

impl Machine<'_> {
    async fn long_text(&mut self, sql: Option<&Sql>, longest: usize) -> Result<Option<String>> {
        let Some(sql) = sql else { return Ok(None) };
        let (value, _) = self.eval(sql).await?;
        Ok(match self.converted(&value, ColType::new(TypeKind::Text))? {
            Value::Text(text) => Some(text.chars().take(longest).collect()),
            _ => None,
        })
    }

    async fn long_number(&mut self, sql: Option<&Sql>) -> Result<Option<i64>> {
        let Some(sql) = sql else { return Ok(None) };
        let (value, _) = self.eval(sql).await?;
        Ok(match self.converted(&value, ColType::new(TypeKind::Int8))? {
            Value::Int8(number) => Some(number),
            _ => None,
        })
    }

    /// An operation of the code is so far.
    pub(super) async fn tell_long(&mut self, call: &LongCall) -> Result<()> {
        let [(rindex, to_rindex), (slno, to_slno)] = &call.places;
        let number = self.long_number(Some(rindex)).await?;
        // It tells of what runs inside the field's server; here it is the number once more.
        self.long_number(Some(slno)).await?;
        let (to_rindex, to_slno) = (self.settled(to_rindex).await?, self.settled(to_slno).await?);
        let [name, target, context, sofar, total, target_desc, units] =
            call.values.each_ref().map(Option::as_ref);
        let target = self.long_number(target).await?.filter(|number| *number != 0);
        let target_desc = match target_desc {
            None => Some("unknown target".to_owned()),
            given => self.long_text(given, DESC_CHARS_MAX).await?,
        };
        let progress = Progress {
            name: self.long_text(name, NAME_CHARS_MAX).await?.unwrap_or_default(),
            target: target.map_or(Target::Nothing, |number| Target::Other(number.to_string())),
            target_desc: target_desc.unwrap_or_default(),
            context: self.long_number(context).await?.unwrap_or(0),
            sofar: self.long_number(sofar).await?.unwrap_or(0),
            total: self.long_number(total).await?.unwrap_or(0),
            units: self.long_text(units, DESC_CHARS_MAX).await?.unwrap_or_default(),
            bytes: None,
        };
        let known = number.and_then(|number| u32::try_from(number).ok());
        let ctx = &self.session.ctx;
        let number = i64::from(ctx.observer.long_operations.tell(ctx, known, progress));
        for target in [to_rindex, to_slno] {
            self.store(&target, Value::Int8(number), ColType::new(TypeKind::Int8))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::pl::block_len;

    #[test]
    fn a_call_has_places_and_values_by_order_or_by_name() {
        let code = |call: &str| {
            let name = "dbms_application_info.set_session_longops";
            format!(
                "declare r binary_integer := dbms_application_info.set_session_longops_nohint; \
                 s binary_integer; begin {name}({call}); end;"
            )
        };
        let error = |call: &str| block_len(&code(call)).map_err(|error| error.code).err();
        assert_eq!(error("r, s, 'job', 0, 0, 1, 2, 'x', 'rows'"), None);
        assert_eq!(error("rindex => r, slno => s, sofar => 1 + 1, totalwork => 4"), None);
        assert_eq!(error("r, s, 'job', sofar => (select max(n) from t)"), None);
        assert_eq!(error("r, 'job'"), Some("42601"));
        assert_eq!(error("r, op_name => 'job'"), Some("42883"));
        assert_eq!(error("r, s, nothing => 1"), Some("42883"));
        assert_eq!(error("r, s, op_name => 'a', op_name => 'b'"), Some("42601"));
        assert_eq!(error("r, s, 'a', 0, 0, 1, 2, 'x', 'rows', 1"), Some("42883"));
    }
}
