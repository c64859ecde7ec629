//! `prof annotate`: lists source lines and instructions of a function with their samples.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use analysis::annotate::{
    Annotator, Chosen, HAS_DISASSEMBLY, Syntax, Whole, name_of_whole, sampled_functions, wholes,
};
use analysis::input::Input;
use analysis::{EventView, Notices, Request, TimeWeight, archive};
use anyhow::{Context, bail};
use clap::Args;
use export::annotate::{AnnotatedFunction, Listing, write_json, write_text};
use export::report::nearest_names;
use export::summary::losses;
use export::{ShownNames, safe_label};
use model::Harm;
use profile::{Pattern, Show};

use crate::arguments::{QueryArguments, RecordingArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};
use crate::source_files::{self, SourceFiles};

/// Maximum number of names suggested if none matches.
const MAX_SUGGESTIONS: usize = 8;

/// Arguments of `prof annotate`.
#[derive(Args)]
#[command(
    override_usage = "prof annotate [OPTIONS] <FUNC> [FILE]\n       prof annotate [OPTIONS] --hottest <N> [FILE]",
    before_help = "\
Examples:
  prof annotate parse                   lines and instructions of the function `parse`
  prof annotate parse -i perf.data      of a recording of perf
  prof annotate --hottest 3             the three functions with most samples
  prof annotate --full --syntax intel parse"
)]
pub struct AnnotateArguments {
    /// Function name, or a unique part of it
    ///
    /// It ignores case unless it contains a capital. Not with --hottest.
    #[arg(value_name = "FUNC", required_unless_present = "hottest")]
    function: Option<String>,
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The N functions with the most samples
    #[arg(long, value_name = "N", conflicts_with = "file")]
    hottest: Option<usize>,
    /// Also show lines without samples
    #[arg(long)]
    full: bool,
    /// Syntax of x86 instructions
    #[arg(long, value_name = "SYNTAX", default_value = "att", value_parser = ["att", "intel"])]
    syntax: String,
    /// Search sources below TO if debug information says FROM (may be repeated)
    #[arg(long, value_name = "FROM=TO", value_parser = source_files::parse_replacement)]
    source_dir: Vec<(String, PathBuf)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    query: QueryArguments,
}

impl AnnotateArguments {
    /// Returns the path of the recording. With --hottest, the first word is the recording.
    fn path(&self) -> Option<&Path> {
        let first = self.function.as_deref().map(Path::new).filter(|_| self.hottest.is_some());
        self.recording.path().or(first)
    }
}

/// Lists a function.
///
/// # Errors
/// The recording cannot be read, no function matches, or the listing cannot be written.
pub fn run(arguments: &AnnotateArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if !HAS_DISASSEMBLY {
        bail!(
            "this build cannot show instructions (cargo feature `disassembly`); try: cargo install --path crates/cli"
        );
    }
    if let (Some(_), Some(function), Some(_)) =
        (arguments.hottest, &arguments.function, arguments.recording.path())
    {
        bail!("with --hottest, `{function}` and -i name two recordings; try without one of them");
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let source = RecordingSource::File(arguments.path());
    let sources = SourceFiles::new(&arguments.source_dir);
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |input, output| {
        list(arguments, input, &sources, output, console)
    })
}

fn list(
    arguments: &AnnotateArguments,
    input: Input,
    sources: &SourceFiles<'_>,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let input = input.recording_only()?;
    let (query, stacks) = (&arguments.query, &arguments.query.stacks);
    if let Some(weight @ (TimeWeight::Wall | TimeWeight::OffCpu)) = stacks.time() {
        bail!(
            "a thread that waits executes no instruction; try: prof report --weight {}, or prof annotate --weight cpu",
            weight.name()
        );
    }
    // Inlined functions are resolved even with --no-inline, so that they can be found by name.
    let mut settings = query.settings(&input, false);
    settings.options.inlines = true;
    let request = Request { several_events: false, ..query.request(&settings) };
    let (carried, damage) = archive::code(&input.reader, settings.options.names);
    if let Some(damage) = damage {
        console.warn(Harm::Names, &format!("the code in {} is damaged: {damage}", input.name));
    }
    let analysis = input::analyse(input, &request, "annotate", console)?;
    let name = &analysis.name;
    let event = analysis.events.first().with_context(|| format!("cannot annotate {name}"))?;
    let show = Show { modules: true, ..stacks.show_for_others() };
    let shown =
        EventView::new(&analysis, event, show, stacks.weight(&event.event.attr), &stacks.shape(), console);
    let chosen = choose(arguments, wholes(sampled_functions(&analysis, &shown.view)))?;
    let syntax = if arguments.syntax == "intel" { Syntax::Intel } else { Syntax::Att };
    let annotator = Annotator::new(&analysis, &settings, syntax, carried);
    let annotated: Vec<AnnotatedFunction> =
        chosen.iter().map(|chosen| annotator.annotate_whole(chosen)).collect();
    let owners = annotator.source_owners();
    let listing = Listing {
        event: &shown.name,
        unit: shown.unit(),
        total: event.profile.total().weight(shown.view.weight()),
        lost: analysis.loss.samples,
        sources: &|path| sources.text(path, &owners),
        full: arguments.full,
        colour: arguments.output.is_none() && is_coloured(),
    };
    if arguments.json {
        write_json(&listing, &annotated, output)?;
    } else {
        write_text(&listing, &annotated, output)?;
    }
    sources.remarks().iter().for_each(|remark| console.warn(Harm::Names, remark));
    let losses = losses(&analysis.loss);
    if !losses.is_empty() {
        console.warn(Harm::Samples, &format!("missing in this recording: {losses}"));
    }
    Ok(())
}

