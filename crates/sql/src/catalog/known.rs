//! What PostgreSQL's catalog says of the types, functions, operators and casts that are here too:
//! tables of text, one line an object, in the order of their OIDs.
//!
//! What it promises: OIDs and names are PostgreSQL's, so that clients which know them find them.
//! What it must never do: list what a statement cannot use.

use std::sync::LazyLock;

/// A table's lines, split into fields.
pub(super) struct Lines(Vec<Vec<&'static str>>);

fn lines(text: &'static str) -> Lines {
    let rows = text.lines().filter(|line| !line.starts_with("# "));
    Lines(rows.map(|line| line.split('\t').collect()).collect())
}

impl Lines {
    pub(super) fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        self.0.iter().map(|fields| Line(fields))
    }

    /// The line of an object by its number, which is the first field.
    pub(super) fn find(&self, oid: i64) -> Option<Line<'_>> {
        let at = self.0.binary_search_by_key(&oid, |fields| Line(fields).number(0)).ok()?;
        self.0.get(at).map(|fields| Line(fields))
    }
}

/// A line's fields.
#[derive(Clone, Copy)]
pub(super) struct Line<'a>(&'a [&'static str]);

impl Line<'_> {
    /// A field; empty if the line ends before it.
    pub(super) fn text(&self, at: usize) -> &'static str {
        self.0.get(at).copied().unwrap_or("")
    }

    /// A number; 0 if the field is none.
    pub(super) fn number(&self, at: usize) -> i64 {
        self.text(at).parse().unwrap_or(0)
    }

    pub(super) fn small(&self, at: usize) -> i16 {
        self.text(at).parse().unwrap_or(0)
    }

    pub(super) fn yes(&self, at: usize) -> bool {
        self.text(at) == "t"
    }

    /// Numbers with something between them.
    pub(super) fn numbers(&self, at: usize) -> Vec<i64> {
        let parts = self.text(at).split([' ', ',']);
        parts.filter_map(|part| part.parse().ok()).collect()
    }
}

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident, $file:literal;)*) => {
        $($(#[$doc])* pub(super) static $name: LazyLock<Lines> =
            LazyLock::new(|| lines(include_str!(concat!("known/", $file))));)*
    };
}

tables! {
    /// Fields: oid, name, length, by value, kind, category, preferred, element, array, subscript,
    /// input, output, receive, send, modin, modout, align, storage, collation, shown, description.
    TYPES, "types.tsv";
    /// Fields: oid, name, kind, set, strict, volatility, parallel, result, arguments, variadic,
    /// defaults, modes, names, all, language, source, shown arguments, shown result, description.
    FUNCTIONS, "functions.tsv";
    /// Fields: oid, name, kind, can merge, can hash, left, right, result, commutator, negator,
    /// code, restrict, join.
    OPERATORS, "operators.tsv";
    /// Fields: oid, source, target, function, context, method.
    CASTS, "casts.tsv";
    /// Fields: function, kind, direct, transition, final, sort operator, transition type, initial.
    AGGREGATES, "aggregates.tsv";
    /// Fields: word, category, bare label, description of both.
    KEYWORDS, "keywords.tsv";
    /// Of btree. Fields: oid, name, family, type, default, key type.
    OPCLASSES, "opclasses.tsv";
    /// Of btree. Fields: oid, name.
    OPFAMILIES, "opfamilies.tsv";
    /// Of btree. Fields: oid, family, left, right, strategy, operator.
    AMOPS, "amops.tsv";
}

/// Number of a type by its name, as it is called in the catalog or in SQL.
pub(super) fn type_by_name(name: &str) -> Option<i64> {
    let wanted = name.trim().trim_start_matches("pg_catalog.");
    let wanted = match wanted {
        "int" => "integer",
        "decimal" => "numeric",
        "char" => "character",
        "float" => "double precision",
        "\"char\"" => return Some(18),
        other => other,
    };
    let plain = wanted.trim_matches('"');
    let bare = wanted.split('(').next().unwrap_or(wanted).trim_end();
    let found = TYPES.iter().find(|ty| {
        ty.text(1) == plain || ty.text(19) == wanted || (ty.text(19) == bare && bare != wanted)
    });
    found.map(|ty| ty.number(0)).or_else(|| {
        let element = type_by_name(wanted.strip_suffix("[]")?)?;
        let array = TYPES.find(element)?.number(8);
        (array != 0).then_some(array)
    })
}

/// Name of an operator's or a function's argument type; the bare number if it is not here.
pub(super) fn type_name(oid: i64) -> String {
    TYPES.find(oid).map_or_else(|| oid.to_string(), |ty| ty.text(19).to_owned())
}

/// Number of the default operator class of btree for a type; 0 if there is none.
pub(super) fn default_opclass(type_oid: i64) -> i64 {
    let of = |wanted: i64| OPCLASSES.iter().find(|class| class.yes(4) && class.number(3) == wanted);
    // varchar has no class of its own, nor has any one array.
    let other = match type_oid {
        1043 => 25,
        _ if TYPES.find(type_oid).is_some_and(|ty| ty.text(5) == "A") => 2277,
        other => other,
    };
    of(other).map_or(0, |class| class.number(0))
}
