//! Steps by bitmaps in the field's words: the conversion, how sets are brought together, and the
//! index that each is of.
//!
//! What it promises: each index has a step of its own, with its name. What it must never do: show a
//! figure of one, for what is measured is all of them together.

use query::explain::{Sets, Step};

/// A step that gives a set of rows.
#[derive(Debug)]
pub(super) struct SetStep {
    pub(super) words: String,
    /// Number of its index; 0: it reads none itself.
    pub(super) obj: u32,
    /// Whether it only makes addresses of bits, so that conditions are those of what is below it.
    pub(super) is_conversion: bool,
    pub(super) inputs: Vec<SetStep>,
}

impl SetStep {
    fn over(words: &str, inputs: Vec<SetStep>) -> SetStep {
        SetStep { words: words.to_owned(), obj: 0, is_conversion: false, inputs }
    }

    fn of(sets: &Sets) -> SetStep {
        let all = |parts: &[Sets]| parts.iter().map(SetStep::of).collect::<Vec<SetStep>>();
        match sets {
            Sets::One { index, obj, bitmap, single } => {
                let index = index.to_uppercase();
                let words = match (bitmap, single) {
                    (true, true) => format!("BITMAP INDEX SINGLE VALUE {index}"),
                    (true, false) => format!("BITMAP INDEX RANGE SCAN {index}"),
                    (false, _) => format!("INDEX RANGE SCAN {index}"),
                };
                let one = SetStep { obj: *obj, ..SetStep::over(&words, Vec::new()) };
                match bitmap {
                    true => one,
                    false => SetStep::over("BITMAP CONVERSION FROM ROWIDS", vec![one]),
                }
            }
            Sets::All(parts) => SetStep::over("BITMAP AND", all(parts)),
            Sets::Any(parts) => SetStep::over("BITMAP OR", all(parts)),
            // The field takes one set away at a time.
            Sets::Minus(base, parts) => parts.iter().fold(SetStep::of(base), |left, part| {
                SetStep::over("BITMAP MINUS", vec![left, SetStep::of(part)])
            }),
        }
    }
}

/// What a step does with the sets that lead to its rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Count,
    /// Their rows are read.
    Rows,
    /// The keys are all that is read.
    Keys,
}

fn use_of(step: &Step) -> Option<Use> {
    match step.text.split_once(" using ")?.0 {
        "Bitmap Count" => Some(Use::Count),
        "Bitmap Index Scan" | "Bitmap Index Scan Backward" => Some(Use::Rows),
        "Bitmap Index Only Scan" | "Bitmap Index Only Scan Backward" => Some(Use::Keys),
        _ => None,
    }
}

/// The words for the step itself, and whether the object that it reads is its own; `None`: it goes
/// not by bitmaps.
pub(super) fn top_words(step: &Step) -> Option<(String, bool)> {
    let (sets, names) = (step.sets.as_ref()?, step.names.as_ref()?);
    Some(match use_of(step)? {
        Use::Count => ("BITMAP CONVERSION COUNT".to_owned(), false),
        Use::Rows => (format!("TABLE ACCESS BY INDEX ROWID {}", names.table.to_uppercase()), true),
        Use::Keys => (SetStep::of(sets).words, true),
    })
}

