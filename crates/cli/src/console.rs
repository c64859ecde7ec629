//! Messages to the user: errors, warnings, notices and progress, all on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use analysis::Notices;
use analysis::notices::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use model::Name;

/// Prints messages according to verbosity and colour settings.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    quiet: bool,
    verbosity: u8,
    colour: bool,
}

impl Console {
    /// Creates the console. Colours are used on a terminal, or as `NO_COLOR` and `CLICOLOR_FORCE` say.
    pub fn new(quiet: bool, verbosity: u8) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = !no_colour && (set("CLICOLOR_FORCE") || std::io::stderr().is_terminal());
        Self { quiet, verbosity, colour }
    }

    /// Returns the number of times that `-v` was given.
    pub fn verbosity(&self) -> u8 {
        self.verbosity
    }

    /// Prints an error and its causes as one sentence.
    pub fn error(&self, error: &anyhow::Error) {
        self.line("31", "error: ", &sentence(error.chain().map(ToString::to_string)));
    }

    fn line(&self, colour: &str, kind: &str, text: &str) {
        // `Name` escapes control characters: the text may contain names from the profiled machine. Line breaks are ours.
        for line in text.lines() {
            let line = Name::from(line);
            let line = if self.colour && !colour.is_empty() {
                format!("\x1b[{colour}mprof: {kind}{line}\x1b[0m\n")
            } else {
                format!("prof: {kind}{line}\n")
            };
            // A closed or full standard error must not change the result or the exit code.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

impl Notices for Console {
    fn warn(&self, text: &str) {
        if !self.quiet {
            self.line("33", "", text);
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            self.line("", "", text);
        }
    }

    fn detail(&self, text: &str) {
        if self.verbosity > 0 && !self.quiet {
            self.line("", "", text);
        }
    }

    fn progress(&self, title: &str, total: Option<u64>) -> Box<dyn Progress> {
        Box::new(TerminalProgress::new(self, title, total))
    }
}

/// Joins an error and its causes to one sentence. Leaves out a cause that the text already contains, and errno numbers, which Rust
/// appends.
fn sentence(causes: impl Iterator<Item = String>) -> String {
    let mut sentence = String::new();
    for cause in causes.map(|cause| without_errno(&cause)) {
        if sentence.is_empty() {
            sentence = cause;
        } else if !sentence.contains(&cause) {
            sentence.push_str(": ");
            sentence.push_str(&cause);
        }
    }
    sentence
}

/// Removes ` (os error 2)` from a text.
fn without_errno(text: &str) -> String {
    const OPEN: &str = " (os error ";
    let mut rest = text;
    let mut clean = String::new();
    while let Some((before, after)) = rest.split_once(OPEN) {
        clean.push_str(before);
        match after.split_once(')') {
            Some((number, tail)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest = tail,
            _ => {
                clean.push_str(OPEN);
                rest = after;
            }
        }
    }
    clean + rest
}

/// A progress bar that appears after a second, on a terminal only.
struct TerminalProgress {
    bar: Option<ProgressBar>,
    start: Instant,
}

impl TerminalProgress {
    fn new(console: &Console, what: &str, total: Option<u64>) -> Self {
        let wanted = !console.quiet && std::io::stderr().is_terminal();
        let bar = wanted.then(|| {
            let bar = ProgressBar::with_draw_target(total, indicatif::ProgressDrawTarget::hidden());
            let template = match total {
                Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {eta}",
                None => "{msg} {bytes} {elapsed}",
            };
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_message(Name::from(what).to_string());
            bar
        });
        Self { bar, start: Instant::now() }
    }
}

impl Progress for TerminalProgress {
    fn set(&self, done: u64) {
        let Some(bar) = &self.bar else { return };
        if bar.is_hidden() && self.start.elapsed() > Duration::from_secs(1) {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.set_position(done);
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_sentence_for_people() {
        let causes =
            ["cannot read x", "No such file (os error 2)", "No such file (os error 2)", "a (os error b)"];
        let text = sentence(causes.into_iter().map(str::to_owned));
        assert_eq!(text, "cannot read x: No such file: a (os error b)");
    }
}
