//! What a sample itself holds of a call of `_PyEval_EvalFrameDefault`: values of registers and words of its native stack frame.

use model::Avma;

/// A place of a native frame in which compilers keep variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Location(u8);

impl Location {
    /// The DWARF numbers of registers lie below.
    const FIRST_SLOT: u8 = 64;

    /// Returns a register, by its DWARF number; `None` for a number that is too large.
    pub fn register(number: u8) -> Option<Self> {
        (number < Self::FIRST_SLOT).then_some(Self(number))
    }

    /// Returns a slot of the stack, by its distance below the canonical frame address, in bytes; `None` where that is too large.
    pub fn slot(distance: u64) -> Option<Self> {
        let number = (distance / 8).checked_add(Self::FIRST_SLOT.into())?;
        u8::try_from(number).ok().map(Self)
    }

    /// Returns the place as a number, for [`Location::from_number`].
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the place with this number.
    pub fn from_number(number: u8) -> Self {
        Self(number)
    }
}

/// A word that may be the address of bytecode or of a frame of the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The place that held it.
    pub location: Location,
    /// The word.
    pub word: u64,
}

/// One call of `_PyEval_EvalFrameDefault`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activation {
    /// Where it will go on, if it has called something: compilers keep a variable in another place for each call.
    pub site: Option<Avma>,
    /// The end of its native stack frame (the canonical frame address), where that is known.
    pub end: Option<u64>,
    /// The words of its registers, and then of its stack frame, that can be addresses of bytecode or of frames.
    pub candidates: Vec<Candidate>,
}

/// The maximum size of a native frame of `_PyEval_EvalFrameDefault` in bytes. Those of compilers have 320 to 560.
const MAX_NATIVE_BYTES: u64 = 1280;

impl Activation {
    /// Returns false for an address that is known not to lie in its native stack frame.
    pub(crate) fn may_hold(&self, address: u64) -> bool {
        let distance = self.end.map(|end| end.checked_sub(address));
        distance.is_none_or(|distance| distance.is_some_and(|bytes| (1..=MAX_NATIVE_BYTES).contains(&bytes)))
    }
}

/// The end of the addresses that programs have, on all processors: those with five levels of page tables included.
const USER_END: u64 = 1 << 56;
/// No program maps memory below (`vm.mmap_min_addr`).
const USER_START: u64 = 1 << 16;

impl Candidate {
    /// Returns a word that can be the address of bytecode, which has units of two bytes, or of a frame.
    pub fn new(location: Option<Location>, word: u64) -> Option<Self> {
        let is_address = (USER_START..USER_END).contains(&word) && word.is_multiple_of(2);
        Some(Self { location: location.filter(|_| is_address)?, word })
    }
}
