//! What a report consists of, before it is text or HTML.

/// A part of a report with a title of its own.
#[derive(Clone, Default, Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// A sentence about what comes.
    Note(String),
    /// Columns under their names.
    Grid(Grid),
    /// Names and values, two beside each other in text.
    Pairs(Vec<(String, String)>),
    /// Only in HTML.
    Chart(Chart),
}

/// Bars, each of one part or of several.
#[derive(Clone, Default, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    /// Names of the parts; one without a name for plain bars.
    pub(crate) parts: Vec<&'static str>,
    pub(crate) bars: Vec<(String, Vec<f64>)>,
}

/// A column: its name, in lines, and its width in characters; numbers stand to the right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Col {
    pub(crate) name: &'static str,
    pub(crate) width: usize,
    pub(crate) right: bool,
}

/// A column of names.
pub(crate) const fn words(name: &'static str, width: usize) -> Col {
    Col { name, width, right: false }
}

/// A column of numbers.
pub(crate) const fn figures(name: &'static str, width: usize) -> Col {
    Col { name, width, right: true }
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Grid {
    pub(crate) columns: Vec<Col>,
    pub(crate) rows: Vec<Line>,
}

/// A row, and a text that stands below it over the full width.
#[derive(Clone, Default, Debug)]
pub(crate) struct Line {
    pub(crate) cells: Vec<String>,
    pub(crate) below: Option<String>,
}

impl Grid {
    pub(crate) fn new(columns: &[Col]) -> Grid {
        Grid { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Line { cells, below: None });
    }
}

impl Section {
    pub(crate) fn new(title: &str) -> Section {
        Section { title: title.to_owned(), blocks: Vec::new() }
    }

    pub(crate) fn note(mut self, text: impl Into<String>) -> Section {
        self.blocks.push(Block::Note(text.into()));
        self
    }

    pub(crate) fn pairs(mut self, pairs: Vec<(String, String)>) -> Section {
        self.blocks.push(Block::Pairs(pairs));
        self
    }

    pub(crate) fn chart(mut self, chart: Chart) -> Section {
        if chart.bars.iter().any(|(_, parts)| parts.iter().sum::<f64>() > 0.0) {
            self.blocks.push(Block::Chart(chart));
        }
        self
    }

    pub(crate) fn grid(mut self, grid: Grid) -> Section {
        self.blocks.push(Block::Grid(grid));
        self
    }

    /// The section, if its grid has rows.
    pub(crate) fn unless_empty(self) -> Option<Section> {
        let full = self.blocks.iter().any(|block| match block {
            Block::Grid(grid) => !grid.rows.is_empty(),
            Block::Pairs(pairs) => !pairs.is_empty(),
            Block::Note(_) | Block::Chart(_) => false,
        });
        full.then_some(self)
    }
}

/// A number with its thousands parted.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    // A sum of nothing is -0.
    let text = format!("{:.decimals$}", value + 0.0);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(rest);
    out
}

pub(crate) fn count(value: f64) -> String {
    number(value, 0)
}

/// A count in few characters: K, M or G.
pub(crate) fn short(value: f64) -> String {
    let (scale, unit) = match value {
        v if v >= 1e10 => (1e9, "G"),
        v if v >= 1e7 => (1e6, "M"),
        v if v >= 1e5 => (1e3, "K"),
        _ => return format!("{value:.0}"),
    };
    format!("{:.0}{unit}", value / scale)
}

/// Seconds out of µs.
pub(crate) fn seconds(us: f64) -> String {
    number(us / 1e6, 2)
}

/// An average in ms out of µs; empty where nothing was counted.
pub(crate) fn average_ms(us: f64, count: f64, decimals: usize) -> String {
    if count > 0.0 { number(us / count / 1e3, decimals) } else { String::new() }
}

/// A part of a whole in per cent; empty where there is no whole.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { number(100.0 * part / whole, 1) } else { String::new() }
}

/// A part for each of something; empty where there is none.
pub(crate) fn each(part: f64, of: f64, decimals: usize) -> String {
    if of > 0.0 { number(part / of, decimals) } else { String::new() }
}
