//! Stored functions and procedures in the catalog: rows of `pg_proc`, what they are written as, and
//! `information_schema.routines` and `parameters`.
//!
//! What it promises: what `pg_get_functiondef` writes makes the same routine again.

use super::known::{FUNCTIONS, type_by_name};
use super::rights::acl_value;
use super::rows::{int, oids, text, texts};
use super::{Catalog, Rows};
use crate::pl::{head_of, whole_text};
use crate::sequence::split_name;
use kernel::dict::{ArgumentDef, RoutineDef, RoutineResult, Volatility};
use kernel::row::{ColType, Value};
use query::functions::quote_ident;
use query::types::PgType;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// OID of the types `void` and `record`.
const VOID: i64 = 2278;
const RECORD: i64 = 2249;

/// What the text of a definition begins with.
const MAKE: &str = "CREATE OR REPLACE ";

/// Languages that are no part of PostgreSQL's own list, with their OIDs.
pub(super) const LANGUAGES: [(i64, &str); 2] = [(13_576, "plpgsql"), (13_577, "plsql")];

fn language(name: &str) -> i64 {
    LANGUAGES.iter().find(|(_, known)| *known == name).map_or(14, |(oid, _)| *oid)
}

/// Numbers of arguments with which the system's functions are called.
static SYSTEM: LazyLock<HashMap<&'static str, Vec<(usize, usize)>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    for line in FUNCTIONS.iter() {
        let count = line.numbers(8).len();
        let most = if line.number(9) != 0 { usize::MAX } else { count };
        let least = count.saturating_sub(usize::try_from(line.small(10)).unwrap_or(0));
        all.entry(line.text(1)).or_default().push((least, most));
    }
    all
});

/// Whether a name that is called with so many arguments is one of the system's functions.
pub(crate) fn is_system_function(name: &str, count: usize) -> bool {
    const SYNTAX: [&str; 8] =
        ["coalesce", "nvl", "greatest", "least", "nullif", "decode", "array", "row"];
    let listed = SYSTEM.get(name);
    listed.is_some_and(|all| all.iter().any(|(least, most)| (*least..=*most).contains(&count)))
        || SYNTAX.contains(&name)
        || (listed.is_none() && crate::bind::session_function(name).is_some())
}

/// A type's OID.
fn type_oid(ty: ColType) -> i64 {
    i64::from(PgType::of(ty).oid)
}

fn given(def: &RoutineDef) -> impl Iterator<Item = &ArgumentDef> {
    def.body.args.iter().filter(|arg| arg.mode.is_given())
}

fn option<'a>(def: &'a RoutineDef, name: &str) -> Option<&'a str> {
    let mut lines = def.body.options.lines().filter_map(|line| line.split_once('='));
    lines.find(|(known, _)| *known == name).map(|(_, value)| value)
}

impl Catalog {
    pub(super) fn routine(&self, oid: i64) -> Option<&Arc<RoutineDef>> {
        self.routines.by_obj(block::ObjId(u32::try_from(oid).ok()?))
    }

    /// A type's name as it is written where it is used.
    fn type_text(&self, ty: ColType) -> String {
        match ty.enum_type().and_then(|def| self.types.by_obj(def.obj)) {
            Some(own) => self.shown_type(own),
            None => ty.to_string(),
        }
    }

    fn result_oid(&self, def: &RoutineDef) -> i64 {
        match def.body.result {
            RoutineResult::Void => VOID,
            RoutineResult::Type(ty) => type_oid(ty),
            RoutineResult::Record | RoutineResult::Row(_) => RECORD,
        }
    }

    /// What a routine gives, as CREATE FUNCTION has it; `None` for a procedure.
    pub(super) fn routine_result(&self, def: &RoutineDef) -> Option<String> {
        if def.body.procedure {
            return None;
        }
        let columns: Vec<&ArgumentDef> = def
            .body
            .args
            .iter()
            .filter(|arg| arg.mode == kernel::dict::ArgumentMode::Table)
            .collect();
        if !columns.is_empty() {
            let list = columns
                .iter()
                .map(|arg| format!("{} {}", quote_ident(&arg.name), self.type_text(arg.ty)));
            return Some(format!("TABLE({})", list.collect::<Vec<_>>().join(", ")));
        }
        let one = match def.body.result {
            RoutineResult::Void => "void".to_owned(),
            RoutineResult::Type(ty) => self.type_text(ty),
            RoutineResult::Record => "record".to_owned(),
            RoutineResult::Row(obj) => {
                let table = self.relations().find(|table| table.obj == obj);
                table.map_or_else(
                    || "record".to_owned(),
                    |table| match self.is_visible(&table.schema, &table.name) {
                        true => quote_ident(&table.name),
                        false => {
                            format!("{}.{}", quote_ident(&table.schema), quote_ident(&table.name))
                        }
                    },
                )
            }
        };
        Some(if def.body.set { format!("SETOF {one}") } else { one })
    }

