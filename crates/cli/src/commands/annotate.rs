//! `prof annotate`: source lines and instructions of a function, with samples.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use analysis::annotate::{Annotator, SampledFunction, Syntax, name_of_whole, sampled_functions};
use analysis::events::{is_clock, weight_of};
use analysis::input::{Input, is_of_this_host};
use analysis::{Analysis, Notices, Request};
use anyhow::{Context, bail};
use clap::Args;
use export::annotate::{AnnotatedFunction, Listing, write_json, write_text};
use export::summary::losses;
use profile::{Detail, Weight};

use crate::arguments::{RecordingArguments, SampleArguments, SymbolArguments};
use crate::confined;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Bytes of a source file that are read at the most.
const MOST_SOURCE_BYTES: u64 = 16 << 20;
/// Names that are offered where none fits.
const OFFERED: usize = 8;

/// Arguments of `prof annotate`.
#[derive(Args)]
pub struct AnnotateArguments {
    /// The function: its name, or a part of it that only one has (case counts if a capital is typed)
    #[arg(value_name = "FUNC", required_unless_present = "hottest")]
    function: Option<String>,
    #[command(flatten)]
    recording: RecordingArguments,
    /// Where the listing goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The N functions that most samples were taken in
    #[arg(long, value_name = "N", conflicts_with = "function")]
    hottest: Option<usize>,
    /// Show also what has no samples
    #[arg(long)]
    full: bool,
    /// How instructions of x86 are written
    #[arg(long, value_name = "SYNTAX", default_value = "att", value_parser = ["att", "intel"])]
    syntax: String,
    /// Look for sources below TO where debug information says FROM (may be given several times)
    #[arg(long, value_name = "FROM=TO", value_parser = source_folder)]
    source_dir: Vec<(String, PathBuf)>,
    /// Print JSON (docs/schemas/annotate.json)
    #[arg(long)]
    json: bool,
    /// What makes an instruction heavy: the number of its samples, or the sum of their periods [default: what fits the event]
    #[arg(long, value_name = "KIND", value_parser = ["samples", "period"])]
    weight: Option<String>,
    #[command(flatten)]
    samples: SampleArguments,
    #[command(flatten)]
    symbols: SymbolArguments,
}

fn source_folder(text: &str) -> Result<(String, PathBuf), String> {
    let (from, to) = text.split_once('=').ok_or("not of the form FROM=TO")?;
    Ok((from.to_owned(), PathBuf::from(to)))
}

/// Lists a function.
///
/// # Errors
/// Where the recording cannot be read, no function fits, or the listing cannot be written.
pub fn run(arguments: &AnnotateArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let output = Output::open(arguments.output.as_deref(), console)?;
    let open = || input::open(arguments.recording.path(), console);
    confined::produce(console, output, |output| list(arguments, open()?, output, console))
}

fn list(
    arguments: &AnnotateArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let settings = arguments.symbols.settings(true, is_of_this_host(input.reader.features()));
    let request = Request {
        filter: arguments.samples.filter(),
        detail: Detail::default(),
        symbols: &settings,
        kernel: true,
        debuginfod: false,
        event: arguments.samples.event.as_deref(),
        several_events: false,
    };
    let name = input.name.clone();
    let cannot_annotate = || format!("cannot annotate {name}");
    let analysis = match Analysis::read(input, &request, console) {
        Err(error) if error.is_about_samples() => return Err(error).with_context(cannot_annotate),
        read => read?,
    };
    let chosen = analysis.events.first().with_context(cannot_annotate)?;
    let (event, profile) = (&chosen.event, &chosen.profile);
    let weight = match arguments.weight.as_deref() {
        Some("samples") => Weight::Samples,
        Some(_) => Weight::Period,
        None => weight_of(&event.attr),
    };
    let functions = wholes(sampled_functions(&analysis, profile, weight));
    let wanted = choose(arguments, functions)?;
    let syntax = if arguments.syntax == "intel" { Syntax::Intel } else { Syntax::Att };
    let annotator = Annotator::new(&analysis, &settings, syntax);
    let annotated: Vec<AnnotatedFunction> = wanted
        .into_iter()
        .map(|(name, pieces)| AnnotatedFunction {
            name,
            ranges: pieces.iter().map(|piece| annotator.annotate(piece)).collect(),
        })
        .collect();
    let event_name = event.name.to_string();
    let sources = SourceFiles { folders: &arguments.source_dir, read: RefCell::default() };
    let listing = Listing {
        event: &event_name,
        unit: match weight {
            Weight::Samples => "samples",
            Weight::Period if is_clock(&event.attr) => "ns",
            Weight::Period => &event_name,
        },
        total: profile.total().weight(weight),
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

/// Whether standard output shows colours.
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

fn choose(arguments: &AnnotateArguments, functions: Vec<Whole>) -> anyhow::Result<Vec<Whole>> {
    let Some(wanted) = arguments.function.as_deref() else {
        return Ok(functions.into_iter().take(arguments.hottest.unwrap_or(1)).collect());
    };
    let names = |functions: &[&Whole]| {
        let names = functions.iter().take(OFFERED).map(|(name, _)| format!("`{}`", export::safe_label(name)));
        names.collect::<Vec<_>>().join(", ")
    };
    let by_case = wanted.chars().any(char::is_uppercase);
    let holds = |name: &str| {
        if by_case { name.contains(wanted) } else { name.to_lowercase().contains(&wanted.to_lowercase()) }
    };
    if let Some(index) = functions.iter().position(|(name, _)| name == wanted) {
        return Ok(functions.into_iter().skip(index).take(1).collect());
    }
    let fitting: Vec<&Whole> = functions.iter().filter(|(name, _)| holds(name)).collect();
    match fitting.as_slice() {
        [only] => return Ok(vec![(*only).clone()]),
        [] => {}
        several => bail!("`{wanted}` fits {} functions; name one of them: {}", several.len(), names(several)),
    }
    let is_inlined =
        |(_, pieces): &&Whole| pieces.iter().any(|piece| piece.inlined.iter().any(|inlined| holds(inlined)));
    let callers: Vec<&Whole> = functions.iter().filter(is_inlined).collect();
    if !callers.is_empty() {
        bail!(
            "`{wanted}` has no code of its own: it was inlined; name a function it is in: {}",
            names(&callers)
        );
    }
    let hottest: Vec<&Whole> = functions.iter().collect();
    bail!("no sample was taken in a function `{wanted}`; most were taken in {}", names(&hottest))
}

/// Source files by the paths of debug information.
struct SourceFiles<'a> {
    folders: &'a [(String, PathBuf)],
    read: RefCell<HashMap<String, Option<Arc<[String]>>>>,
}

impl SourceFiles<'_> {
    fn lines(&self, path: &str) -> Option<Arc<[String]>> {
        if let Some(known) = self.read.borrow().get(path) {
            return known.clone();
        }
        let replaced = self.folders.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from.as_str())?;
            Some(to.join(rest.trim_start_matches('/')))
        });
        let lines = read_lines(replaced.unwrap_or_else(|| PathBuf::from(path)));
        self.read.borrow_mut().insert(path.to_owned(), lines.clone());
        lines
    }
}

/// Reads a regular file, up to a bound: debug information may name anything.
fn read_lines(path: PathBuf) -> Option<Arc<[String]>> {
    if !path.is_absolute() || !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_SOURCE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}
