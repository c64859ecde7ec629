//! `prof flame`: a flame graph of a recording, or of a command.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use decoder::{AttrFlags, SampleFormat};
use export::flamegraph::{Colors, Options};
use export::summary::{Summary, counted, subtitle};
use host::debuginfod;
use model::{StackEntry, Tid};
use perfdata::{Description, Event, sections};
use profile::{Detail, Nameless, Profile, Show, View, Weight};

use super::record::{Outcome, record_command};
use crate::arguments::numbers::within;
use crate::arguments::{SampleArguments, SymbolArguments};
use crate::confined;
use crate::console::Console;
use crate::output::Output;
use crate::pipeline::aggregate::Aggregate;
use crate::pipeline::caption::Caption;
use crate::pipeline::downloads;
use crate::pipeline::events::{is_named, weight_of};
use crate::pipeline::hints::Hints;
use crate::pipeline::input::{self, Input, is_of_this_host};
use crate::pipeline::remedies::Remedies;
use crate::pipeline::replay::replay;
use crate::pipeline::runtimes::Runtimes;
use crate::pipeline::symbols::{Symbolizing, Symbols};

/// Arguments of `prof flame`.
#[derive(Args)]
pub struct FlameArguments {
    /// The recording: a perf.data file by anyone, or `-` for a stream [default: prof.data, else perf.data]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where the picture goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folded stacks (text) instead of a picture
    #[arg(long)]
    folded: bool,
    /// Open the picture in the browser
    #[arg(long, requires = "output", conflicts_with = "folded")]
    open: bool,
    #[command(flatten)]
    samples: SampleArguments,
    #[command(flatten)]
    frames: FrameArguments,
    #[command(flatten)]
    symbols: SymbolArguments,
    /// Fetch missing debug files of hot objects from debuginfod servers (DEBUGINFOD_URLS, which alone asks for it, too)
    #[arg(long, help_heading = "Names")]
    debuginfod: bool,
    #[command(flatten)]
    drawing: DrawingArguments,
    /// A command to record and draw, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, conflicts_with = "input")]
    command: Vec<OsString>,
}

/// Which frames.
#[derive(Args)]
#[command(next_help_heading = "Which frames")]
struct FrameArguments {
    /// Without functions that the compiler put into their callers
    #[arg(long)]
    no_inline: bool,
    /// Without the kernel's part of stacks
    #[arg(long)]
    no_kernel: bool,
    /// Without the user part of stacks
    #[arg(long)]
    no_user: bool,
    /// Threads of one process whose names differ in digits alone as one: worker-* [default for pictures]
    #[arg(long)]
    merge_threads: bool,
    /// A stack of its own for each thread, not only for each thread name
    #[arg(long, conflicts_with = "merge_threads")]
    per_thread: bool,
    /// A frame for each process, below its threads
    #[arg(long)]
    by_process: bool,
    /// The offsets of frames without a name
    #[arg(long)]
    addresses: bool,
    /// The module of each function
    #[arg(long)]
    modules: bool,
    /// Async Rust without the closures, polls and schedulers that its functions are run by
    #[arg(long)]
    fold_async: bool,
}

/// How it is drawn.
#[derive(Args)]
#[command(next_help_heading = "How it is drawn")]
struct DrawingArguments {
    /// What makes a stack wide: the number of its samples, or the sum of their periods [default: what fits the event]
    #[arg(long, value_name = "KIND", value_parser = ["samples", "period"])]
    weight: Option<String>,
    /// Stacks upside down: who calls a function?
    #[arg(long)]
    reverse: bool,
    /// Grow downwards
    #[arg(long)]
    inverted: bool,
    /// In the order of time, instead of merged
    #[arg(long)]
    flamechart: bool,
    /// Above the picture [default: what was recorded, where, when, for how long, how often]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Below the title, before the figures
    #[arg(long, value_name = "TEXT")]
    subtitle: Option<String>,
    /// The palette
    #[arg(long, value_name = "NAME", default_value = "kinds", value_parser = Colors::NAMES)]
    colors: String,
    /// Leave out frames narrower than this many per cent of the picture
    #[arg(long, value_name = "PERCENT", default_value_t = 0.01, value_parser = percent)]
    min_width: f64,
    /// Width of the picture in pixels [default: that of the window]
    #[arg(long, value_name = "PIXELS", value_parser = within(100..=100_000_u32))]
    width: Option<u32>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not between 0 and 100".to_owned()),
    }
}

