//! pprof's `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>), compressed by gzip.

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message;

use super::batch::Batch;
use super::dictionary::Dictionary;
use super::gzip::gzip;
use super::string_table::StringTable;
use super::{ExportedRecording, signed};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub(super) mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub(super) comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub(super) default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
    #[prost(int64, tag = "3")]
    pub(super) number: i64,
    #[prost(int64, tag = "4")]
    pub(super) unit: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub(super) memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub(super) file_offset: u64,
    #[prost(int64, tag = "5")]
    pub(super) filename: i64,
    #[prost(int64, tag = "6")]
    pub(super) build_id: i64,
    #[prost(bool, tag = "7")]
    pub(super) has_functions: bool,
    #[prost(bool, tag = "8")]
    pub(super) has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub(super) has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub(super) has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
    #[prost(int64, tag = "3")]
    pub(super) column: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
    #[prost(int64, tag = "4")]
    pub(super) filename: i64,
    #[prost(int64, tag = "5")]
    pub(super) start_line: i64,
}

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    batch: &Batch<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let comments = std::iter::once(recording.title).chain(recording.caveats.iter().map(String::as_str));
    output.write_all(&compress(&profile(batch, comments))?)
}

/// Returns the bytes of a file with this profile.
pub(super) fn compress(profile: &Profile) -> io::Result<Vec<u8>> {
    gzip(&profile.encode_to_vec())
}

