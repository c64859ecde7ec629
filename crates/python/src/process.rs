//! The Python functions that a process ran when a sample was taken.
//!
//! The address of the bytecode that the interpreter was executing is in a register or a word of the stack of the sample, so that it is as
//! old as the sample. It tells the innermost function. The functions outside of it are in frames of the interpreter, which are read
//! at other times, when the process is looked at (`looks`): those count that were outside of the function when it ran in the same frame.

mod current;

pub use current::ThreadView;

use std::collections::BTreeMap;
use std::sync::Arc;

use memory::{Blocks, Reader};
use model::{Pid, ProcessMemory, Svma, Tid, Timestamp};
use rustc_hash::FxHashMap;

use crate::Interpreter;
use crate::code::{Code, CodeReader};
use crate::copies::Copies;
use crate::evidence::{Activation, Candidate, Location};
use crate::looks::{
    FrameFields, LASTING_LOOKS, Look, LookedFrame, Looks, MAX_FRAME_DISTANCE, Position, code_of, read_frames,
};
use crate::misses::Misses;
use crate::run::{PythonFrame, Run};
use crate::votes::{FrameSlot, Votes};

/// A run that was found.
#[derive(Default)]
struct Found {
    run: Run,
    /// The frame of its innermost function, where that is known.
    frame: Option<u64>,
    /// That of the next run outwards, in a look.
    next: Option<Position>,
}

/// The functions outside of a frame in its run.
struct Outer {
    frames: Vec<PythonFrame>,
    is_complete: bool,
    /// The frame of the innermost function of the next run outwards.
    next: Option<Position>,
}

/// The Python functions of one program in one process.
#[derive(Debug)]
pub struct PythonProcess {
    interpreter: Arc<Interpreter>,
    /// The difference of an address of the process and one in the interpreter's file.
    bias: u64,
    state: State,
    /// True if its threads have numbers of their own, in a PID namespace; `None` as long as that was not asked.
    has_namespace: Option<bool>,
    codes: Codes,
    bytecode_votes: Votes,
    frame_votes: Votes,
    /// Where 3.11 and 3.12 keep the frame that a call runs (`_PyCFrame.current_frame`).
    frame_slot: FrameSlot,
    /// Where calls of 3.12 and later keep the frame that has called them (`previous` of the entry frame).
    caller_slot: FrameSlot,
    looks: Looks,
    /// The time of the last look by which the slots were learned.
    learned: Timestamp,
    samples: u32,
    blocks: Blocks,
    order: Vec<Candidate>,
}

/// The known memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It could not be read, and is not tried again before this time.
    Unread(Timestamp),
    /// It is that of a Python.
    Python,
    /// It is not.
    Other,
}

/// Nanoseconds until memory that could not be read is tried again: a process may be about to map it.
const RETRY_NANOSECONDS: u64 = 100_000_000;
/// Nanoseconds for which a code object is believed to be still at its address.
const TRUSTED_NANOSECONDS: u64 = 100_000_000;
/// The maximum number of bytes that the functions of a process take. With more, all are forgotten, and those that run are read again.
const MAX_CODE_BYTES: usize = 16 << 20;
/// The maximum number of copies of bytecode that are known, of some 50 bytes each; with more, all functions are forgotten.
const MAX_COPIES: usize = 64 << 10;
/// The maximum number of blocks of memory that are read for one sample: frames of 300 functions, or 30 functions that are new, lie in so
/// many.
const MAX_BLOCKS: usize = 96;

/// The interval, in samples, at which the places of all candidates are counted once there are enough votes.
const EXPLORING_SAMPLES: u32 = 32;
/// The number of places that are looked at in other samples.
const PLACES_LOOKED_AT: usize = 3;
/// The maximum number of addresses, in a sample, before which a code object is searched.
const MAX_SEARCHES: usize = 6;
/// The bytes before an address in which a code object is searched: far where the place holds bytecode pointers often.
const NEAR_BYTES: u64 = 4 << 10;
const FAR_BYTES: u64 = 128 << 10;

/// The maximum distance in bytes from an instruction to the next one: a unit of two, and up to nine units of what it has cached (the most
/// of any instruction of 3.11 to 3.14, `_PyOpcode_Caches`).
const MAX_INSTRUCTION_BYTES: u64 = 20;

