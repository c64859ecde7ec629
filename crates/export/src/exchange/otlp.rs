//! OpenTelemetry's `ProfilesData` (proto 1.11.0, `opentelemetry.proto.profiles.v1development`), which is also the body
//! of an export request: a resource for each process, with a profile for each event.

use std::collections::HashMap;
use std::io::{self, Write};

use model::Name;
use prost::Message;

use super::batch::{Batch, ProfileKind, StatedValue, in_order};
use super::dictionary::{Dictionary, StackCount};
use super::gzip::gzip;
use super::messages::messages;
use super::resource::{Resource as ProcessResource, ResourceValue};
use super::signed;
use super::string_table::{StringTable, position};

/// The version of the semantic conventions that attributes follow.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.38.0";

messages! {
    ProfilesData {
        resource_profiles: Vec<ResourceProfiles> = 1 (message, repeated),
        dictionary: Option<ProfilesDictionary> = 2 (message, optional),
    }

    ProfilesDictionary {
        mapping_table: Vec<Mapping> = 1 (message, repeated),
        location_table: Vec<Location> = 2 (message, repeated),
        function_table: Vec<Function> = 3 (message, repeated),
        link_table: Vec<Link> = 4 (message, repeated),
        string_table: Vec<String> = 5 (string, repeated),
        attribute_table: Vec<KeyValueAndUnit> = 6 (message, repeated),
        stack_table: Vec<Stack> = 7 (message, repeated),
    }

    ResourceProfiles {
        resource: Option<Resource> = 1 (message, optional),
        scope_profiles: Vec<ScopeProfiles> = 2 (message, repeated),
        schema_url: String = 3 (string),
    }

    Resource {
        attributes: Vec<KeyValue> = 1 (message, repeated),
        dropped_attributes_count: u32 = 2 (uint32),
    }

    KeyValue {
        key: String = 1 (string),
        value: Option<AnyValue> = 2 (message, optional),
    }

    ScopeProfiles {
        scope: Option<Scope> = 1 (message, optional),
        profiles: Vec<Profile> = 2 (message, repeated),
        schema_url: String = 3 (string),
    }

    Scope {
        name: String = 1 (string),
        version: String = 2 (string),
    }

    Profile {
        sample_type: Option<ValueType> = 1 (message, optional),
        samples: Vec<Sample> = 2 (message, repeated),
        time_unix_nano: u64 = 3 (fixed64),
        duration_nano: u64 = 4 (uint64),
        period_type: Option<ValueType> = 5 (message, optional),
        period: i64 = 6 (int64),
        profile_id: Vec<u8> = 7 (bytes = "vec"),
        attribute_indices: Vec<i32> = 11 (int32, repeated),
    }

    Link {}

    #[derive(Copy)]
    ValueType {
        kind: i32 = 1 (int32),
        unit: i32 = 2 (int32),
    }

    Sample {
        stack_index: i32 = 1 (int32),
        attribute_indices: Vec<i32> = 2 (int32, repeated),
        values: Vec<i64> = 4 (int64, repeated),
    }

    Mapping {
        memory_start: u64 = 1 (uint64),
        memory_limit: u64 = 2 (uint64),
        file_offset: u64 = 3 (uint64),
        filename: i32 = 4 (int32),
        attribute_indices: Vec<i32> = 5 (int32, repeated),
    }

    Stack {
        location_indices: Vec<i32> = 1 (int32, repeated),
    }

    Location {
        mapping_index: i32 = 1 (int32),
        address: u64 = 2 (uint64),
        lines: Vec<Line> = 3 (message, repeated),
        attribute_indices: Vec<i32> = 4 (int32, repeated),
    }

    #[derive(Copy)]
    Line {
        function_index: i32 = 1 (int32),
        line: i64 = 2 (int64),
        column: i64 = 3 (int64),
    }

    #[derive(Copy)]
    Function {
        name: i32 = 1 (int32),
        system_name: i32 = 2 (int32),
        filename: i32 = 3 (int32),
        start_line: i64 = 4 (int64),
    }

    KeyValueAndUnit {
        key: i32 = 1 (int32),
        value: Option<AnyValue> = 2 (message, optional),
    }
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Scalar", tags = "1, 2, 3")]
    value: Option<Scalar>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
enum Scalar {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The tables of a message, which get what its samples refer to. Index 0 of each means "not set".
struct Tables<'d> {
    dictionary: &'d Dictionary,
    /// Makes the name to show of a name as the linker knows it.
    display_name: &'d dyn Fn(&str) -> String,
    strings: StringTable,
    attributes: Vec<KeyValueAndUnit>,
    attribute_numbers: HashMap<(i32, Scalar), i32>,
    mappings: Numbered<Mapping>,
    locations: Numbered<Location>,
    functions: Numbered<Function>,
    stacks: Numbered<Stack>,
}

/// A table of a message, with the index of each entry of the dictionary that it has.
struct Numbered<T> {
    list: Vec<T>,
    numbers: HashMap<u32, i32>,
}

impl<T: Default> Default for Numbered<T> {
    fn default() -> Self {
        Self { list: vec![T::default()], numbers: HashMap::new() }
    }
}

impl<T> Numbered<T> {
    fn known(&self, number: u32) -> Option<i32> {
        self.numbers.get(&number).copied()
    }

    fn add(&mut self, number: u32, entry: T) -> i32 {
        let index = position(self.list.len());
        self.list.push(entry);
        self.numbers.insert(number, index);
        index
    }
}

impl<'d> Tables<'d> {
    fn new(dictionary: &'d Dictionary, display_name: &'d dyn Fn(&str) -> String) -> Self {
        Self {
            dictionary,
            display_name,
            strings: StringTable::new(),
            attributes: vec![KeyValueAndUnit::default()],
            attribute_numbers: HashMap::new(),
            mappings: Numbered::default(),
            locations: Numbered::default(),
            functions: Numbered::default(),
            stacks: Numbered::default(),
        }
    }

    fn value_type(&mut self, (kind, unit): (&str, &str)) -> ValueType {
        ValueType { kind: self.strings.intern(kind), unit: self.strings.intern(unit) }
    }

    fn attribute(&mut self, key: &str, value: Scalar) -> i32 {
        let key = self.strings.intern(key);
        let next = position(self.attributes.len());
        let number = *self.attribute_numbers.entry((key, value.clone())).or_insert(next);
        if number == next {
            self.attributes.push(KeyValueAndUnit { key, value: Some(AnyValue { value: Some(value) }) });
        }
        number
    }

    fn text(&mut self, key: &str, text: &str) -> i32 {
        self.attribute(key, Scalar::Text(text.to_owned()))
    }

    fn mapping(&mut self, number: u32) -> i32 {
        let Some(mapping) = self.dictionary.mappings.get(number as usize) else { return 0 };
        if let Some(known) = self.mappings.known(number) {
            return known;
        }
        let ids = [
            ("process.executable.build_id.gnu", &mapping.build_id),
            ("process.executable.build_id.go", &mapping.ids.go),
            ("process.executable.build_id.htlhash", &mapping.ids.content_hash),
        ];
        let known = ids.into_iter().filter(|(_, id)| !id.is_empty());
        let entry = Mapping {
            memory_start: mapping.start,
            memory_limit: mapping.end,
            file_offset: mapping.start,
            filename: self.strings.intern(&mapping.name),
            attribute_indices: known.map(|(key, id)| self.text(key, id)).collect(),
        };
        self.mappings.add(number, entry)
    }

    fn function(&mut self, number: u32) -> i32 {
        let Some(function) = self.dictionary.functions.values.get(number as usize) else { return 0 };
        if let Some(known) = self.functions.known(number) {
            return known;
        }
        let entry = Function {
            name: self.strings.intern(&(self.display_name)(&function.name)),
            system_name: self.strings.intern(&function.name),
            filename: self.strings.intern(&function.file),
            start_line: function.start_line.into(),
        };
        self.functions.add(number, entry)
    }

    fn location(&mut self, number: u32) -> i32 {
        let Some(location) = self.dictionary.locations.values.get(number as usize) else { return 0 };
        if let Some(known) = self.locations.known(number) {
            return known;
        }
        let lines = location.lines.iter().map(|line| Line {
            function_index: self.function(line.function),
            line: line.line.into(),
            column: line.column.into(),
        });
        let lines = lines.collect();
        let kind = self.dictionary.frame_type(location);
        let entry = Location {
            mapping_index: location.mapping.map_or(0, |mapping| self.mapping(mapping)),
            address: location.address,
            lines,
            attribute_indices: kind.map(|kind| self.text("profile.frame.type", kind)).into_iter().collect(),
        };
        self.locations.add(number, entry)
    }

    fn stack(&mut self, number: u32) -> i32 {
        let Some(locations) = self.dictionary.stacks.values.get(number as usize) else { return 0 };
        if let Some(known) = self.stacks.known(number) {
            return known;
        }
        let location_indices = locations.iter().map(|&location| self.location(location)).collect();
        self.stacks.add(number, Stack { location_indices })
    }

    fn sample(&mut self, sample: &StackCount, kind: &ProfileKind) -> Sample {
        let thread = self.dictionary.threads.values.get(sample.thread as usize);
        let mut attribute_indices = Vec::new();
        if let Some(thread) = thread {
            attribute_indices.push(self.text("thread.name", &thread.comm));
            let tid = thread.ids.map(|(_, tid)| self.attribute("thread.id", Scalar::Number(tid.into())));
            attribute_indices.extend(tid);
        }
        Sample {
            stack_index: self.stack(sample.stack),
            attribute_indices,
            values: vec![signed(sample.count.weight(kind.weight))],
        }
    }

    fn into_message(self) -> ProfilesDictionary {
        ProfilesDictionary {
            mapping_table: self.mappings.list,
            location_table: self.locations.list,
            function_table: self.functions.list,
            link_table: vec![Link {}],
            string_table: self.strings.into_texts(),
            attribute_table: self.attributes,
            stack_table: self.stacks.list,
        }
    }
}

/// Limits on a request, which engines state for what they receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLimits {
    /// Maximum number of samples.
    pub samples: usize,
    /// Maximum size of the message, in bytes before compression.
    pub bytes: usize,
}

