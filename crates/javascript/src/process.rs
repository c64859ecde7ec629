//! The JavaScript functions that a process ran when a sample was taken.
//!
//! A frame of an interpreted function holds the function and its bytecode; the address of compiled code leads to the code, and that to its
//! function. Both are of the sample itself. The objects are read later: the collector may have moved them, and others may lie in their place.
//! So a function of the stack counts only if its bytecode is that of the stack, too. Bytecode, code and what they lead to are moved seldom;
//! functions that were found by them are kept, and compared with what lies there every 100 ms.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory::{Blocks, Reader};
use model::{Avma, Pid, ProcessMemory, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{CodeMaps, Compiled, InlinedFrame, Kind};
use crate::function::{Facts, JavaScriptFunction, SharedFunction, Tier};
use crate::heap::{Heap, small_integer};
use crate::lines::Scripts;
use crate::positions::Positions;
use crate::v8::V8;

/// One JavaScript function on a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JavaScriptFrame {
    /// The function.
    pub function: Arc<JavaScriptFunction>,
    /// The line that it executed, or from which it called: one of the function's; its first one where no other is known.
    pub line: u32,
}

/// Words of a native frame, at the places that V8 has for them below the frame pointer: what they are the caller does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameWords {
    /// The function.
    pub function: u64,
    /// In interpreted functions, and those that Sparkplug compiled: the bytecode.
    pub bytecode: u64,
    /// In interpreted functions: the offset of the bytecode, as a small integer of V8.
    pub offset: u64,
}

/// A native frame that may be one of V8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameOf {
    /// Its code is a built-in through which interpreted functions run. Its words may lie beyond the copy of the stack.
    Interpreted(Option<FrameWords>),
    /// Its code lies in memory without a file, at this address: of a return address, one before.
    Generated(Avma, Option<FrameWords>),
}

/// The JavaScript of a native frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The functions, innermost first; never empty.
    Functions(Vec<JavaScriptFrame>),
    /// Code of a regular expression.
    Regexp,
    /// A function that was not found.
    Unknown,
    /// It is no function of a script.
    Other,
}

/// The JavaScript functions of one program in one process.
#[derive(Debug)]
pub struct JavaScriptProcess {
    v8: Arc<V8>,
    /// True once something of the process was read.
    is_readable: bool,
    known: Known,
    blocks: Blocks,
}

/// What was read of a process.
#[derive(Default, Debug)]
struct Known {
    /// By the address of the `SharedFunctionInfo`.
    functions: FxHashMap<u64, Facts>,
    /// By the address of the bytecode.
    bytecodes: FxHashMap<u64, Bytecode>,
    /// By the address of the first instruction.
    codes: BTreeMap<u64, Compiled>,
    scripts: Scripts,
    maps: CodeMaps,
    /// The bytes that all take.
    bytes: usize,
    /// Of frames without the words of a function, and of those with them: code of WebAssembly uses up no searches for functions.
    misses: [Misses; 2],
}

/// Bytecode of a function.
#[derive(Debug)]
struct Bytecode {
    shared: u64,
    positions: Option<Positions>,
    /// The time at which it was seen to be the function's.
    seen: Timestamp,
}

/// Pages in which no code of V8 was found.
#[derive(Default, Debug)]
struct Misses {
    pages: FxHashSet<u64>,
    /// The time since which they are remembered.
    since: Timestamp,
}

/// Nanoseconds for which an object is believed to be still at its address.
const TRUSTED_NANOSECONDS: u64 = 100_000_000;
/// Nanoseconds for which what lay at an address stands for it where nothing lies there any more: samples are up to 200 ms old when the
/// process is read, and the collector may have come in between.
const GRACE_NANOSECONDS: u64 = 500_000_000;
/// The maximum number of bytes that what is known of a process takes. With more, all is forgotten, and what runs is read again.
const MAX_KNOWN_BYTES: usize = 24 << 20;
/// The maximum number of blocks of memory that are read for one sample: some 20 functions that are new lie in so many.
const MAX_BLOCKS: usize = 160;
/// The maximum number of searches for code in a sample.
const MAX_SEARCHES: usize = 8;
/// The maximum number of searches in a second that find nothing: each reads 256 KiB, in 0.1 ms.
const MAX_MISSES: usize = 32;
const MISS_NANOSECONDS: u64 = 1_000_000_000;
const PAGE_BYTES: u64 = 4096;
/// The maximum size of the table of positions of bytecode, in bytes.
const MAX_POSITION_BYTES: usize = 128 << 10;
/// Objects that lead from a function to its bytecode.
const MAX_STEPS: usize = 4;

