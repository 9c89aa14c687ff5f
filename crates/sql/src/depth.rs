//! How deep an expression will become, told from its tokens.
//!
//! What for: `1 + 1 + 1 + …` is read in a loop and becomes a tree as deep as it is long, which the
//! parser's own limit on nesting does not see. Everything that walks the tree, and even what frees
//! it, goes down as deep on the session's stack; a stack that overflows ends the whole instance.
//!
//! What it promises: a text that passes fits a session's stack, whatever it says; it never refuses
//! lists, however long: operators between two commas are counted on their own.

use crate::dialect::OwnDialect;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Stack that a step of weight takes: half of it, as measured.
const STEP_BYTES: usize = 2_000;

/// Stack that one more AND or OR takes until the tree is balanced, if it has to be dropped then.
const TERM_BYTES: usize = 640;

/// Stack that one more bracket takes while it is read, and all that may stand in it.
const BRACKET_BYTES: usize = 20_000;

/// Brackets, CASE, signs and joins in one another, however large the stack is.
const NESTING_MAX: usize = 1_200;

/// Most steps of the parser, however large the stack is.
const PARSER_MAX: usize = 3_000;

/// What is left of the stack for what stands at the end of a recursion.
const RESERVE_BYTES: usize = 256 << 10;

/// Of what is left when a view is put in the place of its name: then its text is read and planned.
const VIEW_ROOM_BYTES: usize = 1 << 20;

/// Of what is left when a function or procedure is called: it reads and plans its statements.
const CALL_ROOM_BYTES: usize = VIEW_ROOM_BYTES + RESERVE_BYTES;

/// Statements below it use no more stack than is kept for all.
const DEEP_WEIGHT: u32 = 200;

/// Levels of ANDs and ORs, however many there are: the parser's chains of them are balanced.
const LOGIC_LEVELS_MAX: u32 = 64;

/// What one more level of each kind weighs.
struct Weights {
    operator: u32,
    /// A function in the arguments of another.
    call: u32,
    logic: u32,
    /// One more branch of a UNION.
    set: u32,
    /// A query in another.
    query: u32,
    join: u32,
}

/// In steps of stack.
const STACK: Weights = Weights { operator: 4, call: 8, logic: 4, set: 16, query: 10, join: 16 };

/// In steps of time: the library forms the names of expressions of all that is below them, and
/// weighs the orders of joins against each other, which takes more than the square of the number.
const TIME: Weights = Weights { operator: 1, call: 4, logic: 0, set: 0, query: 0, join: 3 };

/// The most time of a statement.
const TIME_MAX: u32 = 1_000;

/// How deep the tree of a statement may become.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weight {
    stack: u32,
    time: u32,
}

impl std::ops::Add for Weight {
    type Output = Weight;
    fn add(self, other: Weight) -> Weight {
        Weight { stack: self.stack + other.stack, time: self.time + other.time }
    }
}

/// What the stack of the calling thread has room for.
struct Limits {
    stack: u32,
    nesting: u32,
    terms: u32,
}

/// What is left of the calling thread's stack.
fn room_bytes() -> usize {
    stacker::remaining_stack().unwrap_or(1 << 20)
}

impl Limits {
    fn of_thread() -> Limits {
        let room = room_bytes();
        let of = |bytes: usize, most: usize| u32::try_from((room / bytes).min(most)).unwrap_or(0);
        Limits {
            stack: of(STEP_BYTES, usize::MAX),
            nesting: of(BRACKET_BYTES, NESTING_MAX),
            terms: of(TERM_BYTES, usize::MAX),
        }
    }
}

/// How deep the parser may go: a bracket takes a step or two, which [`weigh`] has seen to.
pub(crate) fn parser_limit() -> usize {
    (room_bytes() / BRACKET_BYTES).min(PARSER_MAX)
}

/// Whether a recursion may go on.
///
/// # Errors
/// 54001.
pub(crate) fn check_room(reserve_bytes: usize) -> Result<()> {
    if room_bytes() < reserve_bytes.max(RESERVE_BYTES) { Err(too_deep()) } else { Ok(()) }
}

