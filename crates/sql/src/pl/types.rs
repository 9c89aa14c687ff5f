//! Types that the field's code declares: records, collections and other names for types; and how
//! their elements and fields are named.
//!
//! What it promises: what a name with indexes and fields stands for is known when the code is read.
//! What it must never do: take a name for a collection's that is a variable of another kind.

use super::declare::DATE_QUERY;
use super::lex::Tok;
use super::parse::{Name, Parser};
use super::tree::{Access, Made, Passed, Slot, Sql, TypeName, Use, Variable, Whole};
use crate::{PgError, Result};
use std::sync::Arc;

/// A collection's type.
#[derive(Debug)]
pub(super) struct CollectionSpec {
    pub(super) name: String,
    pub(super) kind: CollectionKind,
    pub(super) element: TypeName,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CollectionKind {
    ByInteger,
    /// With the most characters of an index.
    ByText(usize),
    Nested,
    /// With the most elements.
    Varray(usize),
}

impl CollectionKind {
    /// Whether its elements are found by keys, and come to be when they are assigned.
    pub(super) const fn is_associative(self) -> bool {
        matches!(self, CollectionKind::ByInteger | CollectionKind::ByText(_))
    }
}

/// A record's type.
#[derive(Debug)]
pub(super) struct RecordSpec {
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) ty: TypeName,
    pub(super) default: Option<Sql>,
}

/// What can be asked of a collection, and done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Count,
    First,
    Last,
    Next,
    Prior,
    Exists,
    Limit,
    Delete,
    Extend,
    Trim,
}

impl Method {
    const ALL: [(&'static str, Method, std::ops::RangeInclusive<usize>); 10] = [
        ("count", Method::Count, 0..=0),
        ("first", Method::First, 0..=0),
        ("last", Method::Last, 0..=0),
        ("next", Method::Next, 1..=1),
        ("prior", Method::Prior, 1..=1),
        ("exists", Method::Exists, 1..=1),
        ("limit", Method::Limit, 0..=0),
        ("delete", Method::Delete, 0..=2),
        ("extend", Method::Extend, 0..=2),
        ("trim", Method::Trim, 0..=1),
    ];

    /// Whether it changes the collection and has no value.
    pub(super) const fn changes(self) -> bool {
        matches!(self, Method::Delete | Method::Extend | Method::Trim)
    }
}

/// What a name stands for, as a whole.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Scalar,
    Record,
    Collection(Arc<CollectionSpec>),
}

impl Shape {
    pub(super) fn of(ty: &TypeName) -> Shape {
        match ty {
            TypeName::Collection(spec) => Shape::Collection(spec.clone()),
            ty if ty.is_record() => Shape::Record,
            _ => Shape::Scalar,
        }
    }
}

/// A collection's name with all that is behind it.
pub(super) struct Path {
    pub(super) slot: Slot,
    pub(super) indexes: Vec<Sql>,
    pub(super) field: Option<String>,
    pub(super) method: Option<(Method, Vec<Sql>)>,
    pub(super) shape: Shape,
}

impl Path {
    /// The variable, element or field that it names.
    pub(super) fn into_use(self) -> Use {
        match self.indexes.is_empty() && self.field.is_none() {
            true => Use::of(self.slot),
            false => {
                let Path { indexes, field, .. } = self;
                Use::with(self.slot, Access::Element { indexes, field })
            }
        }
    }
}

/// Most characters of an index whose type gives no length.
const KEY_CHARS_MAX: usize = 32_767;

