//! Writes the frames that inferno has drawn.
//!
//! The position and colour of each frame stay. Frames that are too narrow to see are hidden behind a mark, names are
//! shortened at their left end instead of the right one, and frames above which others were omitted carry their weights.

use std::collections::HashMap;
use std::io::{self, Write};

use super::super::change_marks;
use super::ROW;
use super::drawn::{DrawnFrame, for_each_frame};
use super::folding::{Folding, Marks};
use crate::label_stacks::OMITTED;
use crate::names::FunctionName;
use crate::names::escape::{escape, unescaped};
use crate::waiting::unmarked;

/// The width of a letter in pixels: 0.6 of the font size in all usual monospace fonts.
const LETTER_PIXELS: f64 = 7.2;
/// The distance between the edge of a frame and its name, in pixels.
const INDENT_PIXELS: f64 = 3.0;

/// Writes the frames of a picture of inferno to `output`. Returns the marks of folded ones. `width` is that of all frames together,
/// in pixels.
///
/// # Errors
/// Those of the output, and one if the picture has no frames.
pub(crate) fn write(
    picture: &str,
    folding: Folding,
    inverted: bool,
    width: f64,
    output: &mut dyn Write,
) -> io::Result<Marks> {
    let mut frames = Frames {
        output,
        folding,
        inverted,
        width,
        names: HashMap::default(),
        marks: Marks::default(),
        omitted: Vec::new(),
    };
    // inferno writes frames that end at the same position outermost first, and all others innermost first.
    let mut batch: Vec<DrawnFrame> = Vec::new();
    for_each_frame(picture, |frame| {
        if batch.last().is_some_and(|last| last.end() != frame.end()) {
            batch.drain(..).rev().try_for_each(|frame| frames.write(&frame))?;
        }
        batch.push(frame);
        Ok(())
    })?;
    batch.drain(..).rev().try_for_each(|frame| frames.write(&frame))?;
    Ok(frames.marks)
}

/// The writer of frames: innermost first.
struct Frames<'o> {
    output: &'o mut dyn Write,
    folding: Folding,
    inverted: bool,
    /// The width of all frames together, in pixels.
    width: f64,
    /// Parsed names, by their escaped text.
    names: HashMap<String, DrawnName>,
    marks: Marks,
    /// Omitted frames above the next frame, as `START+WEIGHT`.
    omitted: Vec<String>,
}

/// The name of frames, parsed once.
struct DrawnName {
    text: String,
    parsed: FunctionName,
    /// The attribute that encodes its parts, or an empty text.
    attribute: String,
}

impl DrawnName {
    fn new(escaped: &str) -> Self {
        let text = unescaped(escaped).into_owned();
        let parsed = FunctionName::parse(&text);
        let attribute = parsed.cuts(&text).map_or_else(String::new, |cuts| format!(" fg:n=\"{cuts}\""));
        Self { text, parsed, attribute }
    }
}

impl Frames<'_> {
    fn write(&mut self, frame: &DrawnFrame) -> io::Result<()> {
        let DrawnFrame { title, fill, depth, start, weight } = frame;
        let scale = self.folding.scale;
        if title.starts_with(OMITTED) {
            self.marks.fold(*depth, *start, frame.end(), scale);
            self.omitted.push(format!("{start}+{weight}"));
            return Ok(());
        }
        let (title, _) = unmarked(title);
        let title = &*change_marks::title(title);
        let y = self.y(*depth);
        let shown = self.folding.shows(*depth, *weight);
        if shown {
            self.marks.draw(*depth, if self.inverted { y + ROW as f64 } else { y - 1.5 }, scale);
        } else {
            self.marks.folded += 1;
            self.marks.fold(*depth, *start, frame.end(), scale);
        }
        let escaped = title.rsplit_once(" (").map_or(title, |(name, _)| name);
        if !self.names.contains_key(escaped) {
            self.names.insert(escaped.to_owned(), DrawnName::new(escaped));
        }
        let name = &self.names[escaped];
        self.output.write_all(if shown { b"<g" } else { b"<g class=\"n\"" })?;
        self.output.write_all(name.attribute.as_bytes())?;
        if !self.omitted.is_empty() {
            write!(self.output, " fg:o=\"{}\"", self.omitted.join(" "))?;
            self.omitted.clear();
        }
        let per_cent = |weight: u64| weight as f64 * scale / self.width * 100.0;
        let width = per_cent(*weight);
        let x = per_cent(*start);
        let height = ROW - 1;
        write!(
            self.output,
            "><title>{title}</title><rect x=\"{x:.4}%\" y=\"{y}\" width=\"{width:.4}%\" height=\"{height}\" \
             fill=\"{fill}\" fg:x=\"{start}\" fg:w=\"{weight}\"/>"
        )?;
        let columns = ((*weight as f64 * scale - 2.0 * INDENT_PIXELS) / LETTER_PIXELS).max(0.0) as usize;
        let drawn = if shown { name.parsed.fit(&name.text, columns) } else { String::new() };
        if !drawn.is_empty() {
            let x = x + INDENT_PIXELS / self.width * 100.0;
            write!(self.output, "<text x=\"{x:.4}%\" y=\"{}\">{}</text>", y + 11.5, escape(&drawn))?;
        }
        writeln!(self.output, "</g>")
    }

    /// Returns the y coordinate of the upper edge of a frame.
    fn y(&self, depth: usize) -> f64 {
        let rows = self.folding.rows();
        let row = if self.inverted { depth as f64 } else { rows as f64 - 1.0 - depth as f64 };
        row * ROW as f64
    }
}
