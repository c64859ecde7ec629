//! The two sides of a page that compares recordings.

use model::Name;
use profile::comparison::{Assessment, Comparison, Presence, Verdict};
use serde_json::{Value, json};

use super::tree::{PageTree, function_of};
use crate::flamegraph::change::CHANCE_DEVIATIONS;
use crate::flamegraph::change_marks::{GREW, SAME, SHRANK};

/// The recordings that a page compares: its first event is the one before, its second the one after.
pub struct PageSides<'p> {
    /// Their frames, joined.
    pub comparison: &'p Comparison,
    /// The changes of functions, and how sure they are.
    pub assessment: &'p Assessment,
    /// The name and the title of each side.
    pub names: [(String, String); 2],
    /// The intervals in which samples of each side are missing, as in [`super::Page::gaps`].
    pub gaps: [Vec<(u64, u64, u64)>; 2],
    /// The mean weight of a sample of each side.
    pub mean_weights: [f64; 2],
}

/// Returns the member `marks` of `meta`: the colours of frames that changed, as in the picture of a change, and how many standard deviations
/// of counting samples a change has to exceed to have one.
pub(super) fn marks() -> Value {
    json!({ "same": SAME, "grew": GREW, "shrank": SHRANK, "chance": CHANCE_DEVIATIONS })
}

impl PageSides<'_> {
    /// Returns the member `sides` of `meta`. `origins` are the times of the sides' first samples in microseconds.
    pub(super) fn meta(&self, tree: &PageTree, origins: &[u64]) -> Value {
        let safe = |text: &str| Name::from(text).to_string();
        let sides = self.names.iter().zip(origins).map(
            |((name, title), origin)| json!({ "name": safe(name), "title": safe(title), "origin": origin }),
        );
        let functions = tree.functions_by_name();
        let frames = self.comparison.tree().frames();
        let changes = self.assessment.rows.iter().filter_map(|row| {
            let (name, module) = function_of(frames.get(row.frame.index())?);
            let function = functions.get(&(name.as_str(), module.as_str()))?;
            let factors = row.estimate.as_ref().map(|estimate| estimate.factors());
            let verdict = match (row.presence, row.verdict) {
                (Presence::New, _) => "new",
                (Presence::Gone, _) => "gone",
                (_, Verdict::Unchanged) => "",
                (_, Verdict::Grown) => "grew",
                (_, Verdict::Shrunk) => "shrank",
                (_, Verdict::Moved(_)) => "moved",
            };
            Some(json!([function, factors.map(|[_, low, _]| low), factors.map(|[_, _, high]| high), verdict]))
        });
        json!({
            "names": sides.collect::<Value>(),
            "factor": self.assessment.factor,
            "means": self.mean_weights,
            "changes": changes.collect::<Value>(),
        })
    }
}
