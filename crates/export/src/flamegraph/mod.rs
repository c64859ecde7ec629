//! Flame graphs and flame charts as SVG, drawn by inferno.

mod pruning;
mod svg;
mod time_order;

use std::collections::BTreeSet;
use std::io::{self, Write};

use inferno::flamegraph::color::{Palette, PaletteMap};
use inferno::flamegraph::{Direction, Options as Inferno};
use profile::{FrameTree, View};

use crate::label_stacks::{LEFT_OUT, LabelId, Rows, Stacks};
use crate::names::printable;
use crate::palette::{self, colour_of};
use crate::waiting;
use pruning::Widths;
use svg::Page;
use svg::folding::Folding;
use svg::frames::Frames;
use time_order::Chart;

/// The look of the picture.
#[derive(Clone, Debug)]
pub struct Options {
    /// Above the picture.
    pub title: String,
    /// Below the title.
    pub subtitle: String,
    /// A palette of `inferno-flamegraph --colors`.
    pub colors: Colors,
    /// Pixels; as wide as the window for `None`.
    pub width: Option<usize>,
    /// Per cent of the width below which a frame is not drawn.
    pub min_width: f64,
    /// Grow downwards (an icicle graph).
    pub inverted: bool,
    /// Innermost frames at the root: who calls them.
    pub reverse: bool,
    /// Samples in the order of time, thread by thread, instead of merged stacks: the profile must have kept that order
    /// (`profile::Detail::samples`).
    pub chart: bool,
    /// The unit of the weights, for example `samples`.
    pub unit: String,
    /// The weight of one such unit.
    pub per_unit: u64,
}

/// A colour palette.
#[derive(Clone, Copy, Debug)]
pub enum Colors {
    /// By where a frame ran, which the others guess from names.
    Kinds,
    /// One of inferno's.
    Inferno(Palette),
}

impl Colors {
    /// The names that [`Colors::from_str`](std::str::FromStr::from_str) takes.
    pub const NAMES: [&'static str; 17] = [
        "kinds", "java", "rust", "hot", "mem", "io", "wakeup", "js", "perl", "python", "red", "green",
        "blue", "aqua", "yellow", "purple", "orange",
    ];
}

impl std::str::FromStr for Colors {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "kinds" { Ok(Self::Kinds) } else { name.parse().map(Self::Inferno) }
    }
}

/// Weights beyond this are scaled down, so that their sum cannot overflow and keeps its digits in a floating-point
/// number.
const LARGEST_TOTAL: u128 = 1 << 53;

/// Draws the samples of a view.
///
/// # Errors
/// Those of `output`, and `InvalidData` where there is no sample to draw.
pub fn write(view: &View<'_>, options: &Options, output: &mut dyn Write) -> io::Result<()> {
    if options.chart {
        return draw(&Chart::new(view, options.reverse), options, output);
    }
    let tree = view.tree_of_all_time(least_drawn(view, options.min_width, options.reverse));
    write_tree(view, tree, options, output)
}

/// The weight of the narrowest frame that a picture needs of a view's tree, which has no text then for what is not drawn.
/// `min_width` and `reverse` are those of its [`Options`].
pub fn least_drawn(view: &View<'_>, min_width: f64, reverse: bool) -> f64 {
    let total = u128::from(view.total()) + u128::from(view.unsampled_total());
    // What grows from the other end may become wide.
    if reverse { 0.0 } else { least(total, min_width) }
}

/// Draws a view's tree of all time, from [`least_drawn`] on. [`Options::chart`] is not looked at: it draws no tree.
///
/// # Errors
/// Those of `output`, and `InvalidData` where there is no sample to draw.
pub fn write_tree(
    view: &View<'_>,
    tree: FrameTree,
    options: &Options,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut stacks = Stacks::from_tree(&tree, view.frames());
    drop(tree);
    if options.reverse {
        stacks.reverse();
    }
    stacks.merge();
    draw(&stacks, options, output)
}

/// The weight of the narrowest frame to draw.
fn least(total: u128, min_width: f64) -> f64 {
    total as f64 * min_width / 100.0
}

