//! The interpreters of Python among the objects that were opened, where a process has mapped one, and what a stack holds of it.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use elf::Segment;
use model::{Avma, FileOffset, Svma};
use python::{Activation, Candidate, Interpreter, Location};
use unwinder::{AddressSpace, ObjectNumber, UnwoundStack};

use crate::user_state::UserState;

/// The objects with an interpreter that were opened so far. Clones share the list.
#[derive(Clone, Default, Debug)]
pub(crate) struct Interpreters(Arc<InterpreterList>);

#[derive(Default, Debug)]
struct InterpreterList {
    found: Mutex<Vec<(ObjectNumber, InterpreterObject)>>,
    /// The length of `found`, which is read far more often than it grows.
    count: AtomicUsize,
}

/// An object with an interpreter, and its program headers.
#[derive(Debug)]
pub(crate) struct InterpreterObject {
    pub(crate) interpreter: Arc<Interpreter>,
    pub(crate) segments: Vec<Segment>,
}

/// The maximum number of objects in the list. Few machines have more than some releases of Python.
const MAX_INTERPRETERS: usize = 256;

impl Interpreters {
    /// Adds an object.
    pub(crate) fn add(&self, number: ObjectNumber, object: InterpreterObject) {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < MAX_INTERPRETERS {
            found.push((number, object));
            self.0.count.store(found.len(), Ordering::Release);
        }
    }

    /// Returns the interpreter that is mapped in `space`; `None` where none of the list is.
    fn mapped_in(&self, space: &AddressSpace) -> Option<MappedInterpreter> {
        let found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = |mapping: &unwinder::Mapping| {
            let (_, object) = found.iter().rfind(|(number, _)| Some(*number) == mapping.object)?;
            MappedInterpreter::new(object, mapping.range.clone(), mapping.file_offset)
        };
        space.mappings().iter().filter(|mapping| mapping.executable).find_map(mapped)
    }
}

/// The interpreter that a process has mapped.
#[derive(Debug)]
pub struct MappedInterpreter {
    interpreter: Arc<Interpreter>,
    bias: u64,
    /// The executable mapping of its object.
    code: Range<Avma>,
    /// The code that runs bytecode.
    eval: Arc<[Range<Avma>]>,
}

impl MappedInterpreter {
    fn new(object: &InterpreterObject, code: Range<Avma>, offset: FileOffset) -> Option<Self> {
        let bias = code.start.0.wrapping_sub(elf::svma_of(&object.segments, offset)?.0);
        let address = |svma: Svma| Avma(svma.0.wrapping_add(bias));
        let eval: Arc<[Range<Avma>]> =
            object.interpreter.eval().iter().map(|range| address(range.start)..address(range.end)).collect();
        let is_mapped = eval.iter().any(|range| code.contains(&range.start));
        is_mapped.then(|| Self { interpreter: Arc::clone(&object.interpreter), bias, code, eval })
    }

    /// Returns what its file says.
    pub fn interpreter(&self) -> &Arc<Interpreter> {
        &self.interpreter
    }

    /// Returns the difference of an address of the process and one in the file.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Returns true for code that runs bytecode. A return address is looked up one byte before.
    pub fn is_eval(&self, lookup: Avma) -> bool {
        self.eval.iter().any(|range| range.contains(&lookup))
    }

    /// Returns true for code of the interpreter's object.
    pub fn is_own(&self, lookup: Avma) -> bool {
        self.code.contains(&lookup)
    }

    /// Returns true for code that only leads from one Python function to the next ([`Interpreter::is_glue`]).
    pub fn is_glue(&self, lookup: Avma) -> bool {
        self.is_own(lookup) && self.interpreter.is_glue(Svma(lookup.0.wrapping_sub(self.bias)))
    }

    pub(crate) fn eval(&self) -> &Arc<[Range<Avma>]> {
        &self.eval
    }
}

/// The interpreter of a process, looked for again when objects were opened since.
#[derive(Default, Debug)]
pub(crate) struct InterpreterSlot {
    /// The length of the list when it was looked through last.
    seen: AtomicUsize,
    mapped: RwLock<Option<Arc<MappedInterpreter>>>,
}

impl InterpreterSlot {
    /// Returns the interpreter that is mapped in `space`, if its object was opened.
    pub(crate) fn get(
        &self,
        interpreters: &Interpreters,
        space: &AddressSpace,
    ) -> Option<Arc<MappedInterpreter>> {
        let count = interpreters.0.count.load(Ordering::Acquire);
        if self.seen.swap(count, Ordering::AcqRel) != count {
            let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
            if mapped.is_none() {
                *mapped = interpreters.mapped_in(space).map(Arc::new);
            }
        }
        if count == 0 {
            return None;
        }
        self.mapped.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The maximum number of words of one native frame that are looked at. Those of `_PyEval_EvalFrameDefault` have 40 to 70.
const MAX_SLOTS: u64 = 160;

/// Appends what a stack holds of each frame of `interpreter`, innermost first.
pub(crate) fn push_activations(
    stack: &UnwoundStack,
    state: &UserState<'_>,
    space: &AddressSpace,
    activations: &mut Vec<Activation>,
) {
    let copy = &state.stack;
    let top = copy.start.saturating_add(copy.bytes.len() as u64);
    let is_candidate = |word: u64| {
        !(copy.start..top).contains(&word)
            && !space.find(Avma(word)).is_some_and(|mapping| mapping.executable)
    };
    for watched in &stack.watched {
        let architecture = watched.registers.architecture();
        let registers = (0..architecture.register_count()).filter_map(|number| {
            let word = watched.registers.get(number)?;
            Candidate::new(Location::register(number), word)
        });
        let mut activation: Activation = registers.filter(|candidate| is_candidate(candidate.word)).collect();
        let start = stack.frames.get(watched.index).map(|frame| frame.stack_pointer);
        let end = stack.frames.get(watched.index + 1).map(|frame| frame.stack_pointer);
        if let (Some(start), Some(end)) = (start, end.filter(|end| end.is_multiple_of(8))) {
            let start = start.max(end.saturating_sub(8 * MAX_SLOTS)).next_multiple_of(8);
            let slots = (start..end)
                .step_by(8)
                .filter_map(|address| Candidate::new(Location::slot(end - address), copy.word(address)?));
            activation.extend(slots.filter(|candidate| is_candidate(candidate.word)));
        }
        activations.push(activation);
    }
}
