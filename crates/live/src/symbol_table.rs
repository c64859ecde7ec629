//! The functions of sampled addresses, as far as they are known.
//!
//! An address gets a number when it is first seen, and a frame that names its module alone. When the symbol worker has found its
//! functions, its frames are replaced; its number, and the numbers of all functions, stay.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use export::{frame_name, safe_label};
use model::{Blocked, MapRefusal, Reason, Resolution, Space, SpaceId, SpaceTable, StackEntry, ThreadState};
use profile::runtime_names::{self, RuntimeName};
use profile::{FrameKind, Label, ViewFrame, module_of};
use rustc_hash::FxBuildHasher;

use super::name_queue::Stage;
use super::shared_list::SharedList;
use super::symbol_worker::NamedAddress;
use crate::snapshot::{Frame, Function, LookupAddress, StateKind};

/// The time after which the functions of generated code are looked up again, where its perf map or jitdump did not have it yet.
/// Runtimes write these files late.
/// Shorter than the interval between two requests of the default screen (1 s), so that the next one includes it.
const FIRST_RETRY: Duration = Duration::from_millis(800);
/// The longest time between two such lookups. The time doubles from lookup to lookup while none of them brings a name. What all
/// lookups may cost is bounded by [`super::name_queue`].
const MAX_RETRY: Duration = Duration::from_secs(10);

/// The functions of the window's addresses. Numbers of functions and addresses stay the same until [`SymbolTable::compact`].
pub(crate) struct SymbolTable {
    functions: SharedList<Function>,
    function_numbers: HashMap<Function, u32, FxBuildHasher>,
    addresses: SharedList<LookupAddress>,
    /// The frames of all addresses, and those that addresses had before their functions were known.
    frames: Vec<Frame>,
    /// By address number: how far the lookup has come.
    lookups: Vec<LookupState>,
    numbers: HashMap<StackEntry, u32, FxBuildHasher>,
    spaces: HashMap<SpaceId, Arc<Space>, FxBuildHasher>,
    /// Addresses that the symbol worker has not been asked for yet.
    wanted: Vec<StackEntry>,
    /// Number of addresses that the symbol worker was asked for and has not answered.
    pending: usize,
    /// When generated code without a name is looked up again.
    retry_at: Instant,
    /// The time between the two lookups after that.
    retry_interval: Duration,
    numbering: u64,
    name_changes: u64,
    /// True if all functions of a module without symbols are one.
    modules_only: bool,
    /// The numbers of addresses that are states of threads, whose names depend on functions that are not known yet.
    states_to_name: Vec<u32>,
    /// True if threads that have slept since before the recording count as at rest, because nothing says where they sleep.
    pub(crate) sleepers_rest: bool,
}

/// How far the lookup of an address has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookupState {
    /// The first lookup is under way.
    Pending,
    /// A further lookup is under way. Intervals do not wait for it.
    Retrying,
    /// The last lookup has ended: its functions are known, or it has none.
    Finished,
    /// A lookup found nothing. Another one follows, because this is generated code whose name may be written later.
    RetryLater,
}

impl SymbolTable {
    /// Makes an empty table.
    pub(crate) fn new() -> Self {
        Self {
            functions: SharedList::default(),
            function_numbers: HashMap::default(),
            addresses: SharedList::default(),
            frames: Vec::new(),
            lookups: Vec::new(),
            numbers: HashMap::default(),
            spaces: HashMap::default(),
            wanted: Vec::new(),
            pending: 0,
            retry_at: Instant::now() + MAX_RETRY,
            retry_interval: MAX_RETRY,
            numbering: 0,
            name_changes: 0,
            modules_only: false,
            states_to_name: Vec::new(),
            sleepers_rest: false,
        }
    }

    /// Makes all functions of a module without symbols one, if `modules_only`.
    pub(crate) fn with_modules_only(self, modules_only: bool) -> Self {
        Self { modules_only, ..self }
    }

