//! Keys and clicks: how they change the state of the screen, and which requests to the outside they lead to.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use super::app::{App, ClickTarget, FunctionOrder, Prompt, Purpose, View};
use live::snapshot::Span;
use live::views::{Direction, TaskOrder};

/// A request that the state cannot fulfil itself, as it needs the terminal, the engine or a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Leave.
    Quit,
    /// Stop the process, as ctrl-z does in a shell.
    Suspend,
    /// Draw the whole screen again.
    Redraw,
    /// Forget all samples.
    Reset,
    /// Show the samples of this span.
    Span(Span),
    /// Write what is shown into a file of this name.
    Save(String),
}

/// The help: every key and what it does. A test presses each of them.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("1 2 3 4", "functions · processes and threads · callers and callees · flame graph"),
    ("tab", "the next view (shift-tab: the one before)"),
    ("↑ ↓ pgup pgdn", "move; the cursor stays with its row while that is on the screen"),
    ("home end", "the first row, and stay on top · the last row"),
    ("← →", "close and open a row of callers; move beside in the flame graph"),
    ("enter", "zoom: callers of a function, samples of a process, a frame of the flame graph"),
    ("esc", "back out of a zoom, then of the filter"),
    ("/", "filter rows; comm: pid: tid: container: choose samples, func: mod: rows;"),
    ("", "  letters match fuzzily; the flame graph highlights what matches"),
    ("s", "sort by the next column"),
    ("f", "freeze: rows keep their places while their numbers change"),
    ("space", "pause the screen; samples are still taken"),
    ("w", "the last seconds, or all since the start"),
    ("z", "reset: forget all samples"),
    ("k u", "hide kernel frames · hide user frames"),
    ("i", "show idle CPUs"),
    ("r", "with --off-cpu: show event loops at rest"),
    ("o", "with --off-cpu: all time, on the CPU alone, off the CPU alone"),
    ("e", "the next event, where several are sampled"),
    ("S", "save what is shown as a flame graph (SVG); typing replaces the name"),
    ("ctrl-l", "draw the screen anew"),
    ("?", "this help"),
    ("q", "quit (also ctrl-c); a command that was started is terminated. ctrl-z suspends"),
    ("mouse", "click selects, a second click zooms; titles and columns can be clicked"),
];

impl Prompt {
    /// Replaces the text by another one if we have only offered it.
    fn take_over(&mut self, text: &str) {
        if std::mem::take(&mut self.is_offered) {
            self.text = text.to_owned();
        }
    }
}