/// Draws a recording, or records a command and draws that; returns the command's exit code then.
///
/// # Errors
/// Where the recording cannot be read or the picture cannot be written.
pub fn run(arguments: &FlameArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if arguments.output.is_none() && !arguments.folded && std::io::stdout().is_terminal() {
        bail!(
            "an SVG does not belong on a terminal; try: `prof flame > flame.svg` or `prof flame -o flame.svg`"
        );
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let code = if arguments.command.is_empty() {
        produce(arguments, || input::open(arguments.input.as_deref(), console), output, console)?
    } else {
        match record_command(&arguments.command, output.is_stdout(), console)? {
            (Outcome::NotStarted(code), _) => return Ok(code),
            (Outcome::Recorded(code), recording) => {
                let open = || input::of_file(recording, "what was recorded");
                match produce(arguments, open, output, console)? {
                    ExitCode::SUCCESS => code,
                    failure => failure,
                }
            }
        }
    };
    if let (true, Some(path)) = (arguments.open, &arguments.output) {
        open_in_browser(path)?;
    }
    Ok(code)
}

/// Hands the picture to whatever the desktop opens SVG files with.
fn open_in_browser(path: &Path) -> anyhow::Result<()> {
    let opened = process::Command::new("xdg-open").arg(path).stdin(process::Stdio::null()).spawn();
    opened.map(|_| ()).with_context(|| {
        format!("cannot open {} (xdg-open is missing?); open it in a browser yourself", path.display())
    })
}

/// Draws in a confined process; in ours where debug files are to be fetched, which needs the network and a cache.
fn produce(
    arguments: &FlameArguments,
    open: impl FnOnce() -> anyhow::Result<Input>,
    mut output: Output,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let draw = |output: &mut Output| draw(arguments, open()?, output, console);
    if debuginfod::is_wanted(arguments.debuginfod) {
        draw(&mut output)?;
        output.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    confined::produce(console, output, draw)
}

fn draw(
    arguments: &FlameArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let detail = Detail {
        threads: arguments.frames.per_thread,
        // Folded stacks are for other tools, which may look for a thread by its name.
        pools: arguments.frames.merge_threads || !arguments.folded,
        processes: arguments.frames.by_process,
        order: arguments.drawing.flamechart,
    };
    let mut aggregate = Aggregate::new(arguments.samples.filter(), detail);
    let this_host = is_of_this_host(input.reader.features());
    let settings = arguments.symbols.settings(!arguments.frames.no_inline, this_host);
    let symbolizing =
        Symbolizing::new(&settings).with_names_of(&input.reader, console).with_lives(&input.lives);
    let sees_kernel = |event: &Event| !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
    if this_host && !arguments.frames.no_kernel && input.reader.events().iter().any(sees_kernel) {
        symbolizing.read_kernel_ahead();
    }
    let (name, written) = (input.name.clone(), input.written);
    let mut replayed = replay(input, &settings.paths, console, &mut aggregate)?;
    if let Some(why) = aggregate.why_none() {
        bail!("cannot draw {name}: {why}");
    }
    let (profiles, seen_in) = aggregate.finish(replayed.recording.events());
    let wanted = arguments.samples.event.as_deref();
    let (event, mut profile) = choose(profiles, replayed.recording.events(), wanted)
        .with_context(|| format!("cannot draw {name}"))?;
    profile.loss = replayed.loss;
    let attr = &event.attr;
    let weight = match arguments.drawing.weight.as_deref() {
        Some("samples") => Weight::Samples,
        Some(_) => Weight::Period,
        None => weight_of(attr),
    };
    let caption = Caption {
        features: replayed.recording.features(),
        event,
        span: profile.span,
        written,
        recording: &name,
        filters: &arguments.samples.in_words(),
    };
    let title = caption.title(|pid| {
        let comm = replayed.tracker.comm(pid, Tid(pid.0)).clone();
        (!comm.as_bytes().starts_with(b":")).then_some(comm)
    });
    let spaces = replayed.tracker.into_spaces();
    let servers = debuginfod::Settings::from_environment(&settings.paths, arguments.debuginfod);
    let unwound = is_unwound(event, &replayed.recording);
    let remedies = Remedies::new(this_host, servers.is_some(), unwound);
    if let Some(servers) = servers {
        downloads::fetch(&profile, &spaces, |space| seen_in.pids(space), &settings.paths, servers, console);
    }
    let places = profile.stacks.places().iter().copied();
    let mut symbols = Symbols::default();
    symbolizing.resolve(places, &spaces, |space| seen_in.pids(space), &mut symbols);
    for remark in symbols.remarks() {
        console.warn(&remark);
    }
    let resolve = |entry: &StackEntry| symbols.resolutions.get(entry);
    let census = View::census(&profile, &spaces, resolve);
    let runtimes = Runtimes::new(&spaces, &seen_in);
    let remedy =
        |nameless: &Nameless| remedies.of(nameless, &spaces, runtimes.of(spaces.get(nameless.space)));
    for line in export::summary::nameless(&census, remedy) {
        console.detail(&line);
    }
    let hints = Hints::new(&profile, &census, &spaces, &runtimes, &remedies);
    for hint in hints.sentences() {
        console.say(&hint);
    }
    let view = View::new(&profile, &spaces, resolve, arguments.frames.show(), weight);
    if arguments.folded {
        export::folded::write(&view, output)?;
    } else {
        let facts = Summary {
            event: &event.name.to_string(),
            total: profile.total(),
            unsampled: view.unsampled_total(),
            weight,
            loss: &profile.loss,
            census: &census,
            remedies: &hints.in_picture(),
        };
        let options = arguments.drawing.options(title, &facts)?;
        export::flamegraph::write(&view, &options, output)?;
    }
    Ok(())
}

impl FrameArguments {
    fn show(&self) -> Show {
        Show {
            inlined: !self.no_inline,
            kernel: !self.no_kernel,
            user: !self.no_user,
            addresses: self.addresses,
            modules: self.modules,
            fold_async: self.fold_async,
        }
    }
}

impl DrawingArguments {
    fn options(&self, title: String, facts: &Summary<'_>) -> anyhow::Result<Options> {
        let figures = subtitle(facts);
        Ok(Options {
            title: self.title.clone().unwrap_or(title),
            subtitle: match &self.subtitle {
                Some(text) => format!("{text} – {figures}"),
                None => figures,
            },
            colors: self.colors.parse().map_err(anyhow::Error::msg)?,
            width: self.width.map(|width| width as usize),
            min_width: self.min_width,
            inverted: self.inverted,
            reverse: self.reverse,
            chart: self.flamechart,
            unit: match facts.weight {
                Weight::Samples => "samples".to_owned(),
                Weight::Period => facts.event.to_owned(),
            },
        })
    }
}

/// Whether an event's stacks are the callers that unwinding found, then or now, and not frame pointers.
fn is_unwound(event: &Event, recording: &Description) -> bool {
    let then = recording.features().section(sections::id::STACK_TOTALS).is_some();
    then || event.attr.sample_format.contains(SampleFormat::STACK_USER)
}

/// The profile that is meant, and its event: the one named, or the only one that has samples.
///
/// # Errors
/// Where no event has samples, none has that name, or several have samples and none was named: with a list of them.
fn choose<'e>(
    profiles: Vec<Profile>,
    events: &'e [Event],
    name: Option<&str>,
) -> anyhow::Result<(&'e Event, Profile)> {
    let sampled = || events.iter().zip(&profiles).filter(|(_, profile)| profile.total().samples > 0);
    let list = || {
        let describe = |(event, profile): (&Event, &Profile)| {
            format!("{} ({})", event.name, counted(profile.total().samples, "sample", "samples"))
        };
        sampled().map(describe).collect::<Vec<_>>().join(", ")
    };
    let is_wanted = |event: &Event| name.is_none_or(|name| is_named(event, name));
    match (sampled().filter(|(event, _)| is_wanted(event)).count(), name) {
        (0, Some(name)) if sampled().next().is_some() => {
            bail!("no sample is of the event `{name}`; there are {}", list())
        }
        (0, _) => bail!("there is no sample to draw"),
        (1, _) => {}
        _ => bail!("there are samples of several events; choose one with --event NAME: {}", list()),
    }
    let is_chosen = |(event, profile): &(&Event, Profile)| profile.total().samples > 0 && is_wanted(event);
    events.iter().zip(profiles).find(is_chosen).context("there is no sample to draw")
}
