//! Names that cannot be found any more some time after recording (of generated code, and of files that may be replaced), for the
//! recorder to add to the recording. Only sampled addresses that need them are looked up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use host::objects::RetainedFiles;
use model::{Pid, Resolution, Space, SpaceId, StackEntry};
use rustc_hash::FxBuildHasher;
use tracker::{Generation, RawStack, SampleSink, TrackedSample, Tracker};

use super::previous_chain::PreviousChain;
use super::{jit_placements, sections};
use crate::Error;
use crate::aggregate::SeenIn;
use crate::input::Input;
use crate::notices::Silent;
use crate::replay::replay;
use crate::symbols::{SymbolSettings, Symbolizing, Symbols};

/// Names of sampled addresses that may not be found later, packed as sections of a recording.
pub struct EphemeralNames {
    /// The section ([`perfdata::sections::id::NAMES`]); `None` where there are none.
    pub section: Option<Vec<u8>>,
    /// The section that tells where generated code lay ([`perfdata::sections::id::GENERATED_CODE`]); `None` where no jitdump did.
    pub generated_code: Option<Vec<u8>>,
    /// Remarks on files that were not used, or in part only.
    pub remarks: Vec<String>,
}

/// Returns true if names of this place may be gone soon after the recording: those of generated code are in files that their process,
/// or whoever tidies `/tmp`, removes, and some objects had to be kept open to be found (`held`).
fn is_ephemeral(space: &Space, held: &RetainedFiles) -> bool {
    match space {
        Space::Jit { .. } | Space::JitDump { .. } | Space::Unmapped { .. } => true,
        Space::Object(identity) => held.contains(identity),
        _ => false,
    }
}

/// Finds the names of the sampled places that vanish; `input` has the files that were kept open. Stacks of processes without such
/// places are not looked at, and none is counted: this takes a fraction of the time of reading a recording.
///
/// # Errors
/// Where the recording cannot be read on.
pub fn names(input: Input, settings: &SymbolSettings) -> Result<EphemeralNames, Error> {
    let endian = input.reader.endian();
    let symbolizing = Symbolizing::new(settings)
        .with_lifetimes(&input.lifetimes)
        .with_dumps(&input.dumps)
        .with_files(&input.held, &input.files);
    let mut places = EphemeralPlaces::new(Arc::clone(&input.held));
    let dumps = Arc::clone(&input.dumps);
    let replayed = replay::<Error>(input, &settings.paths, &Silent, &mut places)?;
    let spaces = replayed.tracker.into_spaces();
    let mut symbols = Symbols::default();
    let pids = |space| places.seen_in.pids(space);
    symbolizing.resolve(places.found.iter().copied(), &spaces, pids, &mut symbols);
    let resolve = |entry| Some((entry, symbols.resolutions.get(entry)?));
    let has_name = |(_, found): (_, &Resolution)| {
        matches!(found, Resolution::Resolved(_) | Resolution::Delimited { .. })
    };
    let is_worth_it = places.found.iter().filter_map(resolve).any(has_name);
    let entries = places.found.iter().filter_map(resolve);
    let entries = entries.map(|(entry, found)| (entry, spaces.get(entry.space), found));
    let section = is_worth_it.then(|| sections::pack_names_fast(entries, endian));
    let generated_code = jit_placements::pack(&dumps.sampled_placements(&places.found, &spaces), endian);
    Ok(EphemeralNames { section, generated_code, remarks: symbols.remarks() })
}

/// The sampled places that vanish.
struct EphemeralPlaces {
    held: Arc<RetainedFiles>,
    /// Whether a process in this state has mappings that vanish.
    processes: HashMap<Pid, (Generation, bool), FxBuildHasher>,
    spaces: HashMap<SpaceId, bool, FxBuildHasher>,
    previous_chain: PreviousChain,
    /// The stack of a sample, as far as it is new.
    entries: Vec<StackEntry>,
    found: HashSet<StackEntry>,
    seen_in: SeenIn,
}

impl EphemeralPlaces {
    fn new(held: Arc<RetainedFiles>) -> Self {
        let (processes, spaces) = (HashMap::default(), HashMap::default());
        let (entries, found, seen_in) = (Vec::new(), HashSet::new(), SeenIn::default());
        Self { held, processes, spaces, previous_chain: PreviousChain::default(), entries, found, seen_in }
    }

    fn is_ephemeral(&mut self, space: SpaceId, tracker: &Tracker) -> bool {
        let held = &self.held;
        *self.spaces.entry(space).or_insert_with(|| is_ephemeral(tracker.spaces().get(space), held))
    }

    fn has_ephemeral_mappings(&mut self, pid: Pid, tracker: &mut Tracker) -> bool {
        let generation = tracker.generation(pid);
        if let Some((known, has_ephemeral_mappings)) = self.processes.get(&pid)
            && *known == generation
        {
            return *has_ephemeral_mappings;
        }
        // Code that nothing is mapped for has names, too, where its process writes them down: it has mapped other such code.
        let has_ephemeral_mappings =
            tracker.recorded_mappings(pid).any(|mapping| self.is_ephemeral(mapping.space, tracker));
        self.processes.insert(pid, (generation, has_ephemeral_mappings));
        has_ephemeral_mappings
    }
}

impl SampleSink for EphemeralPlaces {
    type Error = Error;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Error> {
        let TrackedSample { tracker, sample, deferred, .. } = sample;
        let Some((pid, _)) = sample.thread.filter(|&(pid, _)| self.has_ephemeral_mappings(pid, tracker))
        else {
            return Ok(());
        };
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        let chain = sample.callchain.map(|chain| {
            let new = self.previous_chain.replace((pid, tracker.generation(pid)), chain.iter());
            chain.iter().take(new)
        });
        tracker.map_callchain(RawStack { pid, mode: sample.mode, ip: sample.ip, chain }, &mut entries);
        if let Some(ips) = deferred {
            tracker.map_deferred(pid, ips.iter(), &mut entries);
        }
        entries.retain(|entry| self.is_ephemeral(entry.space, tracker));
        self.seen_in.see(pid, &entries);
        self.found.extend(&entries);
        self.entries = entries;
        Ok(())
    }
}
