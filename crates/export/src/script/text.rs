//! Text with gaps where symbols belong.

use std::io::{self, Write};

use super::lines::{LineId, LineTexts};
use super::places::{self, Place, Style, Symbols};

/// So much is written at once.
const PIECE: usize = 128 << 10;

/// Samples as text, but for the names of places.
#[derive(Default, Debug)]
pub struct Text {
    pub(super) bytes: Vec<u8>,
    gaps: Vec<(usize, Gap)>,
    /// The lines of all call chains, one chain behind the other.
    lines: Vec<LineId>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Gap {
    /// A call chain: so many of the lines.
    Chain(u32),
    /// An instruction without a call chain.
    Line(Place, Style),
    /// A function, with its offset or without.
    Symbol(Place, bool),
    /// An object.
    Object(Place),
    /// A function of the kernel, with its offset or without.
    KernelFunction(Place, bool),
}

impl Text {
    /// Estimates the memory it takes, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len() + size_of_val(self.gaps.as_slice()) + size_of_val(self.lines.as_slice())
    }

    /// Returns true if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.gaps.is_empty()
    }

    /// The places behind the gaps, but for those of call chains.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.gaps.iter().filter_map(|(_, gap)| match gap {
            Gap::Chain(_) => None,
            Gap::Line(place, _)
            | Gap::Symbol(place, _)
            | Gap::Object(place)
            | Gap::KernelFunction(place, _) => Some(place),
        })
    }

    pub(super) fn leave(&mut self, gap: Gap) {
        self.gaps.push((self.bytes.len(), gap));
    }

    pub(super) fn leave_chain(&mut self, lines: &[LineId]) {
        self.lines.extend_from_slice(lines);
        // A record has at most 8192 addresses.
        self.leave(Gap::Chain(lines.len() as u32));
    }

    /// Writes the text with its gaps filled, and empties it. `lines` has the lines of its call chains.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn fill(
        &mut self,
        lines: &LineTexts,
        symbols: &dyn Symbols,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let mut written = 0;
        let mut chains = self.lines.iter();
        let mut piece = Vec::with_capacity(2 * PIECE);
        for &(at, gap) in &self.gaps {
            piece.extend_from_slice(self.bytes.get(written..at).unwrap_or_default());
            written = at;
            match gap {
                Gap::Chain(count) => {
                    for &line in chains.by_ref().take(count as usize) {
                        piece.extend_from_slice(lines.text(line));
                    }
                }
                Gap::Line(place, style) => style.one_line(&mut piece, &place, symbols),
                Gap::Symbol(place, with_offset) => places::symbol(&mut piece, &place, with_offset, symbols),
                Gap::Object(place) => places::object(&mut piece, &place, symbols),
                Gap::KernelFunction(place, with_offset) => {
                    places::kernel_function(&mut piece, &place, with_offset, symbols);
                }
            }
            if piece.len() >= PIECE {
                output.write_all(&piece)?;
                piece.clear();
            }
        }
        piece.extend_from_slice(self.bytes.get(written..).unwrap_or_default());
        output.write_all(&piece)?;
        self.bytes.clear();
        self.gaps.clear();
        self.lines.clear();
        Ok(())
    }
}
