//! CREATE SEQUENCE, the sequences of `serial` and identity columns, and DROP SEQUENCE.
//!
//! What it promises: bounds, start and step of a sequence agree with each other and with its type.
//! What it must never do: take a value; that is the session's `nextval`.

use super::named;
use crate::parse::SequenceSpec;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{Expr, SequenceOptions};
use kernel::dict::{self, AclKind, ColumnDef, NewSequence, SequenceDef, TableDef};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

/// Values an instance takes of a sequence at once, unless it says otherwise.
const SEQUENCE_CACHE: i64 = 20;

impl Session {
    pub(crate) async fn create_sequence(&mut self, spec: &SequenceSpec) -> Result<String> {
        let (schema, name) = self.own_schema(spec.schema.clone(), spec.name.clone()).await?;
        let txn = self.transaction()?;
        if self.is_made(&schema, &name, spec.if_not_exists).await? {
            return Ok("CREATE SEQUENCE".to_owned());
        }
        let kind = named_kind(spec)?.unwrap_or(TypeKind::Int8);
        let new = sequence_def(&schema, &name, self.owner(), spec, kind)?;
        let made = dict::create_sequence(&self.ctx, &txn, new).await;
        let made = made.map_err(|e| named(e, &name))?;
        let kind = dict::AclKind::Sequence;
        self.give_default_rights(kind, &made.schema, made.obj).await?;
        Ok("CREATE SEQUENCE".to_owned())
    }

    /// The sequence of a `serial` or identity column of table `table`, and the default that calls
    /// it.
    pub(super) async fn own_sequence(
        &mut self,
        schema: &str,
        table: &str,
        column: &mut ColumnDef,
        spec: &SequenceSpec,
    ) -> Result<NewSequence> {
        let name = match &*spec.name {
            "" => self.free_name(schema, &format!("{table}_{}_seq", column.name)).await?,
            name => name.to_owned(),
        };
        if spec.schema.as_deref().is_some_and(|named| named != schema) {
            return super::refuse("a sequence of an identity column in another schema");
        }
        // The field's NUMBER takes its values from the largest sequence there is.
        let kind = match column.ty.kind {
            TypeKind::Numeric => TypeKind::Int8,
            kind => kind,
        };
        let new = sequence_def(schema, &name, self.owner(), spec, kind)?;
        let named = super::predicate::quote_literal(&super::sequence_use::qualified(schema, &name));
        column.default = Some(format!("nextval({named})"));
        Ok(new)
    }

    /// Makes the sequence of a column of a table.
    pub(super) async fn make_owned(&mut self, new: NewSequence, table: ObjId) -> Result<()> {
        let new = NewSequence { table: Some(table), ..new };
        let txn = self.transaction()?;
        let made = dict::create_sequence(&self.ctx, &txn, new).await?;
        self.give_default_rights(AclKind::Sequence, &made.schema, made.obj).await
    }

    /// ALTER SEQUENCE .. OWNED BY: the sequence goes with the table of that column from now on.
    pub(super) async fn own_by(
        &mut self,
        sequence: &SequenceDef,
        owner: Option<&(Option<String>, String, String)>,
    ) -> Result<()> {
        self.check_owner("sequence", &sequence.name, sequence.owner).await?;
        let table = match owner {
            None => None,
            Some((schema, name, column)) => {
                let found = self.find_table(schema.as_deref(), name).await?;
                let table = found.ok_or_else(|| PgError::undefined_table(name))?;
                crate::direct::column_position(&table, column)?;
                if table.schema != sequence.schema {
                    let message = "sequence must be in same schema as table it is linked to";
                    return Err(PgError::new("55000", message));
                }
                Some(table.obj)
            }
        };
        let txn = self.transaction()?;
        let all = dict::tables(&self.ctx, &txn).await?;
        let identity = all.iter().find(|def| Some(def.obj) == sequence.table).is_some_and(|def| {
            let own = crate::catalog::calls_sequence(def, sequence);
            own.is_some_and(|column| column.generated.is_some())
        });
        if identity {
            return Err(PgError::new("0A000", "cannot change ownership of identity sequence"));
        }
        dict::set_sequence_table(&self.ctx, &txn, sequence, table).await?;
        Ok(())
    }

    /// ALTER SEQUENCE with options.
    pub(super) async fn alter_sequence(
        &mut self,
        sequence: &SequenceDef,
        spec: &SequenceSpec,
    ) -> Result<()> {
        self.check_owner("sequence", &sequence.name, sequence.owner).await?;
        // What is not said here stays as others have left it.
        let txn = self.transaction()?;
        let sequence = &*dict::lock_sequence(&self.ctx, &txn, sequence).await?;
        let kind = named_kind(spec)?.unwrap_or(sequence.kind);
        let ((low, high), (new_low, new_high)) = (bounds(sequence.kind)?, bounds(kind)?);
        // A bound that was the old type's becomes the new one's.
        let moved = |own: i64, old: i64, new: i64| {
            let of_type = kind != sequence.kind && own == old;
            Some(Some(if of_type { new } else { own }))
        };
        let whole = SequenceSpec {
            start: spec.start.or(Some(sequence.start)),
            increment: spec.increment.or(Some(sequence.increment)),
            min: spec.min.or(moved(sequence.min, low, new_low)),
            max: spec.max.or(moved(sequence.max, high, new_high)),
            cache: spec.cache.or(Some(sequence.cache)),
            cycle: spec.cycle.or(Some(sequence.cycle)),
            order: spec.order.or(Some(sequence.order)),
            ..SequenceSpec::default()
        };
        let new = sequence_def(&sequence.schema, &sequence.name, sequence.owner, &whole, kind)?;
        let restart = spec.restart.map(|value| value.unwrap_or(new.start));
        Ok(dict::alter_sequence(&self.ctx, &txn, sequence, new, restart).await?)
    }

