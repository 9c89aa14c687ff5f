//! `dbms_stats` in blocks: statistics of a table, of an index, or of all tables of a schema.
//!
//! What it promises: the same as ANALYZE of these tables, for an index of the one that it is of.
//! Arguments that say how to look (percent, degree, method) are read and steer nothing: the sample
//! is the database's own affair. What it must never do: take a name for another one; without double
//! quotes it is in lower case, as SQL has it.

use super::lex::Tok;
use super::parse::Parser;
use super::run::Machine;
use super::tree::{Kind, Sql};
use crate::catalog::shown_text;
use crate::parse::{MaintainedTable, Maintenance};
use crate::{PgError, Result};
use kernel::dict;
use kernel::row::{ColType, TypeKind, Value};
use observe::{Operation, Target};

const PACKAGE: &str = "dbms_stats";

/// What is gathered: expressions for owner and table, or index.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    owner: Option<Sql>,
    /// `None`: all tables of the schema.
    table: Option<Sql>,
    /// It is an index that is named.
    index: bool,
}

impl Gather {
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Sql> {
        self.owner.iter().chain(&self.table)
    }
}

/// Whether a procedure is of the package.
pub(crate) fn is_statistics_call(package: &str, _: &str) -> bool {
    package == PACKAGE
}

/// Arguments of both procedures that say how to look.
const HOW: [&str; 14] = [
    "partname",
    "estimate_percent",
    "block_sample",
    "method_opt",
    "degree",
    "granularity",
    "cascade",
    "stattab",
    "statid",
    "options",
    "statown",
    "no_invalidate",
    "stattype",
    "force",
];

impl Parser<'_> {
    /// A call of one of these, and the `;`.
    pub(super) fn statistics_call(&mut self) -> Result<Kind> {
        self.advance();
        self.expect_symbol(".")?;
        let name = self.name()?;
        let named: &[&str] = match name.as_str() {
            "gather_table_stats" => &["ownname", "tabname"],
            "gather_index_stats" => &["ownname", "indname"],
            "gather_schema_stats" => &["ownname"],
            _ => {
                let error = PgError::unsupported(format!("{PACKAGE}.{name}"));
                return Err(error.with_hint("ANALYZE gathers statistics."));
            }
        };
        let mut given: Vec<Option<Sql>> = vec![None; named.len()];
        self.expect_symbol("(")?;
        let mut at = 0;
        loop {
            let place = match (self.tok().clone(), self.peek(1)) {
                (Tok::Word(argument), Tok::Symbol("=>")) => {
                    let place = named.iter().position(|known| *known == argument);
                    if place.is_none() && !HOW.contains(&argument.as_str()) {
                        let text = format!("procedure {PACKAGE}.{name} has no such argument");
                        return Err(self.error("42883", text));
                    }
                    self.advance();
                    self.advance();
                    place
                }
                _ => {
                    at += 1;
                    Some(at - 1).filter(|place| *place < named.len())
                }
            };
            match place {
                Some(place) => given[place] = Some(self.expr_until(&[], &[",", ")"])?),
                None => {
                    self.range_until(&[], &[",", ")"])?;
                }
            }
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.expect_symbol(";")?;
        let mut given = given.into_iter();
        let (owner, table) = (given.next().flatten(), given.next().flatten());
        if named.len() == 2 && table.is_none() {
            let what = if name == "gather_index_stats" { "an index" } else { "a table" };
            let text = format!("procedure {PACKAGE}.{name} without {what} does not exist");
            return Err(self.error("42883", text));
        }
        Ok(Kind::Gather(Gather { owner, table, index: name == "gather_index_stats" }))
    }
}

/// A name as SQL has it.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(exact) => exact.to_owned(),
        None => name.to_lowercase(),
    }
}

impl Machine<'_> {
    pub(super) async fn gather(&mut self, what: &Gather) -> Result<()> {
        let owner = self.given_text(what.owner.as_ref()).await?.map(|name| folded(&name));
        let table = self.given_text(what.table.as_ref()).await?.map(|name| folded(&name));
        let schema = self.session.schema_of_owner(owner.as_deref()).await?;
        let names = match (&what.table, table) {
            (None, _) => self.session.tables_in(schema.as_deref()).await?,
            (Some(_), Some(name)) if what.index => {
                let found = self.session.own_index(schema.as_deref(), &name).await?;
                let (schema, table, _) = found.ok_or_else(|| PgError::undefined_table(&name))?;
                vec![(Some(schema), table.name.clone())]
            }
            (Some(_), Some(name)) => vec![(schema, name)],
            (Some(_), None) => {
                return Err(PgError::new("22004", "the name of a table or index must not be NULL"));
            }
        };
        let operation = what.table.is_none().then(|| {
            let schema = names.first().and_then(|(schema, _)| schema.as_deref());
            let target = schema.map_or(Target::Nothing, |name| Target::Other(shown_text(name)));
            let work = (names.len() as u64, "Objects");
            Operation::begin(&self.session.ctx, "Gather Schema Statistics", target, work)
        });
        for (schema, name) in names {
            let table = MaintainedTable { schema, name, columns: Vec::new() };
            let one = Maintenance { analyze: true, tables: vec![table], ..Maintenance::default() };
            env::boxed!(self.session.analyze_tables(&one)).await?;
            if let Some(operation) = &operation {
                operation.advance(&self.session.ctx, 1);
            }
        }
        if let Some(operation) = operation {
            operation.end(&self.session.ctx);
        }
        Ok(())
    }

    async fn given_text(&mut self, sql: Option<&Sql>) -> Result<Option<String>> {
        let Some(sql) = sql else { return Ok(None) };
        let (value, _) = self.eval(sql).await?;
        Ok(match self.converted(&value, ColType::new(TypeKind::Text))? {
            Value::Text(text) => Some(text.into_string()),
            _ => None,
        })
    }
}

impl crate::session::Session {
    /// The schema that an owner's tables are looked for in; a user without a schema of that name
    /// has those of the search path.
    async fn schema_of_owner(&mut self, owner: Option<&str>) -> Result<Option<String>> {
        let Some(owner) = owner else { return Ok(None) };
        let txn = self.transaction()?;
        if dict::schemas(&self.ctx, &txn).await?.find(owner).is_some() {
            return Ok(Some(owner.to_owned()));
        }
        if owner == self.user.to_lowercase() || owner == self.session_user.to_lowercase() {
            return Ok(None);
        }
        Err(crate::ddl::missing_schema(owner))
    }

    /// The tables of a schema; without one, of the first in the search path.
    async fn tables_in(&mut self, schema: Option<&str>) -> Result<Vec<(Option<String>, String)>> {
        let schema = match schema {
            Some(schema) => Some(schema.to_owned()),
            None => {
                let path = self.schemas_for(None).await?;
                path.into_iter().find(|schema| !crate::ddl::is_temporary(schema))
            }
        };
        let txn = self.transaction()?;
        let tables = dict::tables(&self.ctx, &txn).await?;
        let own = tables.iter().filter(|def| Some(&def.schema) == schema.as_ref());
        let own = own.filter(|def| def.view.is_none());
        Ok(own.map(|def| (Some(def.schema.clone()), def.name.clone())).collect())
    }
}
