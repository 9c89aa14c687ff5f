//! Calls of routines in a statement: found by their names before it is bound, and noted at the
//! name.
//!
//! What it promises: arguments stand in the order of the routine's, with its defaults where a call
//! leaves them out; which of several routines is meant is told by types later. What it must never
//! do: take a name for a routine that is PostgreSQL's own function.

use super::choose::{given, no_function};
use crate::bind::{ident_name, object_parts};
use crate::catalog::is_system_function;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Statement as Ast, TableFactor,
    Visit, VisitMut, Visitor, VisitorMut,
};
use kernel::dict::{self, ArgumentMode, RoutineDef, Routines};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Schema of the names of calls that are settled; no schema is called so.
const SETTLED: &str = "$routine";
/// The same for a call that may have to be left out.
const LAZY: &str = "$lazy_routine";

/// The candidates of a settled call, and whether it may have to be left out.
pub(crate) fn called_by(parts: &[String]) -> Option<(Vec<ObjId>, bool)> {
    let [mark, candidates, _] = parts else { return None };
    let lazy = match mark.as_str() {
        SETTLED => false,
        LAZY => true,
        _ => return None,
    };
    let objs = candidates.split(',').map(|obj| obj.parse().ok().map(ObjId));
    Some((objs.collect::<Option<Vec<ObjId>>>()?, lazy))
}

/// A call as it was written.
pub(super) struct Call<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) args: &'a [FunctionArg],
}

/// The call that stands in FROM.
pub(super) fn factor_call(factor: &TableFactor) -> Option<Call<'_>> {
    match factor {
        TableFactor::Table { name, args: Some(args), .. } => Some(Call { name, args: &args.args }),
        TableFactor::Function { name, args, .. } => Some(Call { name, args }),
        _ => None,
    }
}

fn function_args(function: &Function) -> Option<&[FunctionArg]> {
    match &function.args {
        FunctionArguments::None => Some(&[]),
        FunctionArguments::List(list) => {
            let plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
            plain.then_some(&list.args)
        }
        FunctionArguments::Subquery(_) => None,
    }
}

/// What there is to be found.
pub(super) struct Lookup {
    pub(super) routines: Arc<Routines>,
    /// Schemas that are searched.
    pub(super) path: Vec<String>,
}

impl Lookup {
    /// The routines of a name, those found first in front; empty for a function of the system's.
    fn named(&self, name: &ObjectName, count: usize) -> Vec<&Arc<RoutineDef>> {
        let Ok(parts) = object_parts(name) else { return Vec::new() };
        let mut found: Vec<&Arc<RoutineDef>> = Vec::new();
        match &parts[..] {
            [name] => {
                if is_system_function(name, count) {
                    return found;
                }
                for schema in &self.path {
                    for one in self.routines.named(schema, name) {
                        if found.iter().all(|known| known.signature != one.signature) {
                            found.push(one);
                        }
                    }
                }
            }
            [schema, name] => found.extend(self.routines.named(schema, name)),
            _ => {}
        }
        found
    }

