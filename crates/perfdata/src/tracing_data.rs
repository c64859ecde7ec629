//! The TRACING_DATA section: formats of tracepoints (`tools/perf/util/trace-event-info.c`).

use decoder::Endian;

use crate::bytes::Bytes;
use crate::error::Error;

/// The parts of a TRACING_DATA section that say something about tracepoints.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TracingData<'a> {
    /// Of raw data.
    pub endian: Endian,
    /// In the order of the section.
    pub tracepoints: Vec<Tracepoint<'a>>,
}

/// A tracepoint that is described.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tracepoint<'a> {
    /// Its folder, `sched`.
    pub system: &'a [u8],
    /// The text of its `tracing/events/SYSTEM/NAME/format`.
    pub format: &'a [u8],
}

impl<'a> TracingData<'a> {
    /// Reads a section. Of one that breaks off, what was read before stays.
    ///
    /// # Errors
    /// [`Error::Cut`] or [`Error::Field`] with the place.
    pub fn parse(bytes: &'a [u8]) -> (Self, Option<Error>) {
        let mut data = Self { endian: Endian::Little, tracepoints: Vec::new() };
        let error = data.read(bytes).err();
        (data, error)
    }

    fn read(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        const MAGIC: [u8; 8] = *b"\x17\x08\x44traci";
        let bytes = &mut Bytes::new(bytes, "tracing data", Endian::Little);
        let magic = bytes.array("magic")?;
        if magic != MAGIC {
            return Err(bytes.wrong("magic", 8, u64::from_be_bytes(magic), "not 17 08 44 and `tracing`"));
        }
        bytes.bytes("magic", 2)?;
        bytes.terminated("version")?;
        self.endian = if bytes.u8("byte order")? == 0 { Endian::Little } else { Endian::Big };
        bytes.set_endian(self.endian);
        bytes.u8("long size")?;
        bytes.u32("page size")?;
        for name in ["header_page", "header_event"] {
            bytes.terminated(name)?;
            let len = bytes.u64("header size")?;
            bytes.bytes("header", len)?;
        }
        self.formats(b"ftrace", bytes)?;
        for _ in 0..bytes.u32("count of systems")? {
            let system = bytes.terminated("system name")?;
            self.formats(system, bytes)?;
        }
        // Behind them lie symbols, strings and names of the recorded kernel.
        Ok(())
    }

    fn formats(&mut self, system: &'a [u8], bytes: &mut Bytes<'a>) -> Result<(), Error> {
        for _ in 0..bytes.u32("count of formats")? {
            let len = bytes.u64("format size")?;
            self.tracepoints.push(Tracepoint { system, format: bytes.bytes("format", len)? });
        }
        Ok(())
    }
}

impl<'a> Tracepoint<'a> {
    /// Returns the tracepoint's name without its system's, `sched_switch`.
    pub fn name(&self) -> Option<&'a [u8]> {
        self.line(b"name:")
    }

    /// The `config` of its events' attrs.
    pub fn id(&self) -> Option<u64> {
        std::str::from_utf8(self.line(b"ID:")?).ok()?.parse().ok()
    }

    /// The rest of the first line that begins so.
    fn line(&self, start: &[u8]) -> Option<&'a [u8]> {
        let mut lines = self.format.split(|&byte| byte == b'\n');
        lines.find_map(|line| line.trim_ascii().strip_prefix(start)).map(<[u8]>::trim_ascii)
    }
}

/// A field of a tracepoint's raw data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Where its value lies.
    pub location: Location,
    /// The offset of the field in the raw data, in bytes.
    pub offset: usize,
    /// The size of the field, in bytes.
    pub size: usize,
    /// True for a signed number.
    pub signed: bool,
    /// Its type and name in C: `char comm[16]`, `char[] name` at another location, `void * ptr`.
    declaration: &'a str,
}

/// Where the value of a field lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// In the field itself.
    Inline,
    /// `__data_loc`: the low half of the field is the offset in the raw data, the high half the length.
    Absolute,
    /// `__rel_loc`: as `__data_loc`, with an offset from the end of the field.
    Relative,
}

/// Returns the fields that the text of a `format` declares, without those that cannot be parsed.
pub fn fields(format: &str) -> impl Iterator<Item = Field<'_>> {
    let lines = format.lines().map(str::trim_start).take_while(|line| !line.starts_with("print fmt:"));
    lines.filter_map(|line| Field::parse(line.strip_prefix("field:")?))
}

