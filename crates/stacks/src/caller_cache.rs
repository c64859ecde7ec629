//! Remembers the callers of frames from complete stacks, to complete later stacks that are deeper than their copies.
//!
//! Deep stacks change at their inner end only. Callers are kept per process, not per thread: Go moves stacks between threads. Those of
//! other processes than the ones whose stacks are cut would help nobody.

use std::collections::HashMap;

use model::{Avma, Pid};
use rustc_hash::FxBuildHasher;
use unwinder::{AddressSpace, Frame, UnwoundStack};

use crate::process_maps::MappedObjects;

/// The newest caller of each frame of the complete stacks of each process.
#[derive(Debug, Default)]
pub(crate) struct CallerCache {
    processes: HashMap<Pid, Callers, FxBuildHasher>,
    /// The number of frames in `known` of all processes.
    frames: usize,
}

#[derive(Debug, Default)]
struct Callers {
    /// Callers by stack pointer and address of the callee; `None` for a thread's first frame.
    known: HashMap<(u64, u64), Option<Frame>, FxBuildHasher>,
    /// The newest return address at each stack pointer.
    newest: HashMap<u64, u64, FxBuildHasher>,
    /// The frames of the stack that was inserted last, without its innermost one.
    last: Vec<Frame>,
    /// The number of complete stacks to come that are inserted.
    stacks_to_insert: u32,
}

/// The number of complete stacks of a process that are inserted after one of its stacks was cut.
const STACKS_AFTER_CUT: u32 = 64;

/// The maximum number of processes. Beyond it the callers of all are dropped, as most processes have ended by then.
const MAX_PROCESSES: usize = 1024;

/// The maximum number of frames, which take some 30 MB. Beyond it all are dropped; those in use come back with the next stacks.
const MAX_FRAMES: usize = 256 << 10;

/// The maximum number of callers added to one stack.
const MAX_CALLERS: usize = 8_000;

/// The maximum size of a frame. A caller further away is on another stack.
const MAX_FRAME_BYTES: u64 = 256 << 10;

fn key(frame: &Frame) -> (u64, u64) {
    (frame.stack_pointer, frame.address.address().0)
}

fn is_on_the_same_stack(frame: &Frame, caller: &Frame) -> bool {
    let distance = caller.stack_pointer.checked_sub(frame.stack_pointer);
    distance.is_some_and(|distance| distance <= MAX_FRAME_BYTES)
}

impl CallerCache {
    /// Drops everything if there are more than `max_frames` frames.
    pub(crate) fn forget_beyond(&mut self, max_frames: usize) {
        if self.frames > max_frames {
            *self = Self::default();
        }
    }

    /// Records that a stack of the process was deeper than its copy: complete ones are inserted for a while.
    pub(crate) fn expect_cut_stacks(&mut self, pid: Pid) {
        self.make_room(pid);
        self.processes.entry(pid).or_default().stacks_to_insert = STACKS_AFTER_CUT;
    }

    /// Inserts a complete stack, if a stack of the process was cut before it and not long ago.
    pub(crate) fn insert_expected_stack(&mut self, pid: Pid, frames: &[Frame]) {
        let callers = self.processes.get_mut(&pid);
        if let Some(callers) = callers.filter(|callers| callers.stacks_to_insert > 0) {
            callers.stacks_to_insert -= 1;
            self.insert_stack(pid, frames);
        }
    }

