//! The SVG around the frames: a picture where scripts do not run (in a README, say), and a page where they do.
//!
//! `page.js` makes the page of the picture: it moves the frames into a document whose header and footer stay in view.

pub(crate) mod folding;
pub(crate) mod frames;

use std::io::{self, Write};

use crate::names::escape::escape;
use crate::palette::Rgb;
use crate::summary;

/// Pixels from one frame to the next above it. inferno's.
pub(crate) const ROW: usize = 16;
/// Pixels left and right of the frames. inferno's.
pub(crate) const MARGIN: usize = 10;
/// Pixels of a picture that is as wide as its window, where that is not known. inferno's.
pub(crate) const WIDTH: usize = 1200;

/// Pixels of a line of the title, and of one below it.
const TITLE_LINE: usize = 22;
const TEXT_LINE: usize = 17;
/// Letters of a line for each pixel of its width: an average, as the fonts are not known.
const TITLE_LETTERS: f64 = 1.0 / 9.0;
const TEXT_LETTERS: f64 = 1.0 / 6.6;

/// The page of a picture.
pub(crate) struct Page<'p> {
    pub(crate) title: &'p str,
    pub(crate) subtitle: &'p str,
    /// The meanings of the colours, where they are told.
    pub(crate) legend: &'p [(&'static str, Rgb)],
    /// Pixels.
    pub(crate) width: usize,
    /// True if that is but a proposal.
    pub(crate) fluid: bool,
    /// Frames grow downwards.
    pub(crate) inverted: bool,
    /// Rows of frames.
    pub(crate) rows: usize,
    /// The weight of all samples.
    pub(crate) total: u64,
    /// Per cent of the width below which frames were left out; 0 where none were.
    pub(crate) least: f64,
}

impl Page<'_> {
    /// Writes everything before the frames.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn begin(&self, output: &mut dyn Write) -> io::Result<()> {
        let Self { width, inverted, rows, total, fluid, least, .. } = *self;
        let (title, subtitle) = self.lines();
        // Room for the marks on the highest frames.
        let frames_y = self.note_y() + 14;
        let frames_height = rows * ROW;
        let height = frames_y + frames_height + MARGIN;
        write!(
            output,
            "<?xml version=\"1.0\" standalone=\"no\"?>\n\
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
             total_samples=\"{total}\" fg:least=\"{least}\" fg:fluid=\"{fluid}\" fg:inverted=\"{inverted}\">"
        )
    }

    /// Writes everything behind the frames.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn end(&self, marks: &folding::Marks, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "<path id=\"folded\" d=\"{}\"/>\n</svg>", marks.path())?;
        if let Some(note) = self.note(marks) {
            let y = self.note_y();
            writeln!(output, "<text id=\"note\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(&note))?;
        }
        writeln!(output, "<script><![CDATA[\n{}]]></script>\n</svg>", include_str!("page.js"))
    }

    /// The title and the subtitle, as lines of the picture.
    fn lines(&self) -> (Vec<String>, Vec<String>) {
        let room = self.width.saturating_sub(2 * MARGIN) as f64;
        let lines = |text, letters| wrapped(text, (room * letters) as usize);
        (lines(self.title, TITLE_LETTERS), lines(self.subtitle, TEXT_LETTERS))
    }

    /// The position of the note, below both.
    fn note_y(&self) -> usize {
        let (title, subtitle) = self.lines();
        let legend = usize::from(!self.legend.is_empty());
        MARGIN + TITLE_LINE * title.len() + TEXT_LINE * (subtitle.len() + legend + 1) - 3
    }

    /// Squares of colour with their meanings, side by side, on the line at `y`.
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

    /// The meaning of the marks, in a sentence.
    fn note(&self, marks: &folding::Marks) -> Option<String> {
        let folded = (marks.folded > 0).then(|| folded_frames(marks.folded));
        let left_out =
            (self.least > 0.0).then(|| format!("frames narrower than {} % are left out", self.least));
        let notes: Vec<String> = folded.into_iter().chain(left_out).collect();
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
        // The space is for those who read the text without its lines.
        let space = if number + 1 < lines.len() { " " } else { "" };
        write!(output, "<tspan x=\"{MARGIN}\" y=\"{y}\">{}{space}</tspan>", escape(text))?;
    }
    writeln!(output, "</text>")
}

/// Text in lines of at most so many letters. A word that is longer is cut into several.
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