/// Returns true if the listing is coloured, by `NO_COLOR`, `CLICOLOR_FORCE` and whether standard output is a terminal.
fn is_coloured() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !forbidden && (set("CLICOLOR_FORCE") || std::io::stdout().is_terminal())
}

/// Chooses the functions to list: the hottest, or the one that matches the given name.
///
/// # Errors
/// No function or several functions match.
fn choose(arguments: &AnnotateArguments, functions: Vec<Whole>) -> anyhow::Result<Vec<Chosen>> {
    let typed = match (arguments.hottest, arguments.function.as_deref()) {
        (Some(count), _) => return Ok(functions.into_iter().take(count).map(Chosen::Whole).collect()),
        (None, typed) => typed.unwrap_or_default(),
    };
    let wanted = Pattern::parse(typed)?;
    let quoted = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<&str> = names.take(MAX_SUGGESTIONS).collect();
        let shown = ShownNames::new(names.iter().copied(), false);
        let names = names.iter().map(|name| format!("`{}`", safe_label(&shown.of(name))));
        names.collect::<Vec<_>>().join(", ")
    };
    let pieces = || functions.iter().flat_map(|(_, pieces)| pieces);
    let mut inlined: Vec<&Arc<str>> = pieces().flat_map(|piece| &piece.inlined).collect();
    inlined.sort_unstable();
    inlined.dedup();
    let instances = |name: &Arc<str>| {
        let callers = pieces().filter(|piece| piece.inlined.contains(name)).cloned();
        Ok(vec![Chosen::Inlined(Arc::clone(name), callers.collect())])
    };
    let is_it = |name: &str| name == name_of_whole(typed) || wanted.is_exactly(name);
    if let Some(whole) = functions.iter().find(|(name, _)| is_it(name)) {
        return Ok(vec![Chosen::Whole(whole.clone())]);
    }
    if let Some(name) = inlined.iter().find(|name| wanted.is_exactly(name)) {
        return instances(name);
    }
    let fitting: Vec<&Whole> = functions.iter().filter(|(name, _)| wanted.matches(name, None)).collect();
    let fitting_inlined: Vec<_> = inlined.iter().copied().filter(|name| wanted.matches(name, None)).collect();
    match (fitting.as_slice(), fitting_inlined.as_slice()) {
        ([only], _) => return Ok(vec![Chosen::Whole((*only).clone())]),
        ([], [only]) => return instances(only),
        ([], []) => {}
        ([], several) => bail!(
            "`{typed}` matches {} inlined functions; try one of them: {}",
            several.len(),
            quoted(&mut several.iter().map(|name| &***name))
        ),
        (several, _) => bail!(
            "`{typed}` matches {} functions; try one of them: {}",
            several.len(),
            quoted(&mut several.iter().map(|(name, _)| name.as_str()))
        ),
    }
    let all = functions.iter().map(|(name, _)| name.as_str()).chain(inlined.iter().map(|name| &***name));
    let nearest = nearest_names(all, typed);
    let nearest = match quoted(&mut nearest.iter().map(String::as_str)) {
        names if names.is_empty() => String::new(),
        names => format!("; nearest: {names}"),
    };
    bail!(
        "no sample was taken in a function `{typed}`{nearest}; most were taken in {}",
        quoted(&mut functions.iter().map(|(name, _)| name.as_str()))
    )
}
