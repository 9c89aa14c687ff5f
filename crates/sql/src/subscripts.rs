//! Assignments to a part of an array or of a jsonb: `UPDATE t SET a[2] = 1, j['x']['y'] = '2'`.
//!
//! What it promises: such an assignment is one of the whole column, whose other parts stay; several
//! of one column follow each other. What it must never do: touch a statement without them.

use crate::parse::{is_space, is_word};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use kernel::dict::ColumnDef;
use kernel::row::TypeKind;
use query::subscripts::{ARRAY_ASSIGN, JSONB_ASSIGN};

/// What stands for such an assignment's value: the column, the value, and the subscripts.
const ASSIGN: &str = "$assign";

/// One assignment of UPDATE.
struct Item {
    column: Vec<TokenWithSpan>,
    subscripts: Vec<Vec<TokenWithSpan>>,
    value: Vec<TokenWithSpan>,
}

/// `SET a[1] = b` as `SET a = "$assign"(a, b, 1)`.
pub(crate) fn with_targets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let Some(set) = used.iter().position(|at| is_word(&tokens[*at].token, "set")) else {
        return tokens;
    };
    let end = list_end(&tokens, &used, set + 1);
    let Some(items) = items(&tokens, &used[set + 1..end]) else { return tokens };
    if items.iter().all(|item| item.subscripts.is_empty()) {
        return tokens;
    }
    let mut out = tokens[..=used[set]].to_vec();
    let mut done: Vec<(Vec<TokenWithSpan>, Vec<TokenWithSpan>)> = Vec::new();
    for item in items {
        if item.subscripts.is_empty() {
            done.push((item.column, item.value));
            continue;
        }
        let same = |one: &&mut (Vec<TokenWithSpan>, Vec<TokenWithSpan>)| {
            one.0.len() == 1 && one.0[0].token == item.column[0].token
        };
        // The second one changes what the first one has made.
        match done.iter_mut().find(same) {
            Some((_, value)) => *value = call(value, &item),
            None => {
                let value = call(&item.column, &item);
                done.push((item.column, value));
            }
        }
    }
    for (at, (column, value)) in done.into_iter().enumerate() {
        let span = column[0].span;
        let put = |token| TokenWithSpan { token, span };
        if at > 0 {
            out.push(put(Token::Comma));
        }
        out.push(put(blank()));
        out.extend(column);
        out.push(put(Token::Eq));
        out.extend(value);
    }
    if let Some(end) = used.get(end) {
        out.push(TokenWithSpan { token: blank(), span: tokens[*end].span });
        out.extend_from_slice(&tokens[*end..]);
    }
    out
}

fn blank() -> Token {
    use datafusion::sql::sqlparser::tokenizer::Whitespace;
    Token::Whitespace(Whitespace::Space)
}

/// Where the list of assignments ends.
fn list_end(tokens: &[TokenWithSpan], used: &[usize], from: usize) -> usize {
    let mut depth = 0usize;
    for n in from..used.len() {
        match &tokens[used[n]].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::EOF => return n,
            word if depth == 0
                && ["from", "where", "returning"].iter().any(|end| is_word(word, end)) =>
            {
                return n;
            }
            _ => {}
        }
    }
    used.len()
}

/// The assignments; `None` if they are not written as such.
fn items(tokens: &[TokenWithSpan], used: &[usize]) -> Option<Vec<Item>> {
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut depth = 0usize;
    for at in used {
        match &tokens[*at].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut()?.push(*at);
    }
    parts.iter().map(|part| item(tokens, part)).collect()
}

fn item(tokens: &[TokenWithSpan], part: &[usize]) -> Option<Item> {
    // With the blanks between them.
    let between = |from: usize, to: usize| {
        let (first, last) = (part.get(from)?, part.get(to.checked_sub(1)?)?);
        (from < to).then(|| tokens[*first..=*last].to_vec())
    };
    let (mut at, mut depth, mut open) = (0, 0usize, None);
    let mut subscripts = Vec::new();
    let mut name_end = None;
    loop {
        match &tokens[*part.get(at)?].token {
            Token::Eq if depth == 0 => break,
            Token::LBracket => {
                if depth == 0 {
                    name_end = name_end.or(Some(at));
                    open = Some(at + 1);
                }
                depth += 1;
            }
            Token::RBracket => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    subscripts.push(between(open?, at)?);
                }
            }
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
    }
    let column = between(0, name_end.unwrap_or(at))?;
    let value = between(at + 1, part.len())?;
    let plain = |list: &Vec<TokenWithSpan>| list.iter().all(|one| one.token != Token::Colon);
    let alone = subscripts.is_empty() || name_end == Some(1);
    (alone && subscripts.iter().all(plain)).then_some(Item { column, subscripts, value })
}

/// `"$assign"(base, value, subscripts)`.
fn call(base: &[TokenWithSpan], item: &Item) -> Vec<TokenWithSpan> {
    let span = item.column[0].span;
    let put = |token| TokenWithSpan { token, span };
    let mut out = vec![put(Token::make_word(ASSIGN, Some('"'))), put(Token::LParen)];
    out.extend_from_slice(base);
    for part in std::iter::once(&item.value).chain(&item.subscripts) {
        out.push(put(Token::Comma));
        out.extend_from_slice(part);
    }
    out.push(put(Token::RParen));
    out
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// The arguments of a call that stands for such an assignment.
fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let [name] = &function.name.0[..] else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let is_ours = name.as_ident().is_some_and(|name| name.value == ASSIGN);
    is_ours.then(|| list.args.iter().map(arg).collect())?
}

/// The value that a column gets by such an assignment, as a function of the planner's; another
/// expression stays.
pub(crate) fn settled(expr: Expr, column: &ColumnDef) -> Result<Expr> {
    let Expr::Function(function) = &expr else { return Ok(expr) };
    let Some(mut args) = arguments(function) else { return Ok(expr) };
    if args.len() < 3 {
        return Ok(expr);
    }
    let subscripts = args.split_off(2);
    let value = args.pop().unwrap_or(Expr::Value(ast_null()));
    let base = settled(args.pop().unwrap_or(Expr::Value(ast_null())), column)?;
    if column.ty.kind == TypeKind::Jsonb {
        let mut args = vec![base, cast(value, DataType::JSONB)];
        args.extend(subscripts.into_iter().map(|one| cast(one, DataType::Text)));
        return Ok(crate::bind::call(JSONB_ASSIGN, args));
    }
    let Some(element) = column.ty.element() else {
        let ty = column.ty.without_limit();
        let text = format!("cannot subscript type {ty} because it does not support subscripting");
        return Err(PgError::new("42804", text));
    };
    let [subscript] = &subscripts[..] else {
        return Err(PgError::unsupported("an array of several dimensions"));
    };
    let type_of = |text: String| match crate::direct::parse_expr(&format!("cast(null as {text})"))?
    {
        Expr::Cast { data_type, .. } => Ok(data_type),
        _ => Err(PgError::internal("a cast that is none")),
    };
    let value = cast(cast(value, type_of(element.to_string())?), DataType::Text);
    let subscript = cast(subscript.clone(), DataType::Int(None));
    let made = crate::bind::call(ARRAY_ASSIGN, vec![cast(base, DataType::Text), value, subscript]);
    Ok(cast(made, type_of(column.ty.to_string())?))
}

fn ast_null() -> datafusion::sql::sqlparser::ast::ValueWithSpan {
    datafusion::sql::sqlparser::ast::Value::Null.into()
}
