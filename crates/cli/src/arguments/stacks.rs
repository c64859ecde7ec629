//! What of stacks is shown, and what makes them heavy.

use std::str::FromStr;

use analysis::TimeWeight;
use analysis::events::weight_of;
use clap::Args;
use decoder::Attr;
use profile::{Pattern, PatternError, Shape, Show, Weight};

/// Which frames.
///
/// A pattern is text in a function's name (ignoring case unless it has a capital), a regular expression between slashes,
/// or either of these about modules, with `mod:` before it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which frames")]
pub struct StackArguments {
    /// Without functions that the compiler put into their callers
    #[arg(long)]
    no_inline: bool,
    /// Without the kernel's part of stacks
    #[arg(long)]
    no_kernel: bool,
    /// Without the user part of stacks
    #[arg(long)]
    no_user: bool,
    /// Without frames that match: text, a regular expression between slashes, or either about modules: mod:libc
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    hide: Vec<Pattern>,
    /// Only samples with a frame that matches (may be given several times: any of them)
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    keep: Vec<Pattern>,
    /// Stacks from their outermost frame of this function on; samples without one are left out
    #[arg(long, value_name = "FUNC", value_parser = Pattern::parse)]
    root_at: Option<Pattern>,
    /// One frame for a function that calls itself, also through others (recursion), or for each run of a module's frames
    #[arg(long, value_name = "recursion|MODULE", value_parser = Collapse::from_str)]
    collapse: Vec<Collapse>,
    /// Async Rust without the closures, polls and schedulers that its functions are run by
    #[arg(long)]
    fold_async: bool,
    /// What makes a stack heavy: the number of its samples, or the sum of their periods [default: what fits the event]; of a
    /// recording with --off-cpu flame and report also take the time of its threads: cpu (running), offcpu (ready to run, or blocked), wall
    /// (both), latency (running, divided by how many threads of the process ran at that moment)
    #[arg(long, value_name = "KIND", value_parser = ["samples", "period", "cpu", "wall", "offcpu", "latency"])]
    weight: Option<String>,
    /// Where threads ran and where they waited, in one (flame, report): --weight wall
    #[arg(long, conflicts_with = "weight")]
    off_cpu: bool,
    /// With --off-cpu: who woke blocked threads, on top of what they waited for (flame, report, export; of recordings made with
    /// the right to record tracepoints)
    #[arg(long)]
    wakers: bool,
    #[command(flatten)]
    nameless: NamelessArguments,
}

/// How functions without a name are shown.
#[derive(Args, Clone, Debug, Default)]
pub struct NamelessArguments {
    /// One frame for all functions of a module that have no name, also where unwind tables tell them apart: [nginx] instead
    /// of [nginx+0x1a40], which is where the function begins
    #[arg(long, help_heading = "Which frames")]
    pub modules_only: bool,
}

#[derive(Clone, Debug)]
enum Collapse {
    Recursion,
    Module(Pattern),
}

impl FromStr for Collapse {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Ok(if text == "recursion" { Self::Recursion } else { Self::Module(Pattern::parse_module(text)?) })
    }
}

impl StackArguments {
    /// Returns true if inlined functions are shown.
    pub fn inlines(&self) -> bool {
        !self.no_inline
    }

    /// Returns true if the kernel's frames are shown.
    pub fn kernel(&self) -> bool {
        !self.no_kernel
    }

    /// Returns the choice of frames that these arguments make.
    pub fn show(&self) -> Show {
        Show {
            inlined: !self.no_inline,
            kernel: !self.no_kernel,
            user: !self.no_user,
            fold_async: self.fold_async,
            modules_only: self.nameless.modules_only,
            ..Show::default()
        }
    }

    /// The filters on stacks.
    pub fn shape(&self) -> Shape {
        let module = |collapse: &Collapse| match collapse {
            Collapse::Recursion => None,
            Collapse::Module(pattern) => Some(pattern.clone()),
        };
        Shape {
            hide: self.hide.clone(),
            keep: self.keep.clone(),
            root_at: self.root_at.clone(),
            collapse_modules: self.collapse.iter().filter_map(module).collect(),
            collapse_recursion: self.collapse.iter().any(|collapse| matches!(collapse, Collapse::Recursion)),
        }
    }

    /// Returns the quantity that makes the stacks of an event heavy.
    pub fn weight(&self, attr: &Attr) -> Weight {
        match self.weight.as_deref() {
            _ if self.time().is_some() => Weight::Period,
            Some("samples") => Weight::Samples,
            Some(_) => Weight::Period,
            None => weight_of(attr),
        }
    }

    /// Returns the time of threads that makes stacks heavy, where it is no sum of samples.
    pub fn time(&self) -> Option<TimeWeight> {
        let named = self.weight.as_deref().and_then(TimeWeight::by_name);
        if self.off_cpu { Some(TimeWeight::Wall) } else { named }
    }

    /// Returns true if waits are told apart by who ended them.
    pub fn wakers(&self) -> bool {
        self.wakers
    }

    /// Returns true if what makes stacks heavy was said.
    pub fn names_weight(&self) -> bool {
        self.weight.is_some()
    }

    /// Describes the samples and frames that filters leave, in words; empty for all.
    pub fn in_words(&self) -> String {
        let typed = |name: &str, patterns: &[Pattern]| {
            patterns.iter().map(|pattern| format!("{name} {}", pattern.typed())).collect::<Vec<_>>()
        };
        let root = self.root_at.as_ref().map(|root| format!("stacks from {} on", root.typed()));
        let words = typed("stacks with", &self.keep).into_iter().chain(typed("without", &self.hide));
        words.chain(root).collect::<Vec<_>>().join(", ")
    }
}
