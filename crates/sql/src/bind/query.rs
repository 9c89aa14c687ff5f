//! Queries: every clause is either bound or refused.

use super::expr::row_in_condition;
use super::{Binder, ident_name, output_name, refuse, table_parts};
use crate::parse::Parsed;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, Fetch, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, LimitClause, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, Parens, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, TableWithJoins, Value, Values,
    WildcardAdditionalOptions, With,
};

/// Rows looked for in subqueries by a condition, or by a part of it that AND joins.
fn rows_as_exists(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rows_as_exists(left)?;
            rows_as_exists(right)
        }
        Expr::Nested(inner) => rows_as_exists(inner),
        other => {
            if let Some(exists) = row_in_condition(other)? {
                *other = exists;
            }
            Ok(())
        }
    }
}

/// A union of selects, in their order, no deeper nested than it has to be; `None`: there are none.
fn all_of(mut selects: Vec<SetExpr>) -> Option<SetExpr> {
    if selects.len() < 2 {
        return selects.pop();
    }
    let right = selects.split_off(selects.len() / 2);
    Some(SetExpr::SetOperation {
        left: Box::new(all_of(selects)?),
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        right: Box::new(all_of(right)?),
    })
}

/// VALUES as a union of selects, one for each row, with the same names. What is noted at the
/// expressions, such as types of users' own, stays with them.
pub(crate) fn union_of_values(values: &Values) -> Result<SetExpr> {
    let no_skeleton = || PgError::internal("no skeleton");
    let Parsed::Sql(ast) = crate::parse::parse_single("select 1")?.parsed else {
        return Err(no_skeleton());
    };
    let Statement::Query(skeleton) = *ast else { return Err(no_skeleton()) };
    let SetExpr::Select(skeleton) = *skeleton.body else { return Err(no_skeleton()) };
    let select = |row: &Parens<Vec<Expr>>| {
        let mut select = skeleton.clone();
        let named = |(at, value): (usize, &Expr)| {
            let alias = Ident::new(format!("column{}", at + 1));
            SelectItem::ExprWithAlias { expr: value.clone(), alias }
        };
        select.projection = row.content.iter().enumerate().map(named).collect();
        SetExpr::Select(select)
    };
    all_of(values.rows.iter().map(select).collect()).ok_or_else(no_skeleton)
}

/// Whether rows of VALUES are columns of something else, as they are in LATERAL: the library takes
/// no two columns for values of one.
fn has_columns(values: &Values) -> bool {
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    values.rows.len() > 1 && values.rows.iter().any(|row| row.content.iter().any(is_column))
}

/// Rows of VALUES that may become a UNION for the types in them: it is slow to plan for many.
const UNION_ROWS_MAX: usize = 500;

/// Whether a column of VALUES has values of several types one of which has a length or a scale: the
/// library takes only such together as differ in nothing but a type of its own.
fn mixes_types(values: &Values) -> bool {
    let typed = |expr: &Expr| match expr {
        Expr::Cast { data_type, .. } => Some(data_type.to_string()),
        Expr::TypedString(typed) => Some(typed.data_type.to_string()),
        expr => is_number(expr).then(String::new),
    };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    values.rows.len() <= UNION_ROWS_MAX
        && (0..columns).any(|at| {
            let mut types = values.rows.iter().filter_map(|row| typed(row.content.get(at)?));
            let Some(first) = types.next() else { return false };
            let mut others = types.filter(|ty| *ty != first).peekable();
            others.peek().is_some() && (first.contains('(') || others.any(|ty| ty.contains('(')))
        })
}

/// A text that has no type yet.
fn is_open(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(
        value.value,
        Value::SingleQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::DollarQuotedString(_)
    ))
}

/// The columns of VALUES in which such texts stand beside what has a type that is not written
/// there: the library would take them for texts.
fn open_columns(values: &Values) -> Vec<usize> {
    let written =
        |expr: &Expr| matches!(expr, Expr::Cast { .. } | Expr::TypedString(_) | Expr::Interval(_));
    let nothing = |expr: &Expr| {
        matches!(expr, Expr::Value(value)
            if matches!(value.value, Value::Null | Value::Placeholder(_)))
    };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    let open = |at: &usize| {
        let mut all = values.rows.iter().filter_map(|row| row.content.get(*at));
        let texts = all.clone().any(is_open);
        // Literals take a type that is written from it as it is.
        texts && !all.clone().any(written) && all.any(|expr| !is_open(expr) && !nothing(expr))
    };
    (0..columns).filter(open).collect()
}

