//! What `record` and `top` sample, and how often.

use std::time::Duration;

use clap::Args;
use recorder::event::Rate;
use recorder::{Clock, Options, PrivilegeLevels};

use super::call_graph::{self, CallGraph};
use super::events::EventLists;
use super::exit_with_usage_error;
use super::numbers::{seconds, within};

/// Arguments that say what to sample, and how often.
#[derive(Args)]
pub struct SamplingArguments {
    #[command(flatten)]
    events: EventLists,
    /// Sample user space only
    #[arg(long, conflicts_with = "all_kernel", help_heading = "Events")]
    all_user: bool,
    /// Sample the kernel only
    #[arg(long, help_heading = "Events")]
    all_kernel: bool,
    /// Samples per second, or `max` [default: 997]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = frequency, conflicts_with = "period",
          allow_negative_numbers = true, help_heading = "Events")]
    freq: Option<u64>,
    /// Sample every N events (of clocks: nanoseconds) instead
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true,
          value_parser = within(1..=u64::MAX >> 1), help_heading = "Events")]
    period: Option<u64>,
    /// Stop after SECS seconds
    #[arg(short, long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true, help_heading = "Events")]
    duration: Option<Duration>,
    /// Start sampling after MS milliseconds; -1 waits for the command `enable` of --control
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = delay,
          help_heading = "Events", hide_short_help = true)]
    delay: Option<Duration>,
    /// Ring size per CPU, in pages or as 512K, 8M [default: up to 16M per CPU]
    #[arg(hide_short_help = true, short, long, value_name = "N|SIZE", value_parser = ring_size, allow_negative_numbers = true, help_heading = "Events")]
    mmap_pages: Option<u64>,
    /// Use a ring per thread instead of per CPU; new threads are not followed
    #[arg(long, alias = "per-thread", conflicts_with_all = ["all_cpus", "cpu"], help_heading = "Events", hide_short_help = true)]
    no_cpu_rings: bool,
    /// Clock of the timestamps: monotonic, monotonic_raw, realtime, boottime, tai, or perf (the kernel's default)
    #[arg(short = 'k', long, value_name = "NAME", value_parser = clock, default_value = "monotonic",
          help_heading = "Events", hide_short_help = true)]
    clockid: Clock,
    /// How to record call chains: auto, dwarf[,SIZE], fp, lbr, no
    ///
    /// auto: complete stacks, with or without frame pointers; dwarf[,SIZE]: the same with stack copies of SIZE bytes; fp: frame pointers,
    /// by the kernel; lbr: last branch records of Intel processors.
    #[arg(long, value_name = "HOW", value_parser = call_graph::parse, default_value = "auto", help_heading = "Stacks")]
    call_graph: CallGraph,
    /// Record call chains of user space only
    #[arg(long, conflicts_with = "kernel_callchains", help_heading = "Stacks", hide_short_help = true)]
    user_callchains: bool,
    /// Record call chains of the kernel only
    #[arg(long, help_heading = "Stacks", hide_short_help = true)]
    kernel_callchains: bool,
    /// Record call chains (the default)
    #[arg(short = 'g', conflicts_with = "call_graph", help_heading = "Stacks", hide_short_help = true)]
    chains: bool,
    /// Keep the interpreter's own frames in call chains beside the Python or JavaScript functions that it runs
    #[arg(long, help_heading = "Stacks", hide_short_help = true)]
    interpreter_frames: bool,
    /// Maximum number of addresses in a call chain
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within(1..=u16::MAX),
          help_heading = "Stacks", hide_short_help = true)]
    max_stack: Option<u16>,
}

