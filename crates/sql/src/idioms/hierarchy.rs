//! Hierarchies: `SELECT .. CONNECT BY PRIOR id = parent START WITH ..` as WITH RECURSIVE.
//!
//! What it promises: rows come with those below them, one branch after the other; a row that would
//! stand below itself is an error (22000), with NOCYCLE it is left out. A row is told from others
//! by what PRIOR asks of it. What it must never do: take WHERE for a condition of the walk; it is
//! asked of the rows that have been found.

use super::{alias_of, all_of, derived, is, parsed, plain_name, quoted};
use crate::bind::{ident_name, plain_args};
use crate::parse::{is_space, is_word};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    ConnectByKind, ExcludeSelectItem, Expr, Function, GroupByExpr, Ident, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The level below another one, or the error of a loop.
pub(crate) const LEVEL_FUNCTION: &str = "$connect_by_level";

/// What stands before the keys of ORDER SIBLINGS BY.
pub(super) const SIBLINGS: &str = "$siblings";
const PRIOR: &str = "$prior";
const ROOT: &str = "$connect_by_root";
/// How columns begin that only the walk has.
pub(crate) const OWN: &str = "$h_";

const LEVEL: &str = "$h_level";
const ORDER: &str = "$h_order";
const KEYS: &str = "$h_keys";
const LEAF: &str = "$h_leaf";

/// The words around CONNECT BY that the library does not read, as calls: `PRIOR x` and
/// `CONNECT_BY_ROOT x`; and ORDER SIBLINGS BY with a mark as its first key.
pub(crate) fn with_marked_words(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    if !(0..used.len()).any(|n| word(n, "connect") && word(n + 1, "by")) {
        return tokens;
    }
    let is = |n: usize, token: &Token| used.get(n).is_some_and(|at| tokens[*at].token == *token);
    let name = |n: usize| used.get(n).is_some_and(|at| matches!(tokens[*at].token, Token::Word(_)));
    // Tokens in the place of one, and what is put behind one.
    let mut replaced: Vec<(usize, Vec<Token>)> = Vec::new();
    let mut behind: Vec<usize> = Vec::new();
    for n in 0..used.len() {
        if word(n, "siblings") && n > 0 && word(n - 1, "order") && word(n + 1, "by") {
            replaced.push((used[n], Vec::new()));
            let mark =
                [Token::make_keyword("BY"), Token::make_word(SIBLINGS, Some('"')), Token::Comma];
            replaced.push((used[n + 1], mark.to_vec()));
            continue;
        }
        let function = match () {
            () if word(n, "prior") => PRIOR,
            () if word(n, "connect_by_root") => ROOT,
            () => continue,
        };
        let qualified = n > 0 && is(n - 1, &Token::Period);
        if qualified || !(name(n + 1) || is(n + 1, &Token::LParen)) {
            continue;
        }
        let call = Token::make_word(function, Some('"'));
        if is(n + 1, &Token::LParen) {
            replaced.push((used[n], vec![call]));
            continue;
        }
        let mut end = n + 1;
        while is(end + 1, &Token::Period) && name(end + 2) {
            end += 2;
        }
        // A call, with its arguments.
        if is(end + 1, &Token::LParen) {
            let mut depth = 0usize;
            for at in end + 1..used.len() {
                depth += usize::from(is(at, &Token::LParen));
                depth -= usize::from(is(at, &Token::RParen));
                if depth == 0 {
                    end = at;
                    break;
                }
            }
        }
        replaced.push((used[n], vec![call, Token::LParen]));
        behind.push(used[end]);
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
    for (at, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        match replaced.iter().find(|(place, _)| *place == at) {
            Some((_, words)) => {
                out.extend(words.iter().cloned().map(|token| TokenWithSpan { token, span }));
            }
            None => out.push(token),
        }
        if behind.contains(&at) {
            out.push(TokenWithSpan { token: Token::RParen, span });
        }
    }
    out
}

/// Goes through what stands in a select itself, not in the queries in it.
struct Outside<F> {
    depth: usize,
    change: F,
}

impl<F: FnMut(&mut Expr) -> Result<()>> VisitorMut for Outside<F> {
    type Break = Box<PgError>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<PgError>> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<PgError>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        super::broken((self.change)(expr))
    }
}

