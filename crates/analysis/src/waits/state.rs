//! What a thread did, with which stack, and what it waited for as far as somebody outside saw it.

use std::collections::HashMap;

use model::{Avma, Blocked, FileOffset, Name, SpaceId, Tid};
use profile::{StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

/// The stack of a wait, and what is known of its cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Wait {
    pub(super) stack: StackId,
    pub(super) cause: Option<CauseId>,
    /// The thread or interrupt that ended it, where that is asked for.
    pub(super) waker: Option<WakerId>,
}

impl Default for Wait {
    fn default() -> Self {
        Self { stack: StackId::EMPTY, cause: None, waker: None }
    }
}

/// The key by which the time of a thread is summed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct State {
    pub(super) thread: ThreadId,
    pub(super) activity: Activity,
    pub(super) wait: Wait,
}

impl State {
    /// Returns true if neither a stack nor a cause is known.
    pub(super) fn is_bare(&self) -> bool {
        self.wait == Wait::default()
    }
}

/// The number of a cause that was read from outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CauseId(pub(super) u32);

/// The number of a waker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct WakerId(pub(super) u32);

/// Causes of waits as they were read from outside: system calls with what they were called with.
#[derive(Default)]
pub(super) struct Causes {
    // Paths of files are chosen by those who are profiled: the standard hash has a random key.
    numbers: HashMap<Box<[u8]>, CauseId>,
    causes: Vec<Blocked>,
    /// For each cause the same call without its file or address.
    calls: Vec<CauseId>,
    /// The addresses that causes name, where they lie beside the code of an object.
    variables: Vec<(CauseId, Variable)>,
}

/// An address beside the code of an object, where its variables are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Variable {
    pub(crate) space: SpaceId,
    /// The offset in its file of code before it, and the distance from there, in bytes.
    pub(crate) place: (FileOffset, u64),
}

/// What the recorder says of a wait that it read from outside: the call with its object, and who is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said<'r> {
    pub(super) cause: &'r [u8],
    /// The thread, or the first one of the process; and true if it is who holds a lock, if what is waited for is one.
    pub(super) by: Option<(Tid, bool)>,
}

impl<'r> Said<'r> {
    /// Reads the raw part of a sample: `futex 0x7f00 held by 12`, `child by 34`, `read fd 5 → /var/x`.
    pub(super) fn parse(raw: &'r [u8]) -> Self {
        let end = raw.iter().position(|byte| *byte == 0).unwrap_or(raw.len());
        let said = raw.get(..end).unwrap_or_default();
        let tail = said.iter().rposition(|byte| *byte == b' ').map(|at| said.split_at(at));
        // Paths of files may say anything.
        let by = tail.filter(|(call, _)| call.starts_with(b"futex") || call.starts_with(b"child")).and_then(
            |(call, number)| {
                let number = str::from_utf8(number).ok()?.trim_start().parse().ok()?;
                let is_held = call.strip_suffix(b" held by").map(|call| (call, (Tid(number), true)));
                is_held.or_else(|| Some((call.strip_suffix(b" by")?, (Tid(number), false))))
            },
        );
        match by {
            Some((cause, by)) => Self { cause, by: Some(by) },
            None => Self { cause: said, by: None },
        }
    }
}

/// Maximum number of causes, and of wakers. Further causes are cut to their first word; further wakers are dropped.
pub(super) const MAX_NAMES: usize = 10_000;

/// The words before which the name of a call ends, and its file or address begins, as the recorder words them.
const OBJECTS: [&[u8]; 2] = [b" fd ", b" 0x"];

/// The cause of waits in page faults, as the recorder words it.
pub(super) const PAGE_FAULT: &[u8] = b"page fault";

/// Calls that event loops rest in, as the recorder words them.
const EVENTS: [(&str, &str); 8] = [
    ("epoll_wait", "epoll"),
    ("poll", "poll"),
    ("select", "select"),
    ("io_uring_enter", "io_uring"),
    ("io_getevents", "aio"),
    ("rt_sigtimedwait", "signal"),
    ("rt_sigsuspend", "signal"),
    ("pause", "signal"),
];

