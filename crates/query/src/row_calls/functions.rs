//! The functions that rows call, as plans have them: their names, and what they give.
//!
//! What it promises: a plan that still has one where no row calls it is refused. What it must never
//! do: call anything; that is the node's.

use crate::error::{PgError, Result};
use crate::types::{PgType, arrow_type, col_type_of, field_with_meta};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use kernel::row::{ColType, TypeKind};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a function that rows call is named in a plan: this, and its name.
pub(super) const PREFIX: &str = "$row_calls_";

/// The functions that rows can call, by the names that users know, and what they give.
pub const FUNCTIONS: &[(&str, TypeKind)] = &[
    ("nextval", TypeKind::Int8),
    ("setval", TypeKind::Int8),
    ("pg_sleep", TypeKind::Text),
    ("pg_cancel_backend", TypeKind::Bool),
    ("pg_terminate_backend", TypeKind::Bool),
    ("pg_notify", TypeKind::Text),
    ("clock_timestamp", TypeKind::Timestamptz),
    ("pg_advisory_lock", TypeKind::Text),
    ("pg_advisory_lock_shared", TypeKind::Text),
    ("pg_advisory_xact_lock", TypeKind::Text),
    ("pg_advisory_xact_lock_shared", TypeKind::Text),
    ("pg_try_advisory_lock", TypeKind::Bool),
    ("pg_try_advisory_lock_shared", TypeKind::Bool),
    ("pg_try_advisory_xact_lock", TypeKind::Bool),
    ("pg_try_advisory_xact_lock_shared", TypeKind::Bool),
    ("pg_advisory_unlock", TypeKind::Bool),
    ("pg_advisory_unlock_shared", TypeKind::Bool),
    ("pg_advisory_unlock_all", TypeKind::Text),
    (CREATE_SNAPSHOT, TypeKind::Int8),
    ("timestamp_to_scn", TypeKind::Int8),
    ("scn_to_timestamp", TypeKind::Timestamptz),
];

/// What `dbms_workload_repository.create_snapshot` is called inside.
pub const CREATE_SNAPSHOT: &str = "skein_create_snapshot";

/// The name in a plan of a function that each row calls.
#[must_use]
pub fn called(function: &str) -> String {
    format!("{PREFIX}{function}")
}

/// What the name of a stored function begins with behind [`PREFIX`].
pub(super) const ROUTINE: &str = "routine ";

/// The name in a plan of a stored function that rows call.
#[must_use]
pub fn routine_name(function: &str) -> String {
    format!("{PREFIX}{ROUTINE}{function}")
}

/// The number of the stored function that a row calls, if it is one.
#[must_use]
pub fn routine_of(function: &str) -> Option<u32> {
    function.strip_prefix(ROUTINE)?.parse().ok()
}

/// Which of several stored functions arguments of these types mean, by its number, and what it
/// gives.
pub type Choose = dyn Fn(&[Option<ColType>]) -> Result<(u32, ColType)> + Send + Sync;

/// A stored function that rows call; `name` as in [`routine_name`].
#[must_use]
pub fn routine_function(name: &str, choose: Arc<Choose>) -> Arc<ScalarUDF> {
    let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
    let signature = Signature::one_of(any, Volatility::Volatile);
    let function = RoutineFunction { name: routine_name(name), choose, signature };
    Arc::new(ScalarUDF::new_from_impl(function))
}

pub(super) struct RoutineFunction {
    name: String,
    choose: Arc<Choose>,
    signature: Signature,
}

impl RoutineFunction {
    pub(super) fn chosen(&self, types: &[DataType]) -> Result<(u32, ColType)> {
        let known = |ty: &DataType| match ty {
            DataType::Null => None,
            ty => col_type_of(ty),
        };
        (self.choose)(&types.iter().map(known).collect::<Vec<_>>())
    }
}

impl fmt::Debug for RoutineFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutineFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for RoutineFunction {
    fn eq(&self, other: &RoutineFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for RoutineFunction {}

impl Hash for RoutineFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for RoutineFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(self.chosen(types)?.1))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let (_, ty) = self.chosen(&types)?;
        Ok(Arc::new(field_with_meta(&self.name, arrow_type(ty), PgType::of(ty))))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(PgError::unsupported("a stored function in this place").into())
    }
}

/// A function that rows call, as plans have it before its calls are columns.
#[derive(Debug)]
struct RowFunction {
    name: String,
    result: ColType,
    signature: Signature,
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &RowFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

pub(crate) fn row_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    FUNCTIONS.iter().map(|(name, result)| {
        let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        let signature = Signature::one_of(any, Volatility::Volatile);
        let function = RowFunction { name: called(name), result: ColType::new(*result), signature };
        Arc::new(ScalarUDF::new_from_impl(function))
    })
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(self.result))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let name = self.name.trim_start_matches(PREFIX);
        let field = field_with_meta(name, arrow_type(self.result), PgType::of(self.result));
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(PgError::unsupported("a function with an effect in this place").into())
    }
}
