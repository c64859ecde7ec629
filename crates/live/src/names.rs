//! The names of sampled addresses, as far as they are known.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Frame, Reason, Resolution, Space, SpaceTable, StackEntry, Symbolized};
use profile::module_of;
use rustc_hash::FxBuildHasher;

use super::name_queue::Stage;
use super::symbol_worker::NamedAddress;

/// The time after which the functions of generated code are looked up again, where its perf map or jitdump did not have it yet.
/// Runtimes write these files late.
/// Shorter than the interval between two requests of the default screen (1 s), so that the next one includes it.
const FIRST_RETRY: Duration = Duration::from_millis(800);
/// The longest time between two such lookups. The time doubles from lookup to lookup while none of them brings a name. What all
/// lookups may cost is bounded by [`super::name_queue`].
const MAX_RETRY: Duration = Duration::from_secs(10);

/// The names of addresses, those that are looked up among them. Cheap to clone: snapshots share them.
#[derive(Clone, Default, Debug)]
pub struct Names(Arc<HashMap<StackEntry, Lookup, FxBuildHasher>>);

/// The names that the lookups of an address have brought so far.
#[derive(Clone, Debug)]
struct Lookup {
    state: LookupState,
    resolution: Option<Resolution>,
}

/// The progress of the lookup of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

impl Names {
    /// Returns the functions at an address, or why there are none; `None` if nothing is known yet.
    pub fn resolution(&self, entry: &StackEntry) -> Option<&Resolution> {
        self.0.get(entry)?.resolution.as_ref()
    }

    /// Returns true while an address is looked up for the first time. It may have the function of its symbol already.
    pub fn is_pending(&self, entry: &StackEntry) -> bool {
        self.0.get(entry).is_some_and(|lookup| lookup.state == LookupState::Pending)
    }

    /// Returns the functions at an address, innermost first; `None` while it is looked up.
    pub(crate) fn functions_at(&self, entry: &StackEntry) -> Option<impl Iterator<Item = &str>> {
        let lookup = self.0.get(entry).filter(|lookup| lookup.state != LookupState::Pending)?;
        let frames = match &lookup.resolution {
            Some(Resolution::Resolved(symbolized)) => &symbolized.frames[..],
            _ => &[],
        };
        Some(frames.iter().map(|frame| &*frame.function))
    }

    /// Returns true if these may have names that `older` lacks, and nothing of `older` was forgotten.
    pub(crate) fn continues(&self, older: &Self) -> bool {
        !Arc::ptr_eq(&self.0, &older.0) && older.0.keys().all(|entry| self.0.contains_key(entry))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn insert(&mut self, entry: StackEntry, resolution: Resolution) {
        let lookup = Lookup { state: LookupState::Finished, resolution: Some(resolution) };
        Arc::make_mut(&mut self.0).insert(entry, lookup);
    }
}

/// The names of the window's addresses, and what is to be asked of the symbol worker.
pub(crate) struct SymbolTable {
    names: Names,
    /// Addresses that the symbol worker has not been asked for yet.
    wanted: Vec<StackEntry>,
    /// Number of addresses that the symbol worker was asked for and has not answered.
    pending: usize,
    /// When generated code without a name is looked up again.
    retry_at: Instant,
    /// The time between the two lookups after that.
    retry_interval: Duration,
}

impl SymbolTable {
    /// Makes an empty table.
    pub(crate) fn new() -> Self {
        Self {
            names: Names::default(),
            wanted: Vec::new(),
            pending: 0,
            retry_at: Instant::now() + MAX_RETRY,
            retry_interval: MAX_RETRY,
        }
    }

    /// Returns the names that are known.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns how many addresses have not been looked up yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending + self.wanted.len()
    }

    /// Looks an address up, unless it is known. What a thread's state is called depends on the functions of its stack.
    pub(crate) fn want(&mut self, entry: StackEntry, spaces: &SpaceTable) {
        let is_known = self.names.0.contains_key(&entry);
        if !is_known && !matches!(spaces.get(entry.space), Space::State(_)) {
            let lookup = Lookup { state: LookupState::Pending, resolution: None };
            Arc::make_mut(&mut self.names.0).insert(entry, lookup);
            self.wanted.push(entry);
        }
    }