/// Whether one more function or procedure may be called.
///
/// # Errors
/// 54001.
pub(crate) fn check_calls() -> Result<()> {
    if room_bytes() >= CALL_ROOM_BYTES {
        return Ok(());
    }
    Err(exceeded(
        "There are too many calls of functions and procedures within one another: does one call \
         itself without an end?",
    ))
}

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// What one more level of this kind weighs.
fn weight(token: &Token, of: &Weights) -> u32 {
    match token {
        Token::Word(_) => match keyword(token) {
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => of.set,
            Keyword::JOIN => of.join,
            Keyword::AND | Keyword::OR => of.logic,
            Keyword::IS
            | Keyword::IN
            | Keyword::NOT
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::OPERATOR
            | Keyword::XOR
            | Keyword::DIV
            | Keyword::OVERLAPS
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::NOTNULL
            | Keyword::AT => of.operator,
            _ => 0,
        },
        Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Whitespace(_)
        | Token::Period
        | Token::SemiColon
        | Token::EOF => 0,
        _ => of.operator,
    }
}

/// Words that call nothing, whatever stands in brackets behind them.
fn is_syntax(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::ALL
            | Keyword::AND
            | Keyword::ANY
            | Keyword::AS
            | Keyword::BY
            | Keyword::CASE
            | Keyword::ELSE
            | Keyword::EXCEPT
            | Keyword::EXISTS
            | Keyword::FROM
            | Keyword::HAVING
            | Keyword::IN
            | Keyword::INTERSECT
            | Keyword::JOIN
            | Keyword::LATERAL
            | Keyword::MATERIALIZED
            | Keyword::NOT
            | Keyword::ON
            | Keyword::OR
            | Keyword::SELECT
            | Keyword::THEN
            | Keyword::UNION
            | Keyword::USING
            | Keyword::VALUES
            | Keyword::WHEN
            | Keyword::WHERE
    )
}

/// What stands between two brackets.
#[derive(Default)]
struct Level {
    /// The operators of the item that is being read, and those of its ANDs and ORs: what is
    /// compared between two of them stands side by side.
    operators: u32,
    logic: u32,
    /// How many of them there are, and BETWEENs whose AND is still to come.
    terms: u32,
    betweens: u32,
    /// The deepest of this item so far, brackets in it included, and of all items.
    deep: u32,
    deepest: u32,
    /// Joins, set operations, and the queries in this one, each of which may end up below the
    /// other: a common table expression, or a table in FROM.
    queries: u32,
    is_query: bool,
    /// After VALUES, and in one of its rows.
    is_values: bool,
    is_row: bool,
    /// Commas part tables.
    in_from: bool,
    /// CASEs without their END, and what was nested outside.
    cases: u32,
    nested: u32,
    /// Joins whose condition is still to come: each next one stands in them.
    joins: u32,
    /// Of the join begun by NATURAL or CROSS, which has none.
    without_condition: bool,
}

impl Level {
    /// Joins take twice the stack that brackets take.
    fn depth(&self) -> u32 {
        self.nested + self.cases + 2 * self.joins
    }

    fn see(&mut self, word: Keyword) {
        match word {
            Keyword::CASE => self.cases += 1,
            Keyword::END => self.cases = self.cases.saturating_sub(1),
            Keyword::NATURAL | Keyword::CROSS => self.without_condition = true,
            Keyword::JOIN if self.without_condition => self.without_condition = false,
            Keyword::JOIN => self.joins += 1,
            Keyword::ON | Keyword::USING => self.joins = self.joins.saturating_sub(1),
            Keyword::SELECT => self.joins = 0,
            _ => {}
        }
    }

    fn item(&self) -> u32 {
        self.operators + self.logic
    }

    /// What stands on the stack here.
    fn here(&self) -> u32 {
        self.queries + self.item()
    }

    fn add(&mut self, keyword: Keyword, weight: u32) {
        match keyword {
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => {
                self.next_item();
                self.queries += weight;
            }
            Keyword::JOIN => self.queries += weight,
            Keyword::AND if self.betweens > 0 => self.betweens -= 1,
            // In a CASE the operators before it may stand around it.
            Keyword::AND | Keyword::OR if self.cases > 0 => self.operators += weight,
            Keyword::AND | Keyword::OR => {
                self.deep = self.deep.max(self.item());
                self.operators = 0;
                self.logic = (self.logic + weight).min(LOGIC_LEVELS_MAX * weight);
                self.terms += 1;
            }
            Keyword::BETWEEN => {
                self.operators += weight;
                self.betweens += 1;
            }
            _ => self.operators += weight,
        }
    }

