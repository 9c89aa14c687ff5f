//! Which of several routines of a name a call means.
//!
//! What it promises: PostgreSQL's rules of implicit casts, told by the types of what is given.

use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{ArgumentDef, RoutineDef, RoutineResult, Routines, Volatility};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

/// A routine that an expression calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoutineRef {
    pub(crate) obj: ObjId,
    pub(crate) result: ColType,
    /// Each row must call it for itself.
    pub(crate) volatile: bool,
}

impl RoutineRef {
    /// # Errors
    /// 0A000 for one that gives no single value.
    pub(crate) fn of(def: &RoutineDef) -> Result<RoutineRef> {
        if def.body.set {
            let text = "set-valued function called in context that cannot accept a set";
            let hint = format!("Write SELECT * FROM {}(…).", def.name);
            return Err(PgError::new("0A000", text).with_hint(hint));
        }
        let result = match def.body.result {
            RoutineResult::Type(ty) => ty,
            RoutineResult::Void => ColType::new(TypeKind::Text),
            RoutineResult::Record | RoutineResult::Row(_) => {
                let text = "a function that gives a row, as a value";
                let hint = format!("Write SELECT * FROM {}(…).", def.name);
                return Err(PgError::unsupported(text).with_hint(hint));
            }
        };
        let volatile = def.body.volatility == Volatility::Volatile;
        Ok(RoutineRef { obj: def.obj, result, volatile })
    }
}

/// What a call gives values for.
pub(crate) fn given(def: &RoutineDef) -> impl Iterator<Item = &ArgumentDef> + Clone {
    def.body.args.iter().filter(|arg| arg.mode.is_given())
}

/// The columns of what a routine gives, unless they are a table's: names and types.
pub(crate) fn columns_of(def: &RoutineDef) -> Vec<(String, ColType)> {
    let results: Vec<&ArgumentDef> =
        def.body.args.iter().filter(|arg| arg.mode.is_result()).collect();
    if !results.is_empty() {
        let named = |(i, arg): (usize, &&ArgumentDef)| match arg.name.as_str() {
            "" => (format!("column{}", i + 1), arg.ty),
            name => (name.to_owned(), arg.ty),
        };
        return results.iter().enumerate().map(named).collect();
    }
    match def.body.result {
        RoutineResult::Type(ty) => vec![(def.name.clone(), ty)],
        RoutineResult::Void | RoutineResult::Record | RoutineResult::Row(_) => Vec::new(),
    }
}

/// Whether a value of one type is taken for one of another without a cast; how far apart they are.
fn distance(from: ColType, to: ColType) -> Option<u32> {
    const NUMBERS: [TypeKind; 6] = [
        TypeKind::Int2,
        TypeKind::Int4,
        TypeKind::Int8,
        TypeKind::Numeric,
        TypeKind::Float4,
        TypeKind::Float8,
    ];
    const TIMES: [TypeKind; 3] = [TypeKind::Date, TypeKind::Timestamp, TypeKind::Timestamptz];
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return distance(from, to);
    }
    let same = from.kind == to.kind
        && match from.kind {
            TypeKind::Array => false,
            TypeKind::Enum => {
                from.enum_type().map(|def| def.obj) == to.enum_type().map(|def| def.obj)
            }
            _ => true,
        };
    if same {
        return Some(0);
    }
    if from.kind.is_text() && to.kind.is_text() {
        return Some(1);
    }
    if (from.kind, to.kind) == (TypeKind::Time, TypeKind::Interval) {
        return Some(1);
    }
    for family in [&NUMBERS[..], &TIMES[..]] {
        let at = |kind| family.iter().position(|known| *known == kind);
        if let (Some(from), Some(to)) = (at(from.kind), at(to.kind)) {
            return (from < to).then(|| u32::try_from(to - from).unwrap_or(u32::MAX));
        }
    }
    None
}

/// Kinds of types, as PostgreSQL's categories.
fn category(ty: ColType) -> u8 {
    match ty.kind {
        kind if kind.is_text() => 0,
        TypeKind::Int2
        | TypeKind::Int4
        | TypeKind::Int8
        | TypeKind::Numeric
        | TypeKind::Float4
        | TypeKind::Float8 => 1,
        TypeKind::Date | TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Time => 2,
        TypeKind::Interval => 3,
        TypeKind::Bool => 4,
        TypeKind::Array => 5,
        _ => 6,
    }
}

/// The type that is taken first of its category.
fn is_preferred(ty: ColType) -> bool {
    matches!(
        ty.kind,
        TypeKind::Text
            | TypeKind::Float8
            | TypeKind::Timestamptz
            | TypeKind::Interval
            | TypeKind::Bool
    )
}

