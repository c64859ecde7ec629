//! Omits blocks of a flame graph that are too narrow to draw, so that the size of a drawing depends on what it shows.

use super::svg::folding::Heights;
use crate::label_stacks::{LabelId, LabelStacks};

/// The most blocks of a drawing: the widest are drawn. 200,000 make a file of 60 MB, which browsers just bear.
pub(crate) const MAX_BLOCKS: usize = 200_000;
/// The length of a name, in bytes, from which on its block counts as several.
const USUAL_NAME_BYTES: usize = 128;

/// The scale of a drawing, and the width below which blocks are omitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    /// Blocks of less weight are omitted.
    pub(crate) min_weight: f64,
    /// Pixels per unit of weight.
    pub(crate) pixels_per_weight: f64,
}

/// The height of a drawing whose narrow blocks were omitted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Pruned {
    /// The heights that blocks reach, in rows. The first row is the block of all samples.
    pub(crate) heights: Heights,
    /// True if blocks were omitted.
    pub(crate) has_omitted: bool,
    /// True if there are more than [`MAX_BLOCKS`].
    pub(crate) has_too_many: bool,
}

/// Calls `line` for each stack to draw with its weight, in the order of `rows`. The sum of the weights equals that of
/// the rows.
///
/// Neighbours share the blocks of the frames that their stacks have in common. A block of less than
/// [`Widths::min_weight`] is replaced by [`LabelId::OMITTED`], with all blocks above it. Outermost frames always stay.
pub(crate) fn prune(rows: &LabelStacks, widths: Widths, line: &mut dyn FnMut(&[LabelId], u64)) -> Pruned {
    let (blocks, heights) = wide_blocks(rows, widths);
    let (wide, has_too_many) = widest(&blocks, rows);
    let mut pruned = Pruned { heights, has_omitted: false, has_too_many };
    let mut path: Vec<(LabelId, bool)> = Vec::new();
    let mut wide = wide.into_iter();
    // The line whose weight grows while neighbours are cut to the same stack.
    let mut last: (Vec<LabelId>, u64) = Default::default();
    let mut shown = Vec::new();
    for (frames, weight) in rows.iter() {
        path.truncate(shared(path.iter().map(|open| open.0), frames));
        let opened = &frames[path.len()..];
        path.extend(opened.iter().copied().zip(&mut wide));
        let count = path.iter().take_while(|open| open.1).count().max(1);
        shown.clear();
        shown.extend_from_slice(&frames[..count]);
        if count < frames.len() && shown.last() != Some(&LabelId::OMITTED) {
            shown.push(LabelId::OMITTED);
        }
        pruned.has_omitted |= shown.last() == Some(&LabelId::OMITTED);
        if last.0 != shown {
            if last.1 > 0 {
                line(&last.0, last.1);
            }
            std::mem::swap(&mut last.0, &mut shown);
            last.1 = 0;
        }
        last.1 = last.1.saturating_add(weight);
    }
    if last.1 > 0 {
        line(&last.0, last.1);
    }
    pruned
}

/// A block that is wide enough.
#[derive(Clone, Copy)]
struct Wide {
    label: LabelId,
    weight: u64,
    depth: u32,
}

/// Returns for each block whether it is drawn, and whether there are too many, of which those are drawn that are widest and lie lowest.
fn widest(blocks: &[Option<Wide>], rows: &LabelStacks) -> (Vec<bool>, bool) {
    let cost = |wide: &Wide| 1 + rows.text(wide.label).len() / USUAL_NAME_BYTES;
    let mut drawn: Vec<bool> = blocks.iter().map(Option::is_some).collect();
    if blocks.iter().flatten().map(cost).sum::<usize>() <= MAX_BLOCKS {
        return (drawn, false);
    }
    let mut order: Vec<(usize, Wide)> =
        blocks.iter().enumerate().filter_map(|(number, wide)| Some((number, (*wide)?))).collect();
    // Who lies on another one comes after it.
    order.sort_by_key(|(_, wide)| (std::cmp::Reverse(wide.weight), wide.depth));
    let mut room = MAX_BLOCKS;
    for (number, wide) in order {
        room = room.saturating_sub(cost(&wide));
        drawn[number] = room > 0 || wide.label == LabelId::OMITTED;
    }
    (drawn, true)
}