    /// Takes up what stood in brackets.
    fn close(&mut self, mut inner: Level) {
        inner.next_item();
        // Queries end up below one another, wherever they stand; but not those of other rows.
        let (queries, item) = match (inner.is_row, inner.is_query) {
            (true, _) => (0, inner.queries + inner.deepest),
            (false, true) => (inner.queries + inner.deepest, 0),
            (false, false) => (inner.queries, inner.deepest),
        };
        self.queries += queries;
        self.deep = self.deep.max(self.item() + item);
    }

    fn next_item(&mut self) {
        self.deepest = self.deepest.max(self.deep).max(self.item());
        (self.operators, self.logic, self.deep) = (0, 0, 0);
        (self.terms, self.betweens) = (0, 0);
    }
}

/// How deep the tree of a statement may become.
///
/// # Errors
/// 54001 for more than there is room or time for.
pub(crate) fn weigh(tokens: &[TokenWithSpan]) -> Result<Weight> {
    let limits = Limits::of_thread();
    let stack = weigh_by(tokens, &STACK, limits.stack, &limits)?;
    let time = weigh_by(tokens, &TIME, TIME_MAX, &limits)?;
    if stack > DEEP_WEIGHT {
        env::stack::note_deep();
    }
    Ok(Weight { stack, time })
}

fn weigh_by(tokens: &[TokenWithSpan], of: &Weights, max: u32, limits: &Limits) -> Result<u32> {
    let mut outer: Vec<Level> = Vec::new();
    // What the levels outside have on the stack.
    let (mut outside, mut here) = (0, Level::default());
    let mut before = Keyword::NoKeyword;
    // Signs and NOTs in a row, each of which stands in the one before.
    let (mut signs, mut was_name) = (0, false);
    for token in tokens.iter().map(|t| &t.token) {
        match token {
            Token::Whitespace(_) => continue,
            Token::Minus | Token::Plus | Token::Tilde => signs += 1,
            other => match keyword(other) {
                Keyword::NOT => signs += 1,
                word => {
                    signs = 0;
                    here.see(word);
                }
            },
        }
        if here.depth() + signs > limits.nesting {
            return Err(too_deep());
        }
        let after_name = std::mem::replace(
            &mut was_name,
            matches!(token, Token::Word(_)) && !is_syntax(keyword(token)),
        );
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                // A subscript stands around what it follows.
                here.operators += if *token == Token::LBracket { of.operator } else { 0 };
                // A function's arguments, or else a bracket.
                here.operators += if after_name { of.call } else { 0 };
                outside += here.here();
                let inner =
                    Level { nested: here.depth() + 1, is_row: here.is_values, ..Level::default() };
                outer.push(std::mem::replace(&mut here, inner));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let inner = std::mem::replace(&mut here, outer.pop().unwrap_or_default());
                outside -= here.here();
                here.close(inner);
            }
            Token::Comma => {
                here.next_item();
                here.queries += if here.in_from { of.join } else { 0 };
            }
            token => {
                let keyword = keyword(token);
                match keyword {
                    Keyword::FROM => here.in_from = before != Keyword::DISTINCT,
                    Keyword::WHERE | Keyword::GROUP | Keyword::ORDER => here.in_from = false,
                    Keyword::SELECT => {
                        here.in_from = false;
                        here.queries += if here.is_query { 0 } else { of.query };
                        here.is_query = true;
                    }
                    Keyword::VALUES => here.is_values = true,
                    _ => {}
                }
                before = keyword;
                here.add(keyword, weight(token, of));
            }
        }
        if outside + here.here() > max || here.terms > limits.terms {
            return Err(too_deep());
        }
    }
    here.next_item();
    let all = here.queries + here.deepest;
    if all > max { Err(too_deep()) } else { Ok(all) }
}

/// The same of a text.
///
/// # Errors
/// 54001.
pub(crate) fn weigh_text(text: &str) -> Result<Weight> {
    let tokens = Tokenizer::new(&OwnDialect::default(), text).tokenize_with_location();
    // What cannot be read is refused by the parser, in its words.
    tokens.map_or(Ok(Weight::default()), |tokens| weigh(&tokens))
}

/// Refuses views in one another that add up to more than there is room or time for.
///
/// # Errors
/// 54001.
pub(crate) fn check_views(all: Weight) -> Result<()> {
    if all.stack > DEEP_WEIGHT {
        env::stack::note_deep();
    }
    if all.stack > Limits::of_thread().stack || all.time > TIME_MAX {
        return Err(too_deep());
    }
    check_room(VIEW_ROOM_BYTES)
}

