//! The frames of a picture that inferno has drawn, read from the elements of the finished SVG.
//!
//! A frame is a `<g>` below `<svg id="frames">`: a `<title>` with the name and figures, a `<rect>` with position, weight and colour,
//! and a `<text>` that is not needed.

use std::io;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::ROW;

/// The y coordinate at which inferno draws the frame of all samples if frames grow downwards and there is no subtitle.
const FIRST_ROW_Y: usize = 52;

/// A frame that inferno drew.
pub(crate) struct DrawnFrame {
    /// The name with its figures, escaped.
    pub(crate) title: String,
    pub(crate) fill: String,
    pub(crate) depth: usize,
    pub(crate) start: u64,
    pub(crate) weight: u64,
}

impl DrawnFrame {
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.weight)
    }

    fn new(title: String, rect: &BytesStart<'_>) -> Option<Self> {
        let attribute = |name: &str| {
            let attribute = rect.try_get_attribute(name).ok()??;
            String::from_utf8(attribute.value.into_owned()).ok()
        };
        let y: usize = attribute("y")?.parse().ok()?;
        Some(Self {
            title,
            fill: attribute("fill")?,
            depth: y.checked_sub(FIRST_ROW_Y)? / ROW,
            start: attribute("fg:x")?.parse().ok()?,
            weight: attribute("fg:w")?.parse().ok()?,
        })
    }
}

/// Calls `frame` for every frame of a picture, in its order.
///
/// # Errors
/// Those of `frame`, and one if the picture is not one of inferno's.
pub(crate) fn for_each_frame(
    picture: &str,
    mut frame: impl FnMut(DrawnFrame) -> io::Result<()>,
) -> io::Result<()> {
    let mut reader = Reader::from_str(picture);
    let mut in_frames = false;
    let mut title = None;
    loop {
        match reader.read_event().map_err(io::Error::other)? {
            Event::Start(tag) if tag.name().as_ref() == b"svg" => {
                let id = tag.try_get_attribute("id").map_err(io::Error::other)?;
                in_frames = id.is_some_and(|id| *id.value == *b"frames");
            }
            Event::Start(tag) if in_frames && tag.name().as_ref() == b"title" => {
                let text = reader.read_text(tag.name()).map_err(io::Error::other)?;
                title = String::from_utf8(text.into_inner().into_owned()).ok();
            }
            Event::Empty(tag) if in_frames && tag.name().as_ref() == b"rect" => {
                let drawn = title.take().and_then(|title| DrawnFrame::new(title, &tag));
                frame(drawn.ok_or_else(|| not_inferno("a rectangle that is no frame"))?)?;
            }
            Event::End(tag) if in_frames && tag.name().as_ref() == b"svg" => return Ok(()),
            Event::Eof => return Err(not_inferno("no frames")),
            _ => {}
        }
    }
}

fn not_inferno(what: &str) -> io::Error {
    io::Error::other(format!("inferno drew {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(picture: &str) -> io::Result<Vec<(String, usize, u64)>> {
        let mut frames = Vec::new();
        for_each_frame(picture, |frame| {
            frames.push((frame.title.clone(), frame.depth, frame.end()));
            Ok(())
        })?;
        Ok(frames)
    }

    #[test]
    fn frames_are_read_whatever_lies_between_their_elements() {
        let picture = "<svg><rect fill=\"#fff\"/><title>page</title><svg id=\"frames\">\n<g class=\"x\"><title>a&lt;b&gt; (3 \
                       samples)</title>\n<rect fg:w=\"3\" fill=\"red\" y=\"68\" fg:x=\"4\"/><text>a</text></g></svg></svg>";
        assert_eq!(read(picture).unwrap(), [("a&lt;b&gt; (3 samples)".to_owned(), 1, 7)]);
    }

    #[test]
    fn what_inferno_does_not_draw_is_an_error() {
        assert!(read("<svg><rect fill=\"#fff\"/></svg>").is_err());
        assert!(read("<svg id=\"frames\"><rect y=\"52\"/></svg>").is_err());
        assert!(read("<svg id=\"frames\"><g><title>a</title><rect y=\"x\"/></g></svg>").is_err());
    }
}
