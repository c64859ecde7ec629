//! The keys of tables: a table has a row for each combination of their values.

use std::str::FromStr;

use model::Name;
use profile::queries::RowKeys;
use profile::runtime_names::Tiers;
use profile::{FrameId, FrameKind, Label, ViewFrame};
use thiserror::Error;

use crate::frame_name;
use crate::interner::Interner;
use crate::table::Cell;

/// A key of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// The thread's name.
    Comm,
    /// The process.
    Pid,
    /// The thread.
    Tid,
    /// The CPU.
    Cpu,
    /// The container, or the host.
    Container,
    /// The path of the cgroup.
    Cgroup,
    /// The event: a table for each.
    Event,
    /// The module.
    Module,
    /// The function.
    Function,
    /// The line of the source.
    Line,
}

/// The error for an unknown key.
#[derive(Error, Debug)]
#[error(
    "`{0}` is not a key of rows; try comm, pid, tid, cpu, container, cgroup, event, module, function, line"
)]
pub struct UnknownKey(String);

impl FromStr for Key {
    type Err = UnknownKey;

    /// Parses a key, also by the name that perf has for it.
    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        Ok(match text {
            "comm" => Self::Comm,
            "pid" => Self::Pid,
            "tid" => Self::Tid,
            "cpu" => Self::Cpu,
            "container" => Self::Container,
            "cgroup" => Self::Cgroup,
            "event" => Self::Event,
            "module" | "dso" => Self::Module,
            "function" | "symbol" | "sym" => Self::Function,
            "line" | "srcline" => Self::Line,
            _ => return Err(UnknownKey(text.to_owned())),
        })
    }
}

impl Key {
    /// Returns the name of its column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Comm => "comm",
            Self::Pid => "pid",
            Self::Tid => "tid",
            Self::Cpu => "cpu",
            Self::Container => "container",
            Self::Cgroup => "cgroup",
            Self::Event => "event",
            Self::Module => "module",
            Self::Function => "function",
            Self::Line => "line",
        }
    }

    /// Returns a cell with one of its values.
    pub(super) fn cell(self, field: &str) -> Cell {
        match field.parse() {
            Ok(number) if self.is_number() => Cell::Number(number, 0),
            _ if field.is_empty() => Cell::Nothing,
            _ => Cell::Text(field.to_owned()),
        }
    }

    /// Returns true if its values are numbers.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Pid | Self::Tid | Self::Cpu)
    }

    fn is_of_thread(self) -> bool {
        matches!(self, Self::Comm | Self::Pid | Self::Tid | Self::Cpu | Self::Container | Self::Cgroup)
    }
}

/// Returns the function of a frame, safe for a terminal.
pub fn function(frame: &ViewFrame) -> String {
    let frame = ViewFrame { kind: FrameKind::User, ..frame.without_module() };
    Name::from(frame_name(&frame).as_str()).to_string()
}

/// Returns the module of a frame, safe for a terminal; empty if it has none.
pub fn module(frame: &ViewFrame) -> String {
    match &frame.label {
        Label::Function(_, Some(module)) | Label::Module(module, _) => module.to_string(),
        _ => String::new(),
    }
}

/// Returns the file and line of a frame, safe for a terminal; empty if they are unknown.
pub(super) fn line(frame: &ViewFrame) -> String {
    let known = frame.line.as_ref().filter(|line| line.line > 0);
    known.map_or_else(String::new, |at| format!("{}:{}", Name::from(&*at.file), at.line))
}

/// The function of samples without a stack, and of those whose frames are all filtered out.
pub(super) const NO_STACK: &str = "[no stack]";

/// Interns the key values of rows as text.
pub(super) struct Grouping<'t> {
    frames: &'t [ViewFrame],
    /// The compilers of each frame's code; empty if they are not known.
    tiers: &'t [Tiers],
    keys: &'t [Key],
    threads: Interner<Vec<String>>,
    functions: Interner<Vec<String>>,
    /// The compilers of all frames of a function, by its id.
    tiers_of_functions: Vec<Tiers>,
}

impl<'t> Grouping<'t> {
    pub(super) fn new(frames: &'t [ViewFrame], tiers: &'t [Tiers], keys: &'t [Key]) -> Self {
        let (threads, functions) = (Interner::default(), Interner::default());
        Self { frames, tiers, keys, threads, functions, tiers_of_functions: Vec::new() }
    }

    /// Returns the compilers that made the code of a row.
    pub(super) fn tiers(&self, frame: u32) -> Tiers {
        self.tiers_of_functions.get(frame as usize).copied().unwrap_or_default()
    }

    /// Returns the fields of a row, in the order of the keys.
    pub(super) fn fields(&self, thread: u32, frame: u32) -> Vec<String> {
        let mut of_thread = fields_of(&self.threads, thread);
        let mut of_frame = fields_of(&self.functions, frame);
        let field = |key: &Key| if key.is_of_thread() { of_thread.next() } else { of_frame.next() };
        self.keys.iter().map(field).map(|field| field.cloned().unwrap_or_default()).collect()
    }
}

impl RowKeys for Grouping<'_> {
    fn of_thread(&mut self, below: Option<FrameId>, thread: FrameId) -> u32 {
        let frames = [Some(thread), below].into_iter().flatten();
        let labels: Vec<&Label> = frames.map(|frame| &self.frames[frame.index()].label).collect();
        let field = |key: &Key| {
            let of = |label: &&Label| match (key, label) {
                (Key::Comm, Label::Comm(comm) | Label::Thread(comm, ..)) => Some(comm.to_string()),
                (Key::Pid, Label::Thread(_, pid, _) | Label::Process(_, pid)) => Some(pid.0.to_string()),
                (Key::Tid, Label::Thread(_, _, tid)) => Some(tid.0.to_string()),
                (Key::Cpu, Label::Cpu(cpu)) => Some(cpu.0.to_string()),
                (Key::Container, Label::Container(name)) | (Key::Cgroup, Label::Cgroup(name)) => {
                    Some(name.to_string())
                }
                _ => None,
            };
            labels.iter().find_map(of).unwrap_or_default()
        };
        self.threads.intern(self.keys.iter().filter(|key| key.is_of_thread()).map(field).collect())
    }

    fn of_frame(&mut self, frame: Option<FrameId>) -> u32 {
        let tiers = frame.and_then(|frame| self.tiers.get(frame.index())).copied().unwrap_or_default();
        let frame = frame.map(|frame| &self.frames[frame.index()]);
        let field = |key: &Key| match (key, frame) {
            (Key::Function, Some(frame)) => function(frame),
            (Key::Module, Some(frame)) => module(frame),
            (Key::Line, Some(frame)) => line(frame),
            (Key::Function, None) => NO_STACK.to_owned(),
            _ => String::new(),
        };
        let number =
            self.functions.intern(self.keys.iter().filter(|key| !key.is_of_thread()).map(field).collect());
        self.tiers_of_functions.resize(self.functions.values.len(), Tiers::empty());
        if let Some(known) = self.tiers_of_functions.get_mut(number as usize) {
            *known |= tiers;
        }
        number
    }
}

fn fields_of(interner: &Interner<Vec<String>>, id: u32) -> impl Iterator<Item = &String> {
    interner.values.get(id as usize).into_iter().flatten()
}
