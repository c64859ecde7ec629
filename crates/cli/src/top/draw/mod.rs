//! Draws the screen: a pure function of the state, the size, and the colours and characters that the terminal can show.

mod flame_graph;
mod header;
mod help;
mod lists;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::app::{App, Purpose, View};
use super::theme::Theme;
use live::snapshot::share;

/// Draws the whole screen; stores the areas that can be clicked in [`App::click_areas`].
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: &Theme) {
    app.click_areas.clear();
    let has_remarks = !app.snapshot.status.remarks.is_empty();
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(u16::from(has_remarks)),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [status, remarks, tabs, body, foot] = areas.areas(frame.area());
    header::status(frame, app, theme, status);
    header::remarks(frame, app, theme, remarks);
    header::tabs(frame, app, theme, tabs);
    if app.help.is_some() {
        help::draw(frame, app, theme, body);
    } else {
        match app.view {
            View::Functions => lists::functions(frame, app, theme, body),
            View::Tasks => lists::tasks(frame, app, theme, body),
            View::Callers => lists::callers_and_callees(frame, app, theme, body),
            View::Flame => flame_graph::draw(frame, app, theme, body),
        }
    }
    footer(frame, app, theme, foot);
}

fn footer(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    if let Some(prompt) = &app.prompt {
        let label = match prompt.purpose {
            Purpose::Filter => "/",
            Purpose::Save => "save as: ",
        };
        let text = theme.showable(&prompt.text).into_owned();
        let room = usize::from(area.width).saturating_sub(label.len() + 1);
        // The end of a long text is what is being typed.
        let skipped = text.chars().count().saturating_sub(room);
        let shown: String = text.chars().skip(skipped).collect();
        let style = if prompt.is_offered { theme.cursor() } else { Style::new() };
        let line = Line::from(vec![Span::raw(label), Span::styled(shown, style)]);
        let end = area
            .x
            .saturating_add(u16::try_from(line.width()).unwrap_or(u16::MAX))
            .min(area.right().saturating_sub(1));
        frame.render_widget(line, area);
        if area.height > 0 {
            frame.set_cursor_position((end, area.y));
        }
        return;
    }
    let (text, style) = match &app.message {
        Some(message) => (message.clone(), theme.warning()),
        None if app.help.is_some() => {
            (theme.pick("? back   ↑ ↓ scroll", "? back   up down scroll").to_owned(), theme.faint())
        }
        None => (hints(app, usize::from(area.width)), theme.faint()),
    };
    frame.render_widget(Line::styled(theme.fit(&text, usize::from(area.width)), style), area);
}

/// The most useful keys, as many as there is room for.
fn hints(app: &App, width: usize) -> String {
    let zoom = match app.view {
        View::Functions => "enter callers",
        View::Tasks => "enter only this",
        View::Callers => "enter go there",
        View::Flame => "enter zoom",
    };
    let keys = [
        "? help",
        "q quit",
        "/ filter",
        zoom,
        "esc back",
        "space pause",
        "w window",
        "s sort",
        "z reset",
        if app.spent.is_some() { "o on/off the CPU" } else { "k/u hide" },
        "f freeze",
        "S save",
    ];
    let mut text = String::new();
    for key in keys {
        let more = if text.is_empty() { key.to_owned() } else { format!("   {key}") };
        if text.len() + more.len() > width {
            break;
        }
        text.push_str(&more);
    }
    text
}

/// A share in per cent, in seven columns.
fn percent(part: u64, whole: u64) -> String {
    format!("{:>6.2}%", share(part, whole))
}

/// The text in the middle of an empty view: why it is empty.
fn empty(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let status = &app.snapshot.status;
    let text = if status.samples == 0 {
        "waiting for the first samples"
    } else if app.total == 0 && app.spent.as_ref().is_some_and(|spent| spent.all().waiting > 0) {
        "all threads are at rest, or the filter admits none (r shows them)"
    } else if app.total == 0 && !app.scope.idle && app.idle_share > 0.0 {
        "all CPUs are idle, or the filter admits nothing (i shows idle CPUs)"
    } else {
        "nothing matches: esc goes back, / changes the filter"
    };
    let line = Line::styled(theme.fit(text, usize::from(area.width)), theme.faint()).centered();
    let middle = Rect { y: area.y + area.height / 2, height: area.height.min(1), ..area };
    frame.render_widget(line, middle);
}

#[cfg(test)]
mod tests;
