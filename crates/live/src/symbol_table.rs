//! The names of places, as far as they are known, and the frames they make.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use export::{frame_name, safe_label};
use model::{Blocked, MapRefusal, Reason, Resolution, Space, SpaceId, SpaceTable, StackEntry, ThreadState};
use profile::{FrameKind, Label, ViewFrame, module_of};
use rustc_hash::FxBuildHasher;

use super::queue::Stage;
use super::shared_list::SharedList;
use super::symbol_worker::Named;
use crate::snapshot::{Doing, Frame, Function, Place};

/// Generated code is named late: its map is read again this long after new code was not in it,
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// and then after twice the time before, up to this, as long as that brings no names. How much time this may take is limited
/// elsewhere (`live::queue`).
const LAST_RETRY: Duration = Duration::from_secs(10);

/// The names of the places of stacks. Numbers of functions and places stay as they are until
/// [`SymbolTable::compact`]; a name
/// that comes changes only where the frames of its place lie.
pub(crate) struct SymbolTable {
    functions: SharedList<Function>,
    function_numbers: HashMap<Function, u32, FxBuildHasher>,
    places: SharedList<Place>,
    /// Those of all places, and those that places had before they were named.
    frames: Vec<Frame>,
    /// By the number of the place.
    states: Vec<State>,
    numbers: HashMap<StackEntry, u32, FxBuildHasher>,
    spaces: HashMap<SpaceId, Arc<Space>, FxBuildHasher>,
    wanted: Vec<StackEntry>,
    pending: usize,
    retry: Instant,
    /// Between the next two times.
    rest: Duration,
    numbering: u64,
    /// Counts up with each place that gets other frames.
    names: u64,
    /// All nameless functions of a module as one.
    modules_only: bool,
    /// Places that are states of threads and wait for the names of functions that say more of them, by number.
    states_to_name: Vec<u32>,
    /// Threads that have slept since before the recording are at rest: nobody can be asked where they sleep.
    pub(crate) sleepers_rest: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its name is being looked for.
    Asked,
    /// Its name is being looked for once more, and nobody waits for it.
    AskedAgain,
    /// It has a name, or never will have.
    Known,
    /// It has no name yet: code that is generated while we look.
    Later,
}

impl SymbolTable {
    /// Makes a table that knows no name.
    pub(crate) fn new() -> Self {
        Self {
            functions: SharedList::default(),
            function_numbers: HashMap::default(),
            places: SharedList::default(),
            frames: Vec::new(),
            states: Vec::new(),
            numbers: HashMap::default(),
            spaces: HashMap::default(),
            wanted: Vec::new(),
            pending: 0,
            retry: Instant::now() + LAST_RETRY,
            rest: LAST_RETRY,
            numbering: 0,
            names: 0,
            modules_only: false,
            states_to_name: Vec::new(),
            sleepers_rest: false,
        }
    }

    /// Calls functions without a name after their module alone, where that is wanted.
    pub(crate) fn with_modules_only(self, modules_only: bool) -> Self {
        Self { modules_only, ..self }
    }

    /// The functions by number.
    pub(crate) fn functions(&self) -> SharedList<Function> {
        self.functions.clone()
    }

    /// The places by number.
    pub(crate) fn places(&self) -> SharedList<Place> {
        self.places.clone()
    }

