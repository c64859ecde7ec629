//! The help.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::top::keys::HELP;
use crate::top::state::App;
use crate::top::theme::Theme;

/// What the help says beyond the keys.
const NOTES: &[&str] = &[
    "",
    "self: samples in the function itself. total: with all that it called; recursion counts once.",
    "Idle CPUs do not count unless shown. Frames that are hidden count for their callers.",
    "Memory is bounded: samples leave the window after its length; since start, the rarest stacks",
    "are forgotten when there are too many (shown as aged out). Names appear when they are ready.",
];

/// Draws it in place of the view.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let width = usize::from(area.width);
    let keys = HELP.iter().map(|(keys, text)| {
        let ascii = keys.replace(['↑', '↓', '←', '→'], "");
        let keys = match keys.contains(['↑', '←']) {
            true if !theme.unicode => {
                format!("{} {}", if keys.contains('↑') { "up down" } else { "left right" }, ascii.trim())
            }
            _ => (*keys).to_owned(),
        };
        let text = text.replace(" · ", theme.pick(" · ", ", "));
        Line::from(vec![
            Span::styled(theme.pad(&format!("  {}", keys.trim_end()), 18), theme.strong()),
            Span::raw(theme.fit(&text, width.saturating_sub(18))),
        ])
    });
    let notes = NOTES.iter().map(|note| Line::styled(theme.fit(&format!("  {note}"), width), theme.faint()));
    let lines = keys.chain(notes).skip(app.help.unwrap_or(0));
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}
