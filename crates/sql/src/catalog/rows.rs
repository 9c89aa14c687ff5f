//! Rows of a view: columns with their types, values, and the form in which they travel between
//! instances.

use crate::{PgError, Result};
use datafusion::arrow::array::{RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use kernel::row::{ColType, RowView, TypeKind, Value, encode_row};
use query::array::array_value;
use query::types::{PgType, arrow_type, col_type_of_oid, field_with_meta, oid};
use std::sync::Arc;

/// What a column of a view holds, and as what clients see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Text,
    Name,
    /// PostgreSQL's one-byte `"char"`.
    Char,
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float8,
    Timestamptz,
    Interval,
    /// A type that has only a text form here.
    Other(u32),
    /// The number of an object that is shown by its name, as this type.
    Object(u32),
    /// An array or vector of this type.
    List(u32),
    /// An array that is always NULL here (options).
    NoList,
}

/// An array of texts.
pub(crate) const TEXTS: Shape = Shape::List(oid::TEXT_ARRAY);

impl Shape {
    /// The type of its values.
    pub(crate) fn col_type(self) -> ColType {
        if let Shape::List(oid) = self {
            let list = col_type_of_oid(oid).filter(|ty| ty.kind == TypeKind::Array);
            return list.unwrap_or(ColType::array_of(TypeKind::Text));
        }
        ColType::new(match self {
            Shape::Text | Shape::Name | Shape::Char | Shape::Other(_) | Shape::NoList => {
                TypeKind::Text
            }
            Shape::Bool => TypeKind::Bool,
            Shape::Int2 => TypeKind::Int2,
            Shape::Int4 => TypeKind::Int4,
            Shape::Int8 | Shape::Oid | Shape::Object(_) => TypeKind::Int8,
            Shape::List(_) => TypeKind::Array,
            Shape::Float8 => TypeKind::Float8,
            Shape::Timestamptz => TypeKind::Timestamptz,
            Shape::Interval => TypeKind::Interval,
        })
    }

    /// The name of the type that a value of it has in a query: lists are texts here.
    pub(crate) fn plain_type(self) -> &'static str {
        match self {
            Shape::Bool => "boolean",
            Shape::Int2 | Shape::Int4 => "integer",
            Shape::Int8 | Shape::Oid | Shape::Object(_) => "bigint",
            Shape::Float8 => "double precision",
            _ => "text",
        }
    }

    fn shown(self) -> PgType {
        match self {
            Shape::Name => PgType::new(oid::NAME),
            Shape::Char => PgType::new(oid::CHAR),
            Shape::Oid => PgType::new(oid::OID),
            Shape::Other(oid) | Shape::Object(oid) | Shape::List(oid) => PgType::new(oid),
            other => PgType::of(other.col_type()),
        }
    }
}

/// A view's rows.
pub(crate) struct Rows {
    columns: Vec<(String, Shape)>,
    rows: Vec<Vec<Value>>,
}

/// A row whose values are found by the columns' names.
#[derive(Clone, Copy)]
pub(crate) struct NamedRow<'a> {
    columns: &'a [(String, Shape)],
    row: &'a [Value],
}

impl<'a> NamedRow<'a> {
    /// NULL if there is no such column.
    pub(crate) fn get(&self, name: &str) -> Value {
        let at = self.columns.iter().position(|(known, _)| known == name);
        at.map_or(Value::Null, |at| self.row[at].clone())
    }

    /// The text there; empty if it is none.
    pub(crate) fn text(&self, name: &str) -> &'a str {
        let at = self.columns.iter().position(|(known, _)| known == name);
        match at.map(|at| &self.row[at]) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
}

impl Rows {
    pub(crate) fn new(columns: &[(&str, Shape)]) -> Rows {
        let columns = columns.iter().map(|(name, shape)| ((*name).to_owned(), *shape)).collect();
        Rows { columns, rows: Vec::new() }
    }

