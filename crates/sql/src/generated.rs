//! Columns that get their values by themselves: generated ones and identity columns.
//!
//! What it promises: what a statement may say of such a column, in PostgreSQL's words. What it must
//! never do: compute a value; rows are completed where they are checked.

use crate::check::columns_of;
use crate::{PgError, Result, direct};
use kernel::dict::{ColumnDef, Generated, TableDef};

/// What an INSERT says of identity columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overriding {
    Nothing,
    /// Values that are given count.
    System,
    /// Values that are given do not count.
    User,
}

impl Overriding {
    pub(crate) fn of(insert: &datafusion::sql::sqlparser::ast::Insert) -> Overriding {
        // The parser leaves a mark for each: see `parse`.
        match (insert.overwrite, insert.ignore) {
            (true, _) => Overriding::System,
            (_, true) => Overriding::User,
            _ => Overriding::Nothing,
        }
    }
}

/// Whether a value that INSERT gives for a column counts; 428C9 if there may be none.
pub(crate) fn given_counts(column: &ColumnDef, overriding: Overriding) -> Result<bool> {
    let name = &column.name;
    let refused = |detail: String| {
        let text = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
        PgError::new("428C9", text).with_detail(detail)
    };
    match (column.generated, overriding) {
        (None, _) | (Some(Generated::Always | Generated::ByDefault), Overriding::System) => {
            Ok(true)
        }
        (Some(Generated::Stored), _) => {
            Err(refused(format!("Column \"{name}\" is a generated column.")))
        }
        (Some(Generated::Always | Generated::ByDefault), Overriding::User) => Ok(false),
        (Some(Generated::ByDefault), Overriding::Nothing) => Ok(true),
        (Some(Generated::Always), Overriding::Nothing) => {
            let detail =
                format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.");
            Err(refused(detail).with_hint("Use OVERRIDING SYSTEM VALUE to override."))
        }
    }
}

/// 428C9 if UPDATE may only set a column to DEFAULT.
pub(crate) fn check_assigned(column: &ColumnDef) -> Result<()> {
    let name = &column.name;
    let detail = match column.generated {
        None | Some(Generated::ByDefault) => return Ok(()),
        Some(Generated::Stored) => format!("Column \"{name}\" is a generated column."),
        Some(Generated::Always) => {
            format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")
        }
    };
    let text = format!("column \"{name}\" can only be updated to DEFAULT");
    Err(PgError::new("428C9", text).with_detail(detail))
}

/// 42P17 if a generated column is computed from another one.
pub(crate) fn check_expressions(columns: &[ColumnDef]) -> Result<()> {
    let generated: Vec<&ColumnDef> =
        columns.iter().filter(|column| column.generated == Some(Generated::Stored)).collect();
    let names: Vec<&str> = generated.iter().map(|column| column.name.as_str()).collect();
    for text in generated.iter().filter_map(|column| column.default.as_deref()) {
        if let Some(at) = columns_of(&direct::parse_expr(text)?, &names).first() {
            let name = names[*at];
            let text =
                format!("cannot use generated column \"{name}\" in column generation expression");
            let detail = "A generated column cannot reference another generated column.";
            return Err(PgError::new("42P17", text).with_detail(detail));
        }
    }
    Ok(())
}

/// The generated columns that are computed from a column, by their positions.
pub(crate) fn computed_from(table: &TableDef, column: &str) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for (at, def) in table.columns.iter().enumerate() {
        if def.generated != Some(Generated::Stored) {
            continue;
        }
        if let Some(text) = &def.default
            && !columns_of(&direct::parse_expr(text)?, &[column]).is_empty()
        {
            found.push(at);
        }
    }
    Ok(found)
}

/// The kind of an identity column or a generated one, as messages have it.
pub(crate) fn kind_of(column: &ColumnDef) -> Option<&'static str> {
    match column.generated? {
        Generated::Stored => Some("a generated column"),
        Generated::Always | Generated::ByDefault => Some("an identity column"),
    }
}
