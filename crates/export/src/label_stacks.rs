//! Stacks of labels with weights, from which folded text and flame graphs are written.

use std::sync::Arc;

use profile::{FrameTable, FrameTree};

use crate::frame_name;
use crate::interner::Interner;
use crate::names::safe_label;

/// The text of the label that replaces frames that were omitted as too narrow. No safe label equals it.
pub(crate) const OMITTED: &str = "\u{1}";

/// The id of a label among those of its [`LabelStacks`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct LabelId(u32);

impl LabelId {
    /// The label that replaces frames that were omitted as too narrow.
    pub(crate) const OMITTED: Self = Self(u32::MAX);
}

/// Stacks of labels, the outermost frame first, each with a weight, in the order in which they are drawn: frames that equal their neighbours
/// are drawn as one. Each has a frame, and no weight is 0.
#[derive(Default, Debug)]
pub(crate) struct LabelStacks {
    labels: Interner<Arc<str>>,
    frames: Vec<LabelId>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    len: u32,
    weight: u64,
}

impl LabelStacks {
    /// Returns the text of a label.
    pub(crate) fn text(&self, id: LabelId) -> &str {
        if id == LabelId::OMITTED { OMITTED } else { &self.labels.values[id.0 as usize] }
    }

    /// Returns the sum of all weights.
    pub(crate) fn total(&self) -> u128 {
        self.rows.iter().map(|row| u128::from(row.weight)).sum()
    }

    /// Returns the stacks of a tree of frames, whose ids are those of `frames`. Frames that the tree omits become one frame.
    pub(crate) fn from_tree(tree: &FrameTree, frames: &FrameTable) -> Self {
        let mut stacks = Self::default();
        let labels: Vec<_> = frames.frames().iter().map(|frame| stacks.label(&frame_name(frame))).collect();
        let mut stack = Vec::new();
        tree.rows(|frames, weight, omitted| {
            stack.clear();
            stack.extend(frames.iter().map(|frame| labels[frame.index()]));
            stacks.push(&stack, weight);
            stack.push(LabelId::OMITTED);
            stacks.push(&stack, omitted);
        });
        stacks
    }

    /// Interns a name. Names that are equal once they are safe share a label.
    pub(crate) fn label(&mut self, name: &str) -> LabelId {
        self.marked_label(&safe_label(name))
    }

    /// Interns a label that is safe already, except for marks that its writer removes from the output.
    pub(crate) fn marked_label(&mut self, label: &str) -> LabelId {
        LabelId(self.labels.intern(label.into()))
    }

    /// Adds a stack, the outermost frame first. Ignores one without frames or weight.
    pub(crate) fn push(&mut self, frames: &[LabelId], weight: u64) {
        if frames.is_empty() || weight == 0 {
            return;
        }
        let start = self.frames.len();
        self.frames.extend_from_slice(frames);
        // No record has 2^32 frames.
        self.rows.push(Row { start, len: frames.len() as u32, weight });
    }

    /// Returns the stacks and their weights.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[LabelId], u64)> {
        self.rows.iter().map(|row| (self.frames_of(row), row.weight))
    }

    /// Merges equal stacks and sorts all by the text of their labels, so that equal profiles give equal output.
    pub(crate) fn merge(&mut self) {
        let labels = &self.labels.values;
        let mut by_text: Vec<usize> = (0..labels.len()).collect();
        by_text.sort_unstable_by_key(|&label| &labels[label]);
        let mut rank = vec![0_u32; labels.len()];
        by_text.iter().zip(1..).for_each(|(&label, place)| rank[label] = place);

        let mut rows = std::mem::take(&mut self.rows);
        // Omitted frames come first.
        let rank_of = |label: &LabelId| rank.get(label.0 as usize).copied().unwrap_or_default();
        let ranks = |row: &Row| self.frames_of(row).iter().map(rank_of);
        rows.sort_unstable_by(|a, b| ranks(a).cmp(ranks(b)));
        rows.dedup_by(|next, kept| {
            let equal = self.frames_of(next) == self.frames_of(kept);
            if equal {
                kept.weight = kept.weight.saturating_add(next.weight);
            }
            equal
        });
        self.rows = rows;
    }

    /// Reverses every stack: the innermost frame comes first.
    pub(crate) fn reverse(&mut self) {
        for row in &self.rows {
            self.frames[row.start..row.start + row.len as usize].reverse();
        }
    }

    fn frames_of(&self, row: &Row) -> &[LabelId] {
        &self.frames[row.start..row.start + row.len as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_become_one_in_a_fixed_order() {
        let mut stacks = LabelStacks::default();
        let [b, a] = ["b", "a"].map(|name| stacks.label(name));
        stacks.push(&[b], 1);
        stacks.push(&[a, b], 2);
        stacks.push(&[b], 3);
        stacks.push(&[], 9);
        stacks.merge();
        let rows: Vec<_> = stacks.iter().collect();
        assert_eq!(rows, [(&[a, b][..], 2), (&[b][..], 4)]);
        assert_eq!(stacks.total(), 6);
    }
}
