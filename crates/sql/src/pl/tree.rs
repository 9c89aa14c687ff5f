//! Procedural code as it is run: names are places of variables, statements are texts with
//! parameters.

use super::attributes::Attribute;
use super::collections::Key;
use super::types::{CollectionSpec, Method, RecordSpec};
use std::ops::Range;
use std::sync::Arc;

/// Which language the block is written in; where they differ, both are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// PL/pgSQL.
    Pg,
    /// The field's: a block that stands as a statement.
    Field,
}

/// Place of a variable.
pub(super) type Slot = usize;

/// Places of what every block knows.
pub(super) const FOUND: Slot = 0;
pub(super) const ROW_COUNT: Slot = 1;
pub(super) const STATE: Slot = 2;
pub(super) const MESSAGE: Slot = 3;
pub(super) const NUMBER: Slot = 4;
pub(super) const NOT_FOUND: Slot = 5;
pub(super) const SQL_FOUND: Slot = 6;
pub(super) const SQL_NOT_FOUND: Slot = 7;
/// Always false: a statement's own cursor is closed when it has run.
pub(super) const SQL_IS_OPEN: Slot = 8;
pub(super) const FIXED_SLOTS: usize = 9;

/// A use of a variable.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) slot: Slot,
    /// Of a record.
    pub(super) field: Option<String>,
    /// What is asked of it that must be worked out first.
    pub(super) access: Option<Arc<Access>>,
}

impl Use {
    pub(super) const fn of(slot: Slot) -> Use {
        Use { slot, field: None, access: None }
    }

    pub(super) fn field(slot: Slot, name: &str) -> Use {
        Use { slot, field: Some(name.to_owned()), access: None }
    }

    /// The record that it names as all of its fields.
    pub(super) fn all_fields(self) -> Use {
        Use { field: Some(super::names::ALL_FIELDS.to_owned()), ..self }
    }

    pub(super) fn with(slot: Slot, access: Access) -> Use {
        Use { slot, field: None, access: Some(Arc::new(access)) }
    }
}

/// Two that must be worked out are two.
impl PartialEq for Use {
    fn eq(&self, other: &Use) -> bool {
        self.slot == other.slot
            && self.field == other.field
            && self.access.is_none()
            && other.access.is_none()
    }
}

/// What a value is worked out from before the SQL that it stands in runs.
#[derive(Debug)]
pub(super) enum Access {
    /// An element of a collection, or a field of one that is a record.
    Element {
        indexes: Vec<Sql>,
        field: Option<String>,
    },
    /// The same once its indexes are known.
    At {
        keys: Vec<Key>,
        field: Option<String>,
    },
    /// What a collection, or one inside of it, says of itself.
    Ask {
        indexes: Vec<Sql>,
        method: Method,
        args: Vec<Sql>,
    },
    /// Whether a whole collection is NULL.
    Whole {
        indexes: Vec<Sql>,
    },
    /// A function of the block.
    Call(Call),
    /// Operators that leave out what they need not know.
    Lazy(Lazy),
    /// `sql%bulk_rowcount(i)`.
    BulkRows(Sql),
    /// `sql%bulk_exceptions.count`, and what it says of one of them.
    BulkErrors,
    BulkError {
        at: Sql,
        code: bool,
    },
    /// `sqlerrm(number)`.
    Message(Sql),
    /// What `dbms_utility` tells, and a constant of `dbms_application_info`.
    Measure(Measure),
    /// What `dbms_random` gives.
    Chance(Chance, Vec<Sql>),
    /// What the cursor says of itself that a variable names.
    OfCursor(CursorFact),
}

/// `c%rowcount` and its like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CursorFact {
    RowCount,
    IsOpen,
    Found,
    NotFound,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    /// Hundredths of a second.
    Time,
    Cpu,
    /// Of the error that is being handled.
    ErrorStack,
    ErrorBacktrace,
    /// `set_session_longops_nohint`: a number that no row has.
    NoHint,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chance {
    Value,
    Normal,
    Integer,
    Text,
}

/// Conditions and CASE, of which only what is needed is worked out.
#[derive(Debug)]
pub(super) enum Lazy {
    And(Vec<Sql>),
    Or(Vec<Sql>),
    Case {
        operand: Option<Box<Sql>>,
        /// Where the operand is kept; it is the last parameter of the conditions.
        slot: Slot,
        arms: Vec<(Sql, Sql)>,
        otherwise: Option<Sql>,
    },
}

/// A call of a procedure or function of the block, with what each parameter gets.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) routine: usize,
    pub(super) args: Vec<Passed>,
}

#[derive(Debug)]
pub(super) enum Passed {
    Default,
    Value(Sql),
    /// A record or a collection.
    Whole(Whole),
    /// What takes the result.
    Variable(Use),
}

