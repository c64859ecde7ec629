//! Shares of weights, as reports print them.

/// Formats a share from 0 to 1 in per cent, with two decimals.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// Returns a weight as a share of a whole, from 0 to 1; 0 if the whole is 0.
pub(super) fn share(weight: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { weight as f64 / whole as f64 }
}

/// Formats the shares of weights in wholes, joined by commas.
pub(super) fn percents(weights: &[u64], wholes: &[u64]) -> String {
    let shares = weights.iter().zip(wholes).map(|(&weight, &whole)| percent(share(weight, whole)));
    shares.collect::<Vec<_>>().join(", ")
}
