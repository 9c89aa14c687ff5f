//! The report as one page that needs nothing else: tables, and bars drawn as SVG.

use std::fmt::Write as _;

use super::check::shown;
use super::report::{Chart, Report, Table};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}\
.wide{overflow-x:auto}table{border-collapse:collapse}\
th,td{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\
th{background:#f4f4f4}.ok{color:#176b2c}\
.FAILED{color:#b00020;font-weight:bold}.missed{color:#8a5a00}\
.verdict{font-size:1.2em;font-weight:bold}pre{background:#f7f7f7;padding:.8em;overflow-x:auto}\
svg{max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#222}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}th{background:#262626}\
th,td{border-color:#3a3a3a}pre{background:#222}svg text{fill:#ddd}.ok{color:#6fce86}\
.FAILED{color:#ff7a8a}.missed{color:#e0b050}}";
const COLOURS: [&str; 6] = ["#3b6fb6", "#d9822b", "#4c9f70", "#a05195", "#c94f4f", "#7f7f7f"];

/// Sizes of a chart in px.
const WIDTH: f64 = 760.0;
const LABELS: f64 = 190.0;
const BAR: f64 = 18.0;
const GAP: f64 = 12.0;
/// Room for the figure behind a bar.
const FIGURE: f64 = 90.0;

/// The whole page.
#[must_use]
pub fn page(report: &Report) -> String {
    let title = escaped(&format!("{}: {}", report.name, report.title));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escaped(&report.about)
    );
    let class = if report.failures().next().is_some() { "FAILED" } else { "ok" };
    let _ = writeln!(out, "<p class=\"verdict {class}\">{}</p>", report.verdict());
    if let Some(why) = report.untested() {
        let _ = writeln!(out, "<p>not tested: {}</p>", escaped(&why));
    }
    for finding in &report.findings {
        let _ = writeln!(out, "<p>{}</p>", escaped(finding));
    }
    for chart in &report.charts {
        let _ = writeln!(out, "<h2>{}</h2>\n{}", escaped(&chart.title), bars(chart));
    }
    for table in &report.tables {
        let _ = writeln!(out, "<h2>{}</h2>\n{}", escaped(&table.title), rows(table, false));
    }
    let mut checks = Table::new("Checks", &["", "kind", "what", "wanted", "found"]);
    for c in &report.checks {
        let cells = [c.verdict(), c.kind.name(), &c.what, &c.wanted, &c.found];
        checks.row(cells.map(str::to_owned).to_vec());
    }
    let _ = writeln!(out, "<h2>Checks</h2>\n{}", rows(&checks, true));
    for (title, text) in &report.listings {
        let _ =
            writeln!(out, "<h2>{}</h2>\n<pre>{}</pre>", escaped(title), escaped(text.trim_end()));
    }
    let mut circumstances = Table::new("", &["", ""]);
    for (name, value) in &report.circumstances {
        circumstances.row(vec![name.clone(), value.clone()]);
    }
    let _ = writeln!(out, "<h2>Circumstances</h2>\n{}", rows(&circumstances, false));
    out.push_str("</body></html>\n");
    out
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn rows(table: &Table, verdicts: bool) -> String {
    let mut out = String::from("<div class=\"wide\"><table><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", escaped(column));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let cell = escaped(cell).replace('\n', "<br>");
            if verdicts && at == 0 {
                let _ = write!(out, "<td class=\"{cell}\">{cell}</td>");
            } else {
                let _ = write!(out, "<td>{cell}</td>");
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>");
    out
}

/// Bars from left to right, one for each series below each other.
fn bars(chart: &Chart) -> String {
    let all = chart.groups.iter().flat_map(|(_, values)| values);
    let most = all.copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let room = WIDTH - LABELS - FIGURE;
    let mut y = 4.0;
    let mut body = String::new();
    for (label, values) in &chart.groups {
        let _ = write!(
            body,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            LABELS - 8.0,
            y + BAR - 4.0,
            escaped(label)
        );
        for (value, colour) in values.iter().zip(COLOURS.iter().cycle()) {
            let long = if most > 0.0 && value.is_finite() { value / most * room } else { 0.0 };
            let _ = write!(
                body,
                "<rect x=\"{LABELS:.0}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"{:.0}\" \
                 fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                long.max(1.0),
                BAR - 3.0,
                LABELS + long.max(1.0) + 5.0,
                y + BAR - 5.0,
                escaped(&shown(*value, &chart.unit))
            );
            y += BAR;
        }
        y += GAP;
    }
    if chart.series.len() > 1 {
        for (name, colour) in chart.series.iter().zip(COLOURS.iter().cycle()) {
            let _ = write!(
                body,
                "<rect x=\"{LABELS:.0}\" y=\"{y:.0}\" width=\"12\" height=\"12\" \
                 fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                LABELS + 17.0,
                y + 11.0,
                escaped(name)
            );
            y += BAR;
        }
    }
    let title = escaped(&chart.title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {y:.0}\" width=\"{WIDTH:.0}\" role=\"img\" \
         aria-label=\"{title}\">{body}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_everything_and_fetches_nothing() {
        let mut report = Report { title: "<b>&".into(), ..Report::default() };
        report.charts.push(Chart {
            title: "elapsed".into(),
            unit: "s".into(),
            series: vec!["ours".into(), "paper".into()],
            groups: vec![("a".into(), vec![1.0, 2.0]), ("none".into(), vec![f64::NAN, 0.0])],
        });
        let page = page(&report);
        assert!(page.contains("&lt;b&gt;&amp;") && !page.contains("<b>"), "{page}");
        assert_eq!(page.matches("<svg").count(), 1);
        // The longer bar fills the room, the other half of it; each has its figure behind it.
        assert!(page.contains("width=\"480.0\"") && page.contains("width=\"240.0\""), "{page}");
        assert!(page.contains("2.00 s") && page.contains(">paper<"), "{page}");
        for outside in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