/// One sample of the process.
struct Sample<'r> {
    reader: Reader<'r>,
    time: Timestamp,
    tid: Tid,
    searches: usize,
    is_exploring: bool,
    /// True for the innermost run of the sample, and for the outermost one.
    is_innermost: bool,
    is_outermost: bool,
    /// The frame of the run, where a slot of a native frame always has it, and that of the next run outwards.
    exact: Option<u64>,
    outer: Option<u64>,
}

impl<'r> Sample<'r> {
    /// Begins with the innermost run.
    fn new(reader: Reader<'r>, time: Timestamp, tid: Tid) -> Self {
        Self {
            reader,
            time,
            tid,
            searches: 0,
            is_exploring: false,
            is_innermost: true,
            is_outermost: true,
            exact: None,
            outer: None,
        }
    }
}

impl PythonProcess {
    /// Knows no function yet. `bias` is the difference of an address of the process and one in the file of `interpreter`.
    pub fn new(interpreter: Arc<Interpreter>, bias: u64) -> Self {
        Self {
            interpreter,
            bias,
            state: State::Unread(Timestamp(0)),
            has_namespace: None,
            codes: Codes::default(),
            bytecode_votes: Votes::default(),
            frame_votes: Votes::default(),
            frame_slot: FrameSlot::default(),
            caller_slot: FrameSlot::default(),
            looks: Looks::default(),
            learned: Timestamp(0),
            samples: 0,
            blocks: Blocks::new(MAX_BLOCKS),
            order: Vec::new(),
        }
    }

    /// Finds the runs of a sample of thread `tid`, innermost first, by the memory of the process as it is now. Returns `None` where the
    /// memory may not be read, or is not that of the interpreter.
    pub fn runs(
        &mut self,
        memory: &dyn ProcessMemory,
        (pid, tid): (Pid, Tid),
        time: Timestamp,
        activations: &[Activation],
    ) -> Option<Vec<Run>> {
        let without_ends: Vec<Activation>;
        let activations = if self.interpreter.has_tail_calls {
            without_ends = activations.iter().map(|of| Activation { end: None, ..of.clone() }).collect();
            &without_ends
        } else {
            activations
        };
        let mut blocks = std::mem::replace(&mut self.blocks, Blocks::new(0));
        let reader = Reader::new(memory, pid, &mut blocks);
        let is_exploring = self.samples.is_multiple_of(EXPLORING_SAMPLES);
        let mut sample = Sample::new(reader, time, tid);
        let runs = self.check(&mut sample).then(|| {
            self.samples = self.samples.wrapping_add(1);
            self.codes.forget_misses(time);
            self.learn_slots(&sample, activations);
            let (mut next, mut inner) = (None, None);
            let runs = activations.iter().zip(1..).map(|(activation, number)| {
                sample.is_outermost = number == activations.len();
                sample.exact = self.frame_slot.frame_of(activation);
                sample.outer = activations.get(number).and_then(|outer| self.frame_slot.frame_of(outer));
                if sample.exact.is_none()
                    && let Some(frame) = inner.and_then(|inner| self.caller_slot.frame_of(inner))
                {
                    sample.exact = Some(frame);
                    self.frame_votes.add_word(activation, frame);
                }
                sample.is_exploring = is_exploring || self.bytecode_votes.wants_more(activation.site);
                sample.is_innermost = inner.is_none();
                let linked =
                    next.take().filter(|(look, depth): &Position| look.may_be_of(*depth, activation));
                let found = self.run(&mut sample, activation, linked);
                (next, inner) = (found.next, Some(activation));
                let mut run = found.run;
                if !run.is_complete {
                    run.lasting = self.lasting(&mut sample, activation, found.frame);
                }
                run.remove_interpreters_own();
                run
            });
            runs.collect()
        });
        self.blocks = blocks;
        runs
    }

