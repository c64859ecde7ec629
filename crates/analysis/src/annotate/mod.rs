//! Samples within functions: which instructions and source lines of a function they were taken at.

mod disassembly;
mod functions;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elf::{Machine, ReadAt};
use export::annotate::AnnotatedFunction;
use host::objects::{HostObject, ObjectStore};
use model::{AddressKind, FileOffset, Frame, Name, Reason, Resolution, Space, StackEntry, Svma};
use profile::code::{CodeRange, Instruction};
use symbolizer::Options;
use symbolizer::archived::ArchivedCode;

use crate::Analysis;
use crate::symbols::{SourceOwners, SymbolSettings, Symbolizing, Symbols};
use disassembly::{Decoded, Disassembler};

pub use disassembly::{HAS_DISASSEMBLY, Syntax};
pub use functions::{
    Chosen, SampledFunction, Whole, hottest_functions, name_of_whole, sampled_functions, wholes,
};

/// Instructions of a function that are decoded at the most; longer ones are cut and say so.
const MAX_INSTRUCTIONS: usize = 1 << 18;
/// Instructions that are looked at together, to find where a function ends.
const BATCH_INSTRUCTIONS: usize = 4096;
/// The first instructions of a function that are looked up together with those of other functions: 70 ms less of 1,390 for the twelve
/// hottest of a `view` of 1.6 million samples, however many they are; of 200 functions, they are few enough to hold.
const FIRST_INSTRUCTIONS: usize = 256;

/// Reads the code of functions of an analysis and tells their samples, lines and inlined callers apart by instruction.
pub struct Annotator<'a> {
    analysis: &'a Analysis,
    store: ObjectStore,
    symbolizing: Symbolizing,
    syntax: Syntax,
    /// Code that the recording carries.
    embedded: HashMap<(Space, u64), ArchivedCode>,
    source_owners: Mutex<SourceOwners>,
}

impl<'a> Annotator<'a> {
    /// Starts with nothing read but the code that the recording carries (`archive::code`), which is asked before any file.
    /// `settings` say where objects and debug files are looked for.
    pub fn new(
        analysis: &'a Analysis,
        settings: &SymbolSettings,
        syntax: Syntax,
        embedded: Vec<ArchivedCode>,
    ) -> Self {
        let options = Options { inlines: true, locations: true, ..settings.options };
        let with_lines = SymbolSettings { paths: settings.paths.clone(), options, reads_sources: true };
        let (held, recorded) = (&analysis.held, &analysis.files);
        Self {
            analysis,
            store: ObjectStore::new(settings.paths.clone())
                .with_retained_files(Arc::clone(held))
                .with_recorded_files(Arc::clone(recorded)),
            symbolizing: Symbolizing::new(&with_lines).keeping_objects().with_files(held, recorded),
            syntax,
            embedded: embedded.into_iter().map(|code| ((code.space.clone(), code.start), code)).collect(),
            source_owners: Mutex::default(),
        }
    }

    /// Returns who answers for the source files of all lines so far.
    pub fn source_owners(&self) -> SourceOwners {
        self.owners().clone()
    }

    fn owners(&self) -> MutexGuard<'_, SourceOwners> {
        // A panic in another thread leaves the table valid.
        self.source_owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves places with their lines.
    pub(crate) fn resolve(&self, places: impl IntoIterator<Item = StackEntry>) -> Symbols {
        let (analysis, mut symbols) = (self.analysis, Symbols::default());
        self.symbolizing.resolve(places, &analysis.spaces, |space| analysis.pids(space), &mut symbols);
        self.owners().extend(&symbols.source_owners);
        symbols
    }

