//! `prof annotate`: source lines and instructions of a function, with samples.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use analysis::annotate::{Annotator, Chosen, HAS_DISASSEMBLY, Syntax, Whole, sampled_functions, wholes};
use analysis::input::Input;
use analysis::{Notices, Request, archive};
use anyhow::{Context, bail};
use clap::Args;
use export::annotate::{AnnotatedFunction, Listing, write_json, write_text};
use export::report::nearest_names;
use export::summary::losses;
use profile::Show;

use crate::arguments::{QueryArguments, RecordingArguments};
use crate::console::Console;
use crate::output::Output;
use crate::reading::{self, RecordingSource};
use crate::source_files::{self, SourceFiles};

/// Names that are offered where none fits.
const MAX_SUGGESTIONS: usize = 8;

/// Arguments of `prof annotate`.
#[derive(Args)]
#[command(
    override_usage = "prof annotate [OPTIONS] <FUNC> [FILE]\n       prof annotate [OPTIONS] --hottest <N> [FILE]"
)]
pub struct AnnotateArguments {
    /// The function: its name, or a part of it that only one has (case counts if a capital is typed); not with --hottest
    #[arg(value_name = "FUNC", required_unless_present = "hottest")]
    function: Option<String>,
    #[command(flatten)]
    recording: RecordingArguments,
    /// Where the listing goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The N functions that most samples were taken in
    #[arg(long, value_name = "N", conflicts_with = "file")]
    hottest: Option<usize>,
    /// Show also what has no samples
    #[arg(long)]
    full: bool,
    /// How instructions of x86 are written
    #[arg(long, value_name = "SYNTAX", default_value = "att", value_parser = ["att", "intel"])]
    syntax: String,
    /// Look for sources below TO where debug information says FROM (may be given several times)
    #[arg(long, value_name = "FROM=TO", value_parser = source_files::parse_replacement)]
    source_dir: Vec<(String, PathBuf)>,
    /// Print JSON (docs/schemas/annotate.json)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    query: QueryArguments,
}

impl AnnotateArguments {
    /// The recording that was named: with --hottest, what stands in the place of the function.
    fn path(&self) -> Option<&Path> {
        let first = self.function.as_deref().map(Path::new).filter(|_| self.hottest.is_some());
        self.recording.path().or(first)
    }
}

/// Lists a function.
///
/// # Errors
/// Where the recording cannot be read, no function fits, or the listing cannot be written.
pub fn run(arguments: &AnnotateArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if !HAS_DISASSEMBLY {
        bail!(
            "this build cannot show instructions: its cargo feature `disassembly` is off; try: cargo install --path crates/cli"
        );
    }
    if let (Some(_), Some(function), Some(_)) =
        (arguments.hottest, &arguments.function, arguments.recording.path())
    {
        bail!(
            "--hottest lists no function by name, and `{function}` and -i are two recordings; try it without one of them"
        );
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let source = RecordingSource::File(arguments.path());
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |input, output| {
        list(arguments, input, output, console)
    })
}

fn list(
    arguments: &AnnotateArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let (query, stacks) = (&arguments.query, &arguments.query.stacks);
    if let Some(weight) = stacks.time() {
        bail!(
            "annotate is about samples; for the time of threads try: prof report --weight {}",
            weight.name()
        );
    }
    // Inlined functions have no code of their own: to find them, they are always looked for.
    let mut settings = query.settings(&input, false);
    settings.options.inlines = true;
    let request = Request { several_events: false, ..query.request(&settings) };
    let (carried, damage) = archive::code(&input.reader, settings.options.names);
    if let Some(damage) = damage {
        console.warn(&format!("the code that {} carries is damaged: {damage}", input.name));
    }
    let name = input.name.clone();
    let analysis = reading::analyse(input, &request, "annotate", console)?;
    let event = analysis.events.first().with_context(|| format!("cannot annotate {name}"))?;
    let show = Show { modules: true, ..stacks.show() };
    let shown = analysis.event_view(event, show, stacks.weight(&event.event.attr), &stacks.shape(), console);
    let chosen = choose(arguments, wholes(sampled_functions(&analysis, &shown.view)))?;
    let syntax = if arguments.syntax == "intel" { Syntax::Intel } else { Syntax::Att };
    let annotator = Annotator::new(&analysis, &settings, syntax, carried);
    let annotated: Vec<AnnotatedFunction> =
        chosen.iter().map(|chosen| annotator.annotate_whole(chosen)).collect();
    let sources = SourceFiles::new(&arguments.source_dir);
    let listing = Listing {
        event: &shown.name,
        unit: shown.unit(),
        total: event.profile.total().weight(shown.view.weight()),
        lost: analysis.loss.samples,
        sources: &|path| sources.lines(path),
        full: arguments.full,
        colour: arguments.output.is_none() && is_coloured(),
    };
    if arguments.json {
        write_json(&listing, &annotated, output)?;
    } else {
        write_text(&listing, &annotated, output)?;
    }
    let losses = losses(&analysis.loss);
    if !losses.is_empty() {
        console.warn(&format!("missing in this recording: {losses}"));
    }
    Ok(())
}