/// Writes all samples as one message.
pub(super) fn write(batch: &Batch<'_>, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(&message(batch, &in_order(batch)).encode_to_vec())
}

/// Returns all samples as messages within limits, compressed. A message has whole processes, unless one alone exceeds the limits; a single sample that
/// does is a message of its own.
pub(super) fn requests(batch: &Batch<'_>, limits: RequestLimits) -> io::Result<Vec<Vec<u8>>> {
    let mut requests = Vec::new();
    split(batch, &in_order(batch), limits, &mut requests)?;
    Ok(requests)
}

fn split(
    batch: &Batch<'_>,
    samples: &[&StackCount],
    limits: RequestLimits,
    requests: &mut Vec<Vec<u8>>,
) -> io::Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    if samples.len() <= limits.samples.max(1) {
        let bytes = message(batch, samples).encode_to_vec();
        if bytes.len() <= limits.bytes || samples.len() == 1 {
            requests.push(gzip(&bytes)?);
            return Ok(());
        }
    }
    let middle = samples.len() / 2;
    let process = |index: usize| samples.get(index).map(|sample| batch.process_of(sample));
    let is_boundary = |index: &usize| *index > 0 && process(*index - 1) != process(*index);
    let before = (1..=middle).rev().find(is_boundary);
    let after = (middle..samples.len()).find(is_boundary);
    let nearest = before.into_iter().chain(after).min_by_key(|index| index.abs_diff(middle));
    let (first, rest) = samples.split_at(nearest.unwrap_or(middle));
    split(batch, first, limits, requests)?;
    split(batch, rest, limits, requests)
}

