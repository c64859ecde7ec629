//! OpenTelemetry's `ProfilesData` (proto 1.10.0, `opentelemetry.proto.profiles.v1development`), which is also the body
//! of an export request.

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message;

use super::dictionary::Dictionary;
use super::string_table::{StringTable, position};
use super::{ExportedRecording, ThreadTime, signed};

#[derive(Clone, PartialEq, Message)]
struct ProfilesData {
    #[prost(message, repeated, tag = "1")]
    resource_profiles: Vec<ResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    dictionary: Option<ProfilesDictionary>,
}

#[derive(Clone, PartialEq, Message)]
struct ProfilesDictionary {
    #[prost(message, repeated, tag = "1")]
    mapping_table: Vec<Mapping>,
    #[prost(message, repeated, tag = "2")]
    location_table: Vec<Location>,
    #[prost(message, repeated, tag = "3")]
    function_table: Vec<Function>,
    #[prost(message, repeated, tag = "4")]
    link_table: Vec<Link>,
    #[prost(string, repeated, tag = "5")]
    string_table: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    attribute_table: Vec<KeyValueAndUnit>,
    #[prost(message, repeated, tag = "7")]
    stack_table: Vec<Stack>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceProfiles {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_profiles: Vec<ScopeProfiles>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {}

#[derive(Clone, PartialEq, Message)]
struct ScopeProfiles {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    profiles: Vec<Profile>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, optional, tag = "1")]
    sample_type: Option<ValueType>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    duration_nano: u64,
    #[prost(message, optional, tag = "5")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "6")]
    period: i64,
    #[prost(bytes = "vec", tag = "7")]
    profile_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Link {}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(int32, tag = "2")]
    unit: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(int32, tag = "1")]
    stack_index: i32,
    #[prost(int32, repeated, tag = "2")]
    attribute_indices: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    memory_start: u64,
    #[prost(uint64, tag = "2")]
    memory_limit: u64,
    #[prost(uint64, tag = "3")]
    file_offset: u64,
    #[prost(int32, tag = "4")]
    filename: i32,
    #[prost(int32, repeated, tag = "5")]
    attribute_indices: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Stack {
    #[prost(int32, repeated, tag = "1")]
    location_indices: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(int32, tag = "1")]
    mapping_index: i32,
    #[prost(uint64, tag = "2")]
    address: u64,
    #[prost(message, repeated, tag = "3")]
    lines: Vec<Line>,
    #[prost(int32, repeated, tag = "4")]
    attribute_indices: Vec<i32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(int32, tag = "1")]
    function_index: i32,
    #[prost(int64, tag = "2")]
    line: i64,
    #[prost(int64, tag = "3")]
    column: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(int32, tag = "1")]
    name: i32,
    #[prost(int32, tag = "2")]
    system_name: i32,
    #[prost(int32, tag = "3")]
    filename: i32,
    #[prost(int64, tag = "4")]
    start_line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValueAndUnit {
    #[prost(int32, tag = "1")]
    key: i32,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Scalar", tags = "1, 3")]
    value: Option<Scalar>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
enum Scalar {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The strings and attributes of a profile. Index 0 of every table means "not set".
struct Tables {
    strings: StringTable,
    attributes: Vec<KeyValueAndUnit>,
    attribute_numbers: HashMap<(i32, Scalar), i32>,
}

impl Tables {
    fn text(&mut self, text: &str) -> i32 {
        self.strings.intern(text)
    }

    fn attribute(&mut self, key: &str, value: Scalar) -> i32 {
        let key = self.text(key);
        let next = position(self.attributes.len());
        let number = *self.attribute_numbers.entry((key, value.clone())).or_insert(next);
        if number == next {
            self.attributes.push(KeyValueAndUnit { key, value: Some(AnyValue { value: Some(value) }) });
        }
        number
    }
}

fn after_zero(number: u32) -> i32 {
    position(number as usize + 1)
}

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    output: &mut dyn Write,
) -> io::Result<()> {
    output.write_all(&data(recording, dictionary).encode_to_vec())
}

fn data(recording: &ExportedRecording<'_>, dictionary: &Dictionary) -> ProfilesData {
    let mut tables = Tables {
        strings: StringTable::new(),
        attributes: vec![KeyValueAndUnit::default()],
        attribute_numbers: HashMap::new(),
    };
    let threads: Vec<Vec<i32>> = dictionary
        .threads
        .values
        .iter()
        .map(|thread| {
            let mut attributes = vec![tables.attribute("thread.name", Scalar::Text(thread.comm.clone()))];
            if let Some((pid, tid)) = thread.ids {
                attributes.push(tables.attribute("process.pid", Scalar::Number(pid.into())));
                attributes.push(tables.attribute("thread.id", Scalar::Number(tid.into())));
            }
            attributes
        })
        .collect();
    let profiles = recording.events.iter().enumerate().map(|(number, event)| {
        let (kind, unit) = event.weight_type();
        let sample_type = Some(ValueType { kind: tables.text(kind), unit: tables.text(unit) });
        let (kind, unit) = event.period_type();
        // As OpenTelemetry's profiler writes time off the CPU: with an empty type of periods.
        let period_type = Some(match event.time {
            Some(ThreadTime::OffCpu) => ValueType::default(),
            _ => ValueType { kind: tables.text(kind), unit: tables.text(unit) },
        });
        let samples: Vec<Sample> = dictionary
            .samples_of(number)
            .map(|samples| Sample {
                stack_index: after_zero(samples.stack),
                attribute_indices: threads[samples.thread as usize].clone(),
                values: vec![signed(samples.count.weight(event.view.weight()))],
            })
            .collect();
        let mut profile = Profile {
            sample_type,
            samples,
            time_unix_nano: recording.started_unix_ns.unwrap_or(0),
            duration_nano: recording.duration_ns,
            period_type,
            period: signed(event.sample_period()),
            profile_id: Vec::new(),
        };
        profile.profile_id = identity(&profile);
        profile
    });
    let profiles: Vec<Profile> = profiles.collect();
    let mappings = dictionary.mappings.iter().map(|mapping| {
        let build_id = (!mapping.build_id.is_empty()).then(|| {
            tables.attribute("process.executable.build_id.gnu", Scalar::Text(mapping.build_id.clone()))
        });
        Mapping {
            memory_start: mapping.start,
            memory_limit: mapping.end,
            file_offset: mapping.start,
            filename: tables.text(&mapping.name),
            attribute_indices: build_id.into_iter().collect(),
        }
    });
    let mapping_table = std::iter::once(Mapping::default()).chain(mappings).collect();
    let locations = dictionary.locations.values.iter().map(|location| {
        let mapping = location.mapping.and_then(|mapping| dictionary.mappings.get(mapping as usize));
        let kind = mapping.map(|mapping| if mapping.in_kernel { "kernel" } else { "native" });
        let kind = kind.map(|kind| tables.attribute("profile.frame.type", Scalar::Text(kind.to_owned())));
        let line = |line: &super::dictionary::Line| Line {
            function_index: after_zero(line.function),
            line: line.line.into(),
            column: line.column.into(),
        };
        Location {
            mapping_index: location.mapping.map_or(0, after_zero),
            address: location.address,
            lines: location.lines.iter().map(line).collect(),
            attribute_indices: kind.into_iter().collect(),
        }
    });
    let location_table = std::iter::once(Location::default()).chain(locations).collect();
    let functions = dictionary.functions.values.iter().map(|function| {
        let name = tables.text(&function.name);
        let (filename, start_line) = (tables.text(&function.file), function.start_line.into());
        Function { name, system_name: name, filename, start_line }
    });
    let function_table = std::iter::once(Function::default()).chain(functions).collect();
    let stacks = dictionary.stacks.values.iter().map(|stack| Stack {
        location_indices: stack.iter().map(|&location| after_zero(location)).collect(),
    });
    let stack_table = std::iter::once(Stack::default()).chain(stacks).collect();
    let scope = Some(Scope { name: "prof".to_owned() });
    ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource {}),
            scope_profiles: vec![ScopeProfiles { scope, profiles }],
        }],
        dictionary: Some(ProfilesDictionary {
            mapping_table,
            location_table,
            function_table,
            link_table: vec![Link {}],
            string_table: tables.strings.texts,
            attribute_table: tables.attributes,
            stack_table,
        }),
    }
}

/// Returns a hash of 16 bytes as the identity of a profile, so that each export of a recording has the same.
fn identity(profile: &Profile) -> Vec<u8> {
    let bytes = profile.encode_to_vec();
    // FNV-1a with 128 bits.
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in bytes {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash.to_be_bytes().to_vec()
}