    /// Returns the space that a piece of a function lies in.
    fn space(&self, function: &SampledFunction) -> &'a Space {
        self.analysis.spaces.get(function.space)
    }

    /// Returns the code of a piece of a function that the recording carries.
    fn embedded_code(&self, function: &SampledFunction) -> Option<&ArchivedCode> {
        self.embedded.get(&(self.space(function).clone(), function.start))
    }

    /// Returns true if the recording carries the code of a piece of a function.
    pub fn has_embedded_code(&self, function: &SampledFunction) -> bool {
        self.embedded_code(function).is_some()
    }

    /// Returns the size in bytes of the file that a function lies in; `None` if it lies in no file.
    pub fn file_size(&self, function: &SampledFunction) -> Option<u64> {
        let (object, _) = self.code(function).ok()?;
        Some(object.source().size())
    }

    /// Annotates pieces of functions. Together they take less time than one by one: each look into a file starts with all of its units.
    pub fn annotate_all(&self, functions: &[SampledFunction]) -> Vec<CodeRange> {
        let known = self.resolve(functions.iter().flat_map(|function| self.first_entries(function)));
        functions.iter().map(|function| self.read(function, Some(&known)).0).collect()
    }

    /// Annotates a function with all its pieces.
    pub fn annotate_whole(&self, chosen: &Chosen) -> AnnotatedFunction {
        chosen.annotated(|piece| self.read(piece, None).0)
    }

    /// Returns the code of one piece of a function, to travel with the recording; `None` where it is not to be had whole.
    pub fn code_of(&self, function: &SampledFunction) -> Option<ArchivedCode> {
        let (range, machine) = self.read(function, None);
        let address = range.instructions.first().filter(|_| range.missing.is_none())?.address;
        let mut code = ArchivedCode {
            space: self.space(function).clone(),
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

    /// Annotates one piece of a function, and says for which machine it is. `known` has its first entries, if they were looked up.
    fn read(&self, function: &SampledFunction, known: Option<&Symbols>) -> (CodeRange, Option<Machine>) {
        let module = profile::module_of(self.space(function)).unwrap_or_else(|| Name::from("[unknown]"));
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
        if let Some(code) = self.embedded_code(function) {
            machine = Some(Machine(code.machine));
            for (_, frames) in &code.frames {
                self.owners().add_frames(frames, &[self.analysis.recording_author]);
            }
            self.fill_embedded(&mut range, function, code);
        } else {
            match self.code(function) {
                Ok((object, address)) => {
                    machine = Some(object.machine());
                    self.fill(&mut range, function, (&object, address), known);
                }
                Err(why) => range.missing = Some(why),
            }
        }
        range.find_elsewhere();
        (range, machine)
    }

    /// Returns the entries of a function's first instructions; none if they travel with the recording, or are not to be had.
    fn first_entries(&self, function: &SampledFunction) -> Vec<StackEntry> {
        if self.has_embedded_code(function) {
            return Vec::new();
        }
        let first = || {
            let (object, address) = self.code(function).ok()?;
            let disassembler = Disassembler::new(object.machine(), self.syntax)?;
            let batch = disassembler.decode(object.bytes_at(address)?, address, 0, FIRST_INSTRUCTIONS);
            Some(entries(function, &object, &batch))
        };
        first().unwrap_or_default()
    }

    fn fill_embedded(&self, range: &mut CodeRange, function: &SampledFunction, code: &ArchivedCode) {
        let Some(disassembler) = Disassembler::new(Machine(code.machine), self.syntax) else {
            range.missing = Some(format!("instructions of {:?} are not known", Machine(code.machine)));
            return;
        };
        for decoded in disassembler.decode(&code.bytes, code.address, 0, MAX_INSTRUCTIONS) {
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
                weight: function.weight_within(position, end),
                frames: frames.map_or_else(|| Arc::from([]), |(_, frames)| Arc::clone(frames)),
            });
        }
    }

    /// Opens what a function lies in.
    fn code(&self, function: &SampledFunction) -> Result<(Arc<HostObject>, Svma), String> {
        let space = self.space(function);
        let Space::Object(identity) = space else {
            return Err(match space {
                Space::Kernel { .. } | Space::KernelModule { .. } => {
                    "the kernel's code is in no file".to_owned()
                }
                Space::Jit { .. } => "generated code was in memory only".to_owned(),
                _ => "its code is in no file".to_owned(),
            });
        };
        let pids = self.analysis.pids(function.space);
        let object = self.store.open(identity, &pids).map_err(|reason: Reason| reason.to_string())?;
        match object.svma_of(FileOffset(function.start)) {
            Some(address) => Ok((object, address)),
            None => Err("no segment of the file covers it".to_owned()),
        }
    }

    fn fill(
        &self,
        range: &mut CodeRange,
        function: &SampledFunction,
        (object, address): (&HostObject, Svma),
        mut known: Option<&Symbols>,
    ) {
        let Some(disassembler) = Disassembler::new(object.machine(), self.syntax) else {
            range.missing = Some(format!("instructions of {:?} are not known", object.machine()));
            return;
        };
        let Some(code) = object.bytes_at(address) else {
            range.missing = Some("the file has no bytes there".to_owned());
            return;
        };
        let mut position = 0;
        'batches: while range.instructions.len() < MAX_INSTRUCTIONS {
            let first = known.take();
            let size = if first.is_some() { FIRST_INSTRUCTIONS } else { BATCH_INSTRUCTIONS };
            let batch = disassembler.decode(code, address, position, size);
            let Some(last) = batch.last() else { break };
            position = last.position + last.bytes;
            let found;
            let symbols = match first {
                Some(known) => known,
                None => {
                    found = self.resolve(entries(function, object, &batch));
                    &found
                }
            };
            for decoded in batch {
                let entry = entry(function, function.start + decoded.position as u64);
                let found = match symbols.resolutions.get(&entry) {
                    Some(Resolution::Resolved(found)) => found,
                    _ => break 'batches,
                };
                let within = found.symbol_offset.is_none_or(|offset| offset == decoded.position as u64);
                let same = found.frames.last().is_some_and(|frame| frame.function == function.name);
                if !(within && same) {
                    break 'batches;
                }
                let frames = Arc::clone(&found.frames);
                range.instructions.push(self.instruction(decoded, frames, function, object, code, symbols));
            }
        }
        if range.instructions.len() >= MAX_INSTRUCTIONS {
            range.missing = Some(format!("only its first {MAX_INSTRUCTIONS} instructions are shown"));
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
            weight: function.weight_within(decoded.position, end),
            frames,
        }
    }
}

/// Instructions of these machines can be shown.
pub fn is_known(machine: Machine) -> bool {
    Disassembler::new(machine, Syntax::default()).is_some()
}

/// Returns the entries of instructions of a function, and of what they jump to or call.
fn entries(function: &SampledFunction, object: &HostObject, batch: &[Decoded]) -> Vec<StackEntry> {
    let own = batch.iter().map(|decoded| function.start + decoded.position as u64);
    let targets = batch.iter().filter_map(|decoded| Some(object.file_offset_of(decoded.target?)?.0));
    own.chain(targets).map(|offset| entry(function, offset)).collect()
}

fn entry(function: &SampledFunction, offset: u64) -> StackEntry {
    StackEntry { offset, space: function.space, kind: AddressKind::InstructionPointer, in_kernel: false }
}
