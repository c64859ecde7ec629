//! The columns of figures of a report: self weights and totals of each event, and ratios of events.

use profile::queries::Weights;

use super::ratios::{Ratio, ratios};
use super::shares::share;
use super::{EventReport, Options};

/// A column of figures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    SelfWeight,
    Total,
}

impl Column {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::SelfWeight => "self",
            Self::Total => "total",
        }
    }

    fn of(self, weights: &Weights) -> u64 {
        match self {
            Self::SelfWeight => weights.self_weight,
            Self::Total => weights.total,
        }
    }
}

/// The columns of figures.
pub(super) struct Figures {
    /// Of each event.
    pub(super) columns: &'static [Column],
    pub(super) ratios: Vec<Ratio>,
}

impl Figures {
    /// Returns the columns that a report has, with self weights before totals or behind them.
    pub(super) fn new(events: &[EventReport<'_>], options: &Options, self_first: bool) -> Self {
        let columns: &[Column] = match (options.query.has_self_weights(), options.totals) {
            (false, _) => &[Column::Total],
            (true, false) => &[Column::SelfWeight],
            (true, true) if self_first => &[Column::SelfWeight, Column::Total],
            (true, true) => &[Column::Total, Column::SelfWeight],
        };
        Self { columns, ratios: ratios(events) }
    }

    /// Returns the weights of a row in each column of each event, and their shares of the events' totals.
    pub(super) fn shares(&self, weights: &[Weights], wholes: &[u64]) -> impl Iterator<Item = (u64, f64)> {
        let of_event = |(weights, &whole): (&Weights, &u64)| {
            let weights = *weights;
            self.columns.iter().map(move |column| (column.of(&weights), share(column.of(&weights), whole)))
        };
        weights.iter().zip(wholes).flat_map(of_event)
    }

    /// Returns the ratios of a row, by the first column; `None` where nothing can be divided by.
    pub(super) fn ratios(&self, weights: &[Weights]) -> impl Iterator<Item = (&Ratio, Option<f64>)> {
        let weight = |event: usize| self.columns[0].of(&weights.get(event).copied().unwrap_or_default());
        self.ratios.iter().map(move |ratio| (ratio, ratio.value(weight)))
    }
}
