//! The state of the screen: what the user has chosen, and the rows that follow from it and from the snapshot.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;

use analysis::annotate::HAS_DISASSEMBLY;
use crossterm::event::KeyCode;
use export::annotate::ListingRow;
use live::function_code::CodeQuery;
use model::Loss;

use super::code_view::{CodeAnswer, CodeRequest, CodeView};
use super::list_cursor::ListCursor;
use live::filter::Filter;
use live::snapshot::{Function, Snapshot, Span};
use live::views::{
    CallRow, CallersAndCallees, ExpandedRows, FlameTree, FunctionRow, PathKey, Scope, TaskChoice, TaskOrder,
    TaskRow, TimeSpent, functions, tasks,
};

/// Columns by which the left and right keys scroll.
const COLUMN_STEP: usize = 8;

/// The views, in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// Functions.
    Functions,
    /// Processes and threads.
    Tasks,
    /// Callers and callees.
    Callers,
    /// The flame graph.
    Flame,
}

impl View {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Functions, Self::Tasks, Self::Callers, Self::Flame];

    /// Returns the title of the view.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Tasks => "processes",
            Self::Callers => "callers",
            Self::Flame => "flame graph",
        }
    }
}

/// The order of functions in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FunctionOrder {
    /// By self weight.
    SelfWeight,
    /// By total weight, with callees.
    TotalWeight,
    /// By name.
    Name,
    /// By module, then by self weight.
    Module,
}

/// A line that is being typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Prompt {
    /// The purpose of the text that is typed.
    pub(crate) purpose: Purpose,
    /// The text so far.
    pub(crate) text: String,
    /// True while the text is one that we offer: what is typed replaces it.
    pub(crate) is_offered: bool,
    /// The filter before, which Esc restores.
    pub(crate) before: String,
}

/// The purpose for which a line is typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// The filter.
    Filter,
    /// The name of a file.
    Save,
}

/// Something on the screen that can be clicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClickTarget {
    /// The title of a view.
    Tab(View),
    /// A row of a list.
    Row(usize),
    /// A frame of the flame graph.
    Tile(PathKey),
    /// The head of a column.
    Column(FunctionOrder),
}

/// The state of the screen.
pub(crate) struct App {
    /// The snapshot that is shown.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The newest snapshot, while the screen is paused and shows an older one.
    newest: Option<Arc<Snapshot>>,
    /// The view that is shown.
    pub(crate) view: View,
    /// The samples that are shown.
    pub(crate) scope: Scope,
    /// The filter as typed.
    pub(crate) filter_text: String,
    /// True if the screen is paused.
    pub(crate) paused: bool,
    /// True if rows keep their places.
    pub(crate) frozen: bool,
    /// The span that the user has chosen. Snapshots of another span may still arrive.
    pub(crate) span: Span,
    /// The order of functions.
    pub(crate) function_order: FunctionOrder,
    /// The order of processes.
    pub(crate) task_order: TaskOrder,
    /// The prompt, while something is typed.
    pub(crate) prompt: Option<Prompt>,
    /// The first line of the help on the screen, while the help is shown.
    pub(crate) help: Option<usize>,
    /// The code of a function, while it is shown instead of the view.
    pub(crate) code: Option<CodeView>,
    /// A short message, until the next key.
    pub(crate) message: Option<String>,
    /// The functions listed.
    pub(crate) functions: Vec<FunctionRow>,
    /// The cursor among them.
    pub(crate) function_cursor: ListCursor<u32>,
    /// The processes and threads listed.
    pub(crate) tasks: Vec<TaskRow>,
    /// The cursor among them.
    pub(crate) task_cursor: ListCursor<TaskChoice>,
    /// The functions whose callers and callees were shown. The last one is shown now; Esc goes back to the one before.
    pub(crate) focus: Vec<Function>,
    /// The callers and callees.
    pub(crate) callers_and_callees: Option<CallersAndCallees>,
    /// Their rows.
    pub(crate) call_rows: Vec<CallRow>,
    /// The cursor among them.
    pub(crate) call_cursor: ListCursor<(Option<live::views::Side>, PathKey)>,
    /// Rows of callers and callees that the user has opened or closed.
    pub(crate) expanded: ExpandedRows,
    /// The flame graph.
    pub(crate) flame: Option<FlameTree>,
    /// The frame that is as wide as the screen.
    pub(crate) flame_zoom: PathKey,
    /// The frame under the cursor.
    pub(crate) flame_cursor: PathKey,
    /// The weight of all stacks in the scope.
    pub(crate) total: u64,
    /// The share of idle CPUs in all samples, in per cent.
    pub(crate) idle_share: f64,
    /// The time of threads by what they did, where that is shown.
    pub(crate) spent: Option<TimeSpent>,
    /// The areas that can be clicked, as drawn last.
    pub(crate) click_areas: Vec<(Rect, ClickTarget)>,
    /// The number of rows that a list had, as drawn last.
    pub(crate) page: usize,
}