/// A record or a collection as it is given to another one.
#[derive(Debug)]
pub(super) enum Whole {
    Null,
    Variable(Use),
    /// A constructor; an element may have its key.
    Make {
        spec: Arc<CollectionSpec>,
        elements: Vec<(Option<Sql>, Made)>,
    },
    Call(Call),
}

#[derive(Debug)]
pub(super) enum Made {
    Value(Sql),
    Whole(Whole),
}

/// A procedure or function of a block.
#[derive(Debug)]
pub(super) struct Routine {
    pub(super) name: String,
    pub(super) params: Vec<Param>,
    /// Where a function leaves its result, and its type.
    pub(super) result: Option<(Slot, TypeName)>,
    /// `None`: declared, and not yet written.
    pub(super) block: Option<Block>,
    /// Places of all that is declared in it.
    pub(super) slots: Range<Slot>,
    /// Records that its loops declare.
    pub(super) records: Vec<(Slot, String)>,
}

#[derive(Debug)]
pub(super) struct Param {
    pub(super) slot: Slot,
    pub(super) name: String,
    pub(super) given: bool,
    pub(super) result: bool,
    pub(super) ty: TypeName,
    pub(super) default: Option<Passed>,
}

/// A statement or an expression in SQL: variables are its parameters, in this order.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    /// Which one of the block's it is.
    pub(super) id: usize,
    pub(super) text: String,
    pub(super) uses: Vec<Use>,
    /// Of each use the name that it was written as, if that may be a column's.
    pub(super) names: Vec<Option<Arc<Named>>>,
    /// Of which of the uses the values are dates as the field has them.
    pub(super) dates: Vec<usize>,
}

/// A name that stands for a variable where no column has it.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Named {
    /// As it was written.
    pub(super) text: String,
    pub(super) parts: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) enum TypeName {
    /// A query without rows whose first column has the type; and whether the row has.
    Query(Sql, bool),
    Record,
    /// That of another variable, and whether it is a record.
    Like(Slot, bool),
    /// A record, and a collection, that the code describes.
    Fields(Arc<RecordSpec>),
    Collection(Arc<CollectionSpec>),
    /// A variable that names a cursor.
    Cursor,
}

