//! Wait events one by one, and how long their waits were.

use super::numbers::{Table, Work, is_idle};
use super::page::*;
use std::collections::BTreeMap;

/// Upper ends of the columns of a histogram, µs; the last column is open.
const BOUNDS_US: [u64; 8] = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 1_024_000, u64::MAX];

fn columns() -> Vec<Col> {
    vec![
        words("Event", 30),
        figures("Waits", 11),
        figures("%Tim\nout", 5),
        figures("Total Wait\nTime (s)", 10),
        figures("Avg wait\n(ms)", 9),
        figures("Waits\n/txn", 8),
    ]
}

fn line(work: &Work, event: &str, [waits, timeouts, us]: [f64; 3]) -> Vec<String> {
    vec![
        event.to_owned(),
        count(waits),
        if waits > 0.0 { count(100.0 * timeouts / waits) } else { String::new() },
        seconds(us),
        average_ms(us, waits, 2),
        each(waits, work.transactions(), 1),
    ]
}

/// Waits of clients' sessions, or of the instance's own threads.
pub(crate) fn events(work: &Work, foreground: bool) -> Option<Section> {
    let table = work.table("wrh$_system_event")?;
    let of = |row: &super::numbers::Row| -> [f64; 3] {
        let fg = ["total_waits_fg", "total_timeouts_fg", "time_waited_micro_fg"];
        let all = ["total_waits", "total_timeouts", "time_waited_micro"];
        let fg = fg.map(|name| table.added(row, name));
        if foreground {
            return fg;
        }
        let all = all.map(|name| table.added(row, name));
        [0, 1, 2].map(|at| (all[at] - fg[at]).max(0.0))
    };
    let mut rows: Vec<_> = table.rows.iter().filter(|row| of(row)[0] > 0.0).collect();
    rows.sort_by(|a, b| {
        let idle = is_idle(a).cmp(&is_idle(b));
        idle.then(of(b)[2].total_cmp(&of(a)[2])).then_with(|| a.keys.cmp(&b.keys))
    });
    let mut grid = Grid::new(&columns());
    for row in rows {
        grid.row(line(work, &row.keys[0], of(row)));
    }
    let (title, who) = match foreground {
        true => ("Foreground Wait Events", "clients' sessions"),
        false => ("Background Wait Events", "the instance's own threads"),
    };
    Section::new(title)
        .note(format!("Waits of {who}, by their time; idle ones come last."))
        .grid(grid)
        .unless_empty()
}

/// How many waits of each event were how long.
pub(crate) fn histogram(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_event_histogram")?;
    let events = work.table("wrh$_system_event");
    let idle = |event: &str| events.and_then(|e| e.row(event)).is_some_and(is_idle);
    let mut all: BTreeMap<&str, [f64; 8]> = BTreeMap::new();
    for row in &table.rows {
        let [event, bound] = &row.keys[..] else { continue };
        if idle(event) {
            continue;
        }
        let bound = bound.parse().unwrap_or(u64::MAX);
        let at = BOUNDS_US.iter().position(|end| bound <= *end).unwrap_or(7);
        all.entry(event).or_default()[at] += table.added(row, "wait_count");
    }
    let mut grid = Grid::new(&[
        words("Event", 28),
        figures("Total\nWaits", 7),
        figures("<1ms", 5),
        figures("<2ms", 5),
        figures("<4ms", 5),
        figures("<8ms", 5),
        figures("<16ms", 5),
        figures("<32ms", 5),
        figures("<=1s", 5),
        figures(">1s", 5),
    ]);
    let mut chart = Chart {
        title: "Waits by their length".into(),
        unit: "%",
        parts: vec!["<1 ms", "<2 ms", "<4 ms", "<8 ms", "<16 ms", "<32 ms", "<=1 s", ">1 s"],
        bars: Vec::new(),
    };
    for (event, counts) in all {
        let total: f64 = counts.iter().sum();
        if total <= 0.0 {
            continue;
        }
        let parts = counts.map(|n| 100.0 * n / total);
        let shown = parts.map(|p| if p > 0.0 { number(p, 1) } else { String::new() });
        let mut cells = vec![event.to_owned(), short(total)];
        cells.extend(shown);
        grid.row(cells);
        chart.bars.push((event.to_owned(), parts.to_vec()));
    }
    Section::new("Wait Event Histogram")
        .note("Part of the waits in per cent that were shorter than each bound; blank: none.")
        .grid(grid)
        .chart(chart)
        .unless_empty()
}

/// Buffers that had to be waited for, by class.
pub(crate) fn buffer_waits(work: &Work) -> Option<Section> {
    let table: &Table = work.table("wrh$_waitstat")?;
    let mut grid = Grid::new(&[
        words("Class", 20),
        figures("Waits", 12),
        figures("Total Wait\nTime (s)", 12),
        figures("Avg Time\n(ms)", 10),
    ]);
    for row in table.top(|row| table.added(row, "count")) {
        let (waits, us) = (table.added(row, "count"), table.added(row, "time") * 1e4);
        grid.row(vec![row.keys[0].clone(), count(waits), seconds(us), average_ms(us, waits, 1)]);
    }
    Section::new("Buffer Wait Statistics").grid(grid).unless_empty()
}
