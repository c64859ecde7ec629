//! The functions that a thread runs while its process is looked at.
//!
//! Most functions have returned when a sample's turn has come. But the same call lies in the same frame again and again: what called it is
//! known from one time that it was seen there, and a look at any time sees one.

use std::sync::Arc;

use memory::Reader;
use model::{Pid, ProcessMemory, Tid, Timestamp};

use super::{Outer, PythonFrame, PythonProcess, Sample};
use crate::layout::ThreadLayout;

/// The maximum number of threads and interpreters of a process among which one is looked for: each lies in a page of its own.
const MAX_THREADS: usize = 32;
/// The maximum number of frames of one look whose callers are remembered, innermost first.
const MAX_LOOKED_AT: usize = 64;

impl PythonProcess {
    /// Remembers the callers of the functions that thread `tid` runs now. Does nothing where its frames are not found, or may not be read.
    pub fn look_at(&mut self, memory: &dyn ProcessMemory, (pid, tid): (Pid, Tid), time: Timestamp) {
        let interpreter = Arc::clone(&self.interpreter);
        let Some(layout) = &interpreter.layout.thread else { return };
        let mut blocks = std::mem::replace(&mut self.blocks, memory::Blocks::new(0));
        let reader = Reader::new(memory, pid, &mut blocks);
        let mut sample = Sample { reader, time, tid, searches: 0, is_exploring: false };
        if self.check(&mut sample) {
            let runtime = self.address(interpreter.runtime);
            let mut frame = current_frame(&mut sample.reader, layout, runtime, tid);
            let mut left = MAX_LOOKED_AT;
            while let Some(innermost) = frame.filter(|_| left > 0) {
                frame = self.remember_run(&mut sample, innermost, &mut left);
            }
        }
        self.blocks = blocks;
    }

    /// Remembers the callers of the functions of one run, whose innermost frame is `frame`. Returns that of the next run outwards.
    fn remember_run(&mut self, sample: &mut Sample<'_>, frame: u64, left: &mut usize) -> Option<u64> {
        let interpreter = Arc::clone(&self.interpreter);
        let codes = self.code_reader(&interpreter);
        let fields = super::fields(sample, codes, frame)?;
        if fields.is_native {
            *left -= 1;
            return Some(fields.previous).filter(|previous| *previous != 0);
        }
        let (bytecode, innermost, _) = self.codes.frame(sample, codes, &fields)?;
        let (mut run, mut callers) = (vec![innermost], vec![(frame, bytecode)]);
        let end = self.follow(sample, codes, frame, |frame, bytecode, shown| {
            run.push(shown);
            callers.push((frame, bytecode));
        })?;
        if !end.is_complete {
            return None;
        }
        let run: Arc<[PythonFrame]> = run.into();
        for ((frame, bytecode), inner) in callers.into_iter().zip(1..).take(*left) {
            let outer = Outer { run: Arc::clone(&run), inner, is_complete: true, next: end.next };
            self.remember((sample.tid, frame, bytecode), outer);
        }
        *left = left.saturating_sub(run.len());
        end.next
    }
}

/// Returns the frame that a thread runs.
fn current_frame(reader: &mut Reader<'_>, layout: &ThreadLayout, runtime: u64, tid: Tid) -> Option<u64> {
    let mut word = |base: u64, offset: u64| reader.word(base.checked_add(offset)?);
    let mut interpreter = word(runtime, layout.interpreters)?;
    for _ in 0..MAX_THREADS {
        let mut thread = word(interpreter, layout.threads)?;
        for _ in 0..MAX_THREADS {
            if thread == 0 {
                break;
            }
            if word(thread, layout.tid)? == tid.0 as u64 {
                return layout.frame.iter().flatten().try_fold(thread, |state, &offset| word(state, offset));
            }
            thread = word(thread, layout.next)?;
        }
        interpreter = Some(word(interpreter, layout.next_interpreter)?).filter(|next| *next != 0)?;
    }
    None
}
