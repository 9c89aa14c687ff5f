//! What there is in the database: `\d` and its like, `describe`.

use super::Shell;
use super::format::{Csv, Format, Look, Table};
use super::query::{literal, rows};
use crate::error::{CliError, Result};
use std::fmt::Write;

/// Relations of users.
const OWN: &str = "n.nspname not in ('pg_catalog', 'information_schema') \
                   and n.nspname !~ '^pg_temp_'";

/// The last of a pattern's names, and what stands before it; points in quotes part nothing.
fn parts(pattern: &str) -> (Option<&str>, &str) {
    let (mut quoted, mut point) = (false, None);
    for (at, c) in pattern.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => point = Some(at),
            _ => {}
        }
    }
    match point {
        Some(at) => (Some(&pattern[..at]), &pattern[at + 1..]),
        None => (None, pattern),
    }
}

/// What stands in a name's quotes; `None`: it has none.
fn in_quotes(name: &str) -> Option<String> {
    let inner = name.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.replace("\"\"", "\""))
}

/// A name as the catalog has it.
fn plain(name: &str) -> String {
    in_quotes(name).unwrap_or_else(|| name.to_lowercase())
}

/// A pattern of the shell as a condition on a name: `*` and `?` stand for any characters, but in
/// quotes.
fn like(column: &str, pattern: &str) -> String {
    if pattern.is_empty() {
        return String::new();
    }
    let (_, name) = parts(pattern);
    if let Some(name) = in_quotes(name) {
        return format!(" and {column} = {}", literal(&name));
    }
    let name = name.to_lowercase();
    let mut text = String::new();
    for c in name.chars() {
        match c {
            '*' => text.push('%'),
            '?' => text.push('_'),
            '%' | '_' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            other => text.push(other),
        }
    }
    format!(" and {column} like {}", literal(&text))
}

/// Schema, name and number of a relation.
struct Relation {
    schema: String,
    name: String,
    oid: String,
    kind: String,
}

fn kind_word(kind: &str) -> &'static str {
    match kind {
        "r" => "Table",
        "v" => "View",
        "m" => "Materialized view",
        "i" => "Index",
        "S" => "Sequence",
        _ => "Relation",
    }
}

/// The server's views, each with its columns.
fn shown_views(pattern: &str, columns: &Table, look: &Look<'_>) -> String {
    let mut text = String::new();
    for view in columns.rows.chunk_by(|a, b| a[0] == b[0]) {
        let _ = writeln!(text, "View \"{}\"", view[0][0].as_deref().unwrap_or(pattern));
        let header = ["Column", "Type", "Meaning"].map(str::to_owned).to_vec();
        let rows = view.iter().map(|row| row[1..].to_vec()).collect();
        let table = Table { header, rows, ..Table::default() };
        text.push_str(&table.text(Format::Aligned, look));
    }
    text
}

/// The first of the server's views, in the field's form.
fn described(columns: Table, look: &Look<'_>) -> String {
    let first = columns.rows.first().and_then(|row| row[0].clone());
    let told = columns.rows.iter().any(|row| row[3].is_some());
    let width = if told { 4 } else { 3 };
    let own = columns.rows.into_iter().filter(|row| row[0] == first).map(|row| {
        let [_, name, ty, meaning] = &row[..] else { return row };
        let mut cells = vec![name.clone(), None, ty.clone(), meaning.clone()];
        cells.truncate(width);
        cells
    });
    let rows = own.collect();
    let header = ["Name", "Null?", "Type", "Meaning"];
    let header = header[..width].iter().map(|name| (*name).to_owned()).collect();
    Table { header, rows, ..Table::default() }.text(Format::Aligned, look)
}