/// Draws rows whose neighbours belong together.
fn draw(rows: &impl Rows, options: &Options, output: &mut dyn Write) -> io::Result<()> {
    let total = rows.total();
    let per_unit = options.per_unit.max(1);
    let scale = (total.div_ceil(LARGEST_TOTAL) as u64).max(per_unit);
    let width = options.width.unwrap_or(svg::WIDTH);
    let room = width.saturating_sub(2 * svg::MARGIN) as f64;
    let mut lines = Vec::new();
    let mut drawn_total = 0_u64;
    let widths = Widths { least: least(total, options.min_width), scale: room / total.max(1) as f64 };
    let pruned = pruning::prune(rows, widths, &mut |frames, weight| {
        let weight = (weight / scale).max(1);
        drawn_total = drawn_total.saturating_add(weight);
        lines.push(line(rows, frames, weight));
    });
    if lines.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no sample to draw"));
    }
    let is_time = options.per_unit > 1;
    if is_time && !options.reverse {
        waiting::mark(&mut lines, LEFT_OUT);
    }
    let folding = Folding::new(pruned.heights, room / drawn_total as f64);

    let mut inferno = Inferno::default();
    inferno.deterministic = true;
    let mut colours = PaletteMap::default();
    match options.colors {
        Colors::Kinds => {
            let drawn: BTreeSet<&str> = lines.iter().flat_map(|line| stack_of(line).split(';')).collect();
            drawn.into_iter().for_each(|label| {
                colours.insert(label, colour_of(label));
            });
            // inferno's name for the frame of all samples.
            colours.insert("", palette::ALL);
            inferno.palette_map = Some(&mut colours);
        }
        Colors::Inferno(palette) => inferno.colors = palette,
    }
    // Narrow frames are out already, and the page is ours: see `Frames` for what it makes of inferno's.
    inferno.min_width = 0.0;
    inferno.no_javascript = true;
    inferno.direction = Direction::Inverted;
    // The lines are in their order, and have to stay so: inferno would sort them as text, which takes `a;b` and `a`
    // apart where an `a::c` comes between them. It reverses the lines of a chart, as those of its usual input run
    // backwards.
    inferno.flame_chart = true;
    inferno.count_name = printable(&options.unit).into_owned();
    inferno.factor = scale as f64 / per_unit as f64;

    let page = Page {
        legend: match options.colors {
            Colors::Kinds if is_time => &palette::THREAD_TIME_LEGEND,
            _ => &[],
        },
        title: &printable(&options.title),
        subtitle: &printable(&options.subtitle),
        width,
        fluid: options.width.is_none(),
        inverted: options.inverted,
        rows: folding.rows(),
        total: drawn_total,
        least: if pruned.left_out { options.min_width } else { 0.0 },
    };
    page.begin(output)?;
    let mut frames = Frames::new(output, folding, options.inverted, room);
    inferno::flamegraph::from_lines(&mut inferno, lines.iter().rev().map(String::as_str), &mut frames)?;
    let marks = frames.finish()?;
    page.end(&marks, output)
}

fn line(rows: &impl Rows, frames: &[LabelId], weight: u64) -> String {
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
            colors: "java".parse().unwrap(),
            width: None,
            min_width: 0.1,
            inverted: false,
            reverse: false,
            chart: false,
            unit: "samples".to_owned(),
            per_unit: 1,
        }
    }

    fn svg(stacks: &Stacks, options: &Options) -> String {
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
        let mut stacks = Stacks::default();
        for stack in [&["a"][..], &["a", "x"], &["a::c"], &["a b"]] {
            let stack: Vec<_> = stack.iter().map(|name| stacks.label(name)).collect();
            stacks.push(&stack, 5);
        }
        stacks.merge();
        let svg = svg(&stacks, &options());
        assert!(svg.contains("<title>a (10 samples, 50.00%)</title>"), "{svg}");
    }

    #[test]
    fn a_number_after_a_space_does_not_upset_the_order() {
        let mut stacks = Stacks::default();
        for (name, weight) in [("a", 5), ("a (x)", 3), ("a!", 1), ("a b", 12)] {
            let label = stacks.label(name);
            stacks.push(&[label], weight);
        }
        stacks.merge();
        assert_eq!(total(&svg(&stacks, &options())), 21);
    }

    #[test]
    fn absurd_weights_are_scaled() {
        let mut stacks = Stacks::default();
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
            chart in any::<bool>(),
        ) {
            let mut stacks = Stacks::default();
            for (frames, weight) in &rows {
                let labels: Vec<_> = frames.iter().map(|name| stacks.label(name)).collect();
                stacks.push(&labels, *weight);
            }
            if !chart {
                stacks.merge();
            }
            let svg = svg(&stacks, &options());
            prop_assert_eq!(u128::from(total(&svg)), stacks.total());
        }
    }
}
