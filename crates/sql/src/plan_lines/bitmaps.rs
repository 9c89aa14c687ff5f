//! Steps by bitmaps in the field's words: the conversion, how sets are brought together, and the
//! index that each is of.
//!
//! What it promises: each index has a step of its own, with its name, what it is asked for and what
//! reading it took; rows of bitmaps are pieces, and what brings sets together gives one each time.
//! What it must never do: show a figure of one that was not measured.

use super::line::{BITMAP_INDEX, Line};
use super::{figures, index_figures};
use observe::StepFigures;
use query::explain::{Operator, Sets, Step};

const TO_ROWIDS: &str = "TO ROWIDS";

/// A step that makes one set of another.
fn conversion(option: &'static str) -> Line {
    Line::new("BITMAP CONVERSION", option, "")
}

/// The rows that a key of a bitmap index leads to, as addresses: the conversion, and the index.
pub(super) fn rows_of_key(index: &str) -> [Line; 2] {
    [conversion(TO_ROWIDS), Line::new(BITMAP_INDEX, "SINGLE VALUE", index)]
}

/// A step that gives a set of rows.
#[derive(Debug)]
pub(super) struct SetStep {
    pub(super) line: Line,
    /// Number of its index; 0: it reads none itself.
    pub(super) obj: u32,
    /// What leads to its entries.
    pub(super) access: Option<String>,
    /// What it did; `None`: that was not measured.
    pub(super) figures: Option<StepFigures>,
    pub(super) inputs: Vec<SetStep>,
}

impl SetStep {
    fn over(line: Line, inputs: Vec<SetStep>) -> SetStep {
        let mut all: Option<StepFigures> = None;
        for input in inputs.iter().filter_map(|input| input.figures.as_ref()) {
            let all = all.get_or_insert_default();
            // Sets behind one that leaves nothing are not read.
            all.starts = all.starts.max(input.starts);
            all.rows = all.starts;
            all.add_work(input);
        }
        SetStep { line, obj: 0, access: None, figures: all, inputs }
    }

