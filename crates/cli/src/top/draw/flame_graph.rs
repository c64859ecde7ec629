//! The flame graph: `all` at the bottom, a line per depth.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::{empty, percent};
use crate::top::app::{App, ClickTarget};
use crate::top::theme::Theme;
use live::snapshot::share;
use live::views::Tile;

/// Draws it, with a line about the frame under the cursor above.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let is_time = app.spent.is_some();
    let parts = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(u16::from(is_time))];
    let [head, picture, legend] = Layout::vertical(parts).areas(area);
    if is_time {
        draw_legend(frame, theme, legend);
    }
    let height = usize::from(picture.height);
    app.page = height;
    let Some(flame) = app.flame.tree.as_ref().filter(|flame| flame.total() > 0) else {
        return empty(frame, app, theme, picture);
    };
    let rows = flame.rows(app.flame.zoom, picture.width);

    let mut line = match flame.details(app.flame.cursor) {
        Some(details) => {
            let module =
                if details.module.is_empty() { String::new() } else { format!("  {}", details.module) };
            let own = share(details.self_weight, flame.total());
            let text = format!(
                "{} {}{module}  (self {own:.2} %)",
                percent(details.weight, flame.total()).trim_start(),
                details.text
            );
            Line::styled(theme.fit(&text, usize::from(head.width)), theme.strong())
        }
        None => Line::styled("the frame under the cursor is gone", theme.faint()),
    };
    if let Some(found) = flame.found() {
        let text = format!("  matched {:.1} %", share(found, flame.total()));
        let room = usize::from(head.width).saturating_sub(line.width());
        line.push_span(Span::styled(theme.fit(&text, room), theme.warning()));
    }
    frame.render_widget(line, head);

    // As far up as needed to see the frame under the cursor.
    let cursor_height = flame.height(app.flame.cursor);
    let first = (cursor_height + 1).saturating_sub(height).min(rows.len().saturating_sub(1));
    let mut click_areas = Vec::new();
    for (above, row) in rows.iter().skip(first).take(height).enumerate() {
        let y = picture.bottom().saturating_sub(1).saturating_sub(u16::try_from(above).unwrap_or(u16::MAX));
        for tile in row {
            let width = tile.columns.end.saturating_sub(tile.columns.start);
            let place = Rect { x: picture.x.saturating_add(tile.columns.start), y, width, height: 1 };
            let place = place.intersection(picture);
            frame.render_widget(
                tile_line(theme, tile, usize::from(place.width), tile.path == app.flame.cursor, is_time),
                place,
            );
            click_areas.push((place, ClickTarget::Tile(tile.path)));
        }
    }
    app.click_areas.append(&mut click_areas);
}

/// Draws what the colours of time mean, as many as there is room for. Without colours it explains the two edges of frames alone:
/// one for time on the CPU, one for all time off the CPU.
fn draw_legend(frame: &mut Frame<'_>, theme: &Theme, area: Rect) {
    // In fewer words than the legend of the SVG.
    const MEANINGS: [&str; 5] = ["on the CPU", "off the CPU", "blocked", "at rest", "runnable"];
    const EDGES: usize = 2;
    let mut line = Line::default();
    let count = if theme.colours { MEANINGS.len() } else { EDGES };
    let entries = export::THREAD_TIME_LEGEND.iter().zip(MEANINGS).take(count);
    for (number, ((_, rgb), meaning)) in entries.enumerate() {
        let swatch = format!("{}  ", edge(theme, number > 0));
        let text = format!(" {meaning}  ");
        if line.width() + swatch.chars().count() + text.len() > usize::from(area.width) {
            break;
        }
        line.push_span(Span::styled(swatch, theme.swatch(*rgb)));
        line.push_span(Span::styled(text, theme.faint()));
    }
    frame.render_widget(line, area);
}

/// The first column of a frame. It separates neighbours of one colour. Time off the CPU has another character, for terminals without
/// colours.
fn edge(theme: &Theme, is_off_cpu: bool) -> &'static str {
    if is_off_cpu { theme.pick("░", ":") } else { theme.pick("▏", "|") }
}

fn tile_line(theme: &Theme, tile: &Tile, width: usize, at_cursor: bool, is_time: bool) -> Line<'static> {
    let edge = edge(theme, is_time && tile.is_off_cpu);
    let text = if width < 3 { " ".repeat(width.saturating_sub(1)) } else { theme.pad(&tile.text, width - 1) };
    let mut style = match is_time {
        true => theme.tile_of_time(tile),
        false => theme.tile(&tile.text, tile.found, tile.ancestor),
    };
    if at_cursor {
        style = style.add_modifier(Modifier::REVERSED);
    }
    Line::styled(format!("{edge}{text}"), style)
}
