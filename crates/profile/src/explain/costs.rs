//! Kinds of work that the names of functions tell: locks, page faults, copies, allocation.

use std::collections::BTreeMap;

use crate::{FrameId, FrameKind, Label, ViewFrame};

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CostKind {
    /// Waiting for locks, by spinning or on the way to sleep.
    Locks,
    /// Page faults: memory touched for the first time, or again after it was taken away.
    PageFaults,
    /// Copying and clearing of memory.
    Copies,
    /// Getting and giving back memory.
    Allocation,
    /// Collecting garbage.
    GarbageCollection,
    /// Starting and ending processes.
    Processes,
    /// Choosing which thread runs.
    Scheduling,
}

/// The cost of a kind of work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cost {
    /// The kind.
    pub kind: CostKind,
    /// Weight of the samples within it.
    pub weight: u64,
    /// The function by which most of it is known.
    pub by: FrameId,
}

/// The names of functions of each kind: whole names, and beginnings of names.
const NAMES: [(CostKind, &[&str], &[&str]); 7] = [
    (
        CostKind::Locks,
        &[
            "__lll_lock_wait",
            "__lll_lock_wait_private",
            "___pthread_mutex_lock",
            "pthread_mutex_lock",
            "pthread_mutex_timedlock",
            "pthread_rwlock_rdlock",
            "pthread_rwlock_wrlock",
            "pthread_spin_lock",
            "native_queued_spin_lock_slowpath",
            "osq_lock",
            "do_futex",
            "futex_wait",
            "rwsem_down_write_slowpath",
            "rwsem_down_read_slowpath",
            "s_lock",
            "LWLockAcquire",
            "runtime.lock2",
            "runtime.futex",
        ],
        &[
            "parking_lot_core::",
            "std::sys::sync::mutex::",
            "std::sys::sync::rwlock::",
            "__mutex_lock",
            "ObjectMonitor::",
        ],
    ),
    (
        CostKind::PageFaults,
        &[
            "asm_exc_page_fault",
            "exc_page_fault",
            "do_user_addr_fault",
            "handle_mm_fault",
            "do_page_fault",
            "do_translation_fault",
        ],
        &[],
    ),
    (
        CostKind::Copies,
        &[
            "memcpy",
            "memmove",
            "memset",
            "_copy_to_iter",
            "_copy_from_iter",
            "copy_user_generic",
            "rep_movs_alternative",
            "rep_stos_alternative",
            "clear_page_erms",
            "clear_page_rep",
            "copy_page",
            "runtime.memmove",
            "runtime.memclrNoHeapPointers",
        ],
        &["__memcpy_", "__memmove_", "__memset_", "copy_user_enhanced_fast_string"],
    ),
    (
        CostKind::Allocation,
        &[
            "malloc",
            "free",
            "cfree",
            "calloc",
            "realloc",
            "__libc_malloc",
            "__libc_free",
            "_int_malloc",
            "_int_free",
            "_int_realloc",
            "malloc_consolidate",
            "unlink_chunk",
            "_PyObject_Malloc",
            "_PyObject_Free",
            "PyObject_Malloc",
            "PyObject_Free",
            "pymalloc_alloc",
            "pymalloc_free",
            "runtime.mallocgc",
            "AllocSetAlloc",
            "palloc",
            "pfree",
            "__rdl_alloc",
            "__rust_alloc",
            "__rust_dealloc",
            "operator new",
            "operator delete",
            "kmem_cache_alloc",
            "kmem_cache_free",
            "kmalloc",
            "kfree",
        ],
        &[
            "operator new(",
            "operator delete(",
            "mi_malloc",
            "mi_free",
            "je_malloc",
            "je_free",
            "_rjem_",
            "tc_malloc",
            "tc_free",
        ],
    ),
    (
        CostKind::GarbageCollection,
        &[
            "runtime.gcBgMarkWorker",
            "runtime.gcDrain",
            "runtime.gcStart",
            "runtime.bgsweep",
            "gc_collect_main",
            "gc_collect_generations",
        ],
        &[
            "v8::internal::MarkCompactCollector::",
            "v8::internal::Scavenger",
            "v8::internal::Heap::CollectGarbage",
            "G1ParTask",
            "G1CollectedHeap::",
            "GCTaskThread::",
            "caml_major_collection",
            "caml_empty_minor_heap",
        ],
    ),
    (
        CostKind::Processes,
        &[
            "kernel_clone",
            "copy_process",
            "do_exit",
            "do_group_exit",
            "exit_mmap",
            "load_elf_binary",
            "bprm_execve",
            "dl_main",
            "_dl_start",
            "_dl_relocate_object",
        ],
        &["do_execveat_common"],
    ),
    (
        CostKind::Scheduling,
        &[
            "schedule",
            "__schedule",
            "pick_next_task_fair",
            "try_to_wake_up",
            "runtime.schedule",
            "runtime.findRunnable",
            "finish_task_switch",
        ],
        &["schedule_", "finish_task_switch."],
    ),
];

