//! Errors as a PostgreSQL client sees them, and the one table that gives kernel errors their
//! SQLSTATE.
//!
//! What it promises: every error that leaves this crate has a SQLSTATE a driver can branch on.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use observe::Interrupt;
use std::fmt;

pub type Result<T> = std::result::Result<T, PgError>;

const OBJECT_GONE: &str = "The definition changed under the statement; run it again.";

/// How bad an error or notice is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Error,
    Fatal,
    Warning,
    Notice,
    Info,
}

impl Severity {
    /// The word in the message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
            Severity::Info => "INFO",
        }
    }
}

/// An error or notice in PostgreSQL's shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgError {
    pub severity: Severity,
    pub code: &'static str,
    pub message: String,
    pub detail: Option<Box<str>>,
    pub hint: Option<Box<str>>,
    /// Character position in the statement, from 1.
    pub position: Option<u32>,
    /// What it is about, for programs that branch on it.
    pub about: Option<Box<About>>,
}

/// The objects that an error is about, as the protocol's fields name them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct About {
    pub schema: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    /// The violated constraint.
    pub constraint: Option<String>,
    /// Where in procedural code it happened.
    pub context: Option<String>,
}

impl PgError {
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> PgError {
        PgError {
            severity: Severity::Error,
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            about: None,
        }
    }

    #[must_use]
    pub fn notice(severity: Severity, message: impl Into<String>) -> PgError {
        let message = message.into();
        let code = notice_code(severity, &message);
        PgError { severity, ..PgError::new(code, message) }
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> PgError {
        self.detail = Some(detail.into().into_boxed_str());
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> PgError {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    #[must_use]
    pub fn with_constraint(mut self, name: &str) -> PgError {
        self.about.get_or_insert_default().constraint = Some(name.to_owned());
        self
    }

    #[must_use]
    pub fn with_table(mut self, schema: &str, table: &str) -> PgError {
        let about = self.about.get_or_insert_default();
        (about.schema, about.table) = (Some(schema.to_owned()), Some(table.to_owned()));
        self
    }

    #[must_use]
    pub fn with_column(mut self, name: &str) -> PgError {
        self.about.get_or_insert_default().column = Some(name.to_owned());
        self
    }

    /// The violated constraint.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        self.about.as_ref()?.constraint.as_deref()
    }

    /// Whether a definition changed under the statement, which may simply be planned anew.
    #[must_use]
    pub fn is_object_gone(&self) -> bool {
        self.code == "40001" && self.hint.as_deref() == Some(OBJECT_GONE)
    }

    /// 0A000: a feature that does not exist here.
    #[must_use]
    pub fn unsupported(what: impl fmt::Display) -> PgError {
        PgError::new("0A000", format!("{what} is not supported"))
    }

    /// XX000: a bug of ours.
    #[must_use]
    pub fn internal(what: impl fmt::Display) -> PgError {
        PgError::new("XX000", format!("internal error: {what}"))
    }

    #[must_use]
    pub fn undefined_table(name: impl fmt::Display) -> PgError {
        PgError::new("42P01", format!("relation \"{name}\" does not exist"))
    }

    #[must_use]
    pub fn undefined_column(name: impl fmt::Display) -> PgError {
        PgError::new("42703", format!("column \"{name}\" does not exist"))
    }

    #[must_use]
    pub fn syntax(message: impl Into<String>) -> PgError {
        PgError::new("42601", message)
    }

    #[must_use]
    pub fn invalid_text(type_name: &str, text: &str) -> PgError {
        let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
        PgError::new("22P02", message)
    }

    #[must_use]
    pub fn out_of_range(type_name: &str) -> PgError {
        PgError::new("22003", format!("{type_name} out of range"))
    }

    #[must_use]
    pub fn division_by_zero() -> PgError {
        PgError::new("22012", "division by zero")
    }
}

/// The SQLSTATE that PostgreSQL gives a notice or warning of these words.
fn notice_code(severity: Severity, message: &str) -> &'static str {
    if severity == Severity::Warning {
        return match message {
            "there is no transaction in progress" => "25P01",
            "there is already a transaction in progress" => "25001",
            _ if message.ends_with("can only be used in transaction blocks") => "25P01",
            _ => "01000",
        };
    }
    if !message.ends_with("already exists, skipping") {
        return "00000";
    }
    match message.split(' ').next() {
        Some("column") => "42701",
        Some("relation") => "42P07",
        Some("schema") => "42P06",
        _ => "42710",
    }
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.severity.name(), self.message, self.code)
    }
}