/// Stored procedures and functions, each with its arguments in the field's form.
fn shown_routines(routines: &Table, look: &Look<'_>) -> String {
    let mut text = String::new();
    for rows in routines.rows.chunk_by(|a, b| a[0] == b[0]) {
        let [_, name, kind, result, ..] = &rows[0][..] else { continue };
        let name = name.as_deref().unwrap_or_default();
        let _ = match (kind.as_deref(), result) {
            (Some("f"), Some(result)) => writeln!(text, "FUNCTION {name} RETURNS {result}"),
            (Some("f"), None) => writeln!(text, "FUNCTION {name}"),
            _ => writeln!(text, "PROCEDURE {name}"),
        };
        let (mut given, mut shown) = (0, Vec::new());
        for row in rows {
            let [_, _, _, _, name, mode, ty, None, needed] = &row[..] else { continue };
            let (mode, is_given) = match mode.as_deref() {
                Some("o" | "t") => ("OUT", false),
                Some("b") => ("IN/OUT", true),
                _ => ("IN", true),
            };
            given += i64::from(is_given);
            let needed = needed.as_deref().and_then(|needed| needed.parse().ok());
            let has_default = is_given && needed.is_some_and(|needed: i64| given > needed);
            let default = has_default.then(|| "DEFAULT".to_owned());
            shown.push(vec![name.clone(), ty.clone(), Some(mode.to_owned()), default]);
        }
        if !shown.is_empty() {
            let header = ["Argument Name", "Type", "In/Out", "Default?"];
            let header = header.map(str::to_owned).to_vec();
            let table = Table { header, rows: shown, ..Table::default() };
            text.push_str(&table.text(Format::Aligned, look));
        }
    }
    text
}

impl Shell {
    pub(super) async fn describe(&mut self, word: &str, pattern: &str) -> Result<()> {
        let word = word.trim_end_matches('+');
        if word == "d" && !pattern.is_empty() {
            return self.describe_relations(pattern).await;
        }
        let kinds = match word {
            "d" => "'r', 'v', 'm', 'S'",
            "dt" => "'r'",
            "dv" => "'v'",
            "dm" => "'m'",
            "di" => "'i'",
            "ds" => "'S'",
            "dn" => {
                let text = "select nspname as \"Name\", pg_get_userbyid(nspowner) as \"Owner\" from \
                            pg_namespace where nspname !~ '^pg_' and nspname <> \
                            'information_schema'";
                return self.list(text, &like("nspname", pattern), "order by 1").await;
            }
            "du" | "dg" => {
                let text = "select rolname as \"Role\", concat_ws(', ', case when rolsuper then \
                            'superuser' end, case when not rolcanlogin then 'cannot log in' end, \
                            case when rolcreaterole then 'create role' end) as \"Attributes\" from \
                            pg_roles where rolname !~ '^pg_'";
                return self.list(text, &like("rolname", pattern), "order by 1").await;
            }
            "df" => {
                let text = "select n.nspname as \"Schema\", p.proname as \"Name\", \
                            pg_get_function_result(p.oid) as \"Result\", \
                            pg_get_function_arguments(p.oid) as \"Arguments\", case p.prokind when \
                            'p' then 'procedure' when 'a' then 'aggregate' when 'w' then 'window' \
                            else 'function' end as \"Type\" from pg_proc p join pg_namespace n on \
                            n.oid = p.pronamespace where";
                let own = if pattern.is_empty() { OWN } else { "true" };
                let more = format!(" {own}{}", like("p.proname", pattern));
                return self.list(text, &more, "order by 1, 2, 4").await;
            }
            "dT" => {
                let text = "select n.nspname as \"Schema\", t.typname as \"Name\", \
                            (select string_agg(e.enumlabel, ', ' order by e.enumsortorder) from \
                            pg_enum e where e.enumtypid = t.oid) as \"Labels\" from pg_type t join \
                            pg_namespace n on n.oid = t.typnamespace where t.typtype = 'e'";
                return self.list(text, &like("t.typname", pattern), "order by 1, 2").await;
            }
            "l" => {
                let text = "select datname as \"Name\", pg_get_userbyid(datdba) as \"Owner\" from \
                            pg_database where true";
                return self.list(text, &like("datname", pattern), "order by 1").await;
            }
            other => {
                return Err(CliError::failed(format!("\\{other}: no command; \\? lists them")));
            }
        };
        let text = format!(
            "select n.nspname as \"Schema\", c.relname as \"Name\", case c.relkind when 'r' then \
             'table' when 'v' then 'view' when 'm' then 'materialized view' when 'i' then 'index' \
             else 'sequence' end as \"Type\", pg_get_userbyid(c.relowner) as \"Owner\"{} from \
             pg_class c join pg_namespace n on n.oid = c.relnamespace{} where c.relkind in \
             ({kinds}) and {OWN}",
            if word == "di" { ", t.relname as \"Table\"" } else { "" },
            if word == "di" {
                " join pg_index x on x.indexrelid = c.oid join pg_class t on t.oid = x.indrelid"
            } else {
                ""
            },
        );
        self.list(&text, &like("c.relname", pattern), "order by 1, 2").await
    }