/// What is below that.
pub(super) fn below(step: &Step) -> Option<SetStep> {
    let set = SetStep::of(step.sets.as_ref()?);
    match use_of(step)? {
        Use::Count => Some(set),
        Use::Rows => {
            let rowids = SetStep::over("BITMAP CONVERSION TO ROWIDS", vec![set]);
            Some(SetStep { is_conversion: true, ..rowids })
        }
        Use::Keys => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expected, Rows, add_lines, operation, predicates};
    use super::*;
    use query::explain::{Actual, Estimate, Names, Part};

    fn one(index: &str, obj: u32, bitmap: bool, single: bool) -> Sets {
        Sets::One { index: index.to_owned(), obj, bitmap, single }
    }

    fn step(word: &str, sets: Sets) -> Step {
        Step {
            name: "ScanExec".to_owned(),
            text: format!("{word} using i on t"),
            details: vec![("Index Cond", "(a = 1)".to_owned())],
            estimate: Estimate::default(),
            read_width: 0.0,
            columns: Vec::new(),
            actual: None,
            index: None,
            names: Some(Names {
                table: "t".to_owned(),
                index: Some("i".to_owned()),
                obj: 7,
                ..Names::default()
            }),
            sets: Some(sets),
            inner: None,
            inputs: Vec::new(),
        }
    }

    fn three() -> Sets {
        let both = Sets::All(vec![one("i", 8, true, true), one("j", 9, false, false)]);
        Sets::Minus(Box::new(both), vec![one("k", 10, true, false)])
    }

    #[test]
    fn each_index_of_a_plan_has_a_step() {
        let shown = |step: &Step| -> Vec<String> {
            assert_eq!(predicates(step).access.as_deref(), Some("(a = 1)"));
            let mut rows = Rows::default();
            let top = rows.statement("SELECT", Expected::default());
            rows.add_step(step, top);
            let told = |row: &observe::PlanRow| {
                let [option, object, access] = [&row.option, &row.object, &row.access]
                    .map(|text| text.clone().unwrap_or_default());
                let (parent, position) = (row.parent.unwrap_or(0), row.position);
                let operation = &row.operation;
                format!("{parent} {position} {operation}|{option}|{object}|{access}")
            };
            rows.rows[1..].iter().map(told).collect()
        };
        assert_eq!(
            shown(&step("Bitmap Index Scan", three())),
            [
                "0 1 TABLE ACCESS|BY INDEX ROWID|T|",
                "1 1 BITMAP CONVERSION|TO ROWIDS||",
                "2 1 BITMAP MINUS|||(a = 1)",
                "3 1 BITMAP AND|||",
                "4 1 BITMAP INDEX|SINGLE VALUE|I|",
                "4 2 BITMAP CONVERSION|FROM ROWIDS||",
                "6 1 INDEX|RANGE SCAN|J|",
                "3 2 BITMAP INDEX|RANGE SCAN|K|",
            ]
        );
        assert_eq!(
            shown(&step("Bitmap Count", one("i", 8, true, true))),
            ["0 1 BITMAP CONVERSION|COUNT||", "1 1 BITMAP INDEX|SINGLE VALUE|I|(a = 1)"]
        );
        let keys = step("Bitmap Index Only Scan", one("i", 8, true, false));
        assert_eq!(operation(&keys), ("BITMAP INDEX RANGE SCAN I".to_owned(), true));
        assert_eq!(shown(&keys), ["0 1 BITMAP INDEX|RANGE SCAN|I|(a = 1)"]);
    }

    #[test]
    fn each_index_of_a_trace_has_a_line_with_its_number() {
        let shown = |step: &Step| -> Vec<String> {
            let mut lines = Vec::new();
            add_lines(step, 0, 1, &mut lines);
            let told = |line: &observe::PlanLine| {
                let (rows, parent, position, obj) =
                    (line.rows, line.parent, line.position, line.obj);
                format!("{rows} {parent} {position} {obj} {}", line.operation)
            };
            lines.iter().map(told).collect()
        };
        let figures = "(cr=0 pr=0 pw=0 time=0 us cost=0 size=0 card=1)";
        assert_eq!(
            shown(&step("Bitmap Count", three())),
            [
                format!("0 0 1 0 BITMAP CONVERSION COUNT {figures}"),
                "0 1 1 0 BITMAP MINUS".to_owned(),
                "0 2 1 0 BITMAP AND".to_owned(),
                "0 3 1 8 BITMAP INDEX SINGLE VALUE I".to_owned(),
                "0 3 2 0 BITMAP CONVERSION FROM ROWIDS".to_owned(),
                "0 5 1 9 INDEX RANGE SCAN J".to_owned(),
                "0 2 2 10 BITMAP INDEX RANGE SCAN K".to_owned(),
            ]
        );
        let mut rows = step("Bitmap Index Scan", one("i", 8, true, true));
        rows.index = Some(Part { obj: 8, actual: Actual { rows: 5, ..Actual::default() } });
        assert_eq!(
            shown(&rows),
            [
                format!("0 0 1 7 TABLE ACCESS BY INDEX ROWID T {figures}"),
                "5 1 1 0 BITMAP CONVERSION TO ROWIDS (cr=0 pr=0 pw=0 time=0 us)".to_owned(),
                "0 2 1 8 BITMAP INDEX SINGLE VALUE I".to_owned(),
            ]
        );
    }
}
