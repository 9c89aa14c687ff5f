//! The files of the page, as they are in the binary.

/// One file.
pub struct Asset {
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $content_type:literal) => {
        Asset {
            path: $path,
            content_type: $content_type,
            body: include_bytes!(concat!("assets/", $file)),
        }
    };
}

/// All there are.
pub const ASSETS: &[Asset] = &[
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/style.css", "style.css", "text/css; charset=utf-8"),
    asset!("/icon.svg", "icon.svg", "image/svg+xml"),
    asset!("/app.js", "app.js", "text/javascript; charset=utf-8"),
    asset!("/activity.js", "activity.js", "text/javascript; charset=utf-8"),
    asset!("/chart.js", "chart.js", "text/javascript; charset=utf-8"),
    asset!("/dom.js", "dom.js", "text/javascript; charset=utf-8"),
    asset!("/instances.js", "instances.js", "text/javascript; charset=utf-8"),
    asset!("/names.js", "names.js", "text/javascript; charset=utf-8"),
    asset!("/pages.js", "pages.js", "text/javascript; charset=utf-8"),
    asset!("/parameters.js", "parameters.js", "text/javascript; charset=utf-8"),
    asset!("/reports.js", "reports.js", "text/javascript; charset=utf-8"),
    asset!("/sessions.js", "sessions.js", "text/javascript; charset=utf-8"),
    asset!("/sql.js", "sql.js", "text/javascript; charset=utf-8"),
    asset!("/widgets.js", "widgets.js", "text/javascript; charset=utf-8"),
];

/// The file of a path.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