    fn code_reader<'i>(&self, interpreter: &'i Interpreter) -> CodeReader<'i> {
        CodeReader {
            layout: &interpreter.layout,
            code_type: self.address(interpreter.code_type),
            text_type: self.address(interpreter.text_type),
        }
    }

    /// Returns true if the memory is that of a Python: the types have their names.
    fn check(&mut self, sample: &mut Sample<'_>) -> bool {
        if let State::Unread(until) = self.state
            && sample.time >= until
        {
            let Interpreter { code_type, text_type, .. } = *self.interpreter;
            self.state = match (
                self.has_name(sample, code_type, b"code\0"),
                self.has_name(sample, text_type, b"str\0"),
            ) {
                (Some(true), Some(true)) => State::Python,
                (Some(_), Some(_)) => State::Other,
                _ => State::Unread(Timestamp(sample.time.0.saturating_add(RETRY_NANOSECONDS))),
            };
        }
        self.state == State::Python
    }

    fn has_name<const LENGTH: usize>(
        &self,
        sample: &mut Sample<'_>,
        kind: Svma,
        name: &[u8; LENGTH],
    ) -> Option<bool> {
        let name_at =
            sample.reader.word(self.address(kind).checked_add(self.interpreter.layout.type_name)?)?;
        Some(sample.reader.array(name_at)? == *name)
    }

    /// Returns the address of a variable of the interpreter in the process.
    fn address(&self, variable: Svma) -> u64 {
        variable.0.wrapping_add(self.bias)
    }

    /// Finds one run. `linked` is the frame of its innermost function, if the run before has led to it.
    fn run(&mut self, sample: &mut Sample<'_>, activation: &Activation, linked: Option<Position>) -> Found {
        let interpreter = Arc::clone(&self.interpreter);
        let codes = self.code_reader(&interpreter);
        let linked_frame = linked.as_ref().and_then(|(look, depth)| Some(look.at(*depth)?.frame));
        let known = sample.exact.or(linked_frame);
        let at_frame =
            |this: &mut Self, sample: &mut Sample<'_>| this.at_frame(sample, codes, activation, known?);
        let found = if sample.is_innermost {
            self.find_bytecode(sample, codes, activation).or_else(|| at_frame(self, sample))
        } else {
            // What has called natively waits, and is most probably where it was when the sample was taken.
            at_frame(self, sample).or_else(|| self.find_bytecode(sample, codes, activation))
        };
        let Some((candidate, bytecode)) = found else {
            let position = linked.or_else(|| self.lasting_innermost(sample, activation));
            let found = position.and_then(|position| self.run_at(sample, codes, &position));
            return found.unwrap_or_else(|| Found { frame: known, ..Found::default() });
        };
        let Some(code) = self.codes.by_bytecode.get(&bytecode) else { return Found::default() };
        let next = self.codes.copies.in_object(candidate.word);
        let (object, line) = (code.object, code.line_at(next.saturating_sub(1)));
        let innermost = PythonFrame { function: Arc::clone(&code.function), line };
        let (position, frame) = self.find_frame(sample, codes, activation, object, linked);
        if sample.is_exploring {
            self.vote(sample, codes, activation);
        }
        let outer = match position {
            Some(position) => Some(self.outside(sample, codes, &position)),
            None => frame.and_then(|frame| self.outside_of_left(sample, codes, activation, frame, object)),
        };
        let mut run = Run { frames: vec![innermost], ..Run::default() };
        let Some(outer) = outer else { return Found { run, frame, next: None } };
        run.frames.extend(outer.frames);
        run.is_complete = outer.is_complete;
        Found { run, frame, next: outer.next }
    }

    /// Finds the candidate that is at the instruction at which `frame` is, and the bytecode.
    fn at_frame(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        activation: &Activation,
        frame: u64,
    ) -> Option<(Candidate, u64)> {
        let fields = FrameFields::read(&mut sample.reader, &codes.layout.frame, frame);
        let fields = fields.filter(|fields| !fields.is_native)?;
        let bytecode = self.codes.of_object(sample, codes, fields.code)?;
        let code = self.codes.by_bytecode.get(&bytecode)?;
        let copies = &self.codes.copies;
        let inside = activation.candidates.iter().filter_map(|candidate| {
            let next = copies.in_object(candidate.word);
            code.has_executed(next).then_some((*candidate, next))
        });
        let nexts = inside.clone().map(|(_, next)| next);
        let instruction = self.codes.instruction(&mut sample.reader, fields.instruction, nexts)?;
        let (candidate, _) = inside.clone().find(|(_, next)| instruction.goes_on_at(*next))?;
        Some((candidate, bytecode))
    }

    /// Finds the bytecode that an activation ran: the candidate that points into it, and its address in `self.codes`.
    fn find_bytecode(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        activation: &Activation,
    ) -> Option<(Candidate, u64)> {
        let mut order = std::mem::take(&mut self.order);
        self.bytecode_votes.sort(activation, &mut order);
        let frame = sample.exact.or_else(|| self.frame_votes.likely_place(activation));
        if let Some(frame) = frame.filter(|_| !self.bytecode_votes.knows(activation.site)) {
            // Where functions always return before they are read there are no votes: one that was seen at this frame comes first.
            let is_seen = |candidate: &Candidate| {
                let bytecode = self.codes.holding(candidate.word);
                let code = bytecode.and_then(|bytecode| self.codes.by_bytecode.get(&bytecode));
                code.is_some_and(|code| self.seen(sample, activation, frame, code.object).is_some())
            };
            order.sort_by_key(|candidate| !is_seen(candidate));
        }
        let found = order.iter().find_map(|candidate| {
            if let Some(bytecode) = self.codes.known(sample, codes, candidate.word) {
                return Some((*candidate, bytecode));
            }
            if sample.searches >= MAX_SEARCHES || self.codes.in_no_bytecode.contains(candidate.word) {
                return None;
            }
            sample.searches += 1;
            let most =
                if self.bytecode_votes.at(activation.site).are_enough() { FAR_BYTES } else { NEAR_BYTES };
            let blank = &mut self.codes.blank_blocks;
            match codes.find(&mut sample.reader, candidate.word, most, blank) {
                Some(code) => Some((*candidate, self.codes.insert(sample, codes, code))),
                None => {
                    self.codes.in_no_bytecode.insert(candidate.word);
                    None
                }
            }
        });
        self.order = order;
        found.or_else(|| self.find_copy(sample, codes, activation))
    }

    /// Finds bytecode in a copy that only its thread runs: nothing before it tells whose it is, but the code object of a frame does.
    fn find_copy(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        activation: &Activation,
    ) -> Option<(Candidate, u64)> {
        if !codes.has_copies() {
            return None;
        }
        let mut order = std::mem::take(&mut self.order);
        self.frame_votes.sort(activation, &mut order);
        let objects = order.iter().filter_map(|candidate| {
            let object = code_of(&mut sample.reader, &codes.layout.frame, candidate.word)?;
            codes.is_code(&mut sample.reader, object).then_some(object)
        });
        let objects: Vec<u64> = objects.take(MAX_SEARCHES).collect();
        self.order = order;
        objects.into_iter().find_map(|object| {
            let bytecode = self.codes.of_object(sample, codes, object)?;
            self.codes.read_copies(sample, codes, bytecode);
            let code = self.codes.by_bytecode.get(&bytecode)?;
            let copies = &self.codes.copies;
            let ran = activation
                .candidates
                .iter()
                .find(|candidate| code.has_executed(copies.in_object(candidate.word)));
            Some((*ran?, bytecode))
        })
    }

    /// Returns where a frame of a code object was seen, in the look nearest to the sample.
    fn seen(
        &self,
        sample: &Sample<'_>,
        activation: &Activation,
        frame: u64,
        object: u64,
    ) -> Option<Position> {
        let is_it = |of: &LookedFrame| (of.frame, of.object) == (frame, object);
        self.looks.nearest((sample.tid, sample.time), |look| {
            Some((Arc::clone(look), look.find(activation, is_it)?))
        })
    }

    /// Finds the frame of the innermost function, which has the code object `object`, in the look nearest to the sample that has seen it, and
    /// else in the memory as it is now; and the one that was most probably the frame when the sample was taken.
    fn find_frame(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        activation: &Activation,
        object: u64,
        linked: Option<Position>,
    ) -> (Option<Position>, Option<u64>) {
        let linked_frame = linked.as_ref().and_then(|(look, depth)| Some(look.at(*depth)?.frame));
        let mut order = std::mem::take(&mut self.order);
        let (places, guess): (Vec<u64>, _) = if let Some(exact) = sample.exact {
            (vec![exact], Some(exact))
        } else {
            self.frame_votes.sort(activation, &mut order);
            let most = if sample.is_exploring { order.len() } else { PLACES_LOOKED_AT };
            let places = order.iter().take(most).map(|candidate| candidate.word).chain(linked_frame);
            // A wrong one was seen in no look.
            let guess = order.first().filter(|_| self.frame_votes.at(activation.site).are_likely());
            (places.collect(), guess.map(|candidate| candidate.word).or(linked_frame))
        };
        self.order = order;
        let is_linked = |(look, depth): &Position| {
            look.at(*depth).is_some_and(|of| of.object == object && places.contains(&of.frame))
        };
        if let Some(linked) = linked.filter(is_linked) {
            let frame = linked_frame.or(guess);
            return (Some(linked), frame);
        }
        let seen = places.iter().find_map(|frame| self.seen(sample, activation, *frame, object));
        let position = seen.or_else(|| self.look_now(sample, codes, activation, &places, object));
        let position = position.or_else(|| self.looks.in_others(sample.tid, guess?, object));
        let found = position.as_ref().and_then(|(look, depth)| Some(look.at(*depth)?.frame));
        let is_own = |frame: &u64| places.contains(frame);
        (position, found.filter(is_own).or(guess))
    }

    /// Looks at the first of `places` that is a frame of the code object `object` in the memory as it is now.
    fn look_now(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        activation: &Activation,
        places: &[u64],
        object: u64,
    ) -> Option<Position> {
        let layout = &codes.layout.frame;
        let mut is_frame = |frame: &&u64| code_of(&mut sample.reader, layout, **frame) == Some(object);
        let frame = *places.iter().find(|frame| is_frame(frame))?;
        let (frames, is_whole) = read_frames(&mut sample.reader, layout, frame, |_| None);
        let look = Look { tid: sample.tid, time: sample.time, frames, is_whole, current: None };
        // A look at 3.11 without its thread does not tell which call runs a frame, but another one runs that of the next run.
        let mut is_inside = true;
        let is_outer = |of: &LookedFrame| {
            std::mem::replace(&mut is_inside, of.entry.is_none()) && Some(of.frame) == sample.outer
        };
        let is_others = look.frames.iter().any(is_outer);
        (!is_others && look.may_be_of(0, activation)).then(|| (Arc::new(look), 0))
    }

    /// Counts the places of all bytecode pointers and frames that agree: that are at the same instruction. What has returned since has left a
    /// pointer and a frame that are of the same function, but its frame is at its last instruction. Code that calls nothing goes on between
    /// sample and reading: there the same function is enough.
    fn vote(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, activation: &Activation) {
        let pointers: Vec<VotingPointer> = activation
            .candidates
            .iter()
            .filter_map(|candidate| {
                let function = self.codes.holding(candidate.word)?;
                let next = self.codes.copies.in_object(candidate.word);
                Some(VotingPointer { location: candidate.location, function, next })
            })
            .collect();
        let mut frame = |location, word: u64| {
            let object = code_of(&mut sample.reader, &codes.layout.frame, word)?;
            let function = *self.codes.by_object.get(&object)?;
            let address = sample.reader.word(word.checked_add(codes.layout.frame.instruction)?)?;
            let inside = pointers.iter().filter(|pointer| pointer.function == function);
            let nexts = inside.map(|pointer| pointer.next);
            let instruction = self.codes.instruction(&mut sample.reader, address, nexts)?;
            Some(VotingFrame { location, function, instruction })
        };
        let frames: Vec<VotingFrame> = match sample.exact {
            Some(exact) => frame(None, exact).into_iter().collect(),
            None => {
                let candidates = activation.candidates.iter();
                candidates.filter_map(|candidate| frame(Some(candidate.location), candidate.word)).collect()
            }
        };
        let in_function = |pointer: &VotingPointer, frame: &VotingFrame| pointer.function == frame.function;
        let at_instruction = |pointer: &VotingPointer, frame: &VotingFrame| {
            in_function(pointer, frame) && frame.instruction.goes_on_at(pointer.next)
        };
        let any = |agree: &Agreement<'_>| {
            pointers.iter().any(|pointer| frames.iter().any(|frame| agree(pointer, frame)))
        };
        let agree: &Agreement<'_> = if any(&at_instruction) {
            &at_instruction
        } else if activation.site.is_none() && any(&in_function) {
            &in_function
        } else {
            // The process has gone on since.
            return;
        };
        for pointer in &pointers {
            let is_right = frames.iter().any(|frame| agree(pointer, frame));
            self.bytecode_votes.add(activation.site, pointer.location, is_right);
        }
        for frame in &frames {
            if let Some(location) = frame.location {
                let is_right = pointers.iter().any(|pointer| agree(pointer, frame));
                self.frame_votes.add(activation.site, location, is_right);
            }
        }
    }

    /// Finds a run by the frame of its innermost function alone.
    fn run_at(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        position: &Position,
    ) -> Option<Found> {
        let of = position.0.at(position.1)?;
        let (_, innermost, _) = self.codes.frame(sample, codes, of)?;
        let outer = self.outside(sample, codes, position);
        let frames = [innermost].into_iter().chain(outer.frames).collect();
        let run = Run { frames, is_complete: outer.is_complete, lasting: Vec::new() };
        Some(Found { run, frame: Some(of.frame), next: outer.next })
    }

    /// Returns the functions outside of a frame in its run.
    fn outside(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, (look, depth): &Position) -> Outer {
        let mut outer = Outer { frames: Vec::new(), is_complete: false, next: None };
        let frames = look.frames.iter().skip(*depth);
        for ((inner, outside), depth) in
            frames.clone().zip(frames.skip(1).map(Some).chain([None])).zip(*depth + 1..)
        {
            if inner.entry.is_some() {
                outer.is_complete = true;
                outer.next = outside.map(|_| (Arc::clone(look), depth));
                break;
            }
            let Some(outside) = outside else {
                if look.is_whole && sample.is_outermost && inner.is_stacked {
                    outer.is_complete = true;
                } else if look.is_whole {
                    // A greenlet that is left has a chain without entries (`expose_frames`, since 3.12): of several calls, maybe.
                    outer.frames.clear();
                }
                break;
            };
            let Some((_, shown, frame_bytes)) = self.codes.frame(sample, codes, outside) else { break };
            // A frame that was left stays in memory, while another function's takes the place of its caller's.
            let is_caller = !(inner.is_stacked && outside.is_stacked)
                || inner
                    .frame
                    .checked_sub(outside.frame)
                    .is_none_or(|distance| distance == frame_bytes || distance > MAX_FRAME_DISTANCE);
            if !is_caller {
                break;
            }
            outer.frames.push(shown);
        }
        outer
    }

    /// Returns the functions outside of one that has returned, and whose frame the interpreter clears: `frame` is its caller's then. Known
    /// where that lasts.
    fn outside_of_left(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        activation: &Activation,
        frame: u64,
        object: u64,
    ) -> Option<Outer> {
        activation.site.filter(|_| sample.is_innermost)?;
        let ((look, first), _) = self.looks.lasting((sample.tid, sample.time), LASTING_LOOKS)?;
        let is_caller = |of: &LookedFrame| of.frame == frame && of.object != object;
        let depth = (first..look.frames.len()).find(|depth| look.at(*depth).is_some_and(is_caller))?;
        let position = Some((look, depth)).filter(|(look, depth)| look.may_be_of(*depth, activation))?;
        let found = self.run_at(sample, codes, &position)?;
        Some(Outer { frames: found.run.frames, is_complete: found.run.is_complete, next: found.next })
    }

    /// Returns the innermost frame of a call of which the sample tells the frame at most, if it ran at the looks before and behind
    /// the sample: the function that ran is the one that lasts, and not an unknown one inside of it.
    fn lasting_innermost(&self, sample: &Sample<'_>, activation: &Activation) -> Option<Position> {
        // A frame that the sample has is in few functions within two milliseconds.
        let count = if sample.exact.is_some() { 1 } else { LASTING_LOOKS };
        let ((look, first), is_whole) = self.looks.lasting((sample.tid, sample.time), count)?;
        let depth = match sample.exact {
            Some(exact) => (first..look.frames.len())
                .find(|depth| look.at(*depth).is_some_and(|of| of.frame == exact))?,
            None => Some(first).filter(|_| is_whole && sample.is_innermost)?,
        };
        look.may_be_of(depth, activation).then_some((look, depth))
    }

    /// Returns the functions that a call ran at the looks before and behind the sample, outside of `frame`: all where
    /// that is not known. Frames lie outwards at lower addresses, so that one which is not lower came later.
    fn lasting(
        &mut self,
        sample: &mut Sample<'_>,
        activation: &Activation,
        frame: Option<u64>,
    ) -> Vec<PythonFrame> {
        let interpreter = Arc::clone(&self.interpreter);
        let codes = self.code_reader(&interpreter);
        let at = (sample.tid, sample.time);
        let Some(((look, between), _)) = self.looks.lasting(at, 1) else { return Vec::new() };
        let lasting = self.looks.lasting(at, LASTING_LOOKS).map(|((_, first), _)| first);
        let (mut functions, mut lasts) = (Vec::new(), false);
        for (depth, of) in look.frames.iter().enumerate().skip(between) {
            let Some((_, shown, _)) = self.codes.frame(sample, codes, of) else { continue };
            // The code of a module runs once: if it is there before and behind, it was, and so was what is outside of it.
            lasts |= lasting.is_some_and(|first| depth >= first) || shown.function.name == MODULE;
            let is_outside =
                frame.is_none_or(|frame| of.frame < frame || of.frame - frame > MAX_FRAME_DISTANCE);
            if lasts && is_outside && look.is_of(depth, activation) {
                functions.push(shown);
            }
        }
        functions
    }
}

