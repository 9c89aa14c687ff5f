//! Plans as the field prints them: `explain plan for`, `dbms_xplan.display` and `display_cursor`.
//!
//! What it promises: the steps are those of `v$sql_plan` and of traces, in the same words. What it
//! must never do: show the text of a statement to one who may not see it, or a figure that nobody
//! has estimated or measured.

use crate::bind::ident_name;
use crate::parse::Statement;
use crate::session::{Fetched, Session};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Statement as Ast, UtilityOption, Value as AstValue, visit_expressions_mut,
};
use kernel::row::{ColType, TypeKind, Value};
use observe::{CursorRow, PlanFigures, PlanRow, StepFigures};
use std::ops::ControlFlow;

/// Plans that a session keeps for `dbms_xplan.display`; the oldest go.
const KEPT_MAX: usize = 50;

/// The option of EXPLAIN that `explain plan` is written as.
pub(crate) const OPTION: &str = "$plan";

/// What `explain plan` has as its statement_id; `None`: it is a plain EXPLAIN.
#[allow(clippy::option_option)] // it may have none
pub(crate) fn explained_as(options: &[UtilityOption]) -> Option<Option<String>> {
    let [option] = options else { return None };
    if ident_name(&option.name) != OPTION {
        return None;
    }
    Some(match &option.arg {
        Some(Expr::Value(id)) => match &id.value {
            AstValue::SingleQuotedString(id) => Some(id.clone()),
            _ => None,
        },
        _ => None,
    })
}

/// Gives parameters that are named, `:x`, numbers behind those that have one. What the statement
/// calls each of them.
pub(crate) fn number_binds(statement: &mut Ast, numbered: usize) -> Vec<String> {
    let mut names: Vec<String> = (1..=numbered).map(|number| format!("${number}")).collect();
    let _: ControlFlow<()> = visit_expressions_mut(statement, |expr: &mut Expr| {
        if let Expr::Value(value) = expr
            && let AstValue::Placeholder(text) = &mut value.value
            && text.starts_with(':')
        {
            let name = text.to_lowercase();
            let known = names.iter().position(|known| *known == name);
            let at = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            *text = format!("${}", at + 1);
        }
        ControlFlow::Continue(())
    });
    names
}

/// A condition with what the statement calls its parameters, in place of their numbers.
fn with_names(text: &str, names: &[String]) -> String {
    let (mut out, mut rest, mut quoted) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find(['\'', '$']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        quoted ^= from.starts_with('\'');
        let digits = from[1..].bytes().take_while(u8::is_ascii_digit).count();
        let number = from[1..=digits].parse::<usize>().ok();
        // A name may have the sign in it.
        let alone = !out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let number = number.filter(|_| from.starts_with('$') && alone && !quoted);
        let name = number.and_then(|number| names.get(number.checked_sub(1)?));
        let end = if name.is_some() { 1 + digits } else { 1 };
        out.push_str(name.map_or(&from[..1], String::as_str));
        rest = &from[end..];
    }
    out.push_str(rest);
    out
}

/// A plan that has been explained.
pub(crate) struct KeptPlan {
    /// As `set statement_id` has it.
    id: Option<String>,
    hash: u32,
    /// When it was explained, in µs of the wall clock.
    at_us: i64,
    rows: Vec<PlanRow>,
}

impl KeptPlan {
    /// Its statement_id, when it was explained, and its steps.
    pub(crate) fn shown(&self) -> (Option<&str>, i64, &[PlanRow]) {
        (self.id.as_deref(), self.at_us, &self.rows)
    }
}

/// What a function of the package shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    /// `display`: a plan that the session has explained.
    Explained,
    /// `display_cursor`: the plan of a statement that has run.
    Cursor,
}

impl Shown {
    /// The function of this name, and its arguments in their order.
    pub(crate) fn named(function: &str) -> Option<(Shown, &'static [&'static str])> {
        Some(match function {
            "display" => {
                (Shown::Explained, &["table_name", "statement_id", "format", "filter_preds"])
            }
            "display_cursor" => (Shown::Cursor, &["sql_id", "cursor_child_no", "format"]),
            _ => return None,
        })
    }
}

