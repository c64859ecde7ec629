//! The help.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::top::app::App;
use crate::top::keys::HELP;
use crate::top::theme::Theme;

/// What the help says beyond the keys.
const NOTES: &[&str] = &[
    "",
    "self: samples in the function itself. total: with all that it called; recursion counts once.",
    "Idle CPUs do not count unless shown. Frames that are hidden count for their callers.",
    "Memory is bounded: samples leave the window after its length; since start, the rarest stacks \
     are forgotten when there are too many (shown as aged out). Names appear when they are ready.",
];

/// Columns of the keys, and those before the notes.
const KEYS: usize = 18;
const MARGIN: usize = 2;

/// Draws it in place of the view, from the line on that was scrolled to, or from so far up that it fills the screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let width = usize::from(area.width);
    let mut lines = Vec::new();
    for (keys, text) in HELP {
        let ascii = keys.replace(['↑', '↓', '←', '→'], "");
        let keys = match keys.contains(['↑', '←']) {
            true if !theme.unicode => {
                format!("{} {}", if keys.contains('↑') { "up down" } else { "left right" }, ascii.trim())
            }
            _ => (*keys).to_owned(),
        };
        let mut keys = theme.pad(&format!("  {}", keys.trim_end()), KEYS);
        for part in wrapped(&text.replace(" · ", theme.pick(" · ", ", ")), width.saturating_sub(KEYS)) {
            let keys = std::mem::replace(&mut keys, " ".repeat(KEYS));
            lines.push(Line::from(vec![Span::styled(keys, theme.strong()), Span::raw(part)]));
        }
    }
    for note in NOTES {
        let parts = wrapped(note, width.saturating_sub(MARGIN));
        let line = |part| Line::styled(format!("{}{part}", " ".repeat(MARGIN)), theme.faint());
        lines.extend(parts.into_iter().map(line));
    }
    app.page = usize::from(area.height).max(1);
    let first = app.help.unwrap_or(0).min(lines.len().saturating_sub(app.page));
    app.help = Some(first);
    for (y, line) in (area.y..area.bottom()).zip(lines.into_iter().skip(first)) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}

/// Splits the text into lines of at most `width` columns, between words where possible. The first line keeps its indentation.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let indentation = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(indentation)];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let is_new = line.trim_start().is_empty();
        if !is_new && Span::raw(&**line).width() + 1 + Span::raw(word).width() > width {
            lines.push(word.to_owned());
            continue;
        }
        line.push_str(if is_new { "" } else { " " });
        line.push_str(word);
    }
    lines
}
