//! The lists: functions, processes, callers and callees.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::{empty, percent};
use crate::top::app::{App, ClickTarget, FunctionOrder};
use crate::top::report::container_width;
use crate::top::theme::Theme;
use export::summary::Activity;
use live::snapshot::{StateKind, share};
use live::views::{Side, TaskOrder};

/// Columns of a share.
const PERCENT: usize = 7;
/// Columns of a bar, where there is room for one.
const BAR: usize = 12;
/// Minimum width of a screen with bars, in columns.
const WIDE: u16 = 100;

/// Splits an area into the head and the rows; stores the number of rows in [`App::page`].
fn split(app: &mut App, area: Rect) -> (Rect, Rect) {
    let [head, rows] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    app.page = usize::from(rows.height);
    (head, rows)
}

/// Draws where the cursor is at the right end of the head, over what is there.
fn position(frame: &mut Frame<'_>, theme: &Theme, head: Rect, position: &str) {
    let width = u16::try_from(position.len() + 1).unwrap_or(u16::MAX).min(head.width);
    let area = Rect { x: head.right().saturating_sub(width), width, ..head };
    frame.render_widget(Line::styled(format!(" {position}"), theme.faint()), area);
}

/// Returns the area of a row.
fn row_area(rows: Rect, place: usize) -> Rect {
    let y = rows.y.saturating_add(u16::try_from(place).unwrap_or(u16::MAX));
    Rect { y, height: 1, ..rows }.intersection(rows)
}

/// Draws one row, which can be clicked.
fn row(
    frame: &mut Frame<'_>,
    app: &mut App,
    area: Rect,
    index: usize,
    line: Line<'_>,
    cursor: Option<Style>,
) {
    frame.render_widget(line, area);
    if let Some(style) = cursor {
        frame.buffer_mut().set_style(area, style);
    }
    app.click_areas.push((area, ClickTarget::Row(index)));
}