    /// The candidates for a call, and its arguments in the order of theirs. `None`: it is none of
    /// a routine.
    pub(super) fn find(
        &self,
        name: &ObjectName,
        args: &[FunctionArg],
        procedure: bool,
    ) -> Result<Option<(Vec<ObjId>, Vec<Expr>)>> {
        let named = self.named(name, args.len());
        if named.is_empty() {
            return Ok(None);
        }
        let mut exact: Vec<(ObjId, Vec<Expr>)> = Vec::new();
        let mut filled: Vec<(ObjId, Vec<Expr>)> = Vec::new();
        for def in named.iter().filter(|def| def.body.procedure == procedure) {
            let Some((all, plain)) = arranged(def, args)? else { continue };
            if plain { &mut exact } else { &mut filled }.push((def.obj, all));
        }
        if let [(_, first), ..] = &exact[..] {
            let first = first.clone();
            return Ok(Some((exact.into_iter().map(|(obj, _)| obj).collect(), first)));
        }
        let mut filled = filled.into_iter();
        match (filled.next(), filled.next()) {
            (Some((obj, all)), None) => Ok(Some((vec![obj], all))),
            (Some(_), Some(_)) => {
                let text = format!("function {name}({}) is not unique", shown(args));
                Err(PgError::new("42725", text).with_hint(
                    "Could not choose a best candidate function. You might need to add explicit \
                     type casts.",
                ))
            }
            (None, _) if !procedure && named.iter().all(|def| def.body.procedure) => {
                let text = format!("{name}({}) is a procedure", shown(args));
                Err(PgError::new("42809", text).with_hint("To call a procedure, use CALL."))
            }
            (None, _) if procedure && named.iter().all(|def| !def.body.procedure) => {
                let text = format!("{name}({}) is not a procedure", shown(args));
                Err(PgError::new("42809", text).with_hint("To call a function, use SELECT."))
            }
            (None, _) => Err(no_function(&format!("{name}({})", shown(args)))),
        }
    }
}

/// Types as far as a text tells.
pub(super) fn shown(args: &[FunctionArg]) -> String {
    let types = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            datafusion::sql::sqlparser::ast::Value::Number(digits, _)
                if digits.parse::<i32>().is_ok() =>
            {
                "integer"
            }
            datafusion::sql::sqlparser::ast::Value::Number(..) => "numeric",
            datafusion::sql::sqlparser::ast::Value::Boolean(_) => "boolean",
            _ => "unknown",
        },
        _ => "unknown",
    });
    types.collect::<Vec<_>>().join(", ")
}

/// The values of a call in the order of the routine's arguments, and whether they stand as they
/// were written; `None`: they do not fit.
fn arranged(def: &RoutineDef, args: &[FunctionArg]) -> Result<Option<(Vec<Expr>, bool)>> {
    let wanted: Vec<_> = given(def).collect();
    let mut slots: Vec<Option<Expr>> = vec![None; wanted.len()];
    let (mut rest, mut plain) = (Vec::new(), true);
    let variadic = wanted.last().is_some_and(|arg| arg.mode == ArgumentMode::Variadic);
    // OUT arguments of procedures have a place in calls, whatever stands there.
    let mut places: Vec<Option<usize>> = Vec::new();
    let mut next = 0;
    for arg in def.body.args.iter().filter(|arg| def.body.procedure || arg.mode.is_given()) {
        if arg.mode.is_given() {
            places.push(Some(next));
            next += 1;
        } else {
            places.push(None);
        }
    }
    for (i, arg) in args.iter().enumerate() {
        let (name, value) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (None, value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (Some(ident_name(name)), value)
            }
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (Some(ident_name(name)), value),
            _ => return Ok(None),
        };
        let at = match &name {
            None if variadic && i + 1 >= wanted.len() => {
                rest.push(value.clone());
                continue;
            }
            None => match places.get(i) {
                Some(Some(at)) => *at,
                Some(None) => continue,
                None => return Ok(None),
            },
            Some(name) => {
                plain = false;
                match wanted.iter().position(|arg| arg.name == *name) {
                    Some(at) => at,
                    None => {
                        let out = |arg: &dict::ArgumentDef| arg.name == *name;
                        if def.body.procedure && def.body.args.iter().any(out) {
                            continue;
                        }
                        return Ok(None);
                    }
                }
            }
        };
        if slots[at].replace(value.clone()).is_some() {
            return Ok(None);
        }
    }
    if variadic {
        plain = false;
        if rest.is_empty() && slots.last().is_some_and(Option::is_none) {
            return Ok(None);
        }
        if let Some(slot @ None) = slots.last_mut() {
            let array = Array { elem: rest, named: true };
            *slot = Some(Expr::Array(array));
        }
    }
    let mut all = Vec::with_capacity(slots.len());
    for (slot, arg) in slots.into_iter().zip(&wanted) {
        all.push(match (slot, &arg.default) {
            (Some(value), _) => value,
            (None, Some(default)) => {
                plain = false;
                super::plan::cast_to(crate::direct::parse_expr(default)?, arg.ty)?
            }
            (None, None) => return Ok(None),
        });
    }
    Ok(Some((all, plain)))
}

