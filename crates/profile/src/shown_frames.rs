//! The frames of a stack entry, as far as a view shows them.

use std::sync::Arc;

use model::{Frame, Name, Resolution, Space, StackEntry};

use crate::async_rust::{self, Fold};
use crate::frame::{FrameKind, Label, Marks, ViewFrame, module_of};
use crate::one_liners;
use crate::runtime_names::{self, RuntimeName, Tiers};
use crate::shape::Filters;
use crate::start_frames::StartPart;

/// The choice of frames that a view has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Show {
    /// Functions that were inlined.
    pub inlined: bool,
    /// The kernel's part of stacks.
    pub kernel: bool,
    /// The user part of stacks.
    pub user: bool,
    /// The offsets of frames without a name.
    pub addresses: bool,
    /// All nameless functions of a module as one, though unwind tables tell them apart.
    pub modules_only: bool,
    /// The module of each function.
    pub modules: bool,
    /// The lines of the source, where names came with them: a function's calls differ by their lines then.
    pub lines: bool,
    /// Names as language runtimes write them, such as `JS:*handle /srv/app.js:4:16`.
    pub raw_names: bool,
    /// Async Rust without the closures and `poll`s that it is compiled to.
    pub fold_async: bool,
    /// Inlined functions that are one line of a standard library: their samples are their callers' without.
    pub one_liners: bool,
    /// In trees, the frames that start a program or a thread as one.
    pub fold_starts: bool,
}

impl Default for Show {
    fn default() -> Self {
        Self {
            inlined: true,
            kernel: true,
            user: true,
            addresses: false,
            modules_only: false,
            modules: false,
            lines: false,
            raw_names: false,
            fold_async: false,
            one_liners: true,
            fold_starts: false,
        }
    }
}

/// A frame as a view begins to know it.
pub(crate) struct NewFrame {
    pub(crate) frame: ViewFrame,
    pub(crate) marks: Marks,
    pub(crate) tiers: Tiers,
    pub(crate) fold: Fold,
}

/// The frames of a stack entry, outermost first, as far as they are shown.
pub(crate) fn frames_of(
    entry: &StackEntry,
    space: &Space,
    resolution: Option<&Resolution>,
    show: Show,
    filters: &Filters<'_>,
    mut push: impl FnMut(NewFrame),
) {
    let is_state = matches!(space, Space::State(_));
    if !is_state && if entry.in_kernel { !show.kernel } else { !show.user } {
        return;
    }
    let place = match space {
        _ if entry.in_kernel => FrameKind::Kernel,
        Space::Jit { .. } | Space::JitDump { .. } | Space::JavaScript { .. } => FrameKind::Jit,
        _ => FrameKind::User,
    };
    let filtered_module = if filters.ask_for_names() || show.fold_starts { module_of(space) } else { None };
    let module_name = filtered_module.as_ref().map(ToString::to_string);
    let module_name = module_name.as_deref();
    let mut push_unless_hidden =
        |name: &str, module: Option<&str>, frame: ViewFrame, tiers: Tiers, fold: Fold| {
            if filters.ask_for_names() && filters.hides(name, module) {
                return;
            }
            let mut marks =
                if filters.ask_for_names() { filters.marks(name, module) } else { Marks::default() };
            if show.fold_starts && !entry.in_kernel {
                marks.starts = StartPart::of(name, module);
            }
            push(NewFrame { frame, marks, tiers, fold });
        };
    let none = Tiers::empty();
    if let Some(module) = &filtered_module
        && filters.collapses(&module.to_string())
    {
        let label = Label::Module(module.clone(), None);
        let frame = ViewFrame { label, kind: place, line: None };
        push_unless_hidden(&format!("[{module}]"), module_name, frame, none, Fold::Merge);
        return;
    }
    let Some(Resolution::Resolved(symbolized)) = resolution else {
        let label = nameless(entry, space, resolution, show);
        let name = match &label {
            Label::Module(module, Some(address)) => format!("[{module}+{address:#x}]"),
            _ => module_name.map_or_else(|| "[unknown]".to_owned(), |module| format!("[{module}]")),
        };
        let frame = ViewFrame { label, kind: place, line: None };
        push_unless_hidden(&name, module_name, frame, none, Fold::Keep);
        return;
    };
    let module = if show.modules { module_of(space) } else { None };
    let is_shown = |function: &&Frame| {
        !function.inlined || (show.inlined && (show.one_liners || !one_liners::is_one(&function.function)))
    };
    for function in symbolized.frames.iter().rev().filter(is_shown) {
        let kind = if function.inlined { FrameKind::Inlined } else { place };
        let (name, fold) = if show.fold_async {
            let (name, fold) = async_rust::fold(&function.function);
            (Arc::from(name), fold)
        } else {
            (Arc::clone(&function.function), Fold::Keep)
        };
        let line = function.location.clone().filter(|_| show.lines);
        let known = if show.raw_names { None } else { runtime_names::parse(&name, kind == FrameKind::Jit) };
        let Some(RuntimeName { function, script, tiers }) = known else {
            let label = Label::Function(Arc::clone(&name), module.clone());
            push_unless_hidden(&name, module_name, ViewFrame { label, kind, line }, none, fold);
            continue;
        };
        // Without modules, the script tells functions of the same name apart.
        let text: Arc<str> = match script.filter(|_| !show.modules) {
            Some(script) => format!("{function} {script}").into(),
            None => Arc::from(&*function),
        };
        let module = script.filter(|_| show.modules).map(Name::from).or_else(|| module.clone());
        let label = Label::Function(Arc::clone(&text), module);
        push_unless_hidden(&text, script.or(module_name), ViewFrame { label, kind, line }, tiers, fold);
    }
}

fn nameless(entry: &StackEntry, space: &Space, resolution: Option<&Resolution>, show: Show) -> Label {
    let offset = match resolution {
        Some(Resolution::Delimited { start, .. }) if !show.addresses && !show.modules_only => Some(start.0),
        Some(Resolution::Delimited { start, offset, .. }) if show.addresses => {
            Some(start.0.wrapping_add(*offset))
        }
        _ => show.addresses.then_some(entry.offset),
    };
    match space {
        Space::Truncated(reason) => Label::Truncated(*reason),
        Space::State(state) => Label::State(state.clone()),
        _ => module_of(space).map_or(Label::Unknown(offset), |module| Label::Module(module, offset)),
    }
}