/// The name of the code of a module, which an import runs.
const MODULE: &str = "<module>";

/// A place that holds a pointer to bytecode, with the function, and the address in its code object.
struct VotingPointer {
    location: Location,
    function: u64,
    next: u64,
}

/// A frame, the place that holds it if one does, its function and its instruction.
struct VotingFrame {
    location: Option<Location>,
    function: u64,
    instruction: Instruction,
}

type Agreement<'a> = dyn Fn(&VotingPointer, &VotingFrame) -> bool + 'a;

/// An instruction of bytecode that a frame executes.
struct Instruction {
    address: u64,
    /// `None` where it cannot matter.
    argument: Option<u8>,
}

impl Instruction {
    /// Returns true if the interpreter's pointer can be at `next` while it executes this: behind it, or where it jumps back to. The argument
    /// of a jump is how many units it goes back, from behind itself or one unit that is cached (3.13).
    fn goes_on_at(&self, next: u64) -> bool {
        let jumps_from = |end: u64| {
            let back = self.address.saturating_add(end).checked_sub(next);
            back.is_some_and(|bytes| bytes > 0 && Some((bytes / 2) as u8) == self.argument)
        };
        match next.checked_sub(self.address) {
            Some(distance) => distance <= MAX_INSTRUCTION_BYTES,
            None => jumps_from(2) || jumps_from(4),
        }
    }
}

