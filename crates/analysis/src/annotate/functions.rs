//! Which functions samples were taken in, and the pieces that make one function.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use export::annotate::AnnotatedFunction;
use model::{AddressKind, Resolution, SpaceId, StackEntry, Symbolized};
use profile::code::CodeRange;
use profile::{FrameId, PlaceId, View};
use rustc_hash::FxHashMap;

use crate::Analysis;

/// A function of a profile that samples were taken in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledFunction {
    /// Its name.
    pub name: Arc<str>,
    /// The space that its addresses are in.
    pub space: SpaceId,
    /// Its first byte, as an offset in its space's file; of a function without a known start the lowest sampled address.
    pub start: u64,
    /// Weight of the samples taken in it, functions that were inlined into it included.
    pub weight: u64,
    /// Weight of the samples by the offset of the instruction.
    pub offsets: BTreeMap<u64, u64>,
    /// Functions that were inlined into it where samples were taken.
    pub inlined: Vec<Arc<str>>,
}

impl SampledFunction {
    fn new(name: Arc<str>, space: SpaceId, start: u64) -> Self {
        Self { name, space, start, weight: 0, offsets: BTreeMap::new(), inlined: Vec::new() }
    }

    /// Returns the weight of the samples at bytes of the function: the address of a sample may lie within an instruction.
    pub(super) fn weight_within(&self, position: usize, end: usize) -> u64 {
        let at = |position: usize| self.start.saturating_add(position as u64);
        self.offsets.range(at(position)..at(end)).map(|(_, weight)| *weight).fold(0, u64::saturating_add)
    }
}

/// Finds the functions in which samples were taken, heaviest first, with the samples and the frames that a view shows: one whose
/// innermost frames it hides is where they were called.
pub fn sampled_functions(analysis: &Analysis, view: &View<'_>) -> Vec<SampledFunction> {
    functions_of_samples(sampled_places(view).map(|(_, entry, weight)| (entry, weight)), analysis)
}

/// As [`sampled_functions`], but only those of the `most` heaviest names. The resolutions of half a million sampled instructions lie
/// apart in memory: to look all of them up takes a quarter of a second.
pub fn hottest_functions(analysis: &Analysis, view: &View<'_>, most: usize) -> Vec<SampledFunction> {
    let samples: Vec<_> = sampled_places(view).collect();
    let function = |place: PlaceId| view.outermost_frame(place).map(FrameId::index);
    let mut weights = vec![0_u64; view.frames().frames().len()];
    for &(place, _, added) in &samples {
        if let Some(weight) = function(place).and_then(|frame| weights.get_mut(frame)) {
            *weight = weight.saturating_add(added);
        }
    }
    let mut heaviest = weights.clone();
    heaviest.sort_unstable_by_key(|weight| Reverse(*weight));
    let least = heaviest.get(most.saturating_sub(1)).copied().unwrap_or(0);
    let is_heavy =
        |place| function(place).and_then(|frame| weights.get(frame)).is_some_and(|weight| *weight >= least);
    let samples =
        samples.iter().filter(|(place, ..)| is_heavy(*place)).map(|&(_, entry, weight)| (entry, weight));
    functions_of_samples(samples, analysis)
}

/// Returns the innermost place of each sample that a view shows, with the weight of all samples there.
fn sampled_places(view: &View<'_>) -> impl Iterator<Item = (PlaceId, StackEntry, u64)> {
    let (profile, weight) = (view.profile(), view.weight());
    let mut weights: Vec<Option<u64>> = vec![None; profile.stacks.places().len()];
    for (thread, stack, count) in profile.counts() {
        let place = view.innermost_place(thread, stack);
        if let Some(all) = place.and_then(|place| weights.get_mut(place.index())) {
            *all = Some(all.unwrap_or(0).saturating_add(count.weight(weight)));
        }
    }
    let places = profile.stacks.numbered_places();
    places.zip(weights).filter_map(|((place, entry), weight)| Some((place, *entry, weight?)))
}

