//! Samples within functions: which instructions and source lines of a function they were taken at.

mod disassembly;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use elf::Machine;
use host::objects::{HostObject, ObjectStore};
use model::{
    AddressKind, FileOffset, Frame, Name, Pid, Reason, Resolution, Space, SpaceId, StackEntry, Svma,
    Symbolized,
};
use profile::View;
use profile::code::{CodeRange, Instruction};
use symbolizer::Options;
use symbolizer::archived::ArchivedCode;

use crate::Analysis;
use crate::symbols::{SymbolSettings, Symbolizing, Symbols};
use disassembly::{Decoded, Disassembler};

pub use disassembly::{HAS_DISASSEMBLY, Syntax};

/// Instructions of a function that are decoded at the most; longer ones are cut and say so.
const MOST_INSTRUCTIONS: usize = 1 << 18;
/// Instructions that are looked at together, to find where a function ends.
const LOT: usize = 4096;

/// A function of a profile that samples were taken in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledFunction {
    /// Its name.
    pub name: Arc<str>,
    /// What it lies in.
    pub space: SpaceId,
    /// Its first byte, as an offset in its space's file; of a function without a known start the lowest sampled address.
    pub start: u64,
    /// Weight of the samples taken in it, functions that were inlined into it included.
    pub weight: u64,
    /// Weight of the samples by the offset of the instruction.
    pub offsets: BTreeMap<u64, u64>,
    /// Functions that were inlined into it where samples were taken.
    pub inlined: Vec<Arc<str>>,
}

/// Finds the functions in which samples were taken, heaviest first, with the samples and the frames that a view shows: one whose
/// innermost frames it hides is where they were called.
pub fn sampled_functions(analysis: &Analysis, view: &View<'_>) -> Vec<SampledFunction> {
    let (profile, weight) = (view.profile(), view.weight());
    let mut functions: BTreeMap<(SpaceId, u64, Arc<str>), SampledFunction> = BTreeMap::new();
    let mut frames = Vec::new();
    for (thread, stack, count) in profile.counts() {
        frames.clear();
        view.located_stack(thread, stack, &mut frames);
        let Some((place, _)) = frames.last().and_then(|&(_, place)| place) else { continue };
        let Some(entry) = profile.stacks.places().get(place.index()) else { continue };
        let Some(Resolution::Resolved(Symbolized { frames, symbol_offset })) = analysis.resolve(entry) else {
            continue;
        };
        let Some((function, inlined)) = frames.split_last() else { continue };
        let start = symbol_offset.and_then(|offset| entry.offset.checked_sub(offset)).unwrap_or(entry.offset);
        let name = Arc::clone(&function.function);
        let known =
            functions.entry((entry.space, start, Arc::clone(&name))).or_insert_with(|| SampledFunction {
                name,
                space: entry.space,
                start,
                weight: 0,
                offsets: BTreeMap::new(),
                inlined: Vec::new(),
            });
        let added = count.weight(weight);
        known.weight = known.weight.saturating_add(added);
        // What a return address is behind of is the call.
        let within = match entry.kind {
            AddressKind::ReturnAddress => entry.offset.saturating_sub(1),
            AddressKind::InstructionPointer | AddressKind::Data => entry.offset,
        };
        let at = known.offsets.entry(within).or_default();
        *at = at.saturating_add(added);
        for frame in inlined {
            if !known.inlined.contains(&frame.function) {
                known.inlined.push(Arc::clone(&frame.function));
            }
        }
    }
    let mut functions: Vec<_> = functions.into_values().collect();
    functions.sort_by(|one, other| (other.weight, &one.name).cmp(&(one.weight, &other.name)));
    functions
}

/// The name of a function without what compilers add to the names of its pieces: `.cold`, `.part.0`, `[clone .cold]`.
pub fn name_of_whole(name: &str) -> &str {
    let name = name.split(" [clone ").next().unwrap_or(name);
    [".cold", ".part.", ".isra.", ".constprop.", ".llvm."]
        .iter()
        .filter_map(|mark| name.find(mark))
        .filter(|&at| at > 0)
        .min()
        .map_or(name, |at| &name[..at])
}

/// Reads the code of functions and tells their samples, lines and inlined callers apart by instruction.
pub struct Annotator<'a> {
    analysis: &'a Analysis,
    store: ObjectStore,
    symbolizing: Symbolizing,
    syntax: Syntax,
    /// What the recording carries.
    carried: HashMap<(Space, u64), ArchivedCode>,
}