impl App {
    /// Shows an empty list of functions.
    pub(crate) fn new(scope: Scope, span: Span) -> Self {
        Self {
            snapshot: Arc::default(),
            newest: None,
            view: View::Functions,
            scope,
            filter_text: String::new(),
            paused: false,
            frozen: false,
            span,
            function_order: FunctionOrder::SelfWeight,
            task_order: TaskOrder::Weight,
            prompt: None,
            help: None,
            code: None,
            message: None,
            functions: Vec::new(),
            function_cursor: ListCursor::default(),
            tasks: Vec::new(),
            task_cursor: ListCursor::default(),
            focus: Vec::new(),
            callers_and_callees: None,
            call_rows: Vec::new(),
            call_cursor: ListCursor::default(),
            expanded: ExpandedRows::default(),
            flame: None,
            flame_zoom: PathKey::default(),
            flame_cursor: PathKey::default(),
            total: 0,
            idle_share: 0.0,
            spent: None,
            click_areas: Vec::new(),
            page: 10,
        }
    }

    /// Receives a new snapshot. Shows it, unless the screen is paused.
    pub(crate) fn receive(&mut self, snapshot: Arc<Snapshot>) {
        if self.paused {
            // A paused screen keeps its samples; names that become known still appear.
            if Arc::make_mut(&mut self.snapshot).update_names(&snapshot) {
                self.list();
            }
            self.newest = Some(snapshot);
        } else {
            self.show(snapshot);
        }
    }

    fn show(&mut self, snapshot: Arc<Snapshot>) {
        if snapshot.numbering != self.snapshot.numbering {
            let old = &self.snapshot.functions;
            let numbers: HashMap<&Function, u32> = snapshot.functions.iter().zip(0..).collect();
            let number = |number: u32| numbers.get(old.get(number as usize)?).copied();
            self.function_cursor.renumber(|old| number(old).unwrap_or(u32::MAX));
        }
        self.snapshot = snapshot;
        self.list();
    }

    /// Shows no samples, until new ones come.
    pub(crate) fn clear(&mut self) {
        let shown = Arc::make_mut(&mut self.snapshot);
        shown.stacks.clear();
        let status = &mut shown.status;
        (status.samples, status.aged_out, status.covered) = (0, 0, Duration::ZERO);
        status.loss = Loss::default();
        status.complete = status.complete.map(|_| 0);
        self.list();
    }

    /// Pauses the screen, or shows the newest snapshot again.
    pub(crate) fn toggle_pause(&mut self) {
        self.paused = !self.paused;
        if let (false, Some(newest)) = (self.paused, self.newest.take()) {
            self.show(newest);
        }
    }

    /// Applies a filter.
    pub(crate) fn set_filter(&mut self, text: &str) {
        self.filter_text = text.to_owned();
        self.scope.filter = Filter::parse(text);
        self.list();
    }

    /// Makes the rows of the current view from the snapshot and the user's choices.
    pub(crate) fn list(&mut self) {
        self.total = self.scope.total(&self.snapshot);
        self.idle_share = self.scope.idle_share(&self.snapshot);
        let event = self.snapshot.status.events.get(self.scope.event as usize);
        let is_time = event.is_some_and(|event| event.is_time);
        self.spent = is_time.then(|| TimeSpent::of(&self.snapshot, &self.scope));
        match self.view {
            View::Functions => self.list_functions(),
            View::Tasks => self.list_tasks(),
            View::Callers => self.list_callers_and_callees(),
            View::Flame => {
                let zoomed = self.flame.as_ref().and_then(|flame| flame.weight(self.flame_zoom));
                let whole = zoomed.filter(|_| self.flame_zoom != PathKey::default()).unwrap_or(self.total);
                self.flame = Some(FlameTree::new(&self.snapshot, &self.scope, whole));
            }
        }
    }

