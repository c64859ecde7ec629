//! A jitdump, read in two parts as one that grows.

use std::io::Cursor;

use generated::JitDump;

pub(super) fn run(bytes: &[u8]) {
    let mut dump = JitDump::new();
    for part in [bytes.get(..bytes.len() / 2).unwrap_or_default(), bytes] {
        if let Err(error) = dump.read(&mut Cursor::new(part)) {
            drop(error.to_string());
        }
    }
    for placement in dump.placements().iter().take(4096) {
        for offset in [placement.offset, placement.offset + placement.size - 1] {
            let function = dump.function(offset);
            assert!(
                function.is_some_and(|function| function.offset <= offset),
                "{placement:?} has no function"
            );
            let _ = (dump.line(offset), dump.unwinding_info(offset));
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut dump = words(&[1 << 32 | 0x4a69_5444, 62 << 32 | 40, 42 << 32, 7, 0]);
    let mut record = |kind: u64, body: &[u8]| {
        dump.extend(words(&[(16 + body.len() as u64) << 32 | kind, 1000]));
        dump.extend(body);
    };
    record(
        2,
        &[
            words(&[0x1000, 2, 0x1000, 7 | 3 << 32]),
            b"a.py\0".to_vec(),
            words(&[0x1004, 8]),
            b"\xff\0".to_vec(),
        ]
        .concat(),
    );
    record(4, &[words(&[16, 8, 16]), b"eh_frame-headers".to_vec()].concat());
    record(0, &[words(&[1, 0x1000, 0x1000, 16, 1]), b"py::work:a.py\0sixteen bytes !!".to_vec()].concat());
    record(1, &words(&[1, 0, 0x1000, 0x3000, 16, 1]));
    record(0, &[words(&[1, 0x1000, 0x1000, 4, 2]), b"JS:*work a.js:1\0code".to_vec()].concat());
    record(3, &[]);
    vec![dump]
}
