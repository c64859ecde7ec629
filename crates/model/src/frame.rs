//! Frames: what a stack entry turns into once symbols are known.

use alloc::sync::Arc;

use crate::{Reason, Svma};

/// A line of source code, and the function that it belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceLocation {
    /// The path as the debug information states it, joined with its directory.
    pub file: Arc<str>,
    /// The line, from 1; 0 where the debug information says "no line".
    pub line: u32,
    /// The column, from 1; 0 for the left edge or unknown.
    pub column: u32,
    /// The discriminator in the debug information, which tells blocks of code on one line apart; 0 for none, and where nobody asked
    /// for it.
    pub discriminator: u32,
    /// The line at which the function starts in its file, as its declaration says; 0 if unknown.
    pub start_line: u32,
}

/// One function at one place of a stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame {
    /// The function's name, demangled (or as the linker knows it, where raw names are asked for). May hold any
    /// character that a symbol table can: whoever prints it makes it safe.
    pub function: Arc<str>,
    /// The line being executed (or, in a caller, the line of the call).
    pub location: Option<SourceLocation>,
    /// True if the compiler put this function's code into its caller.
    pub inlined: bool,
}

/// The functions at a stack entry, or why they are not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// A function, with those inlined into it at this place.
    Resolved(Symbolized),
    /// No name, because…
    Unresolved(Reason),
    /// No name either, but the unwind tables tell which function of the object it is.
    Delimited {
        /// The reason why there is no name.
        reason: Reason,
        /// The function's first address.
        start: Svma,
        /// Bytes from there to the address as found.
        offset: u64,
    },
}

impl Resolution {
    /// Returns why there is no name, where there is none.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Resolved(_) => None,
            Self::Unresolved(reason) | Self::Delimited { reason, .. } => Some(reason),
        }
    }
}

/// The functions at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbolized {
    /// Innermost first. Never empty; all but the last are inlined.
    pub frames: Arc<[Frame]>,
    /// Bytes from the start of the symbol (of the last frame's function) to the address as found, where known.
    pub symbol_offset: Option<u64>,
}
