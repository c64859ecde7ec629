//! The functions that a thread runs while its process is looked at.
//!
//! Most functions have returned when a sample's turn has come. But the same call lies in the same frame again and again: what called it is
//! known from one time that it was seen there, and a look at any time sees one.

use std::sync::Arc;

use memory::Reader;
use model::{Pid, ProcessMemory, Tid, Timestamp};

use super::{PythonProcess, Sample};
use crate::callers::Outer;
use crate::evidence::{Activation, Location};
use crate::layout::{CurrentFrame, ThreadLayout};
use crate::looks::{LookedFrame, LookedRun};
use crate::run::PythonFrame;
use crate::votes::Votes;

/// The maximum number of threads and interpreters of a process among which one is looked for: each lies in a page of its own.
const MAX_THREADS: usize = 32;
/// The maximum number of calls of `_PyEval_EvalFrameDefault` in each other among which the outermost is looked for.
const MAX_NATIVE_FRAMES: usize = 64;
/// The maximum number of frames of one look whose callers are remembered, innermost first.
const MAX_LOOKED_AT: usize = 64;

impl PythonProcess {
    /// Remembers the callers of the functions that thread `tid` runs now. Does nothing where its frames are not found, or may not be read.
    /// `activations` are those of its last sample, innermost first.
    pub fn look_at(
        &mut self,
        memory: &dyn ProcessMemory,
        (pid, tid): (Pid, Tid),
        time: Timestamp,
        activations: &[Activation],
    ) {
        let interpreter = Arc::clone(&self.interpreter);
        let Some(layout) = &interpreter.layout.thread else { return };
        let mut blocks = std::mem::replace(&mut self.blocks, memory::Blocks::new(0));
        let reader = Reader::new(memory, pid, &mut blocks);
        let mut sample = Sample::new(reader, time, tid);
        if self.check(&mut sample) {
            let runtime = self.address(interpreter.runtime);
            let has_namespace = *self.has_namespace.get_or_insert_with(|| {
                let main = Tid(pid.0);
                memory.own_number(main).is_some_and(|number| number != main)
            });
            let number = if has_namespace { memory.own_number(tid) } else { Some(tid) };
            let state = number.and_then(|tid| thread_state(&mut sample.reader, layout, runtime, tid));
            let mut frame = state.and_then(|state| current_frame(&mut sample.reader, layout.frame, state));
            let (mut left, mut runs) = (MAX_LOOKED_AT, Vec::new());
            while let Some(innermost) = frame.filter(|_| left > 0) {
                let Some(next) = self.remember_run(&mut sample, innermost, &mut left, &mut runs) else {
                    break;
                };
                frame = next;
            }
            // Of all calls, the outermost is most probably that of the sample still.
            if let (Some(state), Some(end)) = (state, activations.last().and_then(|outermost| outermost.end))
            {
                let slot = |field: u64| end.checked_sub(field).and_then(Location::slot);
                if self.frame_slot.known().is_none()
                    && let Some(field) = outermost_field(&mut sample.reader, layout.frame, state)
                {
                    slot(field).into_iter().for_each(|slot| self.frame_slot.add(slot));
                    if self.frame_slot.known().is_some() {
                        // Until now, any word could be the frame. A call saves registers of the one outside of it: its frame and
                        // pointer, which always agree, because that one waits.
                        self.bytecode_votes = Votes::default();
                    }
                }
                if self.caller_slot.known().is_none()
                    && let (None, Some(entry)) = (frame, runs.last().and_then(|outermost| outermost.entry))
                {
                    let field = entry.saturating_add(interpreter.layout.frame.previous);
                    slot(field).into_iter().for_each(|slot| self.caller_slot.add(slot));
                }
            }
            match frame {
                None => self.looks.add(tid, time, runs),
                Some(_) => self.looks.remove(tid),
            }
        }
        self.blocks = blocks;
    }

    /// Remembers the callers of the functions of one run, whose innermost frame is `frame`, and appends its frames. Returns that of the next
    /// run outwards, if there is one; `None` where the run has no end.
    fn remember_run(
        &mut self,
        sample: &mut Sample<'_>,
        frame: u64,
        left: &mut usize,
        runs: &mut Vec<LookedRun>,
    ) -> Option<Option<u64>> {
        let interpreter = Arc::clone(&self.interpreter);
        let codes = self.code_reader(&interpreter);
        let fields = super::fields(sample, codes, frame)?;
        if fields.is_native {
            *left -= 1;
            return Some(Some(fields.previous).filter(|previous| *previous != 0));
        }
        let (bytecode, innermost, _) = self.codes.frame(sample, codes, &fields)?;
        let mut frames = vec![LookedFrame { frame, bytecode, shown: innermost }];
        let end = self.follow(sample, codes, frame, |frame, bytecode, shown| {
            frames.push(LookedFrame { frame, bytecode, shown });
        })?;
        if !end.is_complete {
            return None;
        }
        let run: Arc<[PythonFrame]> = frames.iter().map(|frame| frame.shown.clone()).collect();
        for (LookedFrame { frame, bytecode, .. }, inner) in frames.iter().zip(1..).take(*left) {
            let outer = Outer { run: Arc::clone(&run), inner, is_complete: true, next: end.next };
            self.callers.add((sample.tid, *frame, *bytecode), outer);
        }
        *left = left.saturating_sub(run.len());
        runs.push(LookedRun { frames, entry: end.entry });
        Some(end.next)
    }
}

/// Returns the `PyThreadState` of a thread, by its number in the namespace of its process.
fn thread_state(reader: &mut Reader<'_>, layout: &ThreadLayout, runtime: u64, tid: Tid) -> Option<u64> {
    let mut interpreter = word(reader, runtime, layout.interpreters)?;
    for _ in 0..MAX_THREADS {
        let mut thread = word(reader, interpreter, layout.threads)?;
        for _ in 0..MAX_THREADS {
            if thread == 0 {
                break;
            }
            if word(reader, thread, layout.tid)? == tid.0 as u64 {
                return Some(thread);
            }
            thread = word(reader, thread, layout.next)?;
        }
        let next = word(reader, interpreter, layout.next_interpreter)?;
        interpreter = Some(next).filter(|next| *next != 0)?;
    }
    None
}

/// Returns the frame that a thread runs.
fn current_frame(reader: &mut Reader<'_>, layout: CurrentFrame, state: u64) -> Option<u64> {
    match layout {
        CurrentFrame::OfNative { cframe, current_frame } => {
            let native = word(reader, state, cframe)?;
            word(reader, native, current_frame)
        }
        CurrentFrame::OfThread(frame) => word(reader, state, frame),
    }
}

/// Returns where the outermost call of `_PyEval_EvalFrameDefault` of a thread keeps the frame that it runs: the address of
/// `_PyCFrame.current_frame`. Outside of it is one more, in the `PyThreadState`.
fn outermost_field(reader: &mut Reader<'_>, layout: CurrentFrame, state: u64) -> Option<u64> {
    let CurrentFrame::OfNative { cframe, current_frame } = layout else { return None };
    let mut native = word(reader, state, cframe)?;
    for _ in 0..MAX_NATIVE_FRAMES {
        let previous = word(reader, native, current_frame + 8)?;
        if word(reader, previous, current_frame + 8)? == 0 {
            return native.checked_add(current_frame);
        }
        native = previous;
    }
    None
}

fn word(reader: &mut Reader<'_>, base: u64, offset: u64) -> Option<u64> {
    reader.word(base.checked_add(offset)?)
}
