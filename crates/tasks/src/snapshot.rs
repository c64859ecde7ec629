//! What one look at a process has found.

use std::collections::HashMap;
use std::ops::AddAssign;

use model::TruncationReason;

/// The goroutines to read, and what they may cost.
pub struct Choice<'c> {
    /// Says of the address of a goroutine whether it is read.
    pub wants: &'c dyn Fn(u64) -> bool,
    /// Returns true when reading has to end. What is not read then is counted.
    pub is_over: &'c dyn Fn() -> bool,
    /// The maximum number of goroutines: a list that claims more is read up to here.
    pub max_tasks: u64,
    /// The maximum number of frames of a stack.
    pub max_frames: u16,
}

/// What parked goroutines have in common: where they were started, what they wait for, and their calls.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TaskStack {
    /// The return address of the `go` statement that started them (Avma); 0 for the main goroutine.
    pub started: u64,
    /// The number of the reason to wait, of [`crate::GoProcess::reason`].
    pub reason: u8,
    /// Return addresses (Avma), innermost first, without functions of the runtime and wrappers.
    pub frames: Vec<u64>,
    /// Why the outer frames are missing.
    pub cut: Option<TruncationReason>,
}

/// The parked goroutines of a process at one moment.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    // Hashed with a random key: the profiled program chooses the addresses.
    /// The number of goroutines by stack.
    pub stacks: HashMap<TaskStack, u64>,
    /// The counts of all.
    pub counts: Counts,
}

/// Numbers of goroutines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// All that live, of those that were to be read.
    pub seen: u64,
    /// Those that wait, and are not the runtime's own.
    pub parked: u64,
    /// Those whose stack is whole.
    pub whole: u64,
    /// Those that went on while they were read, or whose stack is no chain of calls.
    pub torn: u64,
    /// Those whose outer frames are missing.
    pub cut: u64,
    /// Those that were to be read, but for whose time or place was not enough.
    pub unread: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        // Destructured so that a new field cannot be forgotten here.
        let Self { seen, parked, whole, torn, cut, unread } = other;
        self.seen = self.seen.saturating_add(seen);
        self.parked = self.parked.saturating_add(parked);
        self.whole = self.whole.saturating_add(whole);
        self.torn = self.torn.saturating_add(torn);
        self.cut = self.cut.saturating_add(cut);
        self.unread = self.unread.saturating_add(unread);
    }
}
