//! `json_to_record`, `json_to_recordset`, `json_populate_record`, `json_populate_recordset` and
//! their jsonb twins in FROM.
//!
//! What it promises: they become queries over the documents' members, with the columns of the list
//! behind the alias or of the table that the first argument is a NULL of, before types are looked
//! for. What it must never do: touch what it does not know whole; that is refused by name later.

use crate::bind::{ident_name, object_parts, table_parts};
use crate::parse::{Parsed, parse_single};
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, ObjectName, SetExpr, Statement as Ast,
    TableAlias, TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut,
};
use query::Relation;
use query::functions::quote_ident;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Columns with the names of their types.
type Columns = Vec<(String, String)>;

/// One of these functions.
struct Called {
    name: String,
    /// `json` or `jsonb`.
    of: &'static str,
    /// Several rows, of the elements of an array.
    many: bool,
    /// The columns are those of its first argument.
    populates: bool,
}

fn called(name: &ObjectName) -> Option<Called> {
    let mut parts = object_parts(name).ok()?;
    let name = parts.pop()?;
    if !parts.is_empty() && parts != ["pg_catalog"] {
        return None;
    }
    let (of, rest) = match (name.strip_prefix("jsonb_"), name.strip_prefix("json_")) {
        (Some(rest), _) => ("jsonb", rest),
        (None, rest) => ("json", rest?),
    };
    let (many, populates) = match rest {
        "to_record" => (false, false),
        "to_recordset" => (true, false),
        "populate_record" => (false, true),
        "populate_recordset" => (true, true),
        _ => return None,
    };
    Some(Called { name, of, many, populates })
}

/// A call in FROM: what is called, its arguments, its alias.
fn call(factor: &TableFactor) -> Option<(Called, Vec<&Expr>, Option<&TableAlias>)> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => {
            (name, &args.args, alias)
        }
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return None,
    };
    let called = called(name)?;
    let args = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((called, args.collect::<Option<Vec<_>>>()?, alias.as_ref()))
}

/// The table that `null::t` is a row of.
fn null_of(expr: &Expr) -> Option<&ObjectName> {
    match expr {
        Expr::Nested(inner) => null_of(inner),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type: DataType::Custom(name, modifiers),
            ..
        } if modifiers.is_empty() => {
            matches!(&**expr, Expr::Value(value) if value.value == Value::Null).then_some(name)
        }
        _ => None,
    }
}

#[derive(Default)]
struct Found {
    any: bool,
    tables: Vec<ObjectName>,
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let Some((called, args, _)) = call(factor) {
            self.any = true;
            let table = args.first().and_then(|expr| null_of(expr)).filter(|_| called.populates);
            self.tables.extend(table.cloned());
        }
        ControlFlow::Continue(())
    }
}

impl Session {
    /// The statement with such calls in FROM as queries; `None`: it has none.
    pub(crate) async fn settle_records(&mut self, ast: &Ast) -> Result<Option<Ast>> {
        let mut found = Found::default();
        let _: ControlFlow<()> = ast.visit(&mut found);
        if !found.any {
            return Ok(None);
        }
        let mut tables = BTreeMap::new();
        for name in found.tables {
            let (schema, table) = table_parts(&name)?;
            if let Relation::Table(def) | Relation::View(def) =
                self.find_relation(schema.as_deref(), &table).await?
            {
                let columns = def.columns.iter().map(|column| {
                    let ty = match column.ty.enum_type() {
                        Some(ty) => {
                            format!("{}.{}", quote_ident(&ty.schema), quote_ident(&ty.name))
                        }
                        None => column.ty.to_string(),
                    };
                    (column.name.clone(), ty)
                });
                tables.insert(name.to_string(), columns.collect::<Columns>());
            }
        }
        let mut own = ast.clone();
        match VisitMut::visit(&mut own, &mut Rewriter { tables }) {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => Ok(Some(own)),
        }
    }
}

struct Rewriter {
    tables: BTreeMap<String, Columns>,
}

impl VisitorMut for Rewriter {
    type Break = Box<PgError>;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<PgError>> {
        match self.query_for(factor) {
            Ok(None) => {}
            Ok(Some(made)) => *factor = made,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

impl Rewriter {
    fn query_for(&self, factor: &TableFactor) -> Result<Option<TableFactor>> {
        let Some((called, args, alias)) = call(factor) else { return Ok(None) };
        let given = alias.map(|alias| &alias.columns[..]).unwrap_or_default();
        let (document, mut columns): (&Expr, Columns) = match (&args[..], called.populates) {
            ([document], false) => {
                let typed = given.iter().map(|column| {
                    let ty = column.data_type.as_ref()?;
                    Some((ident_name(&column.name), ty.to_string()))
                });
                let Some(columns) = typed.collect::<Option<Columns>>() else {
                    return Err(no_columns(&called.name));
                };
                (*document, columns)
            }
            ([base, document], true) => {
                let table = null_of(base).and_then(|name| self.tables.get(&name.to_string()));
                let Some(columns) = table else { return Ok(None) };
                (*document, columns.clone())
            }
            _ => return Ok(None),
        };
        if columns.is_empty() {
            return Err(no_columns(&called.name));
        }
        let list = columns.iter().map(|(name, ty)| member(called.of, name, ty));
        let list = list.collect::<Vec<_>>().join(", ");
        if called.populates {
            for (column, name) in columns.iter_mut().zip(given) {
                column.0 = ident_name(&name.name);
            }
        }
        let names = columns.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", ");
        let shown = alias.map_or_else(|| called.name.clone(), |alias| ident_name(&alias.name));
        let document = match document {
            Expr::Value(_) => format!("({document})::{}", called.of),
            _ => format!("({document})"),
        };
        let of = called.of;
        let rows = match called.many {
            true => format!("{of}_array_elements({document}) as \"$d\"(\"$d\")"),
            false => format!("(select {document} as \"$d\") as \"$d\""),
        };
        let (name, shown) = (&called.name, quoted(&shown));
        let text = format!(
            "select 1 from lateral (select {list} from (select \"${of}_object\"(\"$d\".\"$d\", \
             '{name}') as \"$e\" from {rows}) as \"$r\") as {shown}({names})"
        );
        let broken = || PgError::internal(format!("a query made of {name}"));
        let Parsed::Sql(ast) = parse_single(&text)?.parsed else { return Err(broken()) };
        let Ast::Query(query) = *ast else { return Err(broken()) };
        let SetExpr::Select(mut select) = *query.body else { return Err(broken()) };
        Ok(select.from.pop().map(|from| from.relation))
    }
}

fn no_columns(function: &str) -> PgError {
    PgError::new("42601", "a column definition list is required for functions returning \"record\"")
        .with_hint(format!("Write FROM {function}(…) AS name(column type, …)."))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What a member of the object in `$e` is as a value of a type. A JSON null is NULL.
fn member(of: &str, name: &str, ty: &str) -> String {
    let key = name.replace('\'', "''");
    let (part, text) = (format!("(\"$e\" -> '{key}')"), format!("(\"$e\" ->> '{key}')::{ty}"));
    let column = quoted(name);
    if matches!(&*ty.to_ascii_lowercase(), "json" | "jsonb") {
        return format!(
            "case when {of}_typeof({part}) <> 'null' then {part}::{ty} end as {column}"
        );
    }
    if ty.ends_with(']') {
        let list = format!("\"${of}_array_elements_text\"({part})::{ty}");
        return format!(
            "case {of}_typeof({part}) when 'array' then {list} else {text} end as {column}"
        );
    }
    format!("{text} as {column}")
}