/// Names that programs give the functions which take their own locks, without capitals and without what they belong to:
/// `SpinLock::lock(int)`, `Mutex::LockSlow`, `ReentrantLock.lock`.
const LOCKING: [&str; 10] = [
    "acquire_lock",
    "lock",
    "lock_contended",
    "lock_shared",
    "lock_slow",
    "lockslow",
    "mutex_lock",
    "slowlock",
    "spin_lock",
    "spinlock",
];

/// Returns true for functions that choose which thread runs: how often they do depends on what else the machine does.
pub fn is_of_scheduler(frame: &ViewFrame) -> bool {
    let Label::Function(name, _) = &frame.label else { return false };
    kind_of(name, frame.kind == FrameKind::Kernel) == Some(CostKind::Scheduling)
}

/// The kind of work that a function does, by its name.
fn kind_of(function: &str, in_kernel: bool) -> Option<CostKind> {
    // Without the version or the stub: `malloc@@GLIBC_2.2.5`, `malloc@plt`.
    let function = match function.split_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        _ => function,
    };
    let is = |(_, names, starts): &&(CostKind, &[&str], &[&str])| {
        names.contains(&function) || starts.iter().any(|start| function.starts_with(start))
    };
    let known = NAMES.iter().find(is).map(|&(kind, ..)| kind);
    // Compilers and simulators have a `schedule_block` of their own.
    let is_meant =
        |kind: &CostKind| *kind != CostKind::Scheduling || in_kernel || function.starts_with("runtime.");
    let known = known.filter(is_meant);
    known.or_else(|| takes_lock(function).then_some(CostKind::Locks))
}

/// True for the names of functions that take a lock of the program's own.
fn takes_lock(function: &str) -> bool {
    let name = function.split('(').next().unwrap_or(function);
    let last = name.rsplit([':', '.']).next().unwrap_or(name);
    LOCKING.iter().any(|locking| last.eq_ignore_ascii_case(locking))
}

/// Weighs the kinds. A sample belongs to the innermost function of its stack that tells one, so that kinds do not overlap: a
/// page fault while memory is allocated is a page fault.
pub(super) struct CostSums<'v> {
    frames: &'v [ViewFrame],
    sums: BTreeMap<CostKind, BTreeMap<FrameId, u64>>,
    /// By frame, its kind of work where it was asked for.
    kinds: Vec<Option<Option<CostKind>>>,
}

impl<'v> CostSums<'v> {
    pub(super) fn new(frames: &'v [ViewFrame]) -> Self {
        Self { frames, sums: BTreeMap::default(), kinds: vec![None; frames.len()] }
    }

    /// Counts a stack, outermost frame first.
    pub(super) fn count(&mut self, stack: &[FrameId], weight: u64) {
        let Self { frames, sums, kinds } = self;
        let mut kind_of_frame = |frame: FrameId| {
            let kind = &mut kinds[frame.index()];
            *kind.get_or_insert_with(|| {
                let ViewFrame { label, kind, .. } = &frames[frame.index()];
                match label {
                    Label::Function(name, _) => kind_of(name, *kind == FrameKind::Kernel),
                    _ => None,
                }
            })
        };
        let found = stack.iter().rev().find_map(|&frame| Some((frame, kind_of_frame(frame)?)));
        if let Some((frame, kind)) = found {
            let sum = sums.entry(kind).or_default().entry(frame).or_default();
            *sum = sum.saturating_add(weight);
        }
    }

    /// Returns the kinds, heaviest first.
    pub(super) fn sorted(&self) -> Vec<Cost> {
        let cost = |(&kind, by): (&CostKind, &BTreeMap<FrameId, u64>)| {
            let weight = by.values().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
            let (&by, _) = by.iter().max_by_key(|&(frame, weight)| (weight, std::cmp::Reverse(frame)))?;
            Some(Cost { kind, weight, by })
        };
        let mut costs: Vec<Cost> = self.sums.iter().filter_map(cost).collect();
        costs.sort_unstable_by_key(|cost| (std::cmp::Reverse(cost.weight), cost.kind));
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_programs_are_known_by_the_last_part_of_their_names() {
        for locking in [
            "lock",
            "SpinLock::lock(int)",
            "absl::Mutex::LockSlow",
            "sync::Mutex<T>::lock",
            "sync.ReentrantLock.lock",
            "pthread_spin_lock@@GLIBC_2.34",
        ] {
            assert_eq!(kind_of(locking, false), Some(CostKind::Locks), "{locking}");
        }
        for other in
            ["clock", "block", "unlock", "lock_table::insert", "std::lock_guard<std::mutex>::lock_guard"]
        {
            assert_eq!(kind_of(other, false), None, "{other}");
        }
    }

    #[test]
    fn versions_and_stubs_are_no_part_of_a_name_and_programs_schedule_too() {
        assert_eq!(kind_of("cfree@GLIBC_2.2.5", false), Some(CostKind::Allocation));
        assert_eq!(kind_of("malloc@plt", false), Some(CostKind::Allocation));
        assert_eq!(kind_of("schedule_timeout", true), Some(CostKind::Scheduling));
        assert_eq!(kind_of("finish_task_switch.isra.0", true), Some(CostKind::Scheduling));
        assert_eq!(kind_of("runtime.schedule", false), Some(CostKind::Scheduling));
        assert_eq!(kind_of("schedule_block", false), None, "of a compiler");
    }
}
