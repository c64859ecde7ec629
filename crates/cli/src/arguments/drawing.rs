//! Arguments for pictures of stacks: which frames they have, and how they are drawn.

use clap::Args;
use export::flamegraph::{Colors, Options};
use profile::Detail;

use super::numbers::{percent, within};

/// Nanoseconds per unit in pictures of time, whose unit is microseconds.
const NANOSECONDS_PER_UNIT: u64 = 1_000;

/// Arguments for frames in addition to [`super::StackArguments`].
#[derive(Args)]
#[command(next_help_heading = "Drawing")]
pub struct FrameArguments {
    /// Merge threads of a process whose names differ only in digits: worker-* [default for pictures]
    #[arg(hide_short_help = true, long)]
    pub merge_threads: bool,
    /// Separate threads, not only thread names
    #[arg(long, conflicts_with = "merge_threads")]
    pub per_thread: bool,
    /// Add a frame for each process below its threads
    #[arg(long)]
    pub by_process: bool,
    /// Add a frame for each container (docker:0123456789ab, k8s:POD/ID, host) below its threads
    #[arg(hide_short_help = true, long, conflicts_with = "by_process")]
    pub by_container: bool,
    /// Show the offsets of frames without a name
    #[arg(hide_short_help = true, long, conflicts_with = "modules_only")]
    pub addresses: bool,
    /// Show the module of each function
    #[arg(hide_short_help = true, long)]
    pub modules: bool,
}

impl FrameArguments {
    /// Returns what is kept apart; with `pools` threads whose names differ in digits are one.
    pub fn detail(&self, pools: bool) -> Detail {
        Detail {
            threads: self.per_thread,
            pools,
            processes: self.by_process,
            containers: self.by_container,
            ..Detail::default()
        }
    }
}

/// Arguments for drawing.
#[derive(Args)]
#[command(next_help_heading = "Drawing")]
pub struct DrawingArguments {
    /// Reverse stacks, to show who calls a function
    #[arg(long)]
    pub reverse: bool,
    /// Draw stacks downwards (icicle graph)
    #[arg(long)]
    pub inverted: bool,
    /// Title [default: what was recorded]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Palette
    #[arg(long, value_name = "NAME", default_value = "kinds", value_parser = Colors::NAMES)]
    pub colors: String,
    /// Omit frames narrower than PERCENT of the picture
    #[arg(hide_short_help = true, long, value_name = "PERCENT", default_value_t = 0.01, value_parser = percent)]
    pub min_width: f64,
    /// Width of the picture in pixels [default: width of the window]
    #[arg(hide_short_help = true, long, value_name = "PIXELS", value_parser = within(100..=100_000_u32))]
    pub width: Option<u32>,
}

impl DrawingArguments {
    /// Returns the options of a picture. `unit` is that of the weights; with `is_time` they are nanoseconds.
    ///
    /// # Errors
    /// The palette has another name.
    pub fn options(
        &self,
        title: String,
        figures: String,
        unit: &str,
        is_time: bool,
    ) -> anyhow::Result<Options> {
        Ok(Options {
            title: self.title.clone().unwrap_or(title),
            subtitle: figures,
            colors: self.colors.parse().map_err(anyhow::Error::msg)?,
            width: self.width.map(|width| width as usize),
            min_width: self.min_width,
            inverted: self.inverted,
            reverse: self.reverse,
            per_unit: if is_time { NANOSECONDS_PER_UNIT } else { 1 },
            unit: if is_time { "µs" } else { unit }.to_owned(),
        })
    }
}
