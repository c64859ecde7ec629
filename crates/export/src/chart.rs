//! Stacks in the order of time: what a flame chart is made of.

use profile::{Tick, View};

use crate::frame_name;
use crate::stacks::{LabelId, LabelTable, Rows};

/// The samples of a view whose profile kept their order ([`profile::Detail::order`]), thread by thread in the order of
/// their first samples.
pub(crate) struct Chart<'v, 'p> {
    view: &'v View<'p>,
    labels: LabelTable,
    /// By frame number.
    label_of: Vec<LabelId>,
    ticks: Vec<Tick>,
    reverse: bool,
}

impl<'v, 'p> Chart<'v, 'p> {
    pub(crate) fn new(view: &'v View<'p>, reverse: bool) -> Self {
        let mut labels = LabelTable::default();
        let label_of = view.frames().frames().iter().map(|frame| labels.label(&frame_name(frame))).collect();
        let mut ticks = view.profile().order().to_vec();
        // Stable: within what has the same first frame, time decides.
        ticks.sort_by_key(|tick| view.roots(tick.thread));
        Self { view, labels, label_of, ticks, reverse }
    }
}

impl Rows for Chart<'_, '_> {
    fn each(&self, row: &mut dyn FnMut(&[LabelId], u64)) {
        let mut frames = Vec::new();
        let mut stack = Vec::new();
        for tick in self.ticks.iter().filter(|tick| tick.weight(self.view.weight()) > 0) {
            frames.clear();
            self.view.stack(tick.thread, tick.stack, &mut frames);
            stack.clear();
            stack.extend(frames.iter().map(|frame| self.label_of[frame.index()]));
            if self.reverse {
                stack.reverse();
            }
            row(&stack, tick.weight(self.view.weight()));
        }
    }

    fn text(&self, label: LabelId) -> &str {
        self.labels.text(label)
    }

    fn total(&self) -> u128 {
        self.ticks.iter().map(|tick| u128::from(tick.weight(self.view.weight()))).sum()
    }
}
