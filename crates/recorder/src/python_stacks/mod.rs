//! Names Python functions in call chains, by the memory of running processes (`docs/decisions/0013-python-without-a-switch.md`).
//!
//! ```text
//! sample in its ring ─▶ activations ─▶ its turn in time order ─▶ PythonStacks: runs ─▶ chain with addresses of functions
//!                                                                             └─▶ MMAP2 records of functions that are new
//! ```

mod chain;
mod looker;

use std::ops::{Range, RangeInclusive};

use decoder::RecordLayout;
use host::sys::clock::ClockId;
use model::{Avma, PYTHON_CODE, Pid, ProcessMemory, Tid, Timestamp, UNKNOWN_PYTHON, python_mapping_name};
use python::{Activation, PythonFunction, PythonProcess, Run};
use rustc_hash::{FxHashMap, FxHashSet};
use stacks::{MappedInterpreter, ProcessMaps};
use tracker::Tracker;

use chain::ChainRewriter;
use looker::Looker;

use crate::function_mappings::{FunctionTable, MappedFunction};
use crate::known_programs::KnownPrograms;

/// The Python functions of all processes.
#[derive(Default, Debug)]
pub(crate) struct PythonStacks {
    /// True if the interpreter's own frames stay in call chains.
    keeps_interpreter: bool,
    processes: KnownPrograms<Process>,
    functions: FunctionTable<PythonFunction>,
    /// True if a thread is looked at from now on: where its pointers are believed to be, the first looks decide.
    pub(crate) has_begun_to_look: bool,
    /// The clock of the samples; `None` where it is not known.
    clock: Option<ClockId>,
    looker: Option<Looker>,
    rewriter: ChainRewriter,
}

/// A process that runs Python.
#[derive(Debug)]
struct Process {
    /// The difference of addresses and those in the interpreter's file.
    bias: u64,
    python: PythonProcess,
    /// The addresses of the functions for which there are records.
    recorded: FxHashSet<u64>,
    /// The threads that are looked at, and when those were last searched that were not found.
    threads: FxHashMap<Tid, Option<Timestamp>>,
}

/// Nanoseconds until a thread that was not found is searched again: it may be about to begin.
const SEARCH_NANOSECONDS: u64 = 10_000_000;

/// A sample of a process that has mapped an interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PythonSample<'a> {
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    pub(crate) time: Timestamp,
    pub(crate) maps: &'a ProcessMaps,
    pub(crate) interpreter: &'a MappedInterpreter,
    pub(crate) activations: &'a [Activation],
}

impl MappedFunction for PythonFunction {
    const CODE: Range<Avma> = PYTHON_CODE;
    const UNKNOWN: &str = UNKNOWN_PYTHON;

    fn mapping_name(&self) -> Vec<u8> {
        python_mapping_name(&self.file, &self.name)
    }

    fn lines(&self) -> RangeInclusive<u32> {
        self.first_line..=self.last_line
    }
}

impl PythonStacks {
    /// Knows no process yet. With `keeps_interpreter`, the interpreter's own frames stay in call chains.
    pub(crate) fn new(keeps_interpreter: bool) -> Self {
        Self { keeps_interpreter, ..Self::default() }
    }

    /// Puts Python functions into the user part of a call chain, which begins at `start` with its marker, in place of the frames of the
    /// interpreter. Appends MMAP2 records in `layout`, for the functions that are new, to `records`. Changes nothing where the memory of
    /// the process may not be read. Returns false where functions are not known.
    pub(crate) fn rewrite(
        &mut self,
        sample: &PythonSample<'_>,
        memory: &dyn ProcessMemory,
        tracker: &Tracker,
        layout: &RecordLayout,
        (chain, start): (&mut Vec<u64>, usize),
        records: &mut Vec<u8>,
    ) -> bool {
        let PythonSample { pid, tid, time, interpreter, activations, .. } = *sample;
        let bias = interpreter.bias();
        let begin = || Process {
            bias,
            python: PythonProcess::new(interpreter.interpreter().clone(), bias),
            recorded: FxHashSet::default(),
            threads: FxHashMap::default(),
        };
        let process = self.processes.of(pid, tracker, |process| process.bias == bias, begin);
        if let Some(clock) = self.clock {
            match process.threads.get(&tid) {
                Some(None) => self.looker.iter().for_each(|looker| looker.sampled((pid, tid), time)),
                Some(Some(searched)) if time.0.saturating_sub(searched.0) < SEARCH_NANOSECONDS => {}
                _ => {
                    let view = process.python.view(memory, (pid, tid), time);
                    if process.threads.len() >= looker::MAX_THREADS {
                        process.threads.clear();
                    }
                    process.threads.insert(tid, view.is_none().then_some(time));
                    if let Some(view) = view {
                        self.looker = self.looker.take().or_else(|| Looker::start(clock));
                        if let Some(looker) = &self.looker {
                            looker.watch(view, time);
                            self.has_begun_to_look = true;
                        }
                    }
                }
            }
        }
        let Some(runs) = process.python.runs(memory, (pid, tid), time, activations) else { return false };
        let is_named = runs.iter().all(|run| run.is_complete);
        let functions = &mut self.functions;
        let mut addresses = |run: &Run, found: &mut Vec<u64>| {
            let unknown = (!run.is_complete).then_some(None);
            for frame in run.frames.iter().map(Some).chain(unknown).chain(run.lasting.iter().map(Some)) {
                let function = frame.map(|frame| (&frame.function, frame.line));
                found.push(functions.address(function, (pid, time), &mut process.recorded, layout, records));
            }
        };
        self.rewriter.rewrite(sample, &runs, self.keeps_interpreter, &mut addresses, (chain, start));
        is_named
    }

    /// Sets the clock of the samples.
    pub(crate) fn set_clock(&mut self, clock: Option<ClockId>) {
        self.clock = clock;
    }

    /// Adds the looks since the last call, before the samples of the same time come. Returns their number.
    pub(crate) fn add_looks(&mut self) -> u64 {
        let mut added = 0;
        for (pid, tid, look) in self.looker.iter().flat_map(Looker::take_looks) {
            let Some(process) = self.processes.known(pid) else { continue };
            match look {
                Some(look) => {
                    added += 1;
                    process.python.add_look(look);
                }
                None => drop(process.threads.remove(&tid)),
            }
        }
        added
    }

    /// Forgets processes that the tracker has forgotten.
    pub(crate) fn forget_ended(&mut self, tracker: &Tracker) {
        self.processes.forget_ended(tracker);
    }
}