    /// What a column holds.
    pub(crate) fn shape(&self, column: &str) -> Option<Shape> {
        let found = self.columns.iter().find(|(name, _)| name == column);
        found.map(|(_, shape)| *shape)
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not as many values as there are columns.
    pub(crate) fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "as many values as columns");
        self.rows.push(row);
    }

    /// The rows, to look into by the columns' names.
    pub(crate) fn named(&self) -> impl Iterator<Item = NamedRow<'_>> {
        self.rows.iter().map(|row| NamedRow { columns: &self.columns, row })
    }

    /// Takes the texts of `column` out of the rows whose `of` is not one of those seen; a row
    /// without one is the instance's own and stays.
    pub(crate) fn hide(&mut self, column: &str, of: &str, seen: impl Fn(&str) -> bool) {
        let at = |name: &str| self.columns.iter().position(|(known, _)| known == name);
        let (Some(column), Some(of)) = (at(column), at(of)) else { return };
        for row in &mut self.rows {
            let hidden = matches!(&row[of], Value::Text(user) if !seen(user));
            if hidden && row[column] != Value::Null {
                row[column] = text("<insufficient privilege>");
            }
        }
    }

    /// Shows the names of `column` in another way, if there is that column.
    pub(crate) fn show(&mut self, column: &str, shown: impl Fn(&str) -> String) {
        let at = self.columns.iter().position(|(known, _)| known == column);
        let Some(column) = at else { return };
        for row in &mut self.rows {
            if let Value::Text(name) = &row[column] {
                row[column] = text(shown(name));
            }
        }
    }

    /// Fills in `owner`, `object_name` and `object_type` by the number of the object in `of`; what
    /// `find` does not know stays as it is.
    pub(crate) fn name_objects(&mut self, of: &str, find: impl Fn(i64) -> Option<[Value; 3]>) {
        let at = |name: &str| self.columns.iter().position(|(known, _)| known == name);
        let names = ["owner", "object_name", "object_type"].map(at);
        let ([Some(owner), Some(name), Some(kind)], Some(of)) = (names, at(of)) else { return };
        for row in &mut self.rows {
            let Value::Int8(obj) = row[of] else { continue };
            if let Some(named) = find(obj) {
                [row[owner], row[name], row[kind]] = named;
            }
        }
    }

    /// Puts into `column` of each row what `make` says of the row.
    pub(crate) fn fill(&mut self, column: &str, make: impl Fn(NamedRow<'_>) -> Value) {
        let Some(at) = self.columns.iter().position(|(known, _)| known == column) else { return };
        for row in &mut self.rows {
            row[at] = make(NamedRow { columns: &self.columns, row });
        }
    }

    /// Keeps the rows of which `keep` says so.
    pub(crate) fn retain(&mut self, keep: impl Fn(NamedRow<'_>) -> bool) {
        let columns = &self.columns;
        self.rows.retain(|row| keep(NamedRow { columns, row }));
    }

    /// Keeps the rows whose `column` has this value, without that column.
    pub(crate) fn keep_own(&mut self, column: &str, value: &Value) {
        let Some(at) = self.columns.iter().position(|(known, _)| known == column) else { return };
        self.columns.remove(at);
        self.rows.retain_mut(|row| row.remove(at) == *value);
    }

    fn types(&self) -> Vec<ColType> {
        self.columns.iter().map(|(_, shape)| shape.col_type()).collect()
    }

    pub(crate) fn batch(&self) -> Result<RecordBatch> {
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (i, (name, shape)) in self.columns.iter().enumerate() {
            if *shape == Shape::NoList {
                let item = Field::new("item", DataType::Utf8, true);
                let list = DataType::List(Arc::new(item));
                arrays.push(new_null_array(&list, self.rows.len()));
                fields.push(Field::new(name, list, true));
                continue;
            }
            let ty = shape.col_type();
            let arrow = arrow_type(ty);
            let values: Vec<Value> = self.rows.iter().map(|row| row[i].clone()).collect();
            arrays.push(query::single_column(ty, &arrow, &values)?);
            fields.push(field_with_meta(name, arrow, shape.shown()));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }

    /// The rows as bytes.
    pub(crate) fn encode(&self) -> Vec<Vec<u8>> {
        let types = self.types();
        let one = |row: &Vec<Value>| {
            let values: Vec<_> = row.iter().map(Value::as_datum).collect();
            let mut out = Vec::new();
            encode_row(&types, &values, &mut out);
            out
        };
        self.rows.iter().map(one).collect()
    }

    /// The same rows with the instance's number in front.
    pub(crate) fn with_instance(mut self, instance: u8) -> Rows {
        self.columns.insert(0, ("inst_id".to_owned(), Shape::Int4));
        for row in &mut self.rows {
            row.insert(0, Value::Int4(i32::from(instance)));
        }
        self
    }

    /// Adds a row another instance has sent; `self` has the instance's number in front.
    pub(crate) fn push_encoded(&mut self, instance: u8, bytes: &[u8]) -> Result<()> {
        let types = self.types();
        let view = RowView::checked(&types[1..], bytes)
            .map_err(|e| PgError::internal(format!("a view's row of instance {instance}: {e}")))?;
        let mut row = vec![Value::Int4(i32::from(instance))];
        row.extend(view.iter().map(|datum| datum.to_value()));
        self.rows.push(row);
        Ok(())
    }
}

/// Texts as the value of a column of [`TEXTS`].
pub(crate) fn list(items: &[String]) -> Value {
    texts(items.iter().map(String::as_str))
}

pub(crate) fn text(text: impl Into<Box<str>>) -> Value {
    Value::Text(text.into())
}

pub(crate) fn int(value: impl TryInto<i64>) -> Value {
    Value::Int8(value.try_into().unwrap_or(i64::MAX))
}

pub(crate) fn opt_text(value: Option<&str>) -> Value {
    value.map_or(Value::Null, text)
}

/// An array of `smallint`, or an `int2vector`.
pub(crate) fn int2s(values: impl IntoIterator<Item = i16>) -> Value {
    let all: Vec<Value> = values.into_iter().map(Value::Int2).collect();
    array_value(ColType::new(TypeKind::Int2), &all)
}

/// An array of `oid`, or an `oidvector`.
pub(crate) fn oids(values: impl IntoIterator<Item = i64>) -> Value {
    let all: Vec<Value> = values.into_iter().map(Value::Int8).collect();
    array_value(ColType::new(TypeKind::Int8), &all)
}

/// An array of texts.
pub(crate) fn texts<T: Into<Box<str>>>(values: impl IntoIterator<Item = T>) -> Value {
    let all: Vec<Value> = values.into_iter().map(text).collect();
    array_value(ColType::new(TypeKind::Text), &all)
}
