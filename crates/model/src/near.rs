//! Names that were meant by a typo.

use alloc::string::String;
use alloc::vec::Vec;

/// Returns true if a typed name differs from another one in at most a quarter of the letters of the shorter one, or in one letter.
pub fn is_near(typed: &str, name: &str) -> bool {
    edit_distance(typed, name) <= name.len().min(typed.len()).div_ceil(4).max(1)
}

/// Returns the name that is nearest to a typed one, if any is near ([`is_near`]).
pub fn nearest(typed: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|name| (edit_distance(typed, &name), name))
        .min()
        .filter(|(_, name)| is_near(typed, name))
        .map(|(_, name)| name)
}

/// Returns the number of letters to change, add, remove or swap with their neighbour to get from `a` to `b` (optimal string
/// alignment), by their first 64 letters.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, from) in a.iter().enumerate() {
        let mut next = Vec::from([i + 1]);
        for (j, to) in b.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&next, j) + 1).min(at(&row, j + 1) + 1).min(at(&row, j) + usize::from(from != to));
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        (before, row) = (row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
        assert_eq!(
            (edit_distance("bmup", "bump"), edit_distance("ab", "ba"), edit_distance("abc", "")),
            (1, 1, 3)
        );
    }

    #[test]
    fn what_shares_a_few_letters_is_not_near() {
        assert!(is_near("--freqq", "--freq") && is_near("recrod", "record") && is_near("x", "y"));
        assert!(!is_near("--callgraph-depth", "--call-graph") && !is_near("--frequency", "--freq"));
    }
}
