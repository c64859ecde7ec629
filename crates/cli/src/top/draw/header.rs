//! The status lines and the titles of the views.

use std::time::Duration;

use export::summary::{self, Activity, counted, grouped};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::top::app::{App, ClickTarget, View};
use crate::top::theme::Theme;
use live::snapshot;
use live::views::TimePart;

/// Two lines: what is measured; and how well.
pub(super) fn status(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let [first, second] =
        ratatui::layout::Layout::vertical([ratatui::layout::Constraint::Length(1); 2]).areas(area);
    let status = &app.snapshot.status;
    let plain = Style::new();
    let mut what: Vec<(String, Style)> = vec![("prof top".to_owned(), theme.strong())];
    if !status.target.is_empty() {
        what.push((status.target.clone(), plain));
    }
    if let Some(event) = status.events.get(app.scope.event as usize) {
        let rate = event.frequency.map(|hertz| format!(" {} Hz", grouped(hertz)));
        what.push((format!("{}{}", event.name, rate.unwrap_or_default()), plain));
    }
    if app.paused {
        what.push(("PAUSED".to_owned(), theme.warning()));
    }
    if status.ended {
        what.push(("the target has ended".to_owned(), theme.warning()));
    }
    if app.frozen {
        what.push(("frozen".to_owned(), theme.warning()));
    }
    // The span that was chosen last is named at once, and its length when its snapshot has arrived.
    let covered = (status.span == app.span).then_some(status.covered);
    let span = match (app.span, covered) {
        (snapshot::Span::Window, covered) => {
            format!("last {}", duration(covered.unwrap_or(status.window).min(status.window)))
        }
        (snapshot::Span::Start, Some(covered)) => format!("since start, {}", duration(covered)),
        (snapshot::Span::Start, None) => "since start".to_owned(),
    };
    what.push((span, plain));
    what.push((counted(status.cpus.into(), "CPU", "CPUs"), plain));
    line(frame, theme, first, what);

    let loss = &status.loss;
    let lost = if loss.samples > 0 || loss.unread > 0 { theme.warning() } else { plain };
    let mut how: Vec<(String, Style)> = vec![
        (format!("{}/s", grouped(status.rate().round() as u64)), plain),
        (counted(status.samples, "sample", "samples"), plain),
        (summary::lost(loss), lost),
    ];
    if let Some(complete) = status.complete_share() {
        // Narrow screens have room for our own cost all the same.
        let stacks = if area.width < 100 { "" } else { "stacks " };
        how.push((format!("{stacks}{complete:.1} % complete"), plain));
    }
    if loss.undecodable > 0 {
        how.push((format!("{} undecodable", grouped(loss.undecodable)), theme.warning()));
    }
    how.push((format!("own {:.1} % CPU, {} MB", status.own_cpu, status.own_memory.div_ceil(1 << 20)), plain));
    if let Some(spent) = &app.spent {
        let spent = spent.all();
        how.insert(0, (in_words(&spent, app.scope.at_rest), plain));
    }
    if !app.scope.idle {
        let idle = app.idle_share;
        if idle > 0.0 {
            how.push((format!("idle {idle:.0} %"), plain));
        }
    }
    if status.unnamed > 0 {
        how.push((format!("naming {}", grouped(status.unnamed)), plain));
    }
    if status.aged_out > 0 {
        how.push((format!("{} aged out", grouped(status.aged_out)), plain));
    }
    line(frame, theme, second, how);
}

/// One line: which file is not used for names or stacks, and how many more there are.
pub(super) fn remarks(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let status = &app.snapshot.status;
    let Some(first) = status.remarks.first() else { return };
    let more = status.remarks.len() as u64 - 1 + status.remarks_omitted;
    let more = if more > 0 { format!(" (and {} more)", grouped(more)) } else { String::new() };
    // The number is not what is cut of a long line.
    let room = usize::from(area.width).saturating_sub(more.len());
    let text = format!("{}{more}", theme.fit(first, room));
    frame.render_widget(Line::styled(text, theme.warning()), area);
}

/// Parts with separators, as many as there is room for.
fn line(frame: &mut Frame<'_>, theme: &Theme, area: Rect, parts: Vec<(String, Style)>) {
    let separator = theme.pick(" · ", " | ");
    let width = usize::from(area.width);
    let mut line = Line::default();
    for (text, style) in parts {
        let text = theme.showable(&text).into_owned();
        let gap = if line.spans.is_empty() { 0 } else { 3 };
        let room = width.saturating_sub(line.width() + gap);
        // The first parts are cut rather than left out; later ones are left out rather than cut.
        if room == 0 || (line.spans.len() > 4 && Span::raw(&*text).width() > room) {
            continue;
        }
        if gap > 0 {
            line.push_span(Span::styled(separator.to_owned(), theme.faint()));
        }
        line.push_span(Span::styled(theme.fit(&text, room), style));
    }
    frame.render_widget(line, area);
}

/// The titles; then what the view is restricted to.
pub(super) fn tabs(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let mut line = Line::default();
    for (number, view) in (1..).zip(View::ALL) {
        let text = format!(" {number} {} ", view.title());
        let start = area.x.saturating_add(u16::try_from(line.width()).unwrap_or(u16::MAX));
        let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
        let spot = Rect { x: start, y: area.y, width, height: area.height };
        app.click_areas.push((spot.intersection(area), ClickTarget::Tab(view)));
        let style = if view == app.view { theme.cursor() } else { Style::new() };
        line.push_span(Span::styled(text, style));
    }
    let mut restrictions = Vec::new();
    if let Some(choice) = app.scope.task {
        restrictions.push(match choice.tid {
            Some(tid) => format!("only thread {tid}"),
            None => format!("only process {}", choice.pid),
        });
    }
    match app.scope.part {
        TimePart::All => {}
        TimePart::OnCpu => restrictions.push("on the CPU".to_owned()),
        TimePart::OffCpu => restrictions.push("off the CPU".to_owned()),
    }
    if !app.scope.kernel {
        restrictions.push("no kernel".to_owned());
    }
    if !app.scope.user {
        restrictions.push("no user".to_owned());
    }
    if !app.filter_text.is_empty() && app.prompt.is_none() {
        restrictions.push(format!("/{}", app.filter_text));
    }
    let room = usize::from(area.width).saturating_sub(line.width() + 2);
    let text = theme.fit(&restrictions.join(", "), room);
    line.push_span(Span::styled(format!("  {text}"), theme.warning()));
    frame.render_widget(line, area);
}

/// How threads spent their time, and how much of it is hidden.
fn in_words(spent: &Activity, rest_is_shown: bool) -> String {
    let Activity { running, runnable, blocked, waiting, unknown } = *spent;
    let shown = running.saturating_add(runnable).saturating_add(blocked).saturating_add(unknown);
    let shown = shown.saturating_add(if rest_is_shown { waiting } else { 0 });
    let part = |what: &str, time: u64| format!("{what} {:.0} %", snapshot::share(time, shown));
    let mut parts = vec![part("running", running), part("runnable", runnable), part("blocked", blocked)];
    if unknown > 0 {
        parts.push(part("unknown", unknown));
    }
    match waiting {
        0 => {}
        _ if rest_is_shown => parts.push(part("at rest", waiting)),
        _ => parts.push(format!("{:.1} s at rest hidden (r)", waiting as f64 / 1e9)),
    }
    parts.join(", ")
}

/// A duration in the two largest of its units.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{:.1} s", duration.as_secs_f64()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([9, 61, 3660, 90_000].map(text), ["9 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!(duration(Duration::from_millis(300)), "0.3 s");
    }
}
