//! Archived code: the bytes of sampled functions, stored in the recording, with the functions that each byte belongs to.
//!
//! The format is that of archived names: the version; the strings; for each piece its space, start, address, machine and
//! bytes, the frames at each position where they change, and the callees of calls.

use std::sync::Arc;

use model::{Frame, Space, Svma};

use super::writer::{StringTableBuilder, write_bytes, write_frames, write_number, write_space};
use super::{ArchiveError, HeldBytes, Reader, StringCache, VERSION};
use crate::names::NameStyle;

/// A piece of a function's code.
#[derive(Clone, PartialEq, Debug)]
pub struct ArchivedCode {
    /// Its space.
    pub space: Space,
    /// The offset of its first byte in the space.
    pub start: u64,
    /// The address of its first byte in the object.
    pub address: Svma,
    /// `e_machine` of the object.
    pub machine: u16,
    /// The code.
    pub bytes: Vec<u8>,
    /// Positions at which the functions change, ascending, with the functions from there on, innermost first.
    pub frames: Vec<(u64, Arc<[Frame]>)>,
    /// The callees of call instructions, by the offsets of these, ascending.
    pub callees: Vec<(u64, Arc<str>)>,
}

/// Encodes pieces of code in their order.
pub fn encode_code(pieces: &[ArchivedCode]) -> Vec<u8> {
    let mut strings = StringTableBuilder::default();
    let mut out = Vec::new();
    write_number(&mut out, pieces.len() as u64);
    for piece in pieces {
        write_space(&mut out, &piece.space);
        write_number(&mut out, piece.start);
        write_number(&mut out, piece.address.0);
        write_number(&mut out, piece.machine.into());
        write_bytes(&mut out, &piece.bytes);
        write_number(&mut out, piece.frames.len() as u64);
        let mut last = 0;
        for (position, frames) in &piece.frames {
            write_number(&mut out, position.wrapping_sub(last));
            last = *position;
            write_frames(&mut out, frames, &mut strings);
        }
        write_number(&mut out, piece.callees.len() as u64);
        let mut last = 0;
        for (position, callee) in &piece.callees {
            write_number(&mut out, position.wrapping_sub(last));
            last = *position;
            write_number(&mut out, strings.number(callee));
        }
    }
    let mut bytes = strings.header();
    bytes.extend(out);
    bytes
}

/// Parses the output of [`encode_code`]. Returns the pieces before the first error, and that error. That they would take more memory
/// than `held` is such an error.
pub fn parse_code(
    bytes: &[u8],
    style: NameStyle,
    held: HeldBytes,
) -> (Vec<ArchivedCode>, Option<ArchiveError>) {
    let mut pieces = Vec::new();
    let error = Reader::new(bytes, held).read_code(style, &mut pieces).err();
    (pieces, error)
}

impl Reader<'_> {
    fn read_code(&mut self, style: NameStyle, pieces: &mut Vec<ArchivedCode>) -> Result<(), ArchiveError> {
        self.version = self.number("the version of the code")?;
        if !(2..=VERSION).contains(&self.version) {
            return self.error("the version of the code", "not known: a newer prof wrote it");
        }
        let mut texts = self.strings(style)?;
        for _ in 0..self.count("the number of pieces of code")? {
            let piece = self.piece(&mut texts)?;
            pieces.extend(piece);
        }
        Ok(())
    }

    /// Reads a piece; returns `None` for one in a space without code.
    fn piece(&mut self, texts: &mut StringCache<'_>) -> Result<Option<ArchivedCode>, ArchiveError> {
        self.hold("code", HeldBytes::take_entry::<ArchivedCode>)?;
        let space = self.space()?;
        let start = self.number("where code starts")?;
        let address = Svma(self.number("the address of code")?);
        let Ok(machine) = u16::try_from(self.number("a machine")?) else {
            return self.error("a machine", "too large");
        };
        let bytes = self.text("code")?;
        self.hold("code", |held| held.take(bytes.len()))?;
        let bytes = bytes.to_vec();
        let (mut frames, mut position) = (Vec::new(), 0_u64);
        for _ in 0..self.count("the number of places in code")? {
            self.hold("a place in code", HeldBytes::take_entry::<(u64, Arc<[Frame]>)>)?;
            position = position.wrapping_add(self.number("a place in code")?);
            let count = self.count("the number of frames")?;
            frames.push((position, self.frames(count, texts)?));
        }
        let (mut callees, mut position) = (Vec::new(), 0_u64);
        for _ in 0..self.count("the number of calls")? {
            self.hold("a call", HeldBytes::take_entry::<(u64, Arc<str>)>)?;
            position = position.wrapping_add(self.number("a call")?);
            let callee = self.number("a function that is called")?;
            let callee = self.function("a function that is called", callee, texts)?;
            callees.push((position, callee));
        }
        Ok(space.map(|space| ArchivedCode { space, start, address, machine, bytes, frames, callees }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Name, SourceLocation};
    use proptest::prelude::*;

    fn piece(name: &str) -> ArchivedCode {
        let location = SourceLocation {
            file: Arc::from("/src/a.rs"),
            line: 7,
            column: 0,
            discriminator: 0,
            start_line: 5,
        };
        let inner = Frame { function: Arc::from("g"), location: Some(location), inlined: true };
        let outer = Frame { function: Arc::from(name), location: None, inlined: false };
        ArchivedCode {
            space: Space::KernelSymbol { name: Name::from("bpf") },
            start: 1 << 40,
            address: Svma(0x1000),
            machine: 62,
            bytes: vec![0x90; 9],
            frames: vec![(0, Arc::from([outer.clone()])), (4, Arc::from([inner, outer]))],
            callees: vec![(3, Arc::from("memcpy"))],
        }
    }

    #[test]
    fn code_that_was_written_is_read() {
        let pieces = [piece("f"), piece("h")];
        assert_eq!(
            parse_code(&encode_code(&pieces), NameStyle::Linkage, HeldBytes::new(1 << 20)),
            (pieces.to_vec(), None)
        );
    }

    #[test]
    fn what_is_held_is_counted() {
        let bytes = encode_code(&vec![piece("f"); 100]);
        let parse = |most| parse_code(&bytes, NameStyle::Linkage, HeldBytes::new(most));
        assert_eq!(parse(200_000).1, None);
        let (pieces, error) = parse(20_000);
        assert!((5..100).contains(&pieces.len()) && error.is_some(), "{}", pieces.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            changed in prop::collection::vec((0_usize..400, any::<u8>()), 0..4),
        ) {
            let _ = parse_code(&bytes, NameStyle::Demangled, HeldBytes::new(1 << 20));
            bytes = encode_code(&[piece("f"), piece("h")]);
            let length = bytes.len();
            for (at, byte) in changed {
                bytes[at % length] = byte;
            }
            let _ = parse_code(&bytes, NameStyle::Demangled, HeldBytes::new(1 << 20));
        }
    }
}
