//! The SVG around the frames. It is a picture where scripts do not run (in a README, for example), and a page where they
//! run: `page.js` moves the frames into a document whose header and footer stay in view.

mod drawn;
pub(crate) mod folding;
pub(crate) mod frames;

use std::io::{self, Write};

use super::pruning::MAX_BLOCKS;
use crate::names::escape::escape;
use crate::palette::Rgb;
use crate::summary;

/// The mark in the first bytes of a picture by which `prof` knows its own files.
pub const MARK: &str = "<!-- generator: prof -->";

/// The height of a row of frames in pixels, as inferno draws it.
pub(crate) const ROW: usize = 16;
/// The margin left and right of the frames in pixels, as inferno draws it.
pub(crate) const MARGIN: usize = 10;
/// The default width of a picture in pixels, which is also inferno's.
pub(crate) const WIDTH: usize = 1200;

/// The line heights of the title and of the text below it, in pixels.
const TITLE_LINE: usize = 22;
const TEXT_LINE: usize = 17;
/// The letters of a line per pixel of its width. They are averages, because the fonts are unknown.
const TITLE_LETTERS: f64 = 1.0 / 9.0;
const TEXT_LETTERS: f64 = 1.0 / 6.6;

/// The page of a picture.
pub(crate) struct Page<'p> {
    pub(crate) title: &'p str,
    pub(crate) subtitle: &'p str,
    /// The colours of the legend with their meanings; empty for no legend.
    pub(crate) legend: &'p [(&'static str, Rgb)],
    /// The width in pixels.
    pub(crate) width: usize,
    /// True if the page scales the picture to the width of its window.
    pub(crate) fluid: bool,
    /// True if frames grow downwards.
    pub(crate) inverted: bool,
    /// The number of rows of frames.
    pub(crate) rows: usize,
    /// The weight of all samples.
    pub(crate) total: u64,
    /// True if only the widest frames are drawn.
    pub(crate) has_too_many: bool,
    /// The width below which frames were omitted, in per cent; 0 if none were.
    pub(crate) min_width: f64,
}

impl Page<'_> {
    /// Writes everything before the frames.
    ///
    /// # Errors
    /// Those of `output`.
    pub(crate) fn write_head(&self, output: &mut dyn Write) -> io::Result<()> {
        let Self { width, inverted, rows, total, fluid, min_width, .. } = *self;
        let (title, subtitle) = self.lines();
        // Leaves room for the marks above the topmost frames.
        let frames_y = self.note_y() + 14;
        let frames_height = rows * ROW;
        let height = frames_y + frames_height + MARGIN;
        write!(
            output,
            "<?xml version=\"1.0\" standalone=\"no\"?>\n{MARK}\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:fg=\"http://github.com/jonhoo/inferno\" version=\"1.1\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <style>\n{}</style>\n\
             <rect id=\"background\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            include_str!("page.css"),
        )?;
        write_lines(output, "title", MARGIN + TITLE_LINE - 6, TITLE_LINE, &title)?;
        let below = TEXT_LINE * (subtitle.len() + usize::from(!self.legend.is_empty()));
        let subtitle_y = self.note_y() - below;
        write_lines(output, "subtitle", subtitle_y, TEXT_LINE, &subtitle)?;
        self.write_legend(self.note_y() - TEXT_LINE, output)?;
        let inner = width - 2 * MARGIN;
        writeln!(
            output,
            "<svg id=\"frames\" x=\"{MARGIN}\" y=\"{frames_y}\" width=\"{inner}\" height=\"{frames_height}\" \
             total_samples=\"{total}\" fg:least=\"{min_width}\" fg:fluid=\"{fluid}\" fg:inverted=\"{inverted}\">"
        )
    }

    /// Writes everything after the frames.
    ///
    /// # Errors
    /// Those of `output`.
    pub(crate) fn write_tail(&self, marks: &folding::Marks, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "<path id=\"folded\" d=\"{}\"/>\n</svg>", marks.path())?;
        if let Some(note) = self.note(marks) {
            let y = self.note_y();
            writeln!(output, "<text id=\"note\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(&note))?;
        }
        writeln!(output, "<script><![CDATA[\n{}]]></script>\n</svg>", include_str!("page.js"))
    }

    /// Returns the lines of the title and of the subtitle.
    fn lines(&self) -> (Vec<String>, Vec<String>) {
        let room = self.width.saturating_sub(2 * MARGIN) as f64;
        let lines = |text, letters| wrapped(text, (room * letters) as usize);
        (lines(self.title, TITLE_LETTERS), lines(self.subtitle, TEXT_LETTERS))
    }

    /// Returns the y coordinate of the note below title, subtitle and legend.
    fn note_y(&self) -> usize {
        let (title, subtitle) = self.lines();
        let legend = usize::from(!self.legend.is_empty());
        MARGIN + TITLE_LINE * title.len() + TEXT_LINE * (subtitle.len() + legend + 1) - 3
    }

    /// Writes the legend on the line at `y`: coloured squares with their meanings, side by side.
    fn write_legend(&self, y: usize, output: &mut dyn Write) -> io::Result<()> {
        if self.legend.is_empty() {
            return Ok(());
        }
        write!(output, "<g id=\"legend\">")?;
        let mut x = MARGIN;
        for (meaning, (r, g, b)) in self.legend {
            let top = y - 9;
            write!(
                output,
                "<rect x=\"{x}\" y=\"{top}\" width=\"10\" height=\"10\" fill=\"rgb({r},{g},{b})\"/>\
                 <text x=\"{}\" y=\"{y}\">{meaning}</text>",
                x + 14
            )?;
            x += 14 + (meaning.len() as f64 / TEXT_LETTERS) as usize + 14;
        }
        writeln!(output, "</g>")
    }

    /// Returns a sentence that explains the marks of folded and omitted frames; `None` if there are none.
    fn note(&self, marks: &folding::Marks) -> Option<String> {
        let folded = (marks.folded > 0).then(|| folded_frames(marks.folded));
        let left_out =
            (self.min_width > 0.0).then(|| format!("frames narrower than {} % are left out", self.min_width));
        let too_many = self.has_too_many.then(|| {
            format!("there are too many frames: the {} widest are drawn", summary::grouped(MAX_BLOCKS as u64))
        });
        let notes: Vec<String> = folded.into_iter().chain(left_out).chain(too_many).collect();
        (!notes.is_empty()).then(|| format!("┅┅ {}", notes.join("; ")))
    }
}

fn folded_frames(count: u64) -> String {
    match count {
        1 => "1 frame too narrow to see is folded (zoom in)".to_owned(),
        _ => format!("{} frames too narrow to see are folded (zoom in)", summary::grouped(count)),
    }
}

fn write_lines(output: &mut dyn Write, id: &str, y: usize, line: usize, lines: &[String]) -> io::Result<()> {
    write!(output, "<text id=\"{id}\">")?;
    for (number, text) in lines.iter().enumerate() {
        let y = y + number * line;
        // The space separates the lines for programs that read the text without layout.
        let space = if number + 1 < lines.len() { " " } else { "" };
        write!(output, "<tspan x=\"{MARGIN}\" y=\"{y}\">{}{space}</tspan>", escape(text))?;
    }
    writeln!(output, "</text>")
}

/// Wraps text to lines of at most `columns` letters. Splits longer words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + letters.len() > columns {
            lines.push(String::new());
            used = 0;
        }
        for (number, piece) in letters.chunks(columns).enumerate() {
            if number > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.extend(piece);
                used += piece.len();
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_there_is_room() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh x", 3), ["abc", "def", "gh", "x"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
