//! The lists: functions, processes, callers and callees.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{empty, percent};
use crate::top::app::{App, ClickTarget, FunctionOrder};
use crate::top::list_cursor::Visible;
use crate::top::report::container_width;
use crate::top::theme::Theme;
use export::fit_name;
use export::report::{function, module};
use export::summary::Activity;
use live::snapshot::{StateKind, share};
use live::views::{Side, TaskOrder};
use profile::{FrameKind, ViewFrame, short_name};

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

/// Draws the rows that the screen has room for, as `line` makes them from their positions; each can be clicked. Draws where the cursor
/// is at the right end of the head, over what is there.
fn draw_rows(
    frame: &mut Frame<'_>,
    app: &mut App,
    theme: &Theme,
    (head, rows): (Rect, Rect),
    shown: Visible,
    line: impl Fn(&App, usize) -> Line<'static>,
) {
    let width = u16::try_from(shown.position.len() + 1).unwrap_or(u16::MAX).min(head.width);
    let area = Rect { x: head.right().saturating_sub(width), width, ..head };
    frame.render_widget(Line::styled(format!(" {}", shown.position), theme.faint()), area);
    for (index, y) in shown.rows.zip(rows.y..rows.bottom()) {
        let area = Rect { y, height: 1, ..rows };
        frame.render_widget(line(app, index), area);
        if index == shown.cursor {
            frame.buffer_mut().set_style(area, theme.cursor());
        }
        app.click_areas.push((area, ClickTarget::Row(index)));
    }
}

/// A bar whose filled part has one texture.
fn bar(filled: &str, rest: &str, share: f64) -> String {
    let columns = (share / 100.0 * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
    format!("{}{}", filled.repeat(columns), rest.repeat(BAR - columns))
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
    if app.functions.rows.is_empty() {
        return empty(frame, app, theme, rows);
    }
    let name_width =
        width.saturating_sub(2 * (PERCENT + 1) + module_width + 1 + if with_bar { BAR + 1 } else { 0 });
    let shown = app.functions.cursor.scroll(app.page);
    draw_rows(frame, app, theme, (head, rows), shown, |app, index| {
        let function_row = &app.functions.rows[index];
        let (name, module) = (function(&function_row.frame), module(&function_row.frame));
        let style = match function_row.state {
            None if function_row.in_kernel => theme.kernel(),
            state => theme.state_kind(state),
        };
        let own = percent(function_row.self_weight, app.total);
        let mut line = Line::from(format!("{own} {} ", percent(function_row.total, app.total)));
        if with_bar {
            let share = share(function_row.self_weight, app.total);
            let bar = match app.spent {
                Some(_) => bar(theme.texture(function_row.state), " ", share),
                None => bar(theme.pick("█", "#"), theme.pick("░", "."), share),
            };
            line.push_span(Span::styled(format!("{bar} "), style));
        }
        line.push_span(Span::styled(format!("{} ", theme.pad(&module, module_width)), theme.faint()));
        line.push_span(Span::styled(theme.fit(&fit_name(&short_name(&name), name_width), name_width), style));
        line
    });
}

/// Processes and threads.
pub(super) fn tasks(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (head, rows) = split(app, area);
    let width = container_width(&app.tasks.rows);
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
    if app.tasks.rows.is_empty() {
        return empty(frame, app, theme, rows);
    }
    let shown = app.tasks.cursor.scroll(app.page);
    draw_rows(frame, app, theme, (head, rows), shown, |app, index| {
        let task = &app.tasks.rows[index];
        let bar = match &app.spent {
            Some(spent) => bar_of_time(theme, &spent.of_task(task.choice), app.scope.at_rest),
            None if with_bar => {
                let share = share(task.weight, app.total);
                vec![Span::raw(bar(theme.pick("█", "#"), theme.pick("░", "."), share))]
            }
            None => Vec::new(),
        };
        let number = task.choice.tid.unwrap_or(task.choice.pid);
        let threads = if task.threads > 1 { task.threads.to_string() } else { String::new() };
        let indent = if task.choice.tid.is_some() { theme.pick("  └ ", "  ` ") } else { "" };
        let container = container(
            &task
                .container
                .as_ref()
                .filter(|_| task.choice.tid.is_none())
                .map(ToString::to_string)
                .unwrap_or_default(),
        );
        let style = if task.choice.tid.is_some() { theme.faint() } else { Style::new() };
        let mut line = Line::styled(format!("{}  ", percent(task.weight, app.total)), style);
        line.extend(bar);
        let gap = if with_bar { " " } else { "" };
        let comm = task.comm.to_string();
        let comm = theme.showable(&comm);
        let text = format!("{gap}{number:>9}  {threads:>7}  {container}{indent}{comm}");
        let room = usize::from(area.width).saturating_sub(line.width());
        line.push_span(Span::raw(theme.fit(&text, room)));
        line
    });
}

/// Callers and callees.
pub(super) fn callers_and_callees(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (head, rows) = split(app, area);
    let width = usize::from(area.width);
    let Some(neighbours) = &app.callers_and_callees else {
        let text = match app.focus.last() {
            Some(label) => {
                let frame = ViewFrame { label: label.clone(), kind: FrameKind::User, line: None };
                format!("{} has no samples now", theme.showable(&function(&frame)))
            }
            None => "no function is selected: choose one in view 1".to_owned(),
        };
        frame.render_widget(Line::styled(theme.fit(&text, width), theme.faint()), head);
        return;
    };
    let total = neighbours.total();
    let own = format!("{:.2} %", share(neighbours.self_weight(), app.total));
    let text = format!("{:>PERCENT$}  callers above, callees below; itself {own} of all", "share");
    frame.render_widget(Line::styled(theme.fit(&text, width), theme.strong()), head);
    let shown = app.calls.cursor.scroll(app.page);
    draw_rows(frame, app, theme, (head, rows), shown, |app, index| {
        let neighbour = &app.calls.rows[index];
        let (name, module) = (function(&neighbour.frame), module(&neighbour.frame));
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
        let text = format!("{share}  {side}{indent}{sign}{}", theme.showable(&short_name(&name)));
        let module = format!("  {}", theme.showable(&module));
        let style = if neighbour.side.is_none() { theme.strong() } else { Style::new() };
        let mut line = Line::styled(theme.fit(&text, width), style);
        let room = width.saturating_sub(line.width());
        line.push_span(Span::styled(theme.fit(&module, room), theme.faint()));
        line
    });
}