impl Parser<'_> {
    /// `type t is ..`, behind the word.
    pub(super) fn declare_type(&mut self) -> Result<()> {
        let name = self.name()?;
        self.expect("is")?;
        let ty = if self.word("record") {
            self.record_type()?
        } else if self.word("table") {
            self.expect("of")?;
            let element = self.element_type()?;
            let kind = match self.words(&["index", "by"]) {
                true => self.key_type()?,
                false => CollectionKind::Nested,
            };
            TypeName::Collection(Arc::new(CollectionSpec { name: name.clone(), kind, element }))
        } else if self.word("varray") || self.words(&["varying", "array"]) {
            self.expect_symbol("(")?;
            let limit = self.number()?;
            self.expect_symbol(")")?;
            self.expect("of")?;
            let (kind, element) = (CollectionKind::Varray(limit), self.element_type()?);
            TypeName::Collection(Arc::new(CollectionSpec { name: name.clone(), kind, element }))
        } else if self.words(&["ref", "cursor"]) {
            if self.word("return") {
                self.type_name()?;
            }
            self.expect_symbol(";")?;
            return self.declare(&name, Name::CursorType);
        } else if self.is_symbol("(") || self.is("object") {
            let text = format!("type \"{name}\" of this kind in a block");
            return Err(self.unsupported(text, "A block declares records and collections."));
        } else {
            return Err(self.near());
        };
        self.expect_symbol(";")?;
        self.new_type(&name, ty)
    }

    /// `subtype t is ..`, behind the word.
    pub(super) fn declare_subtype(&mut self) -> Result<()> {
        let name = self.name()?;
        self.expect("is")?;
        let (ty, _) = self.type_name()?;
        if self.word("range") {
            let text = "RANGE of a subtype";
            return Err(self.unsupported(text, "Check the value where it is assigned."));
        }
        if self.words(&["not", "null"]) {
            let text = "NOT NULL of a subtype";
            return Err(self.unsupported(text, "Declare the variables NOT NULL."));
        }
        self.expect_symbol(";")?;
        self.new_type(&name, ty)
    }

    fn new_type(&mut self, name: &str, ty: TypeName) -> Result<()> {
        self.types.push(ty);
        self.declare(name, Name::Type(self.types.len() - 1))
    }

    pub(super) fn number(&mut self) -> Result<usize> {
        let token = &self.tokens[self.at];
        let number = self.text[token.at..token.end].parse().map_err(|_| self.near())?;
        self.advance();
        Ok(number)
    }

    fn element_type(&mut self) -> Result<TypeName> {
        if self.is_any(&["refcursor", "sys_refcursor"]) {
            let text = "a collection of cursors";
            return Err(self.unsupported(text, "Use a variable for each cursor."));
        }
        let (ty, _) = self.type_name()?;
        let _ = self.words(&["not", "null"]);
        if matches!(ty, TypeName::Record) {
            return Err(self.near());
        }
        Ok(ty)
    }

    fn key_type(&mut self) -> Result<CollectionKind> {
        const INTEGERS: [&str; 8] = [
            "pls_integer",
            "binary_integer",
            "simple_integer",
            "integer",
            "int",
            "natural",
            "naturaln",
            "positive",
        ];
        if self.is_any(&INTEGERS) {
            self.advance();
            return Ok(CollectionKind::ByInteger);
        }
        if self.is_any(&["varchar2", "varchar", "string", "long"]) {
            self.advance();
            let mut most = KEY_CHARS_MAX;
            if self.symbol("(") {
                most = self.number()?;
                let _ = self.word("char") || self.word("byte");
                self.expect_symbol(")")?;
            }
            return Ok(CollectionKind::ByText(most));
        }
        if let Tok::Word(name) = self.tok().clone()
            && let Some(Name::Type(at)) = self.lookup(&name)
            && let TypeName::Query(sql, false) = self.types[at].clone()
        {
            self.advance();
            let is_text = sql.text.contains("char") || sql.text.contains("text");
            return Ok(match is_text {
                true => CollectionKind::ByText(KEY_CHARS_MAX),
                false => CollectionKind::ByInteger,
            });
        }
        let (ty, _) = self.type_name()?;
        match ty {
            // A column's: whatever it is, its texts are in an order.
            TypeName::Query(..) | TypeName::Like(_, false) => {
                Ok(CollectionKind::ByText(KEY_CHARS_MAX))
            }
            _ => Err(self.near()),
        }
    }

    fn record_type(&mut self) -> Result<TypeName> {
        self.expect_symbol("(")?;
        let mut fields: Vec<Field> = Vec::new();
        loop {
            let name = self.name()?;
            if self.is_cursor_type() {
                let text = "a cursor as a field of a record";
                return Err(self.unsupported(text, "Keep it in a variable of its own."));
            }
            let (ty, is_record) = self.type_name()?;
            if is_record || matches!(ty, TypeName::Collection(_)) {
                let what = if is_record { "record" } else { "collection" };
                let text = format!("a {what} as a field of a record");
                return Err(self.unsupported(text, "Keep it in a variable of its own."));
            }
            let _ = self.words(&["not", "null"]);
            let default = match self.symbol(":=") || self.word("default") {
                true => Some(self.expr_until(&[], &[",", ")"])?),
                false => None,
            };
            if fields.iter().any(|field| field.name == name) {
                return Err(self.error("42701", format!("field \"{name}\" is declared twice")));
            }
            fields.push(Field { name, ty, default });
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        Ok(TypeName::Fields(Arc::new(super::types::RecordSpec { fields })))
    }

    /// The type that the code has declared by the name at hand.
    pub(super) fn own_type(&mut self) -> Option<TypeName> {
        let (Tok::Word(name) | Tok::Quoted(name)) = self.tok() else { return None };
        if matches!(self.peek(1), Tok::Symbol("." | "%" | "(")) {
            return None;
        }
        let Some(Name::Type(at)) = self.lookup(name) else { return None };
        self.advance();
        Some(self.types[at].clone())
    }

    /// Declares a variable, a parameter or what a function gives.
    pub(super) fn declare_as(&mut self, name: &str, slot: Slot, ty: &TypeName) -> Result<()> {
        let what = match Shape::of(ty) {
            Shape::Scalar => {
                let is_date = match ty {
                    TypeName::Query(sql, false) => sql.text == DATE_QUERY,
                    TypeName::Like(other, false) => self.dates.contains(other),
                    _ => false,
                };
                if is_date {
                    self.dates.insert(slot);
                }
                Name::Scalar(slot)
            }
            Shape::Record => Name::Record(slot),
            Shape::Collection(spec) => {
                self.collections.insert(slot, spec);
                Name::Collection(slot)
            }
        };
        self.declare(name, what)
    }

    /// Puts what a record or collection begins with into its declaration.
    pub(super) fn default_of(&mut self, variable: &mut Variable) -> Result<()> {
        match Shape::of(&variable.ty) {
            Shape::Scalar => variable.default = Some(self.expr_until(&[], &[";"])?),
            shape => {
                let whole = self.whole(&shape, &[";"])?;
                variable.whole = Some(whole.ok_or_else(|| self.not_whole(&shape))?);
            }
        }
        Ok(())
    }

    pub(super) fn not_whole(&self, shape: &Shape) -> PgError {
        let text = match shape {
            Shape::Collection(spec) => format!(
                "a collection of type \"{0}\" takes another one of that type, {0}(..) or null",
                spec.name
            ),
            _ => "a record takes another record, or null".to_owned(),
        };
        self.error("42804", text)
    }

    // ---- names with indexes and fields ------------------------------------------------------

    /// A collection by its name, with all that is behind it; `None`: no collection is named here.
    pub(super) fn path(&mut self) -> Result<Option<Path>> {
        let (Tok::Word(name) | Tok::Quoted(name)) = self.tok().clone() else { return Ok(None) };
        let mut slot = match self.lookup(&name) {
            Some(Name::Collection(slot)) => Some(slot),
            _ => None,
        };
        let mut len = 1;
        if slot.is_none()
            && self.is_at(1, ".")
            && let Tok::Word(second) | Tok::Quoted(second) = self.peek(2).clone()
            && let Some(Name::Collection(found)) = self.lookup_in(&name, &second)
        {
            (slot, len) = (Some(found), 3);
        }
        let Some(slot) = slot else { return Ok(None) };
        self.at += len;
        let mut shape = Shape::Collection(self.collections[&slot].clone());
        let (mut indexes, mut field, mut method) = (Vec::new(), None, None);
        loop {
            match shape {
                Shape::Collection(ref spec) if self.is_symbol("(") => {
                    let element = Shape::of(&spec.element);
                    self.advance();
                    indexes.push(self.expr_until(&[], &[")"])?);
                    self.expect_symbol(")")?;
                    shape = element;
                }
                Shape::Collection(_) if self.is_symbol(".") => {
                    self.advance();
                    method = Some(self.method()?);
                    break;
                }
                Shape::Record if self.is_symbol(".") && field.is_none() => {
                    self.advance();
                    // All of them, as `r.*` is.
                    field = match self.tok() {
                        Tok::Other('*') => {
                            self.advance();
                            Some(super::names::ALL_FIELDS.to_owned())
                        }
                        _ => Some(self.name()?),
                    };
                    shape = Shape::Scalar;
                }
                _ => break,
            }
        }
        Ok(Some(Path { slot, indexes, field, method, shape }))
    }

    /// A method and its arguments.
    fn method(&mut self) -> Result<(Method, Vec<Sql>)> {
        let name = self.name()?;
        let known = Method::ALL.iter().find(|(known, ..)| *known == name);
        let Some((_, method, wanted)) = known else {
            let text = format!("a collection has no method \"{name}\"");
            return Err(self.error("42883", text));
        };
        let args = self.call_arguments()?;
        if !wanted.contains(&args.len()) {
            let text = format!("method \"{name}\" does not take {} arguments", args.len());
            return Err(self.error("42883", text));
        }
        Ok((*method, args))
    }

    /// A record or collection as a whole, up to one of these symbols, which is left; `None`: it is
    /// something else, of which nothing is taken.
    pub(super) fn whole(&mut self, wanted: &Shape, ends: &[&str]) -> Result<Option<Whole>> {
        let from = self.at;
        let found = self.whole_of(wanted)?;
        let ended = matches!(self.tok(), Tok::Symbol(s) if ends.contains(s));
        match found {
            Some(whole) if ended => Ok(Some(whole)),
            _ => {
                self.at = from;
                Ok(None)
            }
        }
    }

    fn whole_of(&mut self, wanted: &Shape) -> Result<Option<Whole>> {
        if self.word("null") {
            return Ok(Some(Whole::Null));
        }
        let (Tok::Word(name) | Tok::Quoted(name)) = self.tok().clone() else { return Ok(None) };
        match self.lookup(&name) {
            Some(Name::Record(slot)) if matches!(wanted, Shape::Record) => {
                self.advance();
                return Ok(Some(Whole::Variable(Use::of(slot))));
            }
            Some(Name::Routine(at)) => {
                let shape = self.routines[at].result.as_ref().map(|(_, ty)| Shape::of(ty));
                return match (wanted, shape) {
                    (Shape::Record, Some(Shape::Record)) => {
                        Ok(Some(Whole::Call(self.local_call()?)))
                    }
                    (Shape::Collection(a), Some(Shape::Collection(b))) => {
                        self.check_same(a, &b)?;
                        Ok(Some(Whole::Call(self.local_call()?)))
                    }
                    _ => Ok(None),
                };
            }
            Some(Name::Type(at)) if self.is_at(1, "(") => {
                let TypeName::Collection(spec) = self.types[at].clone() else {
                    let text = format!("a constructor of record type \"{name}\"");
                    return Err(self.unsupported(text, "Assign its fields one by one."));
                };
                if let Shape::Collection(wanted) = wanted {
                    self.check_same(wanted, &spec)?;
                }
                self.advance();
                return self.constructor(&spec).map(Some);
            }
            _ => {}
        }
        let Some(path) = self.path()? else { return Ok(None) };
        if path.method.is_some() {
            return Ok(None);
        }
        match (wanted, &path.shape) {
            (Shape::Record, Shape::Record) => Ok(Some(Whole::Variable(path.into_use()))),
            (Shape::Collection(a), Shape::Collection(b)) => {
                self.check_same(a, b)?;
                Ok(Some(Whole::Variable(path.into_use())))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn check_same(
        &self,
        a: &Arc<CollectionSpec>,
        b: &Arc<CollectionSpec>,
    ) -> Result<()> {
        match Arc::ptr_eq(a, b) {
            true => Ok(()),
            false => {
                let text = format!(
                    "a collection of type \"{}\" is wanted, not one of type \"{}\"",
                    a.name, b.name
                );
                Err(self.error("42804", text))
            }
        }
    }

    /// What is in a constructor's parentheses.
    fn constructor(&mut self, spec: &Arc<CollectionSpec>) -> Result<Whole> {
        self.expect_symbol("(")?;
        let shape = Shape::of(&spec.element);
        let mut elements = Vec::new();
        if !self.symbol(")") {
            loop {
                let key = match spec.kind.is_associative() {
                    true => {
                        let key = self.expr_until(&[], &["=>", ",", ")"])?;
                        self.expect_symbol("=>")?;
                        Some(key)
                    }
                    false => None,
                };
                let made = match &shape {
                    Shape::Scalar => Made::Value(self.expr_until(&[], &[",", ")"])?),
                    shape => {
                        let whole = self.whole(shape, &[",", ")"])?;
                        Made::Whole(whole.ok_or_else(|| self.not_whole(shape))?)
                    }
                };
                elements.push((key, made));
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        Ok(Whole::Make { spec: spec.clone(), elements })
    }

    /// What a parameter of this type is given, up to one of these symbols.
    pub(super) fn passed(&mut self, ty: &TypeName, ends: &[&str]) -> Result<Passed> {
        match Shape::of(ty) {
            Shape::Scalar => Ok(Passed::Value(self.expr_until(&[], ends)?)),
            shape => {
                let whole = self.whole(&shape, ends)?;
                Ok(Passed::Whole(whole.ok_or_else(|| self.not_whole(&shape))?))
            }
        }
    }
}