/// Returns all samples of a batch as a profile with these comments.
pub(super) fn profile<'c>(batch: &Batch<'_>, comments: impl Iterator<Item = &'c str>) -> Profile {
    let dictionary = batch.dictionary;
    let mut strings = StringTable::new();
    // Each event has two values: its samples, and the sum of their periods. A quantity of another tool has one.
    let mut sample_type = Vec::new();
    let mut values = Vec::new();
    for (index, kind) in batch.kinds.iter().enumerate() {
        let is_only = batch.kinds.iter().filter(|other| other.name == kind.name).count() == 1;
        let name = if is_only { &kind.name } else { &kind.event };
        let names = [if index == 0 { "samples".to_owned() } else { format!("{name} samples") }, name.clone()];
        values.push(sample_type.len());
        for (name, unit) in names.iter().zip(["count", &kind.unit]).skip(usize::from(!kind.counts_samples)) {
            sample_type
                .push(ValueType { kind: strings.intern(name).into(), unit: strings.intern(unit).into() });
        }
    }
    let first = batch.kinds.first();
    let weighs_samples = first.is_some_and(|kind| kind.weight == profile::Weight::Samples);
    let counts_samples = first.is_none_or(|kind| kind.counts_samples);
    let default = sample_type.get(if weighs_samples || !counts_samples { 0 } else { 1 });
    let default_sample_type = default.map_or(0, |kind| kind.kind);
    let period_type = first.map(|kind| ValueType {
        kind: strings.intern(&kind.name).into(),
        unit: strings.intern(&kind.unit).into(),
    });
    let keys = ["comm", "pid", "tid", "process"].map(|key| strings.intern(key).into());
    let mut sample: Vec<Sample> = Vec::new();
    // The quantities of a sample of another tool are values of one sample again.
    let mut known = HashMap::new();
    for samples in &dictionary.samples {
        let skipped = usize::from(!batch.kinds[samples.event].counts_samples);
        let number = match skipped {
            0 => sample.len(),
            _ => *known.entry((samples.thread, samples.stack)).or_insert(sample.len()),
        };
        let counts = [signed(samples.count.samples), signed(samples.count.period)];
        let add = |value: &mut Vec<i64>| {
            value[values[samples.event]..]
                .iter_mut()
                .zip(&counts[skipped..])
                .for_each(|(value, count)| *value += *count)
        };
        if let Some(known) = sample.get_mut(number) {
            add(&mut known.value);
            continue;
        }
        let mut value = vec![0; sample_type.len()];
        add(&mut value);
        let thread = &dictionary.threads.values[samples.thread as usize];
        let mut text = |key, text: &str| Label { key, text: strings.intern(text).into(), number: 0, unit: 0 };
        let comm = text(keys[0], &thread.comm);
        let process = thread.process.as_deref().map(|process| text(keys[3], process));
        let number = |key, number: i32| Label { key, text: 0, number: number.into(), unit: 0 };
        let ids = thread.ids.map(|(pid, tid)| [number(keys[1], pid), number(keys[2], tid)]);
        let stack = &dictionary.stacks.values[samples.stack as usize];
        let others = thread.labels.iter().map(|label| {
            let [key, text, unit] =
                [&label.key, &label.text, &label.unit].map(|text| strings.intern(text).into());
            Label { key, text, number: label.number, unit }
        });
        let others: Vec<Label> = others.collect();
        sample.push(Sample {
            location_id: stack.iter().map(|&location| u64::from(location) + 1).collect(),
            value,
            label: std::iter::once(comm)
                .chain(process)
                .chain(ids.into_iter().flatten())
                .chain(others)
                .collect(),
        });
    }
    // Readers of pprof take the first mapping for the main program.
    let program = program(dictionary).unwrap_or(0);
    let id_of = |mapping: usize| match mapping {
        0 => program as u64 + 1,
        _ if mapping == program => 1,
        _ => mapping as u64 + 1,
    };
    let mapping = dictionary.mappings.iter().enumerate().map(|(number, mapping)| Mapping {
        id: id_of(number),
        memory_start: mapping.start,
        memory_limit: mapping.end,
        file_offset: mapping.start,
        filename: strings.intern(&mapping.name).into(),
        build_id: strings.intern(&mapping.build_id).into(),
        // Tells pprof not to symbolize the profile again.
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    });
    let mut mapping: Vec<Mapping> = mapping.collect();
    mapping.sort_by_key(|mapping| mapping.id);
    let location = dictionary.locations.values.iter().zip(1..).map(|(location, id)| Location {
        id,
        mapping_id: location.mapping.map_or(0, |mapping| id_of(mapping as usize)),
        address: location.address,
        line: location
            .lines
            .iter()
            .map(|line| Line {
                function_id: u64::from(line.function) + 1,
                line: line.line.into(),
                column: line.column.into(),
            })
            .collect(),
    });
    let location = location.collect();
    let function = dictionary.functions.values.iter().zip(1..).map(|(function, id)| {
        let name = strings.intern(&(batch.display_name)(&function.name)).into();
        let system_name = strings.intern(&function.name).into();
        let filename = strings.intern(&function.file).into();
        Function { id, name, system_name, filename, start_line: function.start_line.into() }
    });
    let function = function.collect();
    let comment = comments.map(|comment| strings.intern(comment).into()).collect();
    Profile {
        sample_type,
        sample,
        mapping,
        location,
        function,
        string_table: strings.texts,
        time_nanos: signed(batch.started_unix_ns),
        duration_nanos: signed(batch.duration_ns),
        period_type,
        period: first.map_or(0, |kind| signed(kind.period)),
        comment,
        default_sample_type,
    }
}

/// Returns the index of the mapping that is most likely the main program: the one that the process with most samples is named after,
/// or else the thread.
fn program(dictionary: &Dictionary) -> Option<usize> {
    let mut processes: HashMap<&str, u64> = HashMap::new();
    for (thread, samples) in dictionary.threads.values.iter().zip(dictionary.samples_by_thread()) {
        *processes.entry(thread.process.as_deref().unwrap_or(&thread.comm)).or_default() += samples;
    }
    let of_name = |name: &str| {
        let is_named = |path: &str| path.rsplit('/').next().is_some_and(|file| file.starts_with(name));
        dictionary.mappings.iter().position(|mapping| !mapping.in_kernel && is_named(&mapping.name))
    };
    let mut heaviest: Vec<(&str, u64)> = processes.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    heaviest.sort_unstable_by_key(|&(name, samples)| (std::cmp::Reverse(samples), name));
    heaviest.into_iter().find_map(|(name, _)| of_name(name))
}