fn bar(theme: &Theme, share: f64) -> String {
    let filled = (share / 100.0 * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
    format!("{}{}", theme.pick("█", "#").repeat(filled), theme.pick("░", ".").repeat(BAR - filled))
}

/// A bar of one texture, as time in one state.
fn plain_bar(theme: &Theme, share: f64, state: Option<StateKind>) -> String {
    let filled = (share / 100.0 * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
    format!("{}{}", theme.texture(state).repeat(filled), " ".repeat(BAR - filled))
}

/// How a thread spent its time, as a bar with a part for each state.
fn bar_of_time(theme: &Theme, spent: &Activity, with_rest: bool) -> Vec<Span<'static>> {
    let Activity { running, runnable, blocked, waiting, unknown } = *spent;
    let parts = [
        (None, running),
        (Some(StateKind::Runnable), runnable),
        (Some(StateKind::Blocked), blocked),
        (Some(StateKind::AtRest), if with_rest { waiting } else { 0 }),
        (Some(StateKind::Unknown), unknown),
    ];
    let all: u128 = parts.iter().map(|(_, time)| u128::from(*time)).sum();
    let (mut before, mut drawn) = (0_u128, 0_usize);
    let mut spans = Vec::new();
    for (state, time) in parts {
        before += u128::from(time);
        let until = usize::try_from((before * BAR as u128 + all / 2) / all.max(1)).unwrap_or(0).min(BAR);
        spans.push(Span::styled(
            theme.texture(state).repeat(until.saturating_sub(drawn)),
            theme.state_kind(state),
        ));
        drawn = until.max(drawn);
    }
    spans.push(Span::raw(" ".repeat(BAR - drawn)));
    spans
}

/// What the textures of bars of time mean.
fn legend(theme: &Theme) -> String {
    let states = [
        (None, "running"),
        (Some(StateKind::Runnable), "runnable"),
        (Some(StateKind::Blocked), "blocked"),
        (Some(StateKind::AtRest), "at rest"),
    ];
    states.map(|(state, meaning)| format!("{} {meaning}", theme.texture(state))).join("  ")
}

/// Draws the table of functions.
pub(super) fn functions(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (head, rows) = split(app, area);
    let width = usize::from(area.width);
    let with_bar = area.width >= WIDE;
    let module_width = (width / 5).clamp(8, 32);
    let mark = |order: FunctionOrder, text: &str| {
        let arrow = if app.function_order == order { theme.pick("▼", "*") } else { " " };
        format!("{text}{arrow}")
    };
    let columns = [
        (FunctionOrder::SelfWeight, format!("{:>PERCENT$} ", mark(FunctionOrder::SelfWeight, "self"))),
        (FunctionOrder::TotalWeight, format!("{:>PERCENT$} ", mark(FunctionOrder::TotalWeight, "total"))),
        (FunctionOrder::SelfWeight, if with_bar { " ".repeat(BAR + 1) } else { String::new() }),
        (FunctionOrder::Module, theme.pad(&mark(FunctionOrder::Module, "module"), module_width + 1)),
        (FunctionOrder::Name, mark(FunctionOrder::Name, "function")),
    ];
    let mut line = Line::default();
    for (order, text) in columns {
        let x = head.x.saturating_add(u16::try_from(line.width()).unwrap_or(u16::MAX));
        let span = Span::styled(text, theme.strong());
        let spot = Rect { x, width: u16::try_from(span.width()).unwrap_or(u16::MAX), ..head };
        app.click_areas.push((spot.intersection(head), ClickTarget::Column(order)));
        line.push_span(span);
    }
    frame.render_widget(line, head);
    if app.functions.is_empty() {
        return empty(frame, app, theme, rows);
    }
    let first = app.function_cursor.scroll(app.page);
    position(frame, theme, head, &app.function_cursor.position());
    let name_width =
        width.saturating_sub(2 * (PERCENT + 1) + module_width + 1 + if with_bar { BAR + 1 } else { 0 });
    for place in 0..app.page.min(app.functions.len().saturating_sub(first)) {
        let index = first + place;
        let function_row = &app.functions[index];
        let Some(function) = app.snapshot.functions.get(function_row.function as usize) else { continue };
        let style = match function_row.state {
            None if function_row.in_kernel => theme.colour(Color::Yellow),
            state => theme.state_kind(state),
        };
        let mut line = Line::from(vec![
            Span::raw(format!("{} ", percent(function_row.self_weight, app.total))),
            Span::raw(format!("{} ", percent(function_row.total, app.total))),
        ]);
        if with_bar {
            let share = share(function_row.self_weight, app.total);
            let bar = match app.spent {
                Some(_) => plain_bar(theme, share, function_row.state),
                None => bar(theme, share),
            };
            line.push_span(Span::styled(format!("{bar} "), style));
        }
        line.push_span(Span::styled(
            format!("{} ", theme.pad(&function.module, module_width)),
            theme.faint(),
        ));
        line.push_span(Span::styled(theme.fit(&function.name, name_width), style));
        let cursor = (index == app.function_cursor.index()).then(|| theme.cursor());
        row(frame, app, row_area(rows, place), index, line, cursor);
    }
}

/// Processes and threads.
pub(super) fn tasks(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (head, rows) = split(app, area);
    let width = container_width(&app.snapshot);
    let container = |text: &str| width.map_or(String::new(), |width| format!("{} ", theme.pad(text, width)));
    let mark = |order: TaskOrder| if app.task_order == order { theme.pick("▼", "*") } else { " " };
    let with_bar = area.width >= WIDE || app.spent.is_some();
    let bar_head = if with_bar { " ".repeat(BAR + 1) } else { String::new() };
    let text = format!(
        "{:>PERCENT$}{} {bar_head}{:>9}{} {:>7}  {}name{}",
        "share",
        mark(TaskOrder::Weight),
        "pid/tid",
        mark(TaskOrder::Pid),
        "threads",
        container("container"),
        mark(TaskOrder::Comm)
    );
    let mut line = Line::styled(text, theme.strong());
    if app.spent.is_some() {
        let room = usize::from(area.width).saturating_sub(line.width());
        line.push_span(Span::styled(theme.fit(&format!("    {}", legend(theme)), room), theme.faint()));
    }
    frame.render_widget(line, head);
    if app.tasks.is_empty() {
        return empty(frame, app, theme, rows);
    }
    let first = app.task_cursor.scroll(app.page);
    position(frame, theme, head, &app.task_cursor.position());
    for place in 0..app.page.min(app.tasks.len().saturating_sub(first)) {
        let index = first + place;
        let task = &app.tasks[index];
        let bar = match &app.spent {
            Some(spent) => bar_of_time(theme, &spent.of_task(task.choice), app.scope.at_rest),
            None if with_bar => vec![Span::raw(bar(theme, share(task.weight, app.total)))],
            None => Vec::new(),
        };
        let number = task.choice.tid.unwrap_or(task.choice.pid);
        let threads = if task.threads > 1 { task.threads.to_string() } else { String::new() };
        let indent = if task.choice.tid.is_some() { theme.pick("  └ ", "  ` ") } else { "" };
        let container =
            container(task.container.as_deref().filter(|_| task.choice.tid.is_none()).unwrap_or_default());
        let style = if task.choice.tid.is_some() { theme.faint() } else { Style::new() };
        let mut line = Line::styled(format!("{}  ", percent(task.weight, app.total)), style);
        line.extend(bar);
        let gap = if with_bar { " " } else { "" };
        let comm = theme.showable(&task.comm);
        let text = format!("{gap}{number:>9}  {threads:>7}  {container}{indent}{comm}");
        let room = usize::from(area.width).saturating_sub(line.width());
        line.push_span(Span::raw(theme.fit(&text, room)));
        let cursor = (index == app.task_cursor.index()).then(|| theme.cursor());
        row(frame, app, row_area(rows, place), index, line, cursor);
    }
}

/// Callers and callees.
pub(super) fn callers_and_callees(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (head, rows) = split(app, area);
    let width = usize::from(area.width);
    let Some(neighbours) = &app.callers_and_callees else {
        let name = app.focus.last().map(|function| theme.showable(&function.name).into_owned());
        let text = match name {
            Some(name) => format!("{name} has no samples now"),
            None => "no function is selected: choose one in view 1".to_owned(),
        };
        frame.render_widget(Line::styled(theme.fit(&text, width), theme.faint()), head);
        return;
    };
    let total = neighbours.total();
    let own = format!("{:.2} %", share(neighbours.self_weight(), app.total));
    let text = format!("{:>PERCENT$}  callers above, callees below; itself {own} of all", "share");
    frame.render_widget(Line::styled(theme.fit(&text, width), theme.strong()), head);
    let first = app.call_cursor.scroll(app.page);
    position(frame, theme, head, &app.call_cursor.position());
    for place in 0..app.page.min(app.call_rows.len().saturating_sub(first)) {
        let index = first + place;
        let neighbour = &app.call_rows[index];
        let Some(function) = app.snapshot.functions.get(neighbour.function as usize) else { continue };
        let sign = match (neighbour.side, neighbour.open) {
            (None, _) => theme.pick("● ", "* "),
            (Some(_), None) => "  ",
            (Some(Side::Callers), Some(true)) => theme.pick("▴ ", "^ "),
            (Some(Side::Callees), Some(true)) => theme.pick("▾ ", "v "),
            (Some(_), Some(false)) => theme.pick("▸ ", "> "),
        };
        let side = match neighbour.side {
            None => "",
            Some(Side::Callers) => theme.pick("↑ ", "^ "),
            Some(Side::Callees) => theme.pick("↓ ", "v "),
        };
        // Deep stacks keep half of the line for their names.
        let indent = " ".repeat((2 * neighbour.depth).min(width / 2));
        let share = match neighbour.side {
            None => percent(total, app.total),
            Some(_) => percent(neighbour.weight, total),
        };
        let text = format!("{share}  {side}{indent}{sign}{}", theme.showable(&function.name));
        let module = format!("  {}", theme.showable(&function.module));
        let style = if neighbour.side.is_none() { theme.strong() } else { Style::new() };
        let mut line = Line::styled(theme.fit(&text, width), style);
        let room = width.saturating_sub(line.width());
        line.push_span(Span::styled(theme.fit(&module, room), theme.faint()));
        let cursor = (index == app.call_cursor.index()).then(|| theme.cursor());
        row(frame, app, row_area(rows, place), index, line, cursor);
    }
}
