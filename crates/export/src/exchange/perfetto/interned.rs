//! The interned data of a sequence of packets: stacks, frames, mappings and names that packets refer to by id.

use std::collections::HashSet;

use profile::FrameKind;

use super::super::dictionary::{Dictionary, Line, Location};
use super::messages::{Callstack, Frame, InternedBytes, InternedData, Mapping};
use crate::interner::Interner;

/// The data that packets of a sequence have defined so far. Ids start at 1: those of functions, mappings and stacks are
/// the ids of the dictionary plus 1.
pub(super) struct Interned<'d> {
    dictionary: &'d Dictionary,
    stacks: HashSet<u32>,
    mappings: HashSet<u32>,
    functions: HashSet<u32>,
    /// The location of each frame, and its index among the functions there.
    frames: Interner<(u32, usize)>,
    sources: Interner<&'d str>,
}

impl<'d> Interned<'d> {
    pub(super) fn new(dictionary: &'d Dictionary) -> Self {
        let (stacks, mappings, functions) = Default::default();
        Self {
            dictionary,
            stacks,
            mappings,
            functions,
            frames: Interner::default(),
            sources: Interner::default(),
        }
    }

    /// Returns the data to define before packets refer to a stack; `None` if the stack is defined already.
    pub(super) fn stack(&mut self, stack: u32) -> Option<InternedData> {
        if !self.stacks.insert(stack) {
            return None;
        }
        let mut new = InternedData::default();
        let mut frame_ids = Vec::new();
        let locations = self.dictionary.stacks.values.get(stack as usize)?;
        for &number in locations.iter().rev() {
            let location = self.dictionary.locations.values.get(number as usize)?;
            if let Some(mapping) = location.mapping {
                self.mapping(mapping, &mut new);
            }
            for (at, line) in location.lines.iter().enumerate().rev() {
                let known = self.frames.values.len();
                let frame = self.frames.intern((number, at));
                if frame as usize == known {
                    self.frame(iid_of(frame), location, line, &mut new);
                }
                frame_ids.push(iid_of(frame));
            }
        }
        new.callstacks.push(Callstack { iid: iid_of(stack), frame_ids });
        Some(new)
    }

    fn frame(&mut self, iid: u64, location: &Location, line: &Line, new: &mut InternedData) {
        const NATIVE: i32 = 1;
        const KERNEL: i32 = 2;
        const JIT: i32 = 4;
        let Some(function) = self.dictionary.functions.values.get(line.function as usize) else { return };
        if self.functions.insert(line.function) {
            new.function_names.push(interned(iid_of(line.function), function.name.as_bytes().to_vec()));
        }
        let source_path_iid = (!function.file.is_empty()).then(|| {
            let known = self.sources.values.len();
            let source = self.sources.intern(&*function.file);
            if source as usize == known {
                new.source_paths.push(interned(iid_of(source), function.file.as_bytes().to_vec()));
            }
            iid_of(source)
        });
        new.frames.push(Frame {
            iid,
            function_name_id: iid_of(line.function),
            mapping_id: location.mapping.map_or(0, iid_of),
            rel_pc: location.mapping.map(|_| location.address),
            source_path_iid,
            line_number: (line.line > 0).then_some(line.line),
            kind: match location.kind {
                None => 0,
                Some(FrameKind::Kernel) => KERNEL,
                Some(FrameKind::Jit) => JIT,
                Some(FrameKind::User | FrameKind::Inlined) => NATIVE,
            },
        });
    }

    fn mapping(&mut self, number: u32, new: &mut InternedData) {
        let Some(mapping) = self.dictionary.mappings.get(number as usize) else { return };
        if !self.mappings.insert(number) {
            return;
        }
        let iid = iid_of(number);
        let build_id = bytes(&mapping.build_id);
        new.mappings.push(Mapping {
            iid,
            build_id: if build_id.is_empty() { 0 } else { iid },
            path_string_ids: vec![iid],
        });
        if !build_id.is_empty() {
            new.build_ids.push(interned(iid, build_id));
        }
        // Perfetto writes a slash before each part of a path.
        let path = mapping.name.strip_prefix('/').unwrap_or(&mapping.name);
        new.mapping_paths.push(interned(iid, path.as_bytes().to_vec()));
    }
}

/// Returns the interning id of an index. Ids start at 1, because 0 means "not set".
fn iid_of(position: u32) -> u64 {
    u64::from(position) + 1
}

fn interned(iid: u64, bytes: Vec<u8>) -> InternedBytes {
    InternedBytes { iid, bytes }
}

/// Decodes hexadecimal digits; returns nothing for other text.
fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..digits.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>().unwrap_or_default()
}
