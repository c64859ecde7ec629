//! The names of places, as far as they are known, and the frames they make.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use export::{frame_name, safe_label};
use model::{Reason, Resolution, Space, SpaceId, SpaceTable, StackEntry};
use profile::{FrameKind, Label, ViewFrame, module_of};
use rustc_hash::FxBuildHasher;

use super::naming::Named;
use super::snapshot::{self, Frame, Function};

/// Generated code is named late: its map is read again after this time.
const RETRY: Duration = Duration::from_secs(10);

/// What is known of the places of stacks.
pub(crate) struct Book {
    functions: Arc<Vec<Function>>,
    numbers: HashMap<Function, u32, FxBuildHasher>,
    places: HashMap<StackEntry, Place, FxBuildHasher>,
    /// The places by number.
    listed: Arc<Vec<snapshot::Place>>,
    spaces: HashMap<SpaceId, Arc<Space>, FxBuildHasher>,
    wanted: Vec<StackEntry>,
    pending: usize,
    retry: Instant,
    /// Counts up whenever frames of places change.
    edition: u64,
}

struct Place {
    number: u32,
    /// Outermost first.
    frames: Arc<[Frame]>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its name is being looked for.
    Asked,
    /// It has a name, or never will have.
    Known,
    /// It has no name yet: code that is generated while we look.
    Later,
}

impl Book {
    /// Knows nothing.
    pub(crate) fn new() -> Self {
        Self {
            functions: Arc::default(),
            numbers: HashMap::default(),
            places: HashMap::default(),
            listed: Arc::default(),
            spaces: HashMap::default(),
            wanted: Vec::new(),
            pending: 0,
            retry: Instant::now() + RETRY,
            edition: 0,
        }
    }

    /// The functions by number.
    pub(crate) fn functions(&self) -> Arc<Vec<Function>> {
        Arc::clone(&self.functions)
    }

    /// How many places are still being looked for.
    pub(crate) fn pending(&self) -> usize {
        self.pending + self.wanted.len()
    }

    /// Changes whenever the frames of places change.
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// The places by number.
    pub(crate) fn places(&self) -> Arc<Vec<snapshot::Place>> {
        Arc::clone(&self.listed)
    }

    /// The number of a place, and its frames, outermost first; by module until its name is known.
    pub(crate) fn frames(&mut self, entry: StackEntry, spaces: &SpaceTable) -> (u32, &[Frame]) {
        if !self.places.contains_key(&entry) {
            let space = spaces.get(entry.space);
            let frame = self.nameless(&entry, space);
            let number = self.list(entry, space);
            self.wanted.push(entry);
            self.places.insert(entry, Place { number, frames: Arc::from([frame]), state: State::Asked });
        }
        let place = &self.places[&entry];
        (place.number, &place.frames)
    }

    fn list(&mut self, entry: StackEntry, space: &Space) -> u32 {
        let space = Arc::clone(self.spaces.entry(entry.space).or_insert_with(|| Arc::new(space.clone())));
        let listed = Arc::make_mut(&mut self.listed);
        listed.push(snapshot::Place { entry, space });
        (listed.len() - 1) as u32
    }

    /// The places that became wanted since the last call.
    pub(crate) fn take_wanted(&mut self) -> Vec<StackEntry> {
        if self.retry <= Instant::now() {
            self.retry = Instant::now() + RETRY;
            for (entry, place) in self.places.iter_mut().filter(|(_, place)| place.state == State::Later) {
                place.state = State::Asked;
                self.wanted.push(*entry);
            }
        }
        self.pending += self.wanted.len();
        std::mem::take(&mut self.wanted)
    }

    /// Takes a name that was found, or why there is none.
    pub(crate) fn take(&mut self, (entry, resolution): Named, spaces: &SpaceTable) {
        self.pending = self.pending.saturating_sub(1);
        let space = spaces.get(entry.space);
        let (frames, state): (Arc<[Frame]>, _) = match resolution {
            Resolution::Resolved(symbolized) => {
                let module: Arc<str> = module_text(space);
                let frames = symbolized.frames.iter().rev().map(|frame| {
                    let kind = if frame.inlined { FrameKind::Inlined } else { kind_of(&entry, space) };
                    self.frame(&frame.function, &module, kind, entry.in_kernel)
                });
                (frames.collect(), State::Known)
            }
            Resolution::Unresolved(reason) => {
                let frame = self.nameless(&entry, space);
                let later = matches!(reason, Reason::NoJitMap | Reason::NotInJitMap);
                (Arc::from([frame]), if later { State::Later } else { State::Known })
            }
        };
        // Where it has been forgotten meanwhile, nobody asks any more.
        if let Some(place) = self.places.get_mut(&entry) {
            self.edition += u64::from(place.frames != frames);
            (place.frames, place.state) = (frames, state);
        }
    }

    /// Forgets places that are not `live`, and functions that no place names. Numbers change.
    pub(crate) fn compact(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        let old = std::mem::take(&mut self.functions);
        let mut places = std::mem::take(&mut self.places);
        let listed = std::mem::take(&mut self.listed);
        self.spaces.clear();
        self.numbers.clear();
        self.wanted.retain(|entry| live.contains(entry));
        for entry in live {
            let Some(place) = places.remove(entry) else { continue };
            let frames = place.frames.iter().filter_map(|frame| {
                let function = self.number(old.get(frame.function as usize)?.clone());
                Some(Frame { function, ..*frame })
            });
            let frames = frames.collect();
            let Some(known) = listed.get(place.number as usize) else { continue };
            let number = self.list(*entry, &known.space);
            self.places.insert(*entry, Place { number, frames, ..place });
        }
        self.edition += 1;
    }

    fn nameless(&mut self, entry: &StackEntry, space: &Space) -> Frame {
        let label = match space {
            Space::Truncated(reason) => Label::Truncated(*reason),
            _ => module_of(space).map_or(Label::Unknown(None), |module| Label::Module(module, None)),
        };
        // Without the suffix, which is the frame's kind.
        let name = frame_name(&ViewFrame { label, kind: FrameKind::User });
        let module = module_text(space);
        self.frame(&name, &module, kind_of(entry, space), entry.in_kernel)
    }

    fn frame(&mut self, name: &str, module: &Arc<str>, kind: FrameKind, in_kernel: bool) -> Frame {
        let function = Function { name: Arc::from(&*safe_label(name)), module: Arc::clone(module) };
        Frame { function: self.number(function), kind, in_kernel }
    }

    fn number(&mut self, function: Function) -> u32 {
        let functions = &mut self.functions;
        *self.numbers.entry(function).or_insert_with_key(|function| {
            let functions = Arc::make_mut(functions);
            functions.push(function.clone());
            (functions.len() - 1) as u32
        })
    }
}

fn module_text(space: &Space) -> Arc<str> {
    Arc::from(module_of(space).map(|module| module.to_string()).unwrap_or_default())
}

fn kind_of(entry: &StackEntry, space: &Space) -> FrameKind {
    match space {
        _ if entry.in_kernel => FrameKind::Kernel,
        Space::Jit { .. } => FrameKind::Jit,
        _ => FrameKind::User,
    }
}
