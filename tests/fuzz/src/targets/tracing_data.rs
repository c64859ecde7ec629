//! TRACING_DATA, and raw data printed by its formats.

use export::script::tracepoint::TracepointFormats;
use export::script::{GappedText, LocatedAddress};
use model::{AddressKind, SpaceId, StackEntry};

use crate::seeds;

pub(super) fn run(bytes: &[u8]) {
    let (data, _) = TracepointFormats::parse(bytes);
    let mut place = |address| {
        let kind = AddressKind::InstructionPointer;
        LocatedAddress {
            address,
            entry: StackEntry { offset: address, space: SpaceId(0), kind, in_kernel: true },
        }
    };
    // The section itself serves as raw data: it is as hostile as any.
    let tail = bytes.get(bytes.len() / 2..).unwrap_or(&[]);
    for format in data.iter().take(64) {
        for raw in [bytes, tail] {
            let mut text = GappedText::default();
            format.print(raw, &mut place, &mut text);
            assert!(text.memory_bytes() < 16 << 20, "a tracepoint of {} bytes", text.memory_bytes());
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![seeds::tracing_data()]
}