/// Whether a statement may call a routine at all.
struct Calls<'a> {
    routines: &'a Routines,
}

impl Calls<'_> {
    fn has(&self, name: &ObjectName) -> bool {
        let Some(last) = name.0.last().and_then(|part| part.as_ident()) else { return false };
        let last = ident_name(last);
        self.routines.all.iter().any(|one| one.name == last)
    }
}

impl Visitor for Calls<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.has(&function.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor_call(factor) {
            Some(call) if self.has(call.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Puts what is found in the place of names.
struct Settler<'a> {
    lookup: &'a Lookup,
    lazy: bool,
    /// All that is called.
    called: Vec<ObjId>,
    /// Only the names are to be written out, with their schemas.
    qualifies: bool,
    /// Parts that were looked at by themselves, to be put back: of each expression around.
    aside: Vec<Vec<Expr>>,
}

type Stop = ControlFlow<Box<PgError>>;

impl Settler<'_> {
    /// Looks at parts that may be left out, and puts them aside: each is looked at once.
    fn lazily(&mut self, parts: Vec<&mut Expr>) -> Stop {
        let before = std::mem::replace(&mut self.lazy, true);
        let mut taken = Vec::with_capacity(parts.len());
        for part in parts {
            let mut own = std::mem::replace(part, nothing());
            let done = VisitMut::visit(&mut own, self);
            taken.push(own);
            done?;
        }
        self.lazy = before;
        self.aside.push(taken);
        ControlFlow::Continue(())
    }

    /// Puts the parts back, in the order in which they were taken.
    fn put_back(&mut self, parts: Vec<&mut Expr>) {
        let taken = self.aside.pop().unwrap_or_default();
        for (part, own) in parts.into_iter().zip(taken) {
            *part = own;
        }
    }

    fn settle(&mut self, function: &mut Function) -> Result<()> {
        let Some(args) = function_args(function) else { return Ok(()) };
        let Some((objs, all)) = self.lookup.find(&function.name, args, false)? else {
            return Ok(());
        };
        if function.over.is_some() {
            let text = format!(
                "OVER specified, but {} is not a window function nor an aggregate function",
                function.name
            );
            return Err(PgError::new("42809", text));
        }
        if function.filter.is_some() || !function.within_group.is_empty() {
            let text = format!("{} is not an aggregate function", function.name);
            return Err(PgError::new("42809", text));
        }
        self.called.extend(&objs);
        if self.qualifies {
            let first = objs.first().and_then(|obj| self.lookup.routines.by_obj(*obj));
            if let Some(def) = first {
                let parts = [&def.schema, &def.name].map(|part| crate::view::quoted(part));
                function.name = ObjectName::from(parts.to_vec());
            }
            return Ok(());
        }
        let own = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
        let mark = if self.lazy { LAZY } else { SETTLED };
        let objs: Vec<String> = objs.iter().map(|obj| obj.0.to_string()).collect();
        let parts = [mark, &objs.join(","), own.as_deref().unwrap_or("")];
        let quoted = parts.map(|part| Ident::with_quote('"', part));
        function.name = ObjectName::from(quoted.to_vec());
        let args = all.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
        function.args = FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        });
        Ok(())
    }
}

