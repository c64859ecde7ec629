//! `prof export`: converts a recording to the format of another tool.

mod for_compiler;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::input::Input;
use anyhow::bail;
use clap::Args;
use export::exchange::compilers::CompilerFormat;
use export::exchange::{self, Format};

use super::exported::{self, ExportOptions};
use crate::arguments::{QueryArguments, RecordingArguments, exit_with_usage_error};
use crate::console::Console;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// The formats of `--format`, a line each.
const FORMATS: &str = "
  folded      one line per stack, for flamegraph.pl, inferno and speedscope; one event
  pprof       profile.proto, compressed: go tool pprof, Pyroscope, Parca, Grafana
  speedscope  https://www.speedscope.app; a profile per thread in order of time, with its waits
  firefox     https://profiler.firefox.com; samples at their times, one track per thread and event
  perfetto    https://ui.perfetto.dev and trace_processor, version 58 or newer
  json        complete profile, also for DuckDB; schema: docs/schemas/profile.json
  otlp        OpenTelemetry's ProfilesData (protobuf; proto 1.11.0, profiles v1development)
of one program, from one or several recordings:
  go-pgo      go build -pgo=FILE
  autofdo     llvm-profdata merge --sample, then clang -fprofile-sample-use=FILE
  bolt        llvm-bolt -data=FILE";

/// Arguments of `prof export`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof export --format pprof -o cpu.pb.gz && go tool pprof -http=: cpu.pb.gz
  prof export --format speedscope -o profile.speedscope.json perf.data
  prof export --format go-pgo -o default.pgo monday.data tuesday.data
  prof export                       the formats")]
pub struct ExportArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// With formats for compilers: more recordings of the same build
    #[arg(value_name = "MORE")]
    more: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "NAME", value_parser = format_names())]
    format: Option<String>,
    /// With formats for compilers: the program [default: the one with most samples]
    ///
    /// By its file name or path.
    #[arg(long, value_name = "NAME")]
    module: Option<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Merge threads of the same name
    #[arg(long)]
    merge_threads: bool,
    /// With --format otlp: keep threads of the same name apart, by their ids
    #[arg(long, conflicts_with = "merge_threads")]
    thread_ids: bool,
    /// Omit source lines, which take time to look up
    #[arg(long)]
    no_lines: bool,
    #[command(flatten)]
    query: QueryArguments,
}

/// Returns the names of all formats.
fn format_names() -> Vec<&'static str> {
    Format::NAMES.into_iter().chain(CompilerFormat::NAMES).collect()
}

/// Reads a recording and writes it in another format.
///
/// # Errors
/// The recording cannot be read or has no matching samples, or the output cannot be written.
pub fn run(arguments: &ExportArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let Some(name) = &arguments.format else {
        exit_with_usage_error(&format!("no --format is named\n{FORMATS}"))
    };
    let for_compiler: Option<CompilerFormat> = name.parse().ok();
    let is_binary = match for_compiler {
        Some(format) => format.is_binary(),
        None => name.parse::<Format>()?.is_binary(),
    };
    if is_binary && arguments.output.is_none() && std::io::stdout().is_terminal() {
        bail!("{name} is binary and cannot go to a terminal; try: prof export --format {name} -o FILE");
    }
    if let Some(format) = for_compiler {
        arguments.refuse_for_compilers(name);
        return for_compiler::run(arguments, format, name, console);
    }
    if arguments.module.is_some() || !arguments.more.is_empty() {
        exit_with_usage_error(&format!(
            "--module and several recordings need a format for compilers: {}",
            CompilerFormat::NAMES.join(", ")
        ));
    }
    let format: Format = name.parse()?;
    if arguments.thread_ids && format != Format::Otlp {
        bail!(
            "--thread-ids needs --format otlp: other formats have the ids of threads unless --merge-threads is given"
        );
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let source = RecordingSource::File(arguments.recording.path());
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |input, output| {
        write(arguments, format, input, output, console)
    })
}

impl ExportArguments {
    /// Exits with a usage error if arguments are given that formats for compilers do not obey.
    fn refuse_for_compilers(&self, format: &str) {
        let given = [
            ("--merge-threads", self.merge_threads),
            ("--thread-ids", self.thread_ids),
            ("--no-lines", self.no_lines),
        ];
        if let Some((flag, _)) = given.into_iter().find(|&(_, is_given)| is_given) {
            exit_with_usage_error(&format!("{flag} does not apply to --format {format}"));
        }
        if self.query.stacks.are_given() {
            exit_with_usage_error(&format!(
                "--format {format} takes whole stacks and weighs them itself: options that select frames or weights do not apply"
            ));
        }
    }
}

fn write(
    arguments: &ExportArguments,
    format: Format,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let options = ExportOptions {
        format,
        merge_threads: arguments.merge_threads,
        thread_ids: arguments.thread_ids,
        lines: !arguments.no_lines,
    };
    exported::with_recording(&options, &arguments.query, input, "export", console, |recording| {
        Ok(exchange::write(recording, format, output)?)
    })
}
