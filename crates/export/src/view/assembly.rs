//! The instructions of the page: those of functions that stacks end in, if their code is available.

use std::collections::{BTreeMap, HashMap};

use model::{AddressKind, Name, SpaceId, StackEntry};
use profile::code::{CodeRange, Instruction};
use serde_json::{Value, json};

use super::source::{is_source, shown};
use super::tree::PageTree;
use crate::SourceReader;
use crate::printable;

/// Maximum number of instructions of a page. Each takes about 25 bytes before they are packed.
const MAX_INSTRUCTIONS: usize = 40_000;

/// A range of a function's code, with its location.
pub struct PageRange {
    /// The space that it lies in.
    pub space: SpaceId,
    /// Its first byte, as an offset in its space's file.
    pub start: u64,
    /// Its instructions.
    pub range: CodeRange,
}

/// The instructions of all ranges, numbered from 1.
#[derive(Default, Debug)]
pub(crate) struct Instructions {
    /// The end and the number of each instruction, by space and offset.
    numbers: BTreeMap<(SpaceId, u64), (u64, u32)>,
    /// The number of ranges that fit into the page.
    ranges: usize,
}

impl Instructions {
    /// Numbers the instructions of the first ranges, up to [`MAX_INSTRUCTIONS`].
    pub(super) fn new(ranges: &[PageRange]) -> Self {
        let mut instructions = Self::default();
        let mut next = 1;
        for PageRange { space, start, range } in ranges {
            let count = range.instructions.len();
            if next as usize + count > MAX_INSTRUCTIONS {
                break;
            }
            instructions.ranges += 1;
            let mut offset = *start;
            for (instruction, number) in range.instructions.iter().zip(next..) {
                let end = offset + instruction.bytes.len() as u64;
                instructions.numbers.entry((*space, offset)).or_insert((end, number));
                offset = end;
            }
            next += count as u32;
        }
        instructions
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the number of the instruction that each place is in; empty without instructions.
    pub(super) fn of_places(&self, places: &[StackEntry]) -> Vec<u32> {
        if self.is_empty() { Vec::new() } else { places.iter().map(|place| self.number(place)).collect() }
    }

    /// Returns the number of the instruction that a stack entry is in, or 0 if it has none. For a return address it is the
    /// call before it.
    fn number(&self, entry: &StackEntry) -> u32 {
        let offset = match entry.kind {
            AddressKind::ReturnAddress => entry.offset.saturating_sub(1),
            AddressKind::InstructionPointer | AddressKind::Data => entry.offset,
        };
        let before = self.numbers.range(..=(entry.space, offset)).next_back();
        before
            .filter(|((space, _), (end, _))| *space == entry.space && offset < *end)
            .map_or(0, |(_, (_, number))| *number)
    }

    /// Returns the member `code` of `meta`. `read` reads source files, for pages with source.
    pub(super) fn meta(
        &self,
        ranges: &[PageRange],
        tree: &PageTree,
        read: Option<&SourceReader<'_>>,
    ) -> Value {
        let functions = tree.functions_by_name();
        let ranges = ranges.get(..self.ranges).unwrap_or_default();
        let mut labels = LineLabels { numbers: HashMap::new(), labels: Vec::new(), read };
        let (mut lengths, mut texts, mut targets, mut lines) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut of_ranges: Vec<Value> = Vec::new();
        for PageRange { range, .. } in ranges {
            let name = Name::from(&*range.name).to_string();
            let module = range.module.to_string();
            let function =
                functions.get(&(name.as_str(), module.as_str())).map_or(-1, |&number| i64::from(number));
            of_ranges.push(json!({
                "function": function,
                "name": name,
                "module": module,
                "start": format!("{:x}", range.instructions.first().map_or(0, |first| first.address.0)),
                "count": range.instructions.len(),
                "missing": range.missing.as_deref().map(printable),
            }));
            for (index, instruction) in range.instructions.iter().enumerate() {
                lengths.push(instruction.bytes.len());
                texts.push(text(instruction));
                let target = instruction.target.filter(|_| instruction.callee.is_none());
                let target = target.and_then(|target| range.position(target));
                targets.push(target.map_or(0, |target| target as i64 - index as i64));
                lines.push(labels.number(instruction));
            }
        }
        json!({
            "ranges": of_ranges,
            "lengths": lengths,
            "texts": texts,
            "jumps": targets,
            "places": lines,
            "labels": labels.labels,
        })
    }
}

fn text(instruction: &Instruction) -> String {
    let callee = instruction.callee.as_ref();
    let callee = callee.map_or_else(String::new, |callee| format!(" <{}>", Name::from(&**callee)));
    format!("{}{callee}", printable(&instruction.text))
}

/// Interns the source lines of instructions, with their texts.
struct LineLabels<'r> {
    numbers: HashMap<String, u32>,
    labels: Vec<(String, String)>,
    read: Option<&'r SourceReader<'r>>,
}

