//! The string tables of pprof and OpenTelemetry: messages refer to strings by index.

use crate::interner::Interner;

/// The strings of a profile, each once. Index 0 is the empty string, which means "not set".
pub(super) struct StringTable(Interner<String>);

impl StringTable {
    pub(super) fn new() -> Self {
        let mut strings = Interner::default();
        strings.intern(String::new());
        Self(strings)
    }

    /// Returns the index of a string, which is added if it is new.
    pub(super) fn intern(&mut self, text: &str) -> i32 {
        position(self.0.intern(text.to_owned()) as usize)
    }

    /// Returns the strings in the order of their indices.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.0.values
    }

    /// Returns the strings as the bytes that they are in messages.
    pub(super) fn into_bytes(self) -> Vec<Vec<u8>> {
        self.0.values.into_iter().map(String::into_bytes).collect()
    }
}

/// Converts the index of a table, saturating at the largest number. Larger tables do not fit into memory.
pub(super) fn position(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
