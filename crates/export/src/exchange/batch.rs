//! Counted stacks of processes, as engines for profiles receive them: with the type of each event, and a resource for each process.

use std::collections::HashMap;

use profile::Weight;

use super::dictionary::{Dictionary, StackCount};
use super::resource::{Resource, ResourceValue};
use super::{ExportedEvent, ExportedRecording};

/// The type of an event's profiles.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ProfileKind {
    /// The event's name.
    pub(super) event: String,
    /// The type of its periods, by which engines name the profile: `cpu`, `off_cpu`, or the event's name.
    pub(super) name: String,
    /// The unit of periods.
    pub(super) unit: String,
    /// True if samples have their number beside their periods; quantities of other tools are values of their own.
    pub(super) counts_samples: bool,
    /// The number of units from sample to sample; 0 if it is not sampled.
    pub(super) period: u64,
    /// The weight of samples.
    pub(super) weight: Weight,
    /// Attributes of the profile.
    pub(super) stated: Vec<(&'static str, StatedValue)>,
}

/// A value that a profile states of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatedValue {
    /// A number.
    Number(u64),
    /// A sentence.
    Text(String),
}

impl ProfileKind {
    /// Returns type and unit of the value of samples.
    pub(super) fn sample_type(&self) -> (&str, &str) {
        match self.weight {
            Weight::Samples => ("samples", "count"),
            Weight::Period => (&self.name, &self.unit),
        }
    }

    /// Returns type and unit of periods; `None` if it is not sampled.
    pub(super) fn period_type(&self) -> Option<(&str, &str)> {
        (self.period > 0).then_some((&self.name, &self.unit))
    }

    /// Returns true if samples are counted that stand for time.
    pub(super) fn is_sampled_time(&self) -> bool {
        self.weight == Weight::Samples && self.unit == super::NANOSECONDS
    }
}

/// Counted stacks of processes.
#[derive(Clone)]
pub(super) struct Batch<'a> {
    /// The stacks, functions and threads, and the counts.
    pub(super) dictionary: &'a Dictionary,
    /// The types of its events.
    pub(super) kinds: Vec<ProfileKind>,
    /// The resources of processes, by process id.
    pub(super) resources: &'a HashMap<i32, Resource>,
    /// The start of the time that it covers, in nanoseconds since 1970; 0 if unknown.
    pub(super) started_unix_ns: u64,
    /// The length of that time in nanoseconds.
    pub(super) duration_ns: u64,
    /// Makes the name to show of a function's name.
    pub(super) display_name: &'a dyn Fn(&str) -> String,
}

/// Returns the samples by process and event.
pub(super) fn in_order<'b>(batch: &'b Batch<'_>) -> Vec<&'b StackCount> {
    let mut samples: Vec<&StackCount> = batch.dictionary.samples.iter().collect();
    samples.sort_by_key(|sample| (batch.process_of(sample), sample.event));
    samples
}

impl<'a> Batch<'a> {
    /// All samples of a recording.
    pub(super) fn of(recording: &'a ExportedRecording<'_>, dictionary: &'a Dictionary) -> Self {
        Self {
            dictionary,
            kinds: recording.events.iter().map(ExportedEvent::profile_kind).collect(),
            resources: &recording.resources,
            started_unix_ns: recording.started_unix_ns.unwrap_or(0),
            duration_ns: recording.duration_ns,
            display_name: recording.display_name,
        }
    }

    /// Returns the process of samples; `None` if that is not known.
    pub(super) fn process_of(&self, sample: &StackCount) -> Option<i32> {
        self.dictionary.threads.values.get(sample.thread as usize)?.pid
    }

    /// Returns the resource of a process.
    pub(super) fn resource_of(&self, process: Option<i32>) -> Resource {
        let known = process.and_then(|process| self.resources.get(&process)).cloned();
        known.unwrap_or_else(|| {
            let mut unknown = Resource::default();
            unknown.set(Resource::SERVICE_NAME, ResourceValue::Text("unknown_service".to_owned()));
            unknown
        })
    }
}
