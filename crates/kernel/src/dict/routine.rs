//! Functions and procedures: definitions, and the rows that hold them (`proc$`, `arg$`).
//!
//! All routines are one definition with one version, as the types are: together they decide what a
//! call means. Their bodies are texts that only the layer above understands. Nothing here locks or
//! caches.

use block::ObjId;
use observe::Ctx;

use super::acl::Acl;
use super::def::Derived;
use super::fixed::Fixed;
use super::records::{acl_of, read_type, stored_modifier};
use super::state::Dict;
use super::store::{self, Record, int4, obj, text_or_null};
use super::times::Times;
use crate::error::{Error, Result};
use crate::row::{ColType, Datum, TypeKind};
use crate::txn::Snapshot;

/// Positions of columns of `proc$` that are changed by themselves.
pub(super) mod at {
    pub const SCHEMA: usize = 1;
    pub const NAME: usize = 2;
    pub const OWNER: usize = 4;
    pub const OPTIONS: usize = 12;
    pub const ACL: usize = 14;
    pub const COMMENT: usize = 15;
    pub const STRICT: usize = 9;
    pub const VOLATILITY: usize = 10;
    pub const DEFINER: usize = 11;
    pub const TIMES: usize = 18;
}

/// Which way an argument goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentMode {
    In,
    Out,
    InOut,
    /// All further arguments, as an array.
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

impl ArgumentMode {
    /// The letter, as in `pg_proc.proargmodes`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            ArgumentMode::In => "i",
            ArgumentMode::Out => "o",
            ArgumentMode::InOut => "b",
            ArgumentMode::Variadic => "v",
            ArgumentMode::Table => "t",
        }
    }

    fn from_code(code: &str) -> Option<ArgumentMode> {
        use ArgumentMode::{In, InOut, Out, Table, Variadic};
        [In, Out, InOut, Variadic, Table].into_iter().find(|mode| mode.code() == code)
    }

    /// Whether a call gives it a value.
    #[must_use]
    pub const fn is_given(self) -> bool {
        matches!(self, ArgumentMode::In | ArgumentMode::InOut | ArgumentMode::Variadic)
    }

    /// Whether the result holds it.
    #[must_use]
    pub const fn is_result(self) -> bool {
        matches!(self, ArgumentMode::Out | ArgumentMode::InOut | ArgumentMode::Table)
    }
}

/// An argument of a routine, or a column of its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentDef {
    /// Empty: it has none.
    pub name: String,
    pub mode: ArgumentMode,
    pub ty: ColType,
    /// SQL text of the expression that stands for it where a call does not give it.
    pub default: Option<String>,
}

/// What a routine gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutineResult {
    /// Nothing: a procedure without OUT arguments, a function that returns void.
    Void,
    Type(ColType),
    /// A row of its OUT arguments or of RETURNS TABLE.
    Record,
    /// A row of a table or view.
    Row(ObjId),
}

impl RoutineResult {
    const fn code(self) -> &'static str {
        match self {
            RoutineResult::Void => "v",
            RoutineResult::Type(_) => "t",
            RoutineResult::Record => "r",
            RoutineResult::Row(_) => "c",
        }
    }
}

/// What calls of a function depend on besides their arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

impl Volatility {
    /// The letter, as in `pg_proc.provolatile`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        }
    }

    fn from_code(code: &str) -> Option<Volatility> {
        use Volatility::{Immutable, Stable, Volatile};
        [Immutable, Stable, Volatile].into_iter().find(|one| one.code() == code)
    }
}

/// What a routine is besides its name and its owner; CREATE OR REPLACE gives it another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineBody {
    pub procedure: bool,
    pub args: Vec<ArgumentDef>,
    pub result: RoutineResult,
    /// Whether it gives any number of them.
    pub set: bool,
    pub language: String,
    /// NULL is the result where an argument is NULL.
    pub strict: bool,
    pub volatility: Volatility,
    /// It runs with the rights of its owner.
    pub definer: bool,
    /// What else was said of it, in words of the layer above.
    pub options: String,
    pub text: String,
}

/// A function or procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineDef {
    pub obj: ObjId,
    pub schema: String,
    pub name: String,
    /// Tells routines of one name apart: the types of what is given in a call.
    pub signature: String,
    pub owner: ObjId,
    pub acl: Option<Acl>,
    pub comment: Option<String>,
    pub times: Times,
    pub body: RoutineBody,
    /// What the layer above makes of it.
    pub derived: Derived,
}

/// All of them, as of one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routines {
    /// In the order of schema, name and signature.
    pub all: Vec<std::sync::Arc<RoutineDef>>,
    pub version: u64,
}

impl Routines {
    /// The routine with this number.
    #[must_use]
    pub fn by_obj(&self, obj: ObjId) -> Option<&std::sync::Arc<RoutineDef>> {
        self.all.iter().find(|routine| routine.obj == obj)
    }

    /// Those of a name.
    pub fn named(
        &self,
        schema: &str,
        name: &str,
    ) -> impl Iterator<Item = &std::sync::Arc<RoutineDef>> {
        self.all.iter().filter(move |routine| routine.schema == schema && routine.name == name)
    }
}

