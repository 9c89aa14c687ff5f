//! Variables of code while it runs: what they hold, what types they have, and how they get values.
//!
//! What it promises: a value is converted to its variable's type as an assignment does. What it
//! must never do: change a constant.

use super::collections::Collection;
use super::declare::Ranged;
use super::elements::is_constant;
use super::exec::Planned;
use super::run::Machine;
use super::tree::{Access, Dialect, Into, TypeName, Use};
use super::types::RecordSpec;
use crate::planning::Counted;
use crate::{PgError, Result};
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};
use query::cast::trim_zeros;
use query::functions::number_text;
use std::sync::Arc;

/// A row with names.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) names: Arc<[String]>,
    pub(super) types: Arc<[ColType]>,
    pub(super) values: Vec<Value>,
    /// Its columns are those of its declaration.
    pub(super) fixed: bool,
}

/// What a place holds.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) value: Value,
    /// `None`: of a value whose type only SQL knows, kept as its text; or a record.
    pub(super) ty: Option<ColType>,
    pub(super) record: Option<Record>,
    pub(super) collection: Option<Arc<Collection>>,
    pub(super) constant: bool,
    pub(super) not_null: bool,
    /// What its type allows of integers, if that says so.
    pub(super) ranged: Option<&'static Ranged>,
}

impl Place {
    /// That of a record that a loop declares.
    pub(super) fn record(name: &str) -> Place {
        let mut place = Place::new(TypeKind::Text, Value::Null);
        place.name.push_str(name);
        (place.ty, place.record) = (None, Some(Record::default()));
        place
    }

    pub(super) fn null() -> Place {
        Place::new(TypeKind::Text, Value::Null)
    }

    /// Whether it holds a value, and no record or collection.
    pub(super) const fn is_single(&self) -> bool {
        self.record.is_none() && self.collection.is_none()
    }

    pub(super) fn new(kind: TypeKind, value: Value) -> Place {
        Place {
            name: String::new(),
            value,
            ty: Some(ColType::new(kind)),
            record: None,
            collection: None,
            constant: false,
            not_null: false,
            ranged: None,
        }
    }
}

