//! Labels of frames that state their own colour, and figures about a change: what is drawn finds them there.

use std::borrow::Cow;

use inferno::flamegraph::color::Color;

use crate::palette::Rgb;

/// Separates the name of a frame from its colour and its figures in a label. Labels that were made safe for output do not contain it.
const MARK: char = '\u{3}';

/// Frames that did not change by more than chance may explain.
pub(crate) const SAME: Rgb = (228, 226, 220);
/// The colours of frames that grew and shrank, from the least change to the greatest. They are the ends of a scale from red to blue, whose
/// sides differ for red-green colour-blind users as well, in shades that black text is legible on.
pub(crate) const GREW: [Rgb; 2] = [(250, 214, 196), (232, 96, 72)];
pub(crate) const SHRANK: [Rgb; 2] = [(205, 224, 240), (88, 152, 220)];

/// The legend of the picture.
pub(super) const LEGEND: [(&str, Rgb); 5] = [
    ("grew most", GREW[1]),
    ("grew", GREW[0]),
    ("as before, as far as samples tell", SAME),
    ("shrank", SHRANK[0]),
    ("shrank most", SHRANK[1]),
];

/// Returns the label of a frame with this colour and these figures.
pub(super) fn marked(name: &str, (r, g, b): Rgb, figures: &str) -> String {
    // Semicolons would end the frame.
    let figures = figures.replace(';', ",");
    format!("{name}{MARK}{r:02x}{g:02x}{b:02x}{MARK}{figures}")
}

/// Returns the colour that a label states; `None` for labels of pictures of one profile.
pub(super) fn colour_of(label: &str) -> Option<Color> {
    let (_, marked) = label.split_once(MARK)?;
    let digits = marked.get(..6)?;
    let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    Some(Color { r: part(0)?, g: part(2)?, b: part(4)? })
}

/// Moves the figures of a marked label behind those of the title: `name (FIGURES AFTER; FIGURES BEFORE)`.
pub(super) fn title(title: &str) -> Cow<'_, str> {
    let split = || {
        let (name, rest) = title.split_once(MARK)?;
        let (_, rest) = rest.split_once(MARK)?;
        let (before, after) = rest.rsplit_once(" (")?;
        let after = after.strip_suffix(')')?;
        Some(format!("{name} ({after}; {before})"))
    };
    split().map_or(Cow::Borrowed(title), Cow::Owned)
}
