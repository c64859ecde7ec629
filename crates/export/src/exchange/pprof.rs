//! pprof's `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>), compressed by gzip.

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message;

use super::batch::Batch;
use super::dictionary::Dictionary;
use super::gzip::gzip;
use super::messages::messages;
use super::string_table::StringTable;
use super::{ExportedRecording, signed};

messages! {
    /// A profile: the whole file, once it is unpacked. The fields are in the order of `profile.proto`.
    pub ProfileMessage {
        /// The quantities that samples have values of.
        sample_type: Vec<ValueTypeMessage> = 1 (message, repeated),
        /// The samples.
        sample: Vec<SampleMessage> = 2 (message, repeated),
        /// The mapped files; the first is the main program.
        mapping: Vec<MappingMessage> = 3 (message, repeated),
        /// The locations of samples.
        location: Vec<LocationMessage> = 4 (message, repeated),
        /// The functions of locations.
        function: Vec<FunctionMessage> = 5 (message, repeated),
        /// The strings, to which all others refer by index; the first is empty. Writers differ in whether they are UTF-8.
        string_table: Vec<Vec<u8>> = 6 (bytes = "vec", repeated),
        /// The start, in nanoseconds since 1970.
        time_nanos: i64 = 9 (int64),
        /// The length of the measurement in nanoseconds.
        duration_nanos: i64 = 10 (int64),
        /// The quantity that is counted from sample to sample.
        period_type: Option<ValueTypeMessage> = 11 (message, optional),
        /// The number of its units from sample to sample.
        period: i64 = 12 (int64),
        /// Lines on the profile.
        comment: Vec<i64> = 13 (int64, repeated),
        /// The name of the quantity to show.
        default_sample_type: i64 = 14 (int64),
    }

    /// A quantity.
    #[derive(Copy)]
    pub ValueTypeMessage {
        /// Its name.
        kind: i64 = 1 (int64),
        /// The unit.
        unit: i64 = 2 (int64),
    }

    /// A sample.
    pub SampleMessage {
        /// The ids of its locations, the leaf's first.
        location_id: Vec<u64> = 1 (uint64, repeated),
        /// A value for each quantity.
        value: Vec<i64> = 2 (int64, repeated),
        /// The labels.
        label: Vec<LabelMessage> = 3 (message, repeated),
    }

    /// A label of a sample.
    #[derive(Copy)]
    pub LabelMessage {
        /// The key.
        key: i64 = 1 (int64),
        /// The text; the empty one if it is a number.
        text: i64 = 2 (int64),
        /// The number.
        number: i64 = 3 (int64),
        /// The unit.
        unit: i64 = 4 (int64),
    }

    /// A mapped file.
    #[derive(Copy)]
    pub MappingMessage {
        /// The id, by which others refer to it.
        id: u64 = 1 (uint64),
        /// Its first address.
        memory_start: u64 = 2 (uint64),
        /// The address behind its last one.
        memory_limit: u64 = 3 (uint64),
        /// The offset of the first address in the file.
        file_offset: u64 = 4 (uint64),
        /// The path of the file.
        filename: i64 = 5 (int64),
        /// The build id in hexadecimal.
        build_id: i64 = 6 (int64),
        /// True if its locations have all functions that they can have.
        has_functions: bool = 7 (bool),
        /// True if these have files.
        has_filenames: bool = 8 (bool),
        /// True if their lines have numbers.
        has_line_numbers: bool = 9 (bool),
        /// True if inlined functions are there, too.
        has_inline_frames: bool = 10 (bool),
    }

    /// A location in code.
    pub LocationMessage {
        /// The id, by which others refer to it.
        id: u64 = 1 (uint64),
        /// Its mapping; 0 for none.
        mapping_id: u64 = 2 (uint64),
        /// The address; 0 if unknown.
        address: u64 = 3 (uint64),
        /// The functions there, the innermost first.
        line: Vec<LineMessage> = 4 (message, repeated),
    }

    /// A function at a location, and the line in it.
    #[derive(Copy)]
    pub LineMessage {
        /// The function.
        function_id: u64 = 1 (uint64),
        /// The line; 0 if unknown.
        line: i64 = 2 (int64),
        /// The column; 0 if unknown.
        column: i64 = 3 (int64),
    }

    /// A function.
    #[derive(Copy)]
    pub FunctionMessage {
        /// The id, by which others refer to it.
        id: u64 = 1 (uint64),
        /// The name to show.
        name: i64 = 2 (int64),
        /// The name as the linker knows it.
        system_name: i64 = 3 (int64),
        /// The path of the file.
        filename: i64 = 4 (int64),
        /// The line at which it starts; 0 if unknown.
        start_line: i64 = 5 (int64),
    }
}

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    batch: &Batch<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let comments = std::iter::once(recording.title).chain(recording.caveats.iter().map(String::as_str));
    output.write_all(&compress(&profile(batch, comments))?)
}

