//! Windows: the names that they have, and their frames.
//!
//! A frame that the library does not know stands as a call of [`FRAME`] before what the window is
//! partitioned by; the planner makes a function of it. So does the frame of an aggregate with KEEP:
//! the first or last of the groups with one key.
//!
//! What it promises: a window that copies another has all that the other has; a frame that makes
//! no sense is refused as PostgreSQL refuses it.

use super::expr::call;
use super::{Binder, ident_name};
use crate::{PgError, Result};
use ::query::FRAME;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, NamedWindowDefinition,
    NamedWindowExpr, Value, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};
use kernel::row::{ColType, TypeKind};

/// Before what EXCLUDE says, where a window is partitioned by it.
pub(crate) const EXCLUDE: &str = "$exclude ";
/// The same before which rows an aggregate with KEEP keeps.
const KEPT: &str = "$keep ";

fn invalid(text: impl Into<String>) -> PgError {
    PgError::new("42P20", text)
}

/// What is noted behind a mark, such as what EXCLUDE leaves out, taken out of where it was noted.
fn take_noted(spec: &mut WindowSpec, mark: &str) -> Option<String> {
    let Some(Expr::Value(value)) = spec.partition_by.first() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let what = text.strip_prefix(mark)?.to_owned();
    spec.partition_by.remove(0);
    Some(what)
}

/// Whether something is noted in it.
fn has_note(spec: &WindowSpec) -> bool {
    let mut spec = spec.clone();
    [EXCLUDE, KEPT].iter().any(|mark| take_noted(&mut spec, mark).is_some())
}

fn word(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

/// Makes `max(x) KEEP (DENSE_RANK LAST ORDER BY d) OVER (PARTITION BY g)` the aggregate over a
/// window that is sorted by that key, and notes which rows of it are kept. The aggregate's name;
/// `None`: it is no such call.
///
/// # Errors
/// 42601 if the window is sorted by itself, or has a frame; 0A000 for a filter.
pub(super) fn kept_over(function: &mut Function, name: &str) -> Result<Option<&'static str>> {
    let Some(aggregate) = ::query::keep::aggregate_of(name) else { return Ok(None) };
    let (Some(window), FunctionArguments::List(list)) = (&mut function.over, &mut function.args)
    else {
        return Ok(None);
    };
    // Which key is the first one is known before any row is filtered out.
    if function.filter.is_some() {
        return Err(PgError::unsupported("FILTER between KEEP and OVER"));
    }
    let mut spec = match window {
        WindowType::WindowSpec(spec) => spec.clone(),
        WindowType::NamedWindow(ident) => WindowSpec {
            window_name: Some(ident.clone()),
            partition_by: Vec::new(),
            order_by: Vec::new(),
            window_frame: None,
        },
    };
    if !spec.order_by.is_empty() || spec.window_frame.is_some() || has_note(&spec) {
        return Err(PgError::syntax("OVER behind KEEP has neither ORDER BY nor a frame"));
    }
    for clause in std::mem::take(&mut list.clauses) {
        match clause {
            FunctionArgumentClause::OrderBy(keys) => spec.order_by.extend(keys),
            other => list.clauses.push(other),
        }
    }
    let which = if ::query::keep::keeps_last(name) { "last" } else { "first" };
    spec.partition_by.insert(0, word(&format!("{KEPT}{which}")));
    *window = WindowType::WindowSpec(spec);
    Ok(Some(aggregate))
}

/// Where a frame begins or ends, as a word, and the offset.
fn end_of(bound: &WindowFrameBound) -> (&'static str, Option<&Expr>) {
    match bound {
        WindowFrameBound::CurrentRow => ("current", None),
        WindowFrameBound::Preceding(None) => ("first", None),
        WindowFrameBound::Following(None) => ("last", None),
        WindowFrameBound::Preceding(Some(offset)) => ("preceding", Some(&**offset)),
        WindowFrameBound::Following(Some(offset)) => ("following", Some(&**offset)),
    }
}

