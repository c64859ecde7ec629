//! What threads ran when they were looked at. A sample tells its innermost function; what called it is in the look that is nearest in time among
//! those in which the function ran in the same frame. So callers have the shares of the time in which looks saw them.

use std::collections::VecDeque;
use std::sync::Arc;

use memory::Reader;
use model::{Tid, Timestamp};

use crate::evidence::Activation;
use crate::layout::{EntryMark, FrameLayout};

/// Frames of a thread that are further apart lie in two pieces of its stack, which CPython allocates as the stack grows. A piece has 16
/// KiB, or what its first frame needs.
pub(crate) const MAX_FRAME_DISTANCE: u64 = 16 << 10;

/// The maximum number of frames of one look: what is outside of them is not known.
pub(crate) const MAX_LOOKED_FRAMES: usize = 256;
/// The maximum number of frames in the looks at a process that are kept, of 48 bytes each; with more, the oldest looks are forgotten.
const MAX_KEPT_FRAMES: usize = 128 << 10;
/// The maximum time in nanoseconds between a sample and a look that tells that a frame lasts: a server is often where it was a second ago, with
/// something else between.
const MAX_BETWEEN: u64 = 100_000_000;
/// The number of looks before a sample, and of those behind it, in which a frame was if it lasts. With one, half of the samples in a function
/// that has half of the time seem to be in it.
pub(crate) const LASTING_LOOKS: usize = 3;
/// The number of looks at other threads in which a frame is looked for that its own thread was never seen in.
const MAX_LOOKS_AT_OTHERS: usize = 256;
/// CPython allocates the stack of a thread's frames in pages of this many bytes, and begins at the same place of the first one.
const PAGE: u64 = 4 << 10;
/// The `owner` of frames on the stack of a thread's frames (`FRAME_OWNED_BY_THREAD`).
const OWNED_BY_THREAD: u8 = 0;
/// The bits of a reference to an object that are tags (`_PyStackRef`). Objects lie at multiples of 8.
const REFERENCE_TAGS: u64 = 7;

/// A frame that a thread ran when it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookedFrame {
    pub(crate) frame: u64,
    /// The address of its code object.
    pub(crate) object: u64,
    pub(crate) instruction: u64,
    /// True if it lies on the stack of its thread's frames, directly behind the frame that has called it.
    pub(crate) is_stacked: bool,
    /// `Some` in the outermost frame of those that one call of `_PyEval_EvalFrameDefault` runs.
    pub(crate) entry: Option<Entry>,
}

/// An address in the native frame of a call of `_PyEval_EvalFrameDefault`; `None` where it is not known.
pub(crate) type Entry = Option<u64>;

/// A look at a thread: the functions that it ran at one time.
#[derive(Debug)]
pub struct Look {
    pub(crate) tid: Tid,
    pub(crate) time: Timestamp,
    /// The frames, innermost first.
    pub(crate) frames: Vec<LookedFrame>,
    /// True if nothing is outside of them.
    pub(crate) is_whole: bool,
    /// The address of `_PyCFrame.current_frame` of the innermost call of `_PyEval_EvalFrameDefault`, in 3.11 and 3.12.
    pub(crate) current: Option<u64>,
}

/// A frame of a look, by its number from the inside.
pub(crate) type Position = (Arc<Look>, usize);

impl Look {
    pub(crate) fn at(&self, depth: usize) -> Option<&LookedFrame> {
        self.frames.get(depth)
    }

    /// Returns an address in the native frame of the call that runs a frame.
    fn entry(&self, depth: usize) -> Entry {
        self.frames.iter().skip(depth).find_map(|frame| frame.entry).flatten()
    }

    /// Returns true unless the call that runs a frame is known to be another one than `activation`.
    pub(crate) fn may_be_of(&self, depth: usize, activation: &Activation) -> bool {
        self.entry(depth).is_none_or(|entry| activation.may_hold(entry))
    }

