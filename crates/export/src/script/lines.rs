//! Lines of call chains, each formatted once: a recording has few places beside the samples that lie in them.

use std::collections::HashMap;

use super::places::{Place, Style, Symbols};

/// The number of a line in its [`Lines`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LineId(u32);

/// The lines of call chains seen lately: their places until symbols are known, their text afterwards.
#[derive(Default, Debug)]
pub struct Lines {
    // With a keyed hash: a hostile file chooses the addresses.
    numbers: HashMap<(Place, Style), LineId>,
    lines: Vec<(Place, Style)>,
    /// The texts of the first lines, one behind the other.
    text: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// The first line that was not yet looked up by the caller.
    fresh: usize,
}

impl Lines {
    /// The line of a place of a call chain: new, or added before.
    pub fn add(&mut self, style: Style, place: Place) -> LineId {
        let lines = &mut self.lines;
        *self.numbers.entry((place, style)).or_insert_with(|| {
            // As many lines as fit into memory, far below 2^32.
            let id = LineId(lines.len() as u32);
            lines.push((place, style));
            id
        })
    }

    /// The places of the lines that were added since the last call.
    pub fn fresh_places(&mut self) -> impl Iterator<Item = &Place> {
        let first = std::mem::replace(&mut self.fresh, self.lines.len());
        self.lines.get(first..).into_iter().flatten().map(|(place, _)| place)
    }

    /// How much memory they take, about.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.lines.len() * 4 * size_of::<(Place, Style)>()
    }

    /// Forgets all lines. Ids given before mean nothing any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Formats what is not yet formatted. An inlined function has a line of its own, before that of its caller.
    pub(super) fn format(&mut self, symbols: &dyn Symbols) {
        for (place, style) in self.lines.get(self.ends.len()..).unwrap_or_default() {
            style.lines(&mut self.text, place, symbols);
            self.ends.push(self.text.len());
        }
    }

    /// The text of a line, with its end.
    #[inline]
    pub(super) fn text(&self, LineId(id): LineId) -> &[u8] {
        let end = |number: usize| self.ends.get(number).copied().unwrap_or(0);
        let start = if id == 0 { 0 } else { end(id as usize - 1) };
        self.text.get(start..end(id as usize)).unwrap_or_default()
    }
}
