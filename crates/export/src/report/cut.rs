//! Figures and names in the room that there is for them.

/// A share in per cent, with two digits behind the point.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// A weight's share of a whole.
pub(super) fn share(weight: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { weight as f64 / whole as f64 }
}

/// The text in at most so many columns: cut in the middle, since names differ at both ends.
pub(super) fn fit(text: &str, columns: usize) -> String {
    let length = text.chars().count();
    if length <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let (before, after) = (room - room / 2, room / 2);
    let mut cut: String = text.chars().take(before).collect();
    cut.push('…');
    cut.extend(text.chars().skip(length - after));
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("alloc::vec::Vec::push", 9), "allo…push");
        assert_eq!(fit("größer", 4), "gr…r");
        assert_eq!((fit("name", 1), fit("name", 0)), ("…".to_owned(), "…".to_owned()));
    }
}
