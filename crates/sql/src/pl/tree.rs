//! Procedural code as it is run: names are places of variables, statements are texts with
//! parameters.

use super::attributes::Attribute;

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
pub(super) const FIXED_SLOTS: usize = 8;

/// A use of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Use {
    pub(super) slot: Slot,
    /// Of a record.
    pub(super) field: Option<String>,
}

/// A statement or an expression in SQL: variables are its parameters, in this order.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    /// Which one of the block's it is.
    pub(super) id: usize,
    pub(super) text: String,
    pub(super) uses: Vec<Use>,
}

#[derive(Clone, Debug)]
pub(super) enum TypeName {
    /// As SQL writes it.
    Sql(String),
    /// A query without rows whose first column, or whole row, has the type.
    Column(String),
    Row(String),
    Record,
    /// That of another variable.
    Like(Slot),
}

#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) slot: Slot,
    pub(super) name: String,
    pub(super) ty: TypeName,
    pub(super) constant: bool,
    pub(super) not_null: bool,
    pub(super) default: Option<Sql>,
}

/// A cursor that is declared, or a variable that may be one.
#[derive(Clone, Debug)]
pub(super) struct CursorDef {
    pub(super) slot: Slot,
    /// `None`: of a variable.
    pub(super) query: Option<Sql>,
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
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) struct Into {
    pub(super) strict: bool,
    pub(super) targets: Vec<Use>,
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
    Execute {
        text: Sql,
        into: Option<Into>,
        using: Vec<Sql>,
    },
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
    /// A cursor variable.
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
    /// Gives variables what it has said.
    Ask(Vec<(Attribute, Use)>),
    /// A line of output.
    Put {
        text: Option<Sql>,
        ends: bool,
    },
    /// An error with a number of the user's.
    Fail {
        number: Sql,
        message: Sql,
    },
}

impl Kind {
    /// As PostgreSQL names it where an error happened.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Kind::Nothing => "NULL",
            Kind::Block(_) => "statement block",
            Kind::Assign { .. } | Kind::Copy { .. } | Kind::AssignElement { .. } => "assignment",
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
            Kind::Call { .. } | Kind::Tell(_) | Kind::Ask(_) => "CALL",
            Kind::Sql { perform: true, .. } => "PERFORM",
            Kind::Sql { .. } => "SQL statement",
            Kind::Execute { .. } => "EXECUTE",
            Kind::Raise(_) | Kind::Fail { .. } => "RAISE",
            Kind::Assert { .. } => "ASSERT",
            Kind::Commit => "COMMIT",
            Kind::Rollback => "ROLLBACK",
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
    /// Places of what a call gives, and of what it gets, in their order.
    pub(super) given: Vec<Slot>,
    pub(super) results: Vec<Slot>,
    /// How it is called where an error happened.
    pub(super) shown: String,
    /// Statements of SQL, which are counted and have no lines.
    pub(super) is_sql: bool,
    /// Length of its text, with the `;` behind it.
    pub(super) len: usize,
}
