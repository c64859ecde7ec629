//! Names that come from the profiled machine.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::fmt;

/// A comm, path or symbol name as the kernel or a file gave it: bytes, not necessarily UTF-8, possibly hostile.
///
/// Cheap to clone. Its `Display` form is safe for a terminal and for a line of text: bytes that are not UTF-8 and
/// control characters (C0, DEL, C1, bidirectional overrides and line separators) come out as U+FFFD.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// The longest name that is kept, in bytes: no path is longer (`PATH_MAX` of limits.h), and nobody reads a function's name
    /// to its end that is. Whoever takes names from a file or a process cuts them here, before they are stored: a name may be
    /// as long as the file, and thousands of symbols may share it.
    pub const MAX_BYTES: usize = 4096;

    /// Ends a text that was cut.
    const MARK: &str = "…";

    /// Takes the bytes as they are, without a terminating NUL, up to [`Self::MAX_BYTES`].
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes.get(..Self::MAX_BYTES).unwrap_or(bytes)))
    }

    /// The text of a name, of one that is too long as much as is kept. Ends in `…` then.
    pub fn cut(text: &str) -> Cow<'_, str> {
        if text.len() <= Self::MAX_BYTES {
            return Cow::Borrowed(text);
        }
        let end = text.floor_char_boundary(Self::MAX_BYTES - Self::MARK.len());
        Cow::Owned([text.get(..end).unwrap_or_default(), Self::MARK].concat())
    }

    /// Returns true if a text has been cut by [`Self::cut`].
    pub fn is_cut(text: &str) -> bool {
        text.len() > Self::MAX_BYTES - Self::MARK.len() - char::MAX_LEN_UTF8 && text.ends_with(Self::MARK)
    }

    /// The bytes as they came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if there is no byte at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part after the last slash: the file name of a path.
    pub fn base_name(&self) -> &[u8] {
        self.0.rsplit(|&byte| byte == b'/').next().unwrap_or(&[])
    }

    /// Returns true if a terminal or a reader may take `character` for something else than text.
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
    fn a_name_is_never_longer_than_its_bound() {
        let giant = "ü".repeat(Name::MAX_BYTES);
        let cut = Name::cut(&giant);
        assert!(cut.len() <= Name::MAX_BYTES && cut.len() > Name::MAX_BYTES - 4, "{}", cut.len());
        assert!(cut.starts_with("üü") && cut.ends_with("ü…"));
        assert_eq!(Name::new(giant.as_bytes()).as_bytes().len(), Name::MAX_BYTES);
        let longest = "a".repeat(Name::MAX_BYTES);
        assert_eq!(Name::cut(&longest), longest.as_str());
        assert!(Name::is_cut(&cut) && !Name::is_cut(&longest) && !Name::is_cut("short…"));
        assert_eq!(Name::new(longest.as_bytes()).as_bytes(), longest.as_bytes());
    }

    #[test]
    fn display_is_harmless() {
        assert_eq!(Name::new(b"a\x1b[31m\n\xffb").to_string(), "a\u{fffd}[31m\u{fffd}\u{fffd}b");
        assert_eq!(Name::from("x\u{202e}y").to_string(), "x\u{fffd}y");
        assert_eq!(Name::from("/usr/lib/libc.so.6").base_name(), b"libc.so.6");
    }
}