fn message(batch: &Batch<'_>, samples: &[&StackCount]) -> ProfilesData {
    let mut tables = Tables::new(batch.dictionary, batch.display_name);
    let of_processes = samples.chunk_by(|one, other| batch.process_of(one) == batch.process_of(other));
    let resource_profiles = of_processes.map(|samples| {
        let process = samples.first().and_then(|sample| batch.process_of(sample));
        let resource = batch.resource_of(process);
        let of_events = samples.chunk_by(|one, other| one.event == other.event);
        let profiles = of_events.filter_map(|samples| {
            let kind = batch.kinds.get(samples.first()?.event)?;
            Some(profile(batch, kind, samples, &resource, &mut tables))
        });
        let scope = Scope { name: "prof".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        ResourceProfiles {
            scope_profiles: vec![ScopeProfiles {
                scope: Some(scope),
                profiles: profiles.collect(),
                schema_url: SCHEMA_URL.to_owned(),
            }],
            resource: Some(resource_message(&resource)),
            schema_url: SCHEMA_URL.to_owned(),
        }
    });
    let resource_profiles = resource_profiles.collect();
    ProfilesData { resource_profiles, dictionary: Some(tables.into_message()) }
}

fn profile(
    batch: &Batch<'_>,
    kind: &ProfileKind,
    samples: &[&StackCount],
    resource: &ProcessResource,
    tables: &mut Tables<'_>,
) -> Profile {
    let period: u64 = samples.iter().map(|sample| sample.count.period).fold(0, u64::saturating_add);
    let recorded = kind.is_sampled_time().then_some(("prof.cpu_time_ns", StatedValue::Number(period)));
    let event = ("prof.event", StatedValue::Text(kind.event.clone()));
    let stated = kind.stated.iter().map(|(key, value)| (*key, value.clone())).chain(recorded).chain([event]);
    let stated: Vec<(&str, StatedValue)> = stated.collect();
    let mut profile = Profile {
        sample_type: Some(tables.value_type(kind.sample_type())),
        samples: samples.iter().map(|sample| tables.sample(sample, kind)).collect(),
        time_unix_nano: batch.started_unix_ns,
        duration_nano: batch.duration_ns,
        // Time off the CPU is not sampled: its type of periods is there, and empty, as OpenTelemetry's profiler writes it.
        period_type: Some(kind.period_type().map_or_else(ValueType::default, |of| tables.value_type(of))),
        period: signed(kind.period),
        profile_id: Vec::new(),
        attribute_indices: stated
            .into_iter()
            .map(|(key, value)| match value {
                StatedValue::Number(number) => tables.attribute(key, Scalar::Number(signed(number))),
                StatedValue::Text(text) => tables.attribute(key, Scalar::Text(text)),
            })
            .collect(),
    };
    profile.profile_id =
        identity(&[resource_message(resource).encode_to_vec(), profile.encode_to_vec()].concat());
    profile
}

fn resource_message(resource: &ProcessResource) -> Resource {
    let attributes = resource.attributes.iter().map(|(key, value)| {
        let value = match value {
            ResourceValue::Text(text) => Scalar::Text(text.clone()),
            ResourceValue::Number(number) => Scalar::Number(*number),
        };
        KeyValue { key: key.clone(), value: Some(AnyValue { value: Some(value) }) }
    });
    Resource { attributes: attributes.collect(), dropped_attributes_count: resource.dropped }
}

/// Reads the texts, numbers and truth values of a `Resource` message that a process has published (OTEP 4719), up to the first damage.
pub fn published_attributes(message: &[u8]) -> Vec<(String, ResourceValue)> {
    let mut resource = Resource::default();
    // What was read before an error stays.
    let _ = resource.merge(message);
    let printable = |text: &str| Name::from(text).to_string();
    let attributes = resource.attributes.iter().filter_map(|KeyValue { key, value }| {
        let value = match value.as_ref()?.value.as_ref()? {
            Scalar::Text(text) => ResourceValue::Text(printable(text)),
            Scalar::Truth(truth) => ResourceValue::Text(truth.to_string()),
            Scalar::Number(number) => ResourceValue::Number(*number),
        };
        Some((printable(key), value))
    });
    attributes.collect()
}

/// Returns a hash of 16 bytes as the identity of a profile, so that each export of a recording has the same.
fn identity(bytes: &[u8]) -> Vec<u8> {
    // FNV-1a with 128 bits.
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in bytes {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash.to_be_bytes().to_vec()
}
