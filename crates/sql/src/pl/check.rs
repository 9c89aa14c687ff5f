//! What can be told of a body before it runs: whether its SQL is any.

use super::tree::{Block, Into, Kind, Over, Program, Raised, Returned, Rows, Sql, Statement};
use crate::parse::parse_single;
use crate::{PgError, Result};

/// Texts of SQL with the lines they stand in.
#[derive(Default)]
struct Texts(Vec<(u32, String)>);

impl Texts {
    fn statement(&mut self, line: u32, sql: &Sql) {
        self.0.push((line, sql.text.clone()));
    }

    fn expr(&mut self, line: u32, sql: &Sql) {
        self.0.push((line, format!("select {}", sql.text)));
    }

    fn exprs<'a>(&mut self, line: u32, all: impl IntoIterator<Item = &'a Sql>) {
        all.into_iter().for_each(|sql| self.expr(line, sql));
    }

    fn rows(&mut self, line: u32, rows: &Rows) {
        match rows {
            Rows::Static(sql) => self.statement(line, sql),
            Rows::Dynamic { text, using } => self.exprs(line, std::iter::once(text).chain(using)),
            Rows::Cursor(_, args) => self.exprs(line, args.iter().map(|arg| &arg.value)),
        }
    }

    fn returned(&mut self, line: u32, returned: Option<&Returned>) {
        match returned {
            Some(Returned::Value(sql)) => self.expr(line, sql),
            Some(Returned::First(sql)) => self.statement(line, sql),
            Some(Returned::Record(_)) | None => {}
        }
    }

    fn block(&mut self, line: u32, block: &Block) {
        let defaults = block.variables.iter().filter_map(|variable| variable.default.as_ref());
        self.exprs(line, defaults);
        self.all(&block.body);
        block.handlers.iter().for_each(|handler| self.all(&handler.body));
    }

    fn all(&mut self, statements: &[Statement]) {
        statements.iter().for_each(|statement| self.one(statement));
    }

    fn one(&mut self, statement: &Statement) {
        self.kind(statement.line, &statement.kind);
    }

    fn kind(&mut self, line: u32, kind: &Kind) {
        match kind {
            Kind::Nothing
            | Kind::Copy { .. }
            | Kind::Commit
            | Kind::Rollback
            | Kind::Diagnostics { .. }
            | Kind::Fetch { into: Into { .. }, .. }
            | Kind::Ask(_)
            | Kind::Output(_)
            | Kind::TakeLine { .. }
            | Kind::AssignWhole { .. }
            | Kind::CallLocal(_)
            | Kind::Goto(_)
            | Kind::Savepoint(_)
            | Kind::RollbackTo(_)
            | Kind::Close { .. } => {}
            Kind::Seed(sql) => self.expr(line, sql),
            Kind::Alter { args, .. } => self.exprs(line, args),
            Kind::ReturnWith(kind) => self.kind(line, kind),
            Kind::ForAll { over, body, .. } => {
                if let Over::Range(from, to) = over {
                    self.exprs(line, [from, to]);
                }
                self.kind(line, body);
            }
            Kind::Block(block) => self.block(line, block),
            Kind::Assign { value, .. } => self.expr(line, value),
            Kind::AssignElement { index, value, .. } => self.exprs(line, [index, value]),
            Kind::Open { args, .. } => self.exprs(line, args.iter().map(|arg| &arg.value)),
            Kind::OpenFor { rows, .. } => self.rows(line, rows),
            Kind::ForEach { array, body, .. } => {
                self.expr(line, array);
                self.all(body);
            }
            Kind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.expr(line, condition);
                    self.all(body);
                }
                self.all(otherwise);
            }
            Kind::Case { operand, arms, otherwise, .. } => {
                self.exprs(line, operand);
                for (tests, body) in arms {
                    self.exprs(line, tests);
                    self.all(body);
                }
                self.all(otherwise.as_deref().unwrap_or_default());
            }
            Kind::Loop { body, .. } => self.all(body),
            Kind::While { condition, body, .. } => {
                self.expr(line, condition);
                self.all(body);
            }
            Kind::Range { from, to, step, body, .. } => {
                self.exprs(line, [from, to].into_iter().chain(step));
                self.all(body);
            }
            Kind::ForRows { rows, body, .. } => {
                self.rows(line, rows);
                self.all(body);
            }
            Kind::Exit { when, .. } => self.exprs(line, when),
            Kind::Return(returned) | Kind::ReturnNext(returned) => {
                self.returned(line, returned.as_ref());
            }
            Kind::ReturnQuery(rows) => self.rows(line, rows),
            Kind::Sql { sql, .. } | Kind::Call { sql, .. } => self.statement(line, sql),
            Kind::Execute(execute) => {
                self.exprs(line, std::iter::once(&execute.text).chain(&execute.using));
            }
            Kind::Raise(raise) => {
                if let Raised::Format(_, values) = &raise.what {
                    self.exprs(line, values);
                }
                self.exprs(line, raise.options.iter().map(|(_, value)| value));
            }
            Kind::Assert { condition, message } => {
                self.exprs(line, std::iter::once(condition).chain(message));
            }
            Kind::Gather(what) => self.exprs(line, what.exprs()),
            Kind::System(call) => self.exprs(line, call.exprs()),
            Kind::Tell(told) => self.exprs(line, told.iter().filter_map(|(_, sql)| sql.as_ref())),
            Kind::TellLong(call) => self.exprs(line, call.exprs()),
            Kind::Put { text, .. } => self.exprs(line, text),
            Kind::Fail { number, message, keeps } => {
                self.exprs(line, [number, message].into_iter().chain(keeps));
            }
        }
    }
}

/// Reads all SQL of a body.
///
/// # Errors
/// 42601, with the line.
pub(super) fn check(program: &Program, name: &str) -> Result<()> {
    let mut texts = Texts::default();
    texts.block(1, &program.block);
    for block in program.routines.iter().filter_map(|routine| routine.block.as_ref()) {
        texts.block(1, block);
    }
    for query in program.cursors.iter().filter_map(|def| def.query.as_ref()) {
        texts.statement(1, query);
    }
    for (line, text) in texts.0 {
        if let Err(error) = parse_single(&text)
            && error.code == "42601"
        {
            let mut error = PgError { position: None, ..error };
            let place = match program.is_sql {
                true => format!("SQL function \"{name}\" statement {line}"),
                false => format!("compilation of PL/pgSQL function \"{name}\" near line {line}"),
            };
            error.about.get_or_insert_default().context = Some(place);
            return Err(error);
        }
    }
    Ok(())
}
