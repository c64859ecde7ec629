//! Stacks in the order of time: what a flame chart is made of.

use profile::{Sample, View};

use crate::frame_name;
use crate::label_stacks::{LabelId, LabelTable, Rows};

/// The samples of a view whose profile kept them ([`profile::Detail::samples`]), thread by thread in the order of
/// their first samples.
pub(crate) struct Chart<'v, 'p> {
    view: &'v View<'p>,
    labels: LabelTable,
    /// By frame number.
    label_of: Vec<LabelId>,
    samples: Vec<Sample>,
    reverse: bool,
}

impl<'v, 'p> Chart<'v, 'p> {
    pub(crate) fn new(view: &'v View<'p>, reverse: bool) -> Self {
        let mut labels = LabelTable::default();
        let label_of = view.frames().frames().iter().map(|frame| labels.label(&frame_name(frame))).collect();
        let mut samples: Vec<Sample> = view.profile().samples().iter().collect();
        // Stable: within what has the same first frame, time decides.
        samples.sort_by_key(|sample| view.roots(sample.thread));
        Self { view, labels, label_of, samples, reverse }
    }
}

impl Rows for Chart<'_, '_> {
    fn each(&self, row: &mut dyn FnMut(&[LabelId], u64)) {
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
