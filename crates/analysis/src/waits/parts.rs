//! Splits a time into parts by their weights. What rounding leaves goes to the next part, so that the parts are the whole.

/// A whole that is split into parts by their weights, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    whole: u64,
    weights: u128,
    before: u128,
    given: u64,
}

impl Parts {
    /// Splits `whole` into parts whose weights sum up to `weights`.
    pub(super) fn new(whole: u64, weights: u128) -> Self {
        Self { whole, weights, before: 0, given: 0 }
    }

    /// Returns the next part.
    pub(super) fn next(&mut self, weight: u64) -> u64 {
        self.before += u128::from(weight);
        let weights = self.weights.max(1);
        let until = u128::from(self.whole).saturating_mul(self.before.min(weights)) / weights;
        let until = u64::try_from(until).unwrap_or(self.whole);
        let part = until.saturating_sub(self.given);
        self.given += part;
        part
    }
}
