//! When objects were made and changed: the last columns of their rows.
//!
//! What it promises: a row from before this was noted reads as NULL. What it must never do: be part
//! of what a definition means: nothing but views looks at it, and clocks of instances may differ.

use observe::Ctx;

use super::store::Record;
use crate::error::Result;
use crate::row::{Datum, Value};

/// When something was made and changed, µs since 1970 by the clock of the instance that did it;
/// `None`: that was not noted then.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Times {
    pub made_us: Option<i64>,
    /// The last change of its definition, rights on it included.
    pub altered_us: Option<i64>,
    /// The last change of what it is made of.
    pub shaped_us: Option<i64>,
}

/// The clock, µs since 1970.
pub(super) fn now_us(ctx: &Ctx) -> i64 {
    ctx.env.wall_us()
}

/// A time as it is stored.
fn time_or_null(time_us: Option<i64>) -> Datum<'static> {
    time_us.map_or(Datum::Null, Datum::Int8)
}

impl Times {
    /// Of what is made now.
    pub(super) fn of_new(ctx: &Ctx) -> Times {
        let now = Some(now_us(ctx));
        Times { made_us: now, altered_us: now, shaped_us: now }
    }

    /// The same after a change.
    pub(super) fn after(self, ctx: &Ctx) -> Times {
        let now = Some(now_us(ctx));
        Times { altered_us: now, shaped_us: now, ..self }
    }

    /// In three columns of a row, from one on.
    pub(super) fn read(row: &Record, at: usize) -> Result<Times> {
        Ok(Times {
            made_us: row.int_or_null(at)?,
            altered_us: row.int_or_null(at + 1)?,
            shaped_us: row.int_or_null(at + 2)?,
        })
    }

    pub(super) fn values(self) -> [Datum<'static>; 3] {
        [self.made_us, self.altered_us, self.shaped_us].map(time_or_null)
    }
}

/// What a change notes in a row whose times begin at a column; `shape`: of what it is made of.
pub(super) fn noted(ctx: &Ctx, at: usize, shape: bool) -> Vec<(usize, Value)> {
    let now = Value::Int8(now_us(ctx));
    let mut noted = vec![(at + 1, now.clone())];
    if shape {
        noted.push((at + 2, now));
    }
    noted
}

#[cfg(test)]
mod tests {
    use super::super::def::TableDef;
    use super::super::fixed::{Fixed, Place, TABLES};
    use super::super::records::object_of;
    use super::*;
    use crate::row::encode_row;
    use block::{Dba, Rowid, Scn};

    fn objects() -> TableDef {
        let table = &TABLES[Fixed::Obj as usize];
        let numbers = std::iter::once(table.obj).chain(table.indexes.iter().map(|one| one.obj));
        let place = |obj| Place { obj, header: Dba::new(4, 1), root: Dba::NONE, birth: Scn(1) };
        let places: Vec<Place> = numbers.map(place).collect();
        table.define(&places).expect("all places given")
    }

    /// The times that a row has whose last columns are these.
    fn times(last: &[Datum<'_>]) -> Times {
        let def = objects();
        let own = [
            Datum::Int8(20_000),
            Datum::Int8(10),
            Datum::Text("public"),
            Datum::Text("t"),
            Datum::Text("r"),
            Datum::Int8(5),
            Datum::Int8(7),
            Datum::Null,
            Datum::Int8(7),
        ];
        let values: Vec<Datum<'_>> = own.into_iter().chain(last.iter().copied()).collect();
        let mut bytes = Vec::new();
        encode_row(&def.types[..values.len()], &values, &mut bytes);
        let rowid = Rowid { dba: Dba::new(4, 2), slot: 0 };
        let row = Record::decode(&def, rowid, bytes).expect("a row");
        object_of(&row).expect("an object").times
    }

    #[test]
    fn rows_from_before_have_no_times() {
        assert_eq!(times(&[]), Times::default());
        let noted = Times { made_us: Some(1), altered_us: Some(3), shaped_us: Some(2) };
        assert_eq!(times(&noted.values()), noted);
    }
}
