//! The samples of a view in the order of time, from which flame charts are drawn.

use profile::{Sample, View};

use crate::frame_name;
use crate::label_stacks::{LabelId, LabelTable, Rows};

/// The samples of a view, thread by thread, each in the order of time. The profile must have kept single samples
/// ([`profile::Detail::samples`]).
pub(crate) struct Chart<'v, 'p> {
    view: &'v View<'p>,
    labels: LabelTable,
    /// The label of each frame, by its index.
    label_of: Vec<LabelId>,
    samples: Vec<Sample>,
    reverse: bool,
}

impl<'v, 'p> Chart<'v, 'p> {
    pub(crate) fn new(view: &'v View<'p>, reverse: bool) -> Self {
        let mut labels = LabelTable::default();
        let label_of = view.frames().frames().iter().map(|frame| labels.label(&frame_name(frame))).collect();
        let mut samples: Vec<Sample> = view.profile().samples().iter().collect();
        // The sort is stable: samples with the same root frames stay in the order of time.
        samples.sort_by_key(|sample| view.roots(sample.thread));
        Self { view, labels, label_of, samples, reverse }
    }
}

impl Rows for Chart<'_, '_> {
    fn for_each_row(&self, row: &mut dyn FnMut(&[LabelId], u64)) {
        let mut frames = Vec::new();
        let mut stack = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.weight(self.view.weight()) > 0) {
            frames.clear();
            self.view.stack(sample.thread, sample.stack, &mut frames);
            stack.clear();
            stack.extend(frames.iter().map(|frame| self.label_of[frame.index()]));
            if self.reverse {
                stack.reverse();
            }
            row(&stack, sample.weight(self.view.weight()));
        }
    }

    fn text(&self, label: LabelId) -> &str {
        self.labels.text(label)
    }

    fn total(&self) -> u128 {
        self.samples.iter().map(|sample| u128::from(sample.weight(self.view.weight()))).sum()
    }
}
