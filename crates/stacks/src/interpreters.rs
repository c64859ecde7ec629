//! The interpreters of Python and of JavaScript among the objects that were opened, where a process has mapped one, and what a stack holds of
//! Python's.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use decoder::MAX_STACK_COPY_BYTES;
use elf::{Object, ReadAt, Segment};
use javascript::V8;
use model::{Avma, FileOffset, FrameAddress, Svma};
use python::{Activation, Candidate, Interpreter, Location};
use unwinder::{AddressSpace, ObjectNumber, UnwoundStack};

use crate::javascript_words::MappedV8;
use crate::mechanisms::Mechanisms;
use crate::user_state::UserState;

/// The objects with an interpreter that were opened so far. Clones share the list.
#[derive(Clone, Debug)]
pub(crate) struct Interpreters {
    list: Arc<InterpreterList>,
    /// Tells which interpreters are looked for.
    mechanisms: Mechanisms,
}

#[derive(Default, Debug)]
struct InterpreterList {
    found: Mutex<Vec<(ObjectNumber, InterpreterObject)>>,
    /// The length of `found`, which is read far more often than it grows.
    count: AtomicUsize,
}

/// An object with an interpreter, and its program headers.
#[derive(Debug)]
pub(crate) struct InterpreterObject {
    pub(crate) interpreter: AnyInterpreter,
    pub(crate) segments: Vec<Segment>,
}

/// What the file of an interpreter says.
#[derive(Debug)]
pub(crate) enum AnyInterpreter {
    Python(Arc<Interpreter>),
    JavaScript(Arc<V8>),
}

/// The maximum number of objects in the list. Few machines have more than some releases of Python.
const MAX_INTERPRETERS: usize = 256;

impl Interpreters {
    /// Looks for the interpreters that `mechanisms` name functions of.
    pub(crate) fn new(mechanisms: Mechanisms) -> Self {
        Self { list: Arc::default(), mechanisms }
    }

    /// Returns the interpreter that an object has.
    pub(crate) fn of_object<D: ReadAt>(&self, object: &Object<D>) -> Option<InterpreterObject> {
        let is_wanted = |mechanism| self.mechanisms.contains(mechanism);
        let python = || Interpreter::from_object(object).filter(|_| is_wanted(Mechanisms::PYTHON));
        let javascript = || V8::from_object(object).filter(|_| is_wanted(Mechanisms::JAVASCRIPT));
        let interpreter = python()
            .map(|python| AnyInterpreter::Python(Arc::new(python)))
            .or_else(|| Some(AnyInterpreter::JavaScript(Arc::new(javascript()?))))?;
        Some(InterpreterObject { interpreter, segments: object.segments().to_vec() })
    }

    /// Adds an object.
    pub(crate) fn add(&self, number: ObjectNumber, object: InterpreterObject) {
        let mut found = self.list.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < MAX_INTERPRETERS {
            found.push((number, object));
            self.list.count.store(found.len(), Ordering::Release);
        }
    }

    /// Returns the interpreter that is mapped in `space`; `None` where none of the list is.
    fn mapped_in(&self, space: &AddressSpace) -> Option<MappedRuntime> {
        let found = self.list.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = |mapping: &unwinder::Mapping| {
            let (number, object) = found.iter().rfind(|(number, _)| Some(*number) == mapping.object)?;
            match &object.interpreter {
                AnyInterpreter::Python(python) => MappedInterpreter::new(
                    python,
                    &object.segments,
                    mapping.range.clone(),
                    mapping.file_offset,
                )
                .map(MappedRuntime::Python),
                AnyInterpreter::JavaScript(v8) => {
                    let v8 = MappedV8::new(Arc::clone(v8), *number, object.segments.clone());
                    Some(MappedRuntime::JavaScript(v8))
                }
            }
        };
        space.mappings().iter().filter(|mapping| mapping.executable).find_map(mapped)
    }
}

/// The interpreter that a process has mapped.
#[derive(Debug)]
pub enum MappedRuntime {
    /// CPython.
    Python(MappedInterpreter),
    /// V8 in Node.js.
    JavaScript(MappedV8),
}

/// The interpreter of Python that a process has mapped.
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
    fn new(
        interpreter: &Arc<Interpreter>,
        segments: &[Segment],
        code: Range<Avma>,
        offset: FileOffset,
    ) -> Option<Self> {
        let bias = code.start.0.wrapping_sub(elf::svma_of(segments, offset)?.0);
        let address = |svma: Svma| Avma(svma.0.wrapping_add(bias));
        let eval: Arc<[Range<Avma>]> =
            interpreter.eval().iter().map(|range| address(range.start)..address(range.end)).collect();
        let is_mapped = eval.iter().any(|range| code.contains(&range.start));
        is_mapped.then(|| Self { interpreter: Arc::clone(interpreter), bias, code, eval })
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
    mapped: RwLock<Option<Arc<MappedRuntime>>>,
}

impl InterpreterSlot {
    /// Returns the interpreter that is mapped in `space`, if its object was opened.
    pub(crate) fn get(
        &self,
        interpreters: &Interpreters,
        space: &AddressSpace,
    ) -> Option<Arc<MappedRuntime>> {
        let count = interpreters.list.count.load(Ordering::Acquire);
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

/// The maximum number of words of one stack that are kept: as many as its copy can have.
const MAX_CANDIDATES: usize = MAX_STACK_COPY_BYTES as usize / 8;

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
    let mut candidates = 0;
    for watched in &stack.watched {
        let architecture = watched.registers.architecture();
        let registers = (0..architecture.register_count()).filter_map(|number| {
            let word = watched.registers.get(number)?;
            Candidate::new(Location::register(number), word)
        });
        let mut found: Vec<Candidate> = registers.filter(|candidate| is_candidate(candidate.word)).collect();
        let start = stack.frames.get(watched.index).map(|frame| frame.stack_pointer);
        let end = stack.frames.get(watched.index + 1).map(|frame| frame.stack_pointer);
        let end = end.filter(|end| end.is_multiple_of(8));
        if let (Some(start), Some(end)) = (start, end) {
            let start = start.max(end.saturating_sub(8 * MAX_SLOTS)).next_multiple_of(8);
            let slots = (start..end)
                .step_by(8)
                .filter_map(|address| Candidate::new(Location::slot(end - address), copy.word(address)?));
            found.extend(slots.filter(|candidate| is_candidate(candidate.word)));
        }
        candidates += found.len();
        if candidates > MAX_CANDIDATES {
            break;
        }
        let site = stack.frames.get(watched.index).and_then(|frame| match frame.address {
            FrameAddress::ReturnAddress(address) => Some(address),
            FrameAddress::InstructionPointer(_) => None,
        });
        activations.push(Activation { site, end, candidates: found });
    }
}
