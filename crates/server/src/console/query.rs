//! What stands behind the question mark of an address.
//!
//! What it promises: a name that is not known, or a value that is not what it should be, is told to
//! whoever sent it. What it must never do: let through anything but numbers and names of
//! statements.

use super::activity::{Range, Window};
use super::reports::Wanted;
use std::collections::BTreeMap;

/// How far charts go back, in minutes, at the most.
const MINUTES_MAX: i64 = 60;
/// Names and objects that are looked up at once.
const NAMES_MAX: usize = 64;

/// Names and values.
pub struct Query<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Query<'a> {
    /// Takes `a=1&b=2` apart.
    ///
    /// # Errors
    /// There is a name that is not known.
    pub fn new(text: &'a str, known: &[&str]) -> Result<Query<'a>, String> {
        let mut pairs = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(format!("known here are: {}", known.join(", ")));
            }
            pairs.insert(name, value);
        }
        Ok(Query(pairs))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, String> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| format!("{name} must be a number"))
    }

    /// A number of a range; `None`: it is not there.
    fn within(&self, name: &str, (low, high): (i64, i64)) -> Result<Option<i64>, String> {
        match self.number(name)? {
            Some(value) if !(low..=high).contains(&value) => {
                Err(format!("{name} must be from {low} to {high}"))
            }
            value => Ok(value),
        }
    }

    fn needed(&self, name: &str) -> Result<i64, String> {
        self.number(name)?.ok_or_else(|| format!("{name} is wanted"))
    }

    /// An instance; `None`: all.
    fn instance(&self) -> Result<Option<u16>, String> {
        let number = self.within("instance", (0, 255))?.unwrap_or(0);
        Ok(u16::try_from(number).ok().filter(|k| *k > 0))
    }

    /// The name of a statement.
    fn sql_id(&self) -> Result<Option<&'a str>, String> {
        match self.0.get("sql_id") {
            Some(id) if !is_sql_id(id) => Err("sql_id must be the name of a statement".to_owned()),
            id => Ok(id.copied()),
        }
    }
}

/// Whether a text may name a statement.
fn is_sql_id(text: &str) -> bool {
    text.len() == 13 && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
}

/// `minutes=, range=whole, from=, to=, instance=, sql_id=` of the activity.
///
/// # Errors
/// What is wrong with it.
pub fn window(text: &str) -> Result<Window, String> {
    let known = ["minutes", "range", "from", "to", "instance", "sql_id"];
    let query = Query::new(text, &known)?;
    let named = query.0.get("range").copied();
    let range = match (named, query.number("from")?, query.number("to")?) {
        (None, Some(from), Some(to)) if from < to => Range::Between(from, to),
        (Some("whole"), None, None) => Range::Whole,
        (None, None, None) => Range::Last,
        _ => return Err("range=whole is known, or from and to in milliseconds".to_owned()),
    };
    Ok(Window {
        minutes: query.within("minutes", (1, MINUTES_MAX))?.unwrap_or(5),
        range,
        instance: query.instance()?.map_or(0, u64::from),
        sql_id: query.sql_id()?.map(str::to_owned),
    })
}

/// `since=` of statements: milliseconds.
///
/// # Errors
/// What is wrong with it.
pub fn since(text: &str) -> Result<i64, String> {
    Ok(Query::new(text, &["since"])?.number("since")?.unwrap_or(0))
}

/// `sql_id=` of a statement.
///
/// # Errors
/// What is wrong with it.
pub fn statement(text: &str) -> Result<&str, String> {
    let id = Query::new(text, &["sql_id"])?.sql_id()?;
    id.ok_or_else(|| "sql_id is wanted".to_owned())
}

