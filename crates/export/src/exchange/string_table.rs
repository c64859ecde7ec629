//! Texts by number, as protobuf messages of profiles have them.

use std::collections::HashMap;

/// The texts of a profile, each once. Number 0 is the empty one: "not set".
pub(super) struct StringTable {
    numbers: HashMap<String, i32>,
    /// In the order of their numbers.
    pub(super) texts: Vec<String>,
}

impl StringTable {
    pub(super) fn new() -> Self {
        Self { numbers: HashMap::new(), texts: vec![String::new()] }
    }

    /// Returns the number of a text, a new one where it is new.
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
}

/// Converts a position in a table. There is no room in memory for more entries than there are numbers.
pub(super) fn position(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
