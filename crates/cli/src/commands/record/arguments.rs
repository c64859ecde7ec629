//! The arguments of `prof record`, and the options of the recorder that they ask for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use recorder::{CallChain, Options, Target, Workload};

#[cfg(feature = "push")]
use crate::arguments::ConnectionArguments;
use crate::arguments::numbers::within;
use crate::arguments::window::WindowArguments;
use crate::arguments::{RuntimeArguments, SamplingArguments, TargetArguments, exit_with_usage_error};
use crate::commands::additional_data::AdditionalDataArguments;
use crate::console::Console;

/// The default of `--output`.
pub const DEFAULT_OUTPUT: &str = "prof.data";

/// The arguments of `prof record`.
#[derive(Args)]
#[command(mut_arg("period", |period| period.alias("count")), before_help = "\
Examples:
  prof record -- cargo build            a command and its children
  prof record -p 1234 -d 10             a running process, for ten seconds
  prof record --off-cpu -- ./server     where its threads run, and where they wait
  sudo prof record -a -d 5              the whole system
  prof record --runs 10 --against './old' -- ./new    runs for prof diff")]
pub struct RecordArguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
    /// Keep raw copies of user stacks in the file instead of unwinding them while recording
    #[arg(long, help_heading = "Stacks", hide_short_help = true)]
    keep_stacks: bool,
    #[command(flatten)]
    extras: AdditionalDataArguments,
    #[command(flatten)]
    pub(super) runtimes: RuntimeArguments,
    #[command(flatten)]
    pub(super) parts: WindowArguments,
    #[command(flatten)]
    pub(super) runs: RunsArguments,
    /// Output file, or -; an existing one becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_OUTPUT, help_heading = "Output")]
    pub(super) output: PathBuf,
    /// Compress the records with zstd [default level: 1]
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = within(1..=22), help_heading = "Output")]
    pub(super) compress: Option<i32>,
    /// Add the names of all sampled functions to the finished file, for another machine (see prof archive)
    #[arg(hide_short_help = true, long, conflicts_with_all = ["overwrite", "switch_output"], help_heading = "Output")]
    pub(super) archive: bool,
    /// Do not add the names that may be gone when the file is read (generated code, programs in /tmp or in containers)
    #[arg(long, conflicts_with = "archive", help_heading = "Output", hide_short_help = true)]
    pub(super) no_names: bool,
    /// Do not note how processes name their services (OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of their environments, and what
    /// OpenTelemetry's libraries publish)
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    no_service: bool,
    /// Exit with 1 if samples were lost or their number is unknown
    #[arg(hide_short_help = true, long, help_heading = "Output")]
    pub(super) strict: bool,
    /// Send the finished recording to this engine, too (see prof push)
    #[cfg(feature = "push")]
    #[arg(hide_short_help = true, long, value_name = "URL", conflicts_with_all = ["overwrite", "switch_output", "runs"], help_heading = "Output")]
    pub(super) push: Option<String>,
    #[cfg(feature = "push")]
    #[command(flatten)]
    pub(super) connection: ConnectionArguments,
    /// Disable these sources of stack frames or optimizations
    #[cfg(feature = "ablation")]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = mechanism)]
    without: Vec<recorder::unwind::Mechanisms>,
    /// The command to record, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, help_heading = "Target")]
    pub(super) command: Vec<OsString>,
}

/// The arguments for several runs.
#[derive(Args, Clone, Debug, Default)]
pub struct RunsArguments {
    /// Record the command N times, for prof diff [default: into prof.runs]
    ///
    /// Into a folder, after a run to warm up.
    #[arg(long, value_name = "N", value_parser = within(1..=1_000_u32), requires = "command",
          conflicts_with_all = ["overwrite", "switch_output", "archive"], help_heading = "Runs")]
    pub runs: Option<u32>,
    /// With --runs: also record this command, the one before a change
    ///
    /// In turns with the other one. It is split into words as a shell does.
    #[arg(long, value_name = "COMMAND", requires = "runs", help_heading = "Runs")]
    pub(super) against: Option<String>,
}

impl RecordArguments {
    /// Builds the options of the recorder from the arguments. Exits with a usage error where they contradict each other.
    pub(super) fn options(&self, console: &Console) -> anyhow::Result<Options> {
        let target = self.target.target(!self.command.is_empty())?;
        if target.is_none() && self.command.is_empty() {
            exit_with_usage_error(
                "nothing to record; try: prof record -- COMMAND, prof record -p PID, or prof record -a",
            );
        }
        let has_command = !self.command.is_empty();
        let jvms = self.runtimes.jvms(has_command, target.is_some());
        let mut options = Options::new(target.unwrap_or(Target::Command));
        options.jvm_maps = jvms;
        options.services = !self.no_service;
        options.workload = (!self.command.is_empty()).then(|| Workload {
            words: self.command.clone(),
            environment: self.runtimes.environment(&self.command, console),
            output_to_stderr: false,
        });
        self.target.apply_limits(&mut options);
        self.sampling.apply(&mut options, self.keep_stacks)?;
        options.extras = self.extras.extras();
        #[cfg(feature = "ablation")]
        self.without.iter().for_each(|without| options.mechanisms.remove(*without));
        if self.extras.off_cpu {
            recorder::observe_waits(&mut options, &recorder::this_machine())?;
        }
        if let Some(snapshots) = self.extras.tasks {
            recorder::observe_tasks(&mut options, &recorder::this_machine(), snapshots);
        }
        if !options.extras.branches.is_empty() && options.call_chain == CallChain::LastBranches {
            exit_with_usage_error(
                "-b, -j and --call-graph lbr exclude each other, as all use last branch records; try one of them",
            );
        }
        Ok(options)
    }
}

#[cfg(feature = "ablation")]
fn mechanism(name: &str) -> Result<recorder::unwind::Mechanisms, String> {
    use recorder::unwind::Mechanisms;
    let names = || Mechanisms::all().iter_names().map(|(name, _)| name.to_lowercase().replace('_', "-"));
    Mechanisms::by_name(name).ok_or_else(|| format!("there are {}", names().collect::<Vec<_>>().join(", ")))
}
