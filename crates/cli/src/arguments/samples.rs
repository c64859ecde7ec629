//! Arguments that select samples.

use clap::{Args, Parser};
use model::{Pid, Tid, Timestamp};
use profile::{SampleFilter, TimeRange};

use super::NumberList;
use super::lists::time_range;
use super::numbers::within;

/// Arguments that select samples.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub struct SampleArguments {
    /// Only threads of this name (may be repeated)
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    comm: Vec<String>,
    /// Only these processes
    #[arg(hide_short_help = true, long, value_name = "PID", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = within(0..=i32::MAX))]
    pid: Vec<i32>,
    /// Only these threads
    #[arg(hide_short_help = true, long, value_name = "TID", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = within(0..=i32::MAX))]
    tid: Vec<i32>,
    /// Only these CPUs, for example 0-3,5
    #[arg(hide_short_help = true, long, value_name = "LIST")]
    cpu: Option<NumberList>,
    /// Only these containers, by displayed name (docker:0123456789ab) or id; `host` for processes outside of containers
    #[arg(hide_short_help = true, long, value_name = "NAME", value_delimiter = ',')]
    container: Vec<String>,
    /// Only these cgroups and those below them, by path; needs a recording with --all-cgroups
    #[arg(hide_short_help = true, long, value_name = "PATH", value_delimiter = ',')]
    cgroup: Vec<String>,
    /// Only this time range, in seconds from the start of the recording (0.5,1.2), or on the recorder's clock as `prof script`
    /// prints it (@7175.9,@7176.4); either end may be omitted
    #[arg(hide_short_help = true, long, value_name = "START,END", value_parser = time_range)]
    time: Option<TimeRange>,
    /// Only this event
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub event: Option<String>,
}

/// The keys of a slice.
const SLICE_KEYS: [&str; 8] = ["comm", "pid", "tid", "cpu", "container", "cgroup", "time", "event"];

/// A slice of a recording, parsed as the flags of the same names.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Slice {
    #[command(flatten)]
    samples: SampleArguments,
}

impl SampleArguments {
    /// Returns the arguments with the conditions of a slice instead of those of the same kind: `time=0,5 comm=old pid=41,42`. A value
    /// with spaces stands between quotes: `comm='a b'`.
    ///
    /// # Errors
    /// A sentence that describes the mistake.
    pub fn with_slice(&self, text: &str) -> Result<Self, String> {
        let example = "try for example: 'time=0,5 comm=worker pid=41,42'";
        let mut flags = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (key, behind) =
                rest.split_once('=').ok_or_else(|| format!("`{rest}` is not KEY=VALUE; {example}"))?;
            if !SLICE_KEYS.contains(&key) {
                return Err(format!("there is no key `{key}`, only {}; {example}", SLICE_KEYS.join(", ")));
            }
            let quote = behind.chars().next().filter(|first| matches!(first, '\'' | '"'));
            let (value, after) = match quote {
                Some(quote) => behind
                    .get(1..)
                    .and_then(|quoted| quoted.split_once(quote))
                    .ok_or_else(|| format!("the quote behind `{key}=` has no end"))?,
                None => behind.split_once(char::is_whitespace).unwrap_or((behind, "")),
            };
            flags.push(format!("--{key}={value}"));
            rest = after.trim_start();
        }
        let Slice { samples: slice } = Slice::try_parse_from(flags).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").replace("--", "")
        })?;
        let or = |own: Vec<String>, common: &Vec<String>| if own.is_empty() { common.clone() } else { own };
        let or_numbers = |own: Vec<i32>, common: &Vec<i32>| if own.is_empty() { common.clone() } else { own };
        Ok(Self {
            comm: or(slice.comm, &self.comm),
            pid: or_numbers(slice.pid, &self.pid),
            tid: or_numbers(slice.tid, &self.tid),
            cpu: slice.cpu.or_else(|| self.cpu.clone()),
            container: or(slice.container, &self.container),
            cgroup: or(slice.cgroup, &self.cgroup),
            time: slice.time.or(self.time),
            event: slice.event.or_else(|| self.event.clone()),
        })
    }

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
            time: self.time.unwrap_or_default(),
            ..SampleFilter::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_replaces_conditions_of_its_kind() {
        let common =
            SampleArguments { comm: vec!["all".to_owned()], pid: vec![7], ..SampleArguments::default() };
        let slice = common.with_slice(" time=0.5,5  pid=41,42 event='a b' ").unwrap();
        assert_eq!((slice.comm, slice.pid), (vec!["all".to_owned()], vec![41, 42]));
        assert_eq!(slice.event.as_deref(), Some("a b"));
        assert!(slice.time.unwrap().from_start);
        for (wrong, why) in [
            ("0,5", "not KEY=VALUE"),
            ("times=0,5", "no key `times`"),
            ("time=5,0", "ends before it starts"),
            ("comm='a", "no end"),
            ("pid=x", "pid"),
        ] {
            let said = common.with_slice(wrong).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
