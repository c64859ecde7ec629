//! Messages to the user: errors, warnings, notices and progress, all on standard error.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use analysis::Notices;
use analysis::notices::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use model::{Harm, Name};

/// Maximum number of problems that a command prints; it counts the others, which `-v` prints. A run without problems prints two lines,
/// and who reads more than five has forgotten the first.
const MAX_PROBLEMS: usize = 3;
/// Maximum width of a message on a terminal, in columns: longer lines are hard to read.
const MAX_COLUMNS: usize = 100;
/// The words before the command that a message advises. It begins a line of its own where lines are broken, so that it can be copied.
const ADVICE: &str = "; try: ";

/// Prints messages according to verbosity and colour settings. Problems wait for [`Self::finish`], which prints the worst first.
#[derive(Clone, Debug)]
pub struct Console {
    quiet: bool,
    verbosity: u8,
    colour: bool,
    /// Columns of the terminal; `None` where lines are not broken.
    columns: Option<usize>,
    problems: Arc<Mutex<Problems>>,
}

/// The problems of a command that are not printed yet.
#[derive(Default, Debug)]
struct Problems {
    waiting: Vec<(Harm, String)>,
    /// The number of those that were printed.
    printed: usize,
}

/// Returns the columns and rows of the terminal, if the output is one. Asks the kernel alone: `crossterm::terminal::size` would run
/// `tput`.
pub fn terminal_size(is_terminal: bool) -> Option<(usize, usize)> {
    let size = is_terminal.then(crossterm::terminal::window_size).and_then(Result::ok)?;
    Some((size.columns.into(), size.rows.into())).filter(|&(columns, rows)| columns > 0 && rows > 0)
}

impl Console {
    /// Creates the console. Colours are used on a terminal, or as `NO_COLOR` and `CLICOLOR_FORCE` say.
    pub fn new(quiet: bool, verbosity: u8) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = std::io::stderr().is_terminal();
        let colour = !no_colour && (set("CLICOLOR_FORCE") || is_terminal);
        let columns = terminal_size(is_terminal).map(|(columns, _)| columns.min(MAX_COLUMNS));
        Self { quiet, verbosity, colour, columns, problems: Arc::default() }
    }

    /// Returns the number of times that `-v` was given.
    pub fn verbosity(&self) -> u8 {
        self.verbosity
    }

    /// Prints an error and its causes as one sentence.
    pub fn error(&self, error: &anyhow::Error) {
        self.line("31", "error: ", &sentence(error.chain().map(ToString::to_string)));
    }

    /// Prints the problems that take samples or more, as soon as a recording runs: whoever sees them may want to begin anew.
    pub fn print_worst(&self) {
        let mut problems = self.problems();
        let (worst, rest) =
            std::mem::take(&mut problems.waiting).into_iter().partition(|(harm, _)| *harm >= Harm::Samples);
        problems.waiting = worst;
        self.print_waiting(&mut problems);
        problems.waiting.extend::<Vec<_>>(rest);
    }

    /// Prints the problems that wait, the worst first, and says how many there are beyond the maximum. Call it at the end of a command,
    /// in the process that has met them.
    pub fn finish(&self) {
        let mut problems = self.problems();
        self.print_waiting(&mut problems);
        let more = problems.waiting.len();
        problems.waiting.clear();
        if more > 0 {
            self.line("", "", &format!("{more} more: -v"));
        }
    }

    /// Forgets the problems that wait: another process has inherited them and prints them.
    pub fn forget_problems(&self) {
        self.problems().waiting.clear();
    }

    fn problems(&self) -> MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints and removes as many problems as the maximum allows.
    fn print_waiting(&self, problems: &mut Problems) {
        problems.waiting.sort_by_key(|(harm, _)| std::cmp::Reverse(*harm));
        let room = MAX_PROBLEMS.saturating_sub(problems.printed).min(problems.waiting.len());
        problems.printed += room;
        problems.waiting.drain(..room).for_each(|(harm, text)| self.problem(harm, &text));
    }

    fn problem(&self, harm: Harm, text: &str) {
        self.line(if harm > Harm::Nothing { "33" } else { "" }, "", text);
    }

    fn line(&self, colour: &str, kind: &str, text: &str) {
        // `Name` escapes control characters: the text may contain names from the profiled machine. Line breaks are ours.
        for line in text.lines() {
            let line = broken(&format!("prof: {kind}{}", Name::from(line)), self.columns);
            let line = if self.colour && !colour.is_empty() {
                format!("\x1b[{colour}m{line}\x1b[0m\n")
            } else {
                format!("{line}\n")
            };
            // A closed or full standard error must not change the result or the exit code.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

/// Breaks a line that is longer than `columns` between words. What it advises to type stays in one piece, in a line of its own.
fn broken(line: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|&columns| line.chars().count() > columns) else {
        return line.to_owned();
    };
    let (what, advice) = line.split_once(ADVICE).map_or((line, None), |(what, advice)| (what, Some(advice)));
    let mut broken = String::new();
    let mut column = 0;
    for word in what.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > columns {
            broken.push_str("\n     ");
            column = 5;
        }
        if column > 0 {
            broken.push(' ');
            column += 1;
        }
        broken.push_str(word);
        column += width;
    }
    advice.map_or(broken.clone(), |advice| format!("{broken}; try:\n        {advice}"))
}

impl Notices for Console {
    fn warn(&self, harm: Harm, text: &str) {
        if self.quiet {
            return;
        }
        if self.verbosity > 0 {
            return self.problem(harm, text);
        }
        let waiting = &mut self.problems().waiting;
        if !waiting.iter().any(|(_, known)| known == text) {
            waiting.push((harm, text.to_owned()));
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
    fn long_lines_are_broken_between_words_and_commands_stay_whole() {
        let line = "prof: the rings were full; try: prof record -m 16M";
        assert_eq!(broken(line, None), line);
        assert_eq!(broken(line, Some(50)), line);
        assert_eq!(
            broken(line, Some(16)),
            "prof: the rings\n      were full; try:\n        prof record -m 16M"
        );
        assert_eq!(
            broken("prof: /a/very/long/path is", Some(10)),
            "prof:\n      /a/very/long/path\n      is"
        );
    }

    #[test]
    fn the_worst_problems_come_first_and_the_rest_is_counted() {
        let console =
            Console { quiet: false, verbosity: 0, colour: false, columns: None, problems: Arc::default() };
        for (harm, text) in
            [(Harm::Names, "c"), (Harm::Samples, "a"), (Harm::Names, "c"), (Harm::Stacks, "b")]
        {
            console.warn(harm, text);
        }
        console.print_worst();
        let state = || {
            let problems = console.problems();
            let texts: Vec<String> = problems.waiting.iter().map(|(_, text)| text.clone()).collect();
            (texts.concat(), problems.printed)
        };
        assert_eq!(state(), ("cb".to_owned(), 1));
        for text in ["d", "e"] {
            console.warn(Harm::Nothing, text);
        }
        console.print_waiting(&mut console.problems());
        assert_eq!(state(), ("de".to_owned(), 3), "the worse came first");
    }

    #[test]
    fn an_error_is_one_sentence_for_people() {
        let causes =
            ["cannot read x", "No such file (os error 2)", "No such file (os error 2)", "a (os error b)"];
        let text = sentence(causes.into_iter().map(str::to_owned));
        assert_eq!(text, "cannot read x: No such file: a (os error b)");
    }
}
