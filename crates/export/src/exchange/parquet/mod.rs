//! A Parquet table for DuckDB, ClickHouse, Spark and others, with a row for each interval, thread and stack.
//!
//! It is compressed by Snappy, which every reader supports. Rows are sorted by event, interval, thread and stack.

mod columns;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::ExportedRecording;
use super::dictionary::{Dictionary, TimedSample};
use super::timeline::Timeline;
use columns::{Columns, Names};

/// The columns. `stack` has the outermost function first; `function`, `module`, `file`, `line`, `build_id` and `address` are those of the
/// innermost. An address is an offset in the file of the module. `samples` of time off the CPU are waits: a long one has rows in several
/// intervals, and counts in the first.
const SCHEMA: &str = "message samples {
    optional int64 time (TIMESTAMP(NANOS,true));
    optional int64 since_start_ns;
    required binary event (STRING);
    required binary comm (STRING);
    optional binary process (STRING);
    optional int32 pid;
    optional int32 tid;
    optional binary service (STRING);
    optional binary host (STRING);
    optional binary container (STRING);
    required binary function (STRING);
    optional binary module (STRING);
    optional binary file (STRING);
    optional int32 line;
    optional binary build_id (STRING);
    optional int64 address (INTEGER(64,false));
    required boolean in_kernel;
    required group stack (LIST) { repeated group list { required binary element (STRING); } }
    required int64 samples;
    required int64 period;
}";

/// A group of rows is written when it has this many rows.
const MAX_GROUP_ROWS: usize = 100_000;
/// A group of rows is written when its stacks have this many frames.
const MAX_GROUP_FRAMES: usize = 4_000_000;
/// Maximum size of the dictionary of a column in a group, in which each name is written once.
const MAX_DICTIONARY_BYTES: usize = 8 << 20;

/// The samples of one thread with one stack in one interval.
#[derive(Clone, Copy, Debug)]
struct Row {
    event: usize,
    /// The start of the interval, in nanoseconds since the first sample; `None` if samples have no time.
    start: Option<u64>,
    thread: u32,
    stack: u32,
    samples: u64,
    period: u64,
}

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    bucket: Duration,
    output: &mut dyn Write,
) -> io::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_page_size_limit(MAX_DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("prof ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata(recording, bucket)))
        .build();
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map_err(failed)?;
    let mut table = Table {
        writer,
        output,
        columns: Columns::new(recording.started_unix_ns),
        names: Names::new(recording, dictionary),
        dictionary,
    };
    let timeline = Timeline::new(recording, dictionary);
    let bucket = u64::try_from(bucket.as_nanos()).unwrap_or(u64::MAX).max(1);
    for event in 0..recording.events.len() {
        let mut open: Vec<TimedSample> = Vec::new();
        let mut start = None;
        for (sample, index) in dictionary.timed(recording, event).zip(0..) {
            let time = timeline.is_timed().then(|| timeline.since_start(&sample, index) / bucket * bucket);
            if time != start {
                table.rows(event, start, &mut open)?;
                start = time;
            }
            open.push(sample);
        }
        table.rows(event, start, &mut open)?;
    }
    table.finish()
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(format!("cannot write Parquet: {error}"))
}

fn metadata(recording: &ExportedRecording<'_>, bucket: Duration) -> Vec<KeyValue> {
    let mut metadata = vec![
        KeyValue::new("title".to_owned(), recording.title.to_owned()),
        KeyValue::new("bucket_ns".to_owned(), bucket.as_nanos().to_string()),
    ];
    for (event, truth) in recording.events.iter().zip(&recording.caveats) {
        metadata.push(KeyValue::new(format!("truth of {}", event.name), truth.clone()));
    }
    metadata
}

/// The table that is being written.
struct Table<'t> {
    /// Writes to memory, which is copied to `output` after each group of rows.
    writer: SerializedFileWriter<Vec<u8>>,
    output: &'t mut dyn Write,
    columns: Columns,
    names: Names,
    dictionary: &'t Dictionary,
}

impl Table<'_> {
    /// Adds the rows of the samples of an interval, and clears these.
    fn rows(&mut self, event: usize, start: Option<u64>, open: &mut Vec<TimedSample>) -> io::Result<()> {
        open.sort_unstable_by_key(|sample| (sample.thread, sample.stack));
        for same in open.chunk_by(|one, other| (one.thread, one.stack) == (other.thread, other.stack)) {
            let Some(&TimedSample { thread, stack, .. }) = same.first() else { continue };
            let period = same.iter().map(|sample| sample.count.period).fold(0, u64::saturating_add);
            let samples = same.iter().map(|sample| sample.count.samples).fold(0, u64::saturating_add);
            let row = Row { event, start, thread, stack, samples, period };
            self.columns.push(&row, self.dictionary, &self.names);
            if self.columns.rows() >= MAX_GROUP_ROWS || self.columns.frames() >= MAX_GROUP_FRAMES {
                self.write_group()?;
            }
        }
        open.clear();
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(failed)?;
        self.columns.write(&mut group).map_err(failed)?;
        group.close().map_err(failed)?;
        self.columns.clear();
        self.writer.flush()?;
        self.output.write_all(self.writer.inner())?;
        self.writer.inner_mut().clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.write_group()?;
        let rest = self.writer.into_inner().map_err(failed)?;
        self.output.write_all(&rest)
    }
}
