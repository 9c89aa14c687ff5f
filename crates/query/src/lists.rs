//! Long lists of constants: `IN` with thousands of values, and `= ANY` of a known array.
//!
//! What it promises: a list of a million values is one constant of the plan, put in order once, and
//! looked through by order; which type the values take is PostgreSQL's choice. What it must never
//! do: give another answer than the list written out.

use crate::arrow_rows::ColumnReader;
use crate::cast::parse_text;
use crate::error::{PgError, Result};
use crate::functions::RowFunction;
use crate::pushdown::scalar_value_of;
use crate::scalar::compare;
use crate::types::col_type_of;
use crate::wire::FormatEnv;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, ListArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, lit,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// `IN` a long list of whole numbers, and of literals without a type: the value, and the list as an
/// array is written. They are in no plan that is run.
pub const IN_INTEGERS: &str = "$in_integers";
pub const IN_LITERALS: &str = "$in_literals";

/// Arrays of fewer elements are looked through one by one.
const SORTED_MIN: i32 = 16;
/// Arrays put in order that are kept while their plans are.
const KEPT_MAX: usize = 16;

/// The functions that stand for long lists until the value's type is known.
pub(crate) fn placeholders() -> Vec<RowFunction> {
    let unresolved = |name: &str| {
        RowFunction::new(name, Some(2), ColType::new(TypeKind::Bool), false, |_| {
            Err(PgError::internal("a list whose type is not known"))
        })
    };
    vec![unresolved(IN_INTEGERS), unresolved(IN_LITERALS)]
}

/// The plan with long lists as arrays.
///
/// # Errors
/// 22P02 and its like for a literal that the value's type does not have.
pub(crate) fn with_arrays(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let any = any_of("$any_eq", env);
    let done = plan.transform_up_with_subqueries(|node| {
        let has = |node: &LogicalPlan| -> DfResult<bool> {
            let mut found = false;
            node.apply_expressions(|expr| {
                found = found || expr.exists(|part| Ok(packed(part).is_some()))?;
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })?;
            Ok(found)
        };
        if !has(&node)? {
            return Ok(Transformed::no(node));
        }
        let mut schema = DFSchema::empty();
        node.inputs().iter().for_each(|input| schema.merge(input.schema()));
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let saved = names.save(&expr);
            let new = expr.transform_up(|part| match packed(&part) {
                Some((value, integers, text)) => {
                    Ok(Transformed::yes(unpacked(value, integers, text, &schema, &any, env)?))
                }
                None => Ok(Transformed::no(part)),
            })?;
            Ok(new.update_data(|new| saved.restore(new)))
        })
    })?;
    Ok(done.data)
}

/// What is looked for, whether among whole numbers, and the list.
fn packed(expr: &Expr) -> Option<(&Expr, bool, &str)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let integers = match call.name() {
        IN_INTEGERS => true,
        IN_LITERALS => false,
        _ => return None,
    };
    match &call.args[..] {
        [value, Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Some((value, integers, text)),
        _ => None,
    }
}

fn unpacked(
    value: &Expr,
    integers: bool,
    text: &str,
    schema: &DFSchema,
    any: &Arc<ScalarUDF>,
    env: FormatEnv,
) -> DfResult<Expr> {
    let items = crate::array::literal_items(text)?;
    let kind = col_type_of(&value.get_type(schema)?).map(|ty| ty.kind);
    let element = match kind {
        Some(TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 | TypeKind::Numeric) if integers => {
            let wide = items.iter().flatten().any(|item| item.parse::<i32>().is_err());
            Some(if wide { TypeKind::Int8 } else { TypeKind::Int4 })
        }
        Some(TypeKind::Text | TypeKind::Varchar) if !integers => Some(TypeKind::Text),
        Some(
            kind @ (TypeKind::Int2
            | TypeKind::Int4
            | TypeKind::Int8
            | TypeKind::Date
            | TypeKind::Timestamp
            | TypeKind::Timestamptz
            | TypeKind::Uuid),
        ) if !integers => Some(kind),
        _ => None,
    };
    let Some(element) = element else { return written_out(value, integers, items) };
    let ty = ColType::new(element);
    let values: Result<Vec<Value>> = items
        .into_iter()
        .map(|item| item.map_or(Ok(Value::Null), |item| parse_text(&item, ty, &env)))
        .collect();
    let array = crate::array::array_value(ty, &values?);
    let array = Expr::Literal(scalar_value_of(&array, ColType::array_of(element)), None);
    let call = ScalarFunction::new_udf(any.clone(), vec![value.clone(), array]);
    Ok(Expr::ScalarFunction(call))
}

/// The list as it was written, for a value of a type with rules of its own.
fn written_out(value: &Expr, integers: bool, items: Vec<Option<String>>) -> DfResult<Expr> {
    let one = |item: Option<String>| match item {
        None => Ok(Expr::Literal(ScalarValue::Null, None)),
        Some(text) if integers => {
            let number = text.parse::<i64>();
            Ok(lit(number.map_err(|_| PgError::invalid_text("bigint", &text))?))
        }
        Some(text) => Ok(lit(text)),
    };
    let list = items.into_iter().map(one).collect::<DfResult<_>>()?;
    Ok(Expr::InList(InList { expr: Box::new(value.clone()), list, negated: false }))
}

