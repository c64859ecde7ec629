//! Screens as text, reviewed as files, and what must hold at every size.

use std::sync::Arc;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::draw;
use crate::top::app::{App, View};
use crate::top::keys::{HELP, Request};
use crate::top::theme::{Theme, indexed};
use export::report::function;
use live::snapshot::{Snapshot, Span};
use live::testing::SnapshotBuilder;
use live::views::Scope;
use profile::Label;

const PLAIN: Theme = Theme { colours: false, unicode: true };
const ASCII: Theme = Theme { colours: false, unicode: false };

fn load() -> Snapshot {
    load_with("hash", 1)
}

/// The load with another name of one function, and with so many times its samples.
fn load_with(hash: &str, times: u64) -> Snapshot {
    let read = "start_thread@libc.so.6;work;read@libc.so.6;_k_vfs_read;_k_copy_user";
    let mut build = SnapshotBuilder::default();
    build
        .stack(100, 100, "app", "main;serve;_i_parse;memchr@libc.so.6", 400 * times)
        .stack(100, 100, "app", "main;serve;parse;std::vec::Vec<T>::push", 150 * times)
        .stack(100, 101, "worker", &format!("start_thread@libc.so.6;work;{hash}"), 250 * times)
        .stack(100, 101, "worker", read, 100 * times)
        .stack(200, 200, "node", "main@node;_j_LazyCompile:*tick", 60 * times)
        .stack(0, 0, "swapper/0", "_k_cpu_idle_loop", 900 * times)
        .stack(300, 300, "日本", "überweisen;[unknown]@", 40 * times);
    build.snapshot()
}

fn app(snapshot: Snapshot) -> App {
    let mut app = App::new(Scope::default(), Span::Window);
    app.receive(Arc::new(snapshot));
    app
}

fn press(app: &mut App, keys: &str) -> Option<Request> {
    keys.chars().fold(None, |_, key| {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            '↑' => KeyCode::Up,
            '↓' => KeyCode::Down,
            '←' => KeyCode::Left,
            '→' => KeyCode::Right,
            character => KeyCode::Char(character),
        };
        app.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    })
}

fn screen(app: &mut App, theme: &Theme, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, theme)).unwrap();
    let text = terminal.backend().to_string();
    // The backend frames each line in quotes, and notes behind them what wide characters cover.
    let lines = text.lines().filter_map(|line| line.strip_prefix('"'));
    let lines = lines.map(|line| line.split("\" Hidden by").next().unwrap_or(line).trim_end_matches('"'));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Two threads that run and wait, and one at rest.
fn time() -> Snapshot {
    let mut build = SnapshotBuilder::default();
    build
        .stack(100, 100, "app", "main;serve;hash", 300_000_000)
        .stack(100, 100, "app", "main;serve;read@libc.so.6;_k_vfs_read;[blocked: pipe read]", 500_000_000)
        .stack(100, 100, "app", "main;serve;hash;[runnable: preempted]", 200_000_000)
        .stack(100, 101, "worker", "start;take;futex_wait;[blocked: futex]", 1_000_000_000)
        .stack(100, 102, "loop", "start;epoll_wait;[waiting: epoll]", 1_000_000_000);
    let mut snapshot = build.snapshot();
    for event in &mut snapshot.status.events {
        (event.name, event.unit, event.is_time) = ("wall-clock time".into(), "wall-clock time".into(), true);
    }
    snapshot
}

#[test]
fn time_on_and_off_the_cpu_is_told_apart_without_colours() {
    let mut app = app(time());
    insta::assert_snapshot!("time_functions_100x16", screen(&mut app, &PLAIN, 100, 16));
    press(&mut app, "2");
    insta::assert_snapshot!("time_processes_80x12_ascii", screen(&mut app, &ASCII, 80, 12));
    press(&mut app, "4");
    insta::assert_snapshot!("time_flame_100x16", screen(&mut app, &PLAIN, 100, 16));
    let hidden = screen(&mut app, &PLAIN, 100, 16);
    assert!(hidden.contains("1.0 s at rest hidden (r)") && !hidden.contains("epoll"));
    press(&mut app, "r");
    let shown = screen(&mut app, &PLAIN, 100, 16);
    assert!(shown.contains("at rest 33 %") && shown.contains("epoll"), "{shown}");
    press(&mut app, "o1");
    let on = screen(&mut app, &PLAIN, 100, 16);
    assert!(on.contains("on the CPU") && on.contains("hash") && !on.contains("[blocked"), "{on}");
    press(&mut app, "o");
    let off = screen(&mut app, &PLAIN, 100, 16);
    assert!(off.contains("off the CPU") && off.contains("[blocked: futex]"), "{off}");
}