/// Words of a format that stand for a whole.
const WHOLE: [&str; 5] = ["BASIC", "TYPICAL", "SERIAL", "ALL", "ADVANCED"];
/// Those that ask for what executions have done.
const MEASURED: [&str; 5] = ["ALLSTATS", "IOSTATS", "MEMSTATS", "RUNSTATS_TOT", "RUNSTATS_LAST"];

/// What is shown of each step beside its operation and name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools)] // as the field's words have them
struct Format {
    rows: bool,
    bytes: bool,
    cost: bool,
    predicate: bool,
    /// Figures of what has run were asked for.
    measured: bool,
    /// Those of the last execution, not of all.
    last: bool,
}

impl Format {
    /// # Errors
    /// 22023 for a word that the field has not.
    fn of(text: Option<&str>) -> Result<Format> {
        let words = text.unwrap_or("TYPICAL").to_uppercase();
        let words: Vec<&str> = words.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        // What was measured leaves out what is estimated beside rows, unless a whole is asked for.
        let whole = words.iter().any(|word| WHOLE.contains(word));
        let measures = |word: &&str| MEASURED.contains(&word.trim_start_matches(['+', '-']));
        let bare = !whole && words.iter().any(measures);
        let mut format = Format {
            rows: true,
            bytes: !bare,
            cost: !bare,
            predicate: true,
            measured: false,
            last: false,
        };
        for word in words {
            let (on, part) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
                (Some(part), _) => (true, part),
                (_, Some(part)) => (false, part),
                _ => (true, word),
            };
            match part {
                _ if WHOLE.contains(&part) => {
                    let all = part != "BASIC";
                    (format.rows, format.bytes, format.cost) = (all, all, all);
                    format.predicate = all;
                }
                "ROWS" => format.rows = on,
                "BYTES" => format.bytes = on,
                "COST" => format.cost = on,
                "PREDICATE" => format.predicate = on,
                _ if MEASURED.contains(&part) => {
                    format.measured = on;
                    format.last |= part == "RUNSTATS_LAST";
                }
                "LAST" => format.last = on,
                // Of what plans here have not, or always show.
                "PARTITION" | "PARALLEL" | "PROJECTION" | "ALIAS" | "REMOTE" | "NOTE"
                | "OUTLINE" | "PEEKED_BINDS" | "HINT_REPORT" | "ADAPTIVE" | "REPORT" => {}
                _ => {
                    let text = format!("DBMS_XPLAN: format {word} is not valid");
                    return Err(PgError::new("22023", text).with_hint(
                        "BASIC, TYPICAL and ALL are, with +ROWS, -COST and the like behind them.",
                    ));
                }
            }
        }
        Ok(format)
    }
}

/// A number in six characters, as the field shortens it.
fn short(value: f64) -> String {
    let mut left = value.round();
    for unit in ["", "K", "M", "G", "T"] {
        if left < 100_000.0 || unit == "T" {
            return format!("{left:.0}{unit}");
        }
        left = (left / 1000.0).round();
    }
    format!("{left:.0}")
}

/// A count, shortened in the same way.
#[allow(clippy::cast_precision_loss)] // shown with six digits at the most
fn short_count(count: u64) -> String {
    short(count as f64)
}

/// A time as the field has it, in hundredths of a second; what has begun counts.
fn clock(us: u64) -> String {
    let hundredths = us.div_ceil(10_000);
    let (s, rest) = (hundredths / 100, hundredths % 100);
    format!("{:02}:{:02}:{:02}.{rest:02}", s / 3600, s / 60 % 60, s % 60)
}

/// A column of the printed table.
struct Column {
    head: &'static str,
    right: bool,
    /// Without a blank at its left edge.
    tight: bool,
    cells: Vec<String>,
}

/// A figure of what was measured, as its column shows it.
type Cell = fn(&StepFigures) -> String;

fn measured_column(told: &[Option<StepFigures>], head: &'static str, cell: Cell) -> Column {
    let cells = told.iter().map(|step| step.as_ref().map(cell).unwrap_or_default());
    Column { head, right: true, tight: false, cells: cells.collect() }
}

