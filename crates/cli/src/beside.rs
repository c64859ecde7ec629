//! Where a picture or page goes that nobody named: at a terminal, beside the recording.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use analysis::Notices;
use anyhow::{Context, bail};
use clap::Args;
use host::sys::system::effective_user;
use model::Name;

use crate::TELLING_BYTES;
use crate::arguments::exit_with_usage_error;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Arguments of commands that write a picture or a page.
#[derive(Args)]
pub struct OutputArguments {
    /// Output file, - for standard output [default: at a terminal a file beside the recording, else standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open it in the browser, wherever this runs
    #[arg(long)]
    open: bool,
    /// Open no browser [default: one is opened on a desktop, where the file is written beside the recording]
    #[arg(long, conflicts_with = "open")]
    no_open: bool,
}

/// A file to name or show when it is written.
pub struct Shown {
    path: PathBuf,
    /// True if the user does not know its name.
    is_news: bool,
    browser: Browser,
}

/// The choice whether a browser opens to show the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Browser {
    Closed,
    /// On this desktop, whether it has a browser or not.
    Offered,
    /// The user asked for it, and hears if there is none.
    Asked,
}

/// The kind of a result: text, or a file for a browser.
pub enum Kind {
    /// Text, which a terminal shows.
    Text,
    /// A file with this extension, and this mark in its first bytes if it is ours.
    Marked(&'static str, &'static str),
}

impl OutputArguments {
    /// Returns true if a file is named.
    pub fn is_named(&self) -> bool {
        self.output.is_some()
    }

    /// Opens the output, and returns what is to be shown when it is written. `recording` is the path of the recording, `Some(None)` for the
    /// usual one, `None` if there is none. Exits with a usage error if a browser is to show a stream.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(
        &self,
        kind: Kind,
        recording: Option<Option<&Path>>,
        console: &Console,
    ) -> anyhow::Result<(Output, Option<Shown>)> {
        if let Some(path) = &self.output {
            let output = Output::open(Some(path), console)?;
            let shown = || Shown { path: path.clone(), is_news: false, browser: Browser::Asked };
            return Ok((output, self.open.then(shown)));
        }
        let (extension, mark) = match kind {
            Kind::Marked(extension, mark) if std::io::stdout().is_terminal() => (extension, mark),
            _ if self.open => exit_with_usage_error("--open needs a file; try: -o FILE --open"),
            _ => return Ok((Output::stdout()?, None)),
        };
        let usual = || input::default_path().filter(|_| std::io::stdin().is_terminal());
        let recording = recording.and_then(|path| path.map(Path::to_owned).or_else(usual));
        let recording = recording.filter(|path| path != Path::new("-"));
        let wanted = recording.as_deref().map_or_else(|| PathBuf::from("prof"), without_kind);
        let (path, output) = match beside(&wanted, extension, mark, console) {
            Ok(found) => found,
            // A folder that may only be read.
            Err(error) => match wanted.file_name().map(Path::new).filter(|name| *name != wanted) {
                Some(name) => beside(name, extension, mark, console)?,
                None => return Err(error),
            },
        };
        let browser = match self.open {
            true => Browser::Asked,
            false if !self.no_open && has_desktop() => Browser::Offered,
            false => Browser::Closed,
        };
        Ok((output, Some(Shown { path, is_news: true, browser })))
    }
}

/// Returns the path of a recording without what says that it is one.
fn without_kind(recording: &Path) -> PathBuf {
    match recording.extension() {
        Some(kind) if kind == "data" => recording.with_extension(""),
        _ => recording.to_owned(),
    }
}

/// Opens the first of `NAME.KIND`, `NAME-2.KIND` and so on that is not there, or is a file of ours.
fn beside(name: &Path, kind: &str, mark: &str, console: &Console) -> anyhow::Result<(PathBuf, Output)> {
    let numbered = |number: u32| {
        let mut path = name.as_os_str().to_owned();
        if number > 1 {
            path.push(format!("-{number}"));
        }
        path.push(format!(".{kind}"));
        PathBuf::from(path)
    };
    let Some(path) = (1..).map(numbered).find(|path| is_free(path, mark)) else {
        bail!("{} and all its like are files of others; try: -o FILE", numbered(1).display());
    };
    let output = Output::open(Some(&path), console)?;
    Ok((path, output))
}

/// Returns true if there is nothing at a path, or a file that `prof` wrote.
fn is_free(path: &Path, mark: &str) -> bool {
    let Ok(what) = std::fs::symlink_metadata(path) else { return true };
    // Opening anything but a regular file may block.
    let mut start = Vec::new();
    let mut read = || File::open(path)?.take(TELLING_BYTES).read_to_end(&mut start);
    what.is_file() && read().is_ok() && String::from_utf8_lossy(&start).contains(mark)
}

/// Returns true if somebody sits before this machine's screen, as an ordinary user.
pub fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_remote = std::env::vars_os().any(|(name, _)| name.as_encoded_bytes().starts_with(b"SSH_"));
    std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal()
        && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
        && !is_remote
        && !is_set("CI")
        && effective_user() != 0
}

impl Shown {
    /// Prints the file's name, and opens it with the program of the desktop (`xdg-open`), whose output is dropped.
    ///
    /// # Errors
    /// `xdg-open` cannot be started, and the user asked for it.
    pub fn show(&self, console: &Console) -> anyhow::Result<()> {
        if self.is_news {
            console.say(&format!("→ {}", Name::from(self.path.as_os_str().as_encoded_bytes())));
        }
        if self.browser == Browser::Closed {
            return Ok(());
        }
        let mut command = Command::new("xdg-open");
        command.arg(&self.path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Err(error) if self.browser == Browser::Asked => Err(error).with_context(|| {
                let path = self.path.display();
                format!("cannot run xdg-open to show {path}; open the file in a browser yourself")
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let console = Console::new(true, 0);
        let name = without_kind(&folder.path().join("a.data"));
        let open = || beside(&name, "svg", "<!-- ours -->", &console).unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(open().0, path("a.svg"));
        std::fs::write(path("a.svg"), "<svg>").unwrap();
        std::os::unix::fs::symlink("nowhere", path("a-2.svg")).unwrap();
        assert_eq!(open().0, path("a-3.svg"));
        std::fs::write(path("a-3.svg"), "<?xml?><!-- ours --><svg>").unwrap();
        assert_eq!(open().0, path("a-3.svg"));
    }

    #[test]
    fn names_of_recordings_lose_what_says_so() {
        let name = |recording: &str| without_kind(Path::new(recording)).display().to_string();
        assert_eq!(name("x/a.data"), "x/a");
        assert_eq!(name("prof.data.20261122T230113"), "prof.data.20261122T230113");
        assert_eq!(name("a.folded"), "a.folded");
    }
}