/// `sql=A,B&objects=1,2`, of what the texts and names are wanted; both as they are given.
///
/// # Errors
/// What is wrong with it.
pub fn names(text: &str) -> Result<(&str, &str), String> {
    let query = Query::new(text, &["sql", "objects"])?;
    let list = |name: &str, fits: fn(&str) -> bool| {
        let text = query.0.get(name).copied().unwrap_or("");
        let mut all = text.split(',').filter(|one| !one.is_empty());
        match text.split(',').count() <= NAMES_MAX && all.all(fits) {
            true => Ok(text),
            false => Err(format!("{name}: at most {NAMES_MAX}, parted by commas")),
        }
    };
    Ok((list("sql", is_sql_id)?, list("objects", |one| one.parse::<u32>().is_ok())?))
}

/// `kind=, begin=, end=, instance=, minutes=, download=` of a report; the last says whether it is a
/// file.
///
/// # Errors
/// What is wrong with it.
pub fn report(text: &str) -> Result<(Wanted, bool), String> {
    let known = ["kind", "begin", "end", "instance", "minutes", "download"];
    let query = Query::new(text, &known)?;
    let range = || Ok::<_, String>((query.needed("begin")?, query.needed("end")?));
    let instance = query.instance()?;
    let wanted = match query.0.get("kind").copied().unwrap_or("") {
        "workload" => Wanted::Workload { range: range()?, instance: instance.map(i64::from) },
        "diagnosis" => Wanted::Diagnosis { range: range()? },
        "ash" => {
            let minutes = query.within("minutes", (1, MINUTES_MAX))?.unwrap_or(5);
            Wanted::Ash { minutes: u32::try_from(minutes).unwrap_or(5), instance }
        }
        _ => return Err("kind is workload, diagnosis or ash".to_owned()),
    };
    Ok((wanted, query.number("download")? == Some(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_asks_for_its_window() {
        let usual = Window { minutes: 5, range: Range::Last, instance: 0, sql_id: None };
        assert_eq!(window(""), Ok(usual.clone()));
        let chosen = window("minutes=60&from=1000&to=2000&instance=2&sql_id=0123456789abc");
        let expected = Window {
            minutes: 60,
            range: Range::Between(1000, 2000),
            instance: 2,
            sql_id: Some("0123456789abc".to_owned()),
        };
        assert_eq!(chosen, Ok(expected));
        let whole = Window { range: Range::Whole, ..usual };
        assert_eq!(window("range=whole"), Ok(whole));
        for wrong in [
            "since=x",
            "minutes=0",
            "minutes=61",
            "minutes=",
            "from=1",
            "range=x",
            "range=whole&from=1&to=2",
            "from=2&to=2",
            "instance=-1",
            "sql_id=",
            "sql_id=0123456789ab'",
        ] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_numbers_and_names_of_statements() {
        assert_eq!(names(""), Ok(("", "")));
        let both = "0123456789abc,0123456789abd";
        assert_eq!(names(&format!("sql={both}&objects=7,8")), Ok((both, "7,8")));
        for wrong in ["sql=x", "objects=-1", "objects=1;2", "tables=1"] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
        let many = vec!["1"; NAMES_MAX + 1].join(",");
        assert!(names(&format!("objects={many}")).is_err());
        assert_eq!(statement("sql_id=0123456789abc"), Ok("0123456789abc"));
        assert!(statement("").is_err() && since("since=x").is_err());
        assert_eq!((since(""), since("since=5")), (Ok(0), Ok(5)));
    }

    #[test]
    fn reports_are_asked_for_by_kind() {
        let range = (3, 4);
        assert_eq!(
            report("kind=workload&begin=3&end=4&instance=2&download=1"),
            Ok((Wanted::Workload { range, instance: Some(2) }, true))
        );
        assert_eq!(
            report("kind=diagnosis&begin=3&end=4"),
            Ok((Wanted::Diagnosis { range }, false))
        );
        let ash = Wanted::Ash { minutes: 10, instance: None };
        assert_eq!(report("kind=ash&minutes=10&instance=0"), Ok((ash, false)));
        for wrong in ["", "kind=x", "kind=workload&begin=1", "kind=ash&minutes=1000"] {
            assert!(report(wrong).is_err(), "{wrong}");
        }
    }
}