impl App {
    /// Handles an event of the terminal. Returns a request that the caller has to fulfil.
    pub(crate) fn input(&mut self, event: &Event) -> Option<Request> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.message = None;
                self.key(*key)
            }
            Event::Mouse(mouse) => {
                self.mouse(*mouse);
                None
            }
            Event::Paste(text) => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.take_over("");
                    prompt.text.extend(text.chars().filter(|character| !character.is_control()));
                    self.prompt_changed();
                }
                None
            }
            _ => None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Option<Request> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Request::Quit),
                KeyCode::Char('z') => Some(Request::Suspend),
                KeyCode::Char('l') => Some(Request::Redraw),
                // As in a shell: the line, the last word.
                KeyCode::Char(key @ ('u' | 'w')) => {
                    if let Some(prompt) = &mut self.prompt {
                        prompt.is_offered = false;
                        let words = prompt.text.trim_end();
                        let rest = if key == 'u' { 0 } else { words.rfind(' ').map_or(0, |space| space + 1) };
                        prompt.text.truncate(rest);
                        self.prompt_changed();
                    }
                    None
                }
                _ => None,
            };
        }
        if self.prompt.is_some() {
            return self.prompt_key(key.code);
        }
        if let Some(line) = self.help {
            self.help = match key.code {
                // The last line is as far as it is drawn.
                KeyCode::Up => Some(line.saturating_sub(1)),
                KeyCode::Down => Some(line + 1),
                KeyCode::PageUp => Some(line.saturating_sub(self.page)),
                KeyCode::PageDown => Some(line + self.page),
                KeyCode::Home => Some(0),
                KeyCode::Char('q') | KeyCode::Char('?') | KeyCode::Esc | KeyCode::Enter => None,
                _ => Some(line),
            };
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Request::Quit),
            KeyCode::Char('?') => self.help = Some(0),
            KeyCode::Char(digit @ '1'..='4') => {
                let number = digit as usize - '1' as usize;
                self.go_to(View::ALL[number]);
            }
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(View::ALL.len() - 1),
            KeyCode::Char('/') => {
                let text = self.filter_text.clone();
                self.prompt =
                    Some(Prompt { purpose: Purpose::Filter, before: text.clone(), text, is_offered: false });
            }
            KeyCode::Char('S') => {
                let text = "prof-top.svg".to_owned();
                self.prompt =
                    Some(Prompt { purpose: Purpose::Save, before: String::new(), text, is_offered: true });
            }
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('f') => {
                self.frozen = !self.frozen;
                self.list();
            }
            KeyCode::Char(' ') => self.toggle_pause(),
            KeyCode::Char('w') => {
                self.span = if self.span == Span::Window { Span::Start } else { Span::Window };
                return Some(Request::Span(self.span));
            }
            KeyCode::Char('z') => {
                // A paused screen keeps its samples until the user continues.
                if !self.paused {
                    self.clear();
                }
                return Some(Request::Reset);
            }
            KeyCode::Char('k') => self.hide(|app| app.scope.kernel = !app.scope.kernel),
            KeyCode::Char('u') => self.hide(|app| app.scope.user = !app.scope.user),
            KeyCode::Char('i') => {
                self.scope.idle = !self.scope.idle;
                self.list();
            }
            KeyCode::Char('r') => {
                self.scope.at_rest = !self.scope.at_rest;
                self.list();
            }
            KeyCode::Char('o') if self.spent.is_some() => {
                self.scope.part = self.scope.part.next();
                self.list();
            }
            KeyCode::Char('e') => self.next_event(),
            KeyCode::Esc => self.back(),
            KeyCode::Enter => self.zoom(),
            code => self.move_cursor(code),
        }
        None
    }

    fn turn(&mut self, by: usize) {
        let place = View::ALL.iter().position(|&view| view == self.view).unwrap_or(0);
        self.go_to(View::ALL[(place + by) % View::ALL.len()]);
    }

    /// Hides one side or shows it again; hiding both would leave nothing, so the other side comes back.
    fn hide(&mut self, toggle: impl Fn(&mut Self)) {
        let before = (self.scope.kernel, self.scope.user);
        toggle(self);
        if !self.scope.kernel && !self.scope.user {
            (self.scope.kernel, self.scope.user) = (!before.0, !before.1);
        }
        self.list();
    }

    fn next_event(&mut self) {
        let count = self.snapshot.status.events.len().max(1) as u32;
        self.scope.event = (self.scope.event + 1) % count;
        if count == 1 {
            self.message = Some("only one event is sampled".to_owned());
        }
        self.list();
    }

    fn sort(&mut self) {
        match self.view {
            View::Functions => {
                self.function_order = match self.function_order {
                    FunctionOrder::SelfWeight => FunctionOrder::TotalWeight,
                    FunctionOrder::TotalWeight => FunctionOrder::Name,
                    FunctionOrder::Name => FunctionOrder::Module,
                    FunctionOrder::Module => FunctionOrder::SelfWeight,
                };
            }
            View::Tasks => {
                self.task_order = match self.task_order {
                    TaskOrder::Weight => TaskOrder::Pid,
                    TaskOrder::Pid => TaskOrder::Comm,
                    TaskOrder::Comm => TaskOrder::Weight,
                };
            }
            View::Callers | View::Flame => {
                self.message = Some("this view has one order only".to_owned());
                return;
            }
        }
        self.frozen = false;
        self.go_to_top();
        self.list();
    }

    fn zoom(&mut self) {
        match self.view {
            View::Functions => self.go_to(View::Callers),
            View::Tasks => {
                if let Some(row) = self.tasks.selected() {
                    self.scope.task = Some(row.choice);
                    self.go_to(View::Functions);
                }
            }
            View::Callers => {
                if let Some(row) = self.calls.selected() {
                    self.show_callers(row.frame.label.clone());
                }
            }
            View::Flame => {
                self.flame.zoom = self.flame.cursor;
                self.list();
            }
        }
    }

    fn back(&mut self) {
        let all = live::views::PathKey::default();
        if self.view == View::Flame && self.flame.zoom != all {
            self.flame.zoom = all;
            self.list();
        } else if self.view == View::Callers && self.focus.len() > 1 {
            self.focus.pop();
            self.calls = Default::default();
            self.expanded.clear();
            self.list();
        } else if self.scope.task.take().is_some() {
            self.list();
        } else if !self.filter_text.is_empty() {
            self.set_filter("");
        }
    }

    fn move_cursor(&mut self, code: KeyCode) {
        if self.view == View::Flame {
            return self.move_in_flame(code);
        }
        if let (View::Callers, KeyCode::Left | KeyCode::Right) = (self.view, code) {
            return self.open_row(code == KeyCode::Right);
        }
        let page = isize::try_from(self.page.max(2) - 1).unwrap_or(1);
        match code {
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            KeyCode::PageUp => self.step(-page),
            KeyCode::PageDown => self.step(page),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Home => self.go_to_top(),
            _ => {}
        }
    }

    fn step(&mut self, by: isize) {
        match self.view {
            View::Functions => self.functions.cursor.step(by),
            View::Tasks => self.tasks.cursor.step(by),
            View::Callers => self.calls.cursor.step(by),
            View::Flame => {}
        }
    }

    fn open_row(&mut self, open: bool) {
        let row = self.calls.selected();
        if let Some((side, path)) =
            row.filter(|row| row.open.is_some()).and_then(|row| Some((row.side?, row.path)))
        {
            self.expanded.insert((side, path), open);
            self.list();
        }
    }

    fn move_in_flame(&mut self, code: KeyCode) {
        let Some(flame) = &self.flame.tree else { return };
        let from = |path, step| flame.step(path, step);
        let step = |step| from(self.flame.cursor, step);
        let next = match code {
            KeyCode::Up => step(Direction::Up),
            KeyCode::Down => step(Direction::Down),
            KeyCode::Left => step(Direction::Left),
            KeyCode::Right => step(Direction::Right),
            KeyCode::Home => self.flame.zoom,
            KeyCode::PageUp => (0..self.page).fold(self.flame.cursor, |path, _| from(path, Direction::Up)),
            KeyCode::PageDown => {
                (0..self.page).fold(self.flame.cursor, |path, _| from(path, Direction::Down))
            }
            KeyCode::End => {
                let mut path = self.flame.cursor;
                loop {
                    let next = from(path, Direction::Up);
                    if next == path {
                        break path;
                    }
                    path = next;
                }
            }
            _ => return,
        };
        self.flame.cursor = next;
    }

    fn prompt_key(&mut self, code: KeyCode) -> Option<Request> {
        let prompt = self.prompt.as_mut()?;
        match code {
            KeyCode::Char(character) => {
                prompt.take_over("");
                prompt.text.push(character);
            }
            KeyCode::Backspace => {
                prompt.take_over(" ");
                prompt.text.pop();
            }
            KeyCode::Right | KeyCode::End => prompt.is_offered = false,
            KeyCode::Esc => {
                let Prompt { purpose, before, .. } = self.prompt.take()?;
                if purpose == Purpose::Filter {
                    self.set_filter(&before);
                }
                return None;
            }
            KeyCode::Enter => {
                let Prompt { purpose, text, .. } = self.prompt.take()?;
                return (purpose == Purpose::Save && !text.is_empty()).then_some(Request::Save(text));
            }
            _ => return None,
        }
        self.prompt_changed();
        None
    }

    /// Applies the filter while it is typed.
    fn prompt_changed(&mut self) {
        if let Some(Prompt { purpose: Purpose::Filter, text, .. }) = &self.prompt {
            let text = text.clone();
            self.set_filter(&text);
        }
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let up = mouse.kind == MouseEventKind::ScrollUp;
                if let Some(line) = self.help {
                    self.help = Some(if up { line.saturating_sub(1) } else { line + 1 });
                } else if self.view == View::Flame {
                    self.move_in_flame(if up { KeyCode::Up } else { KeyCode::Down });
                } else {
                    self.step(if up { -3 } else { 3 });
                }
            }
            MouseEventKind::Down(MouseButton::Left) => {
                let place = Position::new(mouse.column, mouse.row);
                let spot =
                    self.click_areas.iter().find(|(area, _)| area.contains(place)).map(|&(_, spot)| spot);
                if self.help.take().is_none()
                    && let Some(spot) = spot
                {
                    self.message = None;
                    self.click(spot);
                }
            }
            _ => {}
        }
    }

    fn click(&mut self, spot: ClickTarget) {
        match spot {
            ClickTarget::Tab(view) => self.go_to(view),
            ClickTarget::Column(order) => {
                self.function_order = order;
                self.frozen = false;
                self.go_to_top();
                self.list();
            }
            ClickTarget::Row(index) => {
                let again = match self.view {
                    View::Functions => self.functions.cursor.click(index),
                    View::Tasks => self.tasks.cursor.click(index),
                    View::Callers => self.calls.cursor.click(index),
                    View::Flame => false,
                };
                if again {
                    self.zoom();
                }
            }
            ClickTarget::Tile(path) => {
                let again = self.flame.cursor == path;
                self.flame.cursor = path;
                if again {
                    self.zoom();
                }
            }
        }
    }
}
