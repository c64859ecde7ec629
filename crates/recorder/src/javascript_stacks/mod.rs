//! Names JavaScript functions in call chains, by the memory of running processes (`docs/decisions/0019-javascript-without-a-switch.md`).
//!
//! ```text
//! sample in its ring ─▶ words of frames ─▶ its turn in time order ─▶ JavaScriptStacks: functions ─▶ chain with their addresses
//!                                                                             └─▶ MMAP2 records of functions that are new
//! ```

mod chain;

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use decoder::RecordLayout;
use host::procfs;
use javascript::{Found, JavaScriptFunction, JavaScriptProcess};
use model::{Avma, JAVASCRIPT_CODE, Pid, ProcessMemory, Timestamp, UNKNOWN_JAVASCRIPT, label_mapping_name};
use rustc_hash::FxHashSet;
use stacks::{IndexedWords, MappedV8, ProcessMaps};
use tracker::Tracker;

use crate::function_mappings::{FunctionTable, MappedFunction};
use crate::known_programs::KnownPrograms;
use chain::ChainRewriter;

/// The JavaScript functions of all processes.
#[derive(Debug)]
pub(crate) struct JavaScriptStacks {
    /// True if the interpreter's own frames stay in call chains.
    keeps_interpreter: bool,
    processes: KnownPrograms<Process>,
    functions: FunctionTable<JavaScriptFunction>,
    regexp: Arc<JavaScriptFunction>,
    rewriter: ChainRewriter,
}

/// A process that runs V8.
#[derive(Debug)]
struct Process {
    javascript: JavaScriptProcess,
    /// True if V8 itself names the code that it generates, in a perf map.
    has_perf_map: bool,
    /// The addresses of the functions for which there are records.
    recorded: FxHashSet<u64>,
}

/// A sample of a process that has mapped V8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JavaScriptSample<'a> {
    pub(crate) pid: Pid,
    pub(crate) time: Timestamp,
    pub(crate) maps: &'a ProcessMaps,
    pub(crate) v8: &'a MappedV8,
    pub(crate) words: &'a [IndexedWords],
}

/// The name of the code of regular expressions. V8 names it with the expression, to which the code does not lead.
const REGEXP: &str = "RegExp";

impl MappedFunction for JavaScriptFunction {
    const CODE: Range<Avma> = JAVASCRIPT_CODE;
    const UNKNOWN: &str = UNKNOWN_JAVASCRIPT;

    fn mapping_name(&self) -> Vec<u8> {
        label_mapping_name(&self.name)
    }

    fn lines(&self) -> RangeInclusive<u32> {
        self.first_line..=self.last_line
    }
}

impl JavaScriptStacks {
    /// Knows no process yet. With `keeps_interpreter`, the interpreter's own frames stay in call chains.
    pub(crate) fn new(keeps_interpreter: bool) -> Self {
        Self {
            keeps_interpreter,
            processes: KnownPrograms::default(),
            functions: FunctionTable::default(),
            regexp: Arc::new(JavaScriptFunction { name: REGEXP.to_owned(), first_line: 0, last_line: 0 }),
            rewriter: ChainRewriter::default(),
        }
    }

    /// Puts JavaScript functions into the user part of a call chain, which begins at `start` with its marker, in place of their native frames.
    /// Appends MMAP2 records in `layout`, for the functions that are new, to `records`. Changes nothing where the memory of the process may
    /// not be read. Returns false where functions are not known.
    pub(crate) fn rewrite(
        &mut self,
        sample: &JavaScriptSample<'_>,
        memory: &dyn ProcessMemory,
        tracker: &Tracker,
        layout: &RecordLayout,
        (chain, start): (&mut Vec<u64>, usize),
        records: &mut Vec<u8>,
    ) -> bool {
        let JavaScriptSample { pid, time, .. } = *sample;
        let begin = || Process {
            javascript: JavaScriptProcess::new(Arc::clone(sample.v8.v8())),
            has_perf_map: procfs::has_open(pid, &is_perf_map),
            recorded: FxHashSet::default(),
        };
        let process = self.processes.of(pid, tracker, |_| true, begin);
        // Code that V8 describes itself is named by that.
        let is_described = process.has_perf_map || sample.maps.has_dump();
        let frames = self.rewriter.frames(sample, is_described, chain.get(start..).unwrap_or_default());
        let Some(found) = process.javascript.find(memory, pid, time, frames) else { return true };
        let is_named = !found.contains(&Found::Unknown);
        let functions = &mut self.functions;
        let mut address = |function: Option<(&Arc<JavaScriptFunction>, u32)>| {
            functions.address(function, (pid, time), &mut process.recorded, layout, records)
        };
        let regexp = &self.regexp;
        let mut addresses = |found: &Found, out: &mut Vec<u64>| match found {
            Found::Functions(frames) => {
                out.extend(frames.iter().map(|frame| address(Some((&frame.function, frame.line)))));
            }
            Found::Regexp => out.push(address(Some((regexp, 0)))),
            Found::Unknown => out.push(address(None)),
            Found::Other => {}
        };
        self.rewriter.rewrite(&found, self.keeps_interpreter, &mut addresses, (chain, start));
        is_named
    }

    /// Forgets processes that the tracker has forgotten.
    pub(crate) fn forget_ended(&mut self, tracker: &Tracker) {
        self.processes.forget_ended(tracker);
    }
}

/// Returns true for the path of a perf map, as the process has opened it.
fn is_perf_map(path: &[u8]) -> bool {
    let number = path.strip_prefix(b"/tmp/perf-").and_then(|rest| rest.strip_suffix(b".map"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}
