//! `prof script`: prints the samples of a recording in the form of `perf script`.

mod line_cache;
mod text_builder;
mod text_writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;

use analysis::Notices;
use analysis::events::is_named;
use analysis::explained_filter::ExplainedFilter;
use analysis::input::{Input, is_of_this_host};
use analysis::replay::replay;
use analysis::symbols::Symbolizing;
use anyhow::bail;
use clap::Args;
use decoder::AttrFlags;
use decoder::attr::TYPE_TRACEPOINT;
use export::script::{FieldSelection, Fields, Printer, ScriptEvent, TracepointFormat};
use export::summary::counted;
use model::{EventIndex, Harm};
use perfdata::Reader;
use perfdata::tracing_data::TracingData;

use crate::arguments::{RecordingArguments, SampleArguments, SymbolArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::sandbox;

use text_builder::TextBuilder;
use text_writer::TextWriter;

/// Arguments of `prof script`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof script | less                    a block for each sample
  prof script -F comm,tid,time,ip       these fields only
  prof script --comm worker --time 1,2  samples of one thread name, in the second second")]
pub struct ScriptArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Fields to print: comm,tid,ip, or changes to the default: +addr,-period; the prefix hw:, sw:, trace: or raw: limits them to one
    /// kind of event (may be repeated)
    #[arg(short = 'F', long, value_name = "LIST", allow_hyphen_values = true)]
    fields: Vec<String>,
    /// Maximum number of addresses of a call chain, innermost first
    #[arg(long, value_name = "N")]
    max_stack: Option<usize>,
    /// Omit inlined functions
    #[arg(long)]
    no_inline: bool,
    /// Print times with nine decimals
    #[arg(long)]
    ns: bool,
    #[command(flatten)]
    samples: SampleArguments,
    #[command(flatten)]
    symbols: SymbolArguments,
}

/// Prints the samples of a recording.
///
/// # Errors
/// The recording cannot be read or lacks requested fields, or the text cannot be written.
pub fn run(arguments: &ScriptArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut selection = FieldSelection::default();
    for list in &arguments.fields {
        selection.apply(list)?;
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    sandbox::produce(console, output, false, |output| {
        let input = input::open(arguments.recording.path(), console)?.recording_only()?;
        print(arguments, &selection, input, console, output)
    })
}

fn print(
    arguments: &ScriptArguments,
    selection: &FieldSelection,
    input: Input,
    console: &Console,
    output: &mut Output,
) -> anyhow::Result<()> {
    let printer = printer(&input.reader, selection, arguments, console)?;
    let this_host = is_of_this_host(input.reader.features());
    let settings = arguments.symbols.settings(!arguments.no_inline, this_host);
    let symbolizing = Symbolizing::new(&settings)
        .with_names_of(&input, console)
        .with_lifetimes(&input.lifetimes)
        .with_dumps(&input.dumps)
        .with_files(&input.held, &input.files)
        .keeping_objects();
    let sees_kernel = |event: &perfdata::Event| !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
    if this_host && input.reader.events().iter().any(sees_kernel) {
        symbolizing.read_kernel_ahead();
    }
    let admitted = admitted(&input.reader, arguments.samples.event.as_deref())?;
    let line_bytes = AtomicUsize::new(0);
    let writer = TextWriter::new(symbolizing, input.reader.features(), output);
    let name = input.name.clone();
    let (loss, (counts, why_none), notes) = std::thread::scope(|scope| {
        let (batches, thread) = writer.start(&line_bytes, scope)?;
        let admission =
            ExplainedFilter::new(arguments.samples.filter()).with_start_of(input.reader.features());
        let mut builder = TextBuilder::new(printer, admission, batches);
        builder.admitted = admitted;
        builder.max_stack = arguments.max_stack.unwrap_or(usize::MAX);
        let replayed = replay(input, &settings.paths, console, &mut builder);
        let replayed = replayed.and_then(|replayed| builder.flush(&replayed.tracker).map(|()| replayed));
        let (counts, why_none) = (builder.counts(), builder.why_none());
        drop(builder);
        let notes = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // An error of the writer comes first, because it also ends the reading.
        let notes = notes?;
        anyhow::Ok((replayed?.loss, (counts, why_none), notes))
    })?;
    for note in &notes {
        console.warn(Harm::Names, note);
    }
    if counts.undescribed > 0 {
        console.warn(
            Harm::Samples,
            &format!(
                "{} omitted: the recording describes their events only after them",
                counted(counts.undescribed, "sample is", "samples are")
            ),
        );
    } else if counts.all == 0 {
        console.warn(Harm::Everything, &format!("{name} has no samples"));
    } else if counts.admitted == 0 {
        console.warn(
            Harm::Everything,
            &format!(
                "nothing is printed: none of {} in {name} matches {}{}",
                counted(counts.all, "sample", "samples"),
                arguments.samples.given().join(" "),
                why_none.map_or_else(String::new, |why| format!(": {why}"))
            ),
        );
    }
    let losses = export::summary::losses(&loss);
    if !losses.is_empty() {
        console.warn(Harm::Samples, &format!("missing in this recording: {losses}"));
    }
    Ok(())
}

/// Returns the events with the name of `--event`; empty for all.
fn admitted(reader: &Reader, name: Option<&str>) -> anyhow::Result<Vec<EventIndex>> {
    let Some(name) = name else { return Ok(Vec::new()) };
    let events = || (0..).map(EventIndex).zip(reader.events());
    let named: Vec<_> = events().filter(|(_, event)| is_named(event, name)).map(|(index, _)| index).collect();
    if named.is_empty() {
        let names: Vec<_> = events().map(|(_, event)| event.name.to_string()).collect();
        bail!("the recording has no event `{name}`; it has {}", names.join(", "));
    }
    Ok(named)
}

fn printer(
    reader: &Reader,
    selection: &FieldSelection,
    arguments: &ScriptArguments,
    console: &Console,
) -> anyhow::Result<Printer> {
    let events: Vec<_> =
        reader.events().iter().map(|event| ScriptEvent { attr: &event.attr, name: &event.name }).collect();
    let mut printer = Printer::new(&events, selection, !arguments.no_inline)?;
    if arguments.ns {
        printer.show_nanoseconds();
    }
    let section = reader.features().tracing_data.as_deref();
    let (data, error) = section.map(TracingData::parse).unzip();
    if let Some(error) = error.flatten() {
        console.warn(Harm::Names, &error.to_string());
    }
    // With a keyed hash: a hostile file chooses the ids.
    let described: HashMap<u64, TracepointFormat> = data
        .iter()
        .flat_map(|data| data.tracepoints.iter().map(|tracepoint| (tracepoint, data.endian)))
        .filter_map(|(tracepoint, endian)| {
            Some((tracepoint.id()?, TracepointFormat::new(tracepoint.format, endian)))
        })
        .collect();
    let mut without_format = Vec::new();
    for (index, event) in (0..).map(EventIndex).zip(reader.events()) {
        if event.attr.kind != TYPE_TRACEPOINT || !printer.fields(index).contains(Fields::TRACE) {
            continue;
        }
        match described.get(&event.attr.config) {
            Some(format) => printer.set_format(index, format.clone()),
            None => without_format.push(event),
        }
    }
    if let [first, rest @ ..] = without_format.as_slice() {
        let more = if rest.is_empty() { String::new() } else { format!(", and of {} more", rest.len()) };
        console.warn(
            Harm::Names,
            &format!(
                "the recording has no format of tracepoint {} (id {}){more}, so their fields are not printed",
                first.name, first.attr.config
            ),
        );
    }
    Ok(printer)
}
