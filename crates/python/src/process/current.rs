//! The frames that a thread runs while its process is looked at.

use std::sync::Arc;

use memory::{Blocks, Reader};
use model::{Pid, ProcessMemory, Tid, Timestamp};

use super::{MAX_BLOCKS, PythonProcess, Sample};
use crate::Interpreter;
use crate::evidence::{Activation, Location};
use crate::layout::{CurrentFrame, ThreadLayout};
use crate::looks::{Look, read_frames};
use crate::votes::Votes;

/// The maximum number of threads and interpreters of a process among which one is looked for: each lies in a page of its own.
const MAX_THREADS: usize = 32;

/// A thread that can be looked at, at any time and from any thread of ours.
#[derive(Clone, Debug)]
pub struct ThreadView {
    interpreter: Arc<Interpreter>,
    process: Pid,
    thread: Tid,
    /// Its number in the namespace of its process.
    number: Tid,
    /// The address of its `PyThreadState`.
    state: u64,
}

impl ThreadView {
    /// Returns the process and the thread.
    pub fn thread(&self) -> (Pid, Tid) {
        (self.process, self.thread)
    }

    /// Reads what the thread runs now, at `time`; `None` where it has ended, or may not be read.
    pub fn look(&self, memory: &dyn ProcessMemory, time: Timestamp) -> Option<Look> {
        let mut blocks = Blocks::new(MAX_BLOCKS);
        let mut reader = Reader::new(memory, self.process, &mut blocks);
        let layout = self.interpreter.layout.thread.as_ref()?;
        if word(&mut reader, self.state, layout.tid)? != self.number.0 as u64 {
            return None;
        }
        let (mut native, mut current) = (None, None);
        let frame = match layout.frame {
            CurrentFrame::OfNative { cframe, current_frame } => {
                let address = word(&mut reader, self.state, cframe)?;
                native = Some((address, current_frame));
                current = address.checked_add(current_frame);
                // The call may have returned just now.
                word(&mut reader, address, current_frame).unwrap_or(0)
            }
            CurrentFrame::OfThread(frame) => word(&mut reader, self.state, frame)?,
        };
        let (frames, is_whole) = read_frames(&mut reader, &self.interpreter.layout.frame, frame, |reader| {
            let (address, current_frame) = native?;
            native = word(reader, address, current_frame + 8).map(|previous| (previous, current_frame));
            Some(address)
        });
        Some(Look { tid: self.thread, time, frames, is_whole, current })
    }
}

impl PythonProcess {
    /// Returns a view of a thread; `None` where it is not found, or may not be read.
    pub fn view(
        &mut self,
        memory: &dyn ProcessMemory,
        (process, thread): (Pid, Tid),
        time: Timestamp,
    ) -> Option<ThreadView> {
        let interpreter = Arc::clone(&self.interpreter);
        let mut blocks = Blocks::new(MAX_BLOCKS);
        let mut sample = Sample::new(Reader::new(memory, process, &mut blocks), time, thread);
        if !self.check(&mut sample) {
            return None;
        }
        let has_namespace = *self.has_namespace.get_or_insert_with(|| {
            let main = Tid(process.0);
            memory.own_number(main).is_some_and(|number| number != main)
        });
        let number = if has_namespace { memory.own_number(thread)? } else { thread };
        let runtime = self.address(interpreter.runtime);
        let state = thread_state(&mut sample.reader, interpreter.layout.thread.as_ref()?, runtime, number)?;
        Some(ThreadView { interpreter, process, thread, number, state })
    }

    /// Adds a look at a thread.
    pub fn add_look(&mut self, look: Look) {
        if !look.frames.is_empty() {
            self.looks.add(look);
        }
    }

    /// Learns where calls of `_PyEval_EvalFrameDefault` keep frames, by the look nearest to a sample.
    pub(super) fn learn_slots(&mut self, sample: &Sample<'_>, activations: &[Activation]) {
        let layout = &self.interpreter.layout;
        let is_native = layout
            .thread
            .as_ref()
            .is_some_and(|thread| matches!(thread.frame, CurrentFrame::OfNative { .. }));
        let wants_frame = is_native && self.frame_slot.known().is_none();
        let wants_caller = layout.frame.has_native_entries() && self.caller_slot.known().is_none();
        if !wants_frame && !wants_caller {
            return;
        }
        let nearest = self.looks.nearest((sample.tid, sample.time), |look| Some(Arc::clone(look)));
        let Some(look) = nearest.filter(|look| look.time != self.learned) else { return };
        self.learned = look.time;
        let slot = |address: u64| {
            let holding = activations.iter().filter(|of| of.end.is_some() && of.may_hold(address));
            let activation = holding.min_by_key(|of| of.end)?;
            Some((activation, Location::slot(activation.end?.checked_sub(address)?)?))
        };
        if wants_frame
            && let Some((activation, slot)) = look.current.and_then(slot)
            && let Some(frame) = activation.candidates.iter().find(|candidate| candidate.location == slot)
            && look.frames.iter().any(|of| of.frame == frame.word)
        {
            self.frame_slot.add(slot);
            if self.frame_slot.known().is_some() {
                // Until now, any word could be the frame. A call saves registers of the one outside of it: its frame and pointer, which
                // always agree, because that one waits.
                self.bytecode_votes = Votes::default();
            }
        }
        let entry = look.frames.iter().rev().find_map(|frame| frame.entry).flatten();
        if let Some(entry) = entry.filter(|_| wants_caller) {
            let field = entry.saturating_add(self.interpreter.layout.frame.previous);
            slot(field).into_iter().for_each(|(_, slot)| self.caller_slot.add(slot));
        }
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

fn word(reader: &mut Reader<'_>, base: u64, offset: u64) -> Option<u64> {
    reader.word(base.checked_add(offset)?)
}
