//! GappedText with gaps where symbols belong.

use std::io::{self, Write};

use super::address::{self, AddressStyle, LocatedAddress, SymbolLookup};
use super::chain_lines::{ChainLineId, ChainLineTexts};

/// So much is written at once.
const PIECE: usize = 128 << 10;

/// Samples as text, but for the names of places.
#[derive(Default, Debug)]
pub struct GappedText {
    pub(super) bytes: Vec<u8>,
    gaps: Vec<(usize, Gap)>,
    /// The lines of all call chains, one chain behind the other.
    lines: Vec<ChainLineId>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Gap {
    /// A call chain: so many of the lines.
    Chain(u32),
    /// An instruction without a call chain.
    Line(LocatedAddress, AddressStyle),
    /// A function, with its offset or without.
    Symbol(LocatedAddress, bool),
    /// An object.
    Object(LocatedAddress),
    /// A function of the kernel, with its offset or without.
    KernelFunction(LocatedAddress, bool),
}

impl GappedText {
    /// Estimates the memory it takes, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len() + size_of_val(self.gaps.as_slice()) + size_of_val(self.lines.as_slice())
    }

    /// Returns true if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.gaps.is_empty()
    }

    /// The places behind the gaps, but for those of call chains.
    pub fn places(&self) -> impl Iterator<Item = &LocatedAddress> {
        self.gaps.iter().filter_map(|(_, gap)| match gap {
            Gap::Chain(_) => None,
            Gap::Line(place, _)
            | Gap::Symbol(place, _)
            | Gap::Object(place)
            | Gap::KernelFunction(place, _) => Some(place),
        })
    }

    pub(super) fn push_gap(&mut self, gap: Gap) {
        self.gaps.push((self.bytes.len(), gap));
    }

    pub(super) fn push_chain(&mut self, lines: &[ChainLineId]) {
        self.lines.extend_from_slice(lines);
        // A record has at most 8192 addresses.
        self.push_gap(Gap::Chain(lines.len() as u32));
    }

    /// Writes the text with its gaps filled, and empties it. `lines` has the lines of its call chains.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn fill(
        &mut self,
        lines: &ChainLineTexts,
        symbols: &dyn SymbolLookup,
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
                Gap::Symbol(place, with_offset) => address::symbol(&mut piece, &place, with_offset, symbols),
                Gap::Object(place) => address::object(&mut piece, &place, symbols),
                Gap::KernelFunction(place, with_offset) => {
                    address::kernel_function(&mut piece, &place, with_offset, symbols);
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