    /// Returns the functions by number.
    pub(crate) fn functions(&self) -> SharedList<Function> {
        self.functions.clone()
    }

    /// Returns the addresses by number.
    pub(crate) fn addresses(&self) -> SharedList<LookupAddress> {
        self.addresses.clone()
    }

    /// Returns the frames of an address, given by its number: the innermost inlined call last.
    pub(crate) fn frames_of(&self, number: u32) -> impl Iterator<Item = Frame> + use<'_> {
        let range = self.addresses.get(number as usize).map_or(0..0, |address| address.frames.clone());
        self.frames.get(range.start as usize..range.end as usize).unwrap_or_default().iter().copied()
    }

    /// Returns a number that grows whenever an address gets other frames.
    pub(crate) fn name_changes(&self) -> u64 {
        self.name_changes
    }

    /// Returns a number that grows whenever functions and addresses get other numbers.
    pub(crate) fn numbering(&self) -> u64 {
        self.numbering
    }

    /// Returns how many addresses have not been looked up yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending + self.wanted.len()
    }

    /// Returns the number of an address. A new address gets a frame that names its module, and is wanted from the symbol worker.
    pub(crate) fn intern(&mut self, entry: StackEntry, spaces: &SpaceTable) -> u32 {
        if let Some(&number) = self.numbers.get(&entry) {
            return number;
        }
        let space =
            self.spaces.entry(entry.space).or_insert_with(|| Arc::new(spaces.get(entry.space).clone()));
        let space = Arc::clone(space);
        let frame = self.nameless(&entry, &space, None, None);
        if let Space::State(_) = &*space {
            // The functions of its stack may say what the thread waits for.
            let number = self.add(entry, space, [frame].into_iter(), LookupState::Finished);
            self.states_to_name.push(number);
            return number;
        }
        self.wanted.push(entry);
        self.add(entry, space, [frame].into_iter(), LookupState::Pending)
    }

    /// Names the states of threads. Calls `name` for each state without a final name; `name` may use [`Self::functions_at`], and
    /// returns `None` while functions that it needs are not known.
    pub(crate) fn name_states(&mut self, name: impl Fn(&Self, &LookupAddress) -> Option<ThreadState>) {
        for number in std::mem::take(&mut self.states_to_name) {
            let Some(address) = self.addresses.get(number as usize) else { continue };
            let Some(state) = name(self, address) else {
                self.states_to_name.push(number);
                continue;
            };
            let (entry, old) = (address.entry, address.frames.clone());
            let space = Space::State(state);
            let frame = self.nameless(&entry, &space, None, None);
            if self.frames.get(old.start as usize..old.end as usize) != Some(&[frame]) {
                self.name_changes += 1;
                let frames = push(&mut self.frames, [frame].into_iter());
                if let Some(address) = self.addresses.get_mut(number as usize) {
                    (address.frames, address.space) = (frames, Arc::new(space));
                }
            }
        }
    }

    /// Returns the names of the functions at an address, innermost first; `None` while the lookup is pending.
    pub(crate) fn functions_at(&self, entry: &StackEntry) -> Option<Vec<&str>> {
        let &number = self.numbers.get(entry)?;
        if self.lookups.get(number as usize) == Some(&LookupState::Pending) {
            return None;
        }
        let frames = self.frames_of(number).filter_map(|frame| self.functions.get(frame.function as usize));
        let mut names: Vec<&str> = frames.map(|function| &*function.name).collect();
        names.reverse();
        Some(names)
    }

    fn add(
        &mut self,
        entry: StackEntry,
        space: Arc<Space>,
        frames: impl Iterator<Item = Frame>,
        lookup: LookupState,
    ) -> u32 {
        let frames = push(&mut self.frames, frames);
        let number = self.lookups.len() as u32;
        let is_resolved = lookup != LookupState::Pending;
        self.addresses.push(LookupAddress { entry, space, frames, is_resolved });
        self.lookups.push(lookup);
        self.numbers.insert(entry, number);
        number
    }

    /// Returns the addresses that the symbol worker has to be asked for since the last call, among them those to look up again.
    pub(crate) fn drain_wanted(&mut self) -> Vec<StackEntry> {
        self.pending += self.wanted.len();
        let now = Instant::now();
        if self.retry_at <= now {
            self.retry_at = now + self.retry_interval;
            self.retry_interval = (2 * self.retry_interval).min(MAX_RETRY);
            for (lookup, address) in self.lookups.iter_mut().zip(self.addresses.iter()) {
                if *lookup == LookupState::RetryLater {
                    *lookup = LookupState::Retrying;
                    self.wanted.push(address.entry);
                }
            }
        }
        std::mem::take(&mut self.wanted)
    }

    /// Records what the symbol worker has found at an address, or why it has found nothing.
    pub(crate) fn record(&mut self, named: NamedAddress) {
        let NamedAddress { entry, resolution, stage } = named;
        let is_last = stage == Stage::Full;
        // The address may have been forgotten since the worker was asked.
        let Some(&number) = self.numbers.get(&entry) else { return };
        let Some(address) = self.addresses.get(number as usize) else { return };
        let (space, old) = (Arc::clone(&address.space), address.frames.clone());
        let before = self.lookups.get(number as usize).copied();
        let was_pending = before == Some(LookupState::Pending);
        self.pending = self.pending.saturating_sub(usize::from(is_last && was_pending));
        // Its file may be gone, or another one, when inlined calls are looked up: then it keeps the function of its symbol.
        let is_gone = is_last
            && matches!(
                resolution,
                Resolution::Unresolved(
                    Reason::FileMissing | Reason::FileChanged | Reason::BuildIdDiffers { .. }
                )
            );
        let (mut frames, lookup) = self.frames_of_resolution(&entry, &space, resolution);
        if is_gone && let Some(known) = self.frames.get(old.start as usize..old.end as usize) {
            frames = known.to_vec();
        }
        // The first lookup of new code has found no name, or a further one has: others may follow soon.
        let is_first = before != Some(LookupState::Retrying);
        if is_last && is_first == (lookup == LookupState::RetryLater) {
            self.retry_at = self.retry_at.min(Instant::now() + FIRST_RETRY);
            self.retry_interval = 2 * FIRST_RETRY;
        }
        let frames = match self.frames.get(old.start as usize..old.end as usize) == Some(&*frames) {
            true => old,
            false => {
                self.name_changes += 1;
                push(&mut self.frames, frames.into_iter())
            }
        };
        if let (Some(known), Some(address)) =
            (self.lookups.get_mut(number as usize), self.addresses.get_mut(number as usize))
        {
            *known = if is_last { lookup } else { LookupState::Pending };
            (address.frames, address.is_resolved) = (frames, is_last);
        }
    }

    /// The frames that a resolution gives an address, outermost first, and whether another lookup may find more.
    fn frames_of_resolution(
        &mut self,
        entry: &StackEntry,
        space: &Space,
        resolution: Resolution,
    ) -> (Vec<Frame>, LookupState) {
        match resolution {
            Resolution::Resolved(symbolized) => {
                let module: Arc<str> = module_text(space);
                let frames = symbolized.frames.iter().rev().map(|frame| {
                    let kind = if frame.inlined { FrameKind::Inlined } else { kind_of(entry, space) };
                    self.frame(&frame.function, &module, kind, entry.in_kernel)
                });
                (frames.collect(), LookupState::Finished)
            }
            Resolution::Delimited { start, .. } => {
                let start = (!self.modules_only).then_some(start.0);
                (vec![self.nameless(entry, space, start, None)], LookupState::Finished)
            }
            Resolution::Unresolved(reason) => {
                let refusal = match &reason {
                    Reason::JitMapRefused(why) => Some(*why),
                    _ => None,
                };
                let frame = self.nameless(entry, space, None, refusal);
                let may_come =
                    matches!(reason, Reason::NoJitMap | Reason::NotInJitMap | Reason::JitMapRefused(_));
                (vec![frame], if may_come { LookupState::RetryLater } else { LookupState::Finished })
            }
        }
    }

    /// Forgets addresses that are not in `live`, and functions that no other address has. All numbers change.
    pub(crate) fn compact(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        let functions = std::mem::take(&mut self.functions);
        let addresses = std::mem::take(&mut self.addresses);
        let frames = std::mem::take(&mut self.frames);
        let lookups = std::mem::take(&mut self.lookups);
        (self.function_numbers, self.numbers, self.spaces) = Default::default();
        self.states_to_name.clear();
        self.wanted.retain(|entry| live.contains(entry));
        let kept = addresses.iter().zip(lookups).filter(|(address, _)| live.contains(&address.entry));
        for (address, lookup) in kept {
            let old = frames.get(address.frames.start as usize..address.frames.end as usize);
            let renumbered: Vec<Frame> = old
                .unwrap_or_default()
                .iter()
                .filter_map(|frame| {
                    let function = self.function(functions.get(frame.function as usize)?.clone());
                    Some(Frame { function, ..*frame })
                })
                .collect();
            let is_state = matches!(*address.space, Space::State(_));
            if !is_state {
                self.spaces.insert(address.entry.space, Arc::clone(&address.space));
            }
            let number = self.add(address.entry, Arc::clone(&address.space), renumbered.into_iter(), lookup);
            if is_state {
                self.states_to_name.push(number);
            }
        }
        let pending = self.lookups.iter().filter(|lookup| **lookup == LookupState::Pending).count();
        self.pending = pending.saturating_sub(self.wanted.len());
        self.numbering += 1;
    }

    /// Returns the frame of an address whose function has no name. It names the module, and the offset `start` at which the function
    /// begins, where unwind tables delimit it.
    fn nameless(
        &mut self,
        entry: &StackEntry,
        space: &Space,
        start: Option<u64>,
        refusal: Option<MapRefusal>,
    ) -> Frame {
        let label = match space {
            Space::Truncated(reason) => Label::Truncated(*reason),
            Space::State(state) => Label::State(state.clone()),
            _ => module_of(space).map_or(Label::Unknown(None), |module| Label::Module(module, start)),
        };
        // The name without the suffix for the kind of code: frames carry their kind beside the name.
        let mut name = frame_name(&ViewFrame { label, kind: FrameKind::User, line: None });
        if let Some(why) = refusal {
            // The name is the only place in the view where the user looks for the reason.
            name = format!("{}, perf map not used: {why}]", name.trim_end_matches(']'));
        }
        let module = module_text(space);
        let frame = self.frame(&name, &module, kind_of(entry, space), entry.in_kernel);
        Frame { state: self.state_kind(space), ..frame }
    }

    /// Returns the kind of state that a space is; `None` for a space of code.
    fn state_kind(&self, space: &Space) -> Option<StateKind> {
        let Space::State(state) = space else { return None };
        Some(match state {
            ThreadState::Blocked(Blocked::Events(_)) => StateKind::AtRest,
            ThreadState::Blocked(Blocked::SinceBefore) if self.sleepers_rest => StateKind::AtRest,
            ThreadState::Blocked(_) | ThreadState::WokenBy(_) => StateKind::Blocked,
            ThreadState::Running => StateKind::Running,
            ThreadState::Runnable(_) => StateKind::Runnable,
            ThreadState::Unknown => StateKind::Unknown,
        })
    }

    fn frame(&mut self, name: &str, module: &Arc<str>, kind: FrameKind, in_kernel: bool) -> Frame {
        let function = match runtime_names::parse(name, kind == FrameKind::Jit) {
            Some(RuntimeName { function, script, .. }) => Function {
                name: Arc::from(&*safe_label(&function)),
                module: script.map_or_else(|| Arc::clone(module), |script| Arc::from(&*safe_label(script))),
            },
            None => Function { name: Arc::from(&*safe_label(name)), module: Arc::clone(module) },
        };
        Frame { function: self.function(function), kind, in_kernel, state: None }
    }

    fn function(&mut self, function: Function) -> u32 {
        let functions = &mut self.functions;
        *self.function_numbers.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            (functions.len() - 1) as u32
        })
    }
}