fn each<T: VisitMut>(within: &mut T, change: impl FnMut(&mut Expr) -> Result<()>) -> Result<()> {
    match within.visit(&mut Outside { depth: 0, change }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn name_of(function: &Function) -> Option<String> {
    plain_name(&function.name)
}

/// What the walk carries along.
#[derive(Default)]
struct Carried {
    /// Values that PRIOR asks of a row's parent.
    priors: Vec<Expr>,
    /// Which of them are asked for outside of CONNECT BY.
    shown: Vec<usize>,
    roots: Vec<Expr>,
    /// Values and what stands before each.
    paths: Vec<(Expr, Expr)>,
    leaf: bool,
}

fn place<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

fn column(name: impl AsRef<str>) -> Expr {
    Expr::Identifier(quoted(name.as_ref()))
}

impl Carried {
    /// The one argument of PRIOR, in either form.
    fn prior(expr: &Expr) -> Result<Option<Expr>> {
        match expr {
            Expr::Prior(inner) => Ok(Some((**inner).clone())),
            Expr::Function(function) if name_of(function).as_deref() == Some(PRIOR) => {
                match &plain_args(function)?[..] {
                    [one] => Ok(Some(one.clone())),
                    _ => Err(PgError::syntax("PRIOR takes one expression")),
                }
            }
            _ => Ok(None),
        }
    }

    /// What an expression of the select stands for, if it is one of the walk's.
    fn found(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        if let Some(of) = Carried::prior(expr)? {
            let at = place(&mut self.priors, of);
            place(&mut self.shown, at);
            return Ok(Some(column(format!("{OWN}up{at}"))));
        }
        match expr {
            Expr::Identifier(ident) if is(ident, "level") => Ok(Some(column(LEVEL))),
            Expr::Identifier(ident) if is(ident, "connect_by_isleaf") => {
                self.leaf = true;
                Ok(Some(column(LEAF)))
            }
            Expr::Identifier(ident) if is(ident, "connect_by_iscycle") => {
                Err(PgError::unsupported("the pseudo-column connect_by_iscycle"))
            }
            Expr::Function(function) => {
                let name = name_of(function).unwrap_or_default();
                match (name.as_str(), &plain_args_of(function, &name)?[..]) {
                    (ROOT, [of]) => {
                        let at = place(&mut self.roots, of.clone());
                        Ok(Some(column(format!("{OWN}root{at}"))))
                    }
                    ("sys_connect_by_path", [of, separator]) => {
                        let at = place(&mut self.paths, (of.clone(), separator.clone()));
                        Ok(Some(column(format!("{OWN}path{at}"))))
                    }
                    (ROOT | "sys_connect_by_path", args) => {
                        let name = name.trim_start_matches('$');
                        let count = args.len();
                        let text = format!("function {name} with {count} arguments does not exist");
                        Err(PgError::new("42883", text))
                    }
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }
}

fn plain_args_of(function: &Function, name: &str) -> Result<Vec<Expr>> {
    match name {
        ROOT | "sys_connect_by_path" => plain_args(function),
        _ => Ok(Vec::new()),
    }
}

/// Walks through the hierarchies of a query, if it asks for some.
pub(super) fn walked(query: &mut Query) -> Result<()> {
    let siblings = siblings_of(&mut query.order_by)?;
    let locks = !query.locks.is_empty();
    match &mut *query.body {
        SetExpr::Select(select) => {
            if select.connect_by.is_empty() {
                return match siblings {
                    None => Ok(()),
                    Some(_) => {
                        Err(PgError::syntax("ORDER SIBLINGS BY is for queries with CONNECT BY"))
                    }
                };
            }
            if locks {
                return Err(PgError::unsupported("FOR UPDATE of a query with CONNECT BY"));
            }
            let siblings = siblings.unwrap_or_default();
            let grouped = is_grouped(select);
            walk(select, &siblings, query.order_by.as_mut())?;
            if query.order_by.is_none() && !grouped {
                let order = parsed(&format!("select 1 order by \"{ORDER}\""))?;
                query.order_by = order.order_by;
            }
            Ok(())
        }
        body if siblings.is_none() => walk_sets(body),
        _ => Err(PgError::syntax("ORDER SIBLINGS BY is for queries with CONNECT BY")),
    }
}

fn walk_sets(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) if !select.connect_by.is_empty() => walk(select, &[], None),
        SetExpr::SetOperation { left, right, .. } => {
            walk_sets(left)?;
            walk_sets(right)
        }
        _ => Ok(()),
    }
}

/// The keys of ORDER SIBLINGS BY, taken out.
fn siblings_of(order: &mut Option<OrderBy>) -> Result<Option<Vec<OrderByExpr>>> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order else { return Ok(None) };
    let mark = |key: &OrderByExpr| match &key.expr {
        Expr::Identifier(ident) => ident.quote_style.is_some() && ident.value == SIBLINGS,
        _ => false,
    };
    if !keys.first().is_some_and(mark) {
        return Ok(None);
    }
    let keys = keys.split_off(1);
    *order = None;
    Ok(Some(keys))
}

/// Whether rows of the walk do not come out as they are.
fn is_grouped(select: &Select) -> bool {
    let by = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    let aggregated = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            crate::outside::any(expr, |part| match part {
                Expr::Function(function) => {
                    super::is_aggregate(function) && function.over.is_none()
                }
                _ => false,
            })
        }
        _ => false,
    });
    by || aggregated || select.distinct.is_some() || select.having.is_some()
}

