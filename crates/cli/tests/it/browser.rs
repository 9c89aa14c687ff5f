//! A browser without a window, driven over the DevTools protocol.
//!
//! Chromium speaks it through two pipes: JSON, each message ended by a zero byte. The pipes are
//! named ones, which a shell opens as the descriptors that it wants.

use base64::Engine as _;
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Bound for an answer, and for a condition of a page.
const LIMIT: Duration = Duration::from_secs(90);
/// Between two looks at a page.
const LOOK: Duration = Duration::from_millis(100);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    number: u64,
    session: Option<String>,
    /// Errors of scripts and breaches of the policy that the page has had.
    pub troubles: Vec<String>,
}

impl Browser {
    /// Starts it with its files in `dir`.
    pub fn start(dir: &Path) -> Browser {
        let pipe = |name: &str| {
            let path = dir.join(name);
            nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe is made");
            path
        };
        let (to, from) = (pipe("to-browser"), pipe("from-browser"));
        let mut shell = Command::new("sh");
        // As root it can have no sandbox of its own.
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --no-first-run \
                      --disable-dev-shm-usage --disable-background-networking --hide-scrollbars \
                      --user-data-dir=\"$0\" --remote-debugging-pipe about:blank 3<\"$1\" 4>\"$2\"";
        shell.arg("-c").arg(script).arg(dir.join("profile")).arg(&to).arg(&from);
        let log = File::create(dir.join("browser.log")).unwrap();
        let child = shell.stdout(Stdio::null()).stderr(log).spawn().expect("sh runs");
        let to = File::options().write(true).open(to).expect("the browser reads");
        let from = File::open(from).expect("the browser writes");
        let (send, received) = channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                let parsed = serde_json::from_slice(&message);
                if parsed.ok().is_none_or(|value: Value| send.send(value).is_err()) {
                    return;
                }
                message.clear();
            }
        });
        let (number, session, troubles) = (0, None, Vec::new());
        let mut browser = Browser { child, to, from: received, number, session, troubles };
        let targets = browser.call("Target.getTargets", json!({}));
        let pages = targets["targetInfos"].as_array().unwrap();
        let page = pages.iter().find(|t| t["type"] == "page").expect("a page");
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method; its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = match self.from.recv_timeout(left) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method}"),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the browser has ended: is Debian's package chromium installed?")
                }
            };
            if answer["id"] == json!(self.number) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let entry = &event["params"]["entry"];
        // A request that is refused is in the log too, as it should be.
        let wrong = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => entry["level"] == "error" && entry["source"] != "network",
            _ => false,
        };
        if wrong {
            self.troubles.push(event["params"].to_string());
        }
    }

    /// The value of an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page. What it needs may not be there yet.
    pub fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        let holds = format!(
            "(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        );
        while self.eval(&holds) != json!(true) {
            if Instant::now() >= deadline {
                let shown = self.eval("document.body.innerText");
                panic!("still not so: {expression}; the page shows {shown}");
            }
            std::thread::sleep(LOOK);
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Makes the page so wide, as a phone's or a desktop's, in light or dark colours.
    pub fn size(&mut self, width: u32, height: u32, mobile: bool, scheme: &str) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Draws with the mouse from one place to another, in parts of an element's width.
    pub fn draw(&mut self, selector: &str, from: f64, to: f64) {
        let at = |part: f64| {
            format!(
                "(() => {{ const r = document.querySelector({}).getBoundingClientRect(); \
                 return [r.left + r.width * {part}, r.top + r.height / 2]; }})()",
                json!(selector)
            )
        };
        let places = [at(from), at((from + to) / 2.0), at(to), at(to)].map(|at| self.eval(&at));
        let kinds = ["mousePressed", "mouseMoved", "mouseMoved", "mouseReleased"];
        for (kind, place) in kinds.into_iter().zip(places) {
            let params = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "buttons": 1,
                "clickCount": 1, "pointerType": "mouse",
            });
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Taps at a place of an element, in parts of its width.
    pub fn tap(&mut self, selector: &str, part: f64) {
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": true }));
        let at = self.eval(&format!(
            "(() => {{ const r = document.querySelector({}).getBoundingClientRect(); \
             return [r.left + r.width * {part}, r.top + r.height / 2]; }})()",
            json!(selector)
        ));
        for (kind, points) in
            [("touchStart", json!([{ "x": at[0], "y": at[1] }])), ("touchEnd", json!([]))]
        {
            self.call("Input.dispatchTouchEvent", json!({ "type": kind, "touchPoints": points }));
        }
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": false }));
    }

    /// What a frame with this in its address shows; the page itself cannot look into a sandbox.
    pub fn frame_text(&mut self, address: &str) -> String {
        let own = self.session.clone();
        let targets = self.call("Target.getTargets", json!({}));
        let all = targets["targetInfos"].as_array().unwrap();
        let is_it = |t: &&Value| t["url"].as_str().is_some_and(|url| url.contains(address));
        let frame = all.iter().find(is_it).unwrap_or_else(|| panic!("no frame: {targets}"));
        let attach = json!({ "targetId": frame["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", attach);
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        let text = self.eval("document.body.innerText");
        self.session = own;
        self.call("Target.detachFromTarget", json!({ "sessionId": attached["sessionId"] }));
        text.as_str().unwrap_or("").to_owned()
    }

    /// A picture of the page, in PNG.
    pub fn picture(&mut self, path: &Path) -> u64 {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let encoded = shot["data"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        std::fs::write(path, &bytes).unwrap();
        bytes.len() as u64
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its children end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