    fn of(sets: &Sets) -> SetStep {
        let all = |parts: &[Sets]| parts.iter().map(SetStep::of).collect::<Vec<SetStep>>();
        match sets {
            Sets::One { index, obj, bitmap, single, condition, actual } => {
                let (name, option) = match (bitmap, single) {
                    (true, _) if condition.is_none() => (BITMAP_INDEX, "FULL SCAN"),
                    (true, true) => (BITMAP_INDEX, "SINGLE VALUE"),
                    (true, false) => (BITMAP_INDEX, "RANGE SCAN"),
                    (false, _) => ("INDEX", "RANGE SCAN"),
                };
                let (line, access) = (Line::new(name, option, index), condition.clone());
                let figures = actual.as_ref().map(|actual| index_figures(&line, actual));
                let one = SetStep { obj: *obj, access, figures, ..SetStep::over(line, Vec::new()) };
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
        Operator::BitmapScan => {
            // As many as there are rows.
            let figures = step.index.as_ref().map(|part| figures(&part.actual));
            Some(SetStep { figures, ..SetStep::over(conversion(TO_ROWIDS), vec![set]) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::lines_of;
    use super::super::rows::{Expected, ROWS_MAX, Rows, predicates};
    use super::super::tests::traced;
    use super::*;
    use query::explain::{Actual, Estimate, Names, Part};

    fn one(index: &str, obj: u32, bitmap: bool, single: bool) -> Sets {
        let condition = Some(format!("({index} = 1)"));
        Sets::One { index: index.to_owned(), obj, bitmap, single, condition, actual: None }
    }

    /// The same as it was read, once or not at all: rows, pieces of bitmaps, and as many gets.
    fn read(mut set: Sets, loops: u64, rows: u64, pieces: u64) -> Sets {
        if let Sets::One { actual, .. } = &mut set {
            let mut told = Actual { loops, rows, pieces, total_us: 10, ..Actual::default() };
            told.visits.consistent_gets = pieces;
            *actual = Some(told);
        }
        set
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
            branches: Vec::new(),
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
            let mut rows = Rows::new(ROWS_MAX);
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
        let Sets::One { index, obj, bitmap, single, actual, .. } = one("i", 8, true, false) else {
            panic!("one index");
        };
        let all = Sets::One { index, obj, bitmap, single, condition: None, actual };
        assert_eq!(
            shown(&step(Operator::BitmapCount, all)),
            ["0 1 BITMAP CONVERSION|COUNT||", "1 1 BITMAP INDEX|FULL SCAN|I|"]
        );
        let keys = step(Operator::BitmapOnlyScan, one("i", 8, true, false));
        assert_eq!(lines_of(&keys), [Line::new("BITMAP INDEX", "RANGE SCAN", "i")]);
        assert_eq!(shown(&keys), ["0 1 BITMAP INDEX|RANGE SCAN|I|(a = 1)"]);
    }

    #[test]
    fn each_index_of_a_trace_has_a_line_with_its_number() {
        assert_eq!(
            traced(&step(Operator::BitmapCount, three())),
            [
                "0 0 1 0 BITMAP CONVERSION COUNT",
                "0 1 1 0 BITMAP MINUS",
                "0 2 1 0 BITMAP AND",
                "0 3 1 8 BITMAP INDEX SINGLE VALUE I",
                "0 3 2 0 BITMAP CONVERSION FROM ROWIDS",
                "0 5 1 9 INDEX RANGE SCAN J",
                "0 2 2 10 BITMAP INDEX RANGE SCAN K",
            ]
        );
    }

    #[test]
    fn what_was_read_of_each_index_is_told_as_pieces_and_what_came_of_it_as_rows() {
        let both = Sets::All(vec![
            read(one("i", 8, true, true), 1, 900, 3),
            read(one("j", 9, false, false), 1, 40, 0),
        ]);
        let sets = Sets::Minus(Box::new(both), vec![read(one("k", 10, true, false), 1, 70, 2)]);
        let mut scan = step(Operator::BitmapScan, sets);
        let mut all = Actual { loops: 1, rows: 5, total_us: 50, ..Actual::default() };
        all.visits.consistent_gets = 5;
        scan.index = Some(Part { obj: 0, actual: all });
        let us = |us: u64| format!("pr=0 pw=0 time={us} us)");
        assert_eq!(
            traced(&scan),
            [
                "0 0 1 7 TABLE ACCESS BY INDEX ROWID T".to_owned(),
                format!("5 1 1 0 BITMAP CONVERSION TO ROWIDS (cr=5 {}", us(50)),
                format!("1 2 1 0 BITMAP MINUS (cr=5 {}", us(30)),
                format!("1 3 1 0 BITMAP AND (cr=3 {}", us(20)),
                format!("3 4 1 8 BITMAP INDEX SINGLE VALUE I (cr=3 {}", us(10)),
                format!("1 4 2 0 BITMAP CONVERSION FROM ROWIDS (cr=0 {}", us(10)),
                format!("40 6 1 9 INDEX RANGE SCAN J (cr=0 {}", us(10)),
                format!("2 3 2 10 BITMAP INDEX RANGE SCAN K (cr=2 {}", us(10)),
            ]
        );
    }

    #[test]
    fn a_set_that_was_not_read_gave_nothing() {
        let empty = read(one("i", 8, true, true), 1, 0, 0);
        let unread = read(one("j", 9, true, true), 0, 0, 0);
        let sets = Sets::All(vec![empty, unread]);
        let lines = traced(&step(Operator::BitmapCount, sets));
        assert!(lines[1].starts_with("1 1 1 0 BITMAP AND (cr=0 "), "{}", lines[1]);
        assert!(lines[3].starts_with("0 2 2 9 BITMAP INDEX "), "{}", lines[3]);
    }
}
