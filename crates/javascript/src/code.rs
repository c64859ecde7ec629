//! Machine code of V8: found by an address in it, with what it says of its function.

use model::BLOCK_BYTES;
use model::Timestamp;

use crate::function::{SharedFunction, Tier};
use crate::heap::{Heap, is_reference};
use crate::layout::{Instructions, REGEXP};
use crate::positions::{Positions, SourcePosition};

/// The code of a function, or of a regular expression.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The object around the instructions, and its map.
    stream: u64,
    map: u64,
    /// The `Code`; in Node.js 18 that is `stream`.
    code: u64,
    /// The address of the first instruction (Avma), and the size in bytes.
    pub(crate) start: u64,
    pub(crate) size: u64,
    /// The bytecode, or the data for deoptimization.
    pub(crate) data: u64,
    pub(crate) kind: Kind,
    positions: Positions,
    /// The calls that were inlined: the place of each in its caller, and the number of the function among the literals.
    inlined: Vec<(SourcePosition, u32)>,
    /// The functions of literals that were asked for since it was seen last: the collector may move them.
    resolved: Vec<(Option<u32>, u64)>,
    /// True if nothing is known to lie at its address any more.
    is_gone: bool,
    /// The time at which it was seen at its address.
    pub(crate) seen: Timestamp,
}

/// The kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Baseline,
    Optimized(Tier),
    Regexp,
    Other,
}

/// A function on the stack of optimized code: it, or one that was inlined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InlinedFrame {
    /// The number of the function among the literals; `None` for the function that was compiled.
    pub(crate) literal: Option<u32>,
    /// The place in its script, in characters.
    pub(crate) offset: Option<u32>,
}

/// The sizes of the pieces of memory before an address in which the start of its code is searched, nearest first. The largest functions have
/// some hundred kilobytes of code.
const SEARCHED_BYTES: [u64; 4] = [4 << 10, 12 << 10, 48 << 10, 192 << 10];
/// The maximum number of words that are looked at as maps, before the map of code is known.
const MAX_CANDIDATES: usize = 16;
/// The distance from another map in which the map of code lies: both are in the memory that V8 never changes.
const MAP_DISTANCE: u64 = 1 << 20;
/// The maximum number of bytes of a position table; the places of code behind are not known.
const MAX_POSITION_BYTES: usize = 256 << 10;
/// The maximum number of bytes of the table of inlined calls, 16 each.
const MAX_INLINED_BYTES: usize = 64 << 10;
/// The maximum number of inlined calls in one another. V8 stops at 20 or fewer.
const MAX_INLINED_DEPTH: usize = 64;

/// The maps by which code is found.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct CodeMaps {
    /// The map of the objects around instructions.
    pub(crate) instructions: Option<u64>,
    /// The map of another object, near it.
    pub(crate) near: Option<u64>,
}

impl Compiled {
    /// Finds the code that an instruction is in, by the memory before it.
    pub(crate) fn find(
        heap: &mut Heap<'_, '_>,
        maps: &mut CodeMaps,
        lookup: u64,
        seen: Timestamp,
    ) -> Option<Self> {
        let mut end = (lookup & !7).checked_add(8)?;
        let mut candidates = MAX_CANDIDATES;
        for size in SEARCHED_BYTES {
            let mut bytes = Vec::new();
            let is_whole = read_before(heap, end, size, &mut bytes);
            let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            for (back, word) in (1..).zip(words.rev()) {
                let is_map = match maps.instructions {
                    Some(known) => word == known,
                    None => {
                        let is_near = maps.near.is_some_and(|near| word.abs_diff(near) < MAP_DISTANCE);
                        is_near && is_reference(word) && candidates > 0 && {
                            candidates -= 1;
                            is_map_of_instructions(heap, word)
                        }
                    }
                };
                if is_map {
                    maps.instructions = Some(word);
                    // An object ends before the next one begins: those further away do not reach to here.
                    let stream = end.checked_sub(8 * back)? | 1;
                    return Self::read(heap, stream, word, seen).filter(|code| code.contains(lookup));
                }
            }
            if !is_whole {
                return None;
            }
            end = end.checked_sub(bytes.len() as u64)?;
        }
        None
    }