    async fn list(&mut self, text: &str, condition: &str, order: &str) -> Result<()> {
        let table = rows(self, &format!("{text}{condition} {order}")).await?;
        match table.rows.is_empty() && self.settings.format == Format::Aligned {
            true => self.print("Did not find any.\n"),
            false => self.show(&table),
        }
        Ok(())
    }

    async fn relations(&self, pattern: &str) -> Result<Vec<Relation>> {
        let schema = match parts(pattern).0 {
            Some(schema) => format!(" and n.nspname = {}", literal(&plain(schema))),
            None => " and pg_table_is_visible(c.oid)".to_owned(),
        };
        let text = format!(
            "select n.nspname, c.relname, c.oid, c.relkind from pg_class c join pg_namespace n on \
             n.oid = c.relnamespace where true{schema}{} order by 1, 2",
            like("c.relname", pattern)
        );
        let found = rows(self, &text).await?;
        let cell = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
        let relations: Vec<Relation> = found
            .rows
            .iter()
            .map(|row| Relation {
                schema: cell(row, 0),
                name: cell(row, 1),
                oid: cell(row, 2),
                kind: cell(row, 3),
            })
            .collect();
        Ok(relations)
    }

    /// Columns of the views that the server has of itself, by a pattern of their names: view,
    /// column, type, what it means.
    async fn server_views(&self, pattern: &str) -> Result<Table> {
        let text = format!(
            "select view_name, column_name, data_type, description from (select lower(view_name) \
             as view_name, column_id, lower(column_name) as column_name, data_type, description \
             from v$fixed_view_columns union all select lower(name), 0, 'inst_id', 'integer', \
             'Its instance.' from v$fixed_table where name like 'GV$%' union all select 'g' || \
             lower(view_name), column_id, lower(column_name), data_type, description from \
             v$fixed_view_columns where 'G' || view_name in (select name from v$fixed_table)) c \
             where true{} order by 1, column_id",
            like("view_name", pattern)
        );
        rows(self, &text).await
    }