/// The functions of a process that were read.
#[derive(Default, Debug)]
struct Codes {
    by_bytecode: BTreeMap<u64, TimedCode>,
    /// The bytecode of each code object.
    by_object: FxHashMap<u64, u64>,
    copies: Copies,
    /// The bytes that all take.
    bytes: usize,
    /// Addresses in no bytecode.
    in_no_bytecode: Misses,
    /// Addresses at which there is no code object.
    no_objects: Misses,
    /// Blocks of memory in which no code object begins.
    blank_blocks: Misses,
}

/// A code object, and when it was seen at its address.
#[derive(Debug)]
struct TimedCode {
    code: Code,
    seen: Timestamp,
}

impl std::ops::Deref for TimedCode {
    type Target = Code;

    fn deref(&self) -> &Code {
        &self.code
    }
}

impl Codes {
    /// Returns the bytecode of the known function that has executed the instruction before `next`, if it is still there.
    fn known(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, next: u64) -> Option<u64> {
        let bytecode = self.holding(next)?;
        // With the function, its copies are read anew.
        let is_current = self.is_current(sample, codes, bytecode);
        (is_current && self.holding(next) == Some(bytecode)).then_some(bytecode)
    }

    /// Returns the bytecode that holds the instruction before `next`, in a code object or in a copy.
    fn holding(&self, next: u64) -> Option<u64> {
        let next = self.copies.in_object(next);
        let (bytecode, code) = self.by_bytecode.range(..next).next_back()?;
        code.has_executed(next).then_some(*bytecode)
    }

