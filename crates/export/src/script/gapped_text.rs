//! Text of samples with gaps for symbols, which are known later.

use std::io::{self, Write};

use super::address::{self, AddressStyle, LocatedAddress, SymbolLookup};
use super::chain_lines::{ChainLineId, ChainLineTexts};

/// Text is written to the output in pieces of about this size.
const PIECE_BYTES: usize = 128 << 10;

/// Samples as text, with gaps where the symbols of addresses belong.
#[derive(Default, Debug)]
pub struct GappedText {
    pub(super) bytes: Vec<u8>,
    /// The position in `bytes` of each gap, and what fills it.
    gaps: Vec<(usize, Gap)>,
    /// The lines of all call chains, concatenated.
    lines: Vec<ChainLineId>,
}

/// What fills a gap.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// A call chain of this many lines.
    Chain(usize),
    Symbol(SymbolGap),
}

/// A symbol that fills a gap.
#[derive(Clone, Copy, Debug)]
pub(super) enum SymbolGap {
    /// An instruction without a call chain.
    Line(LocatedAddress, AddressStyle),
    /// A function; with its offset if true.
    Symbol(LocatedAddress, bool),
    /// An object.
    Object(LocatedAddress),
}

impl GappedText {
    /// Estimates the memory that the text takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.gaps.as_slice()) + size_of_val(self.lines.as_slice())
    }

    /// Returns true if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.gaps.is_empty()
    }

    /// Returns the addresses whose symbols fill gaps, without those of call chains.
    pub fn addresses(&self) -> impl Iterator<Item = &LocatedAddress> {
        self.gaps.iter().filter_map(|(_, gap)| match gap {
            Gap::Chain(_) => None,
            Gap::Symbol(
                SymbolGap::Line(located, _) | SymbolGap::Symbol(located, _) | SymbolGap::Object(located),
            ) => Some(located),
        })
    }

    pub(super) fn push_gap(&mut self, gap: SymbolGap) {
        self.gaps.push((self.bytes.len(), Gap::Symbol(gap)));
    }

    pub(super) fn push_chain(&mut self, lines: &[ChainLineId]) {
        self.lines.extend_from_slice(lines);
        self.gaps.push((self.bytes.len(), Gap::Chain(lines.len())));
    }

    /// Writes the text with its gaps filled, and clears it. `lines` has the texts of its call chains.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn fill(
        &mut self,
        lines: &ChainLineTexts,
        symbols: &dyn SymbolLookup,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let (text, mut written) = (std::mem::take(self), 0);
        let mut chains = text.lines.iter();
        let mut piece: Vec<u8> = Vec::with_capacity(2 * PIECE_BYTES);
        for &(at, ref gap) in &text.gaps {
            piece.extend_from_slice(text.bytes.get(written..at).unwrap_or_default());
            written = at;
            match gap {
                Gap::Chain(count) => {
                    for &line in chains.by_ref().take(*count) {
                        piece.extend_from_slice(lines.text(line));
                    }
                }
                Gap::Symbol(gap) => gap.fill(&mut piece, symbols),
            }
            if piece.len() >= PIECE_BYTES {
                output.write_all(&piece)?;
                piece.clear();
            }
        }
        piece.extend_from_slice(text.bytes.get(written..).unwrap_or_default());
        output.write_all(&piece)
    }
}

impl SymbolGap {
    fn fill(&self, out: &mut Vec<u8>, symbols: &dyn SymbolLookup) {
        match self {
            Self::Line(located, style) => style.one_line(out, located, symbols),
            Self::Symbol(located, with_offset) => address::symbol(out, located, *with_offset, symbols),
            Self::Object(located) => address::object(out, located, symbols),
        }
    }
}