fn unsupported(what: &str) -> PgError {
    PgError::unsupported(format!("CONNECT BY with {what}"))
}

fn walk(select: &mut Select, siblings: &[OrderByExpr], order: Option<&mut OrderBy>) -> Result<()> {
    let (mut start, mut connect, mut nocycle) = (None, None, false);
    for clause in std::mem::take(&mut select.connect_by) {
        match clause {
            ConnectByKind::StartWith { condition, .. } => start = Some(*condition),
            ConnectByKind::ConnectBy { nocycle: without, relationships, .. } => {
                nocycle = without;
                connect = all_of(relationships);
            }
        }
    }
    let Some(mut connect) = connect else {
        return Err(PgError::syntax("START WITH without CONNECT BY"));
    };
    let [TableWithJoins { relation, joins }] = &select.from[..] else {
        return Err(unsupported("several relations in FROM")
            .with_hint("Put the joined rows into a subquery in FROM."));
    };
    if !joins.is_empty() {
        return Err(unsupported("a join").with_hint("Put the joined rows into a subquery in FROM."));
    }
    let mut source = relation.clone();
    let alias = match (&mut source, alias_of(relation)) {
        (_, Some(alias)) => alias,
        (TableFactor::Derived { alias: None, .. }, None) => quoted("$h"),
        _ => return Err(unsupported("this form of a table in FROM")),
    };
    if let TableFactor::Table { alias: own, .. } | TableFactor::Derived { alias: own, .. } =
        &mut source
    {
        *own = None;
    }
    let subquery = crate::outside::any(&connect, |part| {
        matches!(part, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
    });
    if subquery {
        return Err(unsupported("a subquery in its condition"));
    }
    let mut carried = Carried::default();
    each(&mut connect, |expr| {
        if let Some(of) = Carried::prior(expr)? {
            let at = place(&mut carried.priors, of);
            *expr =
                Expr::CompoundIdentifier(vec![quoted("$p"), quoted(&format!("{OWN}prior{at}"))]);
        } else if matches!(expr, Expr::Identifier(ident) if is(ident, "level")) {
            *expr = crate::direct::parse_expr(&format!("(\"$p\".\"{LEVEL}\" + 1)"))?;
        } else if matches!(expr, Expr::Identifier(ident) if is(ident, "rownum")) {
            return Err(unsupported("rownum beside other conditions"));
        }
        Ok(())
    })?;
    // A row is known by what its children ask of it.
    let keys: Vec<Expr> = carried.priors.clone();
    let siblings = siblings.iter().map(|key| sibling_key(key, &select.projection)).collect();
    let wild = named_items(select);
    let mut change = |expr: &mut Expr| {
        if let Some(new) = carried.found(expr)? {
            *expr = new;
        }
        Ok(())
    };
    each(&mut select.projection, &mut change)?;
    each(&mut select.selection, &mut change)?;
    each(&mut select.group_by, &mut change)?;
    each(&mut select.having, &mut change)?;
    if let Some(order) = order {
        each(order, &mut change)?;
    }
    let walk = Walk { source, alias: alias.clone(), start, connect, nocycle, keys, siblings };
    if wild {
        exclude(select, &carried);
    }
    select.from = vec![derived(parsed(&walk.text(&carried))?, alias)?];
    Ok(())
}

/// Gives names to what stands for something of the walk; whether there is a wildcard.
fn named_items(select: &mut Select) -> bool {
    let mut wild = false;
    for item in &mut select.projection {
        let expr = match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                wild = true;
                continue;
            }
            SelectItem::UnnamedExpr(expr) => expr,
            _ => continue,
        };
        let name = match &*expr {
            Expr::Identifier(ident) if is(ident, "level") || is(ident, "connect_by_isleaf") => {
                ident_name(ident)
            }
            Expr::Function(function) => match name_of(function).as_deref() {
                Some(PRIOR) => "prior".to_owned(),
                Some(ROOT) => "connect_by_root".to_owned(),
                Some("sys_connect_by_path") => "sys_connect_by_path".to_owned(),
                _ => continue,
            },
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&name) };
    }
    wild
}

