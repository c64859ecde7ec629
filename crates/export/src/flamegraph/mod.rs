//! Flame graphs as SVG. inferno places the frames; the page around them is in `svg`.

pub mod change;
pub(crate) mod change_marks;
mod pruning;
mod svg;

use std::collections::BTreeSet;
use std::io::{self, Write};

use inferno::flamegraph::color::{Palette, PaletteMap};
use inferno::flamegraph::{Direction, Options as Inferno};
use profile::{FrameTree, View};

use crate::label_stacks::{LabelId, LabelStacks, OMITTED};
use crate::names::printable;
use crate::palette::{self, colour_of};
use crate::waiting;
use pruning::Widths;
use svg::Page;
use svg::folding::Folding;
use svg::frames;

pub use svg::MARK;

/// The appearance of a picture.
#[derive(Clone, Debug)]
pub struct Options {
    /// The title above the picture.
    pub title: String,
    /// The text below the title.
    pub subtitle: String,
    /// The colours of frames.
    pub colors: Colors,
    /// The width in pixels; `None` for that of the window.
    pub width: Option<usize>,
    /// The width below which a frame is omitted, in per cent of the width of the picture.
    pub min_width: f64,
    /// True if frames grow downwards (an icicle graph).
    pub inverted: bool,
    /// True if innermost frames are at the root, with their callers above.
    pub reverse: bool,
    /// The unit of the weights, for example `samples`.
    pub unit: String,
    /// The weight of one such unit.
    pub per_unit: u64,
}

/// A colour palette.
#[derive(Clone, Copy, Debug)]
pub enum Colors {
    /// By the kind of code.
    Kinds,
    /// One of inferno's.
    Inferno(Palette),
    /// By the change that labels state ([`change`]).
    Change,
}

impl Colors {
    /// The names that [`Colors::from_str`](std::str::FromStr::from_str) parses.
    pub const NAMES: [&'static str; 3] = ["kinds", "hot", "blue"];
}

impl std::str::FromStr for Colors {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "kinds" { Ok(Self::Kinds) } else { name.parse().map(Self::Inferno) }
    }
}

/// Greater totals are scaled down to this, so that sums cannot overflow and are exact as floating-point numbers.
const MAX_TOTAL: u128 = 1 << 53;

/// The most bytes of the lines that are drawn. Deep stacks with long names are cut to their share of them, by weight.
const MAX_LINE_BYTES: usize = 32 << 20;

/// Draws the samples of a view.
///
/// # Errors
/// Those of `output`, and `InvalidData` where there is no sample to draw.
pub fn write(view: &View<'_>, options: &Options, output: &mut dyn Write) -> io::Result<()> {
    let tree = view.tree_of_all_time(min_drawn_weight(view, options.min_width, options.reverse));
    write_tree(view, tree, options, output)
}

/// Returns the weight below which frames of a view's tree are not drawn, so that the tree can omit them. `min_width` and
/// `reverse` are those of the [`Options`].
pub fn min_drawn_weight(view: &View<'_>, min_width: f64, reverse: bool) -> f64 {
    let total = u128::from(view.total()) + u128::from(view.unsampled_total());
    // Reversed stacks may merge to wider frames: none can be omitted.
    if reverse { 0.0 } else { min_weight(total, min_width) }
}

/// Draws a view's tree of all time, which may omit frames below [`min_drawn_weight`].
///
/// # Errors
/// Those of `output`, and `InvalidData` where there is no sample to draw.
pub fn write_tree(
    view: &View<'_>,
    tree: FrameTree,
    options: &Options,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut stacks = LabelStacks::from_tree(&tree, view.frames());
    drop(tree);
    if options.reverse {
        stacks.reverse();
    }
    stacks.merge();
    draw(&stacks, options, output)
}

/// Returns the weight of the narrowest frame to draw.
fn min_weight(total: u128, min_width: f64) -> f64 {
    total as f64 * min_width / 100.0
}