    fn list_functions(&mut self) {
        let mut rows = functions(&self.snapshot, &self.scope);
        // Equal weights are ordered by function number: comparing the names of ten thousand functions takes longer than all the rest.
        match self.function_order {
            FunctionOrder::SelfWeight => {
                rows.sort_unstable_by_key(|row| (Reverse((row.self_weight, row.total)), row.function));
            }
            FunctionOrder::TotalWeight => {
                rows.sort_unstable_by_key(|row| (Reverse((row.total, row.self_weight)), row.function));
            }
            FunctionOrder::Name => rows = self.by_function(rows, |_, function| function),
            FunctionOrder::Module => {
                rows = self.by_function(rows, |row, function| {
                    (&function.module, Reverse(row.self_weight), function)
                });
            }
        }
        let keys = rows.iter().map(|row| row.function).collect();
        let order = self.function_cursor.update(keys, self.frozen);
        self.functions = reorder(rows, &order);
    }

    /// Sorts rows by a key of the row and its function.
    fn by_function<'a, K: Ord>(
        &'a self,
        rows: Vec<FunctionRow>,
        key: impl Fn(&FunctionRow, &'a Function) -> K,
    ) -> Vec<FunctionRow> {
        let functions = &self.snapshot.functions;
        let keyed = rows.into_iter().map(|row| (key(&row, &functions[row.function as usize]), row));
        let mut keyed: Vec<(K, FunctionRow)> = keyed.collect();
        keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
        keyed.into_iter().map(|(_, row)| row).collect()
    }

    fn list_tasks(&mut self) {
        let rows = tasks(&self.snapshot, &self.scope, self.task_order);
        let order = self.task_cursor.update(rows.iter().map(|row| row.choice).collect(), self.frozen);
        self.tasks = reorder(rows, &order);
    }

    fn list_callers_and_callees(&mut self) {
        if self.focus.is_empty()
            && let Some(function) = self.selected_function()
        {
            self.focus.push(function);
        }
        self.callers_and_callees = self
            .focus
            .last()
            .and_then(|function| CallersAndCallees::new(&self.snapshot, &self.scope, function));
        let rows = self.callers_and_callees.as_ref().map_or_else(Vec::new, |n| n.rows(&self.expanded));
        let keys: Vec<_> = rows.iter().map(|row| (row.side, row.path)).collect();
        if self.call_cursor.is_at_start() {
            self.call_cursor.select(&(None, PathKey::default()));
        }
        // The tree decides where rows belong, so that they cannot be frozen.
        self.call_cursor.update(keys, false);
        self.call_rows = rows;
    }

    /// Returns the function under the cursor of the functions view. Makes the list first if it was never shown.
    pub(crate) fn selected_function(&mut self) -> Option<Function> {
        if self.functions.is_empty() {
            self.list_functions();
        }
        let row = self.functions.get(self.function_cursor.index())?;
        self.snapshot.functions.get(row.function as usize).cloned()
    }

    /// Shows callers and callees of `function`.
    pub(crate) fn show_callers(&mut self, function: Function) {
        if self.focus.last() != Some(&function) {
            self.focus.push(function);
        }
        self.call_cursor = ListCursor::default();
        self.expanded.clear();
        self.view = View::Callers;
        self.list();
    }

    /// Moves the cursor of the list to its top.
    pub(crate) fn go_to_top(&mut self) {
        match self.view {
            View::Functions => self.function_cursor.home(),
            View::Tasks => self.task_cursor.home(),
            View::Callers => self.call_cursor.go_to(0),
            View::Flame => {}
        }
    }

    /// Goes to a view. From the list of functions, the callers are those of the selected one.
    pub(crate) fn go_to(&mut self, view: View) {
        self.code = None;
        if view == View::Callers && self.view == View::Functions {
            self.focus.clear();
            self.call_cursor = ListCursor::default();
            self.expanded.clear();
        }
        self.view = view;
        self.list();
    }

