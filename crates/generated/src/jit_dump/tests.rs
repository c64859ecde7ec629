use std::io::Cursor as Bytes;

use super::*;
use proptest::prelude::*;

/// Writes a dump as runtimes do.
struct Writer(Vec<u8>);

impl Writer {
    fn new(flags: u64) -> Self {
        let mut bytes = Vec::new();
        for field in [0x4a69_5444_u32, 1, 40, 62, 0, 42] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        Self(bytes)
    }

    fn record(&mut self, kind: u32, time: u64, body: &[u8]) -> u64 {
        self.0.extend(kind.to_le_bytes());
        self.0.extend((16 + body.len() as u32).to_le_bytes());
        self.0.extend(time.to_le_bytes());
        self.0.extend(body);
        self.0.len() as u64
    }

    /// Returns the offset of the code.
    fn load(&mut self, time: u64, address: u64, size: u64, number: u64, name: &str) -> u64 {
        let mut body = words(&[1, address, address, size, number]);
        body.extend(name.as_bytes());
        body.push(0);
        body.extend(std::iter::repeat_n(0xcc, size.min(1 << 16) as usize));
        self.record(0, time, &body) - size.min(1 << 16)
    }

    fn lines(&mut self, address: u64, lines: &[(u64, u32, &[u8])]) {
        let mut body = words(&[address, lines.len() as u64]);
        for (address, line, file) in lines {
            body.extend(address.to_le_bytes());
            body.extend(line.to_le_bytes());
            body.extend(3_u32.to_le_bytes());
            body.extend(*file);
            body.push(0);
        }
        self.record(2, 1, &body);
    }