#[test]
fn time_has_the_colours_of_the_picture() {
    let theme = Theme { colours: true, unicode: true };
    let mut app = app(time());
    press(&mut app, "4");
    let mut terminal = Terminal::new(TestBackend::new(120, 16)).unwrap();
    terminal.draw(|frame| draw(frame, &mut app, &theme)).unwrap();
    let colours: std::collections::HashSet<Color> =
        terminal.backend().buffer().content().iter().map(|cell| cell.bg).collect();
    for label in ["[blocked: futex]", "[runnable: preempted]", "take", "_[k]"] {
        let rgb = export::frame_colour(label, label == "take");
        assert!(label == "_[k]" || colours.contains(&indexed(rgb)), "{label}");
    }
}

#[test]
fn functions() {
    let mut app = app(load());
    insta::assert_snapshot!("functions_80x24", screen(&mut app, &PLAIN, 80, 24));
    insta::assert_snapshot!("functions_120x12_ascii", screen(&mut app, &ASCII, 120, 12));
}

#[test]
fn files_that_are_not_used_are_told_in_one_line() {
    let mut snapshot = load();
    let path = "/tmp/perf-100.map is not used: it belongs to another user than the process".repeat(3);
    snapshot.status.remarks = vec![path, "second".to_owned()];
    snapshot.status.remarks_omitted = 4;
    let mut app = app(snapshot);
    for (width, height) in [(80, 24), (40, 6), (12, 3), (1, 1)] {
        let screen = screen(&mut app, &ASCII, width, height);
        let told = screen.lines().nth(2).unwrap_or_default();
        assert_eq!(screen.matches("/tmp/perf").count(), usize::from(width >= 40), "{screen}");
        assert!(width < 40 || told.ends_with("~ (and 5 more)"), "{screen}");
    }
}

#[test]
fn processes_in_containers() {
    let mut build = SnapshotBuilder::default();
    build.stack(300, 300, "sh", "main", 40);
    build.stack_in(Some("docker:0123456789ab"), (100, 100, "app"), "main", 50);
    build.stack_in(Some("docker:0123456789ab"), (100, 101, "worker"), "main", 10);
    let mut app = app(build.snapshot());
    press(&mut app, "2");
    let shown = screen(&mut app, &PLAIN, 80, 24);
    let row = |number: &str| shown.lines().find(|line| line.contains(number)).unwrap_or_default();
    assert!(row("pid/tid").contains("container           name"), "{shown}");
    assert!(row("60.00%").contains("docker:0123456789ab app"), "{shown}");
    assert!(row("40.00%").trim_end().ends_with("sh") && !row("10.00%").contains("docker"), "{shown}");
    screen(&mut app, &PLAIN, 20, 6);
    press(&mut app, "/container:host");
    assert!(!screen(&mut app, &PLAIN, 80, 24).contains("worker"));
}

#[test]
fn processes() {
    let mut app = app(load());
    press(&mut app, "2");
    insta::assert_snapshot!("processes_80x24", screen(&mut app, &PLAIN, 80, 24));
}

#[test]
fn callers() {
    let mut app = app(load());
    press(&mut app, "3");
    insta::assert_snapshot!("callers_80x24", screen(&mut app, &PLAIN, 80, 24));
    press(&mut app, "↑\n");
    insta::assert_snapshot!("callers_of_caller_80x24_ascii", screen(&mut app, &ASCII, 80, 24));
}

#[test]
fn enter_shows_callers_and_callees_of_a_function() {
    let mut app = app(load());
    press(&mut app, "\n");
    assert_eq!(app.view, View::Callers);
    let function = |app: &App| match app.focus.last() {
        Some(Label::Function(name, _)) => Some(name.to_string()),
        _ => None,
    };
    assert_eq!(function(&app).as_deref(), Some("memchr"));
    press(&mut app, "↑\n");
    assert_eq!(function(&app).as_deref(), Some("parse"));
    press(&mut app, "\n\x1b");
    assert_eq!(function(&app).as_deref(), Some("memchr"), "a function is not gone to from itself");
}

#[test]
fn flame_graph() {
    let mut app = app(load());
    press(&mut app, "4/func:vfs\n");
    insta::assert_snapshot!("flame_80x24", screen(&mut app, &PLAIN, 80, 24));
    press(&mut app, "↑→→\n↑↑");
    insta::assert_snapshot!("flame_zoomed_80x24_ascii", screen(&mut app, &ASCII, 80, 24));
}

#[test]
fn help() {
    let mut app = app(load());
    press(&mut app, "?");
    insta::assert_snapshot!("help_100x32", screen(&mut app, &PLAIN, 100, 32));
}

