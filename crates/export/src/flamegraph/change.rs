//! Differential flame graphs: frames are as wide as they are after a change, and coloured by how much they grew or shrank.

use std::io::{self, Write};

use profile::comparison::{AFTER, BEFORE};
use profile::queries::{CallTree, CallTreeBuilder, NodeId};
use profile::{FrameId, FrameKind, FrameTable, Label, ViewFrame};

use super::change_marks::{GREW, SAME, SHRANK, marked};
use super::{Colors, Options, draw};
use crate::figures::{grouped, percent_text};
use crate::frame_name;
use crate::label_stacks::{LabelId, LabelStacks};
use crate::names::safe_label;
use crate::palette::Rgb;

/// Standard deviations of counting samples that a change must exceed to have a colour.
pub(crate) const CHANCE_DEVIATIONS: f64 = 2.0;

/// The weights of two sides.
type Weights = [u64; 2];

/// Two profiles to draw as one.
pub struct Change<'a> {
    /// The calls of both sides, in the columns [`BEFORE`] and [`AFTER`].
    pub tree: &'a CallTree,
    /// The weight of a sample of each side, on average.
    pub mean_weights: [f64; 2],
}

/// Returns the calls of both sides merged by the texts of their labels, which are the names of its frames; with `reverse`, from the innermost
/// frame on.
fn by_label(tree: &CallTree, reverse: bool) -> CallTree {
    let mut labels = FrameTable::default();
    // Without its module, by which functions of one name were told apart.
    let mut label = |frame: &ViewFrame| {
        let text = safe_label(&frame_name(&frame.without_module())).into();
        labels.intern(ViewFrame { label: Label::Function(text, None), kind: FrameKind::User, line: None })
    };
    let of_frames: Vec<FrameId> = tree.frames().iter().map(&mut label).collect();
    let mut builder = CallTreeBuilder::new(2);
    for node in tree.nodes().filter(|&node| tree.self_weights(node) != [0; 2]) {
        let frames = path(tree, node).into_iter().filter_map(|node| tree.frame(node));
        let mut labels: Vec<FrameId> = frames.map(|frame| of_frames[frame.index()]).collect();
        if reverse {
            labels.reverse();
        }
        let place = labels.into_iter().fold(NodeId::ROOT, |place, label| builder.child(place, label));
        builder.add(place, tree.self_weights(node));
    }
    builder.finish(labels.frames().to_vec())
}

/// Returns a node and its callers, the outermost first.
fn path(tree: &CallTree, node: NodeId) -> Vec<NodeId> {
    let callers = std::iter::successors(Some(node), |&node| Some(tree.parent(node)));
    let mut path: Vec<NodeId> = callers.take_while(|&node| node != NodeId::ROOT).collect();
    path.reverse();
    path
}

/// Returns the text of a node of [`by_label`].
fn text(tree: &CallTree, node: NodeId) -> &str {
    match tree.frame(node).and_then(|frame| tree.frames().get(frame.index())) {
        Some(ViewFrame { label: Label::Function(text, _), .. }) => text,
        _ => "",
    }
}

/// Returns the nodes of [`by_label`] with weight of their own, each with its weights and with its path, sorted by text.
fn rows(tree: &CallTree) -> Vec<(Weights, Vec<NodeId>)> {
    let row = |node| Some((*tree.self_weights(node).first_chunk()?, path(tree, node)));
    let mut rows: Vec<(Weights, _)> = tree.nodes().filter_map(row).collect();
    rows.retain(|(own, path)| *own != [0; 2] && !path.is_empty());
    rows.sort_by(|(_, one), (_, other)| {
        let text = |&node: &NodeId| text(tree, node);
        one.iter().map(text).cmp(other.iter().map(text))
    });
    rows
}

/// Draws what changed. [`Options::colors`] is ignored.
///
/// # Errors
/// Those of `output`, and `InvalidData` where there is no sample to draw.
pub fn write(change: &Change<'_>, options: &Options, output: &mut dyn Write) -> io::Result<()> {
    let tree = by_label(change.tree, options.reverse);
    let weights = |node: NodeId| tree.totals(node).first_chunk().copied().unwrap_or_default();
    let all = weights(NodeId::ROOT);
    let differs = |node| difference(weights(node)).unsigned_abs();
    // The frame of all samples and those of threads say what the title says.
    let greatest = tree.nodes().filter(|&node| node != NodeId::ROOT).map(differs).max().unwrap_or(0);
    let mut drawn = LabelStacks::default();
    let mut described: Vec<Option<LabelId>> = vec![None; tree.nodes().len()];
    for ([_, after], path) in rows(&tree) {
        let described = path.into_iter().map(|node| {
            *described[node.index()].get_or_insert_with(|| {
                let weights = weights(node);
                let colour = colour(weights, change.mean_weights, greatest);
                let figures = figures(weights, all, options);
                drawn.marked_label(&marked(text(&tree, node), colour, &figures))
            })
        });
        let path: Vec<LabelId> = described.collect();
        drawn.push(&path, after);
    }
    let options = Options { colors: Colors::Change, ..options.clone() };
    draw(&drawn, &options, output)
}

/// Writes folded stacks with two counts, as inferno reads them for its differential flame graphs: `outermost;…;innermost BEFORE AFTER`.
///
/// # Errors
/// Those of `output`.
pub fn write_folded(change: &Change<'_>, output: &mut dyn Write) -> io::Result<()> {
    let tree = by_label(change.tree, false);
    for ([before, after], path) in rows(&tree) {
        let texts: Vec<&str> = path.into_iter().map(|node| text(&tree, node)).collect();
        writeln!(output, "{} {before} {after}", texts.join(";"))?;
    }
    Ok(())
}

