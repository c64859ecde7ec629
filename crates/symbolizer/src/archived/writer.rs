//! Writes the parts of archives.

use std::collections::HashMap;

use model::{BuildId, Frame, Pid, Space, TextSymbol};

use super::VERSION;

/// Interns strings for an archive.
#[derive(Default)]
pub(super) struct StringTableBuilder<'a> {
    numbers: HashMap<&'a str, u64>,
    list: Vec<&'a str>,
}

impl<'a> StringTableBuilder<'a> {
    /// Returns the start of an archive: version and strings.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_number(&mut bytes, VERSION);
        write_number(&mut bytes, self.list.len() as u64);
        for text in &self.list {
            write_bytes(&mut bytes, text.as_bytes());
        }
        bytes
    }

    pub(super) fn number(&mut self, text: &'a str) -> u64 {
        let list = &mut self.list;
        *self.numbers.entry(text).or_insert_with(|| {
            list.push(text);
            list.len() as u64 - 1
        })
    }
}

pub(super) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes the number of frames and the frames, innermost first.
pub(super) fn write_frames<'a>(out: &mut Vec<u8>, frames: &'a [Frame], strings: &mut StringTableBuilder<'a>) {
    write_number(out, frames.len() as u64);
    for frame in frames {
        write_number(out, strings.number(&frame.function));
        write_number(out, u64::from(frame.inlined));
        match &frame.location {
            None => write_number(out, 0),
            Some(location) => {
                write_number(out, strings.number(&location.file) + 1);
                write_number(out, location.line.into());
                write_number(out, location.column.into());
                write_number(out, location.start_line.into());
            }
        }
    }
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn write_build_id(out: &mut Vec<u8>, build_id: Option<&BuildId>) {
    write_bytes(out, build_id.map_or(&[], BuildId::as_bytes));
}

/// Writes a space. Spaces without code are written as 0.
pub(super) fn write_space(out: &mut Vec<u8>, space: &Space) {
    let pid_number = |pid: &Pid| u64::from(pid.0.cast_unsigned());
    match space {
        Space::Object(identity) => {
            out.push(1);
            write_bytes(out, identity.path.as_bytes());
            write_build_id(out, identity.build_id.as_ref());
            match identity.file {
                None => out.push(0),
                Some(file) => {
                    out.push(1);
                    for number in [file.major.into(), file.minor.into(), file.inode, file.generation] {
                        write_number(out, number);
                    }
                }
            }
        }
        Space::Vdso { build_id } => {
            out.push(2);
            write_build_id(out, build_id.as_ref());
        }
        Space::Kernel { build_id, text } => {
            out.push(if text.is_some_and(|text| text.symbol == TextSymbol::Stext) { 9 } else { 3 });
            write_build_id(out, build_id.as_ref());
            write_number(out, text.map_or(0, |text| text.address.wrapping_add(1)));
        }
        Space::KernelModule { name, build_id, start } => {
            out.push(4);
            write_bytes(out, name.as_bytes());
            write_build_id(out, build_id.as_ref());
            write_number(out, *start);
        }
        Space::KernelSymbol { name } => {
            out.push(5);
            write_bytes(out, name.as_bytes());
        }
        Space::Jit { pid, generation, mapping } => {
            out.push(6);
            write_number(out, pid_number(pid));
            write_number(out, (*generation).into());
            write_bytes(out, mapping.as_bytes());
        }
        Space::JitDump { pid, generation, path } => {
            out.push(7);
            write_number(out, pid_number(pid));
            write_number(out, (*generation).into());
            write_bytes(out, path.as_bytes());
        }
        Space::Unmapped { pid, generation } => {
            out.push(8);
            write_number(out, pid_number(pid));
            write_number(out, (*generation).into());
        }
        Space::JavaScript { name } | Space::TaskLabel { name } => {
            out.push(if matches!(space, Space::JavaScript { .. }) { 11 } else { 12 });
            write_bytes(out, name.as_bytes());
        }
        Space::Python { file, function } => {
            out.push(10);
            write_bytes(out, file.as_bytes());
            write_bytes(out, function.as_bytes());
        }
        Space::Truncated(_) | Space::State(_) | Space::Foreign(_) => out.push(0),
    }
}
