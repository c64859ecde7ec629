//! The letters behind an event's colon (`perf-list(1)`, "EVENT MODIFIERS").

use decoder::AttrFlags;

use super::EventError;

/// The required distance of a sample from the instruction that caused it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Precision {
    /// `precise_ip` of this value (`p`, `pp`, `ppp`).
    Level(u8),
    /// The highest that the kernel accepts (`P`).
    Highest,
    /// No precision was asked for.
    #[default]
    Any,
}

/// The modifiers that the letters behind an event's name state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Modifiers {
    /// `u`: in user space. Where no level is named, all are counted.
    pub user: bool,
    /// `k`: in the kernel.
    pub kernel: bool,
    /// `h`: in the hypervisor.
    pub hypervisor: bool,
    /// `G`: in guests.
    pub guest: bool,
    /// `H`: on the host.
    pub host: bool,
    /// `I`: not while the CPU is idle.
    pub exclude_idle: bool,
    /// `p`, `P`.
    pub precision: Precision,
    /// `D`: always on the PMU.
    pub pinned: bool,
    /// `e`: alone on the PMU.
    pub exclusive: bool,
    /// `S`: only the group's leader samples, and reads all members.
    pub sample_read: bool,
}

impl Modifiers {
    /// The letters that [`Modifiers::parse`] knows.
    pub(super) const LETTERS: &str = "ukhGHIpPDeS";

    /// Parses the letters; `text` is the whole event, for messages.
    ///
    /// # Errors
    /// [`EventError::Modifier`] for an unknown letter; [`EventError::Malformed`] for precisions that exclude each other.
    pub fn parse(letters: &str, text: &str) -> Result<Self, EventError> {
        let malformed = |problem| Err(EventError::Malformed { text: text.to_owned(), problem });
        let mut modifiers = Self::default();
        for letter in letters.chars() {
            match (letter, modifiers.precision) {
                ('u', _) => modifiers.user = true,
                ('k', _) => modifiers.kernel = true,
                ('h', _) => modifiers.hypervisor = true,
                ('G', _) => modifiers.guest = true,
                ('H', _) => modifiers.host = true,
                ('I', _) => modifiers.exclude_idle = true,
                ('P', Precision::Any | Precision::Highest) => modifiers.precision = Precision::Highest,
                ('p', Precision::Any) => modifiers.precision = Precision::Level(1),
                ('p', Precision::Level(level)) if level < 3 => {
                    modifiers.precision = Precision::Level(level + 1);
                }
                ('p', Precision::Level(_)) => return malformed("there is no precision beyond ppp"),
                ('p' | 'P', _) => return malformed("p and P exclude each other"),
                ('D', _) => modifiers.pinned = true,
                ('e', _) => modifiers.exclusive = true,
                ('S', _) => modifiers.sample_read = true,
                (letter, _) => return Err(EventError::Modifier { text: text.to_owned(), letter }),
            }
        }
        Ok(modifiers)
    }

    /// Returns these modifiers of a member combined with those of its group.
    #[must_use]
    pub fn with(self, group: Self) -> Self {
        Self {
            user: self.user | group.user,
            kernel: self.kernel | group.kernel,
            hypervisor: self.hypervisor | group.hypervisor,
            guest: self.guest | group.guest,
            host: self.host | group.host,
            exclude_idle: self.exclude_idle | group.exclude_idle,
            precision: if self.precision == Precision::Any { group.precision } else { self.precision },
            pinned: self.pinned | group.pinned,
            exclusive: self.exclusive | group.exclusive,
            sample_read: self.sample_read | group.sample_read,
        }
    }

    /// Returns true if a privilege level was named, so that the others are excluded.
    pub fn names_levels(&self) -> bool {
        self.user | self.kernel | self.hypervisor
    }

    /// Returns the flags of the attr.
    pub fn flags(&self) -> AttrFlags {
        let mut flags = AttrFlags::empty();
        if self.names_levels() {
            flags.set(AttrFlags::EXCLUDE_USER, !self.user);
            flags.set(AttrFlags::EXCLUDE_KERNEL, !self.kernel);
            flags.set(AttrFlags::EXCLUDE_HV, !self.hypervisor);
        }
        // Guests are excluded unless asked for, as in perf.
        flags.set(AttrFlags::EXCLUDE_GUEST, !self.guest);
        flags.set(AttrFlags::EXCLUDE_HOST, self.guest && !self.host);
        flags.set(AttrFlags::EXCLUDE_IDLE, self.exclude_idle);
        flags.set(AttrFlags::PINNED, self.pinned);
        flags.set(AttrFlags::EXCLUSIVE, self.exclusive);
        flags
    }
}