    /// Returns the addresses that the symbol worker has to be asked for since the last call, among them those to look up again.
    pub(crate) fn drain_wanted(&mut self) -> Vec<StackEntry> {
        self.pending += self.wanted.len();
        let now = Instant::now();
        if self.retry_at <= now {
            self.retry_at = now + self.retry_interval;
            self.retry_interval = (2 * self.retry_interval).min(MAX_RETRY);
            for (&entry, lookup) in Arc::make_mut(&mut self.names.0) {
                if lookup.state == LookupState::RetryLater {
                    lookup.state = LookupState::Retrying;
                    self.wanted.push(entry);
                }
            }
        }
        std::mem::take(&mut self.wanted)
    }

    /// Records what the symbol worker has found at an address, or why it has found nothing.
    pub(crate) fn record(&mut self, named: NamedAddress, spaces: &SpaceTable) {
        let NamedAddress { entry, resolution, stage } = named;
        // The address may have been forgotten since the worker was asked.
        let Some(known) = Arc::make_mut(&mut self.names.0).get_mut(&entry) else { return };
        let before = known.state;
        let may_come = matches!(
            resolution,
            Resolution::Unresolved(Reason::NoJitMap | Reason::NotInJitMap | Reason::JitMapRefused(_))
        );
        // Its file may be gone, or another one, when inlined calls are looked up: then it keeps the function of its symbol.
        let is_gone = matches!(
            resolution,
            Resolution::Unresolved(Reason::FileMissing | Reason::FileChanged | Reason::BuildIdDiffers { .. })
        );
        if !(is_gone && known.resolution.is_some()) {
            known.resolution = Some(with_refusal(resolution, spaces.get(entry.space)));
        }
        if stage != Stage::Full {
            known.state = LookupState::Pending;
            return;
        }
        known.state = if may_come { LookupState::RetryLater } else { LookupState::Finished };
        self.pending = self.pending.saturating_sub(usize::from(before == LookupState::Pending));
        // The first lookup of new code has found no name, or a further one has: others may follow soon.
        if (before != LookupState::Retrying) == may_come {
            self.retry_at = self.retry_at.min(Instant::now() + FIRST_RETRY);
            self.retry_interval = 2 * FIRST_RETRY;
        }
    }

    /// Forgets addresses that are not in `live`.
    pub(crate) fn compact(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        let names = Arc::make_mut(&mut self.names.0);
        names.retain(|entry, _| live.contains(entry));
        names.shrink_to_fit();
        self.wanted.retain(|entry| live.contains(entry));
        let pending = names.values().filter(|lookup| lookup.state == LookupState::Pending).count();
        self.pending = pending.saturating_sub(self.wanted.len());
    }
}