/// Draws rows. Neighbours share the frames that they have in common.
fn draw(rows: &LabelStacks, options: &Options, output: &mut dyn Write) -> io::Result<()> {
    let total = rows.total();
    let per_unit = options.per_unit.max(1);
    let scale = (total.div_ceil(MAX_TOTAL) as u64).max(per_unit);
    let width = options.width.unwrap_or(svg::WIDTH);
    let room = width.saturating_sub(2 * svg::MARGIN) as f64;
    let mut lines = Vec::new();
    let mut drawn_total = 0_u64;
    let widths = Widths {
        min_weight: min_weight(total, options.min_width),
        pixels_per_weight: room / total.max(1) as f64,
    };
    let mut bytes = 0_usize;
    pruning::prune(rows, widths, &mut |frames, _| bytes += text_bytes(rows, frames).sum::<usize>());
    let is_cut = bytes > MAX_LINE_BYTES;
    let pruned = pruning::prune(rows, widths, &mut |frames, weight| {
        let share = weight as f64 / total as f64 * MAX_LINE_BYTES as f64;
        let ends = text_bytes(rows, frames).scan(0, |end, bytes| {
            *end += bytes;
            Some(*end)
        });
        let fitting =
            if is_cut { ends.take_while(|&end| end as f64 <= share).count().max(1) } else { frames.len() };
        let cut = [&frames[..fitting], &[LabelId::OMITTED]].concat();
        let frames = if fitting < frames.len() { &cut } else { frames };
        let weight = (weight / scale).max(1);
        drawn_total = drawn_total.saturating_add(weight);
        lines.push(line(rows, frames, weight));
    });
    if lines.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no sample to draw"));
    }
    let is_time = options.per_unit > 1;
    if is_time && !options.reverse && !matches!(options.colors, Colors::Change) {
        waiting::mark(&mut lines, OMITTED);
    }
    let folding = Folding::new(pruned.heights, room / drawn_total as f64);

    let mut inferno = Inferno::default();
    inferno.deterministic = true;
    let mut colours = PaletteMap::default();
    match options.colors {
        Colors::Kinds | Colors::Change => {
            let drawn: BTreeSet<&str> = lines.iter().flat_map(|line| stack_of(line).split(';')).collect();
            drawn.into_iter().for_each(|label| {
                colours.insert(label, change_marks::colour_of(label).unwrap_or_else(|| colour_of(label)));
            });
            // inferno names the frame of all samples by the empty text.
            colours.insert("", palette::ALL);
            inferno.palette_map = Some(&mut colours);
        }
        Colors::Inferno(palette) => inferno.colors = palette,
    }
    // Narrow frames are omitted already. Only the frames of inferno's page are kept.
    inferno.min_width = 0.0;
    inferno.no_javascript = true;
    inferno.direction = Direction::Inverted;
    // The lines are sorted already. inferno would sort them as text, which separates `a;b` from `a` by `a::c`. Of a flame chart
    // it keeps the order, but reverses the lines, because its usual input is backwards.
    inferno.flame_chart = true;
    inferno.count_name = printable(&options.unit).into_owned();
    inferno.factor = scale as f64 / per_unit as f64;

    let legend = match options.colors {
        Colors::Change => change_marks::LEGEND.to_vec(),
        Colors::Kinds if is_time => palette::THREAD_TIME_LEGEND.to_vec(),
        Colors::Kinds => palette::legend(lines.iter().flat_map(|line| stack_of(line).split(';'))),
        Colors::Inferno(_) => Vec::new(),
    };
    let page = Page {
        legend: &legend,
        title: &printable(&options.title),
        subtitle: &printable(&options.subtitle),
        width,
        fluid: options.width.is_none(),
        inverted: options.inverted,
        rows: folding.rows(),
        total: drawn_total,
        has_too_many: pruned.has_too_many || is_cut,
        min_width: if pruned.has_omitted { options.min_width } else { 0.0 },
    };
    page.write_head(output)?;
    let mut picture = Vec::new();
    inferno::flamegraph::from_lines(&mut inferno, lines.iter().rev().map(String::as_str), &mut picture)?;
    let picture = str::from_utf8(&picture).map_err(io::Error::other)?;
    let marks = frames::write(picture, folding, options.inverted, room, output)?;
    page.write_tail(&marks, output)
}

