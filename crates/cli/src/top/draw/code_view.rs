//! The code of a function.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use crate::top::app::App;
use crate::top::theme::Theme;
use export::annotate::Heat;

/// Draws the rows from the one on that was scrolled to.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    app.page = usize::from(body.height);
    let Some(code) = &mut app.code else { return };
    let width = usize::from(area.width);
    let stale = if code.is_stale { "no samples in it now; " } else { "" };
    let title = format!("{stale}code of {} in {}", code.function.name, code.function.module);
    frame.render_widget(Line::styled(theme.fit(&title, width), theme.strong()), head);
    let rows = match &code.rows {
        Some(Ok(rows)) => rows,
        other => {
            let text = match other {
                Some(Err(why)) => format!("no code: {why}"),
                _ => format!("reading it {}", theme.pick("…", "...")),
            };
            frame.render_widget(Line::styled(theme.fit(&text, width), theme.faint()), body);
            return;
        }
    };
    // After the screen has grown.
    code.first = code.first.min(rows.len().saturating_sub(app.page));
    for (row, y) in rows.iter().skip(code.first).zip(body.y..body.bottom()) {
        let text: String = row.text.chars().skip(code.shift).map(|shown| plain(shown, theme)).collect();
        let style = match row.heat {
            Heat::Hot => theme.colour(Color::Red).add_modifier(Modifier::BOLD),
            Heat::Warm => theme.colour(Color::Yellow),
            Heat::None if row.address.is_none() => theme.faint(),
            Heat::None => Style::new(),
        };
        let line = Line::styled(theme.fit(&text, width), style);
        frame.render_widget(line, Rect { y, height: 1, ..body });
    }
}

/// Lines and arrows where there is only ASCII.
fn plain(shown: char, theme: &Theme) -> char {
    if theme.unicode {
        return shown;
    }
    match shown {
        '│' => '|',
        '─' => '-',
        '╭' | '╰' | '┼' | '┌' => '+',
        '►' => '>',
        '←' => '<',
        '…' => '~',
        other => other,
    }
}