impl std::error::Error for PgError {}

impl From<Interrupt> for PgError {
    fn from(interrupt: Interrupt) -> PgError {
        match interrupt {
            Interrupt::Cancelled => {
                PgError::new("57014", "canceling statement due to user request")
            }
            Interrupt::TimedOut => {
                PgError::new("57014", "canceling statement due to statement timeout")
            }
            Interrupt::Terminated => PgError {
                severity: Severity::Fatal,
                ..PgError::new("57P01", "terminating connection due to administrator command")
            },
        }
    }
}

/// The table of SQLSTATEs. What names a row's key or constraint is completed by whoever knows the
/// table.
impl From<kernel::Error> for PgError {
    fn from(error: kernel::Error) -> PgError {
        use kernel::Error as E;
        let text = error.to_string();
        match error {
            E::Interrupt(interrupt) => interrupt.into(),
            E::UniqueViolation { index, .. } => PgError::new(
                "23505",
                format!("duplicate key value violates unique constraint \"{index}\""),
            )
            .with_constraint(&index),
            E::NullValue { table, column } => PgError::new(
                "23502",
                format!("column \"{column}\" of relation \"{table}\" contains null values"),
            ),
            E::RowLocked => PgError::new("55P03", "could not obtain lock on row"),
            E::TableLocked { table } => {
                let message = format!("could not obtain lock on relation \"{table}\"");
                PgError::new("55P03", message)
            }
            E::LockTimeout => PgError::new("55P03", "canceling statement due to lock timeout"),
            E::Deadlock => PgError::new("40P01", "deadlock detected"),
            E::Serialization(_) => {
                PgError::new("40001", "could not serialize access due to concurrent update")
                    .with_detail(text)
                    .with_hint("The transaction might succeed if retried.")
            }
            E::SnapshotTooOld(_) => PgError::new("72000", text)
                .with_hint("Undo is kept for undo_retention seconds; long queries need more."),
            E::RowTooLong { .. } | E::KeyTooLong { .. } => PgError::new("54000", text),
            E::UndefinedObject(_) => PgError::new("42704", text),
            E::DuplicateObject(_) => PgError::new("42710", text),
            E::DependentObjects(_) => PgError::new("2BP01", text),
            E::SequenceExhausted(name) => PgError::new(
                "2200H",
                format!("nextval: reached maximum or minimum value of sequence \"{name}\""),
            ),
            E::Raised { sqlstate, .. } => PgError::new(sqlstate, text),
            E::Invalid(_) => PgError::new("22023", text),
            E::DiskFull { .. } => PgError::new("53100", text)
                .with_hint("Add space with \"skein add lun\"; the instance goes on."),
            E::Corrupt { .. } | E::LogDamaged { .. } => PgError::new("XX001", text),
            E::Disk(_) => PgError::new("58030", text),
            E::ObjectGone => PgError::new("40001", text).with_hint(OBJECT_GONE),
            E::Closing => PgError::new("57P01", text),
            _ => PgError::new("XX000", text),
        }
    }
}

