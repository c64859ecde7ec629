//! The tables that all tracks share: strings, libraries, functions, frames, and stacks as a tree.

use std::collections::HashMap;
use std::io::{self, Write};

use profile::FrameKind;
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use super::super::dictionary::{Dictionary, Mapping};
use super::super::json_stream::{Object, column, repeated, table};
use crate::interner::Interner;

/// The type of a resource that is a library (`resourceTypes.library`).
const LIBRARY: u32 = 1;

/// A function of a library.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Function {
    name: u32,
    source: Option<u32>,
    library: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Frame {
    function: u32,
    category: u32,
    inline_depth: u32,
    line: u32,
    column: u32,
}

/// The tables, filled while tracks are built.
#[derive(Default)]
pub(super) struct Tables {
    strings: Interner<String>,
    /// Source files, as string ids.
    sources: Interner<u32>,
    functions: Interner<Function>,
    frames: Interner<Frame>,
    /// The stack of the caller and the frame, of each stack.
    stacks: Interner<(Option<u32>, u32)>,
    /// The ids of stacks by their ids in the dictionary.
    stack_ids: HashMap<u32, u32, FxBuildHasher>,
    /// The names of libraries, as string ids.
    libraries: Vec<u32>,
}

impl Tables {
    pub(super) fn string(&mut self, text: &str) -> u32 {
        self.strings.intern(text.to_owned())
    }

    /// Interns a stack of the dictionary; returns `None` for one without frames.
    pub(super) fn stack(&mut self, dictionary: &Dictionary, number: u32) -> Option<u32> {
        if let Some(&stack) = self.stack_ids.get(&number) {
            return Some(stack);
        }
        let mut caller = None;
        for &location in dictionary.stacks.values.get(number as usize)?.iter().rev() {
            let location = dictionary.locations.values.get(location as usize)?;
            let category = match location.kind {
                None => 0,
                Some(FrameKind::User | FrameKind::Inlined) => 1,
                Some(FrameKind::Kernel) => 2,
                Some(FrameKind::Jit) => 3,
            };
            for (line, inline_depth) in location.lines.iter().rev().zip(0..) {
                let function = dictionary.functions.values.get(line.function as usize)?;
                let source = (!function.file.is_empty()).then(|| {
                    let file = self.string(&function.file);
                    self.sources.intern(file)
                });
                let function =
                    Function { name: self.string(&function.name), source, library: location.mapping };
                let function = self.functions.intern(function);
                let (line, column) = (line.line, line.column);
                let frame = self.frames.intern(Frame { function, category, inline_depth, line, column });
                caller = Some(self.stacks.intern((caller, frame)));
            }
        }
        self.stack_ids.insert(number, caller?);
        caller
    }

    pub(super) fn libs(&mut self, dictionary: &Dictionary) -> Value {
        let lib = |mapping: &Mapping| {
            let name = mapping.name.rsplit('/').next().unwrap_or(&mapping.name);
            self.libraries.push(self.strings.intern(name.to_owned()));
            json!({
                "arch": "",
                "name": name,
                "path": mapping.name,
                "debugName": name,
                "debugPath": mapping.name,
                "breakpadId": breakpad_id(&mapping.build_id),
                "codeId": (!mapping.build_id.is_empty()).then_some(&mapping.build_id),
            })
        };
        dictionary.mappings.iter().map(lib).collect()
    }

    pub(super) fn write(self, output: &mut dyn Write) -> io::Result<()> {
        let known = |number: u32| (number > 0).then_some(number);
        let (stacks, frames) = (self.stacks.values, self.frames.values);
        let (functions, sources) = (self.functions.values, self.sources.values);
        let mut shared = Object::begin(output)?;
        let columns = [
            ("frame", column(stacks.iter().map(|(_, frame)| *frame))),
            ("prefix", column(stacks.iter().map(|(caller, _)| *caller))),
        ];
        table(shared.key("stackTable")?, stacks.len(), columns)?;
        let length = frames.len();
        let columns = [
            ("address", repeated(-1, length)),
            ("inlineDepth", column(frames.iter().map(|frame| frame.inline_depth))),
            ("category", column(frames.iter().map(|frame| frame.category))),
            ("subcategory", repeated(0, length)),
            ("func", column(frames.iter().map(|frame| frame.function))),
            ("nativeSymbol", repeated((), length)),
            ("innerWindowID", repeated(0, length)),
            ("line", column(frames.iter().map(|frame| known(frame.line)))),
            ("column", column(frames.iter().map(|frame| known(frame.column)))),
        ];
        table(shared.key("frameTable")?, length, columns)?;
        let length = functions.len();
        let resource = |function: &Function| function.library.map_or(-1, i64::from);
        let columns = [
            ("name", column(functions.iter().map(|function| function.name))),
            ("isJS", repeated(false, length)),
            ("relevantForJS", repeated(false, length)),
            ("resource", column(functions.iter().map(resource))),
            ("source", column(functions.iter().map(|function| function.source))),
            ("lineNumber", repeated((), length)),
            ("columnNumber", repeated((), length)),
        ];
        table(shared.key("funcTable")?, length, columns)?;
        let length = self.libraries.len();
        let columns = [
            ("lib", column(0..length)),
            ("name", column(self.libraries)),
            ("host", repeated((), length)),
            ("type", repeated(LIBRARY, length)),
        ];
        table(shared.key("resourceTable")?, length, columns)?;
        let none = || repeated(0, 0);
        let columns = [("libIndex", none()), ("address", none()), ("name", none()), ("functionSize", none())];
        table(shared.key("nativeSymbols")?, 0, columns)?;
        let length = sources.len();
        let columns = [
            ("id", repeated((), length)),
            ("filename", column(sources)),
            ("startLine", repeated(1, length)),
            ("startColumn", repeated(1, length)),
            ("sourceMapURL", repeated((), length)),
        ];
        table(shared.key("sources")?, length, columns)?;
        serde_json::to_writer(shared.key("stringArray")?, &self.strings.values)?;
        shared.end()
    }
}

/// Returns Breakpad's form of a build id: its first 16 bytes as a GUID, whose first three fields are little-endian, and the
/// age 0.
fn breakpad_id(build_id: &str) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    if build_id.is_empty() {
        return String::new();
    }
    let byte = |at: usize| build_id.get(2 * at..2 * at + 2).unwrap_or("00").to_ascii_uppercase();
    ORDER.map(byte).concat() + "0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_become_breakpads() {
        assert_eq!(
            breakpad_id("00112233445566778899aabbccddeeff01234567"),
            "33221100554477668899AABBCCDDEEFF0"
        );
        assert_eq!(breakpad_id("0011"), "00001100000000000000000000000000".to_owned() + "0");
        assert_eq!(breakpad_id(""), "");
    }
}
