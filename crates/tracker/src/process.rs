//! Processes: their mappings, and counters that tell apart the programs that ran under one pid.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use model::{Avma, Name, Pid, SpaceId};
use rustc_hash::FxBuildHasher;

use crate::mapping::{Mapping, MappingKind};
use crate::process_mappings::ProcessMappings;

/// The number of ended processes, or threads, of which something is kept for records that come a little late: on a busy machine hundreds of
/// others may begin and end between the EXIT record of a process and its last sample.
pub const MAX_ENDED: usize = 1024;

/// All processes by their number: those that live, and those that ended lately.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    processes: HashMap<Pid, Process, FxBuildHasher>,
    /// Processes that may have no thread left, oldest first: since their last thread ended, or since their first record. A record
    /// that comes too late creates a process for which no other record follows.
    waiting: VecDeque<(Pid, u64)>,
    /// The number of processes that ever waited.
    waited: u64,
    /// Above the counts of all that were forgotten: one of their numbers may be used again, and the counts go on.
    counts: u32,
}

impl Processes {
    /// The process of this number, if there is one.
    pub(crate) fn get(&self, pid: Pid) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// The process of this number, if there is one.
    pub(crate) fn get_mut(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes.get_mut(&pid)
    }

    /// The process of this number, newly made where there is none.
    pub(crate) fn of(&mut self, pid: Pid) -> &mut Process {
        if !self.processes.contains_key(&pid) {
            let (program, code) = (self.counts, self.counts);
            self.processes.insert(pid, Process { program, code, ..Process::default() });
            self.end(pid);
        }
        self.processes.entry(pid).or_default()
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Pid, &mut Process)> {
        self.processes.iter_mut().map(|(&pid, process)| (pid, process))
    }

    /// A process has no thread (yet, or any more). The one of which that was said longest ago is forgotten, where there
    /// are too many and it still has none.
    pub(crate) fn end(&mut self, pid: Pid) {
        self.waited += 1;
        self.waiting.push_back((pid, self.waited));
        if let Some(process) = self.processes.get_mut(&pid) {
            process.waits_as = self.waited;
        }
        if self.waiting.len() > MAX_ENDED
            && let Some((oldest, number)) = self.waiting.pop_front()
            && let Some(process) = self.processes.get(&oldest)
            && process.threads == 0
            && process.waits_as == number
        {
            self.forget(oldest);
        }
    }

    /// Forgets a process.
    pub(crate) fn forget(&mut self, pid: Pid) {
        if let Some(process) = self.processes.remove(&pid) {
            self.counts = self.counts.max(process.program.max(process.code).wrapping_add(1));
        }
    }

    /// Returns the number of known processes.
    pub(crate) fn len(&self) -> usize {
        self.processes.len()
    }
}

/// A process, or what is left of it. Its number may be used again by the kernel, so the counts go on.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) mappings: ProcessMappings,
    /// The mappings of the program before, from exec until the new program is seen to run. In between the kernel
    /// still works for the old one: the user address of a sample there is where `execve` was called.
    pub(crate) former: Option<ProcessMappings>,
    /// Names this state of `mappings`, among all states of all processes.
    pub(crate) generation: u64,
    /// Names this state of the recorded ones among them.
    pub(crate) recorded_generation: u64,
    /// Counts the programs executed under this number.
    pub(crate) program: u32,
    /// Counts the meanings of memory without a file: see [`model::Space::Jit`].
    pub(crate) code: u32,
    /// The container that it runs in.
    pub(crate) container: Option<Name>,
    /// True if its program writes a jitdump.
    pub(crate) has_dump: bool,
    /// Threads known to live.
    pub(crate) threads: u32,
    /// The space of addresses outside every mapping, once there was one.
    pub(crate) unmapped: Option<SpaceId>,
    /// Its place among [`Processes::waiting`], counted from the first that ever was.
    pub(crate) waits_as: u64,
    /// True if it did not live when that was asked last, though its end was not recorded.
    pub(crate) doubted: bool,
}

impl Process {
    /// The process executes another program.
    pub(crate) fn execute(&mut self) {
        let former = core::mem::take(&mut self.mappings);
        self.begin_program(ProcessMappings::default());
        self.former = Some(former);
    }

    /// Another program runs under this number (exec, or the number is used again).
    pub(crate) fn begin_program(&mut self, mappings: ProcessMappings) {
        self.mappings = mappings;
        self.former = None;
        self.program = self.program.wrapping_add(1);
        self.code = self.code.wrapping_add(1);
        self.unmapped = None;
        self.has_dump = false;
        self.doubted = false;
    }