/// The columns of what each step did.
fn measured_columns(told: &[Option<StepFigures>], estimated: Vec<Column>) -> Vec<Column> {
    let mut all = vec![measured_column(told, "Starts", |step| short_count(step.starts))];
    all.extend(estimated);
    all.push(measured_column(told, "A-Rows", |step| short_count(step.rows)));
    let time = measured_column(told, "   A-Time  ", |step| clock(step.elapsed_us));
    all.push(Column { tight: true, ..time });
    all.push(measured_column(told, "Buffers", |step| short_count(step.gets())));
    // As the field has it: where nothing was read there is no column.
    if told.iter().flatten().any(|step| step.reads > 0) {
        all.push(measured_column(told, "Reads ", |step| short_count(step.reads)));
    }
    all
}

/// What the field says where figures are asked for that nobody has.
const NOT_MEASURED: [&str; 6] = [
    "",
    "Note",
    "-----",
    "   - Warning: basic plan statistics not available. These are only collected when:",
    "       * hint 'gather_plan_statistics' is used for the statement or",
    "       * parameter 'statistics_level' is set to 'ALL', at session or system level",
];

/// Without the brackets round all of it.
fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else {
        return text;
    };
    let (mut depth, mut quoted) = (0i32, false);
    for c in inner.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return text;
        }
    }
    inner
}

/// What each step asks of its rows, under its number.
fn predicates(told: &[Vec<String>]) -> Vec<String> {
    let mut out = Vec::new();
    if told.iter().any(|told| !told.is_empty()) {
        let head = "Predicate Information (identified by operation id):";
        out.extend([String::new(), head.to_owned(), "-".repeat(head.len()), String::new()]);
    }
    for (id, told) in told.iter().enumerate() {
        for (at, one) in told.iter().enumerate() {
            let number = if at == 0 { format!("{id:>4} -") } else { " ".repeat(6) };
            out.push(format!("{number} {one}"));
        }
    }
    out
}

/// The columns of the table behind the numbers of the steps.
fn columns_of(rows: &[PlanRow], figures: Option<&PlanFigures>, format: Format) -> Vec<Column> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let number = |value: Option<f64>| value.map(short).unwrap_or_default();
    let operation = |row: &PlanRow| {
        let words = format!("{} {}", row.operation, text(&row.option));
        format!("{}{}", " ".repeat(row.depth), words.trim_end())
    };
    let column = |head, right, cell: &dyn Fn(&PlanRow) -> String| Column {
        head,
        right,
        tight: false,
        cells: rows.iter().map(cell).collect(),
    };
    let mut columns = vec![
        column("Operation", false, &operation),
        column("Name", false, &|row| text(&row.object)),
    ];
    let (rows_head, bytes_head) =
        if format.measured { ("E-Rows", "E-Bytes") } else { ("Rows ", "Bytes ") };
    let mut estimated = Vec::new();
    if format.rows {
        estimated.push(column(rows_head, true, &|row| number(row.rows)));
    }
    if format.bytes {
        estimated.push(column(bytes_head, true, &|row| number(row.bytes)));
    }
    if format.cost {
        estimated.push(column("Cost ", true, &|row| number(row.cost)));
    }
    columns.extend(match figures.filter(|_| format.measured) {
        Some(all) if format.last => measured_columns(&all.last, estimated),
        Some(all) => measured_columns(&all.all, estimated),
        None => estimated,
    });
    columns
}