impl Machine<'_> {
    /// The type of a variable, and the empty row of one that has columns.
    pub(super) async fn resolve(
        &mut self,
        ty: &TypeName,
    ) -> Result<(Option<ColType>, Option<Record>)> {
        match ty {
            TypeName::Record => Ok((None, Some(Record::default()))),
            TypeName::Like(slot, _) => {
                if let Some(def) = self.queries.get(slot) {
                    let query = def.query.clone();
                    let missing = || PgError::new("42704", "a cursor variable has no row type");
                    let query = query.ok_or_else(missing)?;
                    return Ok((None, Some(self.row_of_query(&query.text).await?)));
                }
                let place = &self.places[*slot];
                Ok((place.ty, place.record.clone()))
            }
            TypeName::Query(query, row) => {
                let planned = self.plan_of(query).await?;
                if *row {
                    return Ok((None, Some(planned.empty_row())));
                }
                let ty = planned.columns.first().copied();
                Ok((ty.filter(|ty| ty.kind != TypeKind::Enum), None))
            }
            TypeName::Fields(spec) => Ok((None, Some(self.fields_of(spec).await?))),
            TypeName::Cursor => Ok((Some(ColType::REF_CURSOR), None)),
            TypeName::Collection(_) => Err(PgError::internal("a collection is no single value")),
        }
    }

    async fn row_of_query(&mut self, query: &str) -> Result<Record> {
        let prepared = self.prepare(query, &[], Counted::UnlessValues).await?;
        Ok(Planned::new(prepared).empty_row())
    }

    /// A record that the code describes, as it begins.
    fn fields_of<'a>(&'a mut self, spec: &'a RecordSpec) -> LocalBoxFuture<'a, Result<Record>> {
        env::boxed!(async move {
            let (mut names, mut types, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for field in &spec.fields {
                let (ty, _) = self.resolve(&field.ty).await?;
                let ty = ty.unwrap_or(ColType::new(TypeKind::Text));
                values.push(match &field.default {
                    Some(default) => {
                        let (value, _) = self.eval(default).await?;
                        self.converted(&value, ty)?
                    }
                    None => Value::Null,
                });
                names.push(field.name.clone());
                types.push(ty);
            }
            Ok(Record { names: names.into(), types: types.into(), values, fixed: true })
        })
    }

    /// A number of the field has no zeros at its end, and is written without them.
    fn as_the_field_keeps(&self, value: Value, to: Option<ColType>) -> Value {
        let (Value::Numeric(number, scale), Dialect::Field) = (&value, self.dialect) else {
            return value;
        };
        match to {
            Some(to) if to.kind.is_text() => Value::Text(number_text(*number, *scale).into()),
            _ => {
                let (number, scale) = trim_zeros(*number, *scale);
                Value::Numeric(number, scale)
            }
        }
    }

    /// Gives a variable, or a field of one, a value.
    pub(super) fn store(&mut self, target: &Use, value: Value, from: ColType) -> Result<()> {
        if let Some(Access::At { keys, field }) = target.access.as_deref() {
            return self.store_element(target.slot, keys, field.as_deref(), value, from);
        }
        let to = match &target.field {
            Some(field) => {
                let place = &self.places[target.slot];
                let at = field_at(place, field)?;
                place.record.as_ref().map(|record| record.types[at])
            }
            None => self.places[target.slot].ty,
        };
        let value = self.as_the_field_keeps(value, to);
        let value = match to {
            Some(to) if to == from && to.modifier == -1 => value,
            Some(to) => self.converted(&value, to)?,
            None if value.is_null() => value,
            // Its type is one that only SQL knows.
            None => self.converted(&value, ColType::new(TypeKind::Text))?,
        };
        if to == Some(ColType::REF_CURSOR) && target.field.is_none() {
            return self.store_cursor(target.slot, value);
        }
        let place = &mut self.places[target.slot];
        if place.constant {
            return Err(is_constant(place));
        }
        if place.not_null && value.is_null() {
            return Err(null_not_allowed(&place.name));
        }
        if let (Some(of), Value::Int4(value)) = (place.ranged, &value)
            && !(of.least..=of.most).contains(value)
        {
            let text = format!("{value} is out of range for variable \"{}\"", place.name);
            return Err(PgError::new("22003", text));
        }
        match &target.field {
            Some(field) => {
                let at = field_at(place, field)?;
                if let Some(record) = &mut place.record {
                    record.values[at] = value;
                }
            }
            None if place.record.is_some() => {
                return Err(PgError::new("42804", "a record cannot be assigned a single value"));
            }
            None => place.value = value,
        }
        Ok(())
    }

    /// A row of the field's language has as many columns as there is to give values to.
    pub(super) fn check_targets(&self, targets: &[Use], columns: usize) -> Result<()> {
        let taken = match targets {
            [only] => self.columns_taken(only)?,
            all => Some(all.len()),
        };
        match taken.filter(|taken| *taken != columns) {
            None => Ok(()),
            Some(taken) => {
                let text = format!("the statement gives {columns} columns, and INTO takes {taken}");
                Err(PgError::new("42804", text))
            }
        }
    }

    /// How many columns a variable takes by itself; `None`: as many as there are.
    fn columns_taken(&self, target: &Use) -> Result<Option<usize>> {
        Ok(match (target.access.as_deref(), &self.places[target.slot].record) {
            (Some(Access::Element { indexes, field: None }), _) => {
                (!self.element_is_record(target.slot, indexes.len())?).then_some(1)
            }
            (None, Some(record)) if target.field.is_none() => {
                record.fixed.then_some(record.names.len())
            }
            _ => Some(1),
        })
    }

    /// Gives a row to variables, or to a record.
    pub(super) fn take_row(
        &mut self,
        targets: &[Use],
        row: Vec<Value>,
        names: &Arc<[String]>,
        types: &Arc<[ColType]>,
    ) -> Result<()> {
        if let [Use { slot, access: Some(access), .. }] = targets
            && let Access::At { keys, field: None } = &**access
            && self.element_is_record(*slot, keys.len())?
        {
            return self.store_row(*slot, keys, row);
        }
        if let [Use { slot, field: None, access: None }] = targets
            && let Some(record) = &self.places[*slot].record
        {
            let new = match record.fixed {
                false => {
                    let (names, types) = (names.clone(), types.clone());
                    Record { names, types, values: row, fixed: false }
                }
                true => {
                    if self.places[*slot].constant {
                        return Err(is_constant(&self.places[*slot]));
                    }
                    let mut new = record.clone();
                    let mut values = row.into_iter();
                    for (at, ty) in record.types.iter().enumerate() {
                        let value = values.next().unwrap_or(Value::Null);
                        new.values[at] = self.converted(&value, *ty)?;
                    }
                    new
                }
            };
            self.places[*slot].record = Some(new);
            return Ok(());
        }
        let mut row = row.into_iter().zip(types.iter().copied());
        for target in targets {
            let (value, from) = row.next().unwrap_or((Value::Null, ColType::new(TypeKind::Text)));
            self.store(target, value, from)?;
        }
        Ok(())
    }

    /// Nothing was found for INTO.
    pub(super) fn take_nothing(
        &mut self,
        into: &Into,
        names: &Arc<[String]>,
        types: &Arc<[ColType]>,
    ) -> Result<()> {
        for target in &into.targets {
            if target.access.is_some() {
                continue;
            }
            let place = &mut self.places[target.slot];
            match (&target.field, &mut place.record) {
                (None, Some(record)) if record.fixed => record.values.fill(Value::Null),
                (None, Some(record)) => {
                    (record.names, record.types) = (names.clone(), types.clone());
                    record.values = vec![Value::Null; names.len()];
                }
                _ => self.store(target, Value::Null, ColType::new(TypeKind::Text))?,
            }
        }
        Ok(())
    }
}

pub(super) fn null_not_allowed(name: &str) -> PgError {
    let text = format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL");
    PgError::new("22004", text)
}

pub(super) fn not_assigned(place: &Place) -> PgError {
    let text = format!("record \"{}\" is not assigned yet", place.name);
    PgError::new("55000", text)
        .with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
}

pub(super) fn field_at(place: &Place, field: &str) -> Result<usize> {
    let record = place.record.as_ref();
    if record.is_none_or(|record| record.names.is_empty()) {
        return Err(not_assigned(place));
    }
    let at = record.and_then(|record| record.names.iter().position(|name| name == field));
    at.ok_or_else(|| {
        let text = format!("record \"{}\" has no field \"{field}\"", place.name);
        PgError::new("42703", text)
    })
}