#[test]
fn help_can_be_read_to_its_end_on_any_screen() {
    for (width, height) in [(80, 24), (40, 10), (300, 80)] {
        let mut app = app(load());
        press(&mut app, "?");
        let mut read = String::new();
        for _ in 0..120 {
            read.push_str(&screen(&mut app, &PLAIN, width, height));
            press(&mut app, "↓");
        }
        let words: Vec<&str> = read.split_whitespace().collect();
        for text in HELP.iter().map(|(_, text)| *text).chain(["they are ready."]) {
            let text: Vec<&str> = text.split_whitespace().collect();
            let is_there = words.windows(text.len().min(3)).any(|window| text.ends_with(window));
            assert!(is_there, "{text:?} at {width} columns: {read}");
        }
        let end = screen(&mut app, &PLAIN, width, height);
        assert!(
            height == 80 || end.trim_end().lines().count() == usize::from(height),
            "no empty lines: {end}"
        );
        press(&mut app, "↑");
        assert!(height == 80 || screen(&mut app, &PLAIN, width, height) != end, "back at once");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let mut snapshot = load();
    snapshot.status.loss.samples = 1234;
    snapshot.status.complete = snapshot.status.complete.map(|complete| complete - 100);
    snapshot.status.aged_out = 5;
    snapshot.status.unnamed = 77;
    let mut app = app(snapshot);
    press(&mut app, "k f/app\n");
    insta::assert_snapshot!("status_160x12", screen(&mut app, &PLAIN, 160, 12));
}

#[test]
fn every_size_can_be_drawn() {
    let mut app = app(load());
    for view in ["1", "2", "\n3", "4", "?"] {
        press(&mut app, view);
        for (width, height) in [(1, 1), (2, 3), (20, 4), (40, 10), (80, 24), (81, 25), (200, 50), (300, 80)] {
            for theme in [PLAIN, ASCII, Theme { colours: true, unicode: true }] {
                screen(&mut app, &theme, width, height);
            }
        }
    }
}

#[test]
fn without_unicode_nothing_but_ascii_is_drawn() {
    let mut app = app(load());
    for view in ["1", "2", "3", "4", "?"] {
        press(&mut app, view);
        let text = screen(&mut app, &ASCII, 120, 30);
        assert!(text.is_ascii(), "{text}");
        press(&mut app, "\x1b");
    }
}

#[test]
fn without_colour_no_cell_has_one() {
    let mut app = app(load());
    for view in ["1", "2", "3", "4"] {
        press(&mut app, view);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &mut app, &PLAIN)).unwrap();
        let coloured = |color: Color| color != Color::Reset;
        let buffer = terminal.backend().buffer();
        assert!(buffer.content().iter().all(|cell| !coloured(cell.fg) && !coloured(cell.bg)));
    }
}

fn first_function(app: &App) -> String {
    function(&app.functions.rows[0].frame)
}

#[test]
fn every_key_does_what_the_help_says() {
    let mut app = app(load());
    for (keys, view) in
        [("2", View::Tasks), ("3", View::Callers), ("4", View::Flame), ("\t", View::Functions)]
    {
        press(&mut app, keys);
        assert_eq!(app.view, view);
    }
    assert_eq!(press(&mut app, "q"), Some(Request::Quit));
    assert_eq!(press(&mut app, "z"), Some(Request::Reset));
    app.receive(Arc::new(load()));
    assert_eq!(press(&mut app, "w"), Some(Request::Span(Span::Start)));
    assert_eq!(press(&mut app, "w"), Some(Request::Span(Span::Window)));
    assert_eq!(press(&mut app, "S\n"), Some(Request::Save("prof-top.svg".to_owned())));
    let control = |key| Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL));
    assert_eq!(app.input(&control('c')), Some(Request::Quit));
    assert_eq!(app.input(&control('z')), Some(Request::Suspend));
    assert_eq!(app.input(&control('l')), Some(Request::Redraw));

    assert_eq!(first_function(&app), "memchr");
    press(&mut app, "s");
    assert_eq!(first_function(&app), "main", "by total");
    press(&mut app, "s");
    assert_eq!(first_function(&app), "LazyCompile:*tick", "by name");
    press(&mut app, "ss");
    assert_eq!(first_function(&app), "memchr", "round");

    press(&mut app, "i");
    assert_eq!(first_function(&app), "cpu_idle_loop");
    press(&mut app, "ik");
    assert!(!app.scope.kernel && app.total == 1000);
    press(&mut app, "u");
    assert!(app.scope.kernel && !app.scope.user, "hiding the other side, too, would leave nothing");
    press(&mut app, "u");

    press(&mut app, "/hsh");
    assert_eq!((app.functions.rows.len(), &*first_function(&app)), (1, "hash"));
    press(&mut app, "\x1b");
    assert_eq!((&*app.filter_text, app.prompt.is_none()), ("", true), "thought better of it");
    press(&mut app, "/nothing");
    let control = |key| Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL));
    app.input(&control('u'));
    assert_eq!((app.prompt.as_ref().map(|prompt| &*prompt.text), app.total), (Some(""), 1000));
    press(&mut app, "comm:worker hash");
    app.input(&control('w'));
    assert_eq!(app.filter_text, "comm:worker ");
    press(&mut app, "\n");
    assert_eq!(app.total, 350);
    press(&mut app, "\x1b");
    assert_eq!(app.total, 1000);

    press(&mut app, "2\n");
    assert_eq!((app.view, app.total), (View::Functions, 900), "only the heaviest process");
    press(&mut app, "\x1b");
    assert_eq!(app.total, 1000);
}