/// Returns the bytes that each frame takes of its line.
fn text_bytes<'f>(rows: &'f LabelStacks, frames: &'f [LabelId]) -> impl Iterator<Item = usize> + 'f {
    frames.iter().map(|&frame| rows.text(frame).len() + 1)
}

fn line(rows: &LabelStacks, frames: &[LabelId], weight: u64) -> String {
    let mut line = String::new();
    for &frame in frames {
        line.push_str(rows.text(frame));
        line.push(';');
    }
    line.pop();
    line.push(' ');
    line.push_str(&weight.to_string());
    line
}

fn stack_of(line: &str) -> &str {
    line.rsplit_once(' ').map_or(line, |(stack, _)| stack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options() -> Options {
        Options {
            title: "a <b> & \"c\"".to_owned(),
            subtitle: "s\u{1}]]>".to_owned(),
            colors: "kinds".parse().unwrap(),
            width: None,
            min_width: 0.1,
            inverted: false,
            reverse: false,
            unit: "samples".to_owned(),
            per_unit: 1,
        }
    }

    fn svg(stacks: &LabelStacks, options: &Options) -> String {
        let mut svg = Vec::new();
        draw(stacks, options, &mut svg).unwrap();
        String::from_utf8(svg).unwrap()
    }

    fn total(svg: &str) -> u64 {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(svg, options).unwrap();
        let frames = document.descendants().find(|node| node.attribute("id") == Some("frames")).unwrap();
        frames.attribute("total_samples").unwrap().parse().unwrap()
    }

    #[test]
    fn a_frame_is_drawn_once_whatever_its_neighbours_are_called() {
        let mut stacks = LabelStacks::default();
        for stack in [&["a"][..], &["a", "x"], &["a::c"], &["a b"]] {
            let stack: Vec<_> = stack.iter().map(|name| stacks.label(name)).collect();
            stacks.push(&stack, 5);
        }
        stacks.merge();
        let svg = svg(&stacks, &options());
        assert!(svg.contains("<title>a (10 samples, 50.00%)</title>"), "{svg}");
    }

    #[test]
    fn deep_stacks_of_long_names_are_cut_to_a_bounded_text() {
        let mut stacks = LabelStacks::default();
        let deep = stacks.label(&"d".repeat(4096));
        for number in 0..40 {
            let leaf = stacks.label(&format!("leaf{number}"));
            let mut stack = vec![deep; 4000];
            stack[0] = leaf;
            stacks.push(&stack, 1);
        }
        stacks.merge();
        let svg = svg(&stacks, &options());
        assert!(svg.len() < 3 * MAX_LINE_BYTES && svg.contains("too many frames"), "{}", svg.len());
        assert_eq!(total(&svg), 40);
    }

    #[test]
    fn a_number_after_a_space_does_not_upset_the_order() {
        let mut stacks = LabelStacks::default();
        for (name, weight) in [("a", 5), ("a (x)", 3), ("a!", 1), ("a b", 12)] {
            let label = stacks.label(name);
            stacks.push(&[label], weight);
        }
        stacks.merge();
        assert_eq!(total(&svg(&stacks, &options())), 21);
    }

    #[test]
    fn absurd_weights_are_scaled() {
        let mut stacks = LabelStacks::default();
        for name in ["a", "b", "c"] {
            let label = stacks.label(name);
            stacks.push(&[label], u64::MAX);
        }
        stacks.merge();
        assert!(svg(&stacks, &options()).contains("33.33%"));
    }

    #[test]
    fn every_palette_has_its_name() {
        assert!(Colors::NAMES.iter().all(|name| name.parse::<Colors>().is_ok()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn hostile_names_give_well_formed_xml_with_the_whole_total(
            rows in prop::collection::vec((prop::collection::vec(any::<String>(), 1..5), 1_u64..1000), 1..8),
        ) {
            let mut stacks = LabelStacks::default();
            for (frames, weight) in &rows {
                let labels: Vec<_> = frames.iter().map(|name| stacks.label(name)).collect();
                stacks.push(&labels, *weight);
            }
            stacks.merge();
            let svg = svg(&stacks, &options());
            prop_assert_eq!(u128::from(total(&svg)), stacks.total());
        }
    }
}