/// Refuses frames that end before they begin, or have no order to go by.
fn check(spec: &WindowSpec, frame: &WindowFrame) -> Result<()> {
    let (start, first) = end_of(&frame.start_bound);
    let (end, last) = frame.end_bound.as_ref().map_or(("current", None), end_of);
    let text = match (start, end) {
        ("last", _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (_, "first") => "frame end cannot be UNBOUNDED PRECEDING",
        ("current", "preceding") => "frame starting from current row cannot have preceding rows",
        ("following", _) if frame.end_bound.is_none() => {
            "frame starting from following row cannot end with current row"
        }
        ("following", "preceding" | "current") => {
            "frame starting from following row cannot have preceding rows"
        }
        _ => "",
    };
    if !text.is_empty() {
        return Err(invalid(text));
    }
    match frame.units {
        WindowFrameUnits::Range
            if (first.is_some() || last.is_some()) && spec.order_by.len() != 1 =>
        {
            let text = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            Err(invalid(text))
        }
        WindowFrameUnits::Groups if spec.order_by.is_empty() => {
            Err(invalid("GROUPS mode requires an ORDER BY clause"))
        }
        _ => Ok(()),
    }
}

/// Whether the library computes such a frame as PostgreSQL does.
fn is_known(frame: &WindowFrame, exclude: Option<&str>) -> bool {
    let bounds = [Some(&frame.start_bound), frame.end_bound.as_ref()].into_iter().flatten();
    let mut offsets = bounds.filter_map(|bound| end_of(bound).1);
    let plain = |offset: &Expr| {
        matches!(offset, Expr::Value(value) if matches!(&value.value, Value::Number(digits, _)
            if digits.parse::<u32>().is_ok()))
    };
    exclude.is_none_or(|what| what == "no others")
        && match frame.units {
            WindowFrameUnits::Rows => offsets.all(plain),
            WindowFrameUnits::Range | WindowFrameUnits::Groups => offsets.next().is_none(),
        }
}

impl Binder<'_> {
    /// Takes in the clause WINDOW.
    pub(super) fn named_windows(&mut self, all: &mut Vec<NamedWindowDefinition>) -> Result<()> {
        self.windows.clear();
        for NamedWindowDefinition(ident, window) in all.drain(..) {
            let name = ident_name(&ident);
            if self.windows.iter().any(|(known, _)| *known == name) {
                return Err(invalid(format!("window \"{name}\" is already defined")));
            }
            let spec = match window {
                NamedWindowExpr::NamedWindow(other) => self.window_called(&ident_name(&other))?,
                NamedWindowExpr::WindowSpec(spec) => self.resolved(spec)?,
            };
            self.windows.push((name, spec));
        }
        Ok(())
    }

    fn window_called(&self, name: &str) -> Result<WindowSpec> {
        let found = self.windows.iter().find(|(known, _)| known == name);
        found
            .map(|(_, spec)| spec.clone())
            .ok_or_else(|| PgError::new("42704", format!("window \"{name}\" does not exist")))
    }

    /// The window with what it copies of another.
    fn resolved(&self, mut spec: WindowSpec) -> Result<WindowSpec> {
        let Some(base) = spec.window_name.take() else { return Ok(spec) };
        let name = ident_name(&base);
        let base = self.window_called(&name)?;
        if spec.partition_by.len() > usize::from(has_note(&spec)) {
            let text = format!("cannot override PARTITION BY clause of window \"{name}\"");
            return Err(invalid(text));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return Err(invalid(format!("cannot override ORDER BY clause of window \"{name}\"")));
        }
        if base.window_frame.is_some() {
            let text = format!("cannot copy window \"{name}\" because it has a frame clause");
            let bare = spec.order_by.is_empty() && spec.window_frame.is_none();
            let error = invalid(text);
            return Err(match bare {
                true => error.with_hint("Omit the parentheses in this OVER clause."),
                false => error,
            });
        }
        spec.partition_by.extend(base.partition_by);
        if spec.order_by.is_empty() {
            spec.order_by = base.order_by;
        }
        Ok(spec)
    }

    pub(super) fn window(&mut self, window: &mut WindowType) -> Result<()> {
        let mut spec = match window {
            WindowType::WindowSpec(spec) => self.resolved(spec.clone())?,
            WindowType::NamedWindow(ident) => self.window_called(&ident_name(ident))?,
        };
        self.window_spec(&mut spec)?;
        *window = WindowType::WindowSpec(spec);
        Ok(())
    }

    fn window_spec(&mut self, spec: &mut WindowSpec) -> Result<()> {
        let exclude = take_noted(spec, EXCLUDE);
        let kept = take_noted(spec, KEPT);
        spec.partition_by.iter_mut().try_for_each(|expr| self.expr(expr))?;
        if let Some(which @ ("first" | "last")) = kept.as_deref() {
            self.order_by_list(&mut spec.order_by, false)?;
            let group = format!("{which} group");
            let mut args: Vec<Expr> =
                ["groups", group.as_str(), group.as_str(), "no others"].map(word).to_vec();
            args.extend([Expr::Value(Value::Null.into()), Expr::Value(Value::Null.into())]);
            spec.partition_by.insert(0, call(FRAME, args));
            return Ok(());
        }
        let Some(frame) = spec.window_frame.clone() else {
            return self.order_by_list(&mut spec.order_by, false);
        };
        check(spec, &frame)?;
        self.order_by_list(&mut spec.order_by, false)?;
        if is_known(&frame, exclude.as_deref()) {
            return Ok(());
        }
        let units = match frame.units {
            WindowFrameUnits::Rows => "rows",
            WindowFrameUnits::Range => "range",
            WindowFrameUnits::Groups => "groups",
        };
        let (start, first) = end_of(&frame.start_bound);
        let (end, last) = frame.end_bound.as_ref().map_or(("current", None), end_of);
        let exclude = exclude.as_deref().unwrap_or("no others");
        let mut args: Vec<Expr> = [units, start, end, exclude].map(word).to_vec();
        for offset in [first, last] {
            let mut offset = offset.cloned().unwrap_or(Expr::Value(Value::Null.into()));
            if frame.units != WindowFrameUnits::Range {
                self.note_count(&offset)?;
            }
            self.expr(&mut offset)?;
            args.push(offset);
        }
        spec.partition_by.insert(0, call(FRAME, args));
        spec.window_frame = None;
        Ok(())
    }

    /// A parameter that counts rows is a bigint.
    fn note_count(&mut self, offset: &Expr) -> Result<()> {
        if let Expr::Value(value) = offset
            && let Value::Placeholder(name) = &value.value
        {
            let at = super::expr::placeholder_index(name)?;
            if let Some(slot @ None) = self.params.types.get_mut(at) {
                *slot = Some(ColType::new(TypeKind::Int8));
            }
        }
        Ok(())
    }
}
