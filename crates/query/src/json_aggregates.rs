//! `json_agg`, `json_object_agg` and their like for jsonb.
//!
//! What it promises: values come in the order that ORDER BY in the call asks for, else in that of
//! the rows. The aggregates sort for themselves, so that several with different orders stand in one
//! query.

use crate::arrow_rows::ColumnReader;
use crate::error::{PgError, Result};
use crate::json::Json;
use crate::json_functions::{json_of, push_member};
use crate::rows::{Form, holds_rows, written};
use crate::types::arrow_type;
use crate::wire::FormatEnv;
use datafusion::arrow::array::{Array, ArrayRef, BinaryArray, ListArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use kernel::row::{ColType, TypeKind};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const JSON: ColType = ColType::new(TypeKind::Json);
const JSONB: ColType = ColType::new(TypeKind::Jsonb);

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonAggregate {
    name: &'static str,
    object: bool,
    binary: bool,
    signature: Signature,
    zone: ZoneOf,
}

/// The time zone in which instants are written; one plan has only one.
#[derive(Clone, Copy, Debug)]
struct ZoneOf(FormatEnv);

impl PartialEq for ZoneOf {
    fn eq(&self, _: &ZoneOf) -> bool {
        true
    }
}

impl Eq for ZoneOf {}

impl Hash for ZoneOf {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The four aggregates, for a session in the time zone of `env`.
pub fn aggregates(env: FormatEnv) -> Vec<Arc<AggregateUDF>> {
    [
        ("json_agg", false, false),
        ("jsonb_agg", false, true),
        ("json_object_agg", true, false),
        ("jsonb_object_agg", true, true),
    ]
    .into_iter()
    .map(|(name, object, binary)| {
        let zone = ZoneOf(env);
        let signature = Signature::any(if object { 2 } else { 1 }, Volatility::Immutable);
        let aggregate = JsonAggregate { name, object, binary, signature, zone };
        Arc::new(AggregateUDF::new_from_impl(aggregate))
    })
    .collect()
}

impl AggregateUDFImpl for JsonAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(if self.binary { JSONB } else { JSON }))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if args.is_distinct && (self.object || args.order_bys.is_empty()) {
            let what = format!("DISTINCT in {}", self.name);
            return Err(PgError::unsupported(what).into());
        }
        let order = args
            .order_bys
            .iter()
            .map(|one| {
                let ty = one.expr.data_type(args.schema)?;
                Ok(SortField::new_with_options(ty, one.options))
            })
            .collect::<DfResult<Vec<SortField>>>()?;
        let order = if order.is_empty() { None } else { Some(RowConverter::new(order)?) };
        // Elements that have parts stand in lines of their own.
        let first = args.expr_fields.first().map(|field| field.data_type());
        let structured =
            matches!(first, Some(DataType::Struct(_) | DataType::List(_) | DataType::LargeList(_)));
        Ok(Box::new(Collected {
            object: self.object,
            between: if structured && !self.object { ", \n " } else { ", " },
            binary: self.binary,
            distinct: args.is_distinct,
            fields: args.expr_fields.to_vec(),
            order,
            rows: Vec::new(),
            bytes: 0,
            env: self.zone.0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let list = |part: &str, ty: DataType| {
            let name = format!("{}[{part}]", args.name);
            Arc::new(Field::new(name, DataType::new_list(ty, true), true))
        };
        Ok(vec![list("keys", DataType::Binary), list("texts", DataType::Utf8)])
    }

    // It sorts itself: the library is not to sort its input, but is to hand over what to sort by.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _sorted: bool,
    ) -> DfResult<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// Members or elements so far, as text, with what they are sorted by.
#[derive(Debug)]
struct Collected {
    object: bool,
    between: &'static str,
    binary: bool,
    distinct: bool,
    fields: Vec<FieldRef>,
    order: Option<RowConverter>,
    rows: Vec<(Box<[u8]>, Box<str>)>,
    bytes: usize,
    env: FormatEnv,
}

impl Collected {
    fn push(&mut self, key: &[u8], text: &str) {
        self.bytes += key.len() + text.len() + size_of::<(Box<[u8]>, Box<str>)>();
        self.rows.push((key.into(), text.into()));
    }
}

impl Accumulator for Collected {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let reader = |(array, field): (&ArrayRef, &FieldRef)| {
            if !holds_rows(array.data_type()) {
                return ColumnReader::new(array, field);
            }
            let (array, field) = written(array, field, Form::Json, &self.env)?;
            ColumnReader::new(&array, &field)
        };
        let readers = values.iter().zip(&self.fields).map(reader);
        let readers = readers.collect::<Result<Vec<ColumnReader>>>()?;
        let keys = match &mut self.order {
            Some(order) => Some(order.convert_columns(&values[readers.len()..])?),
            None => None,
        };
        let mut text = String::new();
        for row in 0..values[0].len() {
            text.clear();
            if self.object {
                let (key, value) = (readers[0].get(row), readers[1].get(row));
                if key.is_null() {
                    return Err(PgError::new("22004", "field name must not be null").into());
                }
                push_member(&key, &value, &self.env, &mut text)?;
            } else {
                text.push_str(&json_of(&readers[0].get(row), &self.env)?);
            }
            match &keys {
                Some(keys) => self.push(keys.row(row).as_ref(), &text),
                None => self.push(&[], &text),
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if self.rows.is_empty() {
            return ScalarValue::try_from(&arrow_type(if self.binary { JSONB } else { JSON }));
        }
        if self.order.is_some() {
            self.rows.sort_by(|a, b| a.0.cmp(&b.0));
        }
        if self.distinct {
            self.rows.dedup_by(|a, b| a.0 == b.0);
        }
        let texts: Vec<&str> = self.rows.iter().map(|row| &*row.1).collect();
        let body = texts.join(self.between);
        let text = if self.object { format!("{{ {body} }}") } else { format!("[{body}]") };
        Ok(if self.binary {
            ScalarValue::BinaryView(Some(Json::parse(&text)?.to_jsonb()?.into_bytes()))
        } else {
            ScalarValue::LargeBinary(Some(text.into_bytes()))
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let rows = std::mem::take(&mut self.rows);
        let keys: Vec<ScalarValue> =
            rows.iter().map(|row| ScalarValue::Binary(Some(row.0.to_vec()))).collect();
        let texts: Vec<ScalarValue> =
            rows.iter().map(|row| ScalarValue::Utf8(Some(row.1.to_string()))).collect();
        Ok(vec![
            ScalarValue::List(ScalarValue::new_list_nullable(&keys, &DataType::Binary)),
            ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let bad = || PgError::internal("the state of a json aggregate");
        let list = |i: usize| states[i].as_any().downcast_ref::<ListArray>().ok_or_else(bad);
        let (keys, texts) = (list(0)?, list(1)?);
        for row in 0..keys.len() {
            let (keys, texts) = (keys.value(row), texts.value(row));
            let keys = keys.as_any().downcast_ref::<BinaryArray>().ok_or_else(bad)?;
            let texts = texts.as_any().downcast_ref::<StringArray>().ok_or_else(bad)?;
            for at in 0..keys.len() {
                self.push(keys.value(at), texts.value(at));
            }
        }
        Ok(())
    }
}
