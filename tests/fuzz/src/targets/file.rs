//! A perf.data file.

use perfdata::tracing_data::TracingData;
use perfdata::{Reader, Source};

use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    if let Ok(reader) = Reader::open(Source::File(Box::new(bytes.to_vec()))) {
        read(reader, bytes.len());
    }
}

/// Reads everything as a command does: in order, decoded.
pub(super) fn read(reader: Reader, len: usize) {
    let mut in_order = reader.in_time_order();
    let mut records = 0_usize;
    while let Ok(Some(record)) = in_order.next_record() {
        let _ = record.decode();
        records += 1;
        // A compressed byte may unpack to as many as the reader allows.
        assert!(records <= (16 << 20) + len * 130, "more records than the bytes can hold");
    }
    let reader = in_order.reader();
    for notice in reader.notices() {
        let _ = notice.to_string();
    }
    let _ = reader.features().recorded_files(reader.endian());
    if let Some(section) = &reader.features().tracing_data {
        let _ = TracingData::parse(section);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![seeds::file(), seeds::compressed(), seeds::pipe()]
}