    /// Returns true if the call that runs a frame is known to be `activation`.
    pub(crate) fn is_of(&self, depth: usize, activation: &Activation) -> bool {
        self.entry(depth).is_some_and(|entry| activation.end.is_some() && activation.may_hold(entry))
    }

    /// Finds the innermost frame that `activation` may run and for which `is_it` holds.
    pub(crate) fn find(
        &self,
        activation: &Activation,
        is_it: impl Fn(&LookedFrame) -> bool,
    ) -> Option<usize> {
        let mut found = self.frames.iter().enumerate().filter(|(_, frame)| is_it(frame));
        found.find_map(|(depth, _)| self.may_be_of(depth, activation).then_some(depth))
    }
}

/// The fields of a frame.
pub(crate) struct FrameFields {
    pub(crate) code: u64,
    pub(crate) previous: u64,
    pub(crate) instruction: u64,
    pub(crate) is_entry: bool,
    pub(crate) is_native: bool,
    pub(crate) is_stacked: bool,
}

impl FrameFields {
    /// Reads the fields of a frame.
    pub(crate) fn read(reader: &mut Reader<'_>, layout: &FrameLayout, frame: u64) -> Option<Self> {
        // No offset is larger than a page, and no frame lies on the last one.
        frame.checked_add(1 << 13).filter(|_| frame.is_multiple_of(8))?;
        let mut byte = |offset| reader.array::<1>(frame + offset).map(|[byte]| byte);
        let owner = byte(layout.owner)?;
        let (is_entry, is_native) = match layout.entry {
            EntryMark::IsEntry(offset) => (byte(offset)? != 0, false),
            EntryMark::Owner(least) => (false, owner >= least),
        };
        Some(Self {
            code: code_of(reader, layout, frame)?,
            previous: reader.word(frame + layout.previous)?,
            instruction: reader.word(frame + layout.instruction)?,
            is_entry,
            is_native,
            is_stacked: owner == OWNED_BY_THREAD,
        })
    }
}

/// Reads the address of a frame's code object.
pub(crate) fn code_of(reader: &mut Reader<'_>, layout: &FrameLayout, frame: u64) -> Option<u64> {
    let field = frame.checked_add(layout.code).filter(|_| frame.is_multiple_of(8))?;
    Some(reader.word(field)? & !REFERENCE_TAGS)
}