impl From<ArrowError> for PgError {
    fn from(error: ArrowError) -> PgError {
        match error {
            ArrowError::DivideByZero => PgError::division_by_zero(),
            ArrowError::ArithmeticOverflow(text) => PgError::new("22003", text),
            ArrowError::CastError(text) if text.contains("Overflowing") => {
                PgError::new("22003", "value overflows numeric format")
            }
            ArrowError::CastError(text) => {
                text_not_of_type(&text).unwrap_or_else(|| PgError::new("22P02", text))
            }
            ArrowError::ParseError(text) => PgError::new("22007", text),
            ArrowError::ExternalError(inner) => match inner.downcast::<PgError>() {
                Ok(ours) => *ours,
                Err(inner) => match inner.downcast::<DataFusionError>() {
                    Ok(inner) => (*inner).into(),
                    Err(inner) => PgError::internal(inner),
                },
            },
            ArrowError::IoError(text, e) => {
                of_io(&e).unwrap_or_else(|| PgError::new("58030", text))
            }
            other if is_too_much_text(&other) => too_much_text(),
            other => PgError::new("22000", other.to_string()),
        }
    }
}

/// What arrow says of a text that is none of a type.
fn text_not_of_type(text: &str) -> Option<PgError> {
    let (value, ty) = text.strip_prefix("Cannot cast string '")?.rsplit_once("' to value of ")?;
    let ty = match ty.strip_suffix(" type")? {
        "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        _ => return None,
    };
    Some(PgError::invalid_text(ty, value))
}

pub(crate) fn is_too_much_text(e: &ArrowError) -> bool {
    matches!(e, ArrowError::OffsetOverflowError(_)) || e.to_string().contains("offset overflow")
}

/// A column of a batch has 31 bits for the place of a text in it.
pub(crate) fn too_much_text() -> PgError {
    out_of_memory("Texts of rows that are worked on together hold more than 2 GiB.")
}

/// Our own error, on its way through what only knows the system's.
fn of_io(e: &std::io::Error) -> Option<PgError> {
    e.get_ref()?.downcast_ref::<PgError>().cloned()
}

impl From<DataFusionError> for PgError {
    fn from(error: DataFusionError) -> PgError {
        match error {
            DataFusionError::ArrowError(inner, _) => (*inner).into(),
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
                (*inner).into()
            }
            DataFusionError::Shared(inner) => shared(&inner),
            DataFusionError::External(inner) => match inner.downcast::<PgError>() {
                Ok(ours) => *ours,
                Err(inner) => PgError::internal(inner),
            },
            DataFusionError::SQL(inner, _) => PgError::syntax(inner.to_string()),
            DataFusionError::NotImplemented(text) => PgError::new("0A000", text),
            DataFusionError::ResourcesExhausted(text) => out_of_memory(&text),
            DataFusionError::SchemaError(inner, _) => schema_error(&inner.to_string()),
            DataFusionError::Plan(text) => plan_error(&text),
            DataFusionError::Execution(text) => execution_error(text),
            DataFusionError::Collection(mut all) if !all.is_empty() => all.swap_remove(0).into(),
            other => PgError::internal(other.strip_backtrace()),
        }
    }
}

/// An error several readers share cannot be taken apart; what it holds is looked at instead.
fn shared(error: &DataFusionError) -> PgError {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<PgError>() {
            Some(ours) => ours.clone(),
            None => PgError::internal(inner),
        },
        DataFusionError::Shared(inner) => shared(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => shared(inner),
        DataFusionError::NotImplemented(text) => PgError::new("0A000", text.clone()),
        DataFusionError::Execution(text) => execution_error(text.clone()),
        DataFusionError::ResourcesExhausted(text) => out_of_memory(text),
        DataFusionError::ArrowError(inner, _) => match &**inner {
            ArrowError::IoError(text, e) => {
                of_io(e).unwrap_or_else(|| PgError::new("58030", text.clone()))
            }
            other if is_too_much_text(other) => too_much_text(),
            other => PgError::internal(other),
        },
        other => PgError::internal(other.strip_backtrace()),
    }
}