/// The only object of the waits with each stack of a thread; `None` where there are several.
pub(super) struct OnlyObjects(HashMap<(ThreadId, StackId), Option<CauseId>, FxBuildHasher>);

impl Causes {
    /// As [`Self::intern`]. `locate` is asked once for the place of an address that it names.
    pub(super) fn intern_at(
        &mut self,
        said: &[u8],
        locate: impl FnOnce(Avma) -> Option<Variable>,
    ) -> Option<CauseId> {
        let known = self.causes.len();
        let cause = self.intern(said)?;
        if self.causes.len() > known
            && let Some(Blocked::For(words)) = self.causes.get(cause.0 as usize)
            && let Some((_, address)) = words.split_once(" 0x")
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            self.variables.extend(locate(Avma(address)).map(|variable| (cause, variable)));
        }
        Some(cause)
    }

    /// Names the variables that waits were for. `names` returns those of some places in one space.
    pub(super) fn name_variables(
        &mut self,
        names: impl Fn(SpaceId, &[(FileOffset, u64)]) -> Vec<Option<String>>,
    ) {
        self.variables.sort_unstable_by_key(|(_, variable)| *variable);
        for of_space in self.variables.chunk_by(|(_, one), (_, next)| one.space == next.space) {
            let Some((_, Variable { space, .. })) = of_space.first() else { continue };
            let places: Vec<_> = of_space.iter().map(|(_, variable)| variable.place).collect();
            for ((cause, _), name) in of_space.iter().zip(names(*space, &places)) {
                if let (Some(name), Some(Blocked::For(words))) = (name, self.causes.get_mut(cause.0 as usize))
                    && let Some((call, _)) = words.split_once(" 0x")
                {
                    *words = format!("{call} {}", Name::from(name.as_str()));
                }
            }
        }
    }

    /// The number of what a sample says; `None` where it says nothing.
    pub(super) fn intern(&mut self, said: &[u8]) -> Option<CauseId> {
        let mut said = Said::parse(said).cause;
        if self.causes.len() >= MAX_NAMES && !self.numbers.contains_key(said) {
            said = said.split(|byte| *byte == b' ').next()?;
        }
        if said.is_empty() {
            return None;
        }
        if let Some(known) = self.numbers.get(said) {
            return Some(*known);
        }
        let cause = CauseId(u32::try_from(self.causes.len()).ok()?);
        // A name prints harmlessly, whatever a file is called.
        let words = Name::from(said).to_string();
        let events = EVENTS.iter().find(|(call, _)| *call == words);
        self.causes.push(match events {
            Some((_, events)) => Blocked::Events((*events).to_owned()),
            None => Blocked::For(words),
        });
        self.numbers.insert(said.into(), cause);
        self.calls.push(cause);
        let call =
            OBJECTS.iter().find_map(|object| said.windows(object.len()).position(|part| part == *object));
        let call = call.and_then(|end| self.intern(said.get(..end)?));
        if let (Some(call), Some(of_cause)) = (call, self.calls.get_mut(cause.0 as usize)) {
            *of_cause = call;
        }
        Some(cause)
    }

    /// Returns the same call without its file or address.
    fn call(&self, cause: CauseId) -> CauseId {
        self.calls.get(cause.0 as usize).copied().unwrap_or(cause)
    }

    /// Returns a wait without its file or address, as it stands for others.
    pub(super) fn without_object(&self, wait: Wait) -> Wait {
        Wait { cause: wait.cause.map(|cause| self.call(cause)), ..wait }
    }

    /// Finds the object (file or address) of the waits with each stack of a thread, where all that were read with their object
    /// have the same.
    pub(super) fn only_objects(&self, waits: impl Iterator<Item = (ThreadId, Wait)>) -> OnlyObjects {
        let mut objects: HashMap<_, Option<CauseId>, FxBuildHasher> = HashMap::default();
        for (thread, wait) in waits {
            let Some(cause) = wait.cause.filter(|&cause| self.call(cause) != cause) else { continue };
            let known = objects.entry((thread, wait.stack)).or_insert(Some(cause));
            *known = known.filter(|&known| known == cause);
        }
        OnlyObjects(objects)
    }

    /// Adds the object to a wait of which the call alone is known, or only the stack, if there is but one.
    pub(super) fn with_only_object(&self, objects: &OnlyObjects, thread: ThreadId, wait: Wait) -> Wait {
        let only = objects.0.get(&(thread, wait.stack)).copied().flatten();
        let is_its = |only: &CauseId| wait.cause.is_none_or(|cause| cause == self.call(*only));
        match only.filter(|only| wait.stack != StackId::EMPTY && is_its(only)) {
            Some(only) => Wait { cause: Some(only), ..wait },
            None => wait,
        }
    }

    /// Returns the cause of the wait.
    pub(super) fn of(&self, cause: CauseId) -> Option<Blocked> {
        self.causes.get(cause.0 as usize).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart_and_print_harmlessly() {
        let mut causes = Causes::default();
        let mut said = |bytes: &[u8]| {
            let cause = causes.intern(bytes)?;
            causes.of(cause)
        };
        assert_eq!(said(b"epoll_wait\0\0"), Some(Blocked::Events("epoll".to_owned())));
        assert_eq!(said(b"futex 0x10"), Some(Blocked::For("futex 0x10".to_owned())));
        assert!(matches!(said(b"read fd 5 \x1b[31m"), Some(Blocked::For(text)) if !text.contains('\u{1b}')));
        assert_eq!(said(b"\0\0"), None);
        assert_eq!(causes.intern(b"epoll_wait"), causes.intern(b"epoll_wait\0"));
    }

    #[test]
    fn who_is_waited_for_is_no_part_of_the_cause() {
        let said = |raw: &'static [u8]| {
            let Said { cause, by } = Said::parse(raw);
            (str::from_utf8(cause).unwrap(), by)
        };
        assert_eq!(said(b"futex 0x10 held by 12\0"), ("futex 0x10", Some((Tid(12), true))));
        assert_eq!(said(b"futex 0x10 by 12"), ("futex 0x10", Some((Tid(12), false))));
        assert_eq!(said(b"child by 7\0\0"), ("child", Some((Tid(7), false))));
        for plain in ["futex 0x10", "futex by", "child", "read fd 5 \u{2192} /x by 7", "futex 0x10 by x", ""]
        {
            assert_eq!(said(plain.as_bytes()), (plain, None));
        }
        let mut causes = Causes::default();
        assert_eq!(causes.intern(b"futex 0x10 held by 12"), causes.intern(b"futex 0x10"));
    }

    #[test]
    fn a_wait_that_was_not_read_has_the_only_object_of_its_stack() {
        let mut causes = Causes::default();
        let [lock, other, call] =
            [&b"futex 0x10"[..], b"futex 0x20", b"futex"].map(|said| causes.intern(said));
        let mut profile = profile::Profile::new(profile::Detail::default());
        let entry = |offset| model::StackEntry {
            offset,
            space: model::SpaceId(0),
            kind: model::AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let [one, two] = [1, 2].map(|offset| profile.stacks.intern(&[entry(offset)]));
        let (thread, wait) = (ThreadId::default(), |stack, cause| Wait { stack, cause, waker: None });
        let read =
            [wait(one, lock), wait(one, None), wait(two, lock), wait(two, other), wait(StackId::EMPTY, lock)];
        let objects = causes.only_objects(read.into_iter().map(|wait| (thread, wait)));
        let completed = |stack, cause| causes.with_only_object(&objects, thread, wait(stack, cause)).cause;
        assert_eq!([None, call, lock].map(|cause| completed(one, cause)), [lock; 3]);
        assert_eq!(completed(one, other), other);
        assert_eq!([None, call, other].map(|cause| completed(two, cause)), [None, call, other]);
        assert_eq!(completed(StackId::EMPTY, None), None, "nothing says that it is the same wait");
    }
}