/// VALUES as a branch of UNION: the library looks for its columns under the first branch's names
/// when a third one is of another type.
fn select_from_values(branch: &mut SetExpr) -> Result<()> {
    if !matches!(branch, SetExpr::Values(_)) {
        return Ok(());
    }
    let text = "select * from (values (1)) as \"*VALUES*\"";
    let no_skeleton = || PgError::internal("no skeleton");
    let Parsed::Sql(ast) = crate::parse::parse_single(text)?.parsed else {
        return Err(no_skeleton());
    };
    let Statement::Query(mut query) = *ast else { return Err(no_skeleton()) };
    if let SetExpr::Select(select) = &mut *query.body
        && let [TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }] =
            &mut select.from[..]
    {
        std::mem::swap(&mut *subquery.body, branch);
    }
    *branch = *query.body;
    Ok(())
}

impl Binder<'_> {
    pub(super) fn query(&mut self, query: &mut Query) -> Result<()> {
        self.enter()?;
        crate::with::check_run_once(query)?;
        self.drop_partitions(query);
        let ordered = query.order_by.is_some();
        self.drop_useless_order(query);
        super::distinct::with_positions(query)?;
        super::ordered::with_names_apart(query)?;
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if !locks.is_empty() {
            return refuse("FOR UPDATE in this place");
        }
        if for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
        {
            return refuse("this clause");
        }
        let in_projection = std::mem::replace(&mut self.in_projection, false);
        let known = self.ctes.len();
        if let Some(with) = with {
            self.with(with)?;
        }
        let sets = std::mem::replace(&mut self.sets_found, false);
        let windows = std::mem::take(&mut self.windows);
        let limits = limit_clause.is_some() || fetch.is_some();
        let limited = std::mem::replace(&mut self.limited, limits);
        self.set_expr(body)?;
        self.limited = limited;
        if let Some(order_by) = order_by {
            if self.sets_found && !orders_by_output(order_by, body) {
                return refuse(
                    "ORDER BY of what is not in the select list, beside a set-returning function",
                );
            }
            self.order_by(order_by)?;
        }
        self.windows = windows;
        self.sets_found = sets;
        let ties = match limit_clause {
            Some(LimitClause::LimitOffset { limit: Some(limit), .. }) => {
                amount_with_ties(limit).is_some()
            }
            _ => fetch.as_ref().is_some_and(|fetch| fetch.with_ties),
        };
        if ties && !ordered {
            let text = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(PgError::syntax(text));
        }
        self.limit(limit_clause, fetch)?;
        self.ctes.truncate(known);
        self.in_projection = in_projection;
        self.depth -= 1;
        Ok(())
    }

    /// The queries of a WITH clause; their names are known from here on.
    pub(super) fn with(&mut self, with: &mut With) -> Result<()> {
        for cte in &mut with.cte_tables {
            if cte.from.is_some() {
                return refuse("FROM in a common table expression");
            }
            let name = ident_name(&cte.alias.name);
            // A recursive one may name itself.
            if with.recursive {
                super::calls::check_recursion(&name, &cte.query)?;
                super::recursive::with_in_terms(&mut cte.query, &name)?;
                self.ctes.push(name.clone());
            }
            self.query(&mut cte.query)?;
            self.ctes.push(name);
        }
        Ok(())
    }

    fn order_by(&mut self, order_by: &mut OrderBy) -> Result<()> {
        if order_by.interpolate.is_some() {
            return refuse("INTERPOLATE");
        }
        match &mut order_by.kind {
            OrderByKind::All(_) => refuse("ORDER BY ALL"),
            OrderByKind::Expressions(all) => self.order_by_list(all, true),
        }
    }

    pub(super) fn order_by_list(&mut self, all: &mut [OrderByExpr], positions: bool) -> Result<()> {
        for one in all {
            if one.with_fill.is_some() {
                return refuse("WITH FILL");
            }
            // A number is the position of an output column and stays a plain literal.
            if !(positions && is_number(&one.expr)) {
                self.expr(&mut one.expr)?;
            }
        }
        Ok(())
    }

    fn limit(&mut self, clause: &mut Option<LimitClause>, fetch: &mut Option<Fetch>) -> Result<()> {
        if let Some(fetch) = fetch.take() {
            if fetch.percent {
                return Err(PgError::syntax("syntax error at or near \"PERCENT\""));
            }
            let one = || super::expr::number("1");
            let mut quantity = fetch.quantity.unwrap_or_else(one);
            if fetch.with_ties {
                check_not_null(&quantity)?;
                // The planner knows the limit by the call.
                quantity = super::expr::call(::query::WITH_TIES, vec![quantity]);
            }
            match clause {
                None => {
                    *clause = Some(LimitClause::LimitOffset {
                        limit: Some(quantity),
                        offset: None,
                        limit_by: Vec::new(),
                    });
                }
                Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
                    *limit = Some(quantity)
                }
                Some(_) => return Err(PgError::syntax("multiple LIMIT clauses not allowed")),
            }
        }
        match clause {
            None => Ok(()),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if !limit_by.is_empty() {
                    return refuse("LIMIT BY");
                }
                limit.iter_mut().try_for_each(|expr| self.limit_expr(expr, "LIMIT"))?;
                offset.iter_mut().try_for_each(|o| self.limit_expr(&mut o.value, "OFFSET"))
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => refuse("LIMIT with a comma"),
        }
    }

    pub(super) fn limit_expr(&mut self, expr: &mut Expr, clause: &str) -> Result<()> {
        if is_whole_number(expr) {
            return Ok(());
        }
        if let Some(quantity) = amount_with_ties(expr) {
            return self.limit_expr(quantity, clause);
        }
        if let Expr::Value(value) = expr
            && let datafusion::sql::sqlparser::ast::Value::Placeholder(name) = &value.value
        {
            let at = super::expr::placeholder_index(name)?;
            if let Some(slot @ None) = self.params.types.get_mut(at) {
                *slot = Some(kernel::row::ColType::new(kernel::row::TypeKind::Int8));
            }
        }
        let is_name = |e: &Expr| matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if crate::outside::any(expr, is_name) {
            let text = format!("argument of {clause} must not contain variables");
            return Err(PgError::new("42P10", text));
        }
        if let Expr::Value(value) = expr {
            match &value.value {
                Value::Boolean(_) => {
                    let text =
                        format!("argument of {clause} must be type bigint, not type boolean");
                    return Err(PgError::new("42804", text));
                }
                Value::Number(..) | Value::SingleQuotedString(_) => {
                    *expr = super::expr::as_bigint(expr.clone());
                }
                _ => {}
            }
        } else if crate::outside::any(expr, is_fraction) {
            *expr = super::expr::as_bigint(expr.clone());
        }
        self.expr(expr)
    }

    pub(super) fn set_expr(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                if *op == SetOperator::Minus {
                    *op = SetOperator::Except;
                }
                if !matches!(
                    set_quantifier,
                    SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
                ) {
                    return refuse("BY NAME");
                }
                self.enter()?;
                for side in [left, right] {
                    select_from_values(side)?;
                    self.set_expr(side)?;
                }
                self.depth -= 1;
                Ok(())
            }
            SetExpr::Values(values) if has_columns(values) || mixes_types(values) => {
                crate::direct::check_widths(values.rows.iter().map(|row| row.content.len()))?;
                *body = union_of_values(values)?;
                self.set_expr(body)
            }
            SetExpr::Values(values) => {
                crate::direct::check_widths(values.rows.iter().map(|row| row.content.len()))?;
                let open = open_columns(values);
                super::expr::type_literals(values);
                for row in &mut values.rows {
                    for (at, expr) in row.content.iter_mut().enumerate() {
                        self.expr(expr)?;
                        if is_open(expr) && open.contains(&at) {
                            *expr = super::expr::call(::query::UNTYPED, vec![expr.clone()]);
                        }
                    }
                }
                Ok(())
            }
            SetExpr::Table(table) => {
                let name = table.table_name.clone().unwrap_or_default().to_lowercase();
                let schema = table.schema_name.as_ref().map(|s| s.to_lowercase());
                self.relation(schema, name);
                Ok(())
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                let text =
                    "WITH clause containing a data-modifying statement must be at the top level";
                Err(PgError::new("0A000", text))
            }
        }
    }

    fn select(&mut self, select: &mut Select) -> Result<()> {
        if select.projection.len() > TARGETS_MAX {
            let text = format!("target lists can have at most {TARGETS_MAX} entries");
            return Err(PgError::new("54011", text));
        }
        let mut names = Vec::new();
        select.from.iter().for_each(|from| names_of_from(from, &mut names));
        self.scopes.push(names);
        let known = self.set_aliases.len();
        select.from.iter().for_each(|from| super::from::set_aliases(from, &mut self.set_aliases));
        self.select_in_scope(select)?;
        self.set_aliases.truncate(known);
        self.scopes.pop();
        Ok(())
    }

    fn select_in_scope(&mut self, select: &mut Select) -> Result<()> {
        self.table_numbers(select)?;
        self.empty_select(select)?;
        let Select {
            select_token: _,
            optimizer_hints: _,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        if top.is_some()
            || select_modifiers.is_some()
            || exclude.is_some()
            || !lateral_views.is_empty()
            || prewhere.is_some()
            || !cluster_by.is_empty()
            || !distribute_by.is_empty()
            || !sort_by.is_empty()
            || qualify.is_some()
            || value_table_mode.is_some()
        {
            return refuse("this clause");
        }
        if into.is_some() {
            return refuse("SELECT INTO");
        }
        if !connect_by.is_empty() {
            return refuse("CONNECT BY");
        }
        if !matches!(flavor, datafusion::sql::sqlparser::ast::SelectFlavor::Standard) {
            return refuse("a query that begins with FROM");
        }
        self.named_windows(named_window)?;
        if let Some(Distinct::On(all)) = distinct {
            all.iter_mut().try_for_each(|expr| self.expr(expr))?;
        }
        let after_first = std::mem::replace(&mut self.after_first, false);
        for one in from.iter_mut() {
            self.table_with_joins(one)?;
            self.after_first = true;
        }
        self.after_first = after_first;
        // One that is shown, whatever else there is.
        let single = from.is_empty() && self.depth <= 1 && !self.limited;
        let single = single && selection.is_none() && having.is_none();
        let one_row = std::mem::replace(&mut self.one_row, single);
        let in_projection = std::mem::replace(&mut self.in_projection, true);
        projection.iter_mut().try_for_each(|item| self.select_item(item))?;
        self.in_projection = false;
        self.one_row = one_row;
        name_columns(projection);
        if let Some(expr) = selection {
            super::calls::no_windows(expr, "WHERE")?;
            rows_as_exists(expr)?;
            self.expr(expr)?;
        }
        self.group_by(group_by, projection, having)?;
        if let Some(expr) = having {
            super::calls::no_windows(expr, "HAVING")?;
            self.expr(expr)?;
        }
        self.in_projection = in_projection;
        Ok(())
    }

    pub(super) fn select_item(&mut self, item: &mut SelectItem) -> Result<()> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                // The name comes from the expression as it was written.
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let name = output_name(&SelectItem::UnnamedExpr(expr.clone()));
                self.expr(expr)?;
                let still_plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                // A function's alias may stand for its column, which has another name.
                let same = || output_name(&SelectItem::UnnamedExpr(expr.clone())) == name;
                if !(plain && still_plain && same()) {
                    let name = name.unwrap_or_else(|| "?column?".to_owned());
                    let alias = Ident::with_quote('"', name);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
                Ok(())
            }
            SelectItem::ExprWithAlias { expr, .. } => self.expr(expr),
            SelectItem::ExprWithAliases { .. } => refuse("several aliases"),
            SelectItem::QualifiedWildcard(kind, options) => {
                plain_wildcard(options)?;
                match kind {
                    SelectItemQualifiedWildcardKind::ObjectName(_) => Ok(()),
                    SelectItemQualifiedWildcardKind::Expr(_) => {
                        refuse("a wildcard of an expression")
                    }
                }
            }
            SelectItem::Wildcard(options) => plain_wildcard(options),
        }
    }

    pub(super) fn table_with_joins(&mut self, from: &mut TableWithJoins) -> Result<()> {
        self.table_factor(&mut from.relation)?;
        let before = std::mem::replace(&mut self.after_first, true);
        for Join { relation, global, join_operator } in &mut from.joins {
            if *global {
                return refuse("GLOBAL JOIN");
            }
            self.table_factor(relation)?;
            match join_operator {
                JoinOperator::Join(on)
                | JoinOperator::Inner(on)
                | JoinOperator::Left(on)
                | JoinOperator::LeftOuter(on)
                | JoinOperator::Right(on)
                | JoinOperator::RightOuter(on)
                | JoinOperator::FullOuter(on) => match on {
                    JoinConstraint::On(expr) => self.expr(expr)?,
                    JoinConstraint::Using(_) | JoinConstraint::Natural => {}
                    JoinConstraint::None => {
                        return Err(PgError::syntax("syntax error: JOIN without ON or USING"));
                    }
                },
                JoinOperator::CrossJoin(JoinConstraint::None) => {}
                _ => return refuse("this kind of join"),
            }
        }
        self.after_first = before;
        Ok(())
    }
}

