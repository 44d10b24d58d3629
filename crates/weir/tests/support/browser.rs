//! A real browser without a window, spoken to by the DevTools protocol over two pipes: no port is opened, and
//! what the test runs in a page comes by the protocol, never by the page.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// Names under which a Chromium goes.
const NAMES: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser with one empty page.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    next: u64,
    /// What the page complained of, or asked the network for, since it was opened.
    pub(crate) complaints: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts it; or why not.
    pub(crate) fn start() -> Result<Browser, String> {
        let found = NAMES.iter().find(|name| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        });
        let program = found.ok_or("no chromium here (apt-get install chromium-headless-shell)")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let pipe = |name: &str| -> Result<PathBuf, String> {
            let path = folder.path().join(name);
            let made = Command::new("mkfifo").arg(&path).status().map_err(|error| error.to_string())?;
            if made.success() { Ok(path) } else { Err("mkfifo failed".to_owned()) }
        };
        let (to, from) = (pipe("to")?, pipe("from")?);
        // The protocol's pipes are descriptors 3 and 4.
        let child = Command::new("sh")
            .arg("-c")
            .arg("exec \"$@\" 3<\"$TO\" 4>\"$FROM\"")
            .args(["sh", program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .env("TO", &to)
            .env("FROM", &from)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let open = |file: Result<File, std::io::Error>| file.map_err(|error| error.to_string());
        let to = open(File::options().write(true).open(&to))?;
        let from = BufReader::new(open(File::open(&from))?);
        let mut browser =
            Browser { child, to, from, session: None, next: 0, complaints: Vec::new(), _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = target["targetId"].as_str().expect("a page").to_owned();
        let session = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Ok(browser)
    }

    /// Opens a file at this width, in this mode.
    pub(crate) fn open(&mut self, page: &Path, width: u32, mode: &str) {
        self.complaints.clear();
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        );
        self.media("screen", mode);
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while self.receive()["method"] != "Page.loadEventFired" {}
    }

    /// On a screen or on paper, light or dark.
    pub(crate) fn media(&mut self, media: &str, mode: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": mode }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": features }));
    }

    /// What an expression comes to in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let result =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(result.get("exceptionDetails").is_none(), "the check itself failed: {result:#}");
        result["result"]["value"].clone()
    }

    /// A picture of the whole page.
    pub(crate) fn screenshot(&mut self, to: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let shot =
            self.call("Page.captureScreenshot", json!({ "clip": clip, "captureBeyondViewport": true }));
        let bytes = unbase64(shot["data"].as_str().expect("a picture"));
        std::fs::write(to, bytes).expect("a place for the picture");
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).expect("JSON");
        bytes.push(0);
        self.to.write_all(&bytes).expect("a browser that listens");
        loop {
            let answer = self.receive();
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The next message; complaints among them are kept.
    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("a browser that answers");
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON");
        let said = |what: &Value| what.to_string().chars().take(400).collect::<String>();
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                self.complaints.push(said(&message["params"]));
            }
            "Network.requestWillBeSent" => {
                let url = message["params"]["request"]["url"].as_str().unwrap_or_default().to_owned();
                if !url.starts_with("file://") || message["params"]["type"] != "Document" {
                    self.complaints.push(format!("asked for {url}"));
                }
            }
            _ => {}
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard base64; what is no letter of it is passed over.
fn unbase64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0_u32, 0);
    for sextet in text.bytes().filter_map(|letter| LETTERS.iter().position(|known| *known == letter)) {
        word = (word << 6 | sextet as u32) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits & 0xff) as u8);
        }
    }
    bytes
}
