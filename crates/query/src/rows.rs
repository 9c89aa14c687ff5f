//! Rows as values: `row(a, b)`, and what the name of a relation means where a value stands.
//!
//! What it promises: a row goes through a plan as a structure of its columns, so that it is
//! grouped, compared and aggregated as one value; functions on JSON write it as an object,
//! everything else as PostgreSQL writes a record. What it must never do: come out as an Arrow
//! structure.

use crate::array::push_array;
use crate::arrow_rows::ColumnReader;
use crate::error::{PgError, Result};
use crate::functions::{RowFunction, format_type};
use crate::json::push_string;
use crate::json_functions::json_of;
use crate::types::{oid, pg_type_of_field};
use crate::wire::{FormatEnv, to_text};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, LargeBinaryArray, ListArray, StringArray, StructArray,
};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use kernel::row::{ColType, Datum, TypeKind, Value, encode_array};
use std::sync::Arc;

/// The function that makes a row: of what is NULL where there is no row, then of names and values.
pub const ROW: &str = "$row";

/// What follows this in the name of an output column only tells it from another one.
const MARK: char = '\u{1}';

/// How a row is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Json,
    Text,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MakeRow {
    signature: Signature,
}

/// See [`ROW`].
#[must_use]
pub(crate) fn row_function() -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(MakeRow { signature }))
}

fn malformed() -> PgError {
    PgError::internal("a row of what are no names and values")
}

impl ScalarUDFImpl for MakeRow {
    fn name(&self) -> &'static str {
        ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Err(malformed().into())
    }

    // Without the arguments' metadata: what a plan says of a row must not depend on them.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let values = args.arg_fields.iter().skip(2).step_by(2);
        let names = args.scalar_arguments.iter().skip(1).step_by(2);
        let field = |(name, value): (&Option<&ScalarValue>, &FieldRef)| match name {
            Some(ScalarValue::Utf8(Some(name))) => {
                let name = name.split(MARK).next().unwrap_or_default();
                Ok(Field::new(name, value.data_type().clone(), true))
            }
            _ => Err(malformed()),
        };
        let fields = names.zip(values).map(field).collect::<Result<Fields>>()?;
        Ok(Arc::new(Field::new(ROW, DataType::Struct(fields), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let DataType::Struct(fields) = args.return_field.data_type() else {
            return Err(malformed().into());
        };
        let rows = args.number_rows;
        let there = args.args.first().ok_or_else(malformed)?.to_array(rows)?;
        let columns = args.args.iter().skip(2).step_by(2).map(|value| value.to_array(rows));
        let columns = columns.collect::<DfResult<Vec<ArrayRef>>>()?;
        let missing = there.logical_nulls();
        let made = StructArray::try_new_with_length(fields.clone(), columns, missing, rows)?;
        Ok(ColumnarValue::Array(Arc::new(made)))
    }
}

/// The function that takes a field out of a row.
pub const FIELD: &str = "$field";

#[derive(Debug, PartialEq, Eq, Hash)]
struct TakeField {
    signature: Signature,
}

/// See [`FIELD`].
#[must_use]
pub(crate) fn field_function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(TakeField {
        signature: Signature::any(2, Volatility::Immutable),
    }))
}

impl ScalarUDFImpl for TakeField {
    fn name(&self) -> &'static str {
        FIELD
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Err(malformed().into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let [row, _] = args.arg_fields else { return Err(malformed().into()) };
        let Some(Some(ScalarValue::Utf8(Some(name)))) = args.scalar_arguments.get(1) else {
            return Err(malformed().into());
        };
        let DataType::Struct(fields) = row.data_type() else {
            let shown = pg_type_of_field(row);
            let shown = format_type(shown.oid.into(), shown.typmod.into());
            let text = format!(
                "column notation .{name} applied to type {shown}, which is not a composite type"
            );
            return Err(PgError::new("42809", text).into());
        };
        let Some((_, field)) = fields.find(name) else {
            let text = format!("could not identify column \"{name}\" in record data type");
            return Err(PgError::new("42703", text).into());
        };
        Ok(Arc::new(Field::new(FIELD, field.data_type().clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = args.args.first().ok_or_else(malformed)?.to_array(args.number_rows)?;
        let Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name)))) = args.args.get(1) else {
            return Err(malformed().into());
        };
        let rows = rows.as_struct_opt().ok_or_else(malformed)?;
        let field = rows.column_by_name(name).ok_or_else(malformed)?;
        let Some(missing) = rows.nulls() else { return Ok(ColumnarValue::Array(field.clone())) };
        // Of a row that is NULL every field is.
        let missing = BooleanArray::new(!missing.inner(), None);
        Ok(ColumnarValue::Array(nullif(field, &missing)?))
    }
}

/// Whether values of a type are rows, or arrays of such.
pub(crate) fn holds_rows(ty: &DataType) -> bool {
    match ty {
        DataType::Struct(_) => true,
        DataType::List(element) => holds_rows(element.data_type()),
        _ => false,
    }
}

