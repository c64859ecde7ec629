//! Selects the functions that a name or pattern matches.

use std::collections::BTreeMap;

use model::near::{edit_distance, is_near};
use profile::{FrameId, Pattern, ViewFrame};

use super::{ReportError, keys};

/// The frames of the selected functions.
pub(super) struct ChosenFunctions(Vec<bool>);

impl ChosenFunctions {
    pub(super) fn contains(&self, frame: FrameId) -> bool {
        self.0[frame.index()]
    }
}

/// Maximum number of similar names that are offered if no function matches.
const MAX_SUGGESTIONS: usize = 3;

/// Selects the function of exactly this name, or else all functions that match the pattern.
pub(super) fn choose(frames: &[ViewFrame], wanted: &Pattern) -> Result<ChosenFunctions, ReportError> {
    let names: Vec<Option<String>> =
        frames.iter().map(|frame| (!frame.label.is_thread()).then(|| keys::function(frame))).collect();
    let exact = |name: &Option<String>| name.as_ref().is_some_and(|name| wanted.is_exactly(name));
    let matching = |(name, frame): (&Option<String>, &ViewFrame)| {
        let module = keys::module(frame);
        let module = (!module.is_empty()).then_some(&*module);
        name.as_ref().is_some_and(|name| wanted.matches(name, module))
    };
    let chosen: Vec<bool> = if names.iter().any(exact) {
        names.iter().map(exact).collect()
    } else {
        names.iter().zip(frames).map(matching).collect()
    };
    if chosen.contains(&true) {
        return Ok(ChosenFunctions(chosen));
    }
    let nearest = nearest_names(names.iter().flatten().map(String::as_str), wanted.typed());
    Err(ReportError::NoSuchFunction { wanted: wanted.typed().to_owned(), nearest })
}

/// Returns up to three names that are near `wanted`, the nearest first: whole names, or the parts between their paths and types. Empty if
/// none is near.
pub fn nearest_names<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut distances: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        let lower = name.to_lowercase();
        let parts = lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let near = parts.chain([lower.as_str()]).filter(|part| !part.is_empty() && is_near(&wanted, part));
        if let Some(distance) = near.map(|part| edit_distance(&wanted, part)).min() {
            distances.insert(name, distance);
        }
    }
    let mut nearest: Vec<_> = distances.into_iter().collect();
    nearest.sort_by_key(|&(name, distance)| (distance, name.len()));
    nearest.iter().take(MAX_SUGGESTIONS).map(|(name, _)| (*name).to_owned()).collect()
}