    /// Returns true if a known code object is still there. Forgets it otherwise.
    fn is_current(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, bytecode: u64) -> bool {
        let Some(known) = self.by_bytecode.get_mut(&bytecode) else { return false };
        if sample.time.0.saturating_sub(known.seen.0) < TRUSTED_NANOSECONDS {
            return true;
        }
        let is_current = codes.is_unchanged(&mut sample.reader, &known.code);
        known.seen = sample.time;
        if is_current {
            self.read_copies(sample, codes, bytecode);
        } else {
            self.remove(bytecode);
        }
        is_current
    }

    /// Reads where the copies of a bytecode are now.
    fn read_copies(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, bytecode: u64) {
        if let Some(known) = self.by_bytecode.get(&bytecode).filter(|_| codes.has_copies())
            && self.copies.len() < MAX_COPIES
        {
            let starts = codes.copies(&mut sample.reader, &known.code);
            self.copies.set(bytecode, known.size, starts);
        }
    }

    /// Returns the bytecode of a code object, which is read unless it is known.
    fn of_object(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, object: u64) -> Option<u64> {
        let known = self.by_object.get(&object).copied();
        if let Some(bytecode) = known.filter(|bytecode| self.is_current(sample, codes, *bytecode)) {
            return Some(bytecode);
        }
        // Frames that were left hold anything.
        if self.no_objects.contains(object) {
            return None;
        }
        match codes.read(&mut sample.reader, object) {
            Some(code) => Some(self.insert(sample, codes, code)),
            None => {
                self.no_objects.insert(object);
                None
            }
        }
    }