impl<'a> Annotator<'a> {
    /// Starts with nothing read but the code that the recording carries (`archive::code`), which is asked before any file.
    /// `settings` say where objects and debug files are looked for.
    pub fn new(
        analysis: &'a Analysis,
        settings: &SymbolSettings,
        syntax: Syntax,
        carried: Vec<ArchivedCode>,
    ) -> Self {
        let options = Options { inlines: true, locations: true, ..settings.options };
        let with_lines = SymbolSettings { paths: settings.paths.clone(), options };
        Self {
            analysis,
            store: ObjectStore::new(settings.paths.clone()).with_held(Arc::clone(&analysis.held)),
            symbolizing: Symbolizing::new(&with_lines).keeping_objects(),
            syntax,
            carried: carried.into_iter().map(|code| ((code.space.clone(), code.start), code)).collect(),
        }
    }

    /// Annotates one piece of a function.
    pub fn annotate(&self, function: &SampledFunction) -> CodeRange {
        self.read(function).0
    }

    /// Returns the code of one piece of a function, to travel with the recording; `None` where it is not to be had whole.
    pub fn code_of(&self, function: &SampledFunction) -> Option<ArchivedCode> {
        let (range, machine) = self.read(function);
        let address = range.instructions.first().filter(|_| range.missing.is_none())?.address;
        let mut code = ArchivedCode {
            space: self.analysis.spaces.get(function.space).clone(),
            start: function.start,
            address,
            machine: machine?.0,
            bytes: Vec::new(),
            frames: Vec::new(),
            callees: Vec::new(),
        };
        for instruction in range.instructions {
            let position = code.bytes.len() as u64;
            code.bytes.extend(instruction.bytes);
            if code.frames.last().is_none_or(|(_, frames)| *frames != instruction.frames) {
                code.frames.push((position, instruction.frames));
            }
            code.callees.extend(instruction.callee.map(|callee| (position, callee)));
        }
        Some(code)
    }

    /// Annotates one piece of a function, and says for which machine it is.
    fn read(&self, function: &SampledFunction) -> (CodeRange, Option<Machine>) {
        let space = self.analysis.spaces.get(function.space);
        let module = profile::module_of(space).unwrap_or_else(|| Name::from("[unknown]"));
        let mut range = CodeRange {
            name: Arc::clone(&function.name),
            module,
            weight: function.weight,
            elsewhere: 0,
            instructions: Vec::new(),
            missing: None,
            inlined: None,
        };
        let mut machine = None;
        if let Some(code) = self.carried.get(&(space.clone(), function.start)) {
            machine = Some(Machine(code.machine));
            self.fill_carried(&mut range, function, code);
        } else {
            match self.code(function, space) {
                Ok((object, address)) => {
                    machine = Some(object.machine());
                    self.fill(&mut range, function, &object, address);
                }
                Err(why) => range.missing = Some(why),
            }
        }
        let placed =
            range.instructions.iter().map(|instruction| instruction.weight).fold(0, u64::saturating_add);
        range.elsewhere = range.weight.saturating_sub(placed);
        (range, machine)
    }

    fn fill_carried(&self, range: &mut CodeRange, function: &SampledFunction, code: &ArchivedCode) {
        let Some(disassembler) = Disassembler::new(Machine(code.machine), self.syntax) else {
            range.missing = Some(format!("instructions of {:?} are not known", Machine(code.machine)));
            return;
        };
        for decoded in disassembler.decode(&code.bytes, code.address, 0, MOST_INSTRUCTIONS) {
            let (position, end) = (decoded.position, decoded.position + decoded.bytes);
            let last = code.frames.partition_point(|(from, _)| *from <= position as u64).checked_sub(1);
            let frames = last.and_then(|last| code.frames.get(last));
            let callee = code.callees.binary_search_by_key(&(position as u64), |(at, _)| *at).ok();
            range.instructions.push(Instruction {
                address: decoded.address,
                bytes: code.bytes.get(position..end).unwrap_or_default().to_vec(),
                text: decoded.text,
                target: decoded.target,
                callee: callee.and_then(|at| code.callees.get(at)).map(|(_, callee)| Arc::clone(callee)),
                weight: weight_within(function, position, end),
                frames: frames.map_or_else(|| Arc::from([]), |(_, frames)| Arc::clone(frames)),
            });
        }
    }

