//! A byte for the order, an attr, then records of that attr.

use decoder::{Attr, Endian, RawRecord, RecordLayout, SampleFormat};
use perfdata::tool::ToolRecord;

use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    let Some((&order, rest)) = bytes.split_first() else { return };
    let endian = if order & 1 == 0 { Endian::Little } else { Endian::Big };
    let Ok(attr) = Attr::parse(rest, endian) else { return };
    let layout = RecordLayout::new(&attr, endian);
    let mut rest = rest.get(attr.size as usize..).unwrap_or(&[]);
    while let Ok((raw, size)) = RawRecord::parse(rest, endian) {
        decode(&layout, &raw, endian);
        rest = rest.get(size..).unwrap_or(&[]);
    }
    // What is left is a record without a header.
    for kind in 0..90 {
        decode(&layout, &RawRecord { kind, misc: u16::from(order) << 8, body: rest }, endian);
    }
}

fn decode(layout: &RecordLayout, raw: &RawRecord<'_>, endian: Endian) {
    let _ = layout.time_of(raw);
    let _ = layout.id_of(raw);
    if let Ok(record) = layout.decode(raw) {
        // What was decoded can be written, and is then the same each time. (A trailer that was missing is written.)
        let mut written = Vec::new();
        if layout.encode(&record, &mut written).is_ok()
            && let Ok((again, _)) = RawRecord::parse(&written, endian)
        {
            let mut twice = Vec::new();
            let again = layout.decode(&again).map(|record| layout.encode(&record, &mut twice));
            assert_eq!(again, Ok(Ok(())), "{record:?} written and decoded again");
            assert_eq!(written, twice, "{record:?} written twice");
        }
    }
    let _ = ToolRecord::parse(raw, endian);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (order, endian) in [(0, Endian::Little), (1, Endian::Big)] {
        for format in [SampleFormat::all() - SampleFormat::WEIGHT, SampleFormat::IP | SampleFormat::CALLCHAIN]
        {
            let attr = seeds::attr(format);
            let mut bytes = vec![order];
            bytes.extend(attr.to_bytes(endian));
            bytes.extend(seeds::records(&attr, endian, 3));
            seeds.push(bytes);
        }
    }
    seeds
}