    /// Opens the code of a function and returns the request for it. Where no sample lies in the function itself, shows its callers and
    /// callees instead, with a message.
    pub(crate) fn open_code(&mut self, function: Function) -> Option<CodeRequest> {
        if !HAS_DISASSEMBLY {
            self.message =
                Some("this build shows no instructions: its feature `disassembly` is off".to_owned());
            return None;
        }
        let query = CodeQuery::new(&self.snapshot, &self.scope, &function);
        if query.is_empty() {
            self.focus.clear();
            self.show_callers(function);
            self.message = Some(
                "no sample is in the code of this function: these are its callers and callees".to_owned(),
            );
            return None;
        }
        self.code =
            Some(CodeView { function, rows: None, first: 0, shift: 0, is_stale: false, is_asked: true });
        Some(self.request(query))
    }

    /// Returns the request for the code that is shown, with the samples of a new snapshot.
    pub(crate) fn refresh_code(&mut self) -> Option<CodeRequest> {
        let function = self.code.as_ref().filter(|code| !code.is_asked && !self.paused)?.function.clone();
        let query = CodeQuery::new(&self.snapshot, &self.scope, &function);
        let code = self.code.as_mut()?;
        code.is_stale = query.is_empty();
        code.is_asked = !code.is_stale;
        code.is_asked.then(|| self.request(query))
    }

    fn request(&self, query: CodeQuery) -> CodeRequest {
        let status = &self.snapshot.status;
        let event = status.events.get(self.scope.event as usize).cloned().unwrap_or_default();
        // The weights of time are nanoseconds.
        let unit = if event.is_time { "ns".to_owned() } else { event.unit };
        CodeRequest { query, event: event.name, unit, lost: status.loss.samples }
    }

    /// Shows an answer, if its function is still the one on the screen. The row at the top stays there.
    pub(crate) fn receive_code(&mut self, answer: CodeAnswer) {
        let Some(code) = self.code.as_mut().filter(|code| code.function == answer.function) else { return };
        code.is_asked = false;
        let address = |rows: &Vec<ListingRow>| rows.get(code.first..)?.iter().find_map(|row| row.address);
        let top = code.rows.as_ref().and_then(|rows| rows.as_ref().ok()).and_then(address);
        if let (Some(top), Ok(rows), true) = (top, &answer.rows, code.first > 0)
            && let Some(place) = rows.iter().position(|row| row.address == Some(top))
        {
            code.first = place;
        }
        code.rows = Some(answer.rows);
    }

    /// Handles a key while code is shown. Returns false for keys that do the same as in other views.
    pub(crate) fn code_key(&mut self, key: KeyCode) -> bool {
        let page = self.page;
        let Some(code) = &mut self.code else { return false };
        match key {
            KeyCode::Esc | KeyCode::Char('q') => self.code = None,
            KeyCode::Up => code.scroll(-1, page),
            KeyCode::Down => code.scroll(1, page),
            KeyCode::PageUp => code.scroll(1 - isize::try_from(page).unwrap_or(2), page),
            KeyCode::PageDown => code.scroll(isize::try_from(page).unwrap_or(2) - 1, page),
            KeyCode::Home => code.first = 0,
            KeyCode::End => code.scroll(isize::MAX, page),
            KeyCode::Left => code.shift = code.shift.saturating_sub(COLUMN_STEP),
            KeyCode::Right => code.shift = (code.shift + COLUMN_STEP).min(usize::from(u16::MAX)),
            KeyCode::Tab => code.next_hot(page),
            KeyCode::Enter => {}
            // Keys that choose samples or views, or stop the screen.
            KeyCode::Char('?' | '1'..='4' | ' ' | 'w' | 'z' | 'k' | 'u' | 'i' | 'e') => return false,
            _ => {}
        }
        true
    }
}

fn reorder<T>(rows: Vec<T>, order: &[usize]) -> Vec<T> {
    let mut rows: Vec<Option<T>> = rows.into_iter().map(Some).collect();
    order.iter().filter_map(|&index| rows.get_mut(index)?.take()).collect()
}
