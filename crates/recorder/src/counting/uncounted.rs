//! Why an event has no count.

use std::fmt;

use decoder::{Attr, AttrFlags};

/// The reason why an event has no count (`perf_event_open(2)`, "BUGS": that it opens does not mean that it can run).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Uncounted {
    /// The machine, or its kernel, does not have it.
    NotHere {
        /// The PMU of the cores that does not have it; `None` if there is none.
        pmu: Option<String>,
    },
    /// The kernel refused it: its errno in words, and what to do.
    Refused(String),
    /// It occurs in the kernel only, which this user may not observe.
    Forbidden,
    /// Nothing of the target ran while it was counted.
    NeverRan,
    /// It was pinned, and there was no counter for it.
    Pinned,
    /// It was to have the PMU for itself.
    Exclusive,
    /// The NMI watchdog has a counter for itself, and the rest was not enough.
    Watchdog,
    /// The group needs more counters than there were.
    Group,
    /// Others had all counters that can count it.
    NoCounter,
}

impl Uncounted {
    /// Returns the reason why an event that was enabled for `enabled_ns` has never counted.
    pub(crate) fn without_counter(attr: &Attr, in_group: bool, enabled_ns: u64, watchdog: bool) -> Self {
        match () {
            () if enabled_ns == 0 => Self::NeverRan,
            () if attr.flags.contains(AttrFlags::PINNED) => Self::Pinned,
            () if attr.flags.contains(AttrFlags::EXCLUSIVE) => Self::Exclusive,
            () if watchdog => Self::Watchdog,
            () if in_group => Self::Group,
            () => Self::NoCounter,
        }
    }
}

impl fmt::Display for Uncounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHere { pmu } => return f.write_str(&not_here(pmu.as_deref())),
            Self::Refused(why) => why,
            Self::Forbidden => {
                "it happens in the kernel, which this user may not observe; try: sudo sysctl kernel.perf_event_paranoid=1"
            }
            Self::NeverRan => "nothing of the target ran while it was counted",
            Self::Pinned => "it was pinned (:D) and there was no counter for it; try it without D",
            Self::Exclusive => "it was to have the PMU for itself (:e), and others used it; try it without e",
            Self::Watchdog => {
                "it never got a counter, and the NMI watchdog has one for itself; try: sudo sysctl kernel.nmi_watchdog=0"
            }
            Self::Group => "its group never got as many counters as it has events; try fewer in the braces",
            Self::NoCounter => "it never got a counter: others had those that can count it; try fewer events",
        })
    }
}

/// Says that a machine with this PMU, or none, does not count an event.
pub(crate) fn not_here(pmu: Option<&str>) -> String {
    match pmu {
        Some(pmu) => format!("the PMU of this machine ({pmu}) does not count it"),
        None => "this machine does not count it (a virtual machine often has no PMU)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_apart() {
        let why = |flags, group, watchdog| {
            Uncounted::without_counter(&Attr { flags, ..Attr::default() }, group, 5, watchdog)
        };
        assert_eq!(why(AttrFlags::PINNED, true, true), Uncounted::Pinned);
        assert_eq!(why(AttrFlags::EXCLUSIVE, false, true), Uncounted::Exclusive);
        assert_eq!(why(AttrFlags::empty(), true, true), Uncounted::Watchdog);
        assert_eq!(why(AttrFlags::empty(), true, false), Uncounted::Group);
        assert_eq!(why(AttrFlags::empty(), false, false), Uncounted::NoCounter);
    }
}