    /// Reads the instruction at an address in a code object or in a copy, for [`Instruction::goes_on_at`] any of `nexts`.
    fn instruction(
        &self,
        reader: &mut Reader<'_>,
        address: u64,
        mut nexts: impl Iterator<Item = u64>,
    ) -> Option<Instruction> {
        let in_object = self.copies.in_object(address);
        let argument = match nexts.any(|next| next < in_object) {
            true => Some(reader.array::<2>(address)?[1]),
            false => None,
        };
        Some(Instruction { address: in_object, argument })
    }

    /// Returns the bytecode, the function and the line of a frame, and the frame's size in bytes.
    fn frame(
        &mut self,
        sample: &mut Sample<'_>,
        codes: CodeReader<'_>,
        of: &LookedFrame,
    ) -> Option<(u64, PythonFrame, u64)> {
        let bytecode = self.of_object(sample, codes, of.object)?;
        let code = self.by_bytecode.get(&bytecode)?;
        let line = code.line_at(self.copies.in_object(of.instruction));
        Some((bytecode, PythonFrame { function: Arc::clone(&code.function), line }, code.frame_bytes))
    }

    /// Adds a code object, in place of those that its bytecode overlaps. Returns the address of its bytecode.
    fn insert(&mut self, sample: &mut Sample<'_>, codes: CodeReader<'_>, code: Code) -> u64 {
        if self.bytes >= MAX_CODE_BYTES || self.copies.len() >= MAX_COPIES {
            *self = Self::default();
        }
        let (bytecode, end) = (code.bytecode, code.bytecode.saturating_add(code.size));
        let before = self.by_bytecode.range(..bytecode).next_back();
        let before = before.filter(|(_, known)| known.bytecode.saturating_add(known.size) > bytecode);
        let overlapped: Vec<u64> = before
            .into_iter()
            .chain(self.by_bytecode.range(bytecode..end))
            .map(|(start, _)| *start)
            .collect();
        overlapped.into_iter().for_each(|start| self.remove(start));
        self.bytes += code.size_in_memory();
        self.by_object.insert(code.object, bytecode);
        self.by_bytecode.insert(bytecode, TimedCode { code, seen: sample.time });
        self.read_copies(sample, codes, bytecode);
        bytecode
    }

    fn forget_misses(&mut self, now: Timestamp) {
        let Self { in_no_bytecode, no_objects, blank_blocks, .. } = self;
        [in_no_bytecode, no_objects, blank_blocks].into_iter().for_each(|misses| misses.forget_old(now));
    }

    fn remove(&mut self, bytecode: u64) {
        if let Some(known) = self.by_bytecode.remove(&bytecode) {
            self.by_object.remove(&known.object);
            self.copies.remove(bytecode);
            self.bytes = self.bytes.saturating_sub(known.size_in_memory());
        }
    }
}

#[cfg(test)]
mod tests;
