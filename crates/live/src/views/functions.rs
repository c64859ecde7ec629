//! Functions with what they took themselves, and with all they called.

use super::{Scope, Weights};
use crate::snapshot::Snapshot;

/// A function of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRow {
    /// The position in [`Snapshot::functions`].
    pub function: u32,
    /// The weight of stacks whose innermost frame it is.
    pub own: u64,
    /// The weight of stacks that it is on, each counted once.
    pub total: u64,
    /// True if it runs in the kernel.
    pub in_kernel: bool,
}

/// The functions that the scope shows, in no order.
pub fn functions(snapshot: &Snapshot, scope: &Scope) -> Vec<FunctionRow> {
    let count = snapshot.functions.len();
    let mut rows: Vec<FunctionRow> = (0..count)
        .map(|function| FunctionRow { function: function as u32, own: 0, total: 0, in_kernel: false })
        .collect();
    for weighed in Weights::new(snapshot, scope).iter().filter(|weighed| weighed.is_shown) {
        let frame = weighed.branch.frame;
        if let Some(row) = rows.get_mut(frame.function as usize) {
            row.own += weighed.own;
            // A recursive function counts once per stack.
            row.total += if weighed.branch.is_outermost { weighed.total } else { 0 };
            row.in_kernel |= frame.in_kernel;
        }
    }
    rows.retain(|row| {
        row.total > 0 && snapshot.functions.get(row.function as usize).is_some_and(|f| scope.filter.shows(f))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::testing::Build;

    fn named(snapshot: &Snapshot, scope: &Scope) -> Vec<(String, u64, u64)> {
        let mut rows: Vec<_> = functions(snapshot, scope)
            .into_iter()
            .map(|row| (snapshot.functions[row.function as usize].name.to_string(), row.own, row.total))
            .collect();
        rows.sort();
        rows
    }

    fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
        (name.to_owned(), own, total)
    }

    #[test]
    fn recursion_counts_once() {
        let mut build = Build::default();
        build.stack(1, 1, "a", "main;f;f;f", 3).stack(1, 1, "a", "main;f;g", 2);
        let rows = named(&build.snapshot(), &Scope::default());
        assert_eq!(rows, [row("f", 3, 5), row("g", 2, 2), row("main", 0, 5)]);
    }

    #[test]
    fn hidden_kernel_frames_count_for_their_callers() {
        let mut build = Build::default();
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
        let mut build = Build::default();
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
        let mut build = Build::default();
        build.stack(1, 1, "a", "main;malloc", 3).stack(2, 2, "b", "main;free", 2);
        let snapshot = build.snapshot();
        let scope = |text: &str| Scope { filter: Filter::parse(text), ..Scope::default() };
        assert_eq!(named(&snapshot, &scope("mal")), [row("malloc", 3, 3)]);
        assert_eq!(named(&snapshot, &scope("comm:b")), [row("free", 2, 2), row("main", 0, 2)]);
    }
}