impl LineLabels<'_> {
    /// Returns the number of an instruction's line, from 1; 0 if it is unknown.
    fn number(&mut self, instruction: &Instruction) -> u32 {
        let Some(location) = instruction.frames.first().and_then(|frame| frame.location.as_ref()) else {
            return 0;
        };
        if location.line == 0 {
            return 0;
        }
        let inlined = instruction.frames.split_last().map_or(&[][..], |(_, inlined)| inlined);
        let inlined: Vec<String> =
            inlined.iter().map(|frame| Name::from(&*frame.function).to_string()).collect();
        let mut label = format!("{}:{}", Name::from(&*location.file), location.line);
        if !inlined.is_empty() {
            label.push_str(&format!(" (inlined {})", inlined.join(" ← ")));
        }
        if let Some(&number) = self.numbers.get(&label) {
            return number;
        }
        let read = self.read.filter(|_| is_source(&location.file));
        let source = read.and_then(|read| read(&location.file));
        let line = source.as_ref().and_then(|source| source.line(location.line));
        let line = line.map_or_else(String::new, |line| shown(line.trim()));
        self.labels.push((label.clone(), line));
        let number = self.labels.len() as u32;
        self.numbers.insert(label, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Svma;
    use std::sync::Arc;

    fn range(space: u32, start: u64, lengths: &[usize]) -> PageRange {
        let mut address = start + 0x40_0000;
        let instructions = lengths.iter().map(|&length| {
            let instruction = Instruction {
                address: Svma(address),
                bytes: vec![0; length],
                text: "nop".to_owned(),
                target: None,
                callee: None,
                weight: 0,
                frames: Arc::from([]),
            };
            address += length as u64;
            instruction
        });
        let range = CodeRange {
            name: Arc::from("f"),
            module: Name::from("m"),
            weight: 0,
            elsewhere: 0,
            instructions: instructions.collect(),
            missing: None,
            inlined: None,
        };
        PageRange { space: SpaceId(space), start, range }
    }

    #[test]
    fn samples_are_at_the_instruction_that_holds_their_address() {
        let instructions = Instructions::new(&[range(1, 0x100, &[4, 1, 2]), range(2, 0x100, &[8])]);
        let number = |space, offset, kind| {
            instructions.number(&StackEntry { offset, space: SpaceId(space), kind, in_kernel: false })
        };
        let at = |space, offset| number(space, offset, AddressKind::InstructionPointer);
        assert_eq!(
            [0xff, 0x100, 0x103, 0x104, 0x105, 0x106, 0x107].map(|offset| at(1, offset)),
            [0, 1, 1, 2, 3, 3, 0]
        );
        assert_eq!((at(2, 0x107), at(2, 0x108), at(3, 0x100)), (4, 0, 0));
        assert_eq!(number(1, 0x104, AddressKind::ReturnAddress), 1, "the call, not what follows it");
    }

    #[test]
    fn a_page_has_room_for_so_many_instructions() {
        let large = || range(1, 0, &vec![1; MAX_INSTRUCTIONS / 2 + 1]);
        assert_eq!(Instructions::new(&[large(), large()]).ranges, 1);
    }
}
