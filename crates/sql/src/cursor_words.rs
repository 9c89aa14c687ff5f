//! The words of DECLARE, FETCH, MOVE and CLOSE.
//!
//! What it promises: PostgreSQL's grammar of them, as it is.

use crate::cursor::{Declare, Direction, Fetch};
use crate::parse::{Own, Words};
use crate::{PgError, Result};

/// The statement, if it begins with one of these words.
pub(crate) fn parse(words: &mut Words<'_>) -> Result<Option<Own>> {
    if words.take("declare") {
        return declare(words).map(Some);
    }
    if words.take("close") {
        let name = if words.take("all") { None } else { Some(words.name()?) };
        return Ok(Some(Own::Close(name)));
    }
    let only_move = words.is("move");
    if !only_move && !words.is("fetch") {
        return Ok(None);
    }
    let _ = words.take("move") || words.take("fetch");
    let direction = direction(words)?;
    let _ = words.take("from") || words.take("in");
    let name = words.name()?;
    Ok(Some(Own::Fetch(Fetch { name, direction, only_move })))
}

fn declare(words: &mut Words<'_>) -> Result<Own> {
    let name = words.name()?;
    let mut scroll = None;
    while !words.take("cursor") {
        if words.take("binary") {
            return Err(PgError::unsupported("BINARY cursors"));
        } else if words.take("scroll") {
            scroll = Some(true);
        } else if words.take("no") {
            if !words.take("scroll") {
                return Err(words.near());
            }
            scroll = Some(false);
        } else if !words.take("insensitive") && !words.take("asensitive") {
            return Err(words.near());
        }
    }
    let mut hold = false;
    if words.take("with") || words.is("without") {
        hold = !words.take("without");
        if !words.take("hold") {
            return Err(words.near());
        }
    }
    if !words.take("for") {
        return Err(words.near());
    }
    let query = words.rest();
    if query.is_empty() {
        return Err(words.near());
    }
    Ok(Own::Declare(Box::new(Declare { name, scroll, hold, query })))
}

fn direction(words: &mut Words<'_>) -> Result<Direction> {
    let one = Some(1);
    if words.take("next") {
        return Ok(Direction::Forward(one));
    }
    if words.take("prior") {
        return Ok(Direction::Backward(one));
    }
    if words.take("first") {
        return Ok(Direction::Absolute(1));
    }
    if words.take("last") {
        return Ok(Direction::Absolute(-1));
    }
    if words.take("absolute") {
        return words.number().map(Direction::Absolute);
    }
    if words.take("relative") {
        return words.number().map(Direction::Relative);
    }
    if words.take("all") {
        return Ok(Direction::Forward(None));
    }
    let (forward, backward) = (words.take("forward"), words.take("backward"));
    let count = if words.take("all") {
        None
    } else if words.at_number() {
        Some(words.number()?)
    } else {
        one
    };
    Ok(if backward && !forward { Direction::Backward(count) } else { Direction::Forward(count) })
}
