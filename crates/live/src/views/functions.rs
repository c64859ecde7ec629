//! The list of functions: self weight, and total weight with callees.

use profile::FrameId;
use profile::queries::{FunctionTable, RowKeys};

use super::Scope;
use super::scope_tree::{Label, ScopeTree};
use crate::snapshot::{Snapshot, StateKind};

/// A function of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRow {
    /// The position in [`Snapshot::functions`].
    pub function: u32,
    /// The weight of stacks whose innermost frame it is.
    pub self_weight: u64,
    /// The weight of the stacks that it is on; recursion counts once.
    pub total: u64,
    /// True if it runs in the kernel.
    pub in_kernel: bool,
    /// Set where this is no function but the state of a thread.
    pub state: Option<StateKind>,
}

/// Gives inlined and other frames of a function one row.
struct ByFunction<'a> {
    labels: &'a [Label],
    /// By function: true if a frame of it runs in the kernel.
    in_kernel: Vec<bool>,
    /// By function: the state of threads that it stands for.
    states: Vec<Option<StateKind>>,
}

impl RowKeys for ByFunction<'_> {
    fn of_thread(&mut self, _: Option<FrameId>, _: FrameId) -> u32 {
        0
    }

    fn of_frame(&mut self, frame: Option<FrameId>) -> u32 {
        let label = frame.and_then(|frame| self.labels.get(frame.index()));
        let Some(frame) = label.and_then(|label| label.frame()) else { return u32::MAX };
        if let Some(in_kernel) = self.in_kernel.get_mut(frame.function as usize) {
            *in_kernel |= frame.in_kernel;
        }
        if let Some(state) = self.states.get_mut(frame.function as usize) {
            *state = frame.state;
        }
        frame.function
    }
}

/// Returns the functions that the scope shows, in no particular order.
pub fn functions(snapshot: &Snapshot, scope: &Scope) -> Vec<FunctionRow> {
    let ScopeTree { calls, .. } = ScopeTree::new(snapshot, scope);
    let count = snapshot.functions.len();
    let mut keys =
        ByFunction { labels: calls.frames(), in_kernel: vec![false; count], states: vec![None; count] };
    let table = FunctionTable::new(&calls, &mut keys);
    let shown = table.rows().filter_map(|(_, function, weights)| {
        let index = function as usize;
        let weights = weights.first().filter(|weights| weights.total > 0)?;
        let is_shown = snapshot.functions.get(index).is_some_and(|f| scope.filter.shows(f));
        let in_kernel = keys.in_kernel.get(index) == Some(&true);
        is_shown.then_some(FunctionRow {
            function,
            self_weight: weights.self_weight,
            total: weights.total,
            in_kernel,
            state: keys.states.get(index).copied().flatten(),
        })
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::testing::SnapshotBuilder;

    fn named(snapshot: &Snapshot, scope: &Scope) -> Vec<(String, u64, u64)> {
        let mut rows: Vec<_> = functions(snapshot, scope)
            .into_iter()
            .map(|row| {
                (snapshot.functions[row.function as usize].name.to_string(), row.self_weight, row.total)
            })
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
