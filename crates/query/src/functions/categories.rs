//! Categories of types, as PostgreSQL has them for finding out what a call means.
//!
//! What it promises: PostgreSQL's categories, preferred types and implicit casts, of the types that
//! there are. What it must never do: let a cast be implicit that can lose something.

use kernel::row::TypeKind;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    Number,
    String,
    Instant,
    Other(TypeKind),
}

pub(super) fn category(kind: TypeKind) -> Category {
    match kind {
        TypeKind::Int2
        | TypeKind::Int4
        | TypeKind::Int8
        | TypeKind::Float4
        | TypeKind::Float8
        | TypeKind::Numeric => Category::Number,
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => Category::String,
        TypeKind::Date | TypeKind::Timestamp | TypeKind::Timestamptz => Category::Instant,
        other => Category::Other(other),
    }
}

pub(super) fn preferred(kind: TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Bool
            | TypeKind::Text
            | TypeKind::Float8
            | TypeKind::Timestamptz
            | TypeKind::Interval
    )
}

/// Whether a value of one kind becomes one of another without a cast being written.
pub(super) fn implicit(from: TypeKind, to: TypeKind) -> bool {
    let rank = |kind| match kind {
        TypeKind::Int2 => 1,
        TypeKind::Int4 => 2,
        TypeKind::Int8 => 3,
        TypeKind::Numeric => 4,
        TypeKind::Float4 => 5,
        TypeKind::Float8 => 6,
        TypeKind::Date => 11,
        TypeKind::Timestamp => 12,
        TypeKind::Timestamptz => 13,
        _ => 0,
    };
    let (a, b) = (rank(from), rank(to));
    if a != 0 && b != 0 && (a < 10) == (b < 10) {
        return a <= b;
    }
    from == to
        || (from.is_text() && to.is_text())
        || (from == TypeKind::Time && to == TypeKind::Interval)
}