/// Elements in their order, and whether a NULL is among them.
struct Sorted {
    all: Vec<Value>,
    has_null: bool,
    class: u8,
}

/// Types whose values compare with each other, always.
fn class_of(datum: &Datum<'_>) -> Option<u8> {
    Some(match datum {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Numeric(..) => 1,
        Datum::Text(_) => 2,
        Datum::Date(_) => 3,
        Datum::Timestamp(_) => 4,
        Datum::Timestamptz(_) => 5,
        Datum::Uuid(_) => 6,
        Datum::Float4(_) | Datum::Float8(_) => 7,
        _ => return None,
    })
}

fn order(a: &Datum<'_>, b: &Datum<'_>) -> Ordering {
    compare(a, b).ok().flatten().unwrap_or(Ordering::Equal)
}

impl Sorted {
    /// `None` if the elements' type has no such order.
    fn new(elements: &ArrayRef) -> Result<Option<Sorted>> {
        let reader =
            ColumnReader::new(elements, &Field::new("", elements.data_type().clone(), true))?;
        let mut all: Vec<Value> = (0..elements.len()).map(|at| reader.get(at).to_value()).collect();
        all.retain(|value| !value.is_null());
        let has_null = all.len() < elements.len();
        let Some(class) = all.first().and_then(|one| class_of(&one.as_datum())) else {
            return Ok(None);
        };
        all.sort_by(|a, b| order(&a.as_datum(), &b.as_datum()));
        Ok(Some(Sorted { all, has_null, class }))
    }

    fn has(&self, datum: &Datum<'_>) -> Option<bool> {
        if datum.is_null() {
            return None;
        }
        let found = self.all.binary_search_by(|one| order(&one.as_datum(), datum)).is_ok();
        if found || !self.has_null { Some(found) } else { None }
    }
}

/// `= ANY` and `<> ALL`: of a constant array by order, of others as [`RowFunction`] has it.
struct AnyOf {
    plain: RowFunction,
    negated: bool,
    kept: Mutex<Vec<(Weak<ListArray>, Arc<Sorted>)>>,
}

/// Such a function under its name.
pub(crate) fn any_of(name: &str, env: FormatEnv) -> Arc<ScalarUDF> {
    let plain = crate::array_functions::quantified_function(name, env);
    let negated = name == "$all_ne";
    Arc::new(ScalarUDF::new_from_impl(AnyOf { plain, negated, kept: Mutex::default() }))
}

impl AnyOf {
    fn sorted(&self, list: &Arc<ListArray>) -> Result<Option<Arc<Sorted>>> {
        if list.len() != 1 || list.is_null(0) || list.value_length(0) < SORTED_MIN {
            return Ok(None);
        }
        let same = |kept: &Weak<ListArray>| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(list));
        if let Some((_, sorted)) = self.kept.lock().iter().find(|(kept, _)| same(kept)) {
            return Ok(Some(sorted.clone()));
        }
        let Some(sorted) = Sorted::new(&list.value(0))?.map(Arc::new) else { return Ok(None) };
        let mut kept = self.kept.lock();
        kept.retain(|(list, _)| list.strong_count() > 0);
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push((Arc::downgrade(list), sorted.clone()));
        Ok(Some(sorted))
    }

    /// The answers by order; `None` if the values are of another type than the elements.
    fn looked_up(&self, args: &ScalarFunctionArgs) -> Result<Option<ArrayRef>> {
        let [ColumnarValue::Array(values), ColumnarValue::Scalar(ScalarValue::List(list))] =
            &args.args[..]
        else {
            return Ok(None);
        };
        let Some(sorted) = self.sorted(list)? else { return Ok(None) };
        let reader = ColumnReader::new(values, &args.arg_fields[0])?;
        let mut found = Vec::with_capacity(values.len());
        for row in 0..values.len() {
            let datum = reader.get(row);
            if !datum.is_null() && class_of(&datum) != Some(sorted.class) {
                return Ok(None);
            }
            found.push(sorted.has(&datum).map(|found| found != self.negated));
        }
        Ok(Some(Arc::new(BooleanArray::from(found))))
    }
}

impl std::fmt::Debug for AnyOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.plain.fmt(f)
    }
}

impl PartialEq for AnyOf {
    fn eq(&self, other: &AnyOf) -> bool {
        self.plain == other.plain
    }
}

impl Eq for AnyOf {}

impl Hash for AnyOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.plain.hash(state);
    }
}

impl ScalarUDFImpl for AnyOf {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.plain.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        self.plain.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        match self.looked_up(&args)? {
            Some(found) => Ok(ColumnarValue::Array(found)),
            None => self.plain.invoke_with_args(args),
        }
    }
}