/// The steps as a table, and behind it what is known of each.
fn printed(
    hash: u32,
    rows: &[PlanRow],
    figures: Option<&PlanFigures>,
    format: Format,
) -> Vec<String> {
    let told = |row: &PlanRow| -> Vec<String> {
        let all = [("access", &row.access), ("filter", &row.filter)];
        let all = all.into_iter().filter(|_| format.predicate);
        all.filter_map(|(word, text)| Some(format!("{word}({})", bare(text.as_ref()?)))).collect()
    };
    let columns = columns_of(rows, figures, format);
    let line = |begin: String, id: Option<usize>| {
        let mut line = begin;
        for column in &columns {
            let longest = column.cells.iter().map(|cell| cell.chars().count()).max();
            let width = longest.unwrap_or(0).max(column.head.len());
            let cell = match id.map(|id| &column.cells[id]) {
                None => format!("{:<width$} |", column.head),
                Some(cell) if column.right => format!("{cell:>width$} |"),
                Some(cell) => format!("{cell:<width$} |"),
            };
            line.push_str(if column.tight { "" } else { " " });
            line.push_str(&cell);
        }
        line
    };
    let head = line("| Id  |".to_owned(), None);
    let rule = "-".repeat(head.chars().count());
    let mut out = vec![format!("Plan hash value: {hash}"), String::new()];
    out.extend([rule.clone(), head, rule.clone()]);
    for (id, row) in rows.iter().enumerate() {
        let star = if told(row).is_empty() { ' ' } else { '*' };
        out.push(line(format!("|{star}{id:>3} |"), Some(id)));
    }
    out.push(rule);
    out.extend(predicates(&rows.iter().map(told).collect::<Vec<_>>()));
    if format.measured && figures.is_none() {
        out.extend(NOT_MEASURED.map(str::to_owned));
    }
    out
}