/// Most entries of a select list, as in PostgreSQL.
pub(crate) const TARGETS_MAX: usize = 1664;

/// What columns may be qualified with: schema, if one is given, and name.
pub(crate) fn names_of_from(from: &TableWithJoins, out: &mut Vec<(Option<String>, String)>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                out.push((None, ident_name(&alias.name)));
            }
            TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
                out.extend(table_parts(name));
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                names_of_from(table_with_joins, out);
            }
            _ => {}
        }
    }
}

/// Whether a query is ordered by nothing but its output columns.
fn orders_by_output(order_by: &OrderBy, body: &SetExpr) -> bool {
    let (OrderByKind::Expressions(all), SetExpr::Select(select)) = (&order_by.kind, body) else {
        return true;
    };
    let names: Vec<String> = select.projection.iter().filter_map(output_name).collect();
    all.iter().all(|one| match &one.expr {
        Expr::Identifier(ident) => names.contains(&ident_name(ident)),
        other => is_number(other),
    })
}

/// What stands at a position of the select list, by its number in GROUP BY; `None`: that is for the
/// planner to say, which knows how many columns `*` has.
pub(super) fn at_position(number: &Expr, shown: &[SelectItem]) -> Result<Option<Expr>> {
    let text = number.to_string();
    let wildcard = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    if shown.iter().any(wildcard) {
        return Ok(None);
    }
    let at = text.parse::<usize>().ok().and_then(|n| shown.get(n.checked_sub(1)?));
    match at {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            Ok(Some(expr.clone()))
        }
        _ => {
            let text = format!("GROUP BY position {text} is not in select list");
            Err(PgError::new("42P10", text))
        }
    }
}