    /// Columns of what can be selected from and is not in the catalog: names and types.
    async fn selected_columns(&mut self, name: &str) -> Result<Table> {
        let shown = if in_quotes(name).is_some() { name.to_owned() } else { format!("\"{name}\"") };
        let missing = || CliError::failed(format!("Did not find any relation named {shown}."));
        let is_name = |c: char| c.is_alphanumeric() || "_$#.\"".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(missing());
        }
        // The transaction that is open must not fail because of a name that is none.
        let open = self.transaction.open && !self.transaction.failed;
        let sent = |text: &'static str| async {
            let _ = if open { self.client.simple_query(text).await.map(|_| ()) } else { Ok(()) };
        };
        sent("savepoint skein_sql_describe").await;
        let found = self.client.prepare(&format!("select * from {name}")).await;
        if found.is_err() {
            sent("rollback to savepoint skein_sql_describe").await;
        }
        sent("release savepoint skein_sql_describe").await;
        let found = found.map_err(|_| missing())?;
        let columns = found.columns();
        let types = columns.iter().map(|c| format!("format_type({}, null)", c.type_().oid()));
        let types = rows(self, &format!("select {}", types.collect::<Vec<_>>().join(", "))).await?;
        let types = types.rows.into_iter().next().unwrap_or_default();
        let cells = columns
            .iter()
            .zip(types)
            .map(|(column, ty)| vec![None, Some(column.name().to_owned()), ty, None]);
        Ok(Table { header: Vec::new(), rows: cells.collect(), ..Table::default() })
    }

    /// What of a name only the server knows: columns of one or several views.
    async fn other_columns(&mut self, pattern: &str) -> Result<Table> {
        let table = self.server_views(pattern).await?;
        if table.rows.is_empty() { self.selected_columns(pattern).await } else { Ok(table) }
    }

    /// What a sequence goes by.
    async fn sequence(&self, one: &Relation) -> Result<Table> {
        let text = format!(
            "select format_type(q.seqtypid, null) as \"Type\", q.seqstart as \"Start\", \
             q.seqmin as \"Minimum\", q.seqmax as \"Maximum\", q.seqincrement as \"Increment\", case when \
             q.seqcycle then 'yes' else 'no' end as \"Cycles?\", q.seqcache as \"Cache\", (select \
             case d.order_flag when 'Y' then 'yes' else 'no' end from dba_sequences d where \
             d.sequence_owner = {} and d.sequence_name = {}) as \"Ordered?\" from pg_sequence q \
             where q.seqrelid = {}",
            literal(&field_name(&one.schema)),
            literal(&field_name(&one.name)),
            one.oid
        );
        rows(self, &text).await
    }

    async fn describe_relations(&mut self, pattern: &str) -> Result<()> {
        let csv = Csv::USUAL;
        let look = Look { heading: true, count: false, null: "", separator: "|", csv };
        let found = self.relations(pattern).await?;
        if found.is_empty() {
            let columns = self.other_columns(pattern).await?;
            let text = shown_views(pattern, &columns, &look);
            self.print(&text);
        }
        for one in found {
            let mut text = format!("{} \"{}.{}\"\n", kind_word(&one.kind), one.schema, one.name);
            let mut columns = match one.kind.as_str() {
                "S" => self.sequence(&one).await?,
                _ => self.columns(&one.oid).await?,
            };
            if columns.rows.is_empty() && one.schema == "pg_catalog" {
                // The catalog knows of itself by name only.
                let found = self.selected_columns(&one.name).await?;
                columns.rows = found.rows.into_iter().map(|mut row| row.split_off(1)).collect();
                columns.rows.iter_mut().for_each(|row| row.push(None));
            }
            text.push_str(&columns.text(Format::Aligned, &look));
            self.more(&one, &mut text).await?;
            self.print(&text);
        }
        Ok(())
    }

    async fn columns(&self, oid: &str) -> Result<Table> {
        let text = format!(
            "select a.attname as \"Column\", format_type(a.atttypid, a.atttypmod) as \"Type\", \
             case when a.attnotnull then 'not null' end as \"Nullable\", case when a.attidentity \
             <> '' then 'generated as identity' else pg_get_expr(d.adbin, d.adrelid) end as \
             \"Default\" from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and \
             d.adnum = a.attnum where a.attrelid = {oid} and a.attnum > 0 and not a.attisdropped \
             order by a.attnum"
        );
        rows(self, &text).await
    }

    /// Indexes, constraints, who refers to it, what a view shows.
    async fn more(&self, one: &Relation, out: &mut String) -> Result<()> {
        let oid = &one.oid;
        let parts = [
            (
                "Indexes",
                format!(
                    "select '\"' || c.relname || '\"' || case when x.indisprimary then ' PRIMARY \
                     KEY,' when x.indisunique then ' UNIQUE,' else '' end || \
                     regexp_replace(pg_get_indexdef(x.indexrelid), '^.* USING ', ' ') from \
                     pg_index x join pg_class c on c.oid = x.indexrelid where x.indrelid = {oid} \
                     order by x.indisprimary desc, c.relname"
                ),
            ),
            (
                "Constraints",
                format!(
                    "select '\"' || conname || '\" ' || pg_get_constraintdef(oid) from \
                     pg_constraint where conrelid = {oid} and contype in ('c', 'f') order by \
                     contype, conname"
                ),
            ),
            (
                "Referenced by",
                format!(
                    "select 'TABLE ' || conrelid::regclass || ' CONSTRAINT \"' || conname || '\" ' \
                     || pg_get_constraintdef(oid) from pg_constraint where confrelid = {oid} and \
                     contype = 'f' order by conname"
                ),
            ),
            (
                "View definition",
                match one.kind.as_str() {
                    "v" | "m" => format!("select pg_get_viewdef({oid})"),
                    _ => String::new(),
                },
            ),
        ];
        for (title, text) in parts {
            if text.is_empty() {
                continue;
            }
            let found = rows(self, &text).await?;
            if !found.rows.is_empty() {
                let _ = writeln!(out, "{title}:");
            }
            for cell in found.rows.iter().flatten().flatten() {
                let _ = writeln!(out, "    {cell}");
            }
        }
        Ok(())
    }

    /// Stored procedures and functions of a name, a row for each argument: number, name, kind and
    /// result of the routine, name, mode and type of the argument, whether there is none, and how
    /// many have to be given.
    async fn arguments(&self, name: &str) -> Result<Table> {
        let schema = match parts(name).0 {
            Some(schema) => format!(" and n.nspname = {}", literal(&plain(schema))),
            None => " and pg_function_is_visible(p.oid)".to_owned(),
        };
        let text = format!(
            "select p.oid, p.proname, p.prokind, pg_get_function_result(p.oid), \
             p.proargnames[a.n], coalesce(p.proargmodes[a.n]::text, 'i'), \
             format_type(coalesce(p.proallargtypes[a.n], p.proargtypes[a.n - 1]), null), \
             case when a.n is null then 'no' end, p.pronargs - p.pronargdefaults from pg_proc p \
             join pg_namespace n on n.oid = p.pronamespace left join lateral generate_series(1, \
             coalesce(array_length(p.proallargtypes, 1), p.pronargs)) a(n) on true where p.prokind \
             in ('f', 'p') and n.nspname <> 'pg_catalog'{schema} and p.proname = {} order by \
             p.oid, a.n",
            literal(&plain(parts(name).1))
        );
        rows(self, &text).await
    }

    /// The field's `describe`.
    pub(super) async fn describe_columns(&mut self, name: &str) -> Result<()> {
        let csv = Csv::USUAL;
        let look = Look { heading: true, count: false, null: "", separator: " ", csv };
        let found = self.relations(name).await?.into_iter().next();
        let Some(one) = found.filter(|one| one.schema != "pg_catalog") else {
            let routines = self.arguments(name).await?;
            if !routines.rows.is_empty() {
                self.print(&shown_routines(&routines, &look));
                return Ok(());
            }
            let text = self.other_columns(name).await.map(|columns| described(columns, &look))?;
            self.print(&text);
            return Ok(());
        };
        if one.kind == "S" {
            let table = self.sequence(&one).await?;
            self.print(&table.text(Format::Aligned, &look));
            return Ok(());
        }
        let columns = self.columns(&one.oid).await?;
        let rows = columns.rows.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let (name, ty, null) = (cells.next(), cells.next(), cells.next());
            let null = null.flatten().map(|text| text.to_uppercase());
            vec![name.flatten(), null, ty.flatten()]
        });
        let header = ["Name", "Null?", "Type"].map(str::to_owned).to_vec();
        let table = Table { header, rows: rows.collect(), ..Table::default() };
        let text = table.text(Format::Aligned, &look);
        self.print(&text);
        Ok(())
    }
}