pub(crate) fn out_of_memory(text: &str) -> PgError {
    let text = text.strip_prefix(crate::memory::JOIN_REFUSED).unwrap_or(text);
    let detail = text.strip_prefix("out of memory: ").unwrap_or(text);
    PgError::new("53200", "out of memory").with_detail(detail).with_hint(
        "Work areas of all statements share pga_aggregate_target; v$pgastat shows how it is used.",
    )
}

fn schema_error(text: &str) -> PgError {
    if let Some((_, rest)) = text.split_once("duplicate qualified field name ")
        && let Some((table, _)) = rest.split_once('.')
    {
        let table = table.rsplit('.').next().unwrap_or(table).trim_matches('"');
        let text = format!("table name \"{table}\" specified more than once");
        return PgError::new("42712", text);
    }
    if text.contains("No field named") {
        let rest = text.split("No field named ").nth(1).unwrap_or("?");
        let end = rest.find(['\n', ' ']).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.').replace('"', "");
        no_column(name.trim_start_matches("$outer."), text)
    } else if let Some((_, name)) = text.split_once("unqualified field ") {
        let name = name.trim_start_matches("name ").replace('"', "");
        PgError::new("42702", format!("column reference \"{name}\" is ambiguous"))
    } else if text.contains("Ambiguous") {
        PgError::new("42702", text)
    } else {
        PgError::new("42601", text)
    }
}

/// A column that is not there, by its name as it was written: qualified with something that is not
/// in FROM, if none of the columns there are (which `text` lists) is of it.
fn no_column(name: &str, text: &str) -> PgError {
    let Some((table, _)) = name.rsplit_once('.') else { return PgError::undefined_column(name) };
    let short = table.rsplit('.').next().unwrap_or(table);
    let valid = text.split_once("Valid fields are ").map_or("", |(_, rest)| rest).replace('"', "");
    let of_it = |field: &str| {
        let field = field.trim().trim_end_matches('.');
        field.rsplit_once('.').is_some_and(|(of, _)| of.rsplit('.').next() == Some(short))
    };
    match valid.split(',').any(of_it) {
        true => PgError::new("42703", format!("column {name} does not exist")),
        false => PgError::new("42P01", format!("missing FROM-clause entry for table \"{short}\"")),
    }
}

/// What the library says of a plan in words of its own, and PostgreSQL's code and words for it.
const PLAN_ERRORS: &[(&str, &str, &str)] = &[
    (
        "SELECT DISTINCT ON expressions must match",
        "42P10",
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
    ),
    (
        "For SELECT DISTINCT, ORDER BY expressions",
        "42P10",
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
    ),
    ("LIMIT must be >=", "2201W", "LIMIT must not be negative"),
    ("OFFSET must be >=", "2201X", "OFFSET must not be negative"),
    (
        "Aggregate function calls cannot be nested",
        "42803",
        "aggregate function calls cannot be nested",
    ),
    ("Step cannot be zero", "22023", "step size cannot equal zero"),
    (
        "UNION queries have different number of columns",
        "42601",
        "each UNION query must have the same number of columns",
    ),
    (
        "INTERSECT queries have different number of columns",
        "42601",
        "each INTERSECT query must have the same number of columns",
    ),
    (
        "EXCEPT queries have different number of columns",
        "42601",
        "each EXCEPT query must have the same number of columns",
    ),
    ("Too many columns! The subquery", "42601", "subquery must return only one column"),
    (
        "Aggregate functions are not allowed in the WHERE",
        "42803",
        "aggregate functions are not allowed in WHERE",
    ),
    (
        "Function 'coalesce' user-defined coercion failed",
        "42804",
        "COALESCE types cannot be matched",
    ),
    (
        "Function 'make_array' user-defined coercion failed",
        "42804",
        "ARRAY types cannot be matched",
    ),
    ("arguments to greatest. No function", "42804", "GREATEST types cannot be matched"),
    ("arguments to least. No function", "42804", "LEAST types cannot be matched"),
    ("filter with non-boolean predicate", "42804", "argument of WHERE must be type boolean"),
    ("Unary operator 'NOT' requires a boolean", "42804", "argument of NOT must be type boolean"),
];

