//! Stretches of time that differ in what ran.
//!
//! Time is cut into equal buckets, and neighbours that are most alike are joined, again and again, until all that are left
//! differ.

use hashbrown::HashMap;
use model::Timestamp;
use rustc_hash::FxBuildHasher;

use super::stacks::Functions;
use super::{Part, sorted};
use crate::{FrameId, View};

/// Buckets to begin with.
const BUCKETS: usize = 48;
/// Samples that a bucket has on average, at the least: with fewer, chance makes neighbours differ.
const LEAST_SAMPLES: usize = 80;
/// Neighbours differ if this share of the time of one was spent in other functions than that of the other.
const LEAST_DIFFERENCE: f64 = 0.4;

/// A stretch of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// The time at which it begins.
    pub start: Timestamp,
    /// The time at which it ends.
    pub end: Timestamp,
    /// Its weight.
    pub weight: u64,
    /// The functions its samples were taken in, heaviest first.
    pub functions: Vec<Part<FrameId>>,
}

#[derive(Default)]
struct Bucket {
    /// The last bucket that was joined to it.
    last: usize,
    weight: u64,
    functions: HashMap<FrameId, u64, FxBuildHasher>,
}

impl Bucket {
    /// The share of time spent in other functions: 0 for none, 1 for all of it.
    fn difference(&self, other: &Self) -> f64 {
        let (one, two) = (self.weight.max(1) as f64, other.weight.max(1) as f64);
        let common: f64 = self
            .functions
            .iter()
            .filter_map(|(frame, weight)| {
                Some((*weight as f64 / one).min(*other.functions.get(frame)? as f64 / two))
            })
            .sum();
        1.0 - common
    }

    fn join(&mut self, other: Self) {
        self.last = other.last;
        self.weight = self.weight.saturating_add(other.weight);
        for (frame, weight) in other.functions {
            let sum = self.functions.entry(frame).or_default();
            *sum = sum.saturating_add(weight);
        }
    }
}

/// Joins neighbours, the most alike first, until all that are left differ. What has at most the weight `few` tells nothing by
/// the functions that ran in it, and a single bucket may be a bit of both of its neighbours: these are joined in any case.
fn join_alike(parts: &mut Vec<Bucket>, few: u64) {
    let buckets = parts.len();
    let mut keep_single = true;
    while parts.len() > 1 {
        let is_single = |index: usize| {
            let before = index.checked_sub(1).map_or(0, |before| parts[before].last + 1);
            parts[index].last == before && buckets > 2
        };
        let difference = |index: usize| {
            let (one, other) = (&parts[index], &parts[index + 1]);
            let is_nothing = one.weight <= few || other.weight <= few;
            let is_joined = is_nothing || !keep_single && (is_single(index) || is_single(index + 1));
            (!is_joined, one.difference(other), index)
        };
        let pairs = (0..parts.len() - 1).map(difference);
        let nearest = pairs.min_by(|one, other| {
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2))
        });
        let nearest = nearest.filter(|&(differs, difference, _)| !differs || difference < LEAST_DIFFERENCE);
        match nearest {
            Some((_, _, index)) => {
                let next = parts.remove(index + 1);
                parts[index].join(next);
            }
            None if keep_single => keep_single = false,
            None => break,
        }
    }
}

/// Finds the stretches of time that differ in what ran; none where they do not, or where samples do not say when they were taken
/// ([`crate::Columns::times`]).
pub fn phases(view: &View<'_>) -> Vec<Phase> {
    let functions = Functions::new(view);
    let samples = view.profile().samples();
    let widen = |span: Option<(Timestamp, Timestamp)>, time: Timestamp| match span {
        Some((start, end)) => Some((start.min(time), end.max(time))),
        None => Some((time, time)),
    };
    let span = samples.iter().filter_map(|sample| sample.time).fold(None, widen);
    let Some((start, end)) = span else { return Vec::new() };
    let buckets = (samples.len() / LEAST_SAMPLES).min(BUCKETS);
    if buckets < 2 {
        return Vec::new();
    }
    let length = (end.0 - start.0) / buckets as u64 + 1;
    let mut parts: Vec<Bucket> = (0..buckets).map(|last| Bucket { last, ..Bucket::default() }).collect();
    for sample in samples.iter() {
        let Some(time) = sample.time else { continue };
        let Some(function) = functions.innermost(view, sample.thread, sample.stack) else { continue };
        let bucket = &mut parts[((time.0 - start.0) / length) as usize];
        let weight = sample.weight(view.weight());
        bucket.weight = bucket.weight.saturating_add(weight);
        let sum = bucket.functions.entry(function).or_default();
        *sum = sum.saturating_add(weight);
    }
    let few = parts.iter().map(|part| part.weight).sum::<u64>() / (4 * buckets as u64);
    join_alike(&mut parts, few);
    if parts.len() < 2 {
        return Vec::new();
    }
    let mut first = 0;
    let mut phases = Vec::new();
    for part in parts {
        let at = |bucket: usize| {
            Timestamp((bucket as u64).saturating_mul(length).saturating_add(start.0).min(end.0))
        };
        phases.push(Phase {
            start: at(first),
            end: at(part.last + 1),
            weight: part.weight,
            functions: sorted(part.functions),
        });
        first = part.last + 1;
    }
    phases
}
