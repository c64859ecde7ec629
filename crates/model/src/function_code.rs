//! How a recording tells of functions whose code says nothing of them, or that have none in memory: each is a mapping at addresses that no
//! processor has, with a name that says file and function. Readers that know nothing of it show that name as an object's.
//!
//! ```text
//! address:  PYTHON_CODE.start ……[ first line … last line ]……   one address for each line, and one behind
//! offset of the mapping:          first line
//! name:     /app/server.py:Server.handle           Python
//!           JS:*handle /srv/app.js:4:16            JavaScript, as V8 itself names functions, with the sign of their compiler
//!           [waits: chan receive]                  a frame of a task that is no code
//! ```
//! A line of a caller is a return address, as everywhere: one behind the line's own address.

use alloc::vec::Vec;
use core::ops::Range;

use crate::{Avma, Name, Space};

/// The addresses of Python functions. Bit 62 is set and bit 63 is not: no processor of 64 bits has such addresses in its lower half.
pub const PYTHON_CODE: Range<Avma> = Avma(0x4000_0000_0000_0000)..Avma(0x4100_0000_0000_0000);

/// The addresses of JavaScript functions.
pub const JAVASCRIPT_CODE: Range<Avma> = Avma(0x4100_0000_0000_0000)..Avma(0x4200_0000_0000_0000);

/// The addresses of frames that say of tasks what they are, and what they wait for.
pub const TASK_LABELS: Range<Avma> = Avma(0x4200_0000_0000_0000)..Avma(0x4300_0000_0000_0000);

/// The addresses of functions of all languages, and of frames that are no code.
pub const FUNCTION_CODE: Range<Avma> = PYTHON_CODE.start..TASK_LABELS.end;

/// The name of the mapping that stands for frames of tasks of which there are too many.
pub const UNKNOWN_TASK: &str = "[task]";

/// The name of the mapping that stands for JavaScript functions which were not found.
pub const UNKNOWN_JAVASCRIPT: &str = "[javascript]";

/// The name of the mapping that stands for Python functions which were not found: it has no file.
pub const UNKNOWN_PYTHON: &str = "[python]";

/// The maximum length of a file's path and of a function's name in the name of a mapping, in bytes. Longer ones are cut.
const MAX_PART_BYTES: usize = 1024;

/// Returns the name of the mapping that stands for a Python function.
pub fn python_mapping_name(file: &str, function: &str) -> Vec<u8> {
    let part = |text: &str, separator: Option<char>| {
        let is_wrong = |character: char| character == '\0' || Some(character) == separator;
        let text: alloc::string::String =
            text.chars().map(|character| if is_wrong(character) { '.' } else { character }).collect();
        text.get(..text.floor_char_boundary(MAX_PART_BYTES)).unwrap_or_default().as_bytes().to_vec()
    };
    let mut name = part(file, None);
    if !name.is_empty() {
        name.push(b':');
    }
    name.extend(part(function, Some(':')));
    name
}

/// Returns the name of the mapping that stands for a JavaScript function, a regular expression, or a frame of a task.
pub fn label_mapping_name(name: &str) -> Vec<u8> {
    let name: alloc::string::String =
        name.chars().map(|character| if character.is_control() { '.' } else { character }).collect();
    name.get(..name.floor_char_boundary(2 * MAX_PART_BYTES)).unwrap_or_default().as_bytes().to_vec()
}

impl Space {
    /// Returns the space of a mapping at an address of [`FUNCTION_CODE`] with this name.
    pub fn of_function_mapping(start: Avma, name: &[u8]) -> Self {
        if JAVASCRIPT_CODE.contains(&start) {
            Self::JavaScript { name: Name::new(name) }
        } else if TASK_LABELS.contains(&start) {
            Self::TaskLabel { name: Name::new(name) }
        } else {
            Self::of_python_mapping(name)
        }
    }

    fn of_python_mapping(name: &[u8]) -> Self {
        let (file, function) = match name.iter().rposition(|byte| *byte == b':') {
            Some(end) => (name.get(..end).unwrap_or_default(), name.get(end + 1..).unwrap_or_default()),
            None => (&[][..], name),
        };
        Self::Python { file: Name::new(file), function: Name::new(function) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mappings_come_back() {
        let parts = |file: &str, function: &str| {
            let Space::Python { file, function } =
                Space::of_python_mapping(&python_mapping_name(file, function))
            else {
                panic!()
            };
            (file.as_bytes().to_vec(), function.as_bytes().to_vec())
        };
        assert_eq!(parts("/a:b.py", "C.<locals>.f"), (b"/a:b.py".to_vec(), b"C.<locals>.f".to_vec()));
        assert_eq!(parts("/a.py", "a:\\0"), (b"/a.py".to_vec(), b"a.\\0".to_vec()));
        assert_eq!(parts("", UNKNOWN_PYTHON), (Vec::new(), UNKNOWN_PYTHON.as_bytes().to_vec()));
        let long = "ä".repeat(2000);
        assert_eq!(parts(&long, &long).1.len(), MAX_PART_BYTES);
    }
}