    /// Drops the callers of all processes, if there are too many for those of one more.
    fn make_room(&mut self, pid: Pid) {
        let too_many = self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid);
        if too_many || self.frames >= MAX_FRAMES {
            self.processes.clear();
            self.frames = 0;
        }
    }

    /// Remembers the callers in a complete stack. `frames` are innermost first.
    pub(crate) fn insert_stack(&mut self, pid: Pid, frames: &[Frame]) {
        self.make_room(pid);
        let callers = self.processes.entry(pid).or_default();
        // The innermost frame is at its sampled instruction, where no other stack has it as a caller.
        let returns = frames.get(1..).unwrap_or_default();
        // The outer frames that it has in common with the last stack are known.
        let common =
            returns.iter().rev().zip(callers.last.iter().rev()).take_while(|(one, other)| one == other);
        let new = returns.len() - common.count();
        callers.last.clear();
        callers.last.extend_from_slice(returns);
        for (index, frame) in returns.iter().enumerate().take(new) {
            let caller = returns.get(index + 1).copied();
            if caller.is_some_and(|caller| !is_on_the_same_stack(frame, &caller)) {
                // The thread has changed stacks here. The next time it may come from another one.
                self.frames -= usize::from(callers.known.remove(&key(frame)).is_some());
                continue;
            }
            let known = callers.known.insert(key(frame), caller);
            self.frames += usize::from(known.is_none());
            callers.newest.insert(frame.stack_pointer, frame.address.address().0);
        }
    }

    /// Returns the callers of the outermost frame of `stack`, innermost first, from earlier stacks of the process in which a frame of the
    /// same function had the same stack pointer. Returns `None` where there are none, or one of them is no longer in mapped code.
    pub(crate) fn callers_of(
        &self,
        pid: Pid,
        stack: &UnwoundStack,
        objects: &mut MappedObjects<'_>,
    ) -> Option<Vec<Frame>> {
        let space = objects.space();
        let same_function = |one: u64, other: u64| objects.share_function(Avma(one), Avma(other));
        let tail = self.callers_in(pid, stack.frames.last()?, space, same_function)?;
        // A frame pointer that led out of the copy determines the stack of the callers.
        let is_led_to = |frame_pointer: u64| {
            tail.first().is_some_and(|caller| caller.stack_pointer == frame_pointer.wrapping_add(16))
        };
        stack.frame_pointer_beyond_copy.is_none_or(is_led_to).then_some(tail)
    }

    fn callers_in(
        &self,
        pid: Pid,
        last: &Frame,
        space: &AddressSpace,
        same_function: impl FnOnce(u64, u64) -> bool,
    ) -> Option<Vec<Frame>> {
        let callers = self.processes.get(&pid)?;
        let still_code = |frame: &Frame| {
            let before = Avma(frame.address.address().0.saturating_sub(1));
            space.find(before).is_some_and(|mapping| mapping.executable)
        };
        let mut callee = key(last);
        if !callers.known.contains_key(&callee) {
            // The function may have made another call in the earlier stack.
            let (stack_pointer, address) = callee;
            let newest = *callers.newest.get(&stack_pointer)?;
            if !same_function(newest, address) {
                return None;
            }
            callee = (stack_pointer, newest);
        }
        let mut tail = Vec::new();
        while let Some(caller) = *callers.known.get(&callee)? {
            if tail.len() >= MAX_CALLERS || !still_code(&caller) {
                return None;
            }
            tail.push(caller);
            callee = key(&caller);
        }
        Some(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{FileOffset, FrameAddress};
    use unwinder::Mapping;

    fn frame(index: u64, stack_pointer: u64) -> Frame {
        Frame { address: FrameAddress::ReturnAddress(Avma(0x1000 + index)), stack_pointer }
    }

    fn above(callers: &CallerCache, pid: Pid, last: &Frame, space: &AddressSpace) -> Option<Vec<Frame>> {
        // Functions are 16 bytes long.
        callers.callers_in(pid, last, space, |one, other| one / 16 == other / 16)
    }

    fn space() -> AddressSpace {
        let mut space = AddressSpace::default();
        let range = Avma(0x1000)..Avma(0x2000);
        space.insert(Mapping { range, file_offset: FileOffset(0), object: None, executable: true });
        space
    }

    #[test]
    fn a_caller_needs_the_same_frame_at_the_same_place() {
        let stack: Vec<Frame> = (1..40).map(|index| frame(index, 0x8000 + index * 16)).collect();
        let mut callers = CallerCache::default();
        callers.insert_stack(Pid(1), &stack);
        assert_eq!(above(&callers, Pid(1), &stack[20], &AddressSpace::default()), None);
        let space = space();
        assert_eq!(above(&callers, Pid(1), &stack[20], &space).as_deref(), Some(&stack[21..]));
        assert_eq!(above(&callers, Pid(2), &stack[20], &space), None);
        assert_eq!(above(&callers, Pid(1), &frame(21, 0x9000), &space), None);
        let elsewhere = |address| frame(address, stack[20].stack_pointer);
        assert_eq!(above(&callers, Pid(1), &elsewhere(0x11), &space).as_deref(), Some(&stack[21..]));
        assert_eq!(above(&callers, Pid(1), &elsewhere(0x20), &space), None, "another function");
        assert_eq!(
            above(&callers, Pid(1), &stack[0], &space),
            None,
            "the innermost frame is no return address"
        );
    }

    #[test]
    fn the_newest_callers_are_taken_and_older_frames_stay_known() {
        let space = space();
        let mut callers = CallerCache::default();
        let deep: Vec<Frame> = (1..4000).map(|index| frame(1 + index % 3, 0x8000 + index * 64)).collect();
        callers.insert_stack(Pid(1), &deep);
        callers.insert_stack(Pid(1), &[frame(9, 0x100), frame(8, 0x200)]);
        assert_eq!(above(&callers, Pid(1), &deep[2000], &space).as_deref(), Some(&deep[2001..]));
        // The same frame, called by another one now.
        let other = [frame(9, 0x100), deep[2000], frame(77, 0x4_0000)];
        callers.insert_stack(Pid(1), &other);
        assert_eq!(above(&callers, Pid(1), &deep[2000], &space).as_deref(), Some(&other[2..]));
    }

    #[test]
    fn stacks_that_have_their_outer_part_in_common_are_told_apart() {
        let space = space();
        let mut callers = CallerCache::default();
        let outer: Vec<Frame> = (20..30).map(|index| frame(index, 0x8000 + index * 16)).collect();
        let stack_by = |middle: &[Frame]| [&[frame(0, 0x7000), frame(1, 0x7010)], middle, &outer].concat();
        let stacks = [&[frame(2, 0x7020)][..], &[frame(3, 0x7020), frame(4, 0x7030)], &[]].map(stack_by);
        for stack in stacks.iter().chain(&stacks).chain([&stacks[1], &stacks[1]]) {
            callers.insert_stack(Pid(1), stack);
            for (index, frame) in stack.iter().enumerate().skip(1) {
                let expected = Some(&stack[index + 1..]);
                assert_eq!(above(&callers, Pid(1), frame, &space).as_deref(), expected);
            }
        }
    }

    #[test]
    fn complete_stacks_are_inserted_where_others_of_the_process_are_cut() {
        let (space, stack) = (space(), [frame(0, 0x7000), frame(1, 0x7010), frame(2, 0x7020)]);
        let mut callers = CallerCache::default();
        let is_known = |callers: &CallerCache, pid, last: &Frame| above(callers, pid, last, &space).is_some();
        callers.insert_expected_stack(Pid(1), &stack);
        assert!(!is_known(&callers, Pid(1), &stack[1]));
        callers.expect_cut_stacks(Pid(1));
        for pid in [Pid(1), Pid(2)] {
            callers.insert_expected_stack(pid, &stack);
        }
        assert!(is_known(&callers, Pid(1), &stack[1]) && !is_known(&callers, Pid(2), &stack[1]));
        let other = [frame(0, 0x7000), frame(1, 0x7100), frame(2, 0x7200)];
        (1..STACKS_AFTER_CUT).for_each(|_| callers.insert_expected_stack(Pid(1), &stack));
        callers.insert_expected_stack(Pid(1), &other);
        assert!(!is_known(&callers, Pid(1), &other[1]), "the last cut was long ago");
    }

    #[test]
    fn what_is_too_much_is_dropped() {
        let stack: Vec<Frame> = (1..40).map(|index| frame(index, 0x8000 + index * 16)).collect();
        let mut callers = CallerCache::default();
        callers.insert_stack(Pid(1), &stack);
        let known = callers.frames;
        callers.forget_beyond(known);
        assert!(above(&callers, Pid(1), &stack[20], &space()).is_some());
        callers.forget_beyond(known - 1);
        assert_eq!((callers.frames, callers.processes.len()), (0, 0));
        callers.insert_stack(Pid(1), &stack);
        assert_eq!(callers.frames, known);
    }

    #[test]
    fn callers_in_a_circle_make_no_tail() {
        let (a, b) = (frame(1, 0x8000), frame(2, 0x9000));
        let mut callers = CallerCache::default();
        callers.insert_stack(Pid(1), &[frame(3, 0x100), b, a]);
        callers.insert_stack(Pid(1), &[frame(3, 0x100), a, b]);
        callers.processes.get_mut(&Pid(1)).unwrap().known.insert(key(&b), Some(a));
        assert_eq!(above(&callers, Pid(1), &a, &space()), None);
    }
}