pub(super) fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(v)
        if matches!(v.value, datafusion::sql::sqlparser::ast::Value::Number(..)))
}

fn is_whole_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(v) if matches!(&v.value, Value::Number(digits, _)
        if digits.bytes().all(|b| b.is_ascii_digit())))
}

fn is_fraction(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(v) if matches!(&v.value, Value::Number(digits, _)
        if digits.contains('.')))
}

/// Refuses NULL as the amount of a limit that the last row's equals go past.
fn check_not_null(quantity: &Expr) -> Result<()> {
    if matches!(quantity, Expr::Value(value) if matches!(value.value, Value::Null)) {
        let text = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
        return Err(PgError::new("2201W", text));
    }
    Ok(())
}

/// The amount of a limit that the last row's equals go past.
fn amount_with_ties(expr: &mut Expr) -> Option<&mut Expr> {
    let Expr::Function(function) = expr else { return None };
    if ident_name(function.name.0.first()?.as_ident()?) != ::query::WITH_TIES {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(quantity)) => Some(quantity),
        _ => None,
    }
}

/// Whether nothing is left out but columns of our own, as they stand beside a hierarchy's.
fn is_of_walk(names: &ExcludeSelectItem) -> bool {
    let own =
        |name: &ObjectName| name.to_string().starts_with(&format!("\"{}", crate::idioms::OWN));
    match names {
        ExcludeSelectItem::Single(name) => own(name),
        ExcludeSelectItem::Multiple(names) => names.iter().all(own),
    }
}