/// Returns a resolution with a name that says why a perf map was refused: it is the only place in the view where the user looks for the
/// reason.
fn with_refusal(resolution: Resolution, space: &Space) -> Resolution {
    let Resolution::Unresolved(Reason::JitMapRefused(why)) = resolution else { return resolution };
    let module = module_of(space).map_or_else(|| "unknown".to_owned(), |module| module.to_string());
    let function = format!("[{module}, perf map not used: {why}]").into();
    let frame = Frame { function, location: None, inlined: false };
    Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, MapRefusal, Name, Pid, SpaceId};

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

    fn name_of(symbols: &SymbolTable, place: StackEntry) -> String {
        let Some(Resolution::Resolved(known)) = symbols.names.resolution(&place) else {
            return "no name".to_owned();
        };
        let names: Vec<&str> = known.frames.iter().rev().map(|frame| &*frame.function).collect();
        names.join(";")
    }

    #[test]
    fn snapshots_keep_the_names_that_they_had() {
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(jit(1));
        let places = [entry(1, space), entry(2, space)];
        let mut symbols = SymbolTable::new();
        places.iter().for_each(|&place| symbols.want(place, &spaces));
        assert_eq!(symbols.drain_wanted().len(), 2);
        let before = symbols.names().clone();
        symbols.record(named(places[1], "late"), &spaces);
        places.iter().for_each(|&place| symbols.want(place, &spaces));
        assert!(symbols.drain_wanted().is_empty(), "known ones are not asked for again");
        assert_eq!((name_of(&symbols, places[1]).as_str(), symbols.pending()), ("late", 1));
        assert!(before.is_pending(&places[1]) && before.resolution(&places[1]).is_none());
        assert!(symbols.names().continues(&before) && !before.continues(&before));
        symbols.compact(&HashSet::from_iter([places[1]]));
        assert!(!symbols.names().continues(&before), "one was forgotten");
    }

    #[test]
    fn a_map_that_is_refused_is_said_in_its_codes_name() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        let mut symbols = SymbolTable::new();
        symbols.want(place, &spaces);
        let resolution = Resolution::Unresolved(Reason::JitMapRefused(MapRefusal::Foreign));
        symbols.record(NamedAddress { entry: place, resolution, stage: Stage::Full }, &spaces);
        assert_eq!(
            name_of(&symbols, place),
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
            symbols.want(place, &spaces);
        }
        assert_eq!(symbols.drain_wanted().len(), 2);
        assert!(!due_within(&symbols, FIRST_RETRY));
        addresses.iter().for_each(|place| symbols.record(nameless(*place), &spaces));
        assert!(due_within(&symbols, FIRST_RETRY));
        for rest in [2, 4, 8, 10, 10] {
            symbols.retry_at = Instant::now();
            assert_eq!(symbols.drain_wanted().len(), 2);
            addresses.iter().for_each(|place| symbols.record(nameless(*place), &spaces));
            let rest = Duration::from_secs(rest);
            assert!(due_within(&symbols, rest) && !due_within(&symbols, rest / 2));
        }
        symbols.retry_at = Instant::now();
        assert_eq!(symbols.drain_wanted().len(), 2);
        symbols.record(named(addresses[0], "late"), &spaces);
        assert!(due_within(&symbols, FIRST_RETRY), "its map has been written");
    }

    #[test]
    fn a_symbol_stands_in_until_all_is_known() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        let mut symbols = SymbolTable::new();
        symbols.want(place, &spaces);
        symbols.drain_wanted();
        for (stage, name, pending) in [(Stage::Symbols, "symbol", 1), (Stage::Full, "inlined", 0)] {
            symbols.record(NamedAddress { stage, ..named(place, name) }, &spaces);
            assert_eq!((name_of(&symbols, place).as_str(), symbols.pending()), (name, pending));
            assert_eq!(symbols.names.is_pending(&place), stage != Stage::Full);
        }
    }

    #[test]
    fn a_symbol_stays_where_the_file_is_gone_before_all_is_known() {
        let mut spaces = SpaceTable::default();
        let place = entry(1, spaces.intern(jit(1)));
        for (reason, name) in [(Reason::FileMissing, "symbol"), (Reason::ChangedWhileRead, "no name")] {
            let mut symbols = SymbolTable::new();
            symbols.want(place, &spaces);
            symbols.drain_wanted();
            symbols.record(NamedAddress { stage: Stage::Symbols, ..named(place, "symbol") }, &spaces);
            let resolution = Resolution::Unresolved(reason);
            symbols.record(NamedAddress { entry: place, resolution, stage: Stage::Full }, &spaces);
            assert_eq!((name_of(&symbols, place).as_str(), symbols.pending()), (name, 0));
        }
    }

    #[test]
    fn only_living_places_are_waited_for() {
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(jit(1));
        let mut symbols = SymbolTable::new();
        for offset in 0..4 {
            symbols.want(entry(offset, space), &spaces);
        }
        symbols.drain_wanted();
        symbols.want(entry(4, space), &spaces);
        assert_eq!(symbols.pending(), 5);
        symbols.compact(&HashSet::from_iter([entry(1, space), entry(2, space), entry(4, space)]));
        assert_eq!(symbols.pending(), 3);
        // A forgotten address is requested again while the first answer is under way, so two answers come.
        symbols.want(entry(3, space), &spaces);
        assert_eq!(symbols.drain_wanted().len(), 2);
        for _ in 0..2 {
            symbols.record(named(entry(3, space), "late"), &spaces);
            assert_eq!(symbols.pending(), 3);
        }
        symbols.record(named(entry(0, space), "dead"), &spaces);
        assert_eq!(symbols.pending(), 3);
    }

    #[test]
    fn places_that_come_and_go_leave_little_and_the_living_keep_their_names() {
        let mut spaces = SpaceTable::default();
        let kept = spaces.intern(jit(0));
        let mut symbols = SymbolTable::new();
        symbols.want(entry(7, kept), &spaces);
        symbols.record(named(entry(7, kept), "kept"), &spaces);
        for pid in 1..20_000 {
            let place = entry(pid as u64, spaces.intern(jit(pid)));
            symbols.want(place, &spaces);
            symbols.drain_wanted();
            symbols.record(named(place, &format!("f{pid}")), &spaces);
            if pid % 500 == 0 {
                symbols.compact(&HashSet::from_iter([entry(7, kept)]));
                spaces.retain(|space| space == kept);
                // The request and its space have been forgotten.
                symbols.record(named(place, "too late"), &spaces);
                assert_eq!(symbols.pending(), 0);
                assert_eq!((symbols.names.0.len(), name_of(&symbols, entry(7, kept)).as_str()), (1, "kept"));
            }
        }
    }
}
