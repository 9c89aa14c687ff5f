//! What became of undo in the last days, ten minutes a row: `v$undostat`.
//!
//! Promises: a look costs a few additions; the rows of four days are kept. Must never be read by
//! who decides something.

use std::collections::VecDeque;

use observe::SqlId;
use parking_lot::Mutex;

/// Length of a row.
const ROW_US: i64 = 600_000_000;
/// Rows of four days.
const ROWS_MAX: usize = 576;

/// Extents' blocks by who needs what is in them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct UndoBlocks {
    /// Of transactions that have not ended.
    pub active: u64,
    /// Of others, within `undo_retention`.
    pub unexpired: u64,
    pub expired: u64,
}

impl UndoBlocks {
    /// Adds those of another segment.
    pub fn add(&mut self, other: UndoBlocks) {
        self.active += other.active;
        self.unexpired += other.unexpired;
        self.expired += other.expired;
    }
}

/// Counters of an instance since its start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct UndoCounters {
    pub blocks_used: u64,
    /// Transactions that have ended.
    pub transactions: u64,
    /// Reads that failed because their undo was gone.
    pub too_old: u64,
}

/// What there is at one moment.
#[derive(Clone, Copy, Debug)]
pub struct UndoLook {
    /// Wall clock, µs since 1970.
    pub wall_us: i64,
    pub counters: UndoCounters,
    pub blocks: UndoBlocks,
    /// Transactions that have not ended.
    pub running: u64,
    /// The statement that runs for longest, and for how many µs.
    pub longest: Option<(SqlId, u64)>,
}

/// What happened in one row's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoRow {
    /// Wall clock, µs since 1970.
    pub begin_wall_us: i64,
    /// The last look.
    pub end_wall_us: i64,
    pub counted: UndoCounters,
    /// At the last look.
    pub blocks: UndoBlocks,
    pub most_running: u64,
    pub longest: Option<(SqlId, u64)>,
}

#[derive(Default)]
struct Rows {
    /// The newest last.
    rows: VecDeque<UndoRow>,
    /// The counters when the newest row began.
    before: UndoCounters,
    last: UndoCounters,
}

/// The rows of one instance.
#[derive(Default)]
pub struct UndoHistory(Mutex<Rows>);

impl UndoHistory {
    /// Notes what there is; now and then, a row begins.
    pub fn note(&self, look: &UndoLook) {
        let mut all = self.0.lock();
        let over = |row: &UndoRow| look.wall_us - row.begin_wall_us >= ROW_US;
        if all.rows.back().is_none_or(over) {
            all.before = all.last;
            // What has happened since the last look is of the row that begins.
            let begin_wall_us = all.rows.back().map_or(look.wall_us, |row| row.end_wall_us);
            all.rows.push_back(UndoRow {
                begin_wall_us,
                end_wall_us: look.wall_us,
                counted: UndoCounters::default(),
                blocks: look.blocks,
                most_running: 0,
                longest: None,
            });
            if all.rows.len() > ROWS_MAX {
                all.rows.pop_front();
            }
        }
        let before = all.before;
        all.last = look.counters;
        let Some(row) = all.rows.back_mut() else { return };
        row.end_wall_us = look.wall_us;
        row.counted = UndoCounters {
            blocks_used: look.counters.blocks_used.saturating_sub(before.blocks_used),
            transactions: look.counters.transactions.saturating_sub(before.transactions),
            too_old: look.counters.too_old.saturating_sub(before.too_old),
        };
        row.blocks = look.blocks;
        row.most_running = row.most_running.max(look.running);
        row.longest = row.longest.into_iter().chain(look.longest).max_by_key(|(_, us)| *us);
    }

    /// The newest first.
    #[must_use]
    pub fn rows(&self) -> Vec<UndoRow> {
        self.0.lock().rows.iter().rev().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(minute: i64, blocks_used: u64, longest: Option<(&str, u64)>) -> UndoLook {
        UndoLook {
            wall_us: minute * 60_000_000,
            counters: UndoCounters { blocks_used, transactions: 2 * blocks_used, too_old: 0 },
            blocks: UndoBlocks { active: blocks_used, unexpired: 0, expired: 0 },
            running: blocks_used % 7,
            longest: longest.map(|(text, us)| (SqlId::of(text), us)),
        }
    }

    #[test]
    fn a_row_counts_ten_minutes() {
        let history = UndoHistory::default();
        history.note(&look(0, 3, None));
        history.note(&look(4, 13, Some(("select 1", 50))));
        history.note(&look(9, 15, Some(("select 2", 20))));
        history.note(&look(10, 20, None));
        history.note(&look(11, 21, Some(("select 3", 7))));
        let rows = history.rows();
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.begin_wall_us / 60_000_000, row.counted.blocks_used, row.most_running))
            .collect();
        assert_eq!(told, [(9, 6, 6), (0, 15, 6)], "the newest first, nothing twice");
        let longest: Vec<_> = rows.iter().map(|row| row.longest).collect();
        assert_eq!(longest, [Some((SqlId::of("select 3"), 7)), Some((SqlId::of("select 1"), 50))]);
        assert_eq!((rows[0].counted.transactions, rows[0].blocks.active), (12, 21));
    }

    #[test]
    fn four_days_are_kept() {
        let history = UndoHistory::default();
        for at in 0..700 {
            history.note(&look(at * 10, 1, None));
        }
        assert_eq!(history.rows().len(), ROWS_MAX);
    }
}