impl SamplingArguments {
    /// Sets the events, the rate and the call chains in `options`.
    ///
    /// # Errors
    /// An event is unknown, or cannot be filtered.
    pub fn apply(&self, options: &mut Options, keep_stacks: bool) -> anyhow::Result<()> {
        options.events = self.events.select()?;
        options.rate = self.freq.map(Rate::Frequency).or(self.period.map(Rate::Period));
        options.call_chain = match self.call_graph.chain(keep_stacks) {
            Some(chain) => chain,
            None => exit_with_usage_error("--keep-stacks needs stacks; try: --call-graph auto --keep-stacks"),
        };
        options.delay = self.delay;
        options.per_thread = self.no_cpu_rings;
        options.interpreter_frames = self.interpreter_frames;
        options.max_stack = self.max_stack;
        options.levels = match (self.all_user, self.all_kernel) {
            (true, _) => PrivilegeLevels::User,
            (_, true) => PrivilegeLevels::Kernel,
            _ => PrivilegeLevels::AsSelected,
        };
        options.chain_levels = match (self.user_callchains, self.kernel_callchains) {
            (true, _) => PrivilegeLevels::User,
            (_, true) => PrivilegeLevels::Kernel,
            _ => PrivilegeLevels::AsSelected,
        };
        options.clock = self.clockid;
        options.ring_size = self.mmap_pages;
        options.duration = self.duration;
        Ok(())
    }
}

/// Parses milliseconds; -1 becomes [`Duration::MAX`], which waits for a command of `--control`.
fn delay(text: &str) -> Result<Duration, String> {
    match text {
        "-1" => Ok(Duration::MAX),
        _ => within(1..=1_u64 << 40)(text).map(Duration::from_millis),
    }
}

fn frequency(text: &str) -> Result<u64, String> {
    if text == "max" {
        return Ok(u64::MAX);
    }
    match text.parse() {
        Ok(hertz) if (1..=1_000_000_000).contains(&hertz) => Ok(hertz),
        _ => Err("a number of samples per second, or max".to_owned()),
    }
}

fn clock(text: &str) -> Result<Clock, String> {
    Clock::by_name(text)
        .ok_or_else(|| "one of monotonic, monotonic_raw, realtime, boottime, tai, perf".to_owned())
}

/// Parses a number of pages, or bytes with a unit, into bytes. The recorder rounds to a power of two.
fn ring_size(text: &str) -> Result<u64, String> {
    let wrong = || "a number of pages, or a size such as 512K or 8M, below 1T".to_owned();
    let unit = |suffix: char, factor: u64| {
        text.strip_suffix([suffix, suffix.to_ascii_lowercase()]).map(|number| (number, factor))
    };
    let (number, factor) = unit('K', 1 << 10)
        .or_else(|| unit('M', 1 << 20))
        .or_else(|| unit('G', 1 << 30))
        .or_else(|| unit('B', 1))
        .unwrap_or((text, host::sys::system::page_size() as u64));
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.filter(|size| (1..1 << 40).contains(size)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_the_defaults_of_the_recorder() {
        let command = SamplingArguments::augment_args(clap::Command::new("prof"));
        let help = |name: &str| {
            let argument = command.get_arguments().find(|argument| argument.get_id() == name).unwrap();
            argument.get_help().unwrap().to_string()
        };
        assert!(help("freq").contains(&format!("[default: {}]", recorder::DEFAULT_FREQUENCY)));
        let largest = recorder::default_ring_bytes(Some(u64::MAX), 1) >> 20;
        assert!(help("mmap_pages").contains(&format!("[default: up to {largest}M per CPU]")));
    }

    #[test]
    fn sizes_rates_and_times() {
        assert_eq!(ring_size("512K"), Ok(524_288));
        assert_eq!(ring_size("8m"), Ok(8 << 20));
        assert_eq!(ring_size("2"), Ok(2 * host::sys::system::page_size() as u64));
        for bad in ["", "0", "K", "-1", "1T", "99999999999999999999"] {
            assert!(ring_size(bad).is_err(), "{bad}");
        }
        assert_eq!(frequency("max"), Ok(u64::MAX));
        assert!(frequency("0").is_err() && frequency("1e3").is_err());
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("0").is_err() && seconds("inf").is_err() && seconds("nan").is_err());
    }
}
