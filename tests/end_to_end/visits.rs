//! Browsers that visit pages of tests, one after the other: to start one takes seconds.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::background::Background;
use super::pool::{Lent, Pool};
use super::prof::folder;
use super::programs;

/// A browser takes seconds to start; a visit that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Firefox without what it does on its own in its first seconds: services of its maker, and processes for tabs to come.
const QUIET_FIREFOX: &str = r#"
user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.region.network.url", "");
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.topsites.contile.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("dom.ipc.processPrelaunch.enabled", false);
user_pref("extensions.systemAddon.update.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
"#;

/// Browsers that are installed.
pub(crate) fn browsers() -> Vec<&'static str> {
    ["chromium", "firefox-esr"].into_iter().filter(|browser| programs::has(browser)).collect()
}

/// A browser without a window. Between two visits it is on a page that asks the listener where to go next; nobody answers until
/// there is a visit.
pub(crate) struct Browser {
    listener: TcpListener,
    asking: String,
    _program: Background,
}

impl Browser {
    /// Lends a browser of this kind.
    pub(crate) fn lend(browser: &str) -> Lent<Self> {
        // The page that it has visited sends it to rest.
        static CHROMIUM: Pool<Browser> = Pool::new(|_| ());
        static FIREFOX: Pool<Browser> = Pool::new(|_| ());
        let pool = if browser == "chromium" { &CHROMIUM } else { &FIREFOX };
        pool.lend(|| Self::start(browser))
    }

    fn start(browser: &str) -> Self {
        let folder = folder();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let page = folder.path().join("asking.html");
        let ask = format!("fetch('http://127.0.0.1:{port}/next', {{ cache: 'no-store' }})");
        let script = format!(
            "const ask = () => {ask}.then(said => said.text()).then(next => location.replace(next), () => setTimeout(ask, 100));"
        );
        std::fs::write(&page, format!("<!doctype html><script>{script} ask();</script>")).unwrap();
        let (asking, profile) =
            (format!("file://{}", page.display()), folder.path().join("profile").display().to_string());
        std::fs::create_dir(&profile).unwrap();
        if browser != "chromium" {
            std::fs::write(folder.path().join("profile/user.js"), QUIET_FIREFOX).unwrap();
        }
        let mut words: Vec<&str> = vec![browser, "--headless"];
        let of_chromium = format!("--user-data-dir={profile}");
        if browser == "chromium" {
            words.extend(["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]);
            words.extend(["--disable-background-networking", "--disable-component-update"]);
            words.extend(["--disable-features=LocalNetworkAccessChecks", "--window-size=1500,1000"]);
            // Without this it would leave as soon as the page is there.
            words.extend(["--remote-debugging-port=0", &of_chromium]);
        } else {
            words.extend(["--no-remote", "--window-size", "1500,1000", "--profile", &profile]);
        }
        words.push(&asking);
        let program = Background::start(folder, &words, Stdio::null());
        Self { listener, asking, _program: program }
    }

    /// Where a page of this browser may connect to.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.listener.local_addr().unwrap().port())
    }

    /// A script with which a page answers with the value of an expression, and leaves.
    pub(crate) fn answer(&self, expression: &str) -> String {
        format!(
            "fetch('{}', {{ method: 'POST', mode: 'no-cors', body: JSON.stringify({expression}) }})\n\
             .then(() => location.replace('{}'))",
            self.address(),
            self.asking
        )
    }

    /// Opens a page and returns what it answers.
    pub(crate) fn visit(&mut self, url: &str) -> Value {
        let start = Instant::now();
        let mut connections: Vec<Connection> = Vec::new();
        loop {
            while let Ok((stream, _)) = self.listener.accept() {
                stream.set_nonblocking(true).unwrap();
                connections.push(Connection { stream, received: Vec::new() });
            }
            for mut connection in std::mem::take(&mut connections) {
                let Some((head, body)) = connection.request() else {
                    connections.push(connection);
                    continue;
                };
                if head.starts_with("POST / ") {
                    let answer = serde_json::from_slice(&body).unwrap();
                    connection.reply("");
                    return answer;
                }
                // A browser that gave up asks again.
                connection.reply(url);
            }
            assert!(start.elapsed() < PATIENCE, "the browser says nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A connection, and what has come so far.
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Head and body of its request, when all of it has come.
    fn request(&mut self) -> Option<(String, Vec<u8>)> {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = self.stream.read(&mut bytes) {
            self.received.extend_from_slice(&bytes[..read]);
        }
        let end = self.received.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&self.received[..end]).into_owned();
        let length = |line: &str| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok();
        let length: usize = head.lines().find_map(length).unwrap_or(0);
        let body = self.received.get(end + 4..end + 4 + length)?.to_vec();
        Some((head, body))
    }

    /// Replies with a text that every page may read.
    fn reply(mut self, text: &str) {
        let head = "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\n";
        let length = text.len();
        let _ = write!(self.stream, "{head}Content-Length: {length}\r\n\r\n{text}");
    }
}