/// Returns for each block, in the order in which blocks start, what it is if it is wide enough, and the heights of all blocks.
fn wide_blocks(rows: &LabelStacks, widths: Widths) -> (Vec<Option<Wide>>, Heights) {
    let mut wide = Vec::new();
    let mut heights = Heights::default();
    heights.add(1, f64::MAX);
    let mut path: Vec<(LabelId, usize, u128)> = Vec::new();
    let mut close = |path: &mut Vec<(LabelId, usize, u128)>, keep: usize, wide: &mut Vec<Option<Wide>>| {
        while path.len() > keep
            && let Some((label, block, weight)) = path.pop()
        {
            let is_left_out = label == LabelId::OMITTED;
            wide[block] = (is_left_out || weight as f64 >= widths.min_weight).then_some(Wide {
                label,
                weight: u64::try_from(weight).unwrap_or(u64::MAX),
                depth: path.len() as u32,
            });
            if !is_left_out {
                heights.add(path.len() + 2, weight as f64 * widths.pixels_per_weight);
            }
            if let Some((_, _, below)) = path.last_mut() {
                *below += weight;
            }
        }
    };
    for (frames, weight) in rows.iter() {
        let shared = shared(path.iter().map(|open| open.0), frames);
        close(&mut path, shared, &mut wide);
        for &label in &frames[path.len()..] {
            path.push((label, wide.len(), 0));
            wide.push(None);
        }
        if let Some((_, _, own)) = path.last_mut() {
            *own += u128::from(weight);
        }
    }
    close(&mut path, 0, &mut wide);
    (wide, heights)
}

fn shared(path: impl Iterator<Item = LabelId>, frames: &[LabelId]) -> usize {
    path.zip(frames).take_while(|(open, label)| open == *label).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label_stacks::OMITTED;
    use proptest::prelude::*;

    fn stacks(rows: &[(Vec<u8>, u64)]) -> LabelStacks {
        let mut stacks = LabelStacks::default();
        for (frames, weight) in rows {
            let labels: Vec<_> = frames.iter().map(|frame| stacks.label(&frame.to_string())).collect();
            stacks.push(&labels, *weight);
        }
        stacks
    }

    fn lines(stacks: &LabelStacks, least: f64) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        prune(stacks, Widths { min_weight: least, pixels_per_weight: 1.0 }, &mut |frames, weight| {
            let frames: Vec<_> = frames.iter().map(|&label| stacks.text(label)).collect();
            lines.push((frames.join(";").replace(OMITTED, "…"), weight));
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
        let widths = Widths { min_weight: 0.0, pixels_per_weight: 1.0 };
        let pruned = prune(&stacks, widths, &mut |_, _| {});
        assert_eq!(
            pruned,
            Pruned { heights: Heights { visible: 5, wide: 3 }, has_omitted: false, has_too_many: false }
        );
        assert!(prune(&stacks, Widths { min_weight: 2.0, ..widths }, &mut |_, _| {}).has_omitted);
    }

    #[test]
    fn a_drawing_has_a_bounded_number_of_blocks_the_widest() {
        let mut stacks = LabelStacks::default();
        let [root, wide] = ["root", "wide"].map(|name| stacks.label(name));
        let narrow = stacks.label(&"n".repeat(2 * USUAL_NAME_BYTES));
        for number in 0..MAX_BLOCKS / 4 {
            let label = stacks.label(&format!("f{number}"));
            stacks.push(&[root, label, narrow, narrow], 1);
            stacks.push(&[root, label, wide], 9);
        }
        let mut blocks = 0;
        let mut drawn = 0;
        let widths = Widths { min_weight: 0.0, pixels_per_weight: 1.0 };
        let mut last: Vec<LabelId> = Vec::new();
        let pruned = prune(&stacks, widths, &mut |frames, weight| {
            blocks += frames.len() - shared(last.iter().copied(), frames);
            drawn += weight;
            last = frames.to_vec();
        });
        assert!(pruned.has_too_many && pruned.has_omitted);
        // A mark for what is left out comes beside each of the functions.
        assert!(blocks <= MAX_BLOCKS + MAX_BLOCKS / 4, "{blocks}");
        assert_eq!(u128::from(drawn), stacks.total());
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
