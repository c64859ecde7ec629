//! The text of a source file.

use std::borrow::Cow;
use std::sync::Arc;

/// Maximum number of lines of a file: each takes four bytes beside its own, and a file may consist of line feeds.
const MAX_LINES: usize = 1 << 20;
/// Maximum number of bytes of a line: 15 of 4.4 million lines of Rust's library and of crates are longer. A file of generated code, or one
/// made to fill the disk, may be one line.
const MAX_LINE_BYTES: usize = 2_000;

/// Reads a source file by the path that debug information states; returns `None` for a file that is not shown.
pub type SourceReader<'a> = dyn Fn(&str) -> Option<Arc<SourceText>> + 'a;

/// The lines of a source file.
#[derive(Debug)]
pub struct SourceText {
    bytes: Vec<u8>,
    /// The position behind each line.
    ends: Vec<u32>,
}

impl SourceText {
    /// Finds the lines of a file of up to 4 GiB. Those behind the first million are left out.
    pub fn new(bytes: Vec<u8>) -> Self {
        let feeds = bytes.iter().zip(1..).filter(|(byte, _)| **byte == b'\n').map(|(_, end)| end);
        let mut ends: Vec<u32> = feeds.take(MAX_LINES).collect();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if ends.len() < MAX_LINES && ends.last().copied().unwrap_or(0) < length {
            ends.push(length);
        }
        Self { bytes, ends }
    }

    /// Returns a line without its line feed, counted from 1; `None` if there is none. Long lines are cut, and end with `…`.
    pub fn line(&self, number: u32) -> Option<Cow<'_, str>> {
        let index = number.checked_sub(1)? as usize;
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let line = self.bytes.get(start..end)?;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(match line.get(..MAX_LINE_BYTES) {
            Some(start) if start.len() < line.len() => {
                Cow::Owned(format!("{}…", String::from_utf8_lossy(start)))
            }
            _ => String::from_utf8_lossy(line),
        })
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.ends.len()
    }

    /// Returns the size of the file in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_standard_library() {
        for text in ["", "\n", "a", "a\nb", "a\r\nb\n", "\n\n", "a\n\nb\n"] {
            let source = SourceText::new(text.as_bytes().to_vec());
            let lines: Vec<_> = (1..).map_while(|number| source.line(number)).collect();
            assert_eq!(lines, text.lines().collect::<Vec<_>>(), "{text:?}");
            assert_eq!((source.lines(), source.line(0)), (lines.len(), None));
        }
        assert_eq!(SourceText::new(b"a\xff\n".to_vec()).line(1).unwrap(), "a\u{fffd}");
        let long = SourceText::new(vec![b'x'; MAX_LINE_BYTES + 1]);
        assert!(long.line(1).is_some_and(|line| line.len() < MAX_LINE_BYTES + 4 && line.ends_with("x…")));
        assert_eq!(SourceText::new(vec![b'\n'; MAX_LINES + 7]).lines(), MAX_LINES);
    }
}
