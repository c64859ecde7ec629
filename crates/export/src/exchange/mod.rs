//! Profiles in the formats that tools exchange: addresses with modules, build ids, functions and lines.
//!
//! Each format has a file or folder. All of them write a `Dictionary`: the stacks, functions, mappings and threads of all
//! events with ids; formats with a time axis also use the `timeline`.

mod batch;
pub mod compilers;
mod dictionary;
mod firefox;
mod gzip;
mod ingest;
mod json;
mod json_stream;
mod messages;
mod otlp;
mod perfetto;
pub mod pprof;
mod resource;
mod speedscope;
mod string_table;
mod timeline;

use std::collections::HashMap;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use model::{Gap, SpaceId, SpaceTable, WaitSpan};
use profile::{TimeWeight, View, Weight};
use thiserror::Error;

pub use batch::StatedValue;
use batch::{Batch, ProfileKind};
use dictionary::Dictionary;
pub use ingest::IngestedProfile;
pub use otlp::{RequestLimits, published_attributes};
pub use resource::{Resource, ResourceValue};

/// The unit of time in profiles.
const NANOSECONDS: &str = "nanoseconds";

/// An export format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Folded stacks, which `flamegraph.pl` and others read.
    Folded,
    /// `profile.proto` of pprof, compressed by gzip.
    Pprof,
    /// The JSON of speedscope.
    Speedscope,
    /// Our own JSON; `docs/schemas/profile.json` describes it.
    Json,
    /// `ProfilesData` of OpenTelemetry, as protobuf: proto 1.11.0, profiles v1development.
    Otlp,
    /// The processed profile of the Firefox Profiler, with symbols.
    Firefox,
    /// A trace of Perfetto, as protobuf, with packets of stack samples.
    Perfetto,
}

impl Format {
    /// The names of all formats.
    pub const NAMES: [&'static str; 7] =
        ["folded", "pprof", "speedscope", "firefox", "perfetto", "json", "otlp"];

    /// Returns true if the format is binary and must not be written to a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Otlp | Self::Perfetto)
    }

    /// Returns true if the format has the time and CPU of each sample, and nothing to say without: profiles must keep single samples
    /// ([`profile::Detail::samples`]).
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Firefox | Self::Perfetto)
    }

    /// Returns true if the format has the order of samples where they have times.
    pub fn has_order(self) -> bool {
        self.is_timed() || self == Self::Speedscope
    }
}

/// The error for an unknown format.
#[derive(Error, Debug)]
#[error("there is no format `{0}`")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Ok(match text {
            "folded" => Self::Folded,
            "pprof" => Self::Pprof,
            "speedscope" => Self::Speedscope,
            "json" => Self::Json,
            "otlp" => Self::Otlp,
            "firefox" => Self::Firefox,
            "perfetto" => Self::Perfetto,
            _ => return Err(UnknownFormat(text.to_owned())),
        })
    }
}

/// A recording to export.
pub struct ExportedRecording<'a> {
    /// The events, each with its samples. Their views must show modules.
    pub events: Vec<ExportedEvent<'a>>,
    /// The spaces of all addresses.
    pub spaces: &'a SpaceTable,
    /// The recorded target, in one line.
    pub title: &'a str,
    /// Statements on how far the profile can be trusted, a line for each event.
    pub caveats: Vec<String>,
    /// The start of the time that is exported, in nanoseconds since 1970; `None` if unknown.
    pub started_unix_ns: Option<u64>,
    /// The length of the time that is exported, in nanoseconds.
    pub duration_ns: u64,
    /// The labels of threads by the numbers that these have of them ([`profile::Thread::labels`]).
    pub labels: &'a [Vec<SampleLabel>],
    /// The resources of processes, by process id.
    pub resources: HashMap<i32, Resource>,
    /// The kinds of generated code by spaces, as `profile.frame.type` of OpenTelemetry's conventions names them.
    pub generated_code_kinds: HashMap<SpaceId, &'static str>,
    /// Identities of objects that are not build ids of GNU.
    pub object_ids: HashMap<SpaceId, ObjectIds>,
    /// Makes the name to show of a function's name, where frames have names as the linker knows them.
    pub display_name: &'a dyn Fn(&str) -> String,
    /// The intervals in which samples are missing. Only timed formats need them.
    pub gaps: &'a [Gap],
    /// When threads were off the CPU, of each thread in order of time; empty if that was not recorded.
    pub waits: &'a [WaitSpan],
}

/// A label that another tool gave samples: a text, or a number with its unit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SampleLabel {
    /// The key of the label.
    pub key: Arc<str>,
    /// The text; empty if it is a number.
    pub text: Arc<str>,
    /// The number that the label is; 0 if it is a text.
    pub number: i64,
    /// The unit of the number; empty if it has none.
    pub unit: Arc<str>,
}