impl TypeName {
    pub(super) const fn is_record(&self) -> bool {
        match self {
            TypeName::Query(_, row) | TypeName::Like(_, row) => *row,
            TypeName::Record | TypeName::Fields(_) => true,
            TypeName::Collection(_) | TypeName::Cursor => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Variable {
    pub(super) slot: Slot,
    pub(super) name: String,
    pub(super) ty: TypeName,
    pub(super) constant: bool,
    pub(super) not_null: bool,
    pub(super) default: Option<Sql>,
    /// What a record or a collection begins with.
    pub(super) whole: Option<Whole>,
}

/// A cursor that is declared, or a variable that may be one.
#[derive(Clone, Debug)]
pub(super) struct CursorDef {
    pub(super) slot: Slot,
    /// `None`: of a variable.
    pub(super) query: Option<Sql>,
    /// It is one of the session's, and its place holds its name: so are all variables, and what is
    /// declared with its query if the code hands it on.
    pub(super) named: bool,
    pub(super) params: Vec<CursorParam>,
    /// Places of what it says of itself.
    pub(super) count: Slot,
    pub(super) open: Slot,
    pub(super) found: Slot,
    pub(super) not_found: Slot,
}

#[derive(Clone, Debug)]
pub(super) struct CursorParam {
    pub(super) slot: Slot,
    pub(super) name: String,
    pub(super) ty: TypeName,
    pub(super) default: Option<Sql>,
}

/// A value for an argument of a cursor.
#[derive(Clone, Debug)]
pub(super) struct CursorArg {
    pub(super) name: Option<String>,
    pub(super) value: Sql,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) label: Option<String>,
    pub(super) variables: Vec<Variable>,
    pub(super) body: Vec<Statement>,
    pub(super) handlers: Vec<Handler>,
}

#[derive(Debug)]
pub(super) struct Handler {
    pub(super) conditions: Vec<Condition>,
    pub(super) body: Vec<Statement>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Others,
    /// SQLSTATEs that begin like this.
    State(String),
    /// An exception that the block has declared.
    Own(usize),
}

#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: u32,
    /// Where GOTO finds it.
    pub(super) label: Option<String>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) struct Into {
    pub(super) strict: bool,
    pub(super) targets: Vec<Use>,
    /// All rows go into collections.
    pub(super) bulk: bool,
    /// Of FETCH, how many rows at most.
    pub(super) limit: Option<Sql>,
}

impl Into {
    pub(super) const fn row(strict: bool, targets: Vec<Use>) -> Into {
        Into { strict, targets, bulk: false, limit: None }
    }
}

/// What FORALL runs over.
#[derive(Debug)]
pub(super) enum Over {
    Range(Sql, Sql),
    /// The indexes of a collection, between bounds.
    Indices(Use, Option<(Sql, Sql)>),
    /// Its elements, which are indexes.
    Values(Use),
}

#[derive(Debug)]
pub(super) enum Rows {
    Static(Sql),
    Dynamic {
        text: Sql,
        using: Vec<Sql>,
    },
    /// A cursor that is declared, and values for its arguments.
    Cursor(Slot, Vec<CursorArg>),
}

/// What a routine gives.
#[derive(Debug)]
pub(super) enum Returned {
    Value(Sql),
    Record(Slot),
    /// The first row of a statement.
    First(Sql),
}

/// A statement that is put together while the code runs.
#[derive(Debug)]
pub(super) struct Execute {
    pub(super) text: Sql,
    pub(super) into: Option<Into>,
    pub(super) using: Vec<Sql>,
    /// Variables that get what is bound, with their places.
    pub(super) outs: Vec<(usize, Use)>,
    /// The statement's own RETURNING has an INTO.
    pub(super) returns: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    Nothing,
    Block(Block),
    Assign {
        target: Use,
        value: Sql,
    },
    /// An element of an array.
    AssignElement {
        target: Use,
        index: Sql,
        value: Sql,
    },
    /// A record to a record.
    Copy {
        target: Slot,
        from: Slot,
    },
    /// A record or a collection to another, or to an element.
    AssignWhole {
        target: Use,
        from: Whole,
    },
    /// A collection grows or shrinks.
    Alter {
        target: Use,
        method: Method,
        args: Vec<Sql>,
    },
    /// A procedure of the block.
    CallLocal(Call),
    /// What a function of the block leaves as its result.
    ReturnWith(Box<Kind>),
    ForAll {
        slot: Slot,
        over: Over,
        save: bool,
        body: Box<Kind>,
    },
    /// Where values by chance begin.
    Seed(Sql),
    Goto(String),
    Savepoint(String),
    RollbackTo(String),
    If {
        arms: Vec<(Sql, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    Case {
        operand: Option<Sql>,
        /// For each the conditions, or the comparisons with the operand, which is their last
        /// parameter.
        arms: Vec<(Vec<Sql>, Vec<Statement>)>,
        otherwise: Option<Vec<Statement>>,
        /// Where the operand is kept.
        slot: Slot,
    },
    Loop {
        label: Option<String>,
        body: Vec<Statement>,
    },
    While {
        label: Option<String>,
        condition: Sql,
        body: Vec<Statement>,
    },
    Range {
        label: Option<String>,
        slot: Slot,
        reverse: bool,
        from: Sql,
        to: Sql,
        step: Option<Sql>,
        body: Vec<Statement>,
    },
    ForRows {
        label: Option<String>,
        targets: Vec<Use>,
        rows: Rows,
        body: Vec<Statement>,
    },
    ForEach {
        label: Option<String>,
        target: Use,
        array: Sql,
        body: Vec<Statement>,
    },
    Exit {
        label: Option<String>,
        when: Option<Sql>,
        again: bool,
    },
    Return(Option<Returned>),
    /// One more row of a set.
    ReturnNext(Option<Returned>),
    ReturnQuery(Rows),
    Sql {
        sql: Sql,
        into: Option<Into>,
        perform: bool,
        is_query: bool,
    },
    /// A procedure, with the variables that stand as its arguments.
    Call {
        sql: Sql,
        targets: Vec<Option<Use>>,
        /// The same as a query, if what is called may be a function.
        query: Option<Sql>,
        name: Vec<String>,
    },
    Execute(Execute),
    Raise(Raise),
    Assert {
        condition: Sql,
        message: Option<Sql>,
    },
    Commit,
    Rollback,
    Diagnostics {
        stacked: bool,
        items: Vec<(Use, String)>,
    },
    Open {
        cursor: Slot,
        args: Vec<CursorArg>,
    },
    /// A cursor variable, which gets the name of the cursor.
    OpenFor {
        cursor: Slot,
        rows: Rows,
    },
    Fetch {
        cursor: Slot,
        into: Into,
    },
    Close {
        cursor: Slot,
    },
    /// What the session says of itself; `None`: nothing any more.
    Tell(Vec<(Attribute, Option<Sql>)>),
    /// What it says of an operation of its own.
    TellLong(Box<super::long_operation::LongCall>),
    /// A call of `dbms_stats`.
    Gather(super::statistics::Gather),
    /// Switches traces, or is about the repository.
    System(super::system_calls::SystemCall),
    /// Gives variables what it has said.
    Ask(Vec<(Attribute, Use)>),
    /// A line of output.
    Put {
        text: Option<Sql>,
        ends: bool,
    },
    /// Whether lines are put out from now on.
    Output(bool),
    /// A line that was put out comes back; whether there is none.
    TakeLine {
        line: Use,
        status: Use,
    },
    /// An error with a number of the user's.
    Fail {
        number: Sql,
        message: Sql,
        /// Whether what is told of the error at hand stays behind it.
        keeps: Option<Sql>,
    },
}

impl Kind {
    /// Whether it is a statement of SQL that gives variables nothing but what it returns of rows
    /// that it changes.
    pub(super) const fn changes_rows(&self) -> bool {
        match self {
            Kind::ForAll { .. } | Kind::Sql { is_query: false, .. } => true,
            Kind::Execute(execute) => execute.into.is_none() || execute.returns,
            _ => false,
        }
    }

    /// As PostgreSQL names it where an error happened.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Kind::Nothing => "NULL",
            Kind::Block(_) => "statement block",
            Kind::Assign { .. }
            | Kind::Copy { .. }
            | Kind::AssignWhole { .. }
            | Kind::AssignElement { .. } => "assignment",
            Kind::Alter { .. } => "method of a collection",
            Kind::ReturnWith(_) => "RETURN",
            Kind::ForAll { .. } => "FORALL",
            Kind::Goto(_) => "GOTO",
            Kind::Savepoint(_) => "SAVEPOINT",
            Kind::ForEach { .. } => "FOREACH over array",
            Kind::If { .. } => "IF",
            Kind::Case { .. } => "CASE",
            Kind::Loop { .. } => "LOOP",
            Kind::While { .. } => "WHILE",
            Kind::Range { .. } => "FOR with integer loop variable",
            Kind::ForRows { rows: Rows::Dynamic { .. }, .. } => "FOR over EXECUTE statement",
            Kind::ForRows { rows: Rows::Cursor(..), .. } => "FOR over cursor",
            Kind::ForRows { .. } => "FOR over SELECT rows",
            Kind::Exit { again: false, .. } => "EXIT",
            Kind::Exit { .. } => "CONTINUE",
            Kind::Return(_) => "RETURN",
            Kind::ReturnNext(_) => "RETURN NEXT",
            Kind::ReturnQuery(_) => "RETURN QUERY",
            Kind::Call { .. }
            | Kind::CallLocal(_)
            | Kind::Seed(_)
            | Kind::Tell(_)
            | Kind::TellLong(_)
            | Kind::Ask(_)
            | Kind::Output(_)
            | Kind::TakeLine { .. }
            | Kind::Gather(_)
            | Kind::System(_) => "CALL",
            Kind::Sql { perform: true, .. } => "PERFORM",
            Kind::Sql { .. } => "SQL statement",
            Kind::Execute(_) => "EXECUTE",
            Kind::Raise(_) | Kind::Fail { .. } => "RAISE",
            Kind::Assert { .. } => "ASSERT",
            Kind::Commit => "COMMIT",
            Kind::Rollback | Kind::RollbackTo(_) => "ROLLBACK",
            Kind::Diagnostics { stacked: true, .. } => "GET STACKED DIAGNOSTICS",
            Kind::Diagnostics { .. } => "GET DIAGNOSTICS",
            Kind::Open { .. } | Kind::OpenFor { .. } => "OPEN",
            Kind::Fetch { .. } => "FETCH",
            Kind::Close { .. } => "CLOSE",
            Kind::Put { .. } => "output",
        }
    }
}

#[derive(Debug)]
pub(super) enum Raised {
    /// The error at hand, once more.
    Again,
    Format(String, Vec<Sql>),
    /// A SQLSTATE, and what is said.
    State(String, String),
    Own(usize, String),
    /// Only what USING says.
    Options,
}

#[derive(Debug)]
pub(super) struct Raise {
    pub(super) level: Level,
    pub(super) what: Raised,
    /// Names of options, with their values.
    pub(super) options: Vec<(String, Sql)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

/// All that is run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) dialect: Dialect,
    pub(super) block: Block,
    pub(super) slots: usize,
    /// Statements and expressions in SQL.
    pub(super) statements: usize,
    pub(super) cursors: Vec<CursorDef>,
    /// Numbers that the field's code gives to its exceptions.
    pub(super) numbers: Vec<(usize, i32)>,
    /// Records that its loops declare, with their names.
    pub(super) records: Vec<(Slot, String)>,
    /// Procedures and functions that its blocks declare.
    pub(super) routines: Arc<[Routine]>,
    /// Places of what a call gives, and of what it gets, in their order.
    pub(super) given: Vec<Slot>,
    pub(super) results: Vec<Slot>,
    /// Variables of a block whose cursors stay open behind it.
    pub(super) kept: Vec<Slot>,
    /// How it is called where an error happened.
    pub(super) shown: String,
    /// Statements of SQL, which are counted and have no lines.
    pub(super) is_sql: bool,
    /// Length of its text, with the `;` behind it.
    pub(super) len: usize,
}