pub(crate) fn too_deep() -> PgError {
    exceeded(
        "The statement has too many operators or queries in one another; a list, as in IN (...) \
         or VALUES, may be as long as you like.",
    )
}

fn exceeded(hint: &str) -> PgError {
    PgError::new("54001", "stack depth limit exceeded").with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(text: &str) -> bool {
        let tokens = Tokenizer::new(&OwnDialect::default(), text).tokenize_with_location().unwrap();
        weigh(&tokens).is_ok()
    }

    /// On a stack as sessions have it.
    fn on_a_session_stack(run: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(env::stack::STACK_BYTES);
        thread.spawn(run).unwrap().join().unwrap();
    }

    fn chains_and_lists() {
        let union = ("select 1, 2 union all ", 1_999);
        let (join, from) = (("cross join t ", 330), ("from t, ", 330));
        for (part, count) in [("1 + ", 1_000), ("x = 1 or ", 100_000), union, join, from] {
            assert!(passes(&part.repeat(count)), "{part}");
            let more = count * 5 / 4 + 1;
            assert!(!passes(&part.repeat(more)), "{part}");
            assert!(!passes(&format!("select (1, ({}", part.repeat(more))), "{part}");
        }
        assert!(passes(&format!("values {}", "(-1, 'a' || 'b'), ".repeat(20_000))));
        let rows = "(1, (select a from t where b = 1)), ".repeat(20_000);
        assert!(passes(&format!("insert into t values {rows} (1, 2)")));
        assert!(passes(&format!("x in ({})", "-1, ".repeat(20_000))));
        // Of two sums side by side only one is on the stack.
        let half = format!("({})", "1 + ".repeat(900));
        assert!(passes(&format!("{half} + {half} + {half}")));
        assert!(passes(")) ] }"));
        for (open, close) in
            [("(", ")"), ("case when true then ", " end"), ("not ", ""), ("- ", "")]
        {
            let nested = |count| format!("select {}1{}", open.repeat(count), close.repeat(count));
            assert!(passes(&nested(900)), "{open}");
            assert!(!passes(&nested(1_201)), "{open}");
        }
        let calls = |count| format!("select {}1{}", "f(".repeat(count), ")".repeat(count));
        assert!(passes(&calls(240)) && !passes(&calls(260)));
        assert!(passes(&"case when a then 1 else -1 end, not (b), ".repeat(20_000)));
        let list = "a is distinct from b, ".repeat(20_000);
        assert!(passes(&format!("select {list} 1 from t order by {list} 1")));
    }

    /// What stands in queries ends up in one expression.
    fn queries_add_up() {
        let sum = "x + ".repeat(100);
        let with = |count| {
            let one = format!("c as (select {sum} 1 as x, 2 from (select 1 as x) d), ");
            format!("with {} d as (select 1) select 1", one.repeat(count))
        };
        assert!(passes(&with(9)) && !passes(&with(11)));
        let from = |count: usize| {
            format!(
                "select * {} t {}",
                format!("from (select {sum} 1, 2 ").repeat(count),
                ")".repeat(count)
            )
        };
        assert!(passes(&from(9)) && !passes(&from(11)));
        let chain = |part: &str, count| passes(&format!("select 1 {}", part.repeat(count)));
        for part in ["between 1 and 2 ", "[1]", "xor true ", "notnull ", "or case when a + b and "]
        {
            assert!(chain(part, 300) && !chain(part, 1_300), "{part}");
        }
    }

    #[test]
    fn depth_is_bounded_and_length_is_not() {
        on_a_session_stack(chains_and_lists);
        on_a_session_stack(queries_add_up);
    }

    #[test]
    fn small_stacks_have_low_limits() {
        let run = || {
            assert!(passes(&"1 + ".repeat(200)) && !passes(&"1 + ".repeat(300)));
            assert!(passes(&"(".repeat(50)) && !passes(&"(".repeat(110)));
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn calls_without_an_end_are_told_from_long_statements() {
        let run = || check_calls().map_err(|error| error.hint.unwrap_or_default().into_string());
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
        let hint = thread.join().unwrap().unwrap_err();
        assert!(hint.starts_with("There are too many calls"), "{hint}");
    }
}
