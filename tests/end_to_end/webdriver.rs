//! A Chromium that is driven as a person drives it: keys that the browser itself acts upon, windows of any size.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::background::Background;
use super::pool::{Lent, Pool};
use super::prof::folder;
use super::programs;

/// A browser takes seconds to start; one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key Tab, as WebDriver writes it (W3C WebDriver, 17.4.2).
pub(crate) const TAB: char = '\u{e004}';
pub(crate) const ENTER: char = '\u{e007}';
pub(crate) const SHIFT: char = '\u{e008}';
pub(crate) const ESCAPE: char = '\u{e00c}';
pub(crate) const RIGHT: char = '\u{e014}';

/// A session of chromedriver.
pub(crate) struct Driver {
    port: u16,
    session: String,
    _program: Background,
}

impl Driver {
    /// Lends a browser without a window; `None` where chromedriver or Chromium is missing.
    pub(crate) fn lend() -> Option<Lent<Self>> {
        static DRIVERS: Pool<Driver> = Pool::new(Driver::leave);
        let is_there = programs::has("chromedriver") && programs::has("chromium");
        is_there.then(|| DRIVERS.lend(Self::start))
    }

    fn start() -> Self {
        let folder = folder();
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let mut program = Background::start(folder, &["chromedriver", "--port=0"], Stdio::piped());
        let mut lines = BufReader::new(program.stdout().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                line.unwrap().rsplit_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says its port");
        // A pipe that nobody reads would fill.
        std::thread::spawn(move || lines.count());
        let mut driver = Self { port, session: String::new(), _program: program };
        let options = json!({ "binary": path_of("chromium"), "args": ["--headless", "--no-sandbox", "--disable-gpu",
            "--no-first-run", "--disable-sync", "--disable-background-networking", "--disable-component-update", profile] });
        let wish = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let made = driver.request("POST", "/session", &wish);
        driver.session = made["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        driver
    }

    /// Opens a page in a window of this size, with nothing in the store that pages before have left there.
    pub(crate) fn open(&self, url: &str, (width, height): (u32, u32)) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.post("/goog/cdp/execute", &command);
        let store = json!({ "origin": "file://", "storageTypes": "local_storage" });
        self.post("/goog/cdp/execute", &json!({ "cmd": "Storage.clearDataForOrigin", "params": store }));
        // A new fragment alone would be no new page.
        self.leave();
        self.post("/url", &json!({ "url": url }));
    }

    /// Leaves the page, which may be busy.
    fn leave(&self) {
        self.post("/url", &json!({ "url": "about:blank" }));
    }

    /// Presses a key while others are held.
    pub(crate) fn press(&self, held: &[char], key: char) {
        let action = |kind: &str, key: char| json!({ "type": kind, "value": key });
        let downs = held.iter().chain([&key]).map(|&key| action("keyDown", key));
        let ups = [&key].into_iter().chain(held).map(|&key| action("keyUp", key));
        let keys = json!({ "type": "key", "id": "keys", "actions": downs.chain(ups).collect::<Vec<_>>() });
        self.post("/actions", &json!({ "actions": [keys] }));
    }

    /// Runs the body of an asynchronous function in the page, and returns what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1]; (async () => {{ {script} }})().then(done, error => done(`${{error}}`));"
        );
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.answer(method, path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(value["value"]["error"].is_null(), "{path}: {value}");
        value["value"].clone()
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", self.port);
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        (&stream).write_all(format!("{head}{kind}{body}").as_bytes())?;
        // The connection stays open, so the length says where the answer ends.
        let mut stream = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(said) = line.to_lowercase().strip_prefix("content-length:") {
                length = said.trim().parse().map_err(io::Error::other)?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut text = vec![0; length];
        stream.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

fn path_of(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file()).unwrap()
}
