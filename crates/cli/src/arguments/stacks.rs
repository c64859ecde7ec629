//! Arguments that select frames, and the weight of stacks.

use std::ops::RangeInclusive;
use std::str::FromStr;

use analysis::TimeWeight;
use analysis::events::weight_of;
use clap::Args;
use decoder::Attr;
use profile::{Pattern, PatternError, Shape, Show, Weight};

use super::NumberList;

/// Arguments that select frames, and the weight of stacks.
///
/// A pattern is a part of a function's name (ignoring case unless it contains a capital) or a regular expression between slashes.
/// With the prefix `mod:` it matches modules.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub struct StackArguments {
    /// Omit inlined functions
    #[arg(hide_short_help = true, long)]
    no_inline: bool,
    /// Omit the kernel frames of stacks
    #[arg(hide_short_help = true, long)]
    no_kernel: bool,
    /// Omit the user-space frames of stacks
    #[arg(hide_short_help = true, long)]
    no_user: bool,
    /// Omit matching frames: PATTERN is text, a /regular expression/, or either for modules: mod:libc (may be repeated)
    #[arg(hide_short_help = true, long, value_name = "PATTERN", value_parser = Pattern::parse)]
    hide: Vec<Pattern>,
    /// Only samples with a matching frame; all filters: prof help filters
    ///
    /// May be repeated: any of them.
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    keep: Vec<Pattern>,
    /// Start stacks at their outermost frame of this function, and omit samples without one
    #[arg(hide_short_help = true, long, value_name = "FUNC", value_parser = Pattern::parse)]
    root_at: Option<Pattern>,
    /// Merge the frames of recursive functions, or consecutive frames of a module, into one
    #[arg(hide_short_help = true, long, value_name = "recursion|MODULE", value_parser = Collapse::from_str)]
    collapse: Vec<Collapse>,
    /// Omit the closures, polls and schedulers between async functions of Rust
    #[arg(hide_short_help = true, long)]
    fold_async: bool,
    /// Show all frames: also those that start programs and threads, which pictures, pages and trees fold into one, [start],
    /// and inlined functions that are one line of a standard library, whose samples are their callers' otherwise
    #[arg(hide_short_help = true, long)]
    pub all_frames: bool,
    /// Weight of a stack: number of samples, or sum of their periods [default: depends on the event]. For recordings with
    /// --off-cpu also the time of threads: cpu (running), offcpu (waiting for a CPU, or blocked), wall
    /// (both), latency (running, divided by the number of threads of the process that run at the same time)
    #[arg(hide_short_help = true, long, value_name = "KIND", value_parser = ["samples", "period", "cpu", "wall", "offcpu", "latency"])]
    weight: Option<String>,
    /// Only while so many threads of a process run at the same time: 1, or 2-4. Needs a recording with --off-cpu; the weight is then cpu,
    /// or latency
    #[arg(hide_short_help = true, long, value_name = "N[-M]", conflicts_with = "off_cpu")]
    parallelism: Option<NumberList>,
    /// Show where threads run and where they wait (a recording with --off-cpu)
    ///
    /// The same as --weight wall.
    #[arg(long, conflicts_with = "weight")]
    off_cpu: bool,
    /// With --off-cpu: show who woke blocked threads, above what they waited for (flame, report, export; needs a recording with
    /// tracepoints)
    #[arg(hide_short_help = true, long)]
    wakers: bool,
    #[command(flatten)]
    nameless: NamelessArguments,
}

/// The argument that merges functions without names.
#[derive(Args, Clone, Debug, Default)]
pub struct NamelessArguments {
    /// Merge all functions of a module that have no name into one frame, [nginx], even if unwind tables separate them:
    /// [nginx+0x1a40]
    #[arg(hide_short_help = true, long, help_heading = "Filters")]
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