/// Finds the functions in which samples were taken, heaviest first, from the innermost places of the samples and their weights.
/// Places without a function are left out.
fn functions_of_samples(
    samples: impl Iterator<Item = (StackEntry, u64)>,
    analysis: &Analysis,
) -> Vec<SampledFunction> {
    let mut functions: Vec<(SampledFunction, Vec<(u64, u64)>)> = Vec::new();
    // Nearly all starts have one name.
    let mut first: FxHashMap<(SpaceId, u64), usize> = FxHashMap::default();
    let mut others: HashMap<(SpaceId, u64, Arc<str>), usize> = HashMap::new();
    for (entry, added) in samples {
        let Some(Resolution::Resolved(Symbolized { frames, symbol_offset })) = analysis.resolve(&entry)
        else {
            continue;
        };
        let Some((function, inlined)) = frames.split_last() else { continue };
        let start = symbol_offset.and_then(|offset| entry.offset.checked_sub(offset)).unwrap_or(entry.offset);
        let (name, next) = (&function.function, functions.len());
        let mut number = *first.entry((entry.space, start)).or_insert(next);
        if functions.get(number).is_some_and(|(known, _)| known.name != *name) {
            number = *others.entry((entry.space, start, Arc::clone(name))).or_insert(next);
        }
        if number == next {
            functions.push((SampledFunction::new(Arc::clone(name), entry.space, start), Vec::new()));
        }
        let (known, offsets) = &mut functions[number];
        known.weight = known.weight.saturating_add(added);
        // A return address lies behind its call: the byte before it belongs to the call.
        let within = match entry.kind {
            AddressKind::ReturnAddress => entry.offset.saturating_sub(1),
            AddressKind::InstructionPointer | AddressKind::Data => entry.offset,
        };
        offsets.push((within, added));
        for frame in inlined {
            if !known.inlined.contains(&frame.function) {
                known.inlined.push(Arc::clone(&frame.function));
            }
        }
    }
    let with_offsets = |(mut function, mut offsets): (SampledFunction, Vec<(u64, u64)>)| {
        offsets.sort_unstable();
        offsets.dedup_by(|next, sum| {
            let is_same = next.0 == sum.0;
            sum.1 = if is_same { sum.1.saturating_add(next.1) } else { sum.1 };
            is_same
        });
        function.offsets = offsets.into_iter().collect();
        function
    };
    let mut functions: Vec<_> = functions.into_iter().map(with_offsets).collect();
    functions.sort_by(|one, other| {
        (other.weight, &one.name, one.space, one.start).cmp(&(
            one.weight,
            &other.name,
            other.space,
            other.start,
        ))
    });
    functions
}

/// The name of a function without what compilers add to the names of its pieces: `.cold`, `.part.0`, `[clone .cold]`.
pub fn name_of_whole(name: &str) -> &str {
    let name = name.split(" [clone ").next().unwrap_or(name);
    [".cold", ".part.", ".isra.", ".constprop.", ".llvm."]
        .iter()
        .filter_map(|mark| name.find(mark))
        .filter(|&at| at > 0)
        .min()
        .map_or(name, |at| &name[..at])
}

/// A function with its pieces.
pub type Whole = (String, Vec<SampledFunction>);

/// Puts the pieces of functions together, heaviest function first.
pub fn wholes(pieces: Vec<SampledFunction>) -> Vec<Whole> {
    let mut wholes: Vec<Whole> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for piece in pieces {
        let name = name_of_whole(&piece.name).to_owned();
        let index = *known.entry(name.clone()).or_insert(wholes.len());
        match wholes.get_mut(index) {
            Some((_, of_function)) => of_function.push(piece),
            None => wholes.push((name, vec![piece])),
        }
    }
    let weight = |whole: &Whole| whole.1.iter().map(|piece| piece.weight).fold(0, u64::saturating_add);
    wholes.sort_by_key(|whole| Reverse(weight(whole)));
    wholes
}

/// A function that is to be annotated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// A function that exists out of line.
    Whole(Whole),
    /// A function that exists inlined only, and the pieces that it was inlined into.
    Inlined(Arc<str>, Vec<SampledFunction>),
}

impl Chosen {
    /// Puts together what `annotate` says of the pieces.
    pub(super) fn annotated(
        &self,
        mut annotate: impl FnMut(&SampledFunction) -> CodeRange,
    ) -> AnnotatedFunction {
        match self {
            Self::Whole((name, pieces)) => {
                AnnotatedFunction { name: name.clone(), ranges: pieces.iter().map(annotate).collect() }
            }
            Self::Inlined(name, callers) => {
                let instance = |piece: &SampledFunction| {
                    let mut range = annotate(piece);
                    range.retain_inlined(name);
                    range
                };
                let mut ranges: Vec<_> = callers.iter().map(instance).collect();
                ranges.retain(|range| range.weight > 0 || range.missing.is_some());
                ranges.sort_by_key(|range| Reverse(range.weight));
                AnnotatedFunction { name: name.to_string(), ranges }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_functions_are_known_by_the_names_of_their_wholes() {
        assert_eq!(name_of_whole("parse.cold"), "parse");
        assert_eq!(name_of_whole("parse.constprop.0.cold"), "parse");
        assert_eq!(name_of_whole("a::b(int) [clone .cold]"), "a::b(int)");
        assert_eq!(name_of_whole("main.main"), "main.main");
        assert_eq!(name_of_whole(".cold"), ".cold");
    }
}