    fn read(heap: &mut Heap<'_, '_>, stream: u64, map: u64, seen: Timestamp) -> Option<Self> {
        let layout = &heap.layout.code;
        let (code, start) = match layout.instructions {
            Instructions::Inside(offset) => (stream, heap.address_of(stream, offset)?),
            Instructions::Stream { code, stream: back, start } => {
                let code = heap.field_of(stream, code, heap.layout.types.code)?;
                if heap.field(code, back)? != stream {
                    return None;
                }
                (code, heap.field(code, start)?)
            }
        };
        let flags = heap.half(code, layout.flags)?;
        let kind = match flags & layout.kind_mask {
            REGEXP => Kind::Regexp,
            kind if kind == layout.baseline => Kind::Baseline,
            kind if kind == layout.baseline + 1 => Kind::Optimized(Tier::Mid),
            kind if kind == layout.baseline + 2 => Kind::Optimized(Tier::Optimized),
            _ => Kind::Other,
        };
        let mut found = Self {
            stream,
            map,
            code,
            start,
            size: heap.half(code, layout.size)?.into(),
            data: heap.field(code, layout.data)?,
            kind,
            positions: Positions::default(),
            inlined: Vec::new(),
            resolved: Vec::new(),
            is_gone: false,
            seen,
        };
        if matches!(kind, Kind::Optimized(_)) {
            let table = heap.field(code, layout.positions)?;
            found.positions = Positions::parse(&heap.bytes(table, MAX_POSITION_BYTES)?);
            let inlined = heap.element(found.data, layout.deoptimization.inlining_positions)?;
            let inlined = heap.bytes(inlined, MAX_INLINED_BYTES).unwrap_or_default();
            found.inlined = inlined.as_chunks::<16>().0.iter().map_while(inlined_call).collect();
        }
        Some(found)
    }

    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset < self.size)
    }

    /// Returns the offset of an instruction; `None` outside of the code.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.start).filter(|offset| *offset < self.size)
    }

    /// Returns false if other code is at its address now; `None` where not all of it can be read, as of a process that is about to end.
    pub(crate) fn is_unchanged(&self, heap: &mut Heap<'_, '_>) -> Option<bool> {
        let layout = &heap.layout.code;
        let code = match layout.instructions {
            Instructions::Inside(_) => self.code,
            Instructions::Stream { code, .. } => heap.field(self.stream, code)?,
        };
        let is_same = heap.field(self.stream, 0)? == self.map && code == self.code;
        Some(is_same && heap.field(self.code, layout.data)? == self.data)
    }

    /// Records that it is still at its address.
    pub(crate) fn see(&mut self, now: Timestamp) {
        self.seen = now;
        self.is_gone = false;
        self.resolved.clear();
    }

    /// Records that it is no longer at its address. What was read of it before stays.
    pub(crate) fn lose(&mut self) {
        self.is_gone = true;
    }

    /// Returns the functions that run at an offset in optimized code, innermost first.
    pub(crate) fn frames_at(&self, offset: u64) -> Vec<InlinedFrame> {
        let Some(mut position) = self.positions.at(offset) else {
            return vec![InlinedFrame { literal: None, offset: None }];
        };
        let mut frames = Vec::new();
        while let Some(number) = position.inlined {
            let Some((caller, literal)) = self.inlined.get(usize::from(number)) else { break };
            if frames.len() >= MAX_INLINED_DEPTH {
                break;
            }
            frames.push(InlinedFrame { literal: Some(*literal), offset: Some(position.offset) });
            position = *caller;
        }
        match position.inlined {
            // The table is wrong, or cut.
            Some(_) => vec![InlinedFrame { literal: None, offset: None }],
            None => {
                frames.push(InlinedFrame { literal: None, offset: Some(position.offset) });
                frames
            }
        }
    }

    /// Returns the function that was compiled, or one of its literals.
    pub(crate) fn shared(&mut self, heap: &mut Heap<'_, '_>, literal: Option<u32>) -> Option<SharedFunction> {
        if let Some((_, object)) = self.resolved.iter().find(|(known, _)| *known == literal) {
            return Some(SharedFunction { object: *object, is_new: false });
        }
        let object = if self.is_gone { None } else { self.read_shared(heap, literal) }?;
        self.resolved.push((literal, object));
        Some(SharedFunction { object, is_new: true })
    }

    fn read_shared(&self, heap: &mut Heap<'_, '_>, literal: Option<u32>) -> Option<u64> {
        let layout = &heap.layout.code.deoptimization;
        let found = match literal {
            None => heap.element(self.data, layout.shared)?,
            Some(literal) => {
                let literals = heap.element(self.data, layout.literals)?;
                // References among the literals may be weak.
                heap.element(literals, literal.into())? & !2
            }
        };
        let types = &heap.layout.types;
        match heap.kind(found)? {
            kind if kind == types.shared => Some(found),
            kind if Some(kind) == types.shared_wrapper => {
                heap.field_of(found, heap.layout.shared.wrapped, types.shared)
            }
            _ => None,
        }
    }

    /// Returns the number of bytes that it takes in memory, about.
    pub(crate) fn size_in_memory(&self) -> usize {
        size_of::<Self>() + self.positions.size() + self.inlined.len() * size_of::<(SourcePosition, u32)>()
    }
}

/// Decodes an `InliningPosition` (`src/codegen/source-position.h`): the place, 8 bytes, and the number of the function, 4.
fn inlined_call(bytes: &[u8; 16]) -> Option<(SourcePosition, u32)> {
    let (place, rest) = bytes.split_first_chunk::<8>()?;
    let function = i32::from_le_bytes(*rest.first_chunk()?);
    // A place that is of no script has no use, but the next ones have.
    let unknown = SourcePosition { offset: 0, inlined: Some(u16::MAX) };
    let place = SourcePosition::from_raw(i64::from_le_bytes(*place)).unwrap_or(unknown);
    Some((place, u32::try_from(function).unwrap_or(u32::MAX)))
}

fn is_map_of_instructions(heap: &mut Heap<'_, '_>, map: u64) -> bool {
    let kind = heap.layout.types.instructions;
    let own = heap.layout.map_instance_type;
    heap.half(map, own).is_some_and(|found| found as u16 == kind) && heap.is(map, heap.layout.types.map)
}

/// Reads up to `size` bytes that end at `end` into `bytes`. Returns false, with fewer bytes, where further ones cannot be read.
fn read_before(heap: &Heap<'_, '_>, end: u64, size: u64, bytes: &mut Vec<u8>) -> bool {
    let Some(start) = end.checked_sub(size) else { return false };
    bytes.resize(size as usize, 0);
    if heap.reader.read_once(start, bytes) == bytes.len() {
        return true;
    }
    // Something before cannot be read: page by page backwards, to the one that is not there.
    let mut first = end;
    while first > start {
        let page = ((first - 1) & !(BLOCK_BYTES - 1)).max(start);
        let piece = bytes.get_mut((page - start) as usize..(first - start) as usize);
        if piece.is_none_or(|piece| heap.reader.read_once(page, piece) < piece.len()) {
            break;
        }
        first = page;
    }
    bytes.drain(..(first - start) as usize);
    false
}