    /// A routine's arguments as CREATE FUNCTION has them; without defaults they tell it apart.
    pub(super) fn routine_arguments(&self, def: &RoutineDef, defaults: bool) -> String {
        use kernel::dict::ArgumentMode::{In, InOut, Out, Table, Variadic};
        let mut out = Vec::new();
        for arg in def.body.args.iter().filter(|arg| arg.mode != Table) {
            if !defaults && !def.body.procedure && !arg.mode.is_given() {
                continue;
            }
            let mut one = match arg.mode {
                In if def.body.procedure => "IN ".to_owned(),
                In | Table => String::new(),
                Out => "OUT ".to_owned(),
                InOut => "INOUT ".to_owned(),
                Variadic => "VARIADIC ".to_owned(),
            };
            if !arg.name.is_empty() {
                one.push_str(&quote_ident(&arg.name));
                one.push(' ');
            }
            one.push_str(&self.type_text(arg.ty));
            if let (true, Some(default)) = (defaults, &arg.default) {
                one.push_str(" DEFAULT ");
                one.push_str(default);
            }
            out.push(one);
        }
        out.join(", ")
    }

    /// The statement that makes a routine.
    pub(super) fn routine_text(&self, def: &RoutineDef) -> String {
        let (head, tag) = self.routine_head(def);
        format!("{MAKE}{}\nAS {tag}{}{tag}\n", head.join("\n "), def.body.text)
    }

    /// The same as the field lists it: without `create or replace`, and with its lines numbered as
    /// errors tell them. What was written in the field's form is as it was typed; a body that is a
    /// text begins in the first line, behind all of the head.
    pub(super) fn routine_source(&self, def: &RoutineDef) -> String {
        if let Some(head) = head_of(&def.body.options) {
            return whole_text(head, &def.body.text, &def.schema, &def.name);
        }
        let (head, tag) = self.routine_head(def);
        format!("{} AS {tag}{}{tag}", head.join(" "), def.body.text)
    }

    /// What stands before a routine's body, clause by clause, and what the body is quoted with.
    fn routine_head(&self, def: &RoutineDef) -> (Vec<String>, String) {
        let word = if def.body.procedure { "PROCEDURE" } else { "FUNCTION" };
        let mut out = vec![format!(
            "{word} {}.{}({})",
            quote_ident(&def.schema),
            quote_ident(&def.name),
            self.routine_arguments(def, true)
        )];
        out.extend(self.routine_result(def).map(|result| format!("RETURNS {result}")));
        out.push(format!("LANGUAGE {}", quote_ident(&def.body.language)));
        let mut flags = Vec::new();
        match def.body.volatility {
            Volatility::Immutable => flags.push("IMMUTABLE".to_owned()),
            Volatility::Stable => flags.push("STABLE".to_owned()),
            Volatility::Volatile => {}
        }
        match option(def, "parallel") {
            Some("safe") => flags.push("PARALLEL SAFE".to_owned()),
            Some("restricted") => flags.push("PARALLEL RESTRICTED".to_owned()),
            _ => {}
        }
        if def.body.strict {
            flags.push("STRICT".to_owned());
        }
        let own_language = def.body.language == "plsql";
        if def.body.definer != own_language {
            let who = if def.body.definer { "DEFINER" } else { "INVOKER" };
            flags.push(format!("SECURITY {who}"));
        }
        if option(def, "leakproof") == Some("true") {
            flags.push("LEAKPROOF".to_owned());
        }
        flags.extend(option(def, "cost").map(|cost| format!("COST {cost}")));
        flags.extend(option(def, "rows").map(|rows| format!("ROWS {rows}")));
        if !flags.is_empty() {
            out.push(flags.join(" "));
        }
        let name = if def.body.procedure { "procedure" } else { "function" };
        let mut tag = format!("${name}$");
        while def.body.text.contains(&tag) {
            tag.insert(1, 'x');
        }
        (out, tag)
    }

    /// The routine's name as `regproc` and `regprocedure` show it.
    pub(super) fn shown_routine(&self, oid: i64, with_types: bool) -> Option<String> {
        let def = self.routine(oid)?;
        let name = quote_ident(&def.name);
        let schema = quote_ident(&def.schema);
        let same = self.routines.named(&def.schema, &def.name).count();
        let visible = self.path.contains(&def.schema);
        let shown =
            if visible && (with_types || same == 1) { name } else { format!("{schema}.{name}") };
        if !with_types {
            return Some(shown);
        }
        let types: Vec<String> = given(def).map(|arg| self.type_text(arg.ty)).collect();
        Some(format!("{shown}({})", types.join(",")))
    }

    /// Routines of a name that may have its schema.
    pub(super) fn routines_called(&self, name: &str) -> Vec<&Arc<RoutineDef>> {
        match &split_name(name.trim())[..] {
            [name] => {
                let path = self.path.iter();
                path.flat_map(|schema| self.routines.named(schema, name)).collect()
            }
            [schema, name] => self.routines.named(schema, name).collect(),
            _ => Vec::new(),
        }
    }

