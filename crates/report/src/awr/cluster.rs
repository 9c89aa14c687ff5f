//! The cluster's page: blocks that instances sent each other, and what each took.

use super::numbers::{Interval, Work};
use super::page::*;

/// The size of a block, and what a message is taken to weigh.
const BLOCK_BYTES: f64 = 8192.0;
const MESSAGE_BYTES: f64 = 200.0;

const RECEIVED: [&str; 2] = ["gc cr blocks received", "gc current blocks received"];
const SERVED: [&str; 2] = ["gc cr blocks served", "gc current blocks served"];

pub(crate) fn load_profile(work: &Work) -> Option<Section> {
    let (received, served) = (work.stats(&RECEIVED)?, work.stats(&SERVED)?);
    let ges = |name: &str| {
        work.table("wrh$_ges_statistics").and_then(|t| t.row(name).map(|row| t.added(row, "value")))
    };
    let came = ges("gcs msgs received")
        .zip(ges("ges msgs received"))
        .map(|(gcs, ges)| gcs + ges)
        .or_else(|| work.stats(&["gcs messages received", "ges messages received"]));
    let sent = work.stats(&["gcs messages sent", "ges messages sent"]);
    let messages = came.unwrap_or(0.0) + sent.unwrap_or(0.0);
    let bytes = (received + served) * BLOCK_BYTES + messages * MESSAGE_BYTES;
    let mut grid =
        Grid::new(&[words("", 40), figures("Per Second", 16), figures("Per Transaction", 16)]);
    let rows = [
        ("Global Cache blocks received:", Some(received)),
        ("Global Cache blocks served:", Some(served)),
        ("GCS/GES messages received:", came),
        ("GCS/GES messages sent:", sent),
        ("DBWR Fusion writes:", work.stat("DBWR fusion writes")),
    ];
    for (name, value) in rows {
        let Some(value) = value else { continue };
        grid.row(vec![
            name.to_owned(),
            number(value / work.elapsed_s(), 2),
            each(value, work.transactions(), 2),
        ]);
    }
    let kb = number(bytes / 1024.0 / work.elapsed_s(), 2);
    grid.row(vec!["Estd Interconnect traffic (KB):".to_owned(), kb, String::new()]);
    let mut section = Section::new("Global Cache Load Profile").grid(grid);
    if let Some(direct) =
        work.stats(&["gc cr blocks read directly", "gc undo blocks read directly"])
    {
        section = section.note(format!(
            "{} more blocks were read straight from another instance's memory, without messages.",
            count(direct)
        ));
    }
    Some(section)
}

pub(crate) fn efficiency(work: &Work) -> Option<Section> {
    let received = work.stats(&RECEIVED)?;
    let gets = work.gets();
    let disk = work.stat("physical reads").unwrap_or(0.0);
    if gets <= 0.0 {
        return None;
    }
    let part = |value: f64| number(100.0 * value / gets, 2);
    let pairs = vec![
        ("Buffer access -  local cache %".to_owned(), part(gets - disk - received)),
        ("Buffer access - remote cache %".to_owned(), part(received)),
        ("Buffer access -         disk %".to_owned(), part(disk)),
    ];
    let title = "Global Cache Efficiency Percentages (Target local+remote 100%)";
    Some(Section::new(title).pairs(pairs))
}

