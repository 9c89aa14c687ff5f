//! The registry of views: name, meaning, columns, and what makes the rows.
//!
//! What it promises: rows, `v$fixed_table`, `v$fixed_view_columns` and the manual page are of one
//! text. What it must never do: name a column that no code fills.

use super::super::rows::{Rows, Shape};
use kernel::gcs::BlockedBy;
use kernel::instance::Instance;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One column of a view.
pub(super) struct Column {
    pub name: &'static str,
    pub shape: Shape,
    /// What it holds, with its unit.
    pub doc: &'static str,
}

impl Column {
    /// The type as the manual has it.
    pub fn type_name(&self) -> &'static str {
        match self.shape {
            Shape::Timestamptz => "timestamp with time zone",
            Shape::Interval => "interval",
            other => other.plain_type(),
        }
    }
}

/// How the rows of a view come about.
#[derive(Clone, Copy)]
pub(super) enum Make {
    /// From the state of this instance; so there is a `gv$` view of it too.
    Local(fn(&Arc<Instance>, &mut Rows)),
    /// The same, with who stands in whose way.
    Blocked(fn(&Arc<Instance>, &Blockers, &mut Rows)),
    /// From what all instances have alike: there is no `gv$` view of it.
    Once(fn(&Arc<Instance>, &mut Rows)),
    /// By a session, which reads the dictionary for it.
    Session(SessionView),
}

/// Who stands in a session's way, by its sid.
pub(super) type Blockers = BTreeMap<u32, BlockedBy>;

/// Views that a session makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SessionView {
    DbaSequences,
    Segments,
    Extents,
    DataFiles,
    FreeSpace,
    Waiters,
    Locks,
    Services,
    WaitChains,
    Blockers,
    Objects,
    Tables,
    TabColumns,
    TabCols,
    TabStatistics,
    TabColStatistics,
    Indexes,
    IndColumns,
    IndExpressions,
    IndStatistics,
    Constraints,
    ConsColumns,
    Views,
    Dependencies,
    Procedures,
    Users,
    AllUsers,
    UserUsers,
    Roles,
    SysPrivs,
    TabPrivs,
    ColPrivs,
    UserTabPrivs,
    UserRolePrivs,
    UserSysPrivs,
    SessionPrivs,
    SessionRoles,
    Source,
    /// There is nothing of the kind here.
    Nothing,
    Tablespaces,
    MyStatistics,
    Dictionary,
    TabComments,
    ColComments,
    RolePrivs,
    Tab,
    Cat,
    PlanTable,
}

/// One view.
pub(super) struct View {
    pub name: &'static str,
    /// What its rows are.
    pub doc: &'static str,
    /// Its own, and between them those that several views have.
    groups: &'static [&'static [Column]],
    pub make: Make,
}

impl View {
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        groups: &'static [&'static [Column]],
        make: Make,
    ) -> View {
        View { name, doc, groups, make }
    }

    /// All its columns, in their order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> {
        self.groups.iter().copied().flatten()
    }

    /// The column that names the schema of a row's object, if the view shows objects.
    pub fn owner(&self) -> Option<&'static str> {
        let first = self.columns().next()?.name;
        first.ends_with("owner").then_some(first)
    }

    /// Without rows.
    pub fn empty(&self) -> Rows {
        let columns: Vec<_> = self.columns().map(|c| (c.name, c.shape)).collect();
        Rows::new(&columns)
    }

    /// Whether each instance has rows of its own, and a `gv$` view shows those of all; of what only
    /// the session that asks has, its own instance.
    pub fn is_local(&self) -> bool {
        match self.make {
            Make::Local(_) | Make::Blocked(_) => true,
            Make::Session(made) => made == SessionView::MyStatistics,
            Make::Once(_) => false,
        }
    }
}

/// A column's name, in quotes if the field writes `#` in it.
macro_rules! column_name {
    ($name:literal) => {
        $name
    };
    ($name:ident) => {
        stringify!($name)
    };
}
pub(super) use column_name;

/// Columns: `name: Type, "what it holds"; …`.
macro_rules! columns {
    ($($column:tt: $shape:expr, $means:literal;)*) => {
        &[$($crate::catalog::views::registry::Column {
            name: $crate::catalog::views::registry::column_name!($column),
            shape: $shape,
            doc: $means,
        },)*]
    };
}
pub(super) use columns;

/// The views of one file: `"name", maker, "what its rows are" { columns }`, and behind that, as often
/// as there are, `+ COLUMNS_OF_SEVERAL { columns }`.
macro_rules! views {
    ($(
        $name:literal, $make:expr, $doc:literal { $($own:tt)* }
        $(+ $shared:ident { $($more:tt)* })*
    )*) => {
        pub(super) const VIEWS: &[$crate::catalog::views::registry::View] = &[
            $($crate::catalog::views::registry::View::new(
                $name,
                $doc,
                &[
                    $crate::catalog::views::registry::columns!($($own)*),
                    $($shared, $crate::catalog::views::registry::columns!($($more)*),)*
                ],
                $make,
            ),)*
        ];
    };
}
pub(super) use views;