/// Leaves of the candidates those that untyped literals mean: texts first, else the preferred type
/// where all are of one category.
fn by_literals(left: &mut Vec<&Arc<RoutineDef>>, types: &[Option<ColType>]) {
    for (at, ty) in types.iter().enumerate() {
        if ty.is_some() || left.len() < 2 {
            continue;
        }
        let of = |def: &Arc<RoutineDef>| given(def).nth(at).map(|arg| arg.ty);
        let is_text = |def: &Arc<RoutineDef>| of(def).is_some_and(|ty| category(ty) == 0);
        if left.iter().any(|def| is_text(def)) {
            left.retain(|def| is_text(def));
        }
        let first = left.first().and_then(|def| of(def)).map(category);
        let alike = left.iter().all(|def| of(def).map(category) == first);
        let preferred = |def: &Arc<RoutineDef>| of(def).is_some_and(is_preferred);
        if alike && left.iter().any(|def| preferred(def)) {
            left.retain(|def| preferred(def));
        }
    }
}

/// Of the candidates with these numbers the one that values of these types mean; `None`: untyped.
///
/// # Errors
/// 42883: none; 42725: several.
pub(crate) fn choose<'a>(
    routines: &'a Routines,
    candidates: &[ObjId],
    types: &[Option<ColType>],
) -> Result<&'a Arc<RoutineDef>> {
    let all: Vec<&Arc<RoutineDef>> =
        candidates.iter().filter_map(|obj| routines.by_obj(*obj)).collect();
    let mut best: Vec<(&Arc<RoutineDef>, (usize, usize))> = Vec::new();
    for def in &all {
        let mut args = given(def);
        let (mut exact, mut preferred, mut fits) = (0_usize, 0_usize, true);
        for ty in types {
            // The last one stands for all further ones, as an array does.
            let Some(arg) = args.next() else { break };
            match ty {
                None => {}
                Some(ty) => match distance(*ty, arg.ty) {
                    Some(0) => exact += 1,
                    Some(_) => preferred += usize::from(is_preferred(arg.ty)),
                    None => fits = false,
                },
            }
        }
        if fits {
            best.push((def, (exact, preferred)));
        }
    }
    let shown = || {
        let name = all.first().map_or("", |def| def.name.as_str());
        let types = types.iter().map(|ty| match ty {
            Some(ty) => ty.without_limit().to_string(),
            None => "unknown".to_owned(),
        });
        format!("{name}({})", types.collect::<Vec<_>>().join(", "))
    };
    let Some(most) = best.iter().map(|(_, score)| *score).max() else {
        return Err(no_function(&shown()));
    };
    let mut left: Vec<&Arc<RoutineDef>> =
        best.iter().filter(|(_, score)| *score == most).map(|(def, _)| *def).collect();
    by_literals(&mut left, types);
    match left[..] {
        [def] => Ok(def),
        _ => Err(PgError::new("42725", format!("function {} is not unique", shown())).with_hint(
            "Could not choose a best candidate function. You might need to add explicit type \
             casts.",
        )),
    }
}

/// 42883.
pub(crate) fn no_function(shown: &str) -> PgError {
    PgError::new("42883", format!("function {shown} does not exist")).with_hint(
        "No function matches the given name and argument types. You might need to add explicit \
         type casts.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::dict::{ArgumentMode, Derived, RoutineBody};

    fn routine(obj: u32, kinds: &[TypeKind]) -> Arc<RoutineDef> {
        let arg = |kind: &TypeKind| ArgumentDef {
            name: String::new(),
            mode: ArgumentMode::In,
            ty: ColType::new(*kind),
            default: None,
        };
        Arc::new(RoutineDef {
            obj: ObjId(obj),
            schema: "public".into(),
            name: "f".into(),
            signature: format!("{kinds:?}"),
            owner: ObjId(10),
            acl: None,
            comment: None,
            times: kernel::dict::Times::default(),
            body: RoutineBody {
                procedure: false,
                args: kinds.iter().map(arg).collect(),
                result: RoutineResult::Void,
                set: false,
                language: "sql".into(),
                strict: false,
                volatility: Volatility::Volatile,
                definer: false,
                options: String::new(),
                text: String::new(),
            },
            derived: Derived::default(),
        })
    }

    #[test]
    fn exact_types_win_then_preferred_ones() {
        use TypeKind::{Bool, Float8, Int4, Int8, Numeric, Text};
        let all = vec![
            routine(1, &[Int4]),
            routine(2, &[Int8]),
            routine(3, &[Text]),
            routine(4, &[Numeric]),
        ];
        let routines = Routines { all, version: 1 };
        let objs = [1, 2, 3, 4].map(ObjId);
        let means = |kind: Option<TypeKind>| {
            let types = [kind.map(ColType::new)];
            choose(&routines, &objs, &types).map(|def| def.obj.0).map_err(|error| error.code)
        };
        assert_eq!((means(Some(Int4)), means(Some(Int8)), means(None)), (Ok(1), Ok(2), Ok(3)));
        assert_eq!((means(Some(Float8)), means(Some(Bool))), (Err("42883"), Err("42883")));
        // A smallint is as near to each of the numbers.
        assert_eq!(means(Some(TypeKind::Int2)), Err("42725"));
        let error = choose(&routines, &objs, &[Some(ColType::new(Bool))]).unwrap_err();
        assert_eq!(error.message, "function f(boolean) does not exist");
    }
}
