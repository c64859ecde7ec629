//! The state of the screen: what the user has chosen, and the rows that follow from it and from the snapshot.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;

use export::report::{function, module};
use model::Loss;
use profile::Label;

use super::list_cursor::List;
use live::filter::Filter;
use live::snapshot::{Snapshot, Span};
use live::views::{
    CallRow, CallersAndCallees, ExpandedRows, FlameTree, FunctionRow, PathKey, Scope, Side, TaskChoice,
    TaskOrder, TaskRow, TimeSpent, functions, tasks,
};

/// The views, in the order of their numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// Functions.
    #[default]
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
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum FunctionOrder {
    /// By self weight.
    #[default]
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

/// The flame graph on the screen.
#[derive(Default)]
pub(crate) struct FlameView {
    /// The tree of frames that is drawn.
    pub(crate) tree: Option<FlameTree>,
    /// The frame that is as wide as the screen.
    pub(crate) zoom: PathKey,
    /// The frame under the cursor.
    pub(crate) cursor: PathKey,
}

/// The state of the screen.
#[derive(Default)]
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
    /// A short message, until the next key.
    pub(crate) message: Option<String>,
    /// The functions listed.
    pub(crate) functions: List<FunctionRow, Label>,
    /// The processes and threads listed.
    pub(crate) tasks: List<TaskRow, TaskChoice>,
    /// The functions whose callers and callees were shown. The last one is shown now; Esc goes back to the one before.
    pub(crate) focus: Vec<Label>,
    /// The callers and callees.
    pub(crate) callers_and_callees: Option<CallersAndCallees>,
    /// Their rows.
    pub(crate) calls: List<CallRow, (Option<Side>, PathKey)>,
    /// Rows of callers and callees that the user has opened or closed.
    pub(crate) expanded: ExpandedRows,
    /// The flame graph.
    pub(crate) flame: FlameView,
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
        Self { scope, span, page: 10, ..Self::default() }
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
        self.snapshot = snapshot;
        self.list();
    }

    /// Shows no samples, until new ones come.
    pub(crate) fn clear(&mut self) {
        let shown = Arc::make_mut(&mut self.snapshot);
        for profile in &mut shown.profiles {
            profile.take_counts();
        }
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
            View::Flame => self.flame.tree = Some(FlameTree::new(&self.snapshot, &self.scope)),
        }
    }

    fn list_functions(&mut self) {
        let mut rows = functions(&self.snapshot, &self.scope);
        // Equal weights are ordered by number: comparing the names of ten thousand functions takes longer than all the rest.
        match self.function_order {
            FunctionOrder::SelfWeight => {
                rows.sort_unstable_by_key(|row| (Reverse((row.self_weight, row.total)), row.number));
            }
            FunctionOrder::TotalWeight => {
                rows.sort_unstable_by_key(|row| (Reverse((row.total, row.self_weight)), row.number));
            }
            FunctionOrder::Name => {
                rows.sort_by_cached_key(|row| (function(&row.frame), module(&row.frame)));
            }
            FunctionOrder::Module => rows.sort_by_cached_key(|row| {
                (module(&row.frame), Reverse(row.self_weight), function(&row.frame))
            }),
        }
        self.functions.update(rows, |row| row.frame.label.clone(), self.frozen);
    }

    fn list_tasks(&mut self) {
        let rows = tasks(&self.snapshot, &self.scope, self.task_order);
        self.tasks.update(rows, |row| row.choice, self.frozen);
    }

    fn list_callers_and_callees(&mut self) {
        if self.focus.is_empty()
            && let Some(selected) = self.selected_function()
        {
            self.focus.push(selected);
        }
        self.callers_and_callees =
            self.focus.last().and_then(|label| CallersAndCallees::new(&self.snapshot, &self.scope, label));
        let rows = self.callers_and_callees.as_ref().map_or_else(Vec::new, |n| n.rows(&self.expanded));
        if self.calls.cursor.is_at_start() {
            self.calls.cursor.select(&(None, PathKey::default()));
        }
        // The tree decides where rows belong, so that they cannot be frozen.
        self.calls.update(rows, |row| (row.side, row.path), false);
    }

    /// Returns the function under the cursor of the functions view. Makes the list first if it was never shown.
    pub(crate) fn selected_function(&mut self) -> Option<Label> {
        if self.functions.rows.is_empty() {
            self.list_functions();
        }
        self.functions.selected().map(|row| row.frame.label.clone())
    }

    /// Shows callers and callees of the function with this label.
    pub(crate) fn show_callers(&mut self, label: Label) {
        if self.focus.last() != Some(&label) {
            self.focus.push(label);
        }
        self.calls = List::default();
        self.expanded.clear();
        self.view = View::Callers;
        self.list();
    }

    /// Moves the cursor of the list to its top.
    pub(crate) fn go_to_top(&mut self) {
        match self.view {
            View::Functions => self.functions.cursor.home(),
            View::Tasks => self.tasks.cursor.home(),
            View::Callers => self.calls.cursor.go_to(0),
            View::Flame => {}
        }
    }

    /// Goes to a view. From the list of functions, the callers are those of the selected one.
    pub(crate) fn go_to(&mut self, view: View) {
        if view == View::Callers && self.view == View::Functions {
            self.focus.clear();
            self.calls = List::default();
            self.expanded.clear();
        }
        self.view = view;
        self.list();
    }
}
