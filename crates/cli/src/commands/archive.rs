//! `prof archive`: packs a recording with the names it needs, for another machine.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use analysis::annotate::{Annotator, Syntax};
use analysis::input::{Input, is_of_this_host};
use analysis::symbols::SymbolSettings;
use analysis::{Notices, Request, archive, ephemeral_names, jit_placements};
use anyhow::{Context, bail};
use clap::Args;
use host::objects::RetainedFiles;
use model::Harm;
use perfdata::sections;
use recorder::NameSources;
use symbolizer::{NameStyle, Options};

use crate::arguments::{DebuginfodArguments, RecordingArguments, SymbolArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::sandbox;

/// Names and code together take at most one seventh of the size of the recording (15 %), unless the names alone take more.
const ARCHIVE_SHARE: u64 = 7;
/// Size that code may always take, so that short recordings get the code of hot functions, too.
const MIN_CODE_BYTES: u64 = 64 << 10;

/// Arguments of `prof archive`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof archive                      prof.data becomes prof.data.archive
  prof archive -o run1.data         another name for it
  prof archive --list run1.data     what it holds
  prof report -i run1.data          read it on another machine")]
pub struct ArchiveArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file, or - for standard output [default: FILE.archive]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// List the contents of an archive
    #[arg(long, conflicts_with = "output")]
    list: bool,
    #[command(flatten)]
    names: NameArguments,
}

/// Arguments that say where the names of an archive come from.
#[derive(Args, Default)]
pub struct NameArguments {
    #[command(flatten)]
    symbols: SymbolArguments,
    #[command(flatten)]
    debuginfod: DebuginfodArguments,
}

/// Writes an archive, or lists the contents of one.
///
/// # Errors
/// The recording cannot be read or is a stream, or the archive cannot be written.
pub fn run(arguments: &ArchiveArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let file = arguments.recording.path();
    if arguments.list {
        let output = Output::stdout()?;
        return sandbox::produce(console, output, false, |output| {
            list(&input::open(file, console)?.recording_only()?, output)
        });
    }
    let file =
        file.map_or_else(|| input::default_path().context(input::NO_RECORDING), |file| Ok(file.to_owned()))?;
    let output = arguments.output.clone().unwrap_or_else(|| {
        let mut name = file.clone().into_os_string();
        name.push(".archive");
        PathBuf::from(name)
    });
    write(&file, &output, &Arc::default(), &arguments.names, console)
}

/// Writes the recording `file` with its names to `output`, which may be the same path. `held` are files that were retained while
/// recording.
///
/// # Errors
/// As [`run`].
pub fn write(
    file: &Path,
    output: &Path,
    held: &Arc<RetainedFiles>,
    names: &NameArguments,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    if !file.is_file() {
        bail!(
            "{} is not a file, and only files can be archived; record to a file, or try: prof export",
            file.display()
        );
    }
    let output = match output == Path::new("-") {
        true if io::stdout().is_terminal() => {
            bail!("an archive is binary and cannot go to a terminal; try: prof archive -o FILE")
        }
        true => Output::stdout()?,
        false => Output::private(output, console)?,
    };
    sandbox::produce(console, output, names.debuginfod.fetches(console)?, |output| {
        let recording = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        let input = Input::open(file)?.recording_only()?.with_held(held);
        if input.reader.is_pipe() {
            bail!("{} is in pipe format and cannot be archived; try recording with -o FILE", file.display());
        }
        append(recording, input, names, output, console)
    })
}

/// Appends names that may be gone later to a new recording: those of generated code and of retained files. Does nothing if there are
/// none.
///
/// # Errors
/// The recording cannot be read or rewritten.
pub fn append_vanishing_names(file: &Path, sources: &NameSources, console: &Console) -> anyhow::Result<()> {
    if sources.is_empty() || Input::open(file)?.reader.is_pipe() {
        return Ok(());
    }
    let (packed, mut kept) = Output::nameless()?;
    let produced = sandbox::produce(console, packed, false, |packed| {
        let length = file.metadata().with_context(|| format!("cannot read {}", file.display()))?.len();
        if let Some(names) = vanishing_names(Input::open(file)?.with_held(&sources.files), length, console) {
            packed.write_all(&names)?;
        }
        Ok(())
    })?;
    if produced != ExitCode::SUCCESS {
        // The child has printed the error.
        return Ok(());
    }
    kept.rewind()?;
    let mut names = Vec::new();
    kept.read_to_end(&mut names)?;
    if names.is_empty() {
        return Ok(());
    }
    let cannot_read = || format!("cannot read {}", file.display());
    let mut recording = File::open(file).with_context(cannot_read)?;
    let mut output = Output::private(file, console)?;
    io::copy(&mut recording, &mut output).with_context(cannot_read)?;
    output.write_all(&names)?;
    output.finish()
}

