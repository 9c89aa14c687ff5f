//! The steps of a plan that a statement runs with: what each is and is expected to do, and what it
//! has done where executions were measured.
//!
//! What it promises: figures are those of executions by the very plan that they stand beside. What
//! it must never do: show a figure of a step that was not measured.

use std::sync::Arc;

/// A step of a plan; its number is its place in the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanRow {
    pub parent: Option<usize>,
    pub depth: usize,
    /// Among the inputs of its parent, from 1; 0: it is the statement itself.
    pub position: usize,
    /// The field's words.
    pub operation: String,
    pub option: Option<String>,
    /// The table or index that it reads or changes.
    pub object: Option<String>,
    /// Number of that; 0: not known.
    pub obj: u32,
    /// What is expected of it, all below it contained; `None`: nothing is known.
    pub cost: Option<f64>,
    pub rows: Option<f64>,
    pub bytes: Option<f64>,
    /// What leads to its rows, and what they must meet beside that; as SQL.
    pub access: Option<String>,
    pub filter: Option<String>,
    /// Names of the columns that it yields; `None`: not known.
    pub projection: Option<String>,
}

/// What a step has done, all below it contained.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StepFigures {
    /// Times that it was begun.
    pub starts: u64,
    /// Rows that it gave; of bitmaps, pieces.
    pub rows: u64,
    /// Blocks visited as of a snapshot.
    pub consistent_gets: u64,
    /// Blocks visited in their newest version.
    pub current_gets: u64,
    /// Blocks read from disk.
    pub reads: u64,
    pub elapsed_us: u64,
}

impl StepFigures {
    /// Blocks visited.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.consistent_gets + self.current_gets
    }

    /// Adds what another step, or the same in another execution, has done; not how often it was
    /// begun, nor its rows.
    pub fn add_work(&mut self, other: &StepFigures) {
        self.consistent_gets += other.consistent_gets;
        self.current_gets += other.current_gets;
        self.reads += other.reads;
        self.elapsed_us += other.elapsed_us;
    }

    fn add(&mut self, other: &StepFigures) {
        self.starts += other.starts;
        self.rows += other.rows;
        self.add_work(other);
    }
}

/// What the steps of a plan have done, one after the other as the plan has them; `None`: that was
/// not measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanFigures {
    /// Executions that were measured.
    pub executions: u64,
    /// In the last of them.
    pub last: Vec<Option<StepFigures>>,
    /// In all of them.
    pub all: Vec<Option<StepFigures>>,
}

impl PlanFigures {
    fn add(&mut self, last: Vec<Option<StepFigures>>) {
        self.executions += 1;
        for (sum, more) in self.all.iter_mut().zip(&last) {
            if let Some(more) = more {
                sum.get_or_insert_default().add(more);
            }
        }
        self.last = last;
    }
}

/// The plan that a statement runs with.
#[derive(Clone, Default)]
pub(crate) struct KnownPlan {
    /// Hash value; 0: there is none.
    pub(crate) hash: u32,
    pub(crate) steps: Arc<[PlanRow]>,
    /// `None`: no execution was measured.
    pub(crate) figures: Option<Arc<PlanFigures>>,
}

impl KnownPlan {
    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let texts = |row: &PlanRow| {
            let of = [&row.option, &row.object, &row.access, &row.filter, &row.projection];
            let of = of.map(Option::as_ref);
            row.operation.len() + of.into_iter().flatten().map(String::len).sum::<usize>()
        };
        let steps: usize = self.steps.iter().map(|row| size_of::<PlanRow>() + texts(row)).sum();
        let figures = self.figures.as_ref().map_or(0, |figures| {
            size_of::<PlanFigures>()
                + (figures.last.len() + figures.all.len()) * size_of::<Option<StepFigures>>()
        });
        steps + figures
    }

    /// An execution was measured. That of another plan, which came meanwhile, is passed over.
    pub(crate) fn measured(&mut self, hash: u32, last: Vec<Option<StepFigures>>) {
        if self.hash != hash || self.steps.len() != last.len() || last.is_empty() {
            return;
        }
        match &mut self.figures {
            Some(known) => Arc::make_mut(known).add(last),
            None => {
                let figures = PlanFigures { executions: 1, all: last.clone(), last };
                self.figures = Some(Arc::new(figures));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> PlanRow {
        PlanRow {
            parent: None,
            depth: 0,
            position: 0,
            operation: "SELECT STATEMENT".to_owned(),
            option: None,
            object: None,
            obj: 0,
            cost: None,
            rows: None,
            bytes: None,
            access: None,
            filter: None,
            projection: None,
        }
    }

    fn figures(starts: u64, rows: u64, gets: u64) -> Option<StepFigures> {
        let figures = StepFigures { starts, rows, consistent_gets: gets, ..StepFigures::default() };
        Some(figures)
    }

    #[test]
    fn executions_are_added_up_and_the_last_one_stays() {
        let mut plan = KnownPlan { hash: 7, steps: vec![step(), step()].into(), figures: None };
        plan.measured(7, vec![figures(1, 2, 30), None]);
        plan.measured(7, vec![figures(1, 5, 40), figures(2, 5, 20)]);
        let known = plan.figures.as_deref().expect("it was measured");
        assert_eq!(known.executions, 2);
        assert_eq!(known.last, [figures(1, 5, 40), figures(2, 5, 20)]);
        assert_eq!(known.all, [figures(2, 7, 70), figures(2, 5, 20)]);
    }

    #[test]
    fn figures_of_another_plan_are_passed_over() {
        let mut plan = KnownPlan { hash: 7, steps: vec![step()].into(), figures: None };
        plan.measured(8, vec![figures(1, 2, 30)]);
        plan.measured(7, vec![figures(1, 2, 30), None]);
        assert_eq!(plan.figures, None);
        KnownPlan::default().measured(0, Vec::new());
    }
}