    /// The frames of a place, by its number; outermost first.
    pub(crate) fn frames_of(&self, place: u32) -> impl Iterator<Item = Frame> + use<'_> {
        let range = self.places.get(place as usize).map_or(0..0, |place| place.frames.clone());
        self.frames.get(range.start as usize..range.end as usize).unwrap_or_default().iter().copied()
    }

    /// Returns the number of times that a place has got other frames.
    pub(crate) fn names(&self) -> u64 {
        self.names
    }

    /// Returns the version of the numbering of functions and places.
    pub(crate) fn numbering(&self) -> u64 {
        self.numbering
    }

    /// Returns the number of places that are still being looked for.
    pub(crate) fn pending(&self) -> usize {
        self.pending + self.wanted.len()
    }

    /// The number of a place. Until its name is known, its frame is its module.
    pub(crate) fn number(&mut self, entry: StackEntry, spaces: &SpaceTable) -> u32 {
        if let Some(&number) = self.numbers.get(&entry) {
            return number;
        }
        let space =
            self.spaces.entry(entry.space).or_insert_with(|| Arc::new(spaces.get(entry.space).clone()));
        let space = Arc::clone(space);
        let frame = self.nameless(&entry, &space, None, None);
        if let Space::State(_) = &*space {
            // What it waited for, functions further out may say.
            let number = self.add(entry, space, [frame].into_iter(), State::Known);
            self.states_to_name.push(number);
            return number;
        }
        self.wanted.push(entry);
        self.add(entry, space, [frame].into_iter(), State::Asked)
    }

    /// Gives the states of threads their names, as far as these can be known. `name` is asked for each that has none yet, with
    /// the names of functions that are known by now ([`Self::functions_at`]), and returns `None` where more names have to come.
    pub(crate) fn name_states(&mut self, name: impl Fn(&Self, &Place) -> Option<ThreadState>) {
        for number in std::mem::take(&mut self.states_to_name) {
            let Some(place) = self.places.get(number as usize) else { continue };
            let Some(state) = name(self, place) else {
                self.states_to_name.push(number);
                continue;
            };
            let (entry, old) = (place.entry, place.frames.clone());
            let space = Space::State(state);
            let frame = self.nameless(&entry, &space, None, None);
            if self.frames.get(old.start as usize..old.end as usize) != Some(&[frame]) {
                self.names += 1;
                let frames = push(&mut self.frames, [frame].into_iter());
                if let Some(place) = self.places.get_mut(number as usize) {
                    (place.frames, place.space) = (frames, Arc::new(space));
                }
            }
        }
    }

    /// The names of the functions at a place, innermost first; `None` while they are looked for.
    pub(crate) fn functions_at(&self, entry: &StackEntry) -> Option<Vec<&str>> {
        let &number = self.numbers.get(entry)?;
        if self.states.get(number as usize) == Some(&State::Asked) {
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
        state: State,
    ) -> u32 {
        let frames = push(&mut self.frames, frames);
        let number = self.states.len() as u32;
        self.places.push(Place { entry, space, frames, looked_for: state != State::Asked });
        self.states.push(state);
        self.numbers.insert(entry, number);
        number
    }

    /// The places that became wanted since the last call.
    pub(crate) fn take_wanted(&mut self) -> Vec<StackEntry> {
        self.pending += self.wanted.len();
        if self.retry <= Instant::now() {
            self.retry = Instant::now() + self.rest;
            self.rest = (2 * self.rest).min(LAST_RETRY);
            for (state, place) in self.states.iter_mut().zip(self.places.iter()) {
                if *state == State::Later {
                    *state = State::AskedAgain;
                    self.wanted.push(place.entry);
                }
            }
        }
        std::mem::take(&mut self.wanted)
    }

    /// Takes a name that was found, or why there is none.
    pub(crate) fn take(&mut self, named: Named) {
        let Named { place: entry, resolution, stage } = named;
        let is_last = stage == Stage::Whole;
        // Where it has been forgotten meanwhile, nobody asks any more.
        let Some(&number) = self.numbers.get(&entry) else { return };
        let Some(place) = self.places.get(number as usize) else { return };
        let waited = self.states.get(number as usize) == Some(&State::Asked);
        self.pending = self.pending.saturating_sub(usize::from(is_last && waited));
        let space = Arc::clone(&place.space);
        let is_new = self.states.get(number as usize) != Some(&State::AskedAgain);
        let old = place.frames.clone();
        let (frames, state): (Vec<Frame>, _) = match resolution {
            Resolution::Resolved(symbolized) => {
                let module: Arc<str> = module_text(&space);
                let frames = symbolized.frames.iter().rev().map(|frame| {
                    let kind = if frame.inlined { FrameKind::Inlined } else { kind_of(&entry, &space) };
                    self.frame(&frame.function, &module, kind, entry.in_kernel)
                });
                (frames.collect(), State::Known)
            }
            Resolution::Delimited { start, .. } => {
                let start = (!self.modules_only).then_some(start.0);
                (vec![self.nameless(&entry, &space, start, None)], State::Known)
            }
            Resolution::Unresolved(reason) => {
                let refusal = match &reason {
                    Reason::JitMapRefused(why) => Some(*why),
                    _ => None,
                };
                let frame = self.nameless(&entry, &space, None, refusal);
                let later =
                    matches!(reason, Reason::NoJitMap | Reason::NotInJitMap | Reason::JitMapRefused(_));
                (vec![frame], if later { State::Later } else { State::Known })
            }
        };
        // New code has no name yet, or names have come for old code, and more may follow.
        if is_last && is_new == (state == State::Later) {
            (self.retry, self.rest) = (self.retry.min(Instant::now() + FIRST_RETRY), 2 * FIRST_RETRY);
        }
        let frames = match self.frames.get(old.start as usize..old.end as usize) == Some(&*frames) {
            true => old,
            false => {
                self.names += 1;
                push(&mut self.frames, frames.into_iter())
            }
        };
        if let (Some(known), Some(place)) =
            (self.states.get_mut(number as usize), self.places.get_mut(number as usize))
        {
            *known = if is_last { state } else { State::Asked };
            (place.frames, place.looked_for) = (frames, is_last);
        }
    }

    /// Forgets places that are not `live`, and functions that no place names. Numbers change.
    pub(crate) fn compact(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        let functions = std::mem::take(&mut self.functions);
        let places = std::mem::take(&mut self.places);
        let frames = std::mem::take(&mut self.frames);
        let states = std::mem::take(&mut self.states);
        (self.function_numbers, self.numbers, self.spaces) = Default::default();
        self.states_to_name.clear();
        self.wanted.retain(|entry| live.contains(entry));
        for (place, state) in places.iter().zip(states).filter(|(place, _)| live.contains(&place.entry)) {
            let of_place = frames.get(place.frames.start as usize..place.frames.end as usize);
            let renumbered: Vec<Frame> = of_place
                .unwrap_or_default()
                .iter()
                .filter_map(|frame| {
                    let function = self.function(functions.get(frame.function as usize)?.clone());
                    Some(Frame { function, ..*frame })
                })
                .collect();
            let is_state = matches!(*place.space, Space::State(_));
            if !is_state {
                self.spaces.insert(place.entry.space, Arc::clone(&place.space));
            }
            let number = self.add(place.entry, Arc::clone(&place.space), renumbered.into_iter(), state);
            if is_state {
                self.states_to_name.push(number);
            }
        }
        let asked = self.states.iter().filter(|state| **state == State::Asked).count();
        self.pending = asked.saturating_sub(self.wanted.len());
        self.numbering += 1;
    }

    /// The frame of a place without a name, in a function that begins at `start`.
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
        // Without the suffix, which is the frame's kind.
        let mut name = frame_name(&ViewFrame { label, kind: FrameKind::User, line: None });
        if let Some(why) = refusal {
            // There is no other place in the view to say it.
            name = format!("{}, perf map not used: {why}]", name.trim_end_matches(']'));
        }
        let module = module_text(space);
        let frame = self.frame(&name, &module, kind_of(entry, space), entry.in_kernel);
        Frame { state: self.doing(space), ..frame }
    }

    /// What a thread does whose state a space is.
    fn doing(&self, space: &Space) -> Option<Doing> {
        let Space::State(state) = space else { return None };
        Some(match state {
            ThreadState::Blocked(Blocked::Events(_)) => Doing::AtRest,
            ThreadState::Blocked(Blocked::SinceBefore) if self.sleepers_rest => Doing::AtRest,
            ThreadState::Blocked(_) | ThreadState::WokenBy(_) => Doing::Blocked,
            ThreadState::Running => Doing::Running,
            ThreadState::Runnable(_) => Doing::Runnable,
            ThreadState::Unknown => Doing::Unknown,
        })
    }

    fn frame(&mut self, name: &str, module: &Arc<str>, kind: FrameKind, in_kernel: bool) -> Frame {
        let function = Function { name: Arc::from(&*safe_label(name)), module: Arc::clone(module) };
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

/// Appends frames; returns where they are.
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

    fn named(place: StackEntry, name: &str) -> Named {
        let frame = model::Frame { function: name.into(), location: None, inlined: false };
        let resolution = Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None });
        Named { place, resolution, stage: Stage::Whole }
    }

    fn name_of(symbols: &SymbolTable, place: u32) -> String {
        let place = &symbols.places[place as usize];
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
            (symbols.number(entry(1, space), &spaces), symbols.number(entry(2, space), &spaces));
        assert_eq!(symbols.take_wanted().len(), 2);
        symbols.take(named(entry(2, space), "late"));
        assert_eq!(
            (symbols.number(entry(1, space), &spaces), symbols.number(entry(2, space), &spaces)),
            (first, second)
        );
        assert_eq!((name_of(&symbols, second).as_str(), symbols.pending()), ("late", 1));
    }

    #[test]
    fn a_map_that_is_refused_is_said_in_its_codes_name() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        let mut symbols = SymbolTable::new();
        let number = symbols.number(place, &spaces);
        let resolution = Resolution::Unresolved(Reason::JitMapRefused(MapRefusal::Foreign));
        symbols.take(Named { place, resolution, stage: Stage::Whole });
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
        let nameless = |place| Named {
            place,
            resolution: Resolution::Unresolved(Reason::NotInJitMap),
            stage: Stage::Whole,
        };
        let due_within = |symbols: &SymbolTable, time| symbols.retry <= Instant::now() + time;
        let places = [entry(1, space), entry(2, space)];
        for place in places {
            symbols.number(place, &spaces);
        }
        assert_eq!(symbols.take_wanted().len(), 2);
        assert!(!due_within(&symbols, FIRST_RETRY));
        places.iter().for_each(|place| symbols.take(nameless(*place)));
        assert!(due_within(&symbols, FIRST_RETRY));
        for rest in [2, 4, 8, 10, 10] {
            symbols.retry = Instant::now();
            assert_eq!(symbols.take_wanted().len(), 2);
            places.iter().for_each(|place| symbols.take(nameless(*place)));
            let rest = Duration::from_secs(rest);
            assert!(due_within(&symbols, rest) && !due_within(&symbols, rest / 2));
        }
        symbols.retry = Instant::now();
        assert_eq!(symbols.take_wanted().len(), 2);
        symbols.take(named(places[0], "late"));
        assert!(due_within(&symbols, FIRST_RETRY), "its map has been written");
    }

    #[test]
    fn a_symbol_stands_in_until_all_is_known() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        let mut symbols = SymbolTable::new();
        let number = symbols.number(place, &spaces);
        symbols.take_wanted();
        for (stage, name, pending) in [(Stage::Symbols, "symbol", 1), (Stage::Whole, "inlined", 0)] {
            symbols.take(Named { stage, ..named(place, name) });
            assert_eq!((name_of(&symbols, number).as_str(), symbols.pending()), (name, pending));
            assert_eq!(symbols.places[number as usize].looked_for, stage == Stage::Whole);
        }
    }

    #[test]
    fn only_living_places_are_waited_for() {
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(jit(1));
        let mut symbols = SymbolTable::new();
        for offset in 0..4 {
            symbols.number(entry(offset, space), &spaces);
        }
        symbols.take_wanted();
        symbols.number(entry(4, space), &spaces);
        assert_eq!(symbols.pending(), 5);
        symbols.compact(&HashSet::from_iter([entry(1, space), entry(2, space), entry(4, space)]));
        assert_eq!(symbols.pending(), 3);
        // One that was forgotten is asked for again while the first answer is under way: it comes twice.
        symbols.number(entry(3, space), &spaces);
        assert_eq!(symbols.take_wanted().len(), 2);
        for _ in 0..2 {
            symbols.take(named(entry(3, space), "late"));
            assert_eq!(symbols.pending(), 3);
        }
        symbols.take(named(entry(0, space), "dead"));
        assert_eq!(symbols.pending(), 3);
    }

    #[test]
    fn places_that_come_and_go_leave_little_and_the_living_keep_their_names() {
        let mut spaces = SpaceTable::default();
        let kept = spaces.intern(jit(0));
        let mut symbols = SymbolTable::new();
        symbols.number(entry(7, kept), &spaces);
        symbols.take(named(entry(7, kept), "kept"));
        for pid in 1..20_000 {
            let place = entry(pid as u64, spaces.intern(jit(pid)));
            symbols.number(place, &spaces);
            symbols.take_wanted();
            symbols.take(named(place, &format!("f{pid}")));
            if pid % 500 == 0 {
                symbols.compact(&HashSet::from_iter([entry(7, kept)]));
                spaces.retain(|space| space == kept);
                // Nobody waits for it any more, and its space is gone.
                symbols.take(named(place, "too late"));
                assert_eq!(symbols.pending(), 0);
                assert_eq!((symbols.places.len(), symbols.frames.len(), symbols.functions.len()), (1, 1, 1));
                assert_eq!(
                    (symbols.numbers.len(), symbols.spaces.len(), name_of(&symbols, 0).as_str()),
                    (1, 1, "kept")
                );
            }
        }
    }
}
