//! Numbers that name things, one type each.

use core::fmt;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id_type! {
    /// A process, as the recording's pid namespace numbers it (the kernel's *tgid*); −1 where a record has none.
    Pid(i32)
}
id_type! {
    /// A thread, as the recording's pid namespace numbers it (the kernel's *pid*); −1 where a record has none.
    Tid(i32)
}
id_type! {
    /// A logical CPU number.
    CpuId(u32)
}
id_type! {
    /// The position of an event in the recording's list of events (not the kernel's event id).
    EventIndex(u32)
}
id_type! {
    /// Nanoseconds on the clock of the recording (`sched_clock`, or the clock of `attr.clockid`).
    Timestamp(u64)
}

impl Timestamp {
    /// Extends the span from the first to the last of some times so that this one lies in it.
    #[inline]
    pub fn extend(self, span: &mut Option<(Self, Self)>) {
        let (first, last) = span.get_or_insert((self, self));
        (*first, *last) = ((*first).min(self), (*last).max(self));
    }
}

/// Maximum number of cgroups that are listed or kept: no machine has as many, but somebody may have mounted a loop.
pub const MAX_CGROUPS: usize = 1 << 16;

impl CpuId {
    /// The highest number that is accepted; greater ones are damage. The kernel's `NR_CPUS` is at most 8192.
    pub const MAX: Self = Self(65_535);
}

impl Pid {
    /// The idle task and the kernel's own mappings use other numbers; this is "no process".
    pub const NONE: Self = Self(-1);
}