    fn read(&self) -> JitDump {
        let mut dump = JitDump::default();
        dump.read(&mut Bytes::new(&self.0)).unwrap();
        dump
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn code_is_named_by_where_its_bytes_lie() {
    let mut writer = Writer::new(0);
    let first = writer.load(10, 0x1000, 0x20, 1, "first");
    writer.record(1, 20, &words(&[1, 0, 0x1000, 0x5000, 0x20, 1]));
    let second = writer.load(30, 0x1000, 0x10, 2, "second");
    writer.record(3, 40, &[]);
    writer.record(99, 40, b"of a later version");
    let dump = writer.read();
    let placement =
        |time, start, size, offset| Placement { time: Timestamp(time), start: Avma(start), size, offset };
    let expected = [
        placement(10, 0x1000, 0x20, first),
        placement(20, 0x5000, 0x20, first),
        placement(30, 0x1000, 0x10, second),
    ];
    assert_eq!(dump.placements(), expected);
    assert_eq!(dump.function(first + 0x1f), Some(Function { name: "first", offset: first, size: 0x20 }));
    assert_eq!(dump.function(first + 0x20), None);
    assert_eq!(dump.function(second).unwrap().name, "second");
    assert_eq!(dump.function(first - 1), None);
    assert_eq!((dump.bad_records(), dump.is_cut()), (0, false));
    assert!(!dump.has_processor_times() && Writer::new(1).read().has_processor_times());
}

#[test]
fn a_dump_that_grows_is_read_on_from_its_last_whole_record() {
    let mut writer = Writer::new(0);
    let first = writer.load(10, 0x1000, 0x20, 1, "first");
    let whole = writer.0.len();
    writer.load(20, 0x2000, 0x20, 2, "second");
    let mut dump = JitDump::default();
    for length in 0..=writer.0.len() {
        dump.read(&mut Bytes::new(&writer.0[..length])).unwrap();
        let expected = usize::from(length >= whole) + usize::from(length == writer.0.len());
        assert_eq!(dump.placements().len(), expected, "{length}");
    }
    assert_eq!(dump.function(first).unwrap().name, "first");
}

#[test]
fn lines_are_those_of_the_instruction_before() {
    let mut writer = Writer::new(0);
    writer.lines(0x1000, &[(0x1008, 2, b"\xff"), (0x1000, 1, b"a.py")]);
    writer.lines(0x1000, &[(0x1000, 1, b"a.py"), (0x1008, 2, b"\xff")]);
    let plain = writer.load(10, 0x1000, 0x20, 1, "plain");
    // As V8 writes them.
    writer.lines(0x2000, &[(0x2040, 5, b"b.js"), (0x2050, 6, b"\xff"), (0x205f, 7, b"c.js")]);
    let shifted = writer.load(10, 0x2000, 0x20, 2, "shifted");
    let without = writer.load(10, 0x2000, 0x20, 3, "without");
    let dump = writer.read();
    let line = |offset| dump.line(offset).map(|line| (line.file, line.line, line.column));
    assert_eq!(line(plain), Some(("a.py", 1, 3)));
    assert_eq!(line(plain + 9), Some(("a.py", 2, 3)));
    assert_eq!(line(shifted + 0xf), Some(("b.js", 5, 3)));
    assert_eq!(line(shifted + 0x10), Some(("b.js", 6, 3)));
    assert_eq!(line(shifted + 0x1f), Some(("c.js", 7, 3)));
    assert_eq!(line(without), None);
    assert_eq!(dump.bad_records(), 1, "the first has no file to be the same as");
}

#[test]
fn unwinding_information_is_of_the_next_function() {
    let mut writer = Writer::new(0);
    let body = [words(&[6, 2, 16]), b"framehdrpadding".to_vec()].concat();
    writer.record(4, 1, &body);
    let with = writer.load(10, 0x1000, 0x21, 1, "with");
    let without = writer.load(10, 0x2000, 0x21, 2, "without");
    writer.record(4, 1, &words(&[4, 5, 16, 0]));
    writer.record(4, 1, &words(&[1 << 40, 0, 0]));
    let dump = writer.read();
    let info = dump.unwinding_info(with + 1).unwrap();
    assert_eq!(info.eh_frame, b"fram");
    assert_eq!(info.eh_frame_address, 0x28);
    assert_eq!(dump.unwinding_info(without), None);
    assert_eq!(dump.bad_records(), 2);
}

#[test]
fn a_header_without_a_table_is_no_unwinding_information() {
    let mut writer = Writer::new(0);
    writer.record(4, 1, &[words(&[20, 20, 0]), vec![1; 20]].concat());
    let alone = writer.load(10, 0x1000, 0x20, 1, "alone");
    let mut dump = writer.read();
    assert_eq!(dump.unwinding_info(alone), None);
    assert!(!dump.has_unwinding_info() && dump.bad_records() == 0);
    writer.record(4, 1, &[words(&[24, 20, 24]), vec![1; 24]].concat());
    let with = writer.load(20, 0x1000, 0x20, 2, "with");
    dump = writer.read();
    assert_eq!(dump.unwinding_info(alone), None);
    assert!(dump.unwinding_info(with).is_some() && dump.has_unwinding_info());
}

#[test]
fn what_makes_no_sense_is_counted_or_ends_the_reading() {
    let mut writer = Writer::new(0);
    writer.load(1, 0x1000, 1 << 40, 1, "more code than the file has");
    writer.load(1, u64::MAX, 2, 2, "past the last address");
    writer.load(1, 0x1000, 0, 3, "no code");
    writer.load(1, 0x1000, 4, 4, "");
    writer.record(0, 1, b"short");
    writer.record(1, 1, &words(&[1, 0, 0x1000, 0x5000, 0x20, 77]));
    let good = writer.load(1, 0x1000, 4, 5, &"n".repeat(3 * Name::MAX_BYTES));
    let dump = writer.read();
    assert_eq!((dump.bad_records(), dump.placements().len()), (6, 1));
    assert!(Name::is_cut(dump.function(good).unwrap().name));

    let length = writer.0.len() as u64;
    writer.0.extend([0; 16]);
    let mut dump = JitDump::default();
    let error = dump.read(&mut Bytes::new(&writer.0)).unwrap_err();
    assert!(matches!(error, JitDumpError::RecordSize { offset, size: 0 } if offset == length), "{error}");
    assert!(dump.is_cut() && dump.placements().len() == 1);
    assert!(dump.read(&mut Bytes::new(&writer.0)).is_ok(), "it is not looked at again");

    for (at, value) in [(0, 0), (4, 2), (8, 39)] {
        let mut bytes = Writer::new(0).0;
        bytes[at] = value;
        assert!(JitDump::default().read(&mut Bytes::new(&bytes)).is_err(), "{at}");
    }
}

#[test]
fn the_other_byte_order_is_read() {
    let mut bytes: Vec<u8> =
        [0x4a69_5444_u32, 1, 40, 21, 0, 42].iter().flat_map(|w| w.to_be_bytes()).collect();
    let big = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    bytes.extend(big(&[7, 0]));
    bytes.extend([0_u32, 16 + 40 + 2 + 4].iter().flat_map(|w| w.to_be_bytes()));
    bytes.extend(big(&[9, 1, 0x1000, 0x1000, 4, 1]));
    bytes.extend(b"f\0code");
    let mut dump = JitDump::default();
    dump.read(&mut Bytes::new(&bytes)).unwrap();
    assert_eq!(dump.placements()[0].start, Avma(0x1000));
    assert_eq!(dump.function(bytes.len() as u64 - 1).unwrap().name, "f");
}

#[test]
fn dumps_are_known_by_their_names() {
    for path in ["/tmp/jit-7.dump", "/d/jit-31750-31749.dump", "/jit-8-7-aX09bc", "/jit-8-7-aX09bc.dump"] {
        assert!(is_dump(path.as_bytes()), "{path}");
    }
    for path in [
        "jit-7.dump",
        "/jit-7",
        "/jit-8-7",
        "/jit-.dump",
        "/jit--7.dump",
        "/jit-8-x.dump",
        "/jit-8-7-a-b",
        "/jit-8-7-.so",
    ] {
        assert!(!is_dump(path.as_bytes()), "{path}");
    }
}

proptest! {
    #[test]
    fn damage_is_harmless(
        changes in prop::collection::vec((0_usize..600, any::<u8>()), 0..12),
        cut in 0_usize..600,
    ) {
        let mut writer = Writer::new(0);
        writer.lines(0x1000, &[(0x1000, 1, b"a.py"), (0x1008, 2, b"\xff")]);
        writer.record(4, 1, &[words(&[6, 2, 16]), b"framehdr".to_vec()].concat());
        writer.load(10, 0x1000, 0x20, 1, "first");
        writer.record(1, 20, &words(&[1, 0, 0x1000, 0x5000, 0x20, 1]));
        writer.load(30, 0x1000, 0x10, 2, "second");
        let mut bytes = writer.0;
        for (at, value) in changes {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let mut dump = JitDump::default();
        let _ = dump.read(&mut Bytes::new(&bytes));
        for placement in dump.placements() {
            prop_assert!(placement.size > 0 && placement.start.0.checked_add(placement.size - 1).is_some());
            for offset in [placement.offset, placement.offset + placement.size - 1] {
                prop_assert!(dump.function(offset).is_some(), "{placement:?}");
                let _ = (dump.line(offset), dump.unwinding_info(offset));
            }
        }
    }
}
