//! Functions of numbers and texts, called on the values of one row.
//!
//! What it promises: the same forms and bodies as in a plan, so that a call means the same in
//! both. What it must never do: have a function whose result a plan brings to other digits.

use super::typed::{Body, Form, forms_of};
use super::{math, strings};
use crate::error::Result;
use crate::interruptible::by_row;
use crate::key_exprs::STABLE;
use crate::memory::Results;
use crate::wire::FormatEnv;
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// One form of a function, chosen for arguments of certain types.
#[derive(Clone, Copy)]
pub struct Called {
    name: &'static str,
    form: &'static Form,
}

/// The forms of a name, and those of the field's beside them.
#[derive(Default)]
struct Forms {
    own: Vec<Form>,
    others: Vec<Form>,
}

/// Names of functions of numbers and texts, each with all its forms: which of them is meant depends
/// on all.
static FORMS: LazyLock<HashMap<&'static str, Forms>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Forms> = HashMap::new();
    for (name, form) in forms_of(math::LINES).into_iter().chain(forms_of(strings::LINES)) {
        match name.strip_prefix('+') {
            Some(name) => all.entry(name).or_default().others.push(form),
            None => all.entry(name).or_default().own.push(form),
        }
    }
    for (name, form) in super::OTHER_LINES.iter().flat_map(|lines| forms_of(lines)) {
        let (name, beside) = match name.strip_prefix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        if let Some(forms) = all.get_mut(name) {
            if beside { &mut forms.others } else { &mut forms.own }.push(form);
        }
    }
    all
});

/// All other names that plans know, such as the field's operators on dates.
static OTHERS: LazyLock<HashMap<&'static str, Forms>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Forms> = HashMap::new();
    for (name, form) in super::OTHER_LINES.iter().flat_map(|lines| forms_of(lines)) {
        match name.strip_prefix('+') {
            Some(name) => all.entry(name).or_default().others.push(form),
            None => all.entry(name).or_default().own.push(form),
        }
    }
    all
});

/// The form that a call of a plan means, as far as its values can be worked out one by one.
#[must_use]
pub(crate) fn planned(name: &str, given: &[Option<TypeKind>]) -> Option<Called> {
    if FORMS.contains_key(name) {
        return called(name, given);
    }
    let (name, forms) = OTHERS.get_key_value(name)?;
    let form = Form::chosen(&forms.own, &forms.others, given)?;
    form.is_by_row().then_some(Called { name, form })
}

/// The form that a call with arguments of these types means (`None`: without a type); `None` if
/// there is not one, or it is better planned.
#[must_use]
pub fn called(name: &str, given: &[Option<TypeKind>]) -> Option<Called> {
    let (name, forms) = match name {
        FORMATTED => OTHERS.get_key_value(name),
        name => FORMS.get_key_value(name),
    }?;
    let form = Form::chosen(&forms.own, &forms.others, given)?;
    form.is_by_row().then_some(Called { name, form })
}

/// The one of the others that texts of all kinds are made with.
pub const FORMATTED: &str = "to_char";

impl Called {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[must_use]
    pub fn returns(&self) -> ColType {
        self.form.kind_of_result()
    }

    /// The type that an argument is to have.
    #[must_use]
    pub fn arg(&self, at: usize) -> Option<TypeKind> {
        self.form.kind_of_arg(at)
    }

    /// Whether the result depends on nothing but the arguments.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        matches!(self.form.body, Body::One(_))
    }

    /// The same for all sessions, as PostgreSQL has it.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.is_constant() && !STABLE.contains(&self.name.trim_start_matches('$'))
    }

    pub(crate) fn call(&self, args: &[Datum<'_>], env: &FormatEnv) -> Result<Value> {
        if self.form.strict && args.iter().any(Datum::is_null) {
            return Ok(Value::Null);
        }
        self.form.check_digits(self.name, args)?;
        let mut results = Results::default();
        by_row(env.value_bytes, || {
            // What the arguments hold counts, as it is there while the result is made.
            args.iter().try_for_each(|arg| results.count(arg))?;
            let value = match self.form.body {
                Body::One(body) => body(args),
                Body::In(body) => body(args, &env.zone),
                _ => Err(crate::PgError::internal("a function that gives several values")),
            }?;
            results.counted(value)
        })
    }
}

impl PartialEq for Called {
    fn eq(&self, other: &Called) -> bool {
        std::ptr::eq(self.form, other.form)
    }
}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_chosen_as_in_plans() {
        let of = |name: &str, given: &[Option<TypeKind>]| {
            called(name, given).map(|called| called.returns().kind)
        };
        let (int, number, double) =
            (Some(TypeKind::Int4), Some(TypeKind::Numeric), Some(TypeKind::Float8));
        assert_eq!(of("mod", &[number, int]), number);
        assert_eq!(of("mod", &[int, int]), int);
        assert_eq!(of("trunc", &[int]), double, "the preferred type of numbers");
        assert_eq!(of("trunc", &[number, int]), number);
        assert_eq!(of("upper", &[None]), Some(TypeKind::Text));
        assert_eq!(of("sqrt", &[number]), None, "its digits are a plan's");
        assert_eq!(of("mod", &[double, double]), None, "there is no such form");
        assert_eq!(of("no_such", &[int]), None);
        assert_eq!(of("trunc", &[Some(TypeKind::Timestamp)]), Some(TypeKind::Timestamp));
        let text = Some(TypeKind::Text);
        assert_eq!(of("substring", &[text, int]), text);
        assert_eq!(of("substring", &[text, text]), text, "a pattern");
        assert_eq!(of("to_char", &[int, None]), text);
        assert_eq!(of("to_char", &[Some(TypeKind::Timestamptz), text]), text);
        assert_eq!(of("to_char", &[Some(TypeKind::Bool), text]), None);
    }

    #[test]
    fn what_a_call_holds_is_bounded() {
        let (text, int) = (Some(TypeKind::Text), Some(TypeKind::Int4));
        let repeat = called("repeat", &[text, int]).expect("it is there");
        let env = FormatEnv { value_bytes: 1000, ..FormatEnv::plain() };
        let made = |unit: &str, times| {
            repeat.call(&[Datum::Text(unit), Datum::Int4(times)], &env).map_err(|e| e.code)
        };
        assert_eq!(made("xy", 499).map(|value| value.as_datum().is_null()), Ok(false));
        assert_eq!(made("xy", 500), Err("53200"), "with its argument");
        assert_eq!(made("xy", i32::MAX), Err("54000"), "too long anywhere");
    }

    #[test]
    fn what_is_strict_is_null_for_a_null() {
        let lower = called("lower", &[Some(TypeKind::Text)]).expect("it is there");
        let env = FormatEnv::plain();
        assert_eq!(lower.call(&[Datum::Null], &env), Ok(Value::Null));
        assert_eq!(lower.call(&[Datum::Text("AB")], &env), Ok(Value::Text("ab".into())));
    }
}
