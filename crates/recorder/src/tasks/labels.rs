//! Frames of tasks that are no code: what kind of task it is and where it was started, and what it waits for.

use std::ops::{Range, RangeInclusive};

use model::{Avma, TASK_LABELS, UNKNOWN_TASK, label_mapping_name};

use crate::function_mappings::MappedFunction;

/// The text of a frame.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(super) struct Label(pub(super) String);

impl MappedFunction for Label {
    const CODE: Range<Avma> = TASK_LABELS;
    const UNKNOWN: &str = UNKNOWN_TASK;

    fn mapping_name(&self) -> Vec<u8> {
        label_mapping_name(&self.0)
    }

    fn lines(&self) -> RangeInclusive<u32> {
        0..=0
    }
}