    /// Opens what a function lies in.
    fn code(&self, function: &SampledFunction, space: &Space) -> Result<(Arc<HostObject>, Svma), String> {
        let Space::Object(identity) = space else {
            return Err(match space {
                Space::Kernel { .. } | Space::KernelModule { .. } => {
                    "the kernel's code is in no file".to_owned()
                }
                Space::Jit { .. } => "generated code was in memory only".to_owned(),
                _ => "its code is in no file".to_owned(),
            });
        };
        let pids: Vec<Pid> = self.analysis.pids(function.space);
        let object = self.store.open(identity, &pids).map_err(|reason: Reason| reason.to_string())?;
        match object.svma_of(FileOffset(function.start)) {
            Some(address) => Ok((object, address)),
            None => Err("no segment of the file covers it".to_owned()),
        }
    }

    fn fill(&self, range: &mut CodeRange, function: &SampledFunction, object: &HostObject, address: Svma) {
        let Some(disassembler) = Disassembler::new(object.machine(), self.syntax) else {
            range.missing = Some(format!("instructions of {:?} are not known", object.machine()));
            return;
        };
        let Some(code) = object.bytes_at(address) else {
            range.missing = Some("the file has no bytes there".to_owned());
            return;
        };
        let mut position = 0;
        'lots: while range.instructions.len() < MOST_INSTRUCTIONS {
            let lot = disassembler.decode(code, address, position, LOT);
            let Some(last) = lot.last() else { break };
            position = last.position + last.bytes;
            let entries: Vec<StackEntry> =
                lot.iter().map(|decoded| entry(function, function.start + decoded.position as u64)).collect();
            let targets = lot.iter().filter_map(|decoded| {
                let target = object.file_offset_of(decoded.target?)?;
                Some(entry(function, target.0))
            });
            let mut symbols = Symbols::default();
            let looked_up = entries.iter().copied().chain(targets);
            let pids = |space| self.analysis.pids(space);
            self.symbolizing.resolve(looked_up, &self.analysis.spaces, pids, &mut symbols);
            for (decoded, entry) in lot.into_iter().zip(entries) {
                let found = match symbols.resolutions.get(&entry) {
                    Some(Resolution::Resolved(found)) => found,
                    _ => break 'lots,
                };
                let within = found.symbol_offset.is_none_or(|offset| offset == decoded.position as u64);
                let same = found.frames.last().is_some_and(|frame| frame.function == function.name);
                if !(within && same) {
                    break 'lots;
                }
                let frames = Arc::clone(&found.frames);
                range.instructions.push(self.instruction(decoded, frames, function, object, code, &symbols));
            }
        }
        if range.instructions.len() >= MOST_INSTRUCTIONS {
            range.missing = Some(format!("only its first {MOST_INSTRUCTIONS} instructions are shown"));
        }
    }

    fn instruction(
        &self,
        decoded: Decoded,
        frames: Arc<[Frame]>,
        function: &SampledFunction,
        object: &HostObject,
        code: &[u8],
        symbols: &Symbols,
    ) -> Instruction {
        let callee = decoded.target.and_then(|target| object.file_offset_of(target)).and_then(|offset| {
            let Some(Resolution::Resolved(found)) = symbols.resolutions.get(&entry(function, offset.0))
            else {
                return None;
            };
            let callee = found.frames.last().map(|frame| Arc::clone(&frame.function))?;
            (callee != function.name || found.symbol_offset == Some(0)).then_some(callee)
        });
        let end = decoded.position + decoded.bytes;
        Instruction {
            address: decoded.address,
            bytes: code.get(decoded.position..end).unwrap_or_default().to_vec(),
            text: decoded.text,
            target: decoded.target,
            callee,
            weight: weight_within(function, decoded.position, end),
            frames,
        }
    }
}

/// The weight of the samples at bytes of a function: a sample's address may be said to lie within an instruction.
fn weight_within(function: &SampledFunction, position: usize, end: usize) -> u64 {
    let at = |position: usize| function.start.saturating_add(position as u64);
    function.offsets.range(at(position)..at(end)).map(|(_, weight)| *weight).fold(0, u64::saturating_add)
}

/// Instructions of these machines can be shown.
pub fn is_known(machine: Machine) -> bool {
    Disassembler::new(machine, Syntax::default()).is_some()
}

fn entry(function: &SampledFunction, offset: u64) -> StackEntry {
    StackEntry { offset, space: function.space, kind: AddressKind::InstructionPointer, in_kernel: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_functions_are_known_by_the_names_of_their_wholes() {
        assert_eq!(name_of_whole("parse.cold"), "parse");
        assert_eq!(name_of_whole("parse.constprop.0.cold"), "parse");
        assert_eq!(name_of_whole("a::b(int) [clone .cold]"), "a::b(int)");
        assert_eq!(name_of_whole("main.main"), "main.main");
        assert_eq!(name_of_whole(".cold"), ".cold");
    }
}