    /// The sequence of an identity column.
    pub(super) async fn alter_sequence_of(
        &mut self,
        table: &TableDef,
        column: &ColumnDef,
        spec: &SequenceSpec,
    ) -> Result<()> {
        let txn = self.transaction()?;
        for sequence in dict::sequences(&self.ctx, &txn).await? {
            let called = crate::catalog::calls_sequence(table, &sequence);
            if called.is_some_and(|called| called.name == column.name) {
                self.alter_sequence(&sequence, spec).await?;
            }
        }
        Ok(())
    }

    /// The sequences of these tables begin anew.
    pub(super) async fn restart_sequences(&mut self, tables: &[Arc<TableDef>]) -> Result<()> {
        let txn = self.transaction()?;
        let spec = SequenceSpec { restart: Some(None), ..SequenceSpec::default() };
        for sequence in dict::sequences(&self.ctx, &txn).await? {
            if tables.iter().any(|table| sequence.table == Some(table.obj)) {
                self.alter_sequence(&sequence, &spec).await?;
            }
        }
        Ok(())
    }
}

/// The options of a sequence that is to be like another.
pub(super) fn like_spec(sequence: &SequenceDef) -> SequenceSpec {
    SequenceSpec {
        start: Some(sequence.start),
        increment: Some(sequence.increment),
        min: Some(Some(sequence.min)),
        max: Some(Some(sequence.max)),
        cache: Some(sequence.cache),
        cycle: Some(sequence.cycle),
        order: Some(sequence.order),
        ..SequenceSpec::default()
    }
}

/// The options of an identity column.
pub(super) fn identity_spec(options: &[SequenceOptions]) -> Result<SequenceSpec> {
    let mut spec = SequenceSpec::default();
    for option in options {
        match option {
            SequenceOptions::IncrementBy(expr, _) => spec.increment = Some(sequence_number(expr)?),
            SequenceOptions::MinValue(value) => {
                spec.min = Some(value.as_ref().map(sequence_number).transpose()?);
            }
            SequenceOptions::MaxValue(value) => {
                spec.max = Some(value.as_ref().map(sequence_number).transpose()?);
            }
            SequenceOptions::StartWith(expr, _) => spec.start = Some(sequence_number(expr)?),
            SequenceOptions::Cache(expr) => spec.cache = Some(sequence_number(expr)?),
            // The library's flag says NO CYCLE.
            SequenceOptions::Cycle(no) => spec.cycle = Some(!no),
        }
    }
    Ok(spec)
}

fn sequence_number(expr: &Expr) -> Result<i64> {
    expr.to_string().replace(' ', "").parse().map_err(|_| PgError::syntax("an integer is expected"))
}

/// The type that AS names.
fn named_kind(spec: &SequenceSpec) -> Result<Option<TypeKind>> {
    match spec.type_name.as_deref() {
        None => Ok(None),
        Some("bigint" | "int8") => Ok(Some(TypeKind::Int8)),
        Some("integer" | "int" | "int4") => Ok(Some(TypeKind::Int4)),
        Some("smallint" | "int2") => Ok(Some(TypeKind::Int2)),
        Some(_) => Err(wrong_type()),
    }
}

fn wrong_type() -> PgError {
    PgError::new("22023", "sequence type must be smallint, integer, or bigint")
}

/// The least and the greatest value of a type.
fn bounds(kind: TypeKind) -> Result<(i64, i64)> {
    match kind {
        TypeKind::Int2 => Ok((i64::from(i16::MIN), i64::from(i16::MAX))),
        TypeKind::Int4 => Ok((i64::from(i32::MIN), i64::from(i32::MAX))),
        TypeKind::Int8 => Ok((i64::MIN, i64::MAX)),
        _ => Err(wrong_type()),
    }
}

fn sequence_def(
    schema: &str,
    name: &str,
    owner: ObjId,
    spec: &SequenceSpec,
    kind: TypeKind,
) -> Result<NewSequence> {
    let (low, high) = bounds(kind)?;
    let (increment, cache) = (spec.increment.unwrap_or(1), spec.cache.unwrap_or(SEQUENCE_CACHE));
    let invalid = |text: String| Err(PgError::new("22023", text));
    if increment == 0 {
        return invalid("INCREMENT must not be zero".to_owned());
    }
    if cache < 1 {
        return invalid(format!("CACHE ({cache}) must be greater than zero"));
    }
    let up = increment > 0;
    let min = spec.min.flatten().unwrap_or(if up { 1 } else { low });
    let max = spec.max.flatten().unwrap_or(if up { high } else { -1 });
    let ty = ColType::new(kind);
    for (word, value) in [("MAXVALUE", max), ("MINVALUE", min)] {
        if value < low || value > high {
            return invalid(format!(
                "{word} ({value}) is out of range for sequence data type {ty}"
            ));
        }
    }
    if min >= max {
        return invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    let start = spec.start.unwrap_or(if up { min } else { max });
    if start < min {
        return invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})"));
    }
    if start > max {
        return invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})"));
    }
    Ok(NewSequence {
        schema: schema.to_owned(),
        name: name.to_owned(),
        owner,
        kind,
        start,
        increment,
        min,
        max,
        cache,
        cycle: spec.cycle.unwrap_or(false),
        order: spec.order.unwrap_or(false),
        table: None,
    })
}