/// The metrics of the workload characteristics, each with its unit in its name.
fn metrics(work: &Work) -> Vec<(&'static str, String)> {
    let stat = |name: &str| work.stat(name);
    let ms = |us: &str, count: Option<f64>| -> Option<String> {
        Some(average_ms(work.stat_us(us)?, count?, 1))
    };
    let (cr_served, cu_served) = (stat("gc cr blocks served"), stat("gc current blocks served"));
    let server = |table: &str, columns: &[&str]| {
        let table = work.table(table)?;
        Some(columns.iter().map(|name| table.sum(name)).sum::<f64>())
    };
    const FLUSHES: [&str; 6] =
        ["flush0", "flush1", "flush10", "flush100", "flush1000", "flush10000"];
    let cr_flushes =
        stat("gc cr block flushes").or_else(|| server("wrh$_cr_block_server", &["flushes"]));
    let cu_flushes =
        stat("gc current block flushes").or_else(|| server("wrh$_current_block_server", &FLUSHES));
    let part = |part: Option<f64>, whole: Option<f64>| Some(percent(part?, whole?));
    let enqueues = work.stats(&["global enqueue gets async", "global enqueue gets sync"]);
    let cr_received = stat("gc cr blocks received");
    let cu_received = stat("gc current blocks received");
    let all = [
        ("Avg global enqueue get time (ms)", ms("global enqueue get time", enqueues)),
        (
            "Avg global cache cr block receive time (ms)",
            ms("gc cr block receive time", cr_received),
        ),
        (
            "Avg global cache current block receive time (ms)",
            ms("gc current block receive time", cu_received),
        ),
        ("Avg global cache cr block build time (ms)", ms("gc cr block build time", cr_served)),
        ("Avg global cache cr block send time (ms)", ms("gc cr block send time", cr_served)),
        ("Global cache log flushes for cr blocks served %", part(cr_flushes, cr_served)),
        ("Avg global cache cr block flush time (ms)", ms("gc cr block flush time", cr_flushes)),
        (
            "Avg global cache current block pin time (ms)",
            ms("gc current block pin time", cu_served),
        ),
        (
            "Avg global cache current block send time (ms)",
            ms("gc current block send time", cu_served),
        ),
        ("Global cache log flushes for current blocks served %", part(cu_flushes, cu_served)),
        (
            "Avg global cache current block flush time (ms)",
            ms("gc current block flush time", cu_flushes),
        ),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

pub(crate) fn characteristics(interval: &Interval, work: &Work) -> Option<Section> {
    let title = "Global Cache and Enqueue Services - Workload Characteristics";
    if work.instance != 0 {
        let pairs = metrics(work).into_iter().map(|(name, value)| (name.to_owned(), value));
        return Section::new(title)
            .note("Receive times are the asker's; build, flush, pin and send those of who serves.")
            .pairs(pairs.collect())
            .unless_empty();
    }
    let mut columns = vec![words("", 53)];
    const NAMES: [&str; 8] =
        ["Inst 1", "Inst 2", "Inst 3", "Inst 4", "Inst 5", "Inst 6", "Inst 7", "Inst 8"];
    let shown: Vec<&Work> = interval
        .works
        .iter()
        .filter(|one| usize::try_from(one.instance).is_ok_and(|no| (1..=NAMES.len()).contains(&no)))
        .collect();
    for one in &shown {
        let at = usize::try_from(one.instance).unwrap_or(1) - 1;
        columns.push(figures(NAMES[at], 8));
    }
    let mut grid = Grid::new(&columns);
    let all: Vec<_> = shown.iter().map(|one| metrics(one)).collect();
    for (name, _) in metrics(work) {
        let of = |m: &Vec<(&str, String)>| {
            m.iter().find(|(own, _)| *own == name).map_or(String::new(), |(_, v)| v.clone())
        };
        let mut cells = vec![name.to_owned()];
        cells.extend(all.iter().map(of));
        grid.row(cells);
    }
    Section::new(title)
        .note("A high receive time is to be looked up in the other instances' flush times.")
        .grid(grid)
        .unless_empty()
}

pub(crate) fn messages(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_ges_statistics")?;
    let value = |name: &str| table.row(name).map(|row| table.added(row, "value"));
    let average = |time: &str, of: &str| {
        let (time, of) = (value(time)?, value(of)?);
        Some(average_ms(time * 1e3, of, 1))
    };
    let ways = ["messages sent directly", "messages sent indirectly", "messages flow controlled"];
    let sent: f64 = ways.iter().filter_map(|name| value(name)).sum();
    let way = |name: &str| value(name).map(|part| percent(part, sent));
    let all = [
        (
            "Avg message sent queue time (ms)",
            average("msgs sent queue time (ms)", "msgs sent queued"),
        ),
        (
            "Avg message sent queue time on ksxp (ms)",
            average("msgs sent queue time on ksxp (ms)", "msgs sent queued on ksxp"),
        ),
        (
            "Avg message received queue time (ms)",
            average("msgs received queue time (ms)", "msgs received queued"),
        ),
        (
            "Avg GCS message process time (ms)",
            average("gcs msgs process time(ms)", "gcs msgs received"),
        ),
        (
            "Avg GES message process time (ms)",
            average("ges msgs process time(ms)", "ges msgs received"),
        ),
        ("% of direct sent messages", way(ways[0])),
        ("% of indirect sent messages", way(ways[1])),
        ("% of flow controlled messages", way(ways[2])),
    ];
    let pairs = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let title = "Global Cache and Enqueue Services - Messaging Statistics";
    Section::new(title).pairs(pairs.collect()).unless_empty()
}

/// Parts of a block wait: what each is called, and the columns that it sums.
pub(crate) const SPLIT: [(&str, &[&str]); 6] = [
    ("interconnect", &["interconnect_us"]),
    ("master queue", &["master_queue_us"]),
    ("LMS queue", &["master_lms_us", "lms_queue_us", "own_lms_us"]),
    ("LMS work", &["lms_build_us"]),
    ("pin", &["pin_us"]),
    ("LGWR flush", &["lgwr_flush_us"]),
];

const SPLIT_COLUMNS: [Col; 6] = [
    figures("Inter-\nconnect", 8),
    figures("Master\nqueue", 7),
    figures("LMS\nqueue", 7),
    figures("LMS\nwork", 7),
    figures("Pin", 7),
    figures("LGWR\nflush", 7),
];

/// For each pair of instances and kind of block: how many, and where the time went.
pub(crate) fn wait_split(interval: &Interval, work: &Work) -> Option<Section> {
    // Parts that this server tells apart.
    let told = |part: &usize| {
        let tables = interval.works.iter().filter_map(|one| one.table("wrh$_gc_wait_split"));
        tables.into_iter().any(|table| SPLIT[*part].1.iter().any(|column| table.has(column)))
    };
    let shown: Vec<usize> = (0..SPLIT.len()).filter(told).collect();
    let mut columns = vec![words("Pair", 7), words("Kind", 7)];
    columns.extend([figures("Blocks", 9), figures("Avg\n(ms)", 7)]);
    columns.extend(shown.iter().map(|part| SPLIT_COLUMNS[*part]));
    columns.push(figures("%Flu-\nshed", 6));
    let mut grid = Grid::new(&columns);
    let mut chart = Chart {
        title: "Block wait by pair".into(),
        unit: "ms",
        parts: shown.iter().map(|part| SPLIT[*part].0).collect(),
        bars: Vec::new(),
    };
    for to in interval.works.iter().filter(|one| [0, one.instance].contains(&work.instance)) {
        let Some(table) = to.table("wrh$_gc_wait_split") else { continue };
        let mut pairs: Vec<(&str, &str)> =
            table.rows.iter().map(|r| (r.keys[0].as_str(), r.keys[2].as_str())).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for (from, kind) in pairs {
            let rows = || table.rows.iter().filter(|r| r.keys[0] == from && r.keys[2] == kind);
            let sum = |name: &str| rows().map(|row| table.added(row, name)).sum::<f64>();
            let blocks = sum("blocks");
            if blocks <= 0.0 {
                continue;
            }
            let pair = format!("{from} -> {}", to.instance);
            let mut cells = vec![pair.clone(), kind.to_owned(), count(blocks)];
            cells.push(average_ms(sum("total_us"), blocks, 2));
            let us = |part: &usize| SPLIT[*part].1.iter().map(|column| sum(column)).sum::<f64>();
            cells.extend(shown.iter().map(|part| average_ms(us(part), blocks, 2)));
            cells.push(percent(sum("flushes"), blocks));
            grid.row(cells);
            let parts = shown.iter().map(|part| us(part) / blocks / 1e3);
            chart.bars.push((format!("{pair} {kind}"), parts.collect()));
        }
    }
    Section::new("Global Cache Block Waits by Instance Pair")
        .note(
            "From -> to, milliseconds a block: the parts of its time, which are the average \
             together. LMS queue: of the block servers of master, sender and receiver.",
        )
        .grid(grid)
        .chart(chart)
        .unless_empty()
}

/// Blocks by sender and class, and how many came at once.
pub(crate) fn transfers(interval: &Interval, work: &Work) -> Option<Section> {
    let mut grid = Grid::new(&[
        words("Pair", 8),
        words("Block Class", 14),
        figures("CR\nReceived", 10),
        figures("%\nImmed", 6),
        figures("%\nBusy", 6),
        figures("%\nCongst", 6),
        figures("Current\nReceived", 10),
        figures("%\nImmed", 6),
        figures("%\nBusy", 6),
        figures("%\nCongst", 6),
    ]);
    for to in interval.works.iter().filter(|one| [0, one.instance].contains(&work.instance)) {
        let Some(table) = to.table("wrh$_inst_cache_transfer") else { continue };
        for row in &table.rows {
            let mut cells =
                vec![format!("{} -> {}", row.keys[0], to.instance), row.keys[1].clone()];
            let mut sum = 0.0;
            for kind in ["cr", "current"] {
                let of = |what: &str| table.added(row, &format!("{kind}_{what}"));
                let (now, busy, congested) = (of("2hop") + of("3hop"), of("busy"), of("congested"));
                let all = now + busy + congested;
                sum += all;
                cells.push(count(all));
                cells.extend([now, busy, congested].map(|part| percent(part, all)));
            }
            if sum > 0.0 {
                grid.row(cells);
            }
        }
    }
    Section::new("Global Cache Transfer Stats")
        .note(
            "Immed: not delayed; Busy: delayed by a log flush, a pin or a queue; Congst: LMS busy.",
        )
        .grid(grid)
        .unless_empty()
}

/// What LMS did for consistent and for current blocks.
pub(crate) fn served(work: &Work) -> Option<Section> {
    let mut pairs = Vec::new();
    const CR: [(&str, &str); 16] = [
        ("CR Block Requests", "cr_requests"),
        ("CURRENT Block Requests", "current_requests"),
        ("Data Block Requests", "data_requests"),
        ("Undo Block Requests", "undo_requests"),
        ("TX Block Requests", "tx_requests"),
        ("Current Results", "current_results"),
        ("Private Results", "private_results"),
        ("Zero Results", "zero_results"),
        ("Disk Read Results", "disk_read_results"),
        ("Fail Results", "fail_results"),
        ("Fairness Down Converts", "fairness_down_converts"),
        ("Flushes", "flushes"),
        ("Flushes Queued", "flushes_queued"),
        ("Flush Queue Full", "flush_queue_full"),
        ("Light Works", "light_works"),
        ("Errors", "errors"),
    ];
    let table = work.table("wrh$_cr_block_server")?;
    for (name, column) in CR {
        if table.has(column) {
            pairs.push((name.to_owned(), count(table.sum(column))));
        }
    }
    Section::new("Global CR Served Stats").pairs(pairs).unless_empty()
}

pub(crate) fn current_served(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_current_block_server")?;
    let mut grid = Grid::new(&[
        words("Statistic", 9),
        figures("Total", 12),
        figures("% <1ms", 8),
        figures("% <10ms", 8),
        figures("% <100ms", 8),
        figures("% <1s", 8),
        figures("% <10s", 8),
    ]);
    for (name, column) in [("Pins", "pin"), ("Flushes", "flush"), ("Writes", "write")] {
        let of = |bound: &str| table.sum(&format!("{column}{bound}"));
        let parts = [of("0") + of("1"), of("10"), of("100"), of("1000"), of("10000")];
        let total: f64 = parts.iter().sum();
        if total > 0.0 {
            let mut cells = vec![name.to_owned(), count(total)];
            cells.extend(parts.map(|part| percent(part, total)));
            grid.row(cells);
        }
    }
    Section::new("Global CURRENT Served Stats").grid(grid).unless_empty()
}
