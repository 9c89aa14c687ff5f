//! Comments on what has no row of its own to keep them in: `comment$`. Those on tables, views,
//! columns and types are in the rows of these.
//!
//! They are no part of any definition: nothing that is planned or cached depends on them, and they
//! are read when they are asked for.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::delete_all;
use super::fixed::{Fixed, ROLES_OBJ, SCHEMAS_OBJ};
use super::state::{exclude, newest, of};
use super::store::{self, Record, obj};
use crate::error::Result;
use crate::row::{Datum, Value};
use crate::txn::Transaction;

/// What a comment is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Described {
    /// An index or a sequence.
    Relation,
    /// Of a table; it may have the number of its index.
    Constraint,
    Schema,
    Role,
    Database,
}

impl Described {
    /// All of them.
    pub const ALL: [Described; 5] = [
        Described::Relation,
        Described::Constraint,
        Described::Schema,
        Described::Role,
        Described::Database,
    ];

    /// The letter stored in the dictionary.
    const fn code(self) -> &'static str {
        match self {
            Described::Relation => "r",
            Described::Constraint => "c",
            Described::Schema => "n",
            Described::Role => "u",
            Described::Database => "d",
        }
    }
}

/// A comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommentDef {
    pub on: Described,
    pub obj: ObjId,
    pub text: String,
}

fn comment_of(row: &Record) -> Result<CommentDef> {
    let code = row.text(1)?;
    let on = Described::ALL.into_iter().find(|on| on.code() == code);
    let on = on.ok_or_else(|| row.unknown("kind of comment"))?;
    Ok(CommentDef { on, obj: row.obj(0)?, text: row.text(2)?.to_owned() })
}

/// Says what something is for; `None` takes it back. `holder` is the object whose definition it is
/// part of, which nobody else changes before the transaction has ended: the table of a constraint
/// or an index, the sequence itself; schemas, roles and the database have their lists.
///
/// # Errors
/// What waiting for those who change the definition can fail with.
pub async fn comment_on(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    (on, number): (Described, ObjId),
    holder: ObjId,
    text: Option<&str>,
) -> Result<()> {
    let holder = match on {
        Described::Relation | Described::Constraint => holder,
        Described::Schema => SCHEMAS_OBJ,
        Described::Role | Described::Database => ROLES_OBJ,
    };
    exclude(ctx, txn, holder).await?;
    let table = of(txn.core())?.fixed(Fixed::Comment);
    let key = [obj(number), Datum::Text(on.code())];
    let Some(text) = text else {
        let snap = newest(txn)?;
        return match store::one(ctx, &snap, table, 0, &key).await? {
            Some(row) => store::delete(ctx, txn, table, &snap, &row).await,
            None => Ok(()),
        };
    };
    let changes = vec![(2, Value::Text(text.into()))];
    if store::change(ctx, txn, table, 0, &key, |_| Ok(changes.clone())).await? {
        return Ok(());
    }
    let [number, code] = key;
    store::insert(ctx, txn, table, &[number, code, Datum::Text(text)]).await
}

/// All of them.
///
/// # Errors
/// A row that cannot be read; what reading blocks can fail with.
pub async fn comments(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<CommentDef>> {
    let table = of(txn.core())?.fixed(Fixed::Comment);
    let rows = store::all(ctx, &newest(txn)?, table).await?;
    rows.iter().map(comment_of).collect()
}

/// Something is dropped, and what is said of it.
pub(super) async fn forget_comments(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
) -> Result<()> {
    delete_all(ctx, txn, Fixed::Comment, 0, number).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_unique() {
        let mut codes = Described::ALL.map(Described::code);
        codes.sort_unstable();
        assert!(codes.windows(2).all(|two| two[0] != two[1]));
    }
}
