//! Collects a group of rows as columns, and writes them.

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;
use profile::FrameKind;

use super::super::dictionary::Dictionary;
use super::super::{ExportedRecording, Resource, signed};
use super::Row;

/// Names as reference-counted byte arrays, which columns share.
pub(super) struct Names {
    events: Vec<ByteArray>,
    comms: Vec<ByteArray>,
    processes: Vec<Option<ByteArray>>,
    services: Vec<Option<ByteArray>>,
    hosts: Vec<Option<ByteArray>>,
    containers: Vec<Option<ByteArray>>,
    functions: Vec<ByteArray>,
    modules: Vec<Option<ByteArray>>,
    files: Vec<Option<ByteArray>>,
    /// The build id of each mapping.
    build_ids: Vec<Option<ByteArray>>,
}

impl Names {
    pub(super) fn new(recording: &ExportedRecording<'_>, dictionary: &Dictionary) -> Self {
        let known = |text: &str| (!text.is_empty()).then(|| ByteArray::from(text));
        let (threads, functions) = (&dictionary.threads.values, &dictionary.functions.values);
        let stated = |key: &str| -> Vec<Option<ByteArray>> {
            let resource = |pid: Option<i32>| recording.resources.get(&pid?);
            threads.iter().map(|thread| resource(thread.pid)?.text(key).map(ByteArray::from)).collect()
        };
        Self {
            services: stated(Resource::SERVICE_NAME),
            hosts: stated("host.name"),
            containers: stated("container.id"),
            build_ids: dictionary.mappings.iter().map(|mapping| known(&mapping.build_id)).collect(),
            events: recording.events.iter().map(|event| ByteArray::from(&*event.name)).collect(),
            comms: threads.iter().map(|thread| ByteArray::from(&*thread.comm)).collect(),
            processes: threads.iter().map(|thread| thread.process.as_deref().map(ByteArray::from)).collect(),
            functions: functions.iter().map(|function| ByteArray::from(&*function.name)).collect(),
            modules: functions.iter().map(|function| known(&function.module)).collect(),
            files: functions.iter().map(|function| known(&function.file)).collect(),
        }
    }
}

/// A column of optional values.
struct Optional<T> {
    values: Vec<T>,
    /// The definition level of each row: 1 if it has a value.
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(value.is_some().into());
        self.values.extend(value);
    }
}

/// The columns of rows, in the order of the schema.
#[derive(Default)]
pub(super) struct Columns {
    /// The time of the first sample, in nanoseconds since 1970.
    started: Option<u64>,
    times: Optional<i64>,
    since_start: Optional<i64>,
    events: Vec<ByteArray>,
    comms: Vec<ByteArray>,
    processes: Optional<ByteArray>,
    pids: Optional<i32>,
    tids: Optional<i32>,
    services: Optional<ByteArray>,
    hosts: Optional<ByteArray>,
    containers: Optional<ByteArray>,
    functions: Vec<ByteArray>,
    modules: Optional<ByteArray>,
    files: Optional<ByteArray>,
    lines: Optional<i32>,
    build_ids: Optional<ByteArray>,
    addresses: Optional<i64>,
    in_kernel: Vec<bool>,
    stacks: Vec<ByteArray>,
    /// The repetition level of each frame: 0 for the first of a row's stack, 1 for the others.
    stack_levels: Vec<i16>,
    samples: Vec<i64>,
    periods: Vec<i64>,
}

impl Columns {
    pub(super) fn new(started: Option<u64>) -> Self {
        Self { started, ..Self::default() }
    }

    pub(super) fn rows(&self) -> usize {
        self.samples.len()
    }

    pub(super) fn frames(&self) -> usize {
        self.stacks.len()
    }

    pub(super) fn push(&mut self, row: &Row, dictionary: &Dictionary, names: &Names) {
        let Some(thread) = dictionary.threads.values.get(row.thread as usize) else { return };
        let mut innermost = None;
        for (location, line) in dictionary.lines_of(row.stack) {
            self.stack_levels.push(innermost.is_some().into());
            self.stacks.push(names.functions[line.function as usize].clone());
            innermost = Some((location, line));
        }
        // Stacks of the dictionary are not empty.
        let Some((location, line)) = innermost else { return };
        let function = line.function as usize;
        let time = row.start.zip(self.started).map(|(start, started)| signed(started.saturating_add(start)));
        self.times.push(time);
        self.since_start.push(row.start.map(signed));
        self.events.push(names.events[row.event].clone());
        self.comms.push(names.comms[row.thread as usize].clone());
        self.processes.push(names.processes[row.thread as usize].clone());
        self.pids.push(thread.ids.map(|(pid, _)| pid));
        self.tids.push(thread.ids.map(|(_, tid)| tid));
        self.services.push(names.services[row.thread as usize].clone());
        self.hosts.push(names.hosts[row.thread as usize].clone());
        self.containers.push(names.containers[row.thread as usize].clone());
        self.functions.push(names.functions[function].clone());
        self.modules.push(names.modules[function].clone());
        self.files.push(names.files[function].clone());
        self.lines.push(i32::try_from(line.line).ok().filter(|&line| line > 0));
        let mapping = location.mapping.map(|mapping| mapping as usize);
        self.build_ids.push(mapping.and_then(|mapping| names.build_ids.get(mapping)?.clone()));
        self.addresses.push(mapping.map(|_| location.address.cast_signed()));
        self.in_kernel.push(location.kind == Some(FrameKind::Kernel));
        self.samples.push(signed(row.samples));
        self.periods.push(signed(row.period));
    }

    pub(super) fn write(&self, group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
        // Every stack has a frame, so all values are defined.
        let defined = vec![1; self.stacks.len()];
        optional::<Int64Type>(group, &self.times)?;
        optional::<Int64Type>(group, &self.since_start)?;
        column::<ByteArrayType>(group, &self.events, None, None)?;
        column::<ByteArrayType>(group, &self.comms, None, None)?;
        optional::<ByteArrayType>(group, &self.processes)?;
        optional::<Int32Type>(group, &self.pids)?;
        optional::<Int32Type>(group, &self.tids)?;
        optional::<ByteArrayType>(group, &self.services)?;
        optional::<ByteArrayType>(group, &self.hosts)?;
        optional::<ByteArrayType>(group, &self.containers)?;
        column::<ByteArrayType>(group, &self.functions, None, None)?;
        optional::<ByteArrayType>(group, &self.modules)?;
        optional::<ByteArrayType>(group, &self.files)?;
        optional::<Int32Type>(group, &self.lines)?;
        optional::<ByteArrayType>(group, &self.build_ids)?;
        optional::<Int64Type>(group, &self.addresses)?;
        column::<BoolType>(group, &self.in_kernel, None, None)?;
        column::<ByteArrayType>(group, &self.stacks, Some(&defined), Some(&self.stack_levels))?;
        column::<Int64Type>(group, &self.samples, None, None)?;
        column::<Int64Type>(group, &self.periods, None, None)
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.started);
    }
}

fn optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    of: &Optional<T::T>,
) -> Result<()> {
    column::<T>(group, &of.values, Some(&of.levels), None)
}

/// Writes the next column of a group: its values, its definition levels and its repetition levels.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<()> {
    let next = group.next_column()?;
    let mut writer = next.ok_or_else(|| ParquetError::General("there is no such column".to_owned()))?;
    writer.typed::<T>().write_batch(values, defined, repeated)?;
    writer.close()
}
