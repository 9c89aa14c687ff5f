//! `nextval` and its like. What `currval` says belongs to the session.

use crate::bind::SessionFn;
use crate::session::Session;
use crate::{PgError, Result};
use kernel::dict::{Generated, SequenceDef};
use kernel::row::Value;
use kernel::{dict, seq};
use std::sync::Arc;

impl Session {
    /// Finds a sequence by name, or none.
    pub(crate) async fn find_sequence(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<SequenceDef>>> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema).await? {
            if let Some(found) = dict::sequence(&self.ctx, &txn, &schema, name).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The sequence a text such as `public.s` or `"S"` names.
    async fn sequence_of(&mut self, arg: Option<&Value>) -> Result<Arc<SequenceDef>> {
        let Some(Value::Text(text)) = arg else {
            return Err(PgError::new("22004", "the name of a sequence is missing"));
        };
        let parts = split_name(text);
        let (schema, name) = match &parts[..] {
            [name] => (None, name.as_str()),
            [schema, name] => (Some(schema.as_str()), name.as_str()),
            _ => return Err(PgError::new("42602", format!("invalid name syntax: \"{text}\""))),
        };
        let found = self.find_sequence(schema, name).await?;
        found.ok_or_else(|| PgError::undefined_table(text))
    }

    pub(crate) async fn sequence_call(
        &mut self,
        function: SessionFn,
        args: &[Value],
    ) -> Result<Value> {
        if function == SessionFn::LastVal {
            let last = self.last_sequence.ok_or_else(|| {
                PgError::new("55000", "lastval is not yet defined in this session")
            })?;
            return Ok(Value::Int8(last));
        }
        let def = self.sequence_of(args.first()).await?;
        env::boxed!(self.check_call(function, &def)).await?;
        let value = match function {
            SessionFn::NextVal => {
                self.check_writable("nextval()")?;
                let txn = self.transaction()?;
                let value = seq::nextval(&self.ctx, &txn, &def).await;
                let value = value.map_err(|error| at_its_end(error, &def))?;
                self.note_value(&def, value);
                value
            }
            SessionFn::SetVal => {
                self.check_writable("setval()")?;
                let value = match args.get(1) {
                    Some(Value::Int4(v)) => i64::from(*v),
                    Some(Value::Int8(v)) => *v,
                    Some(Value::Null) | None => return Ok(Value::Null),
                    Some(other) => {
                        let int8 = kernel::row::ColType::new(kernel::row::TypeKind::Int8);
                        let env = self.format_env();
                        let mode = query::cast::CastMode::Assignment;
                        match query::cast::cast(&other.as_datum(), int8, mode, &env)? {
                            Value::Int8(v) => v,
                            _ => return Ok(Value::Null),
                        }
                    }
                };
                let used = args.get(2) != Some(&Value::Bool(false));
                let txn = self.transaction()?;
                let set = seq::setval(&self.ctx, &txn, &def, value, used).await;
                set.map_err(|error| match error {
                    kernel::Error::Invalid(text) => PgError::new("22003", text),
                    other => other.into(),
                })?;
                if used {
                    self.note_value(&def, value);
                }
                value
            }
            _ => *self.sequences.get(&def.obj).ok_or_else(|| {
                let name = &def.name;
                PgError::new(
                    "55000",
                    format!("currval of sequence \"{name}\" is not yet defined in this session"),
                )
            })?,
        };
        Ok(Value::Int8(value))
    }

    /// 42501 unless the role may do this with the sequence. Who may insert into a table may take
    /// the values of its identity columns.
    async fn check_call(&mut self, function: SessionFn, def: &SequenceDef) -> Result<()> {
        use kernel::dict::Privileges as P;
        let any_of = match function {
            SessionFn::NextVal => P::USAGE.with(P::UPDATE),
            SessionFn::SetVal => P::UPDATE,
            _ => P::USAGE.with(P::SELECT),
        };
        let checked = self.check_sequence(def, any_of).await;
        let (Err(denied), SessionFn::NextVal, Some(table)) = (&checked, function, def.table) else {
            return checked;
        };
        let (denied, txn) = (denied.clone(), self.transaction()?);
        let Some(table) = dict::table_by_obj(&self.ctx, &txn, table).await? else {
            return Err(denied);
        };
        let quoted = query::functions::quote_ident(&def.name);
        let identity = table.columns.iter().any(|column| {
            matches!(column.generated, Some(Generated::Always | Generated::ByDefault))
                && column.default.as_ref().is_some_and(|text| text.contains(&quoted))
        });
        if identity && self.check_columns(&table, P::INSERT, &[]).await.is_ok() {
            return Ok(());
        }
        Err(denied)
    }

    fn note_value(&mut self, def: &SequenceDef, value: i64) {
        self.sequences.insert(def.obj, value);
        self.last_sequence = Some(value);
    }
}

/// The error of `nextval`: a sequence at its end says which value it cannot pass.
fn at_its_end(error: kernel::Error, def: &SequenceDef) -> PgError {
    let own = PgError::from(error);
    if own.code != "2200H" {
        return own;
    }
    let (end, value) = match def.increment > 0 {
        true => ("maximum", def.max),
        false => ("minimum", def.min),
    };
    let text = format!("nextval: reached {end} value of sequence \"{}\" ({value})", def.name);
    PgError::new("2200H", text)
}

/// The parts of a name in text, folded unless quoted.
pub(crate) fn split_name(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => part.extend(chars.next()),
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            c if quoted => part.push(c),
            c => part.extend(c.to_lowercase()),
        }
    }
    parts.push(part);
    parts
}