impl JavaScriptProcess {
    /// Knows no function yet.
    pub fn new(v8: Arc<V8>) -> Self {
        Self { v8, is_readable: false, known: Known::default(), blocks: Blocks::new(MAX_BLOCKS) }
    }

    /// Finds the functions of native frames of a sample, by the memory of the process as it is now. Returns `None` where the memory may not be
    /// read, or has never been.
    pub fn find(
        &mut self,
        memory: &dyn ProcessMemory,
        pid: Pid,
        time: Timestamp,
        frames: impl Iterator<Item = FrameOf> + Clone,
    ) -> Option<Vec<Found>> {
        let Self { v8, is_readable, known, blocks } = self;
        let mut reader = Reader::new(memory, pid, blocks);
        let heap = Heap { reader: &mut reader, layout: &v8.layout };
        known.scripts.refill(time);
        if known.bytes >= MAX_KNOWN_BYTES {
            *known = Known { maps: known.maps, ..Known::default() };
        }
        let mut sample = Sample { heap, known, time, searches: 0, is_stripped: !v8.has_symbols() };
        if !*is_readable {
            *is_readable = frames.clone().any(|frame| sample.is_readable(frame));
        }
        is_readable.then(|| frames.map(|frame| sample.find(frame)).collect())
    }
}

/// One sample of the process.
struct Sample<'s, 'h, 'r> {
    heap: Heap<'h, 'r>,
    known: &'s mut Known,
    time: Timestamp,
    searches: usize,
    /// True if any code of V8's file may be a built-in.
    is_stripped: bool,
}