impl VisitorMut for Settler<'_> {
    type Break = Box<PgError>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Stop {
        let Some(call) = factor_call(factor).filter(|_| self.qualifies) else {
            return ControlFlow::Continue(());
        };
        match self.lookup.find(call.name, call.args, false) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(_)) => {
                let what = format!("function {} in FROM of a view", call.name);
                ControlFlow::Break(Box::new(PgError::unsupported(what)))
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Stop {
        if let Expr::Function(function) = expr
            && let Err(error) = self.settle(function)
        {
            return ControlFlow::Break(Box::new(error));
        }
        match lazy_parts(expr) {
            Some(parts) => self.lazily(parts),
            None => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Stop {
        if let Some(parts) = lazy_parts(expr) {
            self.put_back(parts);
        }
        ControlFlow::Continue(())
    }
}

/// An expression in the place of one that is put aside.
fn nothing() -> Expr {
    Expr::Value(datafusion::sql::sqlparser::ast::Value::Null.into())
}

/// The parts of an expression that may have to be left out; `None`: of no such kind.
fn lazy_parts(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, right, .. } => {
            Some(vec![&mut **right])
        }
        Expr::Case { conditions, else_result, .. } => {
            let mut parts = Vec::new();
            for (i, CaseWhen { condition, result }) in conditions.iter_mut().enumerate() {
                if i > 0 {
                    parts.push(condition);
                }
                parts.push(result);
            }
            parts.extend(else_result.as_deref_mut());
            Some(parts)
        }
        Expr::Function(function) => {
            let name = object_parts(&function.name).ok().and_then(|mut parts| parts.pop());
            if !matches!(name.as_deref(), Some("coalesce" | "nvl" | "decode")) {
                return None;
            }
            let FunctionArguments::List(list) = &mut function.args else { return None };
            let parts = list.args.iter_mut().skip(1).filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            });
            Some(parts.collect())
        }
        _ => None,
    }
}

impl Session {
    pub(super) async fn lookup(&mut self) -> Result<Lookup> {
        let routines = self.routines().await?;
        let path = self.schemas_for(None).await?;
        Ok(Lookup { routines, path })
    }

    /// The statement with its calls of routines settled, and what a plan of it depends on then;
    /// `None`: it calls none.
    pub(crate) async fn settle_routines(
        &mut self,
        ast: &Ast,
        in_view: bool,
    ) -> Result<Option<(Ast, Vec<(ObjId, u64)>)>> {
        let routines = self.routines().await?;
        if routines.all.is_empty() || ast.visit(&mut Calls { routines: &routines }).is_continue() {
            return Ok(None);
        }
        let lookup = self.lookup().await?;
        let mut own = ast.clone();
        let mut settler = Settler {
            lookup: &lookup,
            lazy: false,
            called: Vec::new(),
            qualifies: false,
            aside: Vec::new(),
        };
        if let ControlFlow::Break(error) = VisitMut::visit(&mut own, &mut settler) {
            return Err(*error);
        }
        let called = settler.called;
        let mut tables = vec![(dict::ROUTINES_OBJ, lookup.routines.version)];
        tables.extend(self.roles_version().await?);
        tables.push(self.path_version().await?);
        for obj in called {
            if let Some(def) = lookup.routines.by_obj(obj) {
                self.check_execute(def, in_view).await?;
            }
        }
        Ok(Some((own, tables)))
    }

    /// Writes the names of routines with their schemas, for a text that is kept. What it calls.
    pub(crate) async fn qualify_routines(&mut self, ast: &mut Ast) -> Result<Vec<ObjId>> {
        let routines = self.routines().await?;
        if routines.all.is_empty() {
            return Ok(Vec::new());
        }
        let lookup = self.lookup().await?;
        let mut settler = Settler {
            lookup: &lookup,
            lazy: false,
            called: Vec::new(),
            qualifies: true,
            aside: Vec::new(),
        };
        match VisitMut::visit(ast, &mut settler) {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => {
                let mut called = settler.called;
                called.sort_unstable();
                called.dedup();
                Ok(called)
            }
        }
    }
}
