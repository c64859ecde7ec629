//! A zstd stream in COMPRESSED records: the bytes are cut into pieces inside a sound pipe.

use decoder::Endian;
use perfdata::{Reader, Source};

use super::file::read;
use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    let mut pipe = head();
    for piece in bytes.chunks(700) {
        pipe.extend(Endian::Little.u32_bytes(81));
        pipe.extend(Endian::Little.u16_bytes(0));
        pipe.extend(Endian::Little.u16_bytes(piece.len() as u16 + 8));
        pipe.extend(piece);
    }
    let len = pipe.len();
    if let Ok(reader) = Reader::open(Source::File(Box::new(pipe))) {
        read(reader, len);
    }
}

/// A pipe up to its first record: magic, size, one event.
fn head() -> Vec<u8> {
    let attr =
        seeds::attr(decoder::SampleFormat::IDENTIFIER | decoder::SampleFormat::TIME).to_bytes(Endian::Little);
    let mut head = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    head.extend(Endian::Little.u32_bytes(64));
    head.extend(Endian::Little.u16_bytes(0));
    head.extend(Endian::Little.u16_bytes(attr.len() as u16 + 8));
    head.extend(attr);
    head
}

/// The pieces of a compressed recording, joined again.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    if let Ok(mut reader) = Reader::open(Source::File(Box::new(seeds::compressed()))) {
        while let Ok(Some(entry)) = reader.next_entry() {
            if entry.record.kind() == perfdata::tool::kind::COMPRESSED
                && let Ok(raw) = reader.record(entry.record)
            {
                stream.extend_from_slice(raw.body);
            }
            reader.release(entry.record);
        }
    }
    vec![stream]
}