/// Appends frames and returns their range.
fn push(all: &mut Vec<Frame>, frames: impl Iterator<Item = Frame>) -> std::ops::Range<u32> {
    let start = all.len() as u32;
    all.extend(frames);
    start..all.len() as u32
}

fn module_text(space: &Space) -> Arc<str> {
    Arc::from(module_of(space).map(|module| module.to_string()).unwrap_or_default())
}

fn kind_of(entry: &StackEntry, space: &Space) -> FrameKind {
    match space {
        _ if entry.in_kernel => FrameKind::Kernel,
        Space::Jit { .. } | Space::JitDump { .. } => FrameKind::Jit,
        _ => FrameKind::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, Name, Pid, Symbolized};

    fn entry(offset: u64, space: SpaceId) -> StackEntry {
        StackEntry { offset, space, kind: AddressKind::InstructionPointer, in_kernel: false }
    }

    fn jit(pid: i32) -> Space {
        Space::Jit { pid: Pid(pid), generation: 0, mapping: Name::from("//anon") }
    }

    fn named(place: StackEntry, name: &str) -> NamedAddress {
        let frame = model::Frame { function: name.into(), location: None, inlined: false };
        let resolution = Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None });
        NamedAddress { entry: place, resolution, stage: Stage::Full }
    }

    fn name_of(symbols: &SymbolTable, place: u32) -> String {
        let place = &symbols.addresses[place as usize];
        let frames = place.frames.clone().map(|number| &symbols.frames[number as usize]);
        let names: Vec<&str> =
            frames.map(|frame| &*symbols.functions[frame.function as usize].name).collect();
        names.join(";")
    }

    #[test]
    fn a_name_changes_no_number() {
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(jit(1));
        let mut symbols = SymbolTable::new();
        let (first, second) =
            (symbols.intern(entry(1, space), &spaces), symbols.intern(entry(2, space), &spaces));
        assert_eq!(symbols.drain_wanted().len(), 2);
        symbols.record(named(entry(2, space), "late"));
        assert_eq!(
            (symbols.intern(entry(1, space), &spaces), symbols.intern(entry(2, space), &spaces)),
            (first, second)
        );
        assert_eq!((name_of(&symbols, second).as_str(), symbols.pending()), ("late", 1));
    }

    #[test]
    fn a_map_that_is_refused_is_said_in_its_codes_name() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        let mut symbols = SymbolTable::new();
        let number = symbols.intern(place, &spaces);
        let resolution = Resolution::Unresolved(Reason::JitMapRefused(MapRefusal::Foreign));
        symbols.record(NamedAddress { entry: place, resolution, stage: Stage::Full });
        assert_eq!(
            name_of(&symbols, number),
            "[anon, perf map not used: it belongs to another user than the process]"
        );
    }

    #[test]
    fn code_without_a_name_is_looked_for_again_soon_and_then_seldom() {
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(jit(1));
        let mut symbols = SymbolTable::new();
        let nameless = |place| NamedAddress {
            entry: place,
            resolution: Resolution::Unresolved(Reason::NotInJitMap),
            stage: Stage::Full,
        };
        let due_within = |symbols: &SymbolTable, time| symbols.retry_at <= Instant::now() + time;
        let addresses = [entry(1, space), entry(2, space)];
        for place in addresses {
            symbols.intern(place, &spaces);
        }
        assert_eq!(symbols.drain_wanted().len(), 2);
        assert!(!due_within(&symbols, FIRST_RETRY));
        addresses.iter().for_each(|place| symbols.record(nameless(*place)));
        assert!(due_within(&symbols, FIRST_RETRY));
        for rest in [2, 4, 8, 10, 10] {
            symbols.retry_at = Instant::now();
            assert_eq!(symbols.drain_wanted().len(), 2);
            addresses.iter().for_each(|place| symbols.record(nameless(*place)));
            let rest = Duration::from_secs(rest);
            assert!(due_within(&symbols, rest) && !due_within(&symbols, rest / 2));
        }
        symbols.retry_at = Instant::now();
        assert_eq!(symbols.drain_wanted().len(), 2);
        symbols.record(named(addresses[0], "late"));
        assert!(due_within(&symbols, FIRST_RETRY), "its map has been written");
    }

    #[test]
    fn a_symbol_stands_in_until_all_is_known() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        let mut symbols = SymbolTable::new();
        let number = symbols.intern(place, &spaces);
        symbols.drain_wanted();
        for (stage, name, pending) in [(Stage::Symbols, "symbol", 1), (Stage::Full, "inlined", 0)] {
            symbols.record(NamedAddress { stage, ..named(place, name) });
            assert_eq!((name_of(&symbols, number).as_str(), symbols.pending()), (name, pending));
            assert_eq!(symbols.addresses[number as usize].is_resolved, stage == Stage::Full);
        }
    }

    #[test]
    fn a_symbol_stays_where_the_file_is_gone_before_all_is_known() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        for (reason, name) in [(Reason::FileMissing, "symbol"), (Reason::ChangedWhileRead, "[anon]")] {
            let mut symbols = SymbolTable::new();
            let number = symbols.intern(place, &spaces);
            symbols.drain_wanted();
            symbols.record(NamedAddress { stage: Stage::Symbols, ..named(place, "symbol") });
            let resolution = Resolution::Unresolved(reason);
            symbols.record(NamedAddress { entry: place, resolution, stage: Stage::Full });
            assert_eq!((name_of(&symbols, number).as_str(), symbols.pending()), (name, 0));
        }
    }

    #[test]
    fn only_living_places_are_waited_for() {
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(jit(1));
        let mut symbols = SymbolTable::new();
        for offset in 0..4 {
            symbols.intern(entry(offset, space), &spaces);
        }
        symbols.drain_wanted();
        symbols.intern(entry(4, space), &spaces);
        assert_eq!(symbols.pending(), 5);
        symbols.compact(&HashSet::from_iter([entry(1, space), entry(2, space), entry(4, space)]));
        assert_eq!(symbols.pending(), 3);
        // A forgotten address is requested again while the first answer is under way, so two answers come.
        symbols.intern(entry(3, space), &spaces);
        assert_eq!(symbols.drain_wanted().len(), 2);
        for _ in 0..2 {
            symbols.record(named(entry(3, space), "late"));
            assert_eq!(symbols.pending(), 3);
        }
        symbols.record(named(entry(0, space), "dead"));
        assert_eq!(symbols.pending(), 3);
    }

    #[test]
    fn places_that_come_and_go_leave_little_and_the_living_keep_their_names() {
        let mut spaces = SpaceTable::default();
        let kept = spaces.intern(jit(0));
        let mut symbols = SymbolTable::new();
        symbols.intern(entry(7, kept), &spaces);
        symbols.record(named(entry(7, kept), "kept"));
        for pid in 1..20_000 {
            let place = entry(pid as u64, spaces.intern(jit(pid)));
            symbols.intern(place, &spaces);
            symbols.drain_wanted();
            symbols.record(named(place, &format!("f{pid}")));
            if pid % 500 == 0 {
                symbols.compact(&HashSet::from_iter([entry(7, kept)]));
                spaces.retain(|space| space == kept);
                // The request and its space have been forgotten.
                symbols.record(named(place, "too late"));
                assert_eq!(symbols.pending(), 0);
                assert_eq!(
                    (symbols.addresses.len(), symbols.frames.len(), symbols.functions.len()),
                    (1, 1, 1)
                );
                assert_eq!(
                    (symbols.numbers.len(), symbols.spaces.len(), name_of(&symbols, 0).as_str()),
                    (1, 1, "kept")
                );
            }
        }
    }
}
