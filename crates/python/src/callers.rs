//! What was outside of frames when they were seen: most functions have returned when a sample's turn has come, but the same call lies in the
//! same frame again and again.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use model::Tid;
use rustc_hash::FxHashMap;

use crate::run::PythonFrame;

/// A run without its innermost function.
#[derive(Clone, Debug)]
pub(crate) struct Outer {
    /// The frames of the run, which others of the same look share.
    pub(crate) run: Arc<[PythonFrame]>,
    /// The number of those that are further inwards.
    pub(crate) inner: usize,
    pub(crate) is_complete: bool,
    /// The frame of the innermost function of the next run outwards.
    pub(crate) next: Option<u64>,
}

impl Outer {
    pub(crate) fn frames(&self) -> &[PythonFrame] {
        self.run.get(self.inner..).unwrap_or_default()
    }

    /// Returns true for the same functions, whatever their lines.
    fn has_functions_of(&self, other: &Self) -> bool {
        let is_same = |(own, other): (&PythonFrame, &PythonFrame)| {
            Arc::ptr_eq(&own.function, &other.function) || own.function == other.function
        };
        let (own, others) = (self.frames(), other.frames());
        own.len() == others.len() && own.iter().zip(others).all(is_same)
    }
}

/// A thread, the address of a frame of its innermost function, and the bytecode of that function.
pub(crate) type Caller = (Tid, u64, u64);

/// The callers of frames that were seen, by thread, and of all threads.
#[derive(Default, Debug)]
pub(crate) struct Callers {
    of_threads: FxHashMap<Caller, Outer>,
    /// By the offset of a frame in its page, and the bytecode; `None` where threads differ.
    of_all: FxHashMap<(u64, u64), Option<Outer>>,
    /// The frames in the runs of all, and one for each.
    frames: usize,
}

/// The maximum number of frames, of 16 bytes each, in the runs of callers that are remembered, of some 80; with more, all are forgotten.
const MAX_REMEMBERED: usize = 512 << 10;
/// CPython allocates the stack of a thread's frames in pages of this many bytes, and begins at the same place of the first one.
const PAGE: u64 = 4 << 10;

impl Callers {
    /// Remembers what is outside of a frame, in its thread and for all threads.
    pub(crate) fn add(&mut self, caller: Caller, outer: Outer) {
        if self.frames >= MAX_REMEMBERED {
            *self = Self::default();
        }
        let (_, frame, bytecode) = caller;
        let size = outer.run.len() + 1;
        match self.of_all.entry((frame % PAGE, bytecode)) {
            Entry::Vacant(vacant) => {
                vacant.insert(Some(Outer { next: None, ..outer.clone() }));
                self.frames += size;
            }
            Entry::Occupied(mut known) => {
                if known.get().as_ref().is_some_and(|known| !known.has_functions_of(&outer))
                    && let Some(before) = known.insert(None)
                {
                    self.frames -= before.run.len() + 1;
                }
            }
        }
        self.frames += size;
        if let Some(before) = self.of_threads.insert(caller, outer) {
            self.frames -= before.run.len() + 1;
        }
    }

    /// Returns true if the frame was seen in its thread.
    pub(crate) fn has(&self, caller: Caller) -> bool {
        self.of_threads.contains_key(&caller)
    }

    /// Returns what was outside of a frame the last time that it was seen in its thread. If it was not, what was outside of such a frame in
    /// all threads, if that was the same: threads of a pool, and those that end within milliseconds, run what others ran before.
    pub(crate) fn of(&self, caller: Caller) -> Option<Outer> {
        let (_, frame, bytecode) = caller;
        let own = self.of_threads.get(&caller);
        own.or_else(|| self.of_all.get(&(frame % PAGE, bytecode))?.as_ref()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::PythonFunction;

    fn outer(names: &[&str]) -> Outer {
        let frame = |name: &&str| {
            let name = (*name).to_owned();
            let function = PythonFunction { file: String::new(), name, first_line: 1, last_line: 1 };
            PythonFrame { function: Arc::new(function), line: 1 }
        };
        Outer { run: names.iter().map(frame).collect(), inner: 0, is_complete: true, next: Some(8) }
    }

    fn names(outer: Option<Outer>) -> Option<Vec<String>> {
        outer.map(|outer| outer.frames().iter().map(|frame| frame.function.name.clone()).collect())
    }

    fn frames_of(callers: &Callers) -> usize {
        let all = callers.of_threads.values().chain(callers.of_all.values().flatten());
        all.map(|outer| outer.run.len() + 1).sum()
    }

    #[test]
    fn a_thread_has_the_callers_of_others_until_they_differ() {
        let mut callers = Callers::default();
        callers.add((Tid(1), 0x7000_0010, 7), outer(&["work"]));
        let of_another = callers.of((Tid(2), 0x7005_0010, 7));
        assert_eq!(of_another.as_ref().and_then(|outer| outer.next), None, "its frames lie elsewhere");
        assert_eq!(names(of_another), Some(vec!["work".to_owned()]));
        assert_eq!(names(callers.of((Tid(2), 0x7005_0018, 7))), None);
        assert_eq!(names(callers.of((Tid(2), 0x7005_0010, 8))), None);
        callers.add((Tid(3), 0x7009_0010, 7), outer(&["rest"]));
        assert_eq!(names(callers.of((Tid(2), 0x7005_0010, 7))), None);
        assert_eq!(names(callers.of((Tid(1), 0x7000_0010, 7))), Some(vec!["work".to_owned()]));
        assert_eq!(callers.frames, frames_of(&callers), "what threads contradict takes no room");
        callers.add((Tid(4), 0x7011_0010, 7), outer(&["work"]));
        assert_eq!(names(callers.of((Tid(2), 0x7005_0010, 7))), None);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut callers = Callers::default();
        let run = outer(&["down"; 4096]).run;
        for frame in 0..1_000 {
            let outer = Outer { run: Arc::clone(&run), inner: 4095, is_complete: true, next: None };
            callers.add((Tid(1), frame, 0), outer.clone());
            callers.add((Tid(1), frame, 0), outer);
        }
        let frames = frames_of(&callers);
        assert_eq!(callers.frames, frames);
        assert!((1..=MAX_REMEMBERED + 2 * 4097).contains(&frames), "{frames}");
    }
}
