//! Relational execution: values and their wire forms, scalar expressions over rows, table providers
//! and
//! scan nodes for DataFusion, and the planner around them.
//!
//! What it promises: a plan is built once and executed with new parameters and a new snapshot each
//! time; what a
//! statement reads comes from the snapshot in its [`ExecState`]. What it must never do: write rows
//! (that is the
//! statement drivers' in `sql`), or let DataFusion see a clause that it would silently ignore.

mod access_rules;
mod aggregates;
pub mod analyze;
mod append;
mod apply;
mod apply_exec;
pub mod arith;
pub mod array;
mod array_functions;
mod arrow_rows;
mod bounds;
pub mod brief;
mod calculation;
pub mod cast;
mod common_types;
mod correlated;
mod cost;
pub mod datetime;
mod distinct_lists;
pub mod enum_functions;
pub mod error;
mod estimate;
pub mod expand;
pub mod explain;
mod expr_planner;
mod extremes;
mod facts;
mod filter_order;
mod fixed;
mod floats;
mod frame_places;
mod frame_rows;
mod frames;
pub mod functions;
mod further_out;
mod gather;
mod given;
mod group_copies;
mod held_filters;
pub mod implied;
mod index_join;
mod interruptible;
pub mod interval;
mod interval_aggregates;
mod join_keys;
mod join_order;
pub mod json;
mod json_aggregates;
mod json_functions;
pub mod keep;
mod kept_order;
mod kept_rows;
pub mod key_exprs;
mod known;
mod lateral_filters;
mod limits;
pub mod lists;
mod literals;
mod looked_for;
pub mod memory;
mod not_in;
mod object_names;
mod ordered_sets;
mod ordering;
mod outer_aggregates;
mod outer_join;
mod peek;
mod pieces;
mod plan_words;
pub mod planner;
mod provider;
mod pushdown;
mod real_sum;
mod recursive;
pub mod row_calls;
pub mod rows;
pub mod scalar;
mod scan;
mod selectivity;
mod set_all;
mod set_columns;
mod set_types;
mod shared;
mod sides;
pub mod single;
pub mod sqltype;
pub mod state;
mod statistics;
pub mod store;
pub mod subscripts;
mod sure_rows;
pub mod temp_files;
mod temporal;
#[cfg(test)]
mod testing;
mod text_lists;
mod ties;
mod type_names;
mod type_rules;
pub mod types;
mod unbound;
mod unordered;
mod values;
mod windows;
pub mod wire;
mod zone;

pub use array_functions::LISTED;
pub use arrow_rows::{ColumnReader, RowBatchBuilder, single_column};
pub use calculation::Calculation;
pub use error::{PgError, Result, Severity};
pub use estimate::TableSize;
pub use fixed::{FixedTable, ViewName, ViewRows};
pub use frame_places::NTH_FROM_LAST;
pub use frames::FRAME;
pub use functions::{
    FIELD_SUBSTR, FIELD_TO_CHAR, FIELD_TO_NUMBER, FIELD_TO_TIMESTAMP, FROM_HEX, PART, SHORT,
    TO_DATETIME, TO_HEX, TRIMMED,
};
pub use given::GivenRows;
pub use join_keys::JoinKeys;
pub use kept_rows::{KeptRow, KeptRows};
pub use planner::{Planner, Relation, TableSet};
pub use provider::{AccessHint, ROW_COLUMN, ROWID_COLUMN, TARGET_CATALOG, TableScanSource};
pub use scalar::Scalar;
pub use shared::SharedRows;
pub use state::{ExecState, Override};
pub use ties::WITH_TIES;
pub use types::{PgColumn, PgType};
pub use values::UNTYPED;
