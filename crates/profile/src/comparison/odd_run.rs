//! One run that differs from all others.

/// The least share by which an odd run differs from the median run: 5 %, which an eye sees in a picture.
const MIN_DISTANCE: f64 = 0.05;
/// The least ratio of that distance to the next one's. It picks a note, and judges nothing: a rare false one does no harm.
const MIN_RATIO: f64 = 3.0;

/// Returns the index of the one run that differs from the median of all far more than any other, and its ratio to the median; `None`
/// where there is none, or fewer than five runs.
pub fn odd_run(weights: &[f64]) -> Option<(usize, f64)> {
    let mut sorted = weights.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(sorted.len() / 2).filter(|median| sorted.len() >= 5 && **median > 0.0)?;
    let mut distances: Vec<(f64, usize)> =
        weights.iter().enumerate().map(|(run, weight)| ((weight / median - 1.0).abs(), run)).collect();
    distances.sort_by(|one, other| other.0.total_cmp(&one.0));
    let [(first, run), (second, _), ..] = *distances.as_slice() else { return None };
    let is_odd = first >= MIN_DISTANCE && first >= MIN_RATIO * second;
    is_odd.then(|| (run, weights.get(run).map_or(1.0, |weight| weight / median)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_far_from_all_others_is_named() {
        let (run, factor) = odd_run(&[1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.4, 1.0, 1.01, 1.0]).unwrap();
        assert_eq!(run, 6);
        assert!((1.38..1.42).contains(&factor));
        assert_eq!(odd_run(&[1.0, 1.0, 1.0, 1.0, 0.5]).map(|(run, _)| run), Some(4));
    }

    #[test]
    fn runs_that_scatter_have_no_odd_one() {
        for weights in [
            &[1.0, 1.3, 0.8, 1.1, 1.4, 0.9][..],
            &[1.0, 1.0, 1.4, 1.4, 1.0, 1.0],
            &[1.0, 1.0, 1.0, 1.0, 1.04],
            &[1.0, 1.0, 1.0, 9.0],
            &[0.0; 8],
            &[],
        ] {
            assert_eq!(odd_run(weights), None, "{weights:?}");
        }
    }
}
