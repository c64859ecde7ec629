//! The list of functions: self weight, and total weight with callees.

use profile::queries::{ByLabel, FunctionTable, RowKeys};
use profile::{Detail, FrameId, FrameKind, ViewFrame};

use super::Scope;
use crate::snapshot::{Snapshot, StateKind};

/// A function of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRow {
    /// The function, or what stands for it where no function is known; one of its frames.
    pub frame: ViewFrame,
    /// A number by which rows of equal weights are ordered alike from snapshot to snapshot.
    pub number: u32,
    /// The weight of stacks whose innermost frame it is.
    pub self_weight: u64,
    /// The weight of the stacks that it is on; recursion counts once.
    pub total: u64,
    /// True if it runs in the kernel.
    pub in_kernel: bool,
    /// Set where this is no function but the state of a thread.
    pub state: Option<StateKind>,
}

/// Returns the functions that the scope shows, in no particular order.
pub fn functions(snapshot: &Snapshot, scope: &Scope) -> Vec<FunctionRow> {
    let profile = scope.profile(snapshot, Detail::default());
    let view = scope.view(snapshot, &profile, scope.show());
    let frames = view.frames().frames();
    let mut keys = ByLabel::new(frames);
    let mut in_kernel = vec![false; frames.len()];
    for (number, frame) in frames.iter().enumerate() {
        let function = keys.of_frame(Some(FrameId::from_index(number))) as usize;
        in_kernel[function] |= frame.kind == FrameKind::Kernel;
    }
    // The view has no filters on stacks, which would need the tree.
    let Some(table) = FunctionTable::of_view(&view, &mut keys) else { return Vec::new() };
    let rows = table.rows().filter_map(|(_, number, weights)| {
        let frame = frames.get(number as usize).filter(|frame| scope.filter.shows(frame))?.clone();
        let weights = weights.first()?;
        Some(FunctionRow {
            number,
            self_weight: weights.self_weight,
            total: weights.total,
            in_kernel: in_kernel[number as usize],
            state: snapshot.state_kind(&frame.label),
            frame,
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::testing::SnapshotBuilder;

    fn named(snapshot: &Snapshot, scope: &Scope) -> Vec<(String, u64, u64)> {
        let mut rows: Vec<_> = functions(snapshot, scope)
            .into_iter()
            .map(|row| (export::report::function(&row.frame), row.self_weight, row.total))
            .collect();
        rows.sort();
        rows
    }

    fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
        (name.to_owned(), own, total)
    }

    #[test]
    fn recursion_counts_once() {
        let mut build = SnapshotBuilder::default();
        build.stack(1, 1, "a", "main;f;f;f", 3).stack(1, 1, "a", "main;f;g", 2);
        let rows = named(&build.snapshot(), &Scope::default());
        assert_eq!(rows, [row("f", 3, 5), row("g", 2, 2), row("main", 0, 5)]);
    }

    #[test]
    fn hidden_kernel_frames_count_for_their_callers() {
        let mut build = SnapshotBuilder::default();
        build.stack(1, 1, "a", "main;read;_k_vfs_read", 3).stack(2, 2, "b", "_k_kthread", 2);
        let snapshot = build.snapshot();
        let scope = Scope { kernel: false, ..Scope::default() };
        assert_eq!(named(&snapshot, &scope), [row("main", 0, 3), row("read", 3, 3)]);
        assert_eq!(scope.total(&snapshot), 3, "a stack without a frame left does not count");
        let scope = Scope { user: false, ..Scope::default() };
        assert_eq!(named(&snapshot, &scope), [row("kthread", 2, 2), row("vfs_read", 3, 3)]);
    }

    #[test]
    fn idle_cpus_are_left_out_until_asked_for() {
        let mut build = SnapshotBuilder::default();
        build.stack(0, 0, "swapper", "_k_idle", 30).stack(1, 1, "a", "main", 10);
        let snapshot = build.snapshot();
        let mut scope = Scope::default();
        assert_eq!(scope.total(&snapshot), 10);
        assert_eq!(scope.idle_share(&snapshot), 75.0);
        scope.idle = true;
        assert_eq!(scope.total(&snapshot), 40);
    }

    #[test]
    fn the_filter_chooses_rows_or_samples() {
        let mut build = SnapshotBuilder::default();
        build.stack(1, 1, "a", "main;malloc", 3).stack(2, 2, "b", "main;free", 2);
        let snapshot = build.snapshot();
        let scope = |text: &str| Scope { filter: Filter::parse(text), ..Scope::default() };
        assert_eq!(named(&snapshot, &scope("mal")), [row("malloc", 3, 3)]);
        assert_eq!(named(&snapshot, &scope("comm:b")), [row("free", 2, 2), row("main", 0, 2)]);
    }
}
