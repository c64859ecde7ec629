//! Arguments that select samples.

use clap::Args;
use model::{Pid, Tid, Timestamp};
use profile::{SampleFilter, TimeRange};

use super::NumberList;
use super::lists::time_range;
use super::numbers::within;

/// Arguments that select samples.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Samples")]
pub struct SampleArguments {
    /// Only threads of this name (may be repeated)
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
    /// Only these containers, by displayed name (docker:0123456789ab) or id; `host` for processes outside of containers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    container: Vec<String>,
    /// Only these cgroups and those below them, by path; needs a recording with --all-cgroups
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    cgroup: Vec<String>,
    /// Only this time range, in seconds from the start of the recording (0.5,1.2), or on the recorder's clock as `prof script`
    /// prints it (@7175.9,@7176.4); either end may be omitted
    #[arg(long, value_name = "START,END", value_parser = time_range)]
    time: Option<TimeRange>,
    /// Only this event
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
}

impl SampleArguments {
    /// Returns the flags that are given.
    pub fn given(&self) -> Vec<&'static str> {
        [
            (!self.comm.is_empty(), "--comm"),
            (!self.pid.is_empty(), "--pid"),
            (!self.tid.is_empty(), "--tid"),
            (self.cpu.is_some(), "--cpu"),
            (!self.container.is_empty(), "--container"),
            (!self.cgroup.is_empty(), "--cgroup"),
            (self.time.is_some(), "--time"),
            (self.event.is_some(), "--event"),
        ]
        .into_iter()
        .filter_map(|(given, flag)| given.then_some(flag))
        .collect()
    }

    /// Describes the selected samples; empty for all.
    pub fn description(&self) -> String {
        fn list<T: ToString>(values: &[T]) -> String {
            values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
        }
        let seconds = |time: Option<Timestamp>| {
            time.map_or(String::new(), |time| format!("{:.3}", time.0 as f64 / 1e9))
        };
        let cpus = self.cpu.iter().flat_map(|list| &list.0).map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        });
        let cpus = cpus.collect::<Vec<_>>().join(",");
        let time = self.time.map_or(String::new(), |time| {
            let sign = |end: Option<Timestamp>| if time.from_start || end.is_none() { "" } else { "@" };
            let (start, end) = (seconds(time.start), seconds(time.end));
            format!("{}{start} to {}{end} s", sign(time.start), sign(time.end)).trim().to_owned()
        });
        let conditions = [
            ("comm ", list(&self.comm)),
            ("process ", list(&self.pid)),
            ("thread ", list(&self.tid)),
            ("CPU ", cpus),
            ("container ", list(&self.container)),
            ("cgroup ", list(&self.cgroup)),
            ("", time),
        ];
        let given = conditions.iter().filter(|(_, values)| !values.is_empty());
        given.map(|(what, values)| format!("{what}{values}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the filter, except for the event, which is resolved when the recording is open.
    pub fn filter(&self) -> SampleFilter {
        SampleFilter {
            comms: self.comm.iter().map(|comm| comm.as_bytes().to_vec()).collect(),
            pids: self.pid.iter().copied().map(Pid).collect(),
            tids: self.tid.iter().copied().map(Tid).collect(),
            cpus: self.cpu.clone().map_or_else(Vec::new, |list| list.0),
            containers: self.container.clone(),
            cgroups: self.cgroup.clone(),
            event: None,
            time: self.time.unwrap_or_default(),
        }
    }
}