/// Reads a frame and those outside of it. `entry` returns an address in the native frame of each call of `_PyEval_EvalFrameDefault` of
/// 3.11, innermost first; later versions have one in the chain. Returns true with the frames if nothing is outside of them.
pub(crate) fn read_frames(
    reader: &mut Reader<'_>,
    layout: &FrameLayout,
    mut frame: u64,
    mut entry: impl FnMut(&mut Reader<'_>) -> Entry,
) -> (Vec<LookedFrame>, bool) {
    let mut frames: Vec<LookedFrame> = Vec::new();
    // Each run has one frame without Python code at most.
    for _ in 0..2 * MAX_LOOKED_FRAMES {
        let fields = Some(frame).filter(|frame| *frame != 0 && frames.len() < MAX_LOOKED_FRAMES);
        let Some(fields) = fields.and_then(|frame| FrameFields::read(reader, layout, frame)) else { break };
        let FrameFields { code: object, instruction, is_stacked, .. } = fields;
        if !fields.is_native {
            let entry = fields.is_entry.then(|| entry(reader));
            frames.push(LookedFrame { frame, object, instruction, is_stacked, entry });
        } else if let Some(outermost) = frames.last_mut().filter(|outermost| outermost.entry.is_none()) {
            outermost.entry = Some(Some(frame));
        }
        frame = fields.previous;
    }
    (frames, frame == 0)
}

/// The last looks at the threads of a process, in the order of time.
#[derive(Default, Debug)]
pub(crate) struct Looks {
    looks: VecDeque<Arc<Look>>,
    frames: usize,
}

impl Looks {
    pub(crate) fn add(&mut self, look: Look) {
        self.frames += look.frames.len() + 1;
        let behind = self.looks.partition_point(|of| of.time <= look.time);
        self.looks.insert(behind, Arc::new(look));
        while self.frames > MAX_KEPT_FRAMES
            && let Some(oldest) = self.looks.pop_front()
        {
            self.frames -= oldest.frames.len() + 1;
        }
    }

    /// Returns the first for which `find` finds something, of the looks at a thread from the nearest to a time to the furthest.
    pub(crate) fn nearest<T>(
        &self,
        (tid, time): (Tid, Timestamp),
        mut find: impl FnMut(&Arc<Look>) -> Option<T>,
    ) -> Option<T> {
        let behind = self.looks.partition_point(|look| look.time <= time);
        let mut before = self.looks.range(..behind).rev().peekable();
        let mut after = self.looks.range(behind..).peekable();
        loop {
            let is_before = match (before.peek(), after.peek()) {
                (Some(before), Some(after)) => time.0 - before.time.0 <= after.time.0 - time.0,
                (before, _) => before.is_some(),
            };
            let look = if is_before { before.next()? } else { after.next()? };
            if look.tid == tid
                && let Some(found) = find(look)
            {
                return Some(found);
            }
        }
    }

    /// Returns where a frame of a code object was seen in other threads than `tid`, if the same functions were outside of it each time: threads of a
    /// pool, and those that end within milliseconds, run what others ran before.
    pub(crate) fn in_others(&self, tid: Tid, frame: u64, object: u64) -> Option<Position> {
        let run = |look: &Arc<Look>, depth| {
            let mut is_inside = true;
            let outside: Vec<u64> = look
                .frames
                .iter()
                .skip(depth)
                .take_while(|frame| std::mem::replace(&mut is_inside, frame.entry.is_none()))
                .map(|frame| frame.object)
                .collect();
            outside
        };
        let is_it = |of: &LookedFrame| of.frame % PAGE == frame % PAGE && of.object == object;
        let mut found: Option<Position> = None;
        for look in self.looks.iter().rev().filter(|look| look.tid != tid).take(MAX_LOOKS_AT_OTHERS) {
            for (depth, _) in look.frames.iter().enumerate().filter(|(_, frame)| is_it(frame)) {
                if let Some((known, at)) = &found
                    && run(known, *at) != run(look, depth)
                {
                    return None;
                }
                found = Some((Arc::clone(look), depth));
            }
        }
        found
    }

    /// Returns the innermost frame of those that a thread ran at the last `count` looks before a time and at the first ones behind it, and
    /// whether nothing ran inside of it at any. `None` where there were not enough looks.
    pub(crate) fn lasting(&self, (tid, time): (Tid, Timestamp), count: usize) -> Option<(Position, bool)> {
        let behind = self.looks.partition_point(|look| look.time <= time);
        let is_its = |look: &&Arc<Look>| look.tid == tid && time.0.abs_diff(look.time.0) <= MAX_BETWEEN;
        let before = self.looks.range(..behind).rev().filter(is_its).take(count);
        let mut looks: Vec<&Arc<Look>> = before.collect();
        let enough = looks.len() + count;
        looks.extend(self.looks.range(behind..).filter(is_its).take(count));
        let (one, others) = looks.split_first().filter(|_| enough == looks.len() && enough == 2 * count)?;
        let (mut same, mut is_whole) = (one.frames.len(), true);
        for other in others {
            let is_same = |(one, other): &(&LookedFrame, &LookedFrame)| {
                (one.frame, one.object) == (other.frame, other.object)
            };
            let both = one.frames.iter().rev().zip(other.frames.iter().rev()).take_while(is_same).count();
            is_whole &= both == one.frames.len() && both == other.frames.len();
            same = same.min(both);
        }
        Some(((Arc::clone(one), one.frames.len() - same), is_whole))
    }
}