impl MappingMessage {
    /// Returns a mapping that pprof does not symbolize again.
    pub(super) fn symbolized(id: u64, path: &str, build_id: &str, strings: &mut StringTable) -> Self {
        Self {
            id,
            filename: strings.intern(path).into(),
            build_id: strings.intern(build_id).into(),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
            ..Self::default()
        }
    }
}

/// Returns the bytes of a file with this profile.
pub(super) fn compress(profile: &ProfileMessage) -> io::Result<Vec<u8>> {
    gzip(&profile.encode_to_vec())
}

/// Returns all samples of a batch as a profile with these comments.
pub(super) fn profile<'c>(batch: &Batch<'_>, comments: impl Iterator<Item = &'c str>) -> ProfileMessage {
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
            sample_type.push(ValueTypeMessage {
                kind: strings.intern(name).into(),
                unit: strings.intern(unit).into(),
            });
        }
    }
    let first = batch.kinds.first();
    let weighs_samples = first.is_some_and(|kind| kind.weight == profile::Weight::Samples);
    let counts_samples = first.is_none_or(|kind| kind.counts_samples);
    let default = sample_type.get(if weighs_samples || !counts_samples { 0 } else { 1 });
    let default_sample_type = default.map_or(0, |kind| kind.kind);
    let period_type = first.map(|kind| ValueTypeMessage {
        kind: strings.intern(&kind.name).into(),
        unit: strings.intern(&kind.unit).into(),
    });
    let keys = ["comm", "pid", "tid", "process"].map(|key| strings.intern(key).into());
    let mut sample: Vec<SampleMessage> = Vec::new();
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
        let mut text = |key, text: &str| LabelMessage {
            key,
            text: strings.intern(text).into(),
            ..LabelMessage::default()
        };
        let comm = text(keys[0], &thread.comm);
        let process = thread.process.as_deref().map(|process| text(keys[3], process));
        let number =
            |key, number: i32| LabelMessage { key, number: number.into(), ..LabelMessage::default() };
        let ids = thread.ids.map(|(pid, tid)| [number(keys[1], pid), number(keys[2], tid)]);
        let stack = &dictionary.stacks.values[samples.stack as usize];
        let others = thread.labels.iter().map(|label| {
            let [key, text, unit] =
                [&label.key, &label.text, &label.unit].map(|text| strings.intern(text).into());
            LabelMessage { key, text, number: label.number, unit }
        });
        let others: Vec<LabelMessage> = others.collect();
        sample.push(SampleMessage {
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
    let mapping = dictionary.mappings.iter().enumerate().map(|(number, mapping)| MappingMessage {
        memory_start: mapping.start,
        memory_limit: mapping.end,
        file_offset: mapping.start,
        ..MappingMessage::symbolized(id_of(number), &mapping.name, &mapping.build_id, &mut strings)
    });
    let mut mapping: Vec<MappingMessage> = mapping.collect();
    mapping.sort_by_key(|mapping| mapping.id);
    let location = dictionary.locations.values.iter().zip(1..).map(|(location, id)| LocationMessage {
        id,
        mapping_id: location.mapping.map_or(0, |mapping| id_of(mapping as usize)),
        address: location.address,
        line: location
            .lines
            .iter()
            .map(|line| LineMessage {
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
        FunctionMessage { id, name, system_name, filename, start_line: function.start_line.into() }
    });
    let function = function.collect();
    let comment = comments.map(|comment| strings.intern(comment).into()).collect();
    ProfileMessage {
        sample_type,
        sample,
        mapping,
        location,
        function,
        string_table: strings.into_bytes(),
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
