//! `prof annotate`: source lines and instructions of a function, with samples.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use analysis::annotate::{
    Annotator, HAS_DISASSEMBLY, SampledFunction, Syntax, name_of_whole, sampled_functions,
};
use analysis::input::Input;
use analysis::{Notices, Request, archive};
use anyhow::{Context, bail};
use clap::Args;
use export::annotate::{AnnotatedFunction, Listing, write_json, write_text};
use export::summary::losses;
use profile::Show;

use crate::arguments::{QueryArguments, RecordingArguments};
use crate::console::Console;
use crate::output::Output;
use crate::reading::{self, Source};
use crate::sources::{self, SourceFiles};

/// Names that are offered where none fits.
const OFFERED: usize = 8;

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
    #[arg(long, value_name = "FROM=TO", value_parser = sources::folder)]
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
    let source = Source::File(arguments.path());
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
        chosen.into_iter().map(|chosen| annotate(chosen, &annotator)).collect();
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

fn annotate(chosen: Chosen, annotator: &Annotator<'_>) -> AnnotatedFunction {
    match chosen {
        Chosen::Whole((name, pieces)) => {
            let ranges = pieces.iter().map(|piece| annotator.annotate(piece)).collect();
            AnnotatedFunction { name, ranges }
        }
        Chosen::Inlined(name, callers) => {
            let instance = |piece: &SampledFunction| {
                let mut range = annotator.annotate(piece);
                range.retain_inlined(&name);
                range
            };
            let mut ranges: Vec<_> = callers.iter().map(instance).collect();
            ranges.retain(|range| range.weight > 0 || range.missing.is_some());
            ranges.sort_by_key(|range| std::cmp::Reverse(range.weight));
            AnnotatedFunction { name: name.to_string(), ranges }
        }
    }
}

/// Returns true if standard output shows colours.
fn is_coloured() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !forbidden && (set("CLICOLOR_FORCE") || std::io::stdout().is_terminal())
}

/// A function with its pieces.
type Whole = (String, Vec<SampledFunction>);

/// Puts the pieces of functions together, heaviest function first.
fn wholes(pieces: Vec<SampledFunction>) -> Vec<Whole> {
    let mut wholes: Vec<Whole> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for piece in pieces {
        let name = name_of_whole(&piece.name).to_owned();
        let index = *known.entry(name.clone()).or_insert(wholes.len());
        match wholes.get_mut(index) {
            Some((_, of_function)) => of_function.push(piece),
            None => wholes.push((name, vec![piece])),
        }
    }
    let weight = |whole: &Whole| whole.1.iter().map(|piece| piece.weight).fold(0, u64::saturating_add);
    wholes.sort_by_key(|whole| std::cmp::Reverse(weight(whole)));
    wholes
}

/// What is to be listed.
enum Chosen {
    Whole(Whole),
    /// A function without code of its own, and the pieces that it was inlined into.
    Inlined(Arc<str>, Vec<SampledFunction>),
}

fn choose(arguments: &AnnotateArguments, functions: Vec<Whole>) -> anyhow::Result<Vec<Chosen>> {
    let wanted = match (arguments.hottest, arguments.function.as_deref()) {
        (Some(count), _) => return Ok(functions.into_iter().take(count).map(Chosen::Whole).collect()),
        (None, wanted) => wanted.unwrap_or_default(),
    };
    let quoted = |names: &mut dyn Iterator<Item = &str>| {
        let names = names.take(OFFERED).map(|name| format!("`{}`", export::safe_label(name)));
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
    inlined.retain(|name| holds(name));
    match (fitting.as_slice(), inlined.as_slice()) {
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
    bail!(
        "no sample was taken in a function `{wanted}`; most were taken in {}",
        quoted(&mut functions.iter().map(|(name, _)| name.as_str()))
    )
}
