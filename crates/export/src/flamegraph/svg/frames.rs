//! Rewrites the frames that inferno draws.
//!
//! The position and colour of each frame stay. Frames that are too narrow to see are hidden behind a mark, names are
//! shortened at their left end instead of the right one, and frames above which others were omitted carry their weights.

use std::collections::HashMap;
use std::io::{self, Write};

use super::ROW;
use super::folding::{Folding, Marks};
use crate::label_stacks::OMITTED;
use crate::names::FunctionName;
use crate::names::escape::{escape, unescaped};
use crate::waiting::unmarked;

/// The width of a letter in pixels: 0.6 of the font size in all usual monospace fonts.
const LETTER_PIXELS: f64 = 7.2;
/// The distance between the edge of a frame and its name, in pixels.
const INDENT_PIXELS: f64 = 3.0;

/// The y coordinate at which inferno draws the frame of all samples if frames grow downwards and there is no subtitle.
pub(crate) const FIRST_ROW_Y: usize = 52;

/// A writer for inferno's SVG, which rewrites the frames and writes them to `output`.
pub(crate) struct Frames<'o> {
    output: &'o mut dyn Write,
    folding: Folding,
    inverted: bool,
    /// The width of all frames together, in pixels.
    width: f64,
    /// The bytes of the element that inferno is writing.
    element: Vec<u8>,
    /// True after the start tag of the frames.
    in_frames: bool,
    /// Frames that end at the same position. inferno writes these outermost first, and all others innermost first.
    batch: Vec<Frame>,
    /// Parsed names, by their escaped text.
    names: HashMap<String, DrawnName>,
    pub(crate) marks: Marks,
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

/// A frame that inferno drew.
struct Frame {
    /// The name with its figures, escaped.
    title: String,
    fill: String,
    depth: usize,
    start: u64,
    weight: u64,
}

impl<'o> Frames<'o> {
    pub(crate) fn new(output: &'o mut dyn Write, folding: Folding, inverted: bool, width: f64) -> Self {
        Self {
            output,
            folding,
            inverted,
            width,
            element: Vec::new(),
            in_frames: false,
            batch: Vec::new(),
            names: HashMap::default(),
            marks: Marks::default(),
            omitted: Vec::new(),
        }
    }

    /// Writes the last frames and returns the marks of folded ones.
    ///
    /// # Errors
    /// Those of the output, and one if inferno drew no frames.
    pub(crate) fn finish(mut self) -> io::Result<Marks> {
        self.write_batch()?;
        if !self.in_frames {
            return Err(io::Error::other("inferno drew no frames"));
        }
        Ok(self.marks)
    }

    fn finish_element(&mut self) -> io::Result<()> {
        let element = std::mem::take(&mut self.element);
        if !self.in_frames {
            let tag = element.iter().rposition(|&byte| byte == b'<').unwrap_or_default();
            self.in_frames = element[tag..].starts_with(b"<svg id=\"frames\"");
            return Ok(());
        }
        if !element.ends_with(b"</g>") {
            self.element = element;
            return Ok(());
        }
        let text = String::from_utf8_lossy(&element);
        let frame = Frame::parse(&text).ok_or_else(|| io::Error::other(format!("not a frame: {text}")))?;
        if self.batch.last().is_some_and(|last| last.end() != frame.end()) {
            self.write_batch()?;
        }
        self.batch.push(frame);
        self.element = element;
        self.element.clear();
        Ok(())
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        for frame in batch.drain(..).rev() {
            self.write_frame(&frame)?;
        }
        self.batch = batch;
        Ok(())
    }

    fn write_frame(&mut self, frame: &Frame) -> io::Result<()> {
        let Frame { title, fill, depth, start, weight } = frame;
        let scale = self.folding.scale;
        if title.starts_with(OMITTED) {
            self.marks.fold(*depth, *start, frame.end(), scale);
            self.omitted.push(format!("{start}+{weight}"));
            return Ok(());
        }
        let (title, _) = unmarked(title);
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

impl Write for Frames<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.element.extend_from_slice(bytes);
        if bytes.ends_with(b">") {
            self.finish_element()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Frame {
    fn parse(element: &str) -> Option<Self> {
        let (title, rest) = element.strip_prefix("<g><title>")?.split_once("</title><rect ")?;
        let attribute = |name: &str| {
            let (_, value) = rest.split_once(name)?;
            value.split_once('"').map(|(value, _)| value)
        };
        let y: usize = attribute(" y=\"")?.parse().ok()?;
        Some(Self {
            title: title.to_owned(),
            fill: attribute(" fill=\"")?.to_owned(),
            depth: y.checked_sub(FIRST_ROW_Y)? / ROW,
            start: attribute("fg:x=\"")?.parse().ok()?,
            weight: attribute("fg:w=\"")?.parse().ok()?,
        })
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.weight)
    }
}
