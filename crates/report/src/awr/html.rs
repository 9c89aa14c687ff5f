//! A report as one HTML page that needs nothing from elsewhere: its styles and charts are in it.

use super::page::{Block, Chart, Grid, Section};
use std::fmt::Write;

const STYLE: &str = "\
:root{--text:#1c2330;--dim:#5c6675;--line:#d8dde4;--back:#fff;--stripe:#f6f8fa;--own:#24577f}
@media (prefers-color-scheme:dark){:root{--text:#e3e7ec;--dim:#98a2b0;--line:#38414d;\
--back:#14181e;--stripe:#1b2028;--own:#7db4e0}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--text);background:var(--back);\
margin:0 auto;max-width:72rem;padding:1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:2px solid var(--own)}
p{margin:.3rem 0;color:var(--dim)}nav{columns:3 16rem}nav a{display:block;color:var(--own);\
text-decoration:none}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;\
margin:.5rem 0}
th,td{padding:.15rem .6rem;text-align:left;border-bottom:1px solid var(--line)}
th{white-space:pre;vertical-align:bottom}td.r,th.r{text-align:right;white-space:nowrap}
tbody tr:nth-child(even){background:var(--stripe)}
td.below{font:12px/1.4 ui-monospace,monospace;color:var(--dim);white-space:pre-wrap;\
overflow-wrap:anywhere}
svg{display:block;max-width:100%;height:auto;margin:.5rem 0}svg text{fill:var(--text);\
font:12px system-ui,sans-serif}
";

/// Colours of the parts of a bar, told apart by those who see few colours too.
const COLOURS: [&str; 8] =
    ["#3b78ab", "#e0923f", "#4f9d69", "#b5526a", "#7c6bb3", "#8a7559", "#d1b13c", "#7a828c"];

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No character of a page.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

pub(crate) fn page(title: &str, sections: &[Section]) -> String {
    let title = escaped(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<nav>\n"
    );
    for (at, section) in sections.iter().enumerate() {
        let _ = writeln!(out, "<a href=\"#s{at}\">{}</a>", escaped(&section.title));
    }
    out.push_str("</nav>\n");
    for (at, section) in sections.iter().enumerate() {
        let _ = writeln!(out, "<h2 id=\"s{at}\">{}</h2>", escaped(&section.title));
        for block in &section.blocks {
            match block {
                Block::Note(text) => {
                    let _ = writeln!(out, "<p>{}</p>", escaped(text));
                }
                Block::Grid(grid) => table(&mut out, grid),
                Block::Pairs(all) => pairs(&mut out, all),
                Block::Chart(chart) => bars(&mut out, chart),
            }
        }
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn table(out: &mut String, grid: &Grid) {
    out.push_str("<div class=\"wide\"><table><thead><tr>");
    let class = |right: bool| if right { " class=\"r\"" } else { "" };
    for col in &grid.columns {
        let _ = write!(out, "<th{}>{}</th>", class(col.right), escaped(col.name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for line in &grid.rows {
        out.push_str("<tr>");
        for (col, cell) in grid.columns.iter().zip(&line.cells) {
            let _ = write!(out, "<td{}>{}</td>", class(col.right), escaped(cell));
        }
        out.push_str("</tr>\n");
        if let Some(below) = &line.below {
            let span = grid.columns.len();
            let below = escaped(below);
            let _ = writeln!(out, "<tr><td class=\"below\" colspan=\"{span}\">{below}</td></tr>");
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn pairs(out: &mut String, all: &[(String, String)]) {
    out.push_str("<div class=\"wide\"><table><tbody>\n");
    for (name, value) in all {
        let (name, value) = (escaped(name), escaped(value));
        let _ = writeln!(out, "<tr><td>{name}</td><td class=\"r\">{value}</td></tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Measures of a chart, in pixels.
const NAME_PX: f64 = 230.0;
const BARS_PX: f64 = 520.0;
const ROW_PX: f64 = 22.0;
const TOP_PX: f64 = 44.0;

fn bars(out: &mut String, chart: &Chart) {
    let sum = |parts: &[f64]| parts.iter().sum::<f64>();
    let largest = chart.bars.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max);
    if largest <= 0.0 {
        return;
    }
    #[allow(clippy::cast_precision_loss)] // a few bars
    let height = TOP_PX + ROW_PX * chart.bars.len() as f64 + 6.0;
    let width = NAME_PX + BARS_PX + 80.0;
    let title = escaped(&chart.title);
    let _ = writeln!(
        out,
        "<svg role=\"img\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         xmlns=\"http://www.w3.org/2000/svg\"><title>{title}</title>\
         <text x=\"0\" y=\"14\" font-weight=\"bold\">{title} ({})</text>",
        escaped(chart.unit)
    );
    let mut x = NAME_PX;
    for (part, colour) in chart.parts.iter().zip(COLOURS).filter(|(name, _)| !name.is_empty()) {
        let name = escaped(part);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"22\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"31\">{name}</text>",
            x + 14.0
        );
        #[allow(clippy::cast_precision_loss)] // a short word
        let step = 26.0 + 7.0 * part.chars().count() as f64;
        x += step;
    }
    let mut y = TOP_PX;
    for (name, parts) in &chart.bars {
        let name: String = name.chars().take(34).collect();
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            NAME_PX - 8.0,
            y + 14.0,
            escaped(&name)
        );
        let mut at = NAME_PX;
        for (part, colour) in parts.iter().zip(COLOURS) {
            let long = BARS_PX * part / largest;
            let _ = write!(
                out,
                "<rect x=\"{at:.1}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"16\" \
                 fill=\"{colour}\"/>",
                y + 2.0
            );
            at += long;
        }
        let value = sum(parts);
        let decimals = if value >= 100.0 { 0 } else { 2 };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\">{value:.decimals$}</text>",
            at + 6.0,
            y + 14.0
        );
        y += ROW_PX;
    }
    out.push_str("</svg>\n");
}