#[test]
fn paused_the_screen_stands_still() {
    let mut app = app(load());
    press(&mut app, " ");
    let before = screen(&mut app, &PLAIN, 80, 24);
    let mut build = SnapshotBuilder::default();
    build.stack(1, 1, "new", "f", 1);
    app.receive(Arc::new(build.snapshot()));
    assert_eq!(screen(&mut app, &PLAIN, 80, 24), before);
    press(&mut app, " ");
    assert_eq!(first_function(&app), "f");
}

#[test]
fn what_is_asked_of_the_engine_is_seen_at_once() {
    let mut app = app(load());
    assert!(screen(&mut app, &PLAIN, 80, 24).contains("last 10 s"));
    assert_eq!(press(&mut app, "w"), Some(Request::Span(Span::Start)));
    assert!(screen(&mut app, &PLAIN, 80, 24).contains("since start"));
    assert_eq!(press(&mut app, "z"), Some(Request::Reset));
    let empty = screen(&mut app, &PLAIN, 80, 24);
    assert!(empty.contains("waiting for the first samples") && empty.contains(" · 0 samples"), "{empty}");
    let mut app = self::app(load());
    press(&mut app, " z");
    assert_eq!(first_function(&app), "memchr", "paused");
}

#[test]
fn names_that_come_while_paused_are_shown_and_samples_are_not() {
    let (before, after) = (load(), load_with("late_name", 7));
    let mut app = app(before);
    press(&mut app, " ");
    let old = screen(&mut app, &PLAIN, 80, 24);
    app.receive(Arc::new(after.clone()));
    let new = screen(&mut app, &PLAIN, 80, 24);
    let expected = old.replace("app              hash", "app              late_name");
    assert_eq!(new, expected, "the same samples under another name");
    // Those that were forgotten since are kept.
    let forgotten = Snapshot { names: Default::default(), ..after };
    app.receive(Arc::new(forgotten));
    assert_eq!(screen(&mut app, &PLAIN, 80, 24), expected);
}

#[test]
fn frozen_rows_stay_while_weights_change() {
    let mut app = app(load());
    press(&mut app, "f");
    let mut build = SnapshotBuilder::default();
    build.stack(100, 101, "worker", "start_thread@libc.so.6;work;hash", 9000);
    build.stack(100, 100, "app", "main;serve;_i_parse;memchr@libc.so.6", 1);
    let snapshot = Arc::new(build.snapshot());
    app.receive(Arc::clone(&snapshot));
    assert_eq!(first_function(&app), "memchr");
    press(&mut app, "f");
    assert_eq!(first_function(&app), "hash");
}

#[test]
fn clicks_do_what_keys_do() {
    let mut app = app(load());
    let click = |app: &mut App, column, row| {
        screen(app, &PLAIN, 80, 24);
        let kind = MouseEventKind::Down(MouseButton::Left);
        app.input(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
    };
    click(&mut app, 10, 3);
    assert_eq!(first_function(&app), "main", "a click on `total` sorts by it");
    click(&mut app, 2, 5);
    assert_eq!(app.functions.cursor.index(), 1);
    click(&mut app, 2, 5);
    assert_eq!(app.view, View::Callers, "a second click zooms");
    click(&mut app, 48, 2);
    assert_eq!(app.view, View::Flame);
    click(&mut app, 5, 20);
    click(&mut app, 5, 20);
    assert_ne!(app.flame.zoom, Default::default());
}

#[test]
fn what_did_not_change_is_not_drawn() {
    let mut app = app(load());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &mut app, &PLAIN)).unwrap();
    let before = terminal.backend().buffer().clone();
    press(&mut app, "↓");
    terminal.draw(|frame| draw(frame, &mut app, &PLAIN)).unwrap();
    let changed = before.diff(terminal.backend().buffer()).len();
    assert!(changed <= 2 * 80 + 5, "two rows and the position, not the screen: {changed} cells");
}
