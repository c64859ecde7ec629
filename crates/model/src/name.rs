//! Names that come from the profiled machine.

use alloc::sync::Arc;
use core::fmt;

/// A comm, path or symbol name as the kernel or a file gave it: bytes, not necessarily UTF-8, possibly hostile.
///
/// Cheap to clone. Its `Display` form is safe for a terminal and for a line of text: bytes that are not UTF-8 and
/// control characters (C0, DEL, C1, bidirectional overrides and line separators) come out as U+FFFD.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Takes the bytes as they are, without a terminating NUL.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }

    /// The bytes as they came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is no byte at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part after the last slash: the file name of a path.
    pub fn base_name(&self) -> &[u8] {
        self.0.rsplit(|&byte| byte == b'/').next().unwrap_or(&[])
    }

    /// Whether a terminal or a reader may take `character` for something else than text.
    pub fn is_unsafe(character: char) -> bool {
        character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        // Nearly all names are plain.
        if self.0.iter().all(|byte| (b' '..=b'~').contains(byte))
            && let Ok(text) = core::str::from_utf8(&self.0)
        {
            return f.write_str(text);
        }
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                f.write_char(if Self::is_unsafe(character) { '\u{fffd}' } else { character })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_char('\u{fffd}')?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", alloc::string::String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn display_is_harmless() {
        assert_eq!(Name::new(b"a\x1b[31m\n\xffb").to_string(), "a\u{fffd}[31m\u{fffd}\u{fffd}b");
        assert_eq!(Name::from("x\u{202e}y").to_string(), "x\u{fffd}y");
        assert_eq!(Name::from("/usr/lib/libc.so.6").base_name(), b"libc.so.6");
    }
}
