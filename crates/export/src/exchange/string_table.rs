//! The string tables of pprof and OpenTelemetry: messages refer to strings by index.

use std::collections::HashMap;

/// The strings of a profile, each once. Index 0 is the empty string, which means "not set".
pub(super) struct StringTable {
    numbers: HashMap<String, i32>,
    /// The strings in the order of their indices.
    pub(super) texts: Vec<String>,
}

impl StringTable {
    pub(super) fn new() -> Self {
        Self { numbers: HashMap::new(), texts: vec![String::new()] }
    }

    /// Returns the index of a string, which is added if it is new.
    pub(super) fn intern(&mut self, text: &str) -> i32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = position(self.texts.len());
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// Returns the strings as the bytes that they are in messages.
    pub(super) fn into_bytes(self) -> Vec<Vec<u8>> {
        self.texts.into_iter().map(String::into_bytes).collect()
    }
}

/// Converts the index of a table, saturating at the largest number. Larger tables do not fit into memory.
pub(super) fn position(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