fn plain_wildcard(options: &WildcardAdditionalOptions) -> Result<()> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    if opt_ilike.is_some()
        || opt_exclude.as_ref().is_some_and(|names| !is_of_walk(names))
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some()
    {
        return refuse("an option of a wildcard");
    }
    Ok(())
}

/// Marks output names that repeat another, since DataFusion wants them distinct; [`shown_name`]
/// takes the mark off.
pub(crate) fn name_columns(items: &mut [SelectItem]) {
    let mut seen: Vec<String> = Vec::new();
    for item in items {
        let name = match item {
            SelectItem::UnnamedExpr(expr) => {
                match output_name(&SelectItem::UnnamedExpr(expr.clone())) {
                    Some(name) => name,
                    None => continue,
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => ident_name(alias),
            _ => continue,
        };
        if !seen.contains(&name) {
            seen.push(name);
            continue;
        }
        let unique = format!("{name}{MARK}{}", seen.len());
        seen.push(unique.clone());
        let alias = Ident::with_quote('"', unique);
        match item {
            SelectItem::UnnamedExpr(expr) => {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            SelectItem::ExprWithAlias { alias: old, .. } => *old = alias,
            _ => {}
        }
    }
}

pub(super) const MARK: char = '\u{1}';

/// A name that is no other column's, though the client sees `name`.
pub(crate) fn marked_name(name: &str, number: usize) -> String {
    format!("{name}{MARK}{number}*")
}

/// An output column's name as the client sees it.
pub(crate) fn shown_name(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}
