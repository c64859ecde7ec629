//! Makes frame names safe for folded lines and their readers.

use std::borrow::Cow;

use model::Name;

/// Replaces a space that readers would take for the separator before the count.
const NO_BREAK_SPACE: char = '\u{a0}';
/// Replaces a space that readers would trim.
const OPEN_BOX: char = '\u{2423}';
/// Replaces a `#` that would start a comment.
const FULL_WIDTH_NUMBER_SIGN: char = '\u{ff03}';

/// Returns the name as one frame of a folded line.
///
/// Folded lines are `frame;frame;… COUNT`. Their readers split at `;`, trim lines, skip lines that start with `#`, and
/// read up to two numbers at the end as counts (the differential form of inferno and FlameGraph). Therefore `;` becomes
/// `:`, unprintable characters U+FFFD, a leading `#` its full-width form, outer white space an open box, the space
/// before a number at the end a no-break space, and an empty name `(empty)`.
pub fn safe_label(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("(empty)");
    }
    let mut label = printable(name);
    if label.contains(';') {
        label = Cow::Owned(label.replace(';', ":"));
    }
    if label.starts_with('#') {
        label = Cow::Owned(format!("{FULL_WIDTH_NUMBER_SIGN}{}", &label[1..]));
    }
    if label.starts_with(char::is_whitespace) || label.ends_with(char::is_whitespace) {
        label = Cow::Owned(box_outer_space(&label));
    }
    if ends_in_number(&label) {
        let (text, number) = label.rsplit_once(' ').unwrap_or((&label, ""));
        label = Cow::Owned(format!("{text}{NO_BREAK_SPACE}{number}"));
    }
    label
}

/// Returns the text with U+FFFD in place of each character that a terminal may act upon, or that XML cannot represent. For
/// pages and tables; [`safe_label`] also escapes the separators of folded lines.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|character| if is_unprintable(character) { '\u{fffd}' } else { character }).collect()
}

/// Returns true for characters that a terminal may act upon, and for the two that XML 1.0 cannot represent.
fn is_unprintable(character: char) -> bool {
    Name::is_unsafe(character) || matches!(character, '\u{fffe}' | '\u{ffff}')
}

fn box_outer_space(label: &str) -> String {
    let inner = label.trim();
    let before = label.len() - label.trim_start().len();
    let count = |part: &str| part.chars().count();
    let boxes = |count: usize| OPEN_BOX.to_string().repeat(count);
    format!("{}{inner}{}", boxes(count(&label[..before])), boxes(count(label.trim_start()) - count(inner)))
}

/// Returns true if the part after the last space reads as a count, whole or with a fraction.
fn ends_in_number(label: &str) -> bool {
    label.rsplit_once(' ').is_some_and(|(_, last)| {
        last.chars().all(|character| character.is_ascii_digit() || character == '.')
            && last.matches('.').count() <= 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_rule() {
        assert_eq!(safe_label("core::fmt::write"), "core::fmt::write");
        assert_eq!(safe_label("<[u8; 8] as T>::f"), "<[u8: 8] as T>::f");
        assert_eq!(safe_label("a\nb\x1b[0m"), "a\u{fffd}b\u{fffd}[0m");
        assert_eq!(safe_label("# comment"), "\u{ff03} comment");
        assert_eq!(safe_label(" x  "), "\u{2423}x\u{2423}\u{2423}");
        assert_eq!(safe_label("worker 12"), "worker\u{a0}12");
        assert_eq!(safe_label("v 1.5"), "v\u{a0}1.5");
        assert_eq!(safe_label(""), "(empty)");
        assert_eq!(safe_label(" "), "\u{2423}");
    }

    #[test]
    fn text_of_pages_keeps_what_only_folded_lines_read() {
        assert_eq!(printable("for (;;) x++; # 12"), "for (;;) x++; # 12");
        assert_eq!(printable("a\x1b[0m\u{202e}b\u{ffff}"), "a\u{fffd}[0m\u{fffd}b\u{fffd}");
    }

    proptest! {
        #[test]
        fn a_label_is_one_frame_whatever_it_was(name in any::<String>()) {
            let label = safe_label(&name);
            prop_assert!(!label.is_empty());
            prop_assert_eq!(label.trim(), &*label);
            prop_assert!(!label.contains([';', '\n', '\r']));
            prop_assert!(!label.starts_with('#'));
            prop_assert!(!ends_in_number(&label));
            prop_assert_eq!(safe_label(&label), label.clone(), "safe names stay as they are");
        }
    }
}
