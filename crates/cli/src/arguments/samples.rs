//! Which samples of a recording a view is about.

use clap::Args;
use model::{Pid, Tid};
use profile::{SampleFilter, TimeRange};

use super::NumberList;
use super::lists::time_range;
use super::numbers::within;

/// Which samples.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which samples")]
pub struct SampleArguments {
    /// Only threads of this name (may be given several times)
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,
    /// Only these processes
    #[arg(long, value_name = "PID", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = within(0..=i32::MAX))]
    pid: Vec<i32>,
    /// Only these threads
    #[arg(long, value_name = "TID", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = within(0..=i32::MAX))]
    tid: Vec<i32>,
    /// Only these CPUs, for example 0-3,5
    #[arg(long, value_name = "LIST")]
    cpu: Option<NumberList>,
    /// Only this stretch of time, in seconds as `perf script` prints them; either end may be left out
    #[arg(long, value_name = "START,END", value_parser = time_range)]
    time: Option<TimeRange>,
    /// Only this event of several
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
}

impl SampleArguments {
    /// The flags that were given.
    pub fn given(&self) -> Vec<&'static str> {
        [
            (!self.comm.is_empty(), "--comm"),
            (!self.pid.is_empty(), "--pid"),
            (!self.tid.is_empty(), "--tid"),
            (self.cpu.is_some(), "--cpu"),
            (self.time.is_some(), "--time"),
            (self.event.is_some(), "--event"),
        ]
        .into_iter()
        .filter_map(|(given, flag)| given.then_some(flag))
        .collect()
    }

    /// The conditions, but for the event: which events there are is known only when the recording is open.
    pub fn filter(&self) -> SampleFilter {
        SampleFilter {
            comms: self.comm.iter().map(|comm| comm.as_bytes().to_vec()).collect(),
            pids: self.pid.iter().copied().map(Pid).collect(),
            tids: self.tid.iter().copied().map(Tid).collect(),
            cpus: self.cpu.clone().map_or_else(Vec::new, |list| list.0),
            event: None,
            time: self.time.unwrap_or_default(),
        }
    }
}
