//! Rows of a table: which there are, in which order, and what was left out.

use std::cmp::Reverse;

use profile::View;
use profile::queries::{CallTree, FunctionTable, NodeId, Weights};

use super::keys::{Grouping, Key};
use super::shares::share;
use super::{Options, Order};

/// A table of one or several events.
pub(super) struct Table {
    /// The keys by which its rows are told apart.
    pub(super) keys: Vec<Key>,
    /// The heaviest first.
    pub(super) rows: Vec<Row>,
    /// The number of rows that were left out.
    pub(super) omitted: usize,
    /// Self weights of the rows left out, for each event. Their totals say nothing: a sample may be in several.
    pub(super) omitted_self: Vec<u64>,
    /// All that there is, for each event: 100 %.
    pub(super) totals: Vec<u64>,
}

/// A row of the table.
pub(super) struct Row {
    /// The fields of its keys, in their order.
    pub(super) fields: Vec<String>,
    /// The weights for each event.
    pub(super) weights: Vec<Weights>,
}

impl Table {
    /// Adds up the samples of events, a column for each.
    pub(super) fn new(views: &[&View<'_>], keys: &[Key], options: &Options) -> Self {
        if let [view] = views {
            let mut grouping = Grouping::new(view.frames().frames(), keys);
            if let Some(table) = FunctionTable::of_view(view, &mut grouping) {
                return Self::of(&table, &grouping, vec![view.total()], keys, options);
            }
        }
        let tree = CallTree::of(views);
        let mut grouping = Grouping::new(tree.frames(), keys);
        let table = FunctionTable::new(&tree, &mut grouping);
        Self::of(&table, &grouping, tree.totals(NodeId::ROOT).to_vec(), keys, options)
    }

    fn of(
        table: &FunctionTable,
        grouping: &Grouping<'_>,
        totals: Vec<u64>,
        keys: &[Key],
        options: &Options,
    ) -> Self {
        let row = |(thread, frame, weights): (u32, u32, &[Weights])| Row {
            fields: grouping.fields(thread, frame),
            weights: weights.to_vec(),
        };
        let mut rows: Vec<Row> = table.rows().map(row).collect();
        let by = |weights: &Weights| match options.order {
            Order::SelfWeight => (weights.self_weight, weights.total),
            Order::Total => (weights.total, weights.self_weight),
        };
        rows.sort_by(|one, other| {
            let weights = |row: &Row| Reverse(row.weights.iter().map(by).collect::<Vec<_>>());
            weights(one).cmp(&weights(other)).then_with(|| one.fields.cmp(&other.fields))
        });
        let min_share = options.min_share();
        let is_shown = |row: &Row| {
            row.weights.iter().zip(&totals).any(|(weights, &total)| {
                let weight = if options.totals { weights.total } else { weights.self_weight };
                weight > 0 && share(weight, total) >= min_share
            })
        };
        let most = options.limit.unwrap_or(usize::MAX);
        let mut left: Vec<Row> = Vec::new();
        let mut shown: Vec<Row> = Vec::new();
        for row in rows {
            if shown.len() < most && is_shown(&row) { shown.push(row) } else { left.push(row) }
        }
        let self_of = |column: usize| {
            let weights = left.iter().filter_map(|row| row.weights.get(column));
            weights.fold(0, |sum: u64, weights| sum.saturating_add(weights.self_weight))
        };
        let omitted_self = (0..totals.len()).map(self_of).collect();
        Self { keys: keys.to_vec(), rows: shown, omitted: left.len(), omitted_self, totals }
    }
}
