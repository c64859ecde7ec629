//! What the judges read in the output of `prof`.

use anyhow::Context;

use super::answer::one_line;

/// A stack from its outermost frame, and its weight.
pub(super) type Stack<'a> = (Vec<&'a str>, u64);

/// Reads folded stacks: `a;b;c 17`.
pub(super) fn folded(text: &str) -> Vec<Stack<'_>> {
    text.lines().filter_map(stack).collect()
}

fn stack(line: &str) -> Option<Stack<'_>> {
    let (frames, weight) = line.rsplit_once(' ')?;
    Some((frames.split(';').collect(), weight.parse().ok()?))
}

/// Returns the sum of the weights of stacks.
pub(super) fn weight<'a, 's: 'a>(stacks: impl IntoIterator<Item = &'a Stack<'s>>) -> u64 {
    stacks.into_iter().map(|(_, weight)| weight).sum()
}

/// Returns the number before a word of a summary: `1,234 samples (…), 0 lost`.
pub(super) fn figure(text: &str, word: &str) -> anyhow::Result<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_word = |seen: &str| seen.trim_end_matches([',', ';', ':']) == word;
    let mut numbers = words.windows(2).filter(|pair| is_word(pair[1])).filter_map(|pair| {
        let number = pair[0].trim_start_matches('(').replace(',', "");
        number.parse().ok()
    });
    numbers.next().with_context(|| format!("no number of {word}: {}", one_line(text)))
}

/// Returns the numbers of samples and of lost samples in the summary of a recording.
pub(super) fn samples_and_lost(summary: &str) -> anyhow::Result<(f64, f64)> {
    Ok((figure(summary, "samples")?, figure(summary, "lost")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_stacks_are_read_from_what_is_printed() {
        let summary = "sixty 0.6\nprof: 1,504 samples (997 Hz cpu-clock), 0 lost, stacks 99.5 % complete → x";
        assert_eq!(figure(summary, "samples").unwrap(), 1504.0);
        assert_eq!(figure(summary, "lost").unwrap(), 0.0);
        assert_eq!(figure(summary, "%").unwrap(), 99.5);
        assert!(figure(summary, "switches").is_err());
        assert_eq!(folded("a;b c;d 17\nnoise\n"), [(vec!["a", "b c", "d"], 17)]);
    }
}