impl Sample<'_, '_, '_> {
    fn is_readable(&mut self, frame: FrameOf) -> bool {
        match frame {
            FrameOf::Interpreted(words) => {
                words.is_some_and(|words| self.heap.field(words.bytecode, 0).is_some())
            }
            FrameOf::Generated(lookup, _) => self.heap.reader.word(lookup.0 & !7).is_some(),
        }
    }

    fn is_fresh(&self, seen: Timestamp) -> bool {
        self.time.0.saturating_sub(seen.0) < TRUSTED_NANOSECONDS
    }

    fn is_in_grace(&self, seen: Timestamp) -> bool {
        self.time.0.saturating_sub(seen.0) < GRACE_NANOSECONDS
    }

    fn find(&mut self, frame: FrameOf) -> Found {
        match frame {
            FrameOf::Interpreted(words) => self.interpreted(words),
            FrameOf::Generated(lookup, words) => self.generated(lookup.0, words),
        }
    }

    /// Finds the function of a frame of the interpreter.
    fn interpreted(&mut self, words: Option<FrameWords>) -> Found {
        let shared = words.and_then(|words| Some((words, self.function_of(words.bytecode, Some(words))?)));
        let Some((words, shared)) = shared else {
            return if self.is_stripped { Found::Other } else { Found::Unknown };
        };
        let offset = self.offset_of_bytecode(words);
        let frame = self.frame(shared, Tier::Interpreted, offset);
        frame.map_or(Found::Unknown, |frame| Found::Functions(vec![frame]))
    }

    /// Finds the functions that run at an address in generated code.
    fn generated(&mut self, lookup: u64, words: Option<FrameWords>) -> Found {
        let Some(start) = self.code_at(lookup, words) else {
            // Frames of other kinds have the number of their kind where those of functions have a context.
            return if words.is_some() { Found::Unknown } else { Found::Other };
        };
        let Some(code) = self.known.codes.get(&start) else { return Found::Unknown };
        let data = code.data;
        match code.kind {
            Kind::Regexp => Found::Regexp,
            Kind::Other => Found::Other,
            Kind::Baseline => {
                let bytecode = self.bytecode_behind(data);
                // At the start of the code, the words are still those of the caller.
                let own = words.filter(|words| Some(words.bytecode) == bytecode);
                let shared = bytecode.and_then(|bytecode| self.function_of(bytecode, own));
                let frame = shared.and_then(|shared| self.frame(shared, Tier::Baseline, None));
                frame.map_or(Found::Unknown, |frame| Found::Functions(vec![frame]))
            }
            Kind::Optimized(tier) => {
                let frames = code.offset_of(lookup).map(|offset| code.frames_at(offset)).unwrap_or_default();
                let found: Option<Vec<_>> =
                    frames.iter().map(|frame| self.optimized(start, tier, *frame)).collect();
                let found = found.filter(|found| !found.is_empty()).or_else(|| {
                    // Where a function that was inlined cannot be read, the one that was compiled stands for all.
                    let outer = InlinedFrame { literal: None, offset: None };
                    Some(vec![self.optimized(start, tier, outer)?])
                });
                found.map_or(Found::Unknown, Found::Functions)
            }
        }
    }

    fn optimized(&mut self, start: u64, tier: Tier, frame: InlinedFrame) -> Option<JavaScriptFrame> {
        let shared = self.known.codes.get_mut(&start)?.shared(&mut self.heap, frame.literal)?;
        self.frame(shared, tier, frame.offset)
    }

    fn is_function(&mut self, object: u64) -> bool {
        let types = &self.heap.layout.types;
        self.heap
            .kind(object)
            .is_some_and(|kind| (types.first_function..=types.last_function).contains(&kind))
    }

    /// Returns the start of the code that an address is in.
    fn code_at(&mut self, lookup: u64, words: Option<FrameWords>) -> Option<u64> {
        let known = self.known.codes.range(..=lookup).next_back();
        if let Some((&start, code)) = known.filter(|(_, code)| code.offset_of(lookup).is_some()) {
            if self.is_fresh(code.seen) {
                return Some(start);
            }
            match code.is_unchanged(&mut self.heap) {
                Some(true) => {
                    if let Some(code) = self.known.codes.get_mut(&start) {
                        code.see(self.time);
                    }
                    return Some(start);
                }
                // The process is about to end, and ran what is known of it.
                None => return Some(start),
                Some(false) => {}
            }
            let is_in_grace = self.is_in_grace(code.seen);
            return match self.search_code(lookup, words) {
                None if is_in_grace => {
                    if let Some(code) = self.known.codes.get_mut(&start) {
                        code.lose();
                    }
                    Some(start)
                }
                found => {
                    if found != Some(start) {
                        self.remove_code(start);
                    }
                    found
                }
            };
        }
        self.search_code(lookup, words)
    }

    /// Searches the code that an address is in, and adds it in place of what it overlaps. Returns its start.
    fn search_code(&mut self, lookup: u64, words: Option<FrameWords>) -> Option<u64> {
        if self.known.maps.instructions.is_none() && self.known.maps.near.is_none() {
            // Any function leads to a map near that of code.
            let shared = words.filter(|words| self.is_function(words.function)).and_then(|words| {
                self.heap.field_of(
                    words.function,
                    self.heap.layout.function_shared,
                    self.heap.layout.types.shared,
                )
            })?;
            self.known.maps.near = self.heap.field(shared, 0);
        }
        let misses = usize::from(words.is_some());
        if self.searches >= MAX_SEARCHES || !self.known.misses[misses].may_search(lookup, self.time) {
            return None;
        }
        self.searches += 1;
        let Some(code) = Compiled::find(&mut self.heap, &mut self.known.maps, lookup, self.time) else {
            self.known.misses[misses].pages.insert(lookup / PAGE_BYTES);
            return None;
        };
        let (start, end) = (code.start, code.start.saturating_add(code.size));
        let before = self.known.codes.range(..start).next_back();
        let overlapped: Vec<u64> = before
            .filter(|(_, code)| code.start.saturating_add(code.size) > start)
            .into_iter()
            .chain(self.known.codes.range(start..end))
            .map(|(start, _)| *start)
            .collect();
        overlapped.into_iter().for_each(|start| self.remove_code(start));
        self.known.bytes += code.size_in_memory();
        self.known.codes.insert(start, code);
        Some(start)
    }

    fn remove_code(&mut self, start: u64) {
        if let Some(code) = self.known.codes.remove(&start) {
            self.known.bytes = self.known.bytes.saturating_sub(code.size_in_memory());
        }
    }

    /// Returns the function of bytecode. `words` are of a frame that runs it.
    fn function_of(&mut self, bytecode: u64, words: Option<FrameWords>) -> Option<SharedFunction> {
        let known = self.known.bytecodes.get(&bytecode).map(|known| (known.shared, known.seen));
        if let Some((shared, seen)) = known
            && self.is_fresh(seen)
        {
            return Some(SharedFunction { object: shared, is_new: false });
        }
        let layout = self.heap.layout;
        let is_in_grace = known.is_some_and(|(_, seen)| self.is_in_grace(seen));
        let known = known.map(|(shared, _)| shared);
        let earlier = known.map(|object| SharedFunction { object, is_new: false });
        let of_known = known.map(|shared| self.has_bytecode(shared, bytecode));
        let shared = match of_known {
            Some(Some(true)) => known,
            // The process is about to end, and ran what is known of it.
            Some(None) => return earlier,
            _ => {
                let of_stack = words.filter(|words| self.is_function(words.function)).and_then(|words| {
                    self.heap.field_of(words.function, layout.function_shared, layout.types.shared)
                });
                of_stack.filter(|shared| self.has_bytecode(*shared, bytecode) == Some(true))
            }
        };
        let Some(shared) = shared else {
            if is_in_grace {
                return earlier;
            }
            if let Some(known) = self.known.bytecodes.remove(&bytecode) {
                self.known.bytes = self.known.bytes.saturating_sub(known.size_in_memory());
            }
            return None;
        };
        if self.known.maps.near.is_none() {
            self.known.maps.near = self.heap.field(shared, 0);
        }
        match self.known.bytecodes.get_mut(&bytecode).filter(|known| known.shared == shared) {
            Some(known) => known.seen = self.time,
            None => {
                let new = Bytecode { shared, positions: None, seen: self.time };
                self.known.bytes += new.size_in_memory();
                if let Some(old) = self.known.bytecodes.insert(bytecode, new) {
                    self.known.bytes = self.known.bytes.saturating_sub(old.size_in_memory());
                }
            }
        }
        Some(SharedFunction { object: shared, is_new: true })
    }

    /// Returns true if a function has this bytecode; `None` where it cannot be read.
    fn has_bytecode(&mut self, shared: u64, bytecode: u64) -> Option<bool> {
        let layout = self.heap.layout;
        let is_function = self.heap.is_still(shared, layout.types.shared)?;
        let data = self.heap.field(shared, layout.shared.data)?;
        self.heap.field(data, 0)?;
        Some(is_function && self.bytecode_behind(data) == Some(bytecode))
    }

    /// Returns the bytecode that the data of a function, or of code, lead to.
    fn bytecode_behind(&mut self, data: u64) -> Option<u64> {
        let layout = self.heap.layout;
        let mut object = data;
        for _ in 0..MAX_STEPS {
            object = match self.heap.kind(object)? {
                kind if kind == layout.types.bytecode => return Some(object),
                kind if kind == layout.types.interpreter_data => {
                    self.heap.field(object, layout.interpreter_data_bytecode)?
                }
                kind if kind == layout.types.code => self.heap.field(object, layout.code.data)?,
                _ => return None,
            };
        }
        None
    }

    /// Returns the place in the script of the bytecode that a frame runs.
    fn offset_of_bytecode(&mut self, words: FrameWords) -> Option<u32> {
        let layout = &self.heap.layout.bytecode;
        // The offset counts from the tagged address of the object.
        let offset = u64::try_from(small_integer(words.offset)?).ok()?.checked_sub(layout.data - 1)?;
        let positions = layout.positions;
        let known = self.known.bytecodes.get_mut(&words.bytecode)?;
        if known.positions.is_none() {
            let table = self.heap.field(words.bytecode, positions)?;
            let table = self.heap.bytes(table, MAX_POSITION_BYTES).unwrap_or_default();
            let parsed = Positions::parse(&table);
            self.known.bytes += parsed.size();
            known.positions = Some(parsed);
        }
        Some(known.positions.as_ref()?.at(offset)?.offset)
    }

    /// Returns a function as it stands on a stack. `offset` is the place in its script.
    fn frame(&mut self, shared: SharedFunction, tier: Tier, offset: Option<u32>) -> Option<JavaScriptFrame> {
        let SharedFunction { object, is_new } = shared;
        let known = self.known.functions.get(&object);
        if known.is_none() && !is_new {
            return None;
        }
        if !known.is_some_and(|facts| !is_new || facts.is_current(&mut self.heap, object)) {
            let facts = Facts::read(&mut self.heap, &mut self.known.scripts, object)?;
            self.known.bytes += facts.size_in_memory();
            if let Some(old) = self.known.functions.insert(object, facts) {
                self.known.bytes = self.known.bytes.saturating_sub(old.size_in_memory());
            }
        }
        let facts = self.known.functions.get_mut(&object)?;
        let line = facts.line(&self.known.scripts, offset);
        Some(JavaScriptFrame { function: facts.of_tier(tier), line })
    }
}

impl Bytecode {
    /// Returns the number of bytes that it takes in memory, about.
    fn size_in_memory(&self) -> usize {
        size_of::<Self>() + self.positions.as_ref().map_or(0, Positions::size)
    }
}

impl Misses {
    /// Returns false for an address near which no code was found lately, and after many such.
    fn may_search(&mut self, lookup: u64, now: Timestamp) -> bool {
        if now.0.saturating_sub(self.since.0) > MISS_NANOSECONDS {
            self.pages.clear();
            self.since = now;
        }
        self.pages.len() < MAX_MISSES && !self.pages.contains(&(lookup / PAGE_BYTES))
    }
}

#[cfg(test)]
mod tests;
