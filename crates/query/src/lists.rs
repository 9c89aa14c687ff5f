//! Long lists of constants: `IN` with thousands of values, and `= ANY` of a known array.
//!
//! What it promises: a list of a million values is one constant of the plan, put in order once, and
//! looked through by order; which type the values take is PostgreSQL's choice. What it must never
//! do: give another answer than the list written out.

use crate::arrow_rows::ColumnReader;
use crate::cast::parse_text;
use crate::error::{PgError, Result};
use crate::expr_planner::{adopt, apart, no_operator};
use crate::functions::RowFunction;
use crate::pushdown::scalar_value_of;
use crate::scalar::compare;
use crate::sides::list_beside_char;
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
use datafusion::sql::sqlparser::ast::BinaryOperator;
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
                found = found || expr.exists(|part| Ok(is_list(part)))?;
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
                None => match with_array(&part, &schema, env)? {
                    Some(call) => Ok(Transformed::yes(call)),
                    None => Ok(Transformed::no(part)),
                },
            })?;
            Ok(new.update_data(|new| saved.restore(new)))
        })
    })?;
    Ok(done.data)
}

/// Whether it is looked at here.
fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::ScalarFunction(call) => packed(expr).is_some() || is_quantified(call.name()),
        _ => false,
    }
}

fn is_quantified(name: &str) -> bool {
    name.starts_with("$any_") || name.starts_with("$all_")
}

/// ANY or ALL of an array that was written as a text, with the array that it is beside its value.
/// An error for a list, or an array, whose elements are not compared with the value.
fn with_array(expr: &Expr, schema: &DFSchema, env: FormatEnv) -> DfResult<Option<Expr>> {
    match expr {
        Expr::InList(list) => {
            let Ok(value) = list.expr.get_type(schema) else { return Ok(None) };
            for ty in list.list.iter().filter_map(|item| item.get_type(schema).ok()) {
                comparable(&list.expr, &value, &ty, &BinaryOperator::Eq)?;
            }
            match list_beside_char(list, schema, env) {
                Some(padded) => Ok(Some(padded)),
                None => mixed(list, &value, schema, env),
            }
        }
        Expr::ScalarFunction(call) if is_quantified(call.name()) => {
            let [value, array] = &call.args[..] else { return Ok(None) };
            let Ok(ty) = value.get_type(schema) else { return Ok(None) };
            let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = array else {
                let item = array.get_type(schema).ok();
                let op = match call.name() {
                    "$any_eq" => Some(BinaryOperator::Eq),
                    "$all_ne" => Some(BinaryOperator::NotEq),
                    _ => None,
                };
                if let (Some(DataType::List(item)), Some(op)) = (item, op) {
                    comparable(value, &ty, item.data_type(), &op)?;
                }
                return Ok(None);
            };
            let Some(kind) = col_type_of(&ty).and_then(|ty| element_of(ty.kind)) else {
                return Ok(None);
            };
            if matches!(value, Expr::Literal(..)) {
                return Ok(None);
            }
            let array = array_of(crate::array::literal_items(text)?, kind, env)?;
            let call = ScalarFunction::new_udf(call.func.clone(), vec![value.clone(), array]);
            Ok(Some(Expr::ScalarFunction(call)))
        }
        _ => Ok(None),
    }
}

/// The list with its untyped literals as values of the type of what is looked for, where others
/// stand beside them; `None`: there are none of either, or it is a text.
fn mixed(
    list: &InList,
    value: &DataType,
    schema: &DFSchema,
    env: FormatEnv,
) -> DfResult<Option<Expr>> {
    let untyped = |item: &Expr| matches!(item, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
    let literals = list.list.iter().filter(|item| untyped(item)).count();
    let text = col_type_of(value).is_none_or(|ty| ty.kind.is_text());
    if text || literals == 0 || literals == list.list.len() {
        return Ok(None);
    }
    let typed = |item: &Expr| {
        if untyped(item) {
            return adopt(item.clone(), None, Some(value), &env);
        }
        match item.get_type(schema) {
            Ok(ty) if apart(value, &ty) => Err(no_operator(&BinaryOperator::Eq, value, &ty).into()),
            _ => Ok(item.clone()),
        }
    };
    let items = list.list.iter().map(typed).collect::<DfResult<_>>()?;
    let (expr, negated) = (list.expr.clone(), list.negated);
    Ok(Some(Expr::InList(InList { expr, list: items, negated })))
}

/// An error where the value is a text, but no literal, and what it is compared with is none.
fn comparable(expr: &Expr, value: &DataType, item: &DataType, op: &BinaryOperator) -> Result<()> {
    let plain = !matches!(expr, Expr::Literal(..) | Expr::Placeholder(_));
    let text = col_type_of(value).is_some_and(|ty| ty.kind.is_text());
    let number = col_type_of(item).is_some_and(|ty| {
        matches!(
            ty.kind,
            TypeKind::Int2
                | TypeKind::Int4
                | TypeKind::Int8
                | TypeKind::Numeric
                | TypeKind::Float4
                | TypeKind::Float8
                | TypeKind::Bool
        )
    });
    if plain && text && number {
        return Err(no_operator(op, value, item));
    }
    Ok(())
}

/// The type of elements beside a value of one; `None` for a type with rules of its own.
fn element_of(kind: TypeKind) -> Option<TypeKind> {
    match kind {
        TypeKind::Text | TypeKind::Varchar => Some(TypeKind::Text),
        TypeKind::Int2
        | TypeKind::Int4
        | TypeKind::Int8
        | TypeKind::Date
        | TypeKind::Timestamp
        | TypeKind::Timestamptz
        | TypeKind::Uuid => Some(kind),
        _ => None,
    }
}

fn array_of(items: Vec<Option<String>>, element: TypeKind, env: FormatEnv) -> Result<Expr> {
    let ty = ColType::new(element);
    let values: Result<Vec<Value>> = items
        .into_iter()
        .map(|item| item.map_or(Ok(Value::Null), |item| parse_text(&item, ty, &env)))
        .collect();
    let array = crate::array::array_value(ty, &values?);
    Ok(Expr::Literal(scalar_value_of(&array, ColType::array_of(element)), None))
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
    let ty = value.get_type(schema)?;
    let kind = col_type_of(&ty).map(|ty| ty.kind);
    if integers {
        comparable(value, &ty, &DataType::Int32, &BinaryOperator::Eq)?;
    }
    let element = match kind {
        Some(TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 | TypeKind::Numeric) if integers => {
            let wide = items.iter().flatten().any(|item| item.parse::<i32>().is_err());
            Some(if wide { TypeKind::Int8 } else { TypeKind::Int4 })
        }
        Some(kind) if !integers => element_of(kind),
        _ => None,
    };
    let Some(element) = element else {
        let written = written_out(value, integers, items)?;
        let padded = match &written {
            Expr::InList(list) => list_beside_char(list, schema, env),
            _ => None,
        };
        return Ok(padded.unwrap_or(written));
    };
    let array = array_of(items, element, env)?;
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
