//! A perf.data file.

use export::script::tracepoint::Formats;
use perfdata::{EntryKind, Reader, Source};
use tracker::Orderer;

use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    if let Ok(reader) = Reader::open(Source::File(Box::new(bytes.to_vec()))) {
        read(reader, bytes.len());
    }
}

/// Reads everything as a command does: in order, decoded.
pub(super) fn read(mut reader: Reader, len: usize) {
    let mut orderer = Orderer::default();
    let mut records = 0_usize;
    while let Ok(entry) = reader.next_entry() {
        match entry {
            Some(entry) if entry.kind == EntryKind::Kernel => {
                orderer.push(entry.time.unwrap_or_default(), entry.record);
            }
            Some(entry) => {
                reader.release(entry.record);
                if entry.kind == EntryKind::RoundEnd {
                    orderer.finish_round();
                }
            }
            None => orderer.finish(),
        }
        while let Some((_, record)) = orderer.pop() {
            if let Ok((raw, layout)) = reader.record_and_layout(record) {
                let _ = layout.decode(&raw);
            }
            reader.release(record);
        }
        if entry.is_none() {
            break;
        }
        records += 1;
        // A compressed byte may unpack to as many as the reader allows.
        assert!(records <= (16 << 20) + len * 130, "more records than the bytes can hold");
    }
    for notice in reader.notices() {
        let _ = notice.to_string();
    }
    let _ = reader.features().recorded_files(reader.endian());
    if let Some(section) = &reader.features().tracing_data {
        let _ = Formats::parse(section);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![seeds::file(), seeds::compressed(), seeds::pipe()]
}
