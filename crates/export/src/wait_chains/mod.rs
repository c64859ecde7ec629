//! Who made threads wait, and for what: in two lines each for a page, and in rows.

mod page;
mod rows;

use std::io::{self, Write};

use model::{Blocked, ThreadState};
use profile::waiting::{PlaceNumber, Waiting};
use profile::{FrameId, FrameTable, Label, short_name};
use serde_json::Value;

use crate::figures::write_json_line;
use crate::names::{fit_name, plain_name};
use crate::report::Format;

/// Maximum width of a function's name, in columns.
const NAME_COLUMNS: usize = 40;

/// Who made threads wait, with the frames that it refers to.
#[derive(Clone, Copy)]
pub struct WaitingFindings<'a> {
    /// The frames.
    pub frames: &'a FrameTable,
    /// What was found.
    pub waiting: &'a Waiting,
}

impl WaitingFindings<'_> {
    fn label(&self, frame: FrameId) -> Option<&Label> {
        self.frames.frames().get(frame.index()).map(|frame| &frame.label)
    }

    fn name(&self, frame: FrameId) -> String {
        fit_name(&short_name(&plain_name(self.label(frame))), NAME_COLUMNS).into_owned()
    }

    /// Returns functions as `outer → inner`.
    fn functions(&self, functions: &[FrameId]) -> String {
        functions.iter().map(|&frame| self.name(frame)).collect::<Vec<_>>().join(" → ")
    }

    /// Says what a thread did at a place: what it called there, and its state.
    fn doing(&self, place: PlaceNumber) -> String {
        let place = self.waiting.place(place);
        let call = place.call.map(|call| self.name(call));
        let of = |words: &str| match &call {
            Some(call) => format!("{words} in {call}"),
            None => words.to_owned(),
        };
        match place.state.and_then(|state| self.label(state)) {
            Some(Label::State(ThreadState::Runnable(_))) => "waiting for a CPU".to_owned(),
            Some(Label::State(ThreadState::Blocked(Blocked::For(what)))) => match what.split_once(' ') {
                None if what == "sleep" => of("asleep"),
                // An address is no name.
                None if what == "futex" => of("waiting"),
                Some(("futex", address)) if address.starts_with("0x") => of("waiting"),
                Some(("futex", variable)) => format!("waiting for {variable}"),
                _ => format!("waiting for {what}"),
            },
            Some(Label::State(state)) => of(&state.to_string()),
            _ => of("on CPU"),
        }
    }

    /// Writes all chains and culprits as rows.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write(&self, title: &str, format: Format, limit: usize, output: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Json => write_json_line(&self.json(title, limit), output),
            Format::Csv => self.table(limit, true).csv(true, output),
            Format::Markdown => self
                .table(limit, false)
                .markdown(NAME_COLUMNS * 4)
                .try_for_each(|line| writeln!(output, "{line}")),
            Format::Text { width } => {
                writeln!(output, "# {title}")?;
                self.head().iter().try_for_each(|line| writeln!(output, "# {line}"))?;
                self.table(limit, false).text(width, output)
            }
        }
    }

    /// Returns what was found as one JSON object, with up to `most` rows of each list.
    pub(crate) fn json(&self, title: &str, most: usize) -> Value {
        rows::json(self, title, most)
    }
}
/// Returns a time as people say it.
fn amount(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.2} s", nanoseconds as f64 / 1e9),
    }
}
