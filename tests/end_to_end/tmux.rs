//! A terminal of a test's own, with keys sent and the screen read.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::programs::has;

/// Nothing on the screen takes as long, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A tmux server with one window, gone with this value.
pub(crate) struct Terminal {
    socket: String,
}

impl Terminal {
    /// A shell in a terminal of this size, in `folder`; `None` where there is no tmux.
    pub(crate) fn open(name: &str, size: (u16, u16), folder: &Path) -> Option<Self> {
        if !has("tmux") {
            return None;
        }
        let terminal = Self { socket: format!("prof-test-{name}-{}", std::process::id()) };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, "-c"], |tmux| {
            tmux.arg(folder).arg("env PS1='ready> ' LC_ALL=C.UTF-8 sh");
        });
        terminal.wait("a prompt", |screen| screen.contains("ready>"));
        Some(terminal)
    }

    /// Types a line and the enter key.
    pub(crate) fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text], |_| {});
        self.keys(&["Enter"]);
    }

    /// Presses keys, by tmux's names.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&["send-keys"], |tmux| {
            tmux.args(keys);
        });
    }

    /// Types text as it is.
    pub(crate) fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text], |_| {});
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        self.tmux(&["resize-window", "-x", &size.0.to_string(), "-y", &size.1.to_string()], |_| {});
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"], |_| {})
    }

    /// What is on the screen, with the sequences that colour it.
    pub(crate) fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"], |_| {})
    }

    /// What tmux knows of the terminal: a format of `tmux display-message`.
    pub(crate) fn state(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format], |_| {}).trim().to_owned()
    }

    /// Waits until the screen is as wanted; returns it.
    pub(crate) fn wait(&self, wanted: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "no {wanted} on the screen:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses keys and waits for what they should bring.
    pub(crate) fn press(&self, keys: &[&str], wanted: &str) -> String {
        self.keys(keys);
        self.wait(&format!("{wanted:?} after {keys:?}"), |screen| screen.contains(wanted))
    }

    fn tmux(&self, arguments: &[&str], more: impl FnOnce(&mut Command)) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.socket]).args(arguments).env_remove("TMUX");
        more(&mut tmux);
        let out = tmux.stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).stderr(Stdio::null()).status();
    }
}