    /// Adds a mapping of a file.
    pub(crate) fn map_image(&mut self, mapping: Mapping) {
        if self.replaces_anonymous(&mapping) {
            self.code = self.code.wrapping_add(1);
        }
        let remapped = self.remapped_text_before(&mapping);
        self.mappings.insert(mapping, false);
        if let Some(text) = remapped {
            self.mappings.insert(text, false);
        }
    }

    /// Adds a mapping of memory without a file, unless it is the text of the object around it. What generated functions are
    /// known of stays: a runtime that writes more code beside them changes the memory's protection, which announces it again.
    /// Returns false where nothing changes.
    pub(crate) fn map_anonymous(&mut self, mapping: Mapping) -> bool {
        if mapping.executable {
            if self.is_inside_text(&mapping) {
                return false;
            }
            if let Some(text) = self.gap_in_text(&mapping) {
                self.mappings.insert(text, false);
                return true;
            }
        }
        if self.is_known(&mapping) {
            return false;
        }
        self.mappings.insert(mapping, true);
        true
    }

    /// Returns true if all of a range of memory without a file has been announced before, as what it is now.
    fn is_known(&self, range: &Mapping) -> bool {
        let mut next = Some(range.start);
        while let Some(address) = next.filter(|&address| address <= range.last) {
            let Some(found) = self.mappings.recorded.get(address) else { return false };
            if (found.space, found.kind, found.executable) != (range.space, range.kind, range.executable) {
                return false;
            }
            next = found.last.checked_add(1);
        }
        true
    }

    /// The space of the generated code that `mapping`'s range holds already, if its name is the same: a range whose
    /// protection changes is announced again.
    pub(crate) fn anonymous_at(&self, start: Avma, last: Avma) -> Option<Mapping> {
        self.mappings
            .recorded
            .first_from(start)
            .filter(|found| found.start <= last && found.kind == MappingKind::Anonymous)
    }

    // Programs that move their text to huge pages copy it, map anonymous memory over it and copy it back
    // (`node --use-largepages`, hugify of BOLT, iodlr). The addresses still mean the object's text.

    /// Live: the anonymous range is announced while the object's mapping covers it.
    fn is_inside_text(&self, range: &Mapping) -> bool {
        let Some(mut covering) = self.mappings.recorded.get(range.start) else { return false };
        let mut continued = covering.kind == MappingKind::Image && covering.executable;
        while continued && covering.last < range.last {
            let next = covering.last.checked_add(1).and_then(|next| self.mappings.recorded.get(next));
            let Some(next) = next else { return false };
            continued = covering.is_continued_by(&next) && next.executable;
            covering = next;
        }
        continued
    }

    /// From a list of mappings, when the two ends of the text are known already.
    fn gap_in_text(&self, gap: &Mapping) -> Option<Mapping> {
        let before = self.mappings.recorded.get(Avma(gap.start.0.checked_sub(1)?))?;
        let after = self.mappings.recorded.get(gap.last.checked_add(1)?)?;
        joined(&before, gap, &after)
    }

    /// From a list of mappings in ascending order: `after` is the end of a text whose middle came before it.
    fn remapped_text_before(&self, after: &Mapping) -> Option<Mapping> {
        let gap = self.mappings.recorded.get(Avma(after.start.0.checked_sub(1)?))?;
        if gap.kind != MappingKind::Anonymous || !gap.executable {
            return None;
        }
        let before = self.mappings.recorded.get(Avma(gap.start.0.checked_sub(1)?))?;
        joined(&before, &gap, after)
    }

    fn replaces_anonymous(&self, mapping: &Mapping) -> bool {
        if self.mappings.has_generated_in(mapping) {
            return true;
        }
        let mut from = mapping.start;
        while let Some(found) =
            self.mappings.recorded.first_from(from).filter(|found| found.start <= mapping.last)
        {
            if found.kind != MappingKind::Image {
                return true;
            }
            match found.last.checked_add(1) {
                Some(next) => from = next,
                None => return false,
            }
        }
        false
    }
}

/// `gap` as a part of the text that `before` and `after` are parts of.
fn joined(before: &Mapping, gap: &Mapping, after: &Mapping) -> Option<Mapping> {
    (before.executable && after.executable && before.is_continued_by(after)).then(|| Mapping {
        start: gap.start,
        last: gap.last,
        offset: before.offset_of(gap.start),
        ..*before
    })
}