/// A name as the `dba_` views show it.
fn field_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_$#".contains(c);
    if name.chars().all(plain) { name.to_ascii_uppercase() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes_are_taken_as_they_are() {
        assert_eq!(parts("S.t"), (Some("S"), "t"));
        assert_eq!(parts("\"a.b\""), (None, "\"a.b\""));
        assert_eq!(parts("\"a.b\".\"C\""), (Some("\"a.b\""), "\"C\""));
        assert_eq!(
            (plain("\"Mixed \"\"Tab\""), plain("Mixed")),
            ("Mixed \"Tab".into(), "mixed".into())
        );
        assert_eq!(like("x", "s.\"A*\""), " and x = 'A*'");
        assert_eq!(like("x", "s.A*"), " and x like 'a%'");
    }

    #[test]
    fn routines_are_shown_with_their_arguments() {
        let row = |cells: &[&str]| -> Vec<Option<String>> {
            cells.iter().map(|cell| (!cell.is_empty()).then(|| (*cell).to_owned())).collect()
        };
        let rows = vec![
            row(&["1", "p", "p", "", "a", "i", "numeric", "", "2"]),
            row(&["1", "p", "p", "", "b", "o", "text", "", "2"]),
            row(&["1", "p", "p", "", "c", "b", "text", "", "2"]),
            row(&["1", "p", "p", "", "d", "i", "date", "", "2"]),
            row(&["2", "f", "f", "numeric", "", "i", "", "no", "0"]),
        ];
        let table = Table { rows, ..Table::default() };
        let csv = Csv::USUAL;
        let look = Look { heading: true, count: false, null: "", separator: " ", csv };
        let shown = shown_routines(&table, &look);
        let wanted = [
            "PROCEDURE p",
            " Argument Name   Type      In/Out   Default?",
            "--------------- --------- -------- ----------",
            " a               numeric   IN",
            " b               text      OUT",
            " c               text      IN/OUT",
            " d               date      IN       DEFAULT",
            "FUNCTION f RETURNS numeric",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    }
}
