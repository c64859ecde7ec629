//! `prof export` in formats that compilers read: the samples of one program from one or several recordings, and how far they suffice.

use std::process::ExitCode;

use analysis::input::Input;
use analysis::program_samples::{ProgramCollector, ProgramFacts, SampleTotals};
use analysis::{Notices, Request};
use anyhow::bail;
use export::exchange::compilers::{self, CompilerFormat, ProgramSamples, Written};
use export::summary::counted;
use model::Harm;

use super::ExportArguments;
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// A profile gets a warning if a larger share of the program's own samples has no line, or no start of its function.
const MAX_WITHOUT_LINE: f64 = 0.1;

/// Longer mean times between samples of a clock get a warning, in nanoseconds.
const COARSE_PERIOD_NS: u64 = 3_000_000;

/// Reads recordings, and writes the samples of a program in a format, which is called `name`.
///
/// # Errors
/// A recording cannot be read, is of another build, or has no samples of the program; or the program lacks what the format needs.
pub fn run(
    arguments: &ExportArguments,
    format: CompilerFormat,
    name: &str,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let output = Output::open(arguments.output.as_deref(), console)?;
    let source = RecordingSource::File(arguments.recording.path());
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |first, output| {
        write(arguments, (format, name), first, output, console)
    })
}

fn write(
    arguments: &ExportArguments,
    (format, name): (CompilerFormat, &str),
    first: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let query = &arguments.query;
    let settings = query.settings(&first, true);
    let mut collector = ProgramCollector::new(arguments.module.as_deref());
    let more = arguments.more.iter().map(|path| input::open(Some(path), console));
    for input in std::iter::once(Ok(first)).chain(more) {
        let input = input?;
        // The names of other code than the program's are not needed.
        let mut names = query.settings(&input, false);
        names.options.inlines = false;
        let request = Request { several_events: false, ..query.request(&names) };
        let analysis = input::analyse(input, &request, "export", console)?;
        collector.add(&analysis)?;
    }
    let (mut samples, totals, facts) = collector.finish(format, &settings)?;
    if format != CompilerFormat::Bolt {
        samples.escape_names(format);
    }
    let written = compilers::write(&samples, format, output)?;
    if written.samples == 0 {
        bail!("no sample of {} could be used for {name}: {}", samples.path, why_none(format));
    }
    console.say(&summary(&samples, totals, written, name));
    for warning in warnings(format, &samples, (totals, written), facts) {
        console.warn(Harm::Samples, &warning);
    }
    Ok(())
}

/// Returns the reason why a format takes none of the samples that were read.
fn why_none(format: CompilerFormat) -> &'static str {
    match format {
        CompilerFormat::GoPgo => "no stack has code with a name; try: prof report --sort module",
        CompilerFormat::AutoFdo => "no sampled code has a line and a start line in the debug information",
        CompilerFormat::Bolt => "no function of the symbol table covers them",
    }
}

/// Says how much of the recordings is in the profile.
fn summary(samples: &ProgramSamples, totals: SampleTotals, written: Written, name: &str) -> String {
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let build_id = match samples.build_id.as_str() {
        "" => String::from("no build id"),
        id => format!("build id {id}"),
    };
    let others = match totals.of_other_builds {
        0 => String::new(),
        others => format!("; {} of other builds of it left out", counted(others, "sample", "samples")),
    };
    let weight = match written.weight == written.samples {
        true => String::new(),
        false => format!(", total weight {}", written.weight),
    };
    format!(
        "{name}: {written} ({share:.1} % of all, {inside:.1} % were taken in its own code){weight}, {functions}, of {path} \
         ({build_id}){others}",
        written = counted(written.samples, "sample", "samples"),
        share = percent(written.samples, totals.all),
        inside = percent(totals.inside, totals.all),
        functions = counted(written.functions as u64, "function", "functions"),
        path = samples.path,
    )
}

/// Says what keeps the profile from being a good one for a compiler.
fn warnings(
    format: CompilerFormat,
    samples: &ProgramSamples,
    (totals, written): (SampleTotals, Written),
    facts: ProgramFacts,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if format == CompilerFormat::AutoFdo {
        let ambiguous = samples.ambiguous_names();
        if ambiguous > 0 {
            warnings.push(format!(
                "{} of several static functions, which share one record, as LLVM's format has it; try: clang -funique-internal-linkage-names",
                counted(ambiguous as u64, "name is that", "names are those")
            ));
        }
        let without_line = totals.inside.saturating_sub(written.samples + written.without_start);
        let reasons = [
            (
                written.without_start,
                "does not say at which lines their functions start; try: clang -fdebug-info-for-profiling, or rustc -Cdebuginfo=1",
            ),
            (without_line, "has no line for them"),
        ];
        for (left_out, reason) in reasons {
            let share = left_out as f64 / totals.inside.max(1) as f64;
            if share > MAX_WITHOUT_LINE {
                warnings.push(format!(
                    "{:.1} % of the samples in the program's own code are left out: the debug information {reason}",
                    share * 100.0
                ));
            }
        }
    }
    let period = totals.period.checked_div(totals.all).unwrap_or(0);
    if totals.of_clocks == totals.all && period > COARSE_PERIOD_NS {
        warnings.push(format!(
            "the clock is coarse, a sample every {:.1} ms of CPU time: steady work may fall between samples; try: prof record -F 1999",
            period as f64 / 1e6
        ));
    }
    if format == CompilerFormat::Bolt && !facts.has_relocations {
        warnings.push(format!(
            "{} has no relocations: BOLT will arrange code within functions only; try linking with -Wl,--emit-relocs",
            samples.path
        ));
    }
    warnings
}
