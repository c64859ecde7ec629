//! The rows of a table: selects and sorts them, and sums up what is omitted.

use std::cmp::Reverse;

use profile::View;
use profile::queries::{CallTree, FunctionTable, NodeId, Weights};
use profile::runtime_names::Tiers;

use super::keys::{Grouping, Key};
use super::shares::share;
use super::{Options, Order};
use crate::names::ShownNames;

/// A table of one or several events.
pub(super) struct Table {
    /// The keys, each of which is a column.
    pub(super) keys: Vec<Key>,
    /// The rows, the heaviest first.
    pub(super) rows: Vec<Row>,
    /// The number of rows that were omitted.
    pub(super) omitted: usize,
    /// The sum of the self weights of omitted rows, for each event. There is no sum of totals, because a sample may count for
    /// several rows.
    pub(super) omitted_self: Vec<u64>,
    /// The total of each event, which is 100 %.
    pub(super) totals: Vec<u64>,
}

/// A row of the table.
pub(super) struct Row {
    /// The fields of its keys, in their order.
    pub(super) fields: Vec<String>,
    /// The compilers of V8 that made the function's code.
    pub(super) tiers: Tiers,
    /// The weights for each event.
    pub(super) weights: Vec<Weights>,
}

impl Row {
    /// Returns the fields with the compilers beside the function: `fib [~*]`.
    pub(super) fn fields_with_tiers(&self, keys: &[Key], names: &ShownNames) -> Vec<String> {
        let signs = self.tiers.signs();
        let with_tiers = |(field, key): (&String, &Key)| match key {
            Key::Function if !signs.is_empty() => format!("{} [{signs}]", names.of(field)),
            Key::Function => names.of(field).into_owned(),
            _ => field.clone(),
        };
        self.fields.iter().zip(keys).map(with_tiers).collect()
    }
}

impl Table {
    /// Sums up the samples of events by the keys, with a column for each event. Has at most `most` rows.
    pub(super) fn new(views: &[&View<'_>], keys: &[Key], options: &Options, most: usize) -> Self {
        if let [view] = views {
            let mut grouping = Grouping::new(view.frames().frames(), view.frames().tiers(), keys);
            if let Some(table) = FunctionTable::of_view(view, &mut grouping) {
                return Self::from_functions(&table, &grouping, vec![view.total()], keys, (options, most));
            }
        }
        let tree = CallTree::of(views);
        let mut grouping = Grouping::new(tree.frames(), &[], keys);
        let table = FunctionTable::new(&tree, &mut grouping);
        Self::from_functions(&table, &grouping, tree.totals(NodeId::ROOT).to_vec(), keys, (options, most))
    }

    fn from_functions(
        table: &FunctionTable,
        grouping: &Grouping<'_>,
        totals: Vec<u64>,
        keys: &[Key],
        (options, most): (&Options, usize),
    ) -> Self {
        let row = |(thread, frame, weights): (u32, u32, &[Weights])| Row {
            fields: grouping.fields(thread, frame),
            tiers: grouping.tiers(frame),
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