/// Returns the appendix with the names that may be gone later ([`analysis::ephemeral_names`]) for the recording `input`, a file of `length`
/// bytes; `None` if there are none.
pub fn vanishing_names(input: Input, length: u64, console: &Console) -> Option<Vec<u8>> {
    let endian = input.reader.endian();
    let settings = settings(&input, &SymbolArguments::default());
    // A damaged recording is reported when it is read.
    let names = ephemeral_names::names(input, &settings).ok()?;
    // Refused files are reported now, because they may be gone when the recording is read.
    names.remarks.iter().for_each(|remark| console.warn(Harm::Names, remark));
    // Without names, the locations of generated code are useless.
    let generated = names.generated_code.map(|code| (sections::id::GENERATED_CODE, code));
    let parts: Vec<_> = generated.into_iter().chain([(sections::id::NAMES, names.section?)]).collect();
    Some(sections::appendix(length, &parts, endian))
}

/// Returns settings for linkage names with lines, so that the reader can choose how to show them.
fn settings(input: &Input, symbols: &SymbolArguments) -> SymbolSettings {
    let options = Options { names: NameStyle::Linkage, inlines: true, locations: true, ..Options::default() };
    SymbolSettings { options, ..symbols.settings(true, is_of_this_host(input.reader.features())) }
}

fn append(
    recording: File,
    input: Input,
    wanted: &NameArguments,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let name = input.name.clone();
    let settings = settings(&input, &wanted.symbols);
    let (carried, _) = archive::code(&input.reader, NameStyle::Linkage);
    let dumps = Arc::clone(&input.dumps);
    let (endian, appendix) = (input.reader.endian(), input.reader.features().appendix);
    let request = Request { servers: wanted.debuginfod.servers(), ..Request::all(&settings) };
    let analysis = input::analyse(input, &request, "archive", console)?;
    let names = archive::pack(&analysis, endian);
    // An existing appendix is replaced.
    let mut bytes = recording.take(appendix.unwrap_or(u64::MAX));
    let length = io::copy(&mut bytes, output).with_context(|| format!("cannot copy {name}"))?;
    let max_code_bytes = (length / ARCHIVE_SHARE).saturating_sub(names.len() as u64).max(MIN_CODE_BYTES);
    let annotator = Annotator::new(&analysis, &settings, Syntax::default(), carried);
    let code = archive::pack_code(&analysis, &annotator, max_code_bytes as usize, endian);
    let code = code.map(|code| (sections::id::CODE, code));
    let places = analysis.events.iter().flat_map(|event| event.profile.stacks.places());
    let generated = jit_placements::pack(&dumps.sampled_placements(places, &analysis.spaces), endian);
    let generated = generated.map(|generated| (sections::id::GENERATED_CODE, generated));
    let parts: Vec<_> = code.into_iter().chain(generated).chain([(sections::id::NAMES, names)]).collect();
    output.write_all(&sections::appendix(length, &parts, endian))?;
    Ok(())
}

fn list(input: &Input, output: &mut Output) -> anyhow::Result<()> {
    let (names, damage) = archive::names(&input.reader, NameStyle::Demangled);
    if let Some(damage) = damage {
        bail!("cannot read the names in {}: {damage}", input.name);
    }
    if names.is_empty() {
        bail!("{} carries no names; try: prof archive {}", input.name, input.name);
    }
    let (held, functions, files) = archive::contents(&names);
    for place in held {
        writeln!(output, "addresses {:>8}  {}", place.addresses, place.what)?;
    }
    for function in functions {
        writeln!(output, "function  {}", export::printable(&function))?;
    }
    for file in files {
        writeln!(output, "source    {}", export::printable(&file))?;
    }
    Ok(())
}