    /// The routine of a name with the types of its arguments in parentheses.
    pub(crate) fn routine_with_types(&self, text: &str) -> Option<&Arc<RoutineDef>> {
        let (name, rest) = text.split_once('(')?;
        let list = rest.trim_end().strip_suffix(')')?;
        let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
        let find = |part: &str| type_by_name(part).or_else(|| self.user_type_by_name(part));
        let types = parts.map(find).collect::<Option<Vec<i64>>>()?;
        let mut all = self.routines_called(name).into_iter();
        all.find(|def| given(def).map(|arg| type_oid(arg.ty)).eq(types.iter().copied()))
    }
}

/// Rows of `pg_proc`, in the order of its columns.
pub(super) fn rows(catalog: &Catalog, rows: &mut Rows) {
    let one = |value: f64| Value::Float8(value);
    for def in &catalog.routines.all {
        let body = &def.body;
        let number = |name: &str| option(def, name).and_then(|text| text.parse::<f64>().ok());
        let plain = body.args.iter().all(|arg| arg.mode == kernel::dict::ArgumentMode::In);
        let all = body.args.iter().map(|arg| type_oid(arg.ty)).collect::<Vec<i64>>();
        let modes = body.args.iter().map(|arg| arg.mode.code()).collect::<Vec<_>>();
        let named = body.args.iter().any(|arg| !arg.name.is_empty());
        let names = body.args.iter().map(|arg| arg.name.as_str()).collect::<Vec<_>>();
        let defaults = given(def).filter(|arg| arg.default.is_some()).count();
        let small = |count: usize| Value::Int2(i16::try_from(count).unwrap_or(i16::MAX));
        let variadic =
            body.args.iter().find(|arg| arg.mode == kernel::dict::ArgumentMode::Variadic);
        let variadic = variadic.and_then(|arg| arg.ty.element()).map_or(0, type_oid);
        let arguments = given(def).map(|arg| type_oid(arg.ty)).collect::<Vec<i64>>();
        rows.push(vec![
            int(def.obj.0),
            text(def.name.as_str()),
            int(catalog.schema_oid(&def.schema)),
            int(def.owner.0),
            int(language(&body.language)),
            one(number("cost").unwrap_or(100.0)),
            one(number("rows").unwrap_or(if body.set { 1000.0 } else { 0.0 })),
            int(variadic),
            int(0),
            text(if body.procedure { "p" } else { "f" }),
            Value::Bool(body.definer),
            Value::Bool(option(def, "leakproof") == Some("true")),
            Value::Bool(body.strict),
            Value::Bool(body.set),
            text(body.volatility.code()),
            text(match option(def, "parallel") {
                Some("safe") => "s",
                Some("restricted") => "r",
                _ => "u",
            }),
            small(arguments.len()),
            small(defaults),
            int(catalog.result_oid(def)),
            oids(arguments),
            if plain { Value::Null } else { oids(all) },
            if plain { Value::Null } else { texts(modes) },
            if named { texts(names) } else { Value::Null },
            Value::Null,
            Value::Null,
            text(body.text.as_str()),
            Value::Null,
            Value::Null,
            Value::Null,
            acl_value(catalog, def.acl.as_ref()),
        ]);
    }
}

/// Values of `information_schema.routines` by column; what is not said is NULL.
pub(super) fn routine_values(catalog: &Catalog, columns: &[&str]) -> Vec<Vec<Value>> {
    let one = |def: &Arc<RoutineDef>| {
        let body = &def.body;
        let specific = format!("{}_{}", def.name, def.obj.0);
        let result = match body.result {
            RoutineResult::Type(ty) if !body.procedure => Some(ty),
            _ => None,
        };
        let shown = match result {
            Some(ty) if ty.element().is_some() => "ARRAY".to_owned(),
            Some(ty) if ty.enum_type().is_some() => "USER-DEFINED".to_owned(),
            Some(ty) => ty.to_string(),
            None if body.procedure => String::new(),
            None if body.result == RoutineResult::Void => "void".to_owned(),
            None => "record".to_owned(),
        };
        let value = |column: &&str| -> Value {
            let said = |yes: bool| text(if yes { "YES" } else { "NO" });
            match *column {
                "specific_catalog" | "routine_catalog" | "type_udt_catalog" => text("skein"),
                "specific_schema" | "routine_schema" => text(def.schema.as_str()),
                "specific_name" => text(specific.as_str()),
                "routine_name" => text(def.name.as_str()),
                "routine_type" => text(if body.procedure { "PROCEDURE" } else { "FUNCTION" }),
                "data_type" if !shown.is_empty() => text(shown.as_str()),
                "routine_body" => text(if body.language == "sql" { "SQL" } else { "EXTERNAL" }),
                "routine_definition" => text(body.text.as_str()),
                "external_language" => text(body.language.to_uppercase().as_str()),
                "parameter_style" => text("GENERAL"),
                "is_deterministic" => said(body.volatility == Volatility::Immutable),
                "sql_data_access" => text("MODIFIES"),
                "is_null_call" if !body.procedure => said(body.strict),
                "schema_level_routine" => text("YES"),
                "max_dynamic_result_sets" => Value::Int4(0),
                "security_type" => text(if body.definer { "DEFINER" } else { "INVOKER" }),
                "dtd_identifier" => text("0"),
                _ => Value::Null,
            }
        };
        columns.iter().map(value).collect()
    };
    catalog.routines.all.iter().map(one).collect()
}