/// Returns the weight before the change of stacks that are not there after it, and so are not drawn.
pub fn gone(tree: &CallTree) -> u64 {
    let leaves = tree.nodes().filter(|&node| tree.totals(node).get(AFTER) == Some(&0));
    leaves.map(|node| tree.self_weights(node).get(BEFORE).copied().unwrap_or(0)).fold(0, u64::saturating_add)
}

fn difference([before, after]: Weights) -> i128 {
    i128::from(after) - i128::from(before)
}

/// Returns the colour of a frame. `greatest` is the greatest change of a frame.
fn colour(weights: Weights, mean_weights: [f64; 2], greatest: u128) -> Rgb {
    let change = difference(weights);
    let size = change.unsigned_abs() as f64;
    // A number of samples n has a variance of n, and each stands for its mean weight.
    let variance: f64 =
        weights.iter().zip(mean_weights).map(|(&weight, mean)| weight as f64 * mean.max(1.0)).sum();
    if size <= CHANCE_DEVIATIONS * variance.sqrt() {
        return SAME;
    }
    let [least, most] = if change > 0 { GREW } else { SHRANK };
    let part = (size / (greatest as f64).max(1.0)).clamp(0.0, 1.0);
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    (mix(least.0, most.0), mix(least.1, most.1), mix(least.2, most.2))
}

/// Says how much a frame weighed before, and how it changed.
fn figures([before, after]: Weights, all: Weights, options: &Options) -> String {
    if before == 0 {
        return "new".to_owned();
    }
    let per_unit = options.per_unit.max(1);
    let change = (after as f64 / before as f64 - 1.0) * 100.0;
    format!(
        "before: {} {}, {}, {change:+.1} %",
        grouped(before / per_unit),
        options.unit,
        percent_text(before, all[BEFORE])
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::vision::Cone;

    fn function(name: &str) -> ViewFrame {
        ViewFrame { label: Label::Function(name.into(), None), kind: FrameKind::User, line: None }
    }

    /// `main` calls `grew`, `shrank`, `same`, `new` and `gone`.
    fn tree() -> CallTree {
        let mut frames = FrameTable::default();
        let mut builder = CallTreeBuilder::new(2);
        let main = builder.child(NodeId::ROOT, frames.intern(function("main")));
        for (name, weights) in [
            ("grew", [100, 300]),
            ("shrank", [400, 200]),
            ("same", [1000, 1010]),
            ("new", [0, 90]),
            ("gone", [70, 0]),
        ] {
            let node = builder.child(main, frames.intern(function(name)));
            builder.add(node, &weights);
        }
        builder.finish(frames.frames().to_vec())
    }

    fn options() -> Options {
        Options {
            title: "t".to_owned(),
            subtitle: "s".to_owned(),
            colors: Colors::Kinds,
            width: None,
            min_width: 0.0,
            inverted: false,
            reverse: false,
            unit: "samples".to_owned(),
            per_unit: 1,
        }
    }

    fn picture() -> String {
        let tree = tree();
        let mut svg = Vec::new();
        write(&Change { tree: &tree, mean_weights: [1.0; 2] }, &options(), &mut svg).unwrap();
        String::from_utf8(svg).unwrap()
    }

    /// The fill of the frame whose title begins so.
    fn fill(svg: &str, title: &str) -> Rgb {
        let (_, rest) =
            svg.split_once(&format!("<title>{title} (")).unwrap_or_else(|| panic!("{title}: {svg}"));
        let (_, rest) = rest.split_once("fill=\"rgb(").unwrap();
        let parts: Vec<u8> =
            rest.split_once(')').unwrap().0.split(',').map(|part| part.trim().parse().unwrap()).collect();
        (parts[0], parts[1], parts[2])
    }

    #[test]
    fn frames_are_as_wide_as_after_and_coloured_by_their_change() {
        let svg = picture();
        assert!(
            svg.contains("<title>grew (300 samples, 18.75%; before: 100 samples, 6.4 %, +200.0 %)</title>"),
            "{svg}"
        );
        assert!(svg.contains("<title>new (90 samples, 5.62%; new)</title>"), "{svg}");
        assert!(!svg.contains("gone"), "{svg}");
        assert_eq!(fill(&svg, "grew"), GREW[1]);
        assert_eq!(fill(&svg, "shrank"), SHRANK[1]);
        assert_eq!(fill(&svg, "same"), SAME, "10 of 1,000 is chance");
        let new = fill(&svg, "new");
        assert!(new.0 > new.2 && new != GREW[1], "{new:?}");
    }

    #[test]
    fn folded_stacks_have_both_counts_and_what_is_gone() {
        let tree = tree();
        let mut text = Vec::new();
        write_folded(&Change { tree: &tree, mean_weights: [1.0; 2] }, &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "main;gone 70 0\nmain;grew 100 300\nmain;new 0 90\nmain;same 1000 1010\nmain;shrank 400 200\n"
        );
        assert_eq!(gone(&tree), 70);
    }

    #[test]
    fn no_colour_is_as_another_for_those_who_see_neither_red_nor_green() {
        for (grown, shrunk) in
            [(GREW[0], SHRANK[0]), (GREW[1], SHRANK[1]), (GREW[1], SAME), (SHRANK[1], SAME)]
        {
            for missing in [Cone::Long, Cone::Middle] {
                let distance = missing.distance(grown, shrunk);
                assert!(distance > 40.0, "{grown:?} and {shrunk:?} {missing:?}: {distance}");
            }
        }
    }
}