/// `*` does not show what only the walk has.
fn exclude(select: &mut Select, carried: &Carried) {
    let names = carried.columns();
    let names = names.iter().map(|name| ObjectName::from(vec![quoted(name)])).collect();
    let names = ExcludeSelectItem::Multiple(names);
    for item in &mut select.projection {
        if let SelectItem::Wildcard(options)
        | SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(_),
            options,
        ) = item
        {
            options.opt_exclude = Some(names.clone());
        }
    }
}

/// A key of ORDER SIBLINGS BY; a number is a position of the select list.
fn sibling_key(key: &OrderByExpr, items: &[SelectItem]) -> String {
    let position = key.expr.to_string().parse::<usize>().ok();
    let item = position.and_then(|at| items.get(at.checked_sub(1)?));
    let named = |ident: &Ident| {
        items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if ident_name(alias) == ident_name(ident) => {
                Some(expr.clone())
            }
            _ => None,
        })
    };
    let expr = match (item, &key.expr) {
        (Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }), _) => {
            expr.clone()
        }
        (_, Expr::Identifier(ident)) => named(ident).unwrap_or_else(|| key.expr.clone()),
        _ => key.expr.clone(),
    };
    OrderByExpr { expr, ..key.clone() }.to_string()
}

impl Carried {
    /// The columns that only the walk has.
    fn columns(&self) -> Vec<String> {
        let mut all = vec![LEVEL.to_owned(), ORDER.to_owned()];
        if !self.priors.is_empty() {
            all.push(KEYS.to_owned());
        }
        all.extend((0..self.priors.len()).map(|at| format!("{OWN}prior{at}")));
        all.extend(self.shown.iter().map(|at| format!("{OWN}up{at}")));
        all.extend((0..self.roots.len()).map(|at| format!("{OWN}root{at}")));
        all.extend((0..self.paths.len()).map(|at| format!("{OWN}path{at}")));
        if self.leaf {
            all.push(LEAF.to_owned());
        }
        all
    }
}

struct Walk {
    source: TableFactor,
    alias: Ident,
    start: Option<Expr>,
    connect: Expr,
    nocycle: bool,
    keys: Vec<Expr>,
    siblings: Vec<String>,
}