/// Identities of an object beside its build id of GNU; empty texts for unknown ones.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ObjectIds {
    /// The build id of Go's linker.
    pub go: String,
    /// The hash of head, tail and length of the file (`process.executable.build_id.htlhash` of OpenTelemetry's conventions), in hexadecimal.
    pub content_hash: String,
}

/// An event with its samples.
pub struct ExportedEvent<'a> {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub view: &'a View<'a>,
    /// The unit of its periods, if they are a quantity of another tool, which counts its samples by itself.
    pub unit: Option<String>,
    /// True if its periods are nanoseconds of CPU time, or of `time`.
    pub is_clock: bool,
    /// The kind of time of threads that its periods are, if it is no event of the kernel.
    pub time: Option<TimeWeight>,
    /// The number of events per sample, if fixed.
    pub period: Option<u64>,
    /// The number of samples per second, if the kernel adjusts the period.
    pub frequency: Option<u64>,
    /// The attributes of the process that its profile states, beside what was lost.
    pub stated: Vec<(&'static str, StatedValue)>,
}

impl ExportedEvent<'_> {
    /// Returns the type and unit of sums of its periods. Readers keep profiles of each type apart.
    fn period_type(&self) -> (&str, &str) {
        match self.time {
            _ if self.unit.is_some() => (&self.name, self.unit.as_deref().unwrap_or_default()),
            Some(TimeWeight::OffCpu) => ("off_cpu", NANOSECONDS),
            Some(TimeWeight::Wall) => ("wall", NANOSECONDS),
            Some(TimeWeight::Latency) => ("latency", NANOSECONDS),
            Some(TimeWeight::Cpu) => ("cpu", NANOSECONDS),
            None if self.is_clock => ("cpu", NANOSECONDS),
            None => (&self.name, "count"),
        }
    }

    /// Returns the number of units of [`Self::period_type`] from sample to sample, by which readers turn samples into time: that of a
    /// clock follows from its rate, and other events without a fixed one have 1. Time off the CPU is not sampled, and has 0.
    fn sample_period(&self) -> u64 {
        match (self.time, self.period, self.frequency) {
            (Some(TimeWeight::OffCpu), ..) => 0,
            (None, Some(period), _) => period,
            (None, None, Some(frequency)) if self.is_clock => 1_000_000_000 / frequency.max(1),
            _ => 1,
        }
    }

    /// Returns the type and unit of its weights.
    fn weight_type(&self) -> (&str, &str) {
        match self.view.weight() {
            Weight::Samples => ("samples", "count"),
            Weight::Period => self.period_type(),
        }
    }

    /// Returns the type of its profiles, with what was lost.
    fn profile_kind(&self) -> ProfileKind {
        let (name, unit) = self.period_type();
        let loss = &self.view.profile().loss;
        let lost = (loss.samples > 0).then_some(("prof.lost_samples", StatedValue::Number(loss.samples)));
        ProfileKind {
            event: self.name.clone(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            counts_samples: self.unit.is_none(),
            period: self.sample_period(),
            weight: self.view.weight(),
            stated: lost.into_iter().chain(self.stated.iter().cloned()).collect(),
        }
    }
}

/// Writes a recording. [`Format::Folded`] gets the first event only.
///
/// # Errors
/// Those of `output`.
pub fn write(recording: &ExportedRecording<'_>, format: Format, output: &mut dyn Write) -> io::Result<()> {
    if format == Format::Folded {
        return match recording.events.first() {
            Some(event) => crate::folded::write(event.view, output),
            None => Ok(()),
        };
    }
    let dictionary = Dictionary::new(recording);
    match format {
        Format::Folded => Ok(()),
        Format::Pprof => pprof::write(recording, &Batch::of(recording, &dictionary), output),
        Format::Speedscope => speedscope::write(recording, &dictionary, output),
        Format::Json => json::write(recording, &dictionary, output),
        Format::Otlp => otlp::write(&Batch::of(recording, &dictionary), output),
        Format::Firefox => firefox::write(recording, &dictionary, output),
        Format::Perfetto => perfetto::write(recording, &dictionary, output),
    }
}

/// Returns a recording as OTLP export requests, each within limits and with whole processes as far as these allow, compressed by gzip.
///
/// # Errors
/// A request cannot be compressed, for want of memory.
pub fn requests(recording: &ExportedRecording<'_>, limits: RequestLimits) -> io::Result<Vec<Vec<u8>>> {
    otlp::requests(&Batch::of(recording, &Dictionary::new(recording)), limits)
}

/// Returns a recording as profiles for Pyroscope's `/ingest`, one or several for each process and event.
///
/// # Errors
/// As [`requests`].
pub fn ingested_profiles(
    recording: &ExportedRecording<'_>,
    limits: RequestLimits,
) -> io::Result<Vec<IngestedProfile>> {
    ingest::profiles(&Batch::of(recording, &Dictionary::new(recording)), limits)
}

/// Converts a count, saturating at the largest number.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
