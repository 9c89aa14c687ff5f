//! Literals of intervals: `interval '1 day'`, `interval '3' hour`,
//! `interval '1 02:03' day to minute`.
//!
//! What it promises: fields behind the text count and cut as PostgreSQL's do; a precision of the
//! first field, which only the field writes, is a limit. What it must never do: take a sign before
//! the days for one of the time behind them.

use super::build::{string, text_of};
use crate::bind::refuse;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, DateTimeField, Expr, Interval, IntervalFields,
};
use query::cast::parse_text;
use query::sqltype::col_type_of_sql;
use query::wire::{FormatEnv, to_text};

/// The literal as a cast of a text.
pub(crate) fn interval_literal(interval: &Interval) -> Result<Expr> {
    let Some(text) = text_of(&interval.value) else {
        return refuse("an interval that is not a literal");
    };
    let plain = interval.last_field.is_none() && interval.leading_precision.is_none();
    let text = match (fields_of(interval), &interval.leading_field) {
        (Some(fields), _) => in_fields(text, fields, interval)?,
        (None, None) if plain => text.to_owned(),
        // Units of which there are no fields, such as weeks.
        (None, Some(unit)) if plain && text.trim().parse::<f64>().is_ok() => {
            format!("{text} {unit}")
        }
        _ => return refuse("an interval with such fields"),
    };
    Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(string(text)),
        data_type: DataType::Interval { fields: None, precision: None },
        array: false,
        format: None,
    })
}

/// The fields behind the text, if they are such as a type has.
fn fields_of(interval: &Interval) -> Option<IntervalFields> {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    Some(match (interval.leading_field.as_ref()?, interval.last_field.as_ref()) {
        (Year, None) => IntervalFields::Year,
        (Month, None) => IntervalFields::Month,
        (Day, None) => IntervalFields::Day,
        (Hour, None) => IntervalFields::Hour,
        (Minute, None) => IntervalFields::Minute,
        (Second, None) => IntervalFields::Second,
        (Year, Some(Month)) => IntervalFields::YearToMonth,
        (Day, Some(Hour)) => IntervalFields::DayToHour,
        (Day, Some(Minute)) => IntervalFields::DayToMinute,
        (Day, Some(Second)) => IntervalFields::DayToSecond,
        (Hour, Some(Minute)) => IntervalFields::HourToMinute,
        (Hour, Some(Second)) => IntervalFields::HourToSecond,
        (Minute, Some(Second)) => IntervalFields::MinuteToSecond,
        _ => return None,
    })
}

/// The interval that the text is with these fields, as a text that needs none.
fn in_fields(text: &str, fields: IntervalFields, interval: &Interval) -> Result<String> {
    let precisions = (interval.leading_precision, interval.fractional_seconds_precision);
    let (first, digits) = match precisions {
        // PostgreSQL's `second(3)` is one of the fraction.
        (digits, None) if fields == IntervalFields::Second => (None, digits),
        both => both,
    };
    let number = text.trim().trim_start_matches(['-', '+']).trim_start_matches('0');
    let length = number.bytes().take_while(u8::is_ascii_digit).count();
    if first.is_some_and(|most| u64::try_from(length).unwrap_or(u64::MAX) > most) {
        let text = format!("interval field value out of range: \"{text}\"");
        return Err(PgError::new("22015", text));
    }
    let data_type = DataType::Interval { fields: Some(fields), precision: digits };
    let ty = col_type_of_sql(&data_type)?;
    let ty = ty.ok_or_else(|| PgError::internal("an interval of no type"))?;
    let env = FormatEnv::plain();
    Ok(to_text(&parse_text(text, ty, &env)?.as_datum(), &env))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String> {
        match crate::direct::parse_expr(text)? {
            Expr::Interval(interval) => interval_literal(&interval).map(|expr| expr.to_string()),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn fields_become_a_part_of_the_text() {
        for (text, wanted) in [
            ("interval '1 day'", "1 day"),
            ("interval '90' minute", "01:30:00"),
            ("interval '2' weeks", "2 WEEKS"),
            ("interval '1-6' year to month", "1 year 6 mons"),
            ("interval '1 02:03:04' day to second", "1 day 02:03:04"),
            ("interval '400' day(3)", "400 days"),
            ("interval '1.23456' second(3)", "00:00:01.235"),
            ("interval '1.23456' second(2, 4)", "00:00:01.2346"),
        ] {
            let wanted = format!("CAST('{wanted}' AS INTERVAL)");
            assert_eq!(read(text), Ok(wanted), "{text}");
        }
        let code = |text: &str| read(text).map_err(|error| error.code);
        assert_eq!(code("interval '400' day(2)"), Err("22015"));
        assert_eq!(code("interval 'x' day"), Err("22007"));
        assert_eq!(code("interval '1' month to day"), Err("0A000"));
    }
}
