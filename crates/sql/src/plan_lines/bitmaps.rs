//! Steps by bitmaps in the field's words: the conversion, how sets are brought together, and the
//! index that each is of.
//!
//! What it promises: each index has a step of its own, with its name and what it is asked for. What
//! it must never do: show a figure of one, for what is measured is all of them together.

use super::Line;
use query::explain::{Operator, Sets, Step};

const TO_ROWIDS: &str = "TO ROWIDS";

/// A step that makes one set of another.
fn conversion(option: &'static str) -> Line {
    Line::new("BITMAP CONVERSION", option, "")
}

/// The rows that a key of a bitmap index leads to, as addresses: the conversion, and the index.
pub(super) fn rows_of_key(index: &str) -> [Line; 2] {
    [conversion(TO_ROWIDS), Line::new("BITMAP INDEX", "SINGLE VALUE", index)]
}

/// A step that gives a set of rows.
#[derive(Debug)]
pub(super) struct SetStep {
    pub(super) line: Line,
    /// Number of its index; 0: it reads none itself.
    pub(super) obj: u32,
    /// What leads to its entries.
    pub(super) access: Option<String>,
    pub(super) inputs: Vec<SetStep>,
}

impl SetStep {
    fn over(line: Line, inputs: Vec<SetStep>) -> SetStep {
        SetStep { line, obj: 0, access: None, inputs }
    }

    fn of(sets: &Sets) -> SetStep {
        let all = |parts: &[Sets]| parts.iter().map(SetStep::of).collect::<Vec<SetStep>>();
        match sets {
            Sets::One { index, obj, bitmap, single, condition } => {
                let (name, option) = match (bitmap, single) {
                    (true, true) => ("BITMAP INDEX", "SINGLE VALUE"),
                    (true, false) => ("BITMAP INDEX", "RANGE SCAN"),
                    (false, _) => ("INDEX", "RANGE SCAN"),
                };
                let (line, access) = (Line::new(name, option, index), condition.clone());
                let one = SetStep { obj: *obj, access, ..SetStep::over(line, Vec::new()) };
                match bitmap {
                    true => one,
                    false => SetStep::over(conversion("FROM ROWIDS"), vec![one]),
                }
            }
            Sets::All(parts) => SetStep::over(Line::new("BITMAP AND", "", ""), all(parts)),
            Sets::Any(parts) => SetStep::over(Line::new("BITMAP OR", "", ""), all(parts)),
            // The field takes one set away at a time.
            Sets::Minus(base, parts) => parts.iter().fold(SetStep::of(base), |left, part| {
                SetStep::over(Line::new("BITMAP MINUS", "", ""), vec![left, SetStep::of(part)])
            }),
        }
    }
}

/// The step itself, if the set that leads to its keys is all that it reads.
pub(super) fn keys_of(step: &Step) -> Option<Line> {
    let sets = step.sets.as_ref().filter(|_| step.operator == Operator::BitmapOnlyScan)?;
    Some(SetStep::of(sets).line)
}

/// What is below a step that counts what a set has, or reads its rows.
pub(super) fn below(step: &Step) -> Option<SetStep> {
    let set = SetStep::of(step.sets.as_ref()?);
    match step.operator {
        Operator::BitmapCount => Some(set),
        Operator::BitmapScan => Some(SetStep::over(conversion(TO_ROWIDS), vec![set])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expected, Rows, add_lines, lines_of, predicates};
    use super::*;
    use query::explain::{Actual, Estimate, Names, Part};

    fn one(index: &str, obj: u32, bitmap: bool, single: bool) -> Sets {
        let condition = Some(format!("({index} = 1)"));
        Sets::One { index: index.to_owned(), obj, bitmap, single, condition }
    }

    fn step(operator: Operator, sets: Sets) -> Step {
        Step {
            operator,
            text: format!("{} using i on t", operator.word()),
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
            shown(&step(Operator::BitmapScan, three())),
            [
                "0 1 TABLE ACCESS|BY INDEX ROWID|T|",
                "1 1 BITMAP CONVERSION|TO ROWIDS||",
                "2 1 BITMAP MINUS|||",
                "3 1 BITMAP AND|||",
                "4 1 BITMAP INDEX|SINGLE VALUE|I|(i = 1)",
                "4 2 BITMAP CONVERSION|FROM ROWIDS||",
                "6 1 INDEX|RANGE SCAN|J|(j = 1)",
                "3 2 BITMAP INDEX|RANGE SCAN|K|(k = 1)",
            ]
        );
        assert_eq!(
            shown(&step(Operator::BitmapCount, one("i", 8, true, true))),
            ["0 1 BITMAP CONVERSION|COUNT||", "1 1 BITMAP INDEX|SINGLE VALUE|I|(i = 1)"]
        );
        let keys = step(Operator::BitmapOnlyScan, one("i", 8, true, false));
        assert_eq!(lines_of(&keys), [Line::new("BITMAP INDEX", "RANGE SCAN", "i")]);
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
            shown(&step(Operator::BitmapCount, three())),
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
        let mut rows = step(Operator::BitmapScan, one("i", 8, true, true));
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