impl<'a> Field<'a> {
    /// Parses `char comm[16]; offset:8; size:16; signed:0;`, separated by tabs.
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declared = parts.next()?;
        let mut number = |name: &str| parts.next()?.strip_prefix(name)?.trim().parse::<usize>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        let signed = number("signed:").is_some_and(|signed| signed != 0);
        let (declaration, location) =
            match (declared.strip_prefix("__data_loc "), declared.strip_prefix("__rel_loc ")) {
                (Some(rest), _) => (rest, Location::Absolute),
                (_, Some(rest)) => (rest, Location::Relative),
                _ => (declared, Location::Inline),
            };
        let before_count = match declaration.split_once('[') {
            Some((before, _)) if declaration.ends_with(']') => before,
            _ => declaration,
        };
        let name = before_count.trim_end().rsplit([' ', '*']).next()?;
        Some(Self { name, location, offset, size, signed, declaration })
    }

    /// Returns the number of elements of an array, which is 0 for a size known only from the data; `None` for other fields.
    pub fn element_count(&self) -> Option<usize> {
        match self.declaration.split_once('[') {
            Some((_, rest)) if self.location == Location::Inline => {
                Some(rest.split(']').next()?.trim().parse().unwrap_or(0))
            }
            None if self.location == Location::Inline => None,
            _ => Some(0),
        }
    }

    /// Returns true for `char` and arrays of it.
    pub fn is_text(&self) -> bool {
        self.declaration.split([' ', '[']).any(|word| word == "char")
    }

    /// Returns true for a pointer, which the recording has only the address of.
    pub fn is_pointer(&self) -> bool {
        self.declaration.contains('*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations() {
        let parse = |line: &'static str| Field::parse(line).unwrap();
        let comm = parse("char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;");
        assert_eq!((comm.name, comm.element_count(), comm.is_text()), ("prev_comm", Some(16), true));
        let args = parse("unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;");
        assert_eq!((args.name, args.element_count(), args.is_text()), ("args", Some(6), false));
        let dynamic = parse("__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!(
            (dynamic.name, dynamic.location, dynamic.element_count(), dynamic.is_text()),
            ("name", Location::Absolute, Some(0), true)
        );
        let words = parse("__rel_loc unsigned long[] values;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((words.name, words.location), ("values", Location::Relative));
        let pointer = parse("const char *buf;\toffset:24;\tsize:8;\tsigned:0;");
        assert_eq!((pointer.name, pointer.is_pointer(), pointer.element_count()), ("buf", true, None));
        let pid = parse("pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;");
        assert_eq!((pid.name, pid.offset, pid.size, pid.signed), ("next_pid", 56, 4, true));
        assert_eq!(Field::parse("int x; offset:a; size:4;"), None);
    }

    fn section(endian: Endian) -> Vec<u8> {
        let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
        bytes.extend([u8::from(endian == Endian::Big), 4]);
        let u32 = |value: u32| if endian == Endian::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        bytes.extend(u32(4096));
        for name in ["header_page", "header_event"] {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.extend(endian.u64_bytes(2));
            bytes.extend(b"xy");
        }
        bytes.extend(u32(0));
        bytes.extend(u32(1));
        bytes.extend_from_slice(b"sched\0");
        bytes.extend(u32(1));
        let format = b"name: x\nID: 7\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"a=%d\", REC->a\n";
        bytes.extend(endian.u64_bytes(format.len() as u64));
        bytes.extend_from_slice(format);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn tracepoints_of_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let section = section(endian);
            let (data, error) = TracingData::parse(&section);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(data.endian, endian);
            let [tracepoint] = data.tracepoints[..] else { panic!("{data:?}") };
            assert_eq!(tracepoint.system, b"sched");
            assert_eq!((tracepoint.name(), tracepoint.id()), (Some(&b"x"[..]), Some(7)));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_harm(
            mut bytes in proptest::collection::vec(proptest::arbitrary::any::<u8>(), 0..200),
            keep in 0_usize..150,
        ) {
            let good = section(Endian::Little);
            bytes.splice(..0, good[..keep.min(good.len())].iter().copied());
            let _ = TracingData::parse(&bytes);
        }
    }

    #[test]
    fn cut_anywhere_it_names_the_place() {
        let section = section(Endian::Little);
        let end_of_formats = section.len() - 8;
        for len in 0..end_of_formats {
            let (data, error) = TracingData::parse(&section[..len]);
            assert!(matches!(error, Some(Error::Cut { .. })), "{len}: {error:?}");
            assert!(data.tracepoints.is_empty(), "{len}");
        }
        let (data, error) = TracingData::parse(&section[..end_of_formats]);
        assert_eq!((data.tracepoints.len(), error.is_none()), (1, true));
        let mut wrong = section;
        wrong[0] = 0;
        let (_, error) = TracingData::parse(&wrong);
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error.contains("magic at offset 0x0 is 0x8447472616369, not 17 08 44 and `tracing`"),
            "{error}"
        );
    }
}