/// A type as it is stored: an enum by its number.
async fn type_of(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    row: &Record,
    at: usize,
) -> Result<ColType> {
    let kind = u8::try_from(row.int(at)?).ok().and_then(TypeKind::from_code);
    let kind = kind.ok_or_else(|| row.unknown("type"))?;
    let modifier = row.int4(at + 1)?;
    if kind != TypeKind::Enum {
        return Ok(ColType { kind, modifier });
    }
    let number = ObjId(modifier.cast_unsigned());
    let found = store::one(ctx, snap, dict.fixed(Fixed::Type), 0, &[obj(number)]).await?;
    let missing = || Error::Invariant(format!("a routine names type {}, which is none", number.0));
    Ok(read_type(ctx, dict, snap, &found.ok_or_else(missing)?).await?.ty)
}

async fn argument_of(ctx: &Ctx, dict: &Dict, snap: &Snapshot, row: &Record) -> Result<ArgumentDef> {
    let mode = ArgumentMode::from_code(row.text(3)?);
    Ok(ArgumentDef {
        name: row.text(2)?.to_owned(),
        mode: mode.ok_or_else(|| row.unknown("mode of an argument"))?,
        ty: type_of(ctx, dict, snap, row, 4).await?,
        default: row.text_or_null(6)?.map(str::to_owned),
    })
}

/// The routine that a row of `proc$` describes.
pub(super) async fn read_routine(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    row: &Record,
) -> Result<RoutineDef> {
    let number = row.obj(0)?;
    let mut args = Vec::new();
    for arg in &store::by_key(ctx, snap, dict.fixed(Fixed::Arg), 0, &[obj(number)]).await? {
        args.push(argument_of(ctx, dict, snap, arg).await?);
    }
    let result = match row.text(6)? {
        "v" => RoutineResult::Void,
        "t" => RoutineResult::Type(type_of(ctx, dict, snap, row, 16).await?),
        "r" => RoutineResult::Record,
        "c" => RoutineResult::Row(ObjId(row.int4(17)?.cast_unsigned())),
        _ => return Err(row.unknown("result of a routine")),
    };
    let procedure = match row.text(5)? {
        "f" => false,
        "p" => true,
        _ => return Err(row.unknown("kind of routine")),
    };
    let volatility = Volatility::from_code(row.text(at::VOLATILITY)?);
    Ok(RoutineDef {
        obj: number,
        schema: row.text(at::SCHEMA)?.to_owned(),
        name: row.text(at::NAME)?.to_owned(),
        signature: row.text(3)?.to_owned(),
        owner: row.obj(at::OWNER)?,
        acl: acl_of(row, at::ACL)?,
        comment: row.text_or_null(at::COMMENT)?.map(str::to_owned),
        times: Times::read(row, at::TIMES)?,
        body: RoutineBody {
            procedure,
            args,
            result,
            set: row.bool(7)?,
            language: row.text(8)?.to_owned(),
            strict: row.bool(at::STRICT)?,
            volatility: volatility.ok_or_else(|| row.unknown("volatility"))?,
            definer: row.bool(at::DEFINER)?,
            options: row.text(at::OPTIONS)?.to_owned(),
            text: row.text(13)?.to_owned(),
        },
        derived: Derived::default(),
    })
}

/// The row of `proc$`; `acl` is the text of the rights.
pub(super) fn routine_values<'a>(
    def: &'a RoutineDef,
    acl: Option<&'a str>,
) -> Result<[Datum<'a>; 21]> {
    let body = &def.body;
    let [made, altered, shaped] = def.times.values();
    let (kind, modifier) = match body.result {
        RoutineResult::Type(ty) => (i32::from(ty.kind.code()), stored_modifier(ty)),
        RoutineResult::Row(table) => (0, table.0.cast_signed()),
        RoutineResult::Void | RoutineResult::Record => (0, 0),
    };
    Ok([
        obj(def.obj),
        Datum::Text(&def.schema),
        Datum::Text(&def.name),
        Datum::Text(&def.signature),
        obj(def.owner),
        Datum::Text(if body.procedure { "p" } else { "f" }),
        Datum::Text(body.result.code()),
        Datum::Bool(body.set),
        Datum::Text(&body.language),
        Datum::Bool(body.strict),
        Datum::Text(body.volatility.code()),
        Datum::Bool(body.definer),
        Datum::Text(&body.options),
        Datum::Text(&body.text),
        text_or_null(acl),
        text_or_null(def.comment.as_deref()),
        Datum::Int4(kind),
        Datum::Int4(modifier),
        made,
        altered,
        shaped,
    ])
}

/// A row of `arg$`.
pub(super) fn argument_values(
    routine: ObjId,
    position: usize,
    def: &ArgumentDef,
) -> Result<[Datum<'_>; 7]> {
    Ok([
        obj(routine),
        int4(position)?,
        Datum::Text(&def.name),
        Datum::Text(def.mode.code()),
        Datum::Int4(i32::from(def.ty.kind.code())),
        Datum::Int4(stored_modifier(def.ty)),
        text_or_null(def.default.as_deref()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_back() {
        use ArgumentMode::{In, InOut, Out, Table, Variadic};
        for mode in [In, Out, InOut, Variadic, Table] {
            assert_eq!(ArgumentMode::from_code(mode.code()), Some(mode));
        }
        for one in [Volatility::Immutable, Volatility::Stable, Volatility::Volatile] {
            assert_eq!(Volatility::from_code(one.code()), Some(one));
        }
        assert_eq!((ArgumentMode::from_code("x"), Volatility::from_code("x")), (None, None));
    }
}