impl Walk {
    /// The query of all rows of the walk.
    fn text(&self, carried: &Carried) -> String {
        let Walk { source, alias, .. } = self;
        let siblings = match self.siblings.is_empty() {
            true => String::new(),
            false => format!("order by {}", self.siblings.join(", ")),
        };
        // Ten digits, so that texts stand in the order of the numbers.
        let number = format!("lpad((row_number() over ({siblings}))::text, 10, '0')");
        let key = self.keys.iter().map(|key| format!("coalesce(({key})::text, '')"));
        let key = key.collect::<Vec<_>>().join(" || chr(1) || ");
        let from = format!("{source} as {alias}");
        let mut first = vec![
            format!("{alias}.*"),
            format!("1 as \"{LEVEL}\""),
            format!("{number} as \"{ORDER}\""),
        ];
        let mut below = vec![format!("{alias}.*")];
        let next = format!("\"$p\".\"{LEVEL}\" + 1");
        let in_loop = format!("({key}) = any(\"$p\".\"{KEYS}\")");
        below.push(match self.nocycle || self.keys.is_empty() {
            true => format!("{next} as \"{LEVEL}\""),
            false => format!("\"{LEVEL_FUNCTION}\"({in_loop}, {next}) as \"{LEVEL}\""),
        });
        below.push(format!("\"$p\".\"{ORDER}\" || {number} as \"{ORDER}\""));
        if !carried.priors.is_empty() {
            let key = if self.keys.is_empty() { "''" } else { &key };
            first.push(format!("array[{key}] as \"{KEYS}\""));
            below.push(format!("\"$p\".\"{KEYS}\" || ({key}) as \"{KEYS}\""));
        }
        for (at, prior) in carried.priors.iter().enumerate() {
            first.push(format!("({prior}) as \"{OWN}prior{at}\""));
            below.push(format!("({prior}) as \"{OWN}prior{at}\""));
        }
        for at in &carried.shown {
            let prior = &carried.priors[*at];
            first.push(format!("case when false then ({prior}) end as \"{OWN}up{at}\""));
            below.push(format!("\"$p\".\"{OWN}prior{at}\" as \"{OWN}up{at}\""));
        }
        for (at, root) in carried.roots.iter().enumerate() {
            first.push(format!("({root}) as \"{OWN}root{at}\""));
            below.push(format!("\"$p\".\"{OWN}root{at}\" as \"{OWN}root{at}\""));
        }
        for (at, (value, separator)) in carried.paths.iter().enumerate() {
            let step = format!("({separator})::text || coalesce(({value})::text, '')");
            first.push(format!("{step} as \"{OWN}path{at}\""));
            below.push(format!("\"$p\".\"{OWN}path{at}\" || {step} as \"{OWN}path{at}\""));
        }
        let parent: Vec<String> = carried
            .columns()
            .iter()
            .filter(|name| *name != LEAF)
            .map(|name| format!("\"{name}\""))
            .collect();
        let mut condition = format!("({})", self.connect);
        if self.nocycle && !self.keys.is_empty() {
            condition.push_str(&format!(" and not ({in_loop})"));
        }
        let start = self.start.as_ref().map_or(String::new(), |start| format!("where {start}"));
        let leaf = match carried.leaf {
            false => String::new(),
            true => format!(
                ", case when lead(\"{LEVEL}\") over (order by \"{ORDER}\") > \"{LEVEL}\" then 0 \
                 else 1 end as \"{LEAF}\""
            ),
        };
        format!(
            "with recursive \"$h\" as (select {} from {from} {start} union all select {} from \
             {from} join (select {} from \"$h\") as \"$p\" on {condition}) select \"$h\".*{leaf} \
             from \"$h\"",
            first.join(", "),
            below.join(", "),
            parent.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;

    #[test]
    fn hierarchies_are_walked_recursively() {
        let text = shown(
            "select level, prior a, connect_by_root a from t e where b > 1 start with p is null \
             connect by prior a = p order siblings by b desc",
        );
        assert!(text.contains("WITH RECURSIVE \"$h\" AS (SELECT e.*"), "{text}");
        assert!(text.contains("FROM t AS e WHERE p IS NULL UNION ALL"), "{text}");
        assert!(text.contains("ON (\"$p\".\"$h_prior0\" = p)"), "{text}");
        assert!(text.contains("row_number() OVER (ORDER BY b DESC)"), "{text}");
        assert!(text.ends_with("AS e WHERE b > 1 ORDER BY \"$h_order\""), "{text}");
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for text in [
            "select 1 from a, b connect by prior x = y",
            "select 1 from a join b on x = y connect by prior x = y",
            "select connect_by_iscycle from a connect by nocycle prior x = y",
            "select 1 from a connect by prior x = (select 1)",
        ] {
            assert_eq!(shown(text), "0A000", "{text}");
        }
    }
}
