//! inferno's frames, as they are drawn, turned into the picture's.
//!
//! inferno knows where each frame lies and which colour it has. What is changed: frames that are too narrow to be seen
//! are hidden, with a mark; names are cut at their left end instead of their right; a frame from which others were left
//! out says so.

use std::collections::HashMap;
use std::io::{self, Write};

use super::ROW;
use super::folding::{Folding, Marks};
use crate::label_stacks::LEFT_OUT;
use crate::names::FunctionName;
use crate::names::escape::{escape, unescaped};
use crate::waiting::unmarked;

/// Pixels of a letter: 0.6 of the size in all fonts that are called monospace.
const LETTER: f64 = 7.2;
/// Pixels between the edge of a frame and its name.
const INDENT: f64 = 3.0;

/// The y coordinate at which inferno draws the frame that has all samples, if frames grow downwards and there is no
/// subtitle: four lines of its font below the top, and a little.
pub(crate) const FIRST_ROW: usize = 52;

/// Takes the SVG that inferno writes, and writes its frames.
pub(crate) struct Frames<'o> {
    output: &'o mut dyn Write,
    folding: Folding,
    inverted: bool,
    /// Of the whole picture.
    width: f64,
    /// The element that is being written.
    element: Vec<u8>,
    /// True if all elements from here on are frames.
    begun: bool,
    /// Frames that end where the last one did. Those come with the outermost first, all others with the innermost.
    batch: Vec<Frame>,
    /// By the text that stands for it in the SVG.
    names: HashMap<String, DrawnName>,
    pub(crate) marks: Marks,
    /// Frames left out above the frame that is to come, as `START+WEIGHT`.
    left_out: Vec<String>,
}

/// The name of frames, which is read once.
struct DrawnName {
    text: String,
    parsed: FunctionName,
    /// The attribute that says which parts it has, or nothing.
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

/// A frame as inferno drew it.
struct Frame {
    /// With its figures, as it stands in the SVG.
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
            begun: false,
            batch: Vec::new(),
            names: HashMap::default(),
            marks: Marks::default(),
            left_out: Vec::new(),
        }
    }

    /// Writes what is left. Returns the marks.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn finish(mut self) -> io::Result<Marks> {
        self.write_batch()?;
        if !self.begun {
            return Err(io::Error::other("inferno drew no frames"));
        }
        Ok(self.marks)
    }

    fn take_element(&mut self) -> io::Result<()> {
        let element = std::mem::take(&mut self.element);
        if !self.begun {
            let tag = element.iter().rposition(|&byte| byte == b'<').unwrap_or_default();
            self.begun = element[tag..].starts_with(b"<svg id=\"frames\"");
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
        if title.starts_with(LEFT_OUT) {
            self.marks.fold(*depth, *start, frame.end(), scale);
            self.left_out.push(format!("{start}+{weight}"));
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
        if !self.left_out.is_empty() {
            write!(self.output, " fg:o=\"{}\"", self.left_out.join(" "))?;
            self.left_out.clear();
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
        let columns = ((*weight as f64 * scale - 2.0 * INDENT) / LETTER).max(0.0) as usize;
        let drawn = if shown { name.parsed.fit(&name.text, columns) } else { String::new() };
        if !drawn.is_empty() {
            let x = x + INDENT / self.width * 100.0;
            write!(self.output, "<text x=\"{x:.4}%\" y=\"{}\">{}</text>", y + 11.5, escape(&drawn))?;
        }
        writeln!(self.output, "</g>")
    }

    /// The upper edge of a frame.
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
            self.take_element()?;
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
            depth: y.checked_sub(FIRST_ROW)? / ROW,
            start: attribute("fg:x=\"")?.parse().ok()?,
            weight: attribute("fg:w=\"")?.parse().ok()?,
        })
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.weight)
    }
}