/// Returns true if standard output shows colours.
fn is_coloured() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !forbidden && (set("CLICOLOR_FORCE") || std::io::stdout().is_terminal())
}

fn choose(arguments: &AnnotateArguments, functions: Vec<Whole>) -> anyhow::Result<Vec<Chosen>> {
    let wanted = match (arguments.hottest, arguments.function.as_deref()) {
        (Some(count), _) => return Ok(functions.into_iter().take(count).map(Chosen::Whole).collect()),
        (None, wanted) => wanted.unwrap_or_default(),
    };
    let quoted = |names: &mut dyn Iterator<Item = &str>| {
        let names = names.take(MAX_SUGGESTIONS).map(|name| format!("`{}`", export::safe_label(name)));
        names.collect::<Vec<_>>().join(", ")
    };
    let by_case = wanted.chars().any(char::is_uppercase);
    let holds = |name: &str| {
        if by_case { name.contains(wanted) } else { name.to_lowercase().contains(&wanted.to_lowercase()) }
    };
    let pieces = || functions.iter().flat_map(|(_, pieces)| pieces);
    let mut inlined: Vec<&Arc<str>> = pieces().flat_map(|piece| &piece.inlined).collect();
    inlined.sort_unstable();
    inlined.dedup();
    let instances = |name: &Arc<str>| {
        let callers = pieces().filter(|piece| piece.inlined.contains(name)).cloned();
        Ok(vec![Chosen::Inlined(Arc::clone(name), callers.collect())])
    };
    if let Some(whole) = functions.iter().find(|(name, _)| name == wanted) {
        return Ok(vec![Chosen::Whole(whole.clone())]);
    }
    if let Some(name) = inlined.iter().find(|name| name.as_ref() == wanted) {
        return instances(name);
    }
    let fitting: Vec<&Whole> = functions.iter().filter(|(name, _)| holds(name)).collect();
    let fitting_inlined: Vec<&Arc<str>> = inlined.iter().copied().filter(|name| holds(name)).collect();
    match (fitting.as_slice(), fitting_inlined.as_slice()) {
        ([only], _) => return Ok(vec![Chosen::Whole((*only).clone())]),
        ([], [only]) => return instances(only),
        ([], []) => {}
        ([], several) => bail!(
            "`{wanted}` fits {} functions that were inlined; name one of them: {}",
            several.len(),
            quoted(&mut several.iter().map(|name| &***name))
        ),
        (several, _) => bail!(
            "`{wanted}` fits {} functions; name one of them: {}",
            several.len(),
            quoted(&mut several.iter().map(|(name, _)| name.as_str()))
        ),
    }
    let all = functions.iter().map(|(name, _)| name.as_str()).chain(inlined.iter().map(|name| &***name));
    let nearest = nearest_names(all, wanted);
    let nearest = match quoted(&mut nearest.iter().map(String::as_str)) {
        names if names.is_empty() => String::new(),
        names => format!("; nearest: {names}"),
    };
    bail!(
        "no sample was taken in a function `{wanted}`{nearest}; most were taken in {}",
        quoted(&mut functions.iter().map(|(name, _)| name.as_str()))
    )
}