    /// Returns true if any of these arguments is given.
    pub fn are_given(&self) -> bool {
        let Self {
            no_inline,
            no_kernel,
            no_user,
            hide,
            keep,
            root_at,
            collapse,
            fold_async,
            all_frames,
            weight,
            parallelism,
            off_cpu,
            wakers,
            nameless,
        } = self;
        let flags = [
            *no_inline,
            *no_kernel,
            *no_user,
            *fold_async,
            *all_frames,
            *off_cpu,
            *wakers,
            nameless.modules_only,
        ];
        flags.contains(&true)
            || !(hide.is_empty() && keep.is_empty() && collapse.is_empty())
            || root_at.is_some()
            || weight.is_some()
            || parallelism.is_some()
    }

    /// Returns true if any of these arguments compares functions by their names.
    pub fn compares_names(&self) -> bool {
        let Self { hide, keep, collapse, root_at, fold_async, .. } = self;
        !(hide.is_empty() && keep.is_empty() && collapse.is_empty()) || root_at.is_some() || *fold_async
    }

    /// Returns which frames are shown where stacks are drawn: what starts programs and threads is one.
    pub fn show_drawn(&self) -> Show {
        Show { fold_starts: !self.all_frames, ..self.show() }
    }

    /// Returns which frames are written for others.
    pub fn show_for_others(&self) -> Show {
        Show { one_liners: true, ..self.show() }
    }

    /// Returns which frames are shown in lists.
    pub fn show(&self) -> Show {
        Show {
            inlined: !self.no_inline,
            kernel: !self.no_kernel,
            user: !self.no_user,
            fold_async: self.fold_async,
            modules_only: self.nameless.modules_only,
            one_liners: self.all_frames,
            ..Show::default()
        }
    }

    /// Returns the filters on stacks.
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

    /// Returns the weight of the stacks of an event.
    pub fn weight(&self, attr: &Attr) -> Weight {
        self.chosen_weight().unwrap_or_else(|| weight_of(attr))
    }

    /// Returns the weight that `--weight` or `--off-cpu` chooses; `None` if neither is given.
    pub fn chosen_weight(&self) -> Option<Weight> {
        match self.weight.as_deref() {
            _ if self.off_cpu || self.parallelism.is_some() => Some(Weight::Period),
            Some("samples") => Some(Weight::Samples),
            Some(_) => Some(Weight::Period),
            None => None,
        }
    }

    /// Returns the kind of thread time by which stacks are weighed; `None` if they are weighed by samples.
    pub fn time(&self) -> Option<TimeWeight> {
        let usual = self.parallelism.as_ref().map(|_| TimeWeight::Cpu);
        let named = self.weight.as_deref().map_or(usual, TimeWeight::by_name);
        if self.off_cpu { Some(TimeWeight::Wall) } else { named }
    }

    /// Returns how many threads of a process run at the same time in what is shown; empty for any number.
    pub fn parallelism(&self) -> Vec<RangeInclusive<u32>> {
        self.parallelism.clone().map_or_else(Vec::new, |list| list.0)
    }

    /// Returns true if wakers of blocked threads are shown.
    pub fn wakers(&self) -> bool {
        self.wakers
    }

    /// Describes the filters on stacks; empty without any.
    pub fn description(&self) -> String {
        let typed = |name: &str, patterns: &[Pattern]| {
            patterns.iter().map(|pattern| format!("{name} {}", pattern.typed())).collect::<Vec<_>>()
        };
        let root = self.root_at.as_ref().map(|root| format!("stacks from {} on", root.typed()));
        let threads = self.parallelism.iter().flat_map(|list| &list.0).map(|range| {
            match (range.start(), range.end()) {
                (1, 1) => "while 1 thread runs".to_owned(),
                (first, last) if first == last => format!("while {first} threads run"),
                (first, last) => format!("while {first} to {last} threads run"),
            }
        });
        let words = typed("stacks with", &self.keep).into_iter().chain(typed("without", &self.hide));
        words.chain(root).chain(threads).collect::<Vec<_>>().join(", ")
    }
}
