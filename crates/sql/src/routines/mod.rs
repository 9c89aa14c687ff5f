//! Stored functions and procedures: made, found by their names, called.
//!
//! What it promises: a call means the routine that PostgreSQL would choose for it; a plan goes when
//! any routine changes. What it must never do: call what CASE, AND, OR or COALESCE leaves out.

mod choose;
pub(crate) mod ddl;
mod names;
mod plan;
mod settle;

pub(crate) use choose::{RoutineRef, choose, columns_of, given};
pub(crate) use plan::{CallPlan, is_untyped};
pub(crate) use settle::called_by;