/// A column that is neither grouped by nor in an aggregate.
fn ungrouped(text: &str) -> Option<PgError> {
    let at = text.find(" must appear in the GROUP BY")?;
    let name = text[..at].rsplit_once("column ").or_else(|| text[..at].rsplit_once(": "))?.1;
    let name = name.replace('"', "");
    // Of an expression, the first column in it.
    let column = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_alphabetic());
    let mut words = name.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    let first = words.find(column).map(str::to_owned);
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let name = if plain { name } else { first? };
    let clause = "must appear in the GROUP BY clause or be used in an aggregate function";
    Some(PgError::new("42803", format!("column \"{name}\" {clause}")))
}

/// Numbers and counts of columns that do not fit.
fn of_position(text: &str) -> Option<PgError> {
    let number = |after: &str| {
        let rest = text.split_once(after)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    if let Some(at) = number("Order by column out of bounds, specified: ") {
        let text = format!("ORDER BY position {at} is not in select list");
        return Some(PgError::new("42P10", text));
    }
    if let Some(at) = number("Cannot find column with position ") {
        let text = format!("GROUP BY position {at} is not in select list");
        return Some(PgError::new("42P10", text));
    }
    if let (Some(has), Some(named)) = (number("Source table contains "), number(" but only "))
        && text.contains("column alias")
    {
        let text = format!("table has {has} columns available but {named} columns specified");
        return Some(PgError::new("42P10", text));
    }
    None
}

fn plan_error(text: &str) -> PgError {
    if let Some((_, code, words)) = PLAN_ERRORS.iter().find(|(begin, ..)| text.contains(begin)) {
        return PgError::new(code, *words);
    }
    if let Some(rest) = text.strip_prefix("WITH query name ") {
        return PgError::new("42712", format!("WITH query name {rest}"));
    }
    if let Some(error) = ungrouped(text).or_else(|| of_position(text)) {
        return error;
    }
    if text.contains("Invalid function") {
        let name = text.split('\'').nth(1).unwrap_or("?");
        return PgError::new("42883", format!("function {name} does not exist"));
    }
    if text.contains("not found") && text.contains("table") {
        return PgError::new("42P01", text);
    }
    if text.contains("must appear in the GROUP BY") || text.contains("must be part of GROUP BY") {
        return PgError::new("42803", text);
    }
    if text.contains("coerce") || text.contains("type") {
        return PgError::new("42804", text);
    }
    PgError::new("42601", text)
}

/// The type whose least number has no negative, where the library says so.
fn negated_too_far(text: &str) -> Option<PgError> {
    let (_, number) = text.split_once("Overflow happened on: - ")?;
    let number: i64 = number.split_whitespace().next()?.parse().ok()?;
    let ty = match number {
        n if n == i64::from(i16::MIN) => "smallint",
        n if n == i64::from(i32::MIN) => "integer",
        i64::MIN => "bigint",
        _ => return None,
    };
    Some(PgError::out_of_range(ty))
}

fn execution_error(text: String) -> PgError {
    let lower = text.to_ascii_lowercase();
    if let Some(error) = negated_too_far(&text) {
        error
    } else if lower.contains("overflow") {
        PgError::new("22003", text)
    } else if lower.contains("divide by zero") {
        PgError::division_by_zero()
    } else if lower.contains("aggregate with distinct, order by expressions") {
        let text =
            "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        PgError::new("42P10", text)
    } else if lower.contains("ntile requires") {
        PgError::new("22014", "argument of ntile must be greater than zero")
    } else if lower.contains("more than one row") {
        PgError::new("21000", "more than one row returned by a subquery used as an expression")
    } else {
        PgError::new("22000", text)
    }
}

impl From<PgError> for DataFusionError {
    fn from(error: PgError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}
