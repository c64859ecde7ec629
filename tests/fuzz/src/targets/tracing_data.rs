//! TRACING_DATA, and raw data printed by its formats.

use export::script::TracepointFormat;
use perfdata::tracing_data::TracingData;

use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    let (data, _) = TracingData::parse(bytes);
    // The section itself serves as raw data: it is as hostile as any.
    let tail = bytes.get(bytes.len() / 2..).unwrap_or(&[]);
    for tracepoint in data.tracepoints.iter().take(64) {
        let format = TracepointFormat::new(tracepoint.format, data.endian);
        for raw in [bytes, tail] {
            let mut text = Vec::new();
            format.print(raw, &mut text);
            assert!(text.len() < 16 << 20, "a tracepoint of {} bytes", text.len());
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![seeds::tracing_data()]
}
