//! Functions of the field's language that are called without brackets: `select noon from dual`.
//!
//! What it promises: a name is a call only where it would be an error otherwise. What it must
//! never do: hide a column, or call what was written in another language, in which it needs
//! brackets.

use crate::bind::call;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{Expr, Statement as Ast, VisitMut, VisitorMut};
use kernel::dict::RoutineDef;
use std::ops::ControlFlow;

/// Whether it may be called without any argument.
fn needs_nothing(routine: &RoutineDef) -> bool {
    let needed = |arg: &kernel::dict::ArgumentDef| arg.mode.is_given() && arg.default.is_none();
    routine.body.language == "plsql" && !routine.body.args.iter().any(needed)
}

struct Caller<'a> {
    name: &'a str,
    found: bool,
}

impl VisitorMut for Caller<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_it = matches!(expr, Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(self.name));
        if is_it {
            *expr = call(self.name, Vec::new());
            self.found = true;
        }
        ControlFlow::Continue(())
    }
}

impl Session {
    /// The statement with calls of the function whose name was taken for a column; `None`: the
    /// error is about something else.
    pub(super) async fn with_bare_calls(
        &mut self,
        ast: &Ast,
        error: &PgError,
    ) -> Result<Option<Ast>> {
        if error.code != "42703" {
            return Ok(None);
        }
        let name = error.message.strip_prefix("column \"");
        let Some(name) = name.and_then(|rest| rest.strip_suffix("\" does not exist")) else {
            return Ok(None);
        };
        let routines = self.routines().await?;
        if !routines.all.iter().any(|routine| routine.name == name && needs_nothing(routine)) {
            return Ok(None);
        }
        let (mut own, mut caller) = (ast.clone(), Caller { name, found: false });
        let _ = VisitMut::visit(&mut own, &mut caller);
        Ok(caller.found.then_some(own))
    }
}
