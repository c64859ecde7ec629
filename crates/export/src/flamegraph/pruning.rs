//! Stacks as blocks side by side, with the narrow ones left out, so that a drawing costs what it shows.

use super::svg::folding::Heights;
use crate::label_stacks::{LabelId, Rows};

/// The widths of rows that are to be drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    /// In units of weight: narrower blocks are left out.
    pub(crate) least: f64,
    /// Pixels per unit of weight.
    pub(crate) scale: f64,
}

/// The rows that were drawn, after the narrow ones were cut.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Pruned {
    /// The heights of the blocks, in rows; all samples together are the first row.
    pub(crate) heights: Heights,
    /// True if blocks were left out.
    pub(crate) left_out: bool,
}

/// Calls `line` for each line to draw, in the order of `rows`: a stack and its weight. The weights' sum is that of
/// the rows.
///
/// Neighbours that begin alike share a block per frame. One that would be narrower than `least` is left out with all
/// above it, and [`LabelId::LEFT_OUT`] takes its place. The first frames stay, as nothing lies below them.
pub(crate) fn prune(rows: &impl Rows, widths: Widths, line: &mut dyn FnMut(&[LabelId], u64)) -> Pruned {
    let (wide, heights) = wide_blocks(rows, widths);
    let mut pruned = Pruned { heights, left_out: false };
    let mut path: Vec<(LabelId, bool)> = Vec::new();
    let mut wide = wide.into_iter();
    // The line that grows while neighbours are cut to the same stack.
    let mut last: (Vec<LabelId>, u64) = Default::default();
    let mut shown = Vec::new();
    rows.each(&mut |frames, weight| {
        path.truncate(shared(path.iter().map(|open| open.0), frames));
        let opened = &frames[path.len()..];
        path.extend(opened.iter().copied().zip(&mut wide));
        let count = path.iter().take_while(|open| open.1).count().max(1);
        shown.clear();
        shown.extend_from_slice(&frames[..count]);
        if count < frames.len() && shown.last() != Some(&LabelId::LEFT_OUT) {
            shown.push(LabelId::LEFT_OUT);
        }
        pruned.left_out |= shown.last() == Some(&LabelId::LEFT_OUT);
        if last.0 != shown {
            if last.1 > 0 {
                line(&last.0, last.1);
            }
            std::mem::swap(&mut last.0, &mut shown);
            last.1 = 0;
        }
        last.1 = last.1.saturating_add(weight);
    });
    if last.1 > 0 {
        line(&last.0, last.1);
    }
    pruned
}

/// For each block, in the order of their beginnings: whether it is wide enough. And how high blocks reach.
fn wide_blocks(rows: &impl Rows, widths: Widths) -> (Vec<bool>, Heights) {
    let mut wide = Vec::new();
    let mut heights = Heights::default();
    heights.add(1, f64::MAX);
    let mut path: Vec<(LabelId, usize, u128)> = Vec::new();
    let mut close = |path: &mut Vec<(LabelId, usize, u128)>, keep: usize, wide: &mut Vec<bool>| {
        while path.len() > keep
            && let Some((label, block, weight)) = path.pop()
        {
            let is_left_out = label == LabelId::LEFT_OUT;
            wide[block] = is_left_out || weight as f64 >= widths.least;
            if !is_left_out {
                heights.add(path.len() + 2, weight as f64 * widths.scale);
            }
            if let Some((_, _, below)) = path.last_mut() {
                *below += weight;
            }
        }
    };
    rows.each(&mut |frames, weight| {
        let shared = shared(path.iter().map(|open| open.0), frames);
        close(&mut path, shared, &mut wide);
        for &label in &frames[path.len()..] {
            path.push((label, wide.len(), 0));
            wide.push(false);
        }
        if let Some((_, _, own)) = path.last_mut() {
            *own += u128::from(weight);
        }
    });
    close(&mut path, 0, &mut wide);
    (wide, heights)
}

fn shared(path: impl Iterator<Item = LabelId>, frames: &[LabelId]) -> usize {
    path.zip(frames).take_while(|(open, label)| open == *label).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label_stacks::{LEFT_OUT, Stacks};
    use proptest::prelude::*;

    fn stacks(rows: &[(Vec<u8>, u64)]) -> Stacks {
        let mut stacks = Stacks::default();
        for (frames, weight) in rows {
            let labels: Vec<_> = frames.iter().map(|frame| stacks.label(&frame.to_string())).collect();
            stacks.push(&labels, *weight);
        }
        stacks
    }

    fn lines(stacks: &Stacks, least: f64) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        prune(stacks, Widths { least, scale: 1.0 }, &mut |frames, weight| {
            let frames: Vec<_> = frames.iter().map(|&label| stacks.text(label)).collect();
            lines.push((frames.join(";").replace(LEFT_OUT, "…"), weight));
        });
        lines
    }

    #[test]
    fn narrow_frames_are_left_out_together() {
        let stacks = stacks(&[(vec![1, 2, 3], 1), (vec![1, 2, 4], 1), (vec![1, 5], 10), (vec![6, 7], 1)]);
        let lines = lines(&stacks, 2.0);
        assert_eq!(lines, [("1;2;…".into(), 2), ("1;5".into(), 10), ("6;…".into(), 1)]);
    }

    #[test]
    fn the_height_is_that_of_the_widest_frames() {
        let stacks = stacks(&[(vec![1, 2, 3, 4], 1), (vec![1, 5, 6], 3), (vec![1, 5], 10)]);
        let widths = Widths { least: 0.0, scale: 1.0 };
        let pruned = prune(&stacks, widths, &mut |_, _| {});
        assert_eq!(pruned, Pruned { heights: Heights { seen: 5, wide: 3 }, left_out: false });
        assert!(prune(&stacks, Widths { least: 2.0, ..widths }, &mut |_, _| {}).left_out);
    }

    #[test]
    fn what_is_narrow_stays_at_its_time() {
        let rows = [(vec![1, 2], 5), (vec![1, 3], 1), (vec![1], 1), (vec![1, 2], 5), (vec![1, 3], 4)];
        let lines = lines(&stacks(&rows), 3.0);
        assert_eq!(
            lines,
            [("1;2".into(), 5), ("1;…".into(), 1), ("1".into(), 1), ("1;2".into(), 5), ("1;3".into(), 4)]
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_wide_frames_stay(
            rows in prop::collection::vec((prop::collection::vec(0_u8..5, 1..6), 1_u64..100), 0..40),
            least in 0.0..50.0,
        ) {
            let mut stacks = stacks(&rows);
            stacks.merge();
            let lines = lines(&stacks, least);
            prop_assert_eq!(lines.iter().map(|line| u128::from(line.1)).sum::<u128>(), stacks.total());
            let total = |prefix: &str, lines: &[(String, u64)]| -> u64 {
                let begins = |line: &str| line == prefix || line.starts_with(&format!("{prefix};"));
                lines.iter().filter(|line| begins(&line.0)).map(|line| line.1).sum()
            };
            let whole = self::lines(&stacks, 0.0);
            for (stack, _) in &whole {
                for end in stack.match_indices(';').map(|(at, _)| at).chain([stack.len()]) {
                    let before = total(&stack[..end], &whole);
                    let after = total(&stack[..end], &lines);
                    let root = !stack[..end].contains(';');
                    prop_assert_eq!(after, if before as f64 >= least || root { before } else { 0 });
                }
            }
        }
    }
}
