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
    /// Bytes of the recorded kernel's `long`.
    pub long_size: u8,
    /// In the order of the section.
    pub tracepoints: Vec<Tracepoint<'a>>,
    /// `tracing/printk_formats`: strings of the recorded kernel by address.
    pub strings: &'a [u8],
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
        let mut data = Self { endian: Endian::Little, long_size: 8, tracepoints: Vec::new(), strings: &[] };
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
        self.long_size = bytes.u8("long size")?;
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
        let symbols = bytes.u32("kallsyms size")?;
        bytes.bytes("kallsyms", symbols.into())?;
        let len = bytes.u32("printk formats size")?;
        self.strings = bytes.bytes("printk formats", len.into())?;
        // Behind them lie saved names, which say nothing about fields.
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
    /// Its name without its system's, `sched_switch`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!((data.endian, data.long_size), (endian, 4));
            let [tracepoint] = data.tracepoints[..] else { panic!("{data:?}") };
            assert_eq!(tracepoint.system, b"sched");
            assert_eq!((tracepoint.name(), tracepoint.id()), (Some(&b"x"[..]), Some(7)));
        }
    }

    #[test]
    fn cut_anywhere_it_names_the_place() {
        let section = section(Endian::Little);
        for len in 0..section.len() {
            let (data, error) = TracingData::parse(&section[..len]);
            assert!(matches!(error, Some(Error::Cut { .. })), "{len}: {error:?}");
            assert_eq!(data.tracepoints.is_empty(), len < section.len() - 8, "{len}");
        }
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