/// A text that was given; `None`: NULL, or none.
fn given(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

impl Session {
    /// `EXPLAIN PLAN .. FOR`: keeps the plan, and does not run the statement, whose parameters have
    /// these names.
    pub(crate) async fn explain_plan(
        &mut self,
        id: Option<String>,
        statement: &Statement,
        binds: &[String],
    ) -> Result<Fetched> {
        let plan = self.plan_for(statement, &[]).await?;
        let physical = self.explained_steps(&plan).await?;
        let mut rows = crate::plan_lines::plan_rows_of(&plan, physical.as_ref());
        let told = rows.iter_mut().flat_map(|row| [&mut row.access, &mut row.filter]).flatten();
        told.for_each(|text| *text = with_names(text, binds));
        let hash = match crate::trace::plan_hash(&plan) {
            0 => physical.as_ref().map_or(0, crate::trace::hash_of_steps),
            hash => hash,
        };
        // One of the same name goes, as it would be the field's table that is written to twice.
        self.explained.retain(|kept| id.is_none() || kept.id != id);
        if self.explained.len() == KEPT_MAX {
            self.explained.remove(0);
        }
        self.explained.push(KeptPlan { id, hash, at_us: self.ctx.env.wall_us(), rows });
        Ok(Fetched::Complete("EXPLAIN".to_owned()))
    }

    /// A function of `dbms_xplan`: its lines.
    pub(crate) async fn xplan(&mut self, shown: Shown, args: &[Value]) -> Result<Value> {
        let format = Format::of(given(args.get(2)))?;
        let lines = match shown {
            Shown::Explained => self.explained_plan(args, format)?,
            Shown::Cursor => env::boxed!(self.cursor_plan(args, format)).await?,
        };
        let lines: Vec<Value> = lines.into_iter().map(|line| Value::Text(line.into())).collect();
        Ok(query::array::array_value(ColType::new(TypeKind::Text), &lines))
    }

    fn explained_plan(&self, args: &[Value], format: Format) -> Result<Vec<String>> {
        if given(args.first()).is_some_and(|table| !table.eq_ignore_ascii_case("plan_table")) {
            let text = "DBMS_XPLAN.DISPLAY of another table than PLAN_TABLE";
            return Err(PgError::unsupported(text)
                .with_hint("Explained plans are kept in the session, not in a table."));
        }
        if given(args.get(3)).is_some() {
            return Err(PgError::unsupported("the argument filter_preds of DBMS_XPLAN.DISPLAY"));
        }
        let id = given(args.get(1));
        let mut newest = self.explained.iter().rev();
        let found = newest.find(|kept| id.is_none() || kept.id.as_deref() == id);
        Ok(match (found, id) {
            (Some(kept), _) => printed(kept.hash, &kept.rows, None, format),
            (None, Some(id)) => {
                vec![format!("Error: this session has explained no plan with statement_id '{id}'")]
            }
            (None, None) => vec!["Error: this session has explained no plan".to_owned()],
        })
    }

    async fn cursor_plan(&mut self, args: &[Value], format: Format) -> Result<Vec<String>> {
        let child = match args.get(1) {
            None | Some(Value::Null) => None,
            Some(given) => {
                let (to, mode) = (ColType::new(TypeKind::Int8), query::cast::CastMode::Explicit);
                match query::cast::cast(&given.as_datum(), to, mode, &self.format_env())? {
                    Value::Int8(child) => Some(child),
                    _ => None,
                }
            }
        };
        let previous = self.ctx.session.running().previous.map(|id| id.to_string());
        let id = given(args.first()).map(str::to_owned).or(previous);
        let Some(id) = id else {
            return Ok(vec!["NOTE: the session has run no statement before".to_owned()]);
        };
        let env = self.ctx.observer.env();
        let mut found = self.ctx.observer.statements.rows(env.now(), env.wall_us());
        let wanted = |row: &CursorRow| {
            row.id.to_string() == id && child.is_none_or(|child| i64::from(row.child) == child)
        };
        found.retain(wanted);
        found.sort_by_key(|row| row.child);
        let (roles, role) = (self.roles().await?, self.identity.role);
        let mut lines = Vec::new();
        for row in &found {
            let seen = crate::catalog::sees_statements_of(&roles, role, &row.parsed_by.user);
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let head = format!("SQL_ID  {}, child number {}", row.id, row.child);
            let rule = "-".repeat(head.len());
            lines.extend([head, rule]);
            let text = if seen { &*row.text } else { "(of a role that this one does not have)" };
            lines.extend(text.lines().map(str::to_owned));
            lines.push(String::new());
            if row.plan.is_empty() {
                lines.push(
                    "NOTE: no plan is kept: the statement has none, or is planned each time"
                        .to_owned(),
                );
                continue;
            }
            let format = Format { predicate: format.predicate && seen, ..format };
            let figures = row.plan_figures.as_deref();
            lines.extend(printed(row.plan_hash, &row.plan, figures, format));
        }
        if lines.is_empty() {
            let child = child.map(|child| format!(", child number {child}")).unwrap_or_default();
            lines.push(format!("NOTE: this instance knows no statement of SQL_ID {id}{child}"));
            lines.push("      v$sql lists those that it knows".to_owned());
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(depth: usize, operation: &str, object: Option<&str>, filter: Option<&str>) -> PlanRow {
        PlanRow {
            parent: depth.checked_sub(1),
            depth,
            position: depth,
            operation: operation.to_owned(),
            option: object.map(|_| "FULL".to_owned()),
            object: object.map(str::to_owned),
            obj: 0,
            cost: Some(12.4),
            rows: object.map(|_| 123_456.0),
            bytes: None,
            access: filter.map(|_| "(b = 2)".to_owned()),
            filter: filter.map(str::to_owned),
            projection: None,
        }
    }

    #[test]
    fn a_plan_is_printed_as_a_table() {
        let rows = [
            row(0, "SELECT STATEMENT", None, None),
            row(1, "TABLE ACCESS", Some("EMP"), Some("((a = 1) OR (c = ')'))")),
        ];
        let format = Format::of(Some("typical -bytes")).unwrap();
        assert_eq!(
            printed(7, &rows, None, format),
            [
                "Plan hash value: 7",
                "",
                "---------------------------------------------------",
                "| Id  | Operation          | Name | Rows  | Cost  |",
                "---------------------------------------------------",
                "|   0 | SELECT STATEMENT   |      |       |    12 |",
                "|*  1 |  TABLE ACCESS FULL | EMP  |  123K |    12 |",
                "---------------------------------------------------",
                "",
                "Predicate Information (identified by operation id):",
                "---------------------------------------------------",
                "",
                "   1 - access(b = 2)",
                "       filter((a = 1) OR (c = ')'))",
            ]
        );
        let basic = printed(7, &rows, None, Format::of(Some("BASIC")).unwrap());
        assert_eq!(basic[3], "| Id  | Operation          | Name |");
        assert_eq!(basic.len(), 8);
        assert_eq!(bare("(a) AND (b)"), "(a) AND (b)");
        assert_eq!(Format::of(Some("nonsense")).unwrap_err().code, "22023");
    }

    #[test]
    fn parameters_have_their_names_in_conditions() {
        let statement = crate::parse::parse_single("select a from t where b = :X and c > $1");
        let mut statement = statement.unwrap();
        let crate::parse::Parsed::Sql(ast) = &mut statement.parsed else { panic!("a query") };
        let names = number_binds(ast, 1);
        assert_eq!(names, ["$1", ":x"]);
        assert_eq!(ast.to_string(), "SELECT a FROM t WHERE b = $2 AND c > $1");
        assert_eq!(number_binds(ast, 2), ["$1", "$2"]);
        let told =
            with_names("((b = $2) AND (c > $1) AND (d <> 'a$2''s $2') AND (e$2 = $20))", &names);
        assert_eq!(told, "((b = :x) AND (c > $1) AND (d <> 'a$2''s $2') AND (e$2 = $20))");
    }

    fn measured() -> PlanFigures {
        let step = |starts, rows, gets, reads, elapsed_us| {
            let (consistent_gets, current_gets) = (gets, 0);
            let all =
                StepFigures { starts, rows, consistent_gets, current_gets, reads, elapsed_us };
            Some(all)
        };
        let last = vec![step(1, 1, 31, 2, 15_000), step(1, 714, 31, 2, 9_999)];
        let all = vec![step(2, 2, 62, 2, 3_723_456_789), None];
        PlanFigures { executions: 2, last, all }
    }

    #[test]
    fn what_was_measured_stands_beside_what_was_expected() {
        let rows =
            [row(0, "SELECT STATEMENT", None, None), row(1, "TABLE ACCESS", Some("E"), None)];
        let told = |format: &str, figures: Option<&PlanFigures>| {
            let printed = printed(7, &rows, figures, Format::of(Some(format)).unwrap());
            printed[3..].iter().filter(|line| !line.starts_with("--")).cloned().collect::<Vec<_>>()
        };
        let figures = measured();
        assert_eq!(
            told("ALLSTATS LAST", Some(&figures)),
            [
                "| Id  | Operation          | Name | Starts | E-Rows | A-Rows |   A-Time   | \
                 Buffers | Reads  |",
                "|   0 | SELECT STATEMENT   |      |      1 |        |      1 |00:00:00.02 | \
                 \x20    31 |      2 |",
                "|   1 |  TABLE ACCESS FULL | E    |      1 |   123K |    714 |00:00:00.01 | \
                 \x20    31 |      2 |",
            ]
        );
        assert_eq!(
            told("allstats -rows +cost", Some(&figures))[1..],
            [
                "|   0 | SELECT STATEMENT   |      |      2 |    12 |      2 |01:02:03.46 | \
                 \x20    62 |      2 |",
                "|   1 |  TABLE ACCESS FULL | E    |        |    12 |        |            | \
                 \x20       |        |",
            ]
        );
        let unknown = told("ALLSTATS LAST", None);
        assert_eq!(unknown[0], "| Id  | Operation          | Name | E-Rows |");
        assert_eq!(
            unknown[3..],
            NOT_MEASURED[..2].iter().chain(&NOT_MEASURED[3..]).copied().collect::<Vec<_>>()
        );
        assert!(told("ALLSTATS ALL", None)[0].ends_with("| E-Rows | E-Bytes | Cost  |"));
    }

    #[test]
    fn numbers_are_shortened() {
        assert_eq!(short(99_999.0), "99999");
        assert_eq!(short(100_000.0), "100K");
        assert_eq!(short(123_456_789.0), "123M");
        assert_eq!(short(9e20), "900000000T");
        assert_eq!(
            (short_count(123), clock(0), clock(1)),
            ("123".to_owned(), "00:00:00.00".to_owned(), "00:00:00.01".to_owned())
        );
    }
}
