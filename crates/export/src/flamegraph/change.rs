//! Differential flame graphs: frames are as wide as they are after a change, and coloured by how much they grew or shrank.

use std::collections::HashMap;
use std::io::{self, Write};

use profile::ViewFrame;
use profile::comparison::{AFTER, BEFORE};
use profile::queries::{CallTree, NodeId};

use super::change_marks::{GREW, SAME, SHRANK, marked};
use super::{Colors, Options, draw};
use crate::figures::{grouped, percent_text};
use crate::frame_name;
use crate::label_stacks::{LabelId, LabelStacks, LabelTable};
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

/// Stacks with weights of both sides, merged by the text of their labels.
struct ChangedStacks {
    labels: LabelTable,
    /// The root, then each node after its parent.
    nodes: Vec<Node>,
}

struct Node {
    parent: usize,
    label: Option<LabelId>,
    own: Weights,
    total: Weights,
}

impl ChangedStacks {
    fn new(tree: &CallTree, reverse: bool) -> Self {
        let mut labels = LabelTable::default();
        let names: Vec<LabelId> = tree.frames().iter().map(|frame| labels.label(&name(frame))).collect();
        let root = Node { parent: 0, label: None, own: [0; 2], total: [0; 2] };
        let mut stacks = Self { labels, nodes: vec![root] };
        let mut children: HashMap<(usize, LabelId), usize> = HashMap::new();
        let mut path = Vec::new();
        for node in tree.nodes() {
            let &[before, after] = tree.self_weights(node) else { continue };
            if before == 0 && after == 0 {
                continue;
            }
            path.clear();
            let mut at = node;
            while at != NodeId::ROOT {
                path.extend(tree.frame(at).map(|frame| names[frame.index()]));
                at = tree.parent(at);
            }
            if !reverse {
                path.reverse();
            }
            let mut place = 0;
            for &label in &path {
                place = *children.entry((place, label)).or_insert_with(|| {
                    stacks.nodes.push(Node { parent: place, label: Some(label), own: [0; 2], total: [0; 2] });
                    stacks.nodes.len() - 1
                });
            }
            add(&mut stacks.nodes[place].own, [before, after]);
        }
        for index in (0..stacks.nodes.len()).rev() {
            let own = stacks.nodes[index].own;
            add(&mut stacks.nodes[index].total, own);
            if index > 0 {
                let (total, parent) = (stacks.nodes[index].total, stacks.nodes[index].parent);
                add(&mut stacks.nodes[parent].total, total);
            }
        }
        stacks
    }

    /// Returns the labels of a node and its callers, the outermost first.
    fn path(&self, mut node: usize) -> Vec<(usize, LabelId)> {
        let mut path = Vec::new();
        while let Node { parent, label: Some(label), .. } = self.nodes[node] {
            path.push((node, label));
            node = parent;
        }
        path.reverse();
        path
    }

    /// Returns the nodes with weight of their own and their paths, sorted by text.
    fn rows(&self) -> Vec<(usize, Vec<(usize, LabelId)>)> {
        let with_weight = (1..self.nodes.len()).filter(|&node| self.nodes[node].own != [0; 2]);
        let mut rows: Vec<_> = with_weight.map(|node| (node, self.path(node))).collect();
        let text = |&(_, label): &(usize, LabelId)| self.labels.text(label);
        rows.sort_by(|(_, one), (_, other)| one.iter().map(text).cmp(other.iter().map(text)));
        rows
    }
}

/// Returns the name of a frame: without its module, by which functions of one name were told apart.
fn name(frame: &ViewFrame) -> String {
    frame_name(&frame.without_module())
}

fn add(sum: &mut Weights, added: Weights) {
    sum.iter_mut().zip(added).for_each(|(sum, added)| *sum = sum.saturating_add(added));
}

/// Draws what changed. [`Options::colors`] is ignored.
///
/// # Errors
/// Those of `output`, and `InvalidData` where there is no sample to draw.
pub fn write(change: &Change<'_>, options: &Options, output: &mut dyn Write) -> io::Result<()> {
    let stacks = ChangedStacks::new(change.tree, options.reverse);
    let all = stacks.nodes.first().map_or([0; 2], |root| root.total);
    let differs = |node: &Node| difference(node.total).unsigned_abs();
    // The frame of all samples and those of threads say what the title says.
    let greatest = stacks.nodes.iter().skip(1).map(differs).max().unwrap_or(0);
    let mut drawn = LabelStacks::default();
    let mut described: Vec<Option<LabelId>> = vec![None; stacks.nodes.len()];
    for (node, path) in stacks.rows() {
        let after = stacks.nodes[node].own[AFTER];
        if after == 0 {
            continue;
        }
        let path: Vec<LabelId> = path
            .into_iter()
            .map(|(node, label)| {
                *described[node].get_or_insert_with(|| {
                    let weights = stacks.nodes[node].total;
                    let colour = colour(weights, change.mean_weights, greatest);
                    let figures = figures(weights, all, options);
                    drawn.marked_label(&marked(stacks.labels.text(label), colour, &figures))
                })
            })
            .collect();
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
    let stacks = ChangedStacks::new(change.tree, false);
    for (node, path) in stacks.rows() {
        for (number, &(_, label)) in path.iter().enumerate() {
            let separator = if number == 0 { "" } else { ";" };
            write!(output, "{separator}{}", stacks.labels.text(label))?;
        }
        let [before, after] = stacks.nodes[node].own;
        writeln!(output, " {before} {after}")?;
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
    use profile::Label;
    use profile::queries::CallTreeBuilder;
    use profile::{FrameKind, FrameTable};

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