/// What clients are told the type of such values is.
pub(crate) fn shown_oid(ty: &DataType) -> u32 {
    if matches!(ty, DataType::Struct(_)) { oid::RECORD } else { oid::RECORD_ARRAY }
}

/// The function that writes rows for clients.
pub(crate) fn text_function(shown: u32, env: FormatEnv) -> Arc<ScalarUDF> {
    let name = format!("$row_text_{shown}");
    let text = ColType::new(TypeKind::Text);
    let function = RowFunction::new(&name, Some(1), text, true, |args| Ok(args[0].to_value()));
    function.taking_rows(Form::Text, env).shown_as(shown).into_udf()
}

/// The array with its rows written in a form, and its field.
///
/// # Errors
/// 0A000 for values without a counterpart.
pub(crate) fn written(
    array: &ArrayRef,
    field: &Field,
    form: Form,
    env: &FormatEnv,
) -> Result<(ArrayRef, Field)> {
    let reader = Reader::new(array, field)?;
    let all = 0..array.len();
    let written: ArrayRef = match form {
        Form::Json => {
            let one = |row| match reader.is_null(row) {
                true => Ok(None),
                false => reader.json(row, env).map(Some),
            };
            let texts = all.map(one).collect::<Result<Vec<Option<String>>>>()?;
            let bytes = texts.iter().map(|text| text.as_ref().map(String::as_bytes));
            Arc::new(bytes.collect::<LargeBinaryArray>())
        }
        Form::Text => Arc::new(all.map(|row| reader.text(row, env)).collect::<StringArray>()),
    };
    let field = Field::new(field.name(), written.data_type().clone(), true);
    Ok((written, field))
}

/// Reads values that may be rows or have rows inside.
enum Reader {
    Plain(ColumnReader),
    Row { array: StructArray, fields: Vec<(String, Reader)> },
    List { array: ListArray, items: Box<Reader> },
}

impl Reader {
    fn new(array: &ArrayRef, field: &Field) -> Result<Reader> {
        Ok(match array.data_type() {
            DataType::Struct(fields) => {
                let array = array.as_struct();
                let all = fields.iter().zip(array.columns());
                let all = all.map(|(f, column)| Ok((f.name().clone(), Reader::new(column, f)?)));
                Reader::Row { array: array.clone(), fields: all.collect::<Result<_>>()? }
            }
            DataType::List(element) if holds_rows(element.data_type()) => {
                let array: &ListArray = array.as_list();
                let items = Box::new(Reader::new(array.values(), element)?);
                Reader::List { array: array.clone(), items }
            }
            _ => Reader::Plain(ColumnReader::new(array, field)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Reader::Plain(reader) => reader.get(row).is_null(),
            Reader::Row { array, .. } => array.is_null(row),
            Reader::List { array, .. } => array.is_null(row),
        }
    }

    fn items(array: &ListArray, row: usize) -> std::ops::Range<usize> {
        let offsets = array.value_offsets();
        let at = |i: usize| usize::try_from(offsets[i]).unwrap_or(0);
        at(row)..at(row + 1)
    }

    fn json(&self, row: usize, env: &FormatEnv) -> Result<String> {
        if self.is_null(row) {
            return Ok("null".to_owned());
        }
        match self {
            Reader::Plain(reader) => json_of(&reader.get(row), env),
            Reader::Row { fields, .. } => {
                let mut out = String::from("{");
                for (i, (name, field)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    push_string(name, &mut out);
                    out.push(':');
                    out.push_str(&field.json(row, env)?);
                }
                out.push('}');
                Ok(out)
            }
            Reader::List { array, items } => {
                let all = Reader::items(array, row).map(|at| items.json(at, env));
                Ok(format!("[{}]", all.collect::<Result<Vec<String>>>()?.join(",")))
            }
        }
    }

    fn text(&self, row: usize, env: &FormatEnv) -> Option<String> {
        if self.is_null(row) {
            return None;
        }
        Some(match self {
            Reader::Plain(reader) => to_text(&reader.get(row), env),
            Reader::Row { fields, .. } => {
                let all = fields.iter().map(|(_, field)| match field.text(row, env) {
                    Some(text) => field_text(text),
                    None => String::new(),
                });
                format!("({})", all.collect::<Vec<_>>().join(","))
            }
            Reader::List { array, items } => {
                let texts: Vec<Value> = Reader::items(array, row)
                    .map(|at| items.text(at, env).map_or(Value::Null, |t| Value::Text(t.into())))
                    .collect();
                let texts: Vec<Datum<'_>> = texts.iter().map(Value::as_datum).collect();
                let mut out = Vec::new();
                push_array(&encode_array(TypeKind::Text, &texts), env, &mut out);
                String::from_utf8(out).unwrap_or_default()
            }
        })
    }
}

/// A field of a record: in quotes where it would be taken for something else.
fn field_text(text: String) -> String {
    let special = |c: char| {
        matches!(c, '"' | '\\' | '(' | ')' | ',')
            || (c.is_ascii() && c.is_whitespace())
            || c == '\x0b'
    };
    if !text.is_empty() && !text.contains(special) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
}
