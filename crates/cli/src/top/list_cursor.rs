//! The cursor of a list: it stays with the selected row while rows move on the screen, and the list stays where it is.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// A list: its rows in their order on the screen, and the cursor among them.
#[derive(Clone, Debug)]
pub(crate) struct List<R, K> {
    pub(crate) rows: Vec<R>,
    pub(crate) cursor: ListCursor<K>,
}

impl<R, K> Default for List<R, K> {
    fn default() -> Self {
        Self { rows: Vec::new(), cursor: ListCursor::default() }
    }
}

impl<R, K: Clone + Eq + Hash> List<R, K> {
    /// Replaces the rows. They come in the given order or, if `frozen`, known ones in their earlier order and new ones behind them.
    pub(crate) fn update(&mut self, rows: Vec<R>, key: impl Fn(&R) -> K, frozen: bool) {
        let order = self.cursor.update(rows.iter().map(key).collect(), frozen);
        let mut rows: Vec<Option<R>> = rows.into_iter().map(Some).collect();
        self.rows = order.iter().filter_map(|&index| rows.get_mut(index)?.take()).collect();
    }

    /// Returns the row under the cursor.
    pub(crate) fn selected(&self) -> Option<&R> {
        self.rows.get(self.cursor.index())
    }
}

/// The rows of a list that are on the screen.
pub(crate) struct Visible {
    /// Their positions in the list.
    pub(crate) rows: Range<usize>,
    /// The position of the selected row.
    pub(crate) cursor: usize,
    /// The same in words: `3/120`.
    pub(crate) position: String,
}

/// The selected row of a list. It stays with what was selected while that is on the screen. A row that leaves the screen leaves the cursor
/// behind: only the user scrolls.
#[derive(Clone, Debug)]
pub(crate) struct ListCursor<K> {
    keys: Vec<K>,
    index: usize,
    /// The key of the selected row; `None` for the first row, whichever that is.
    selected: Option<K>,
    /// The first row on the screen.
    first: usize,
    /// The number of rows that the screen had room for, as drawn last; 0 before.
    height: usize,
}

impl<K> Default for ListCursor<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), index: 0, selected: None, first: 0, height: 0 }
    }
}

impl<K: Clone + Eq + Hash> ListCursor<K> {
    /// Replaces the rows. Returns their order on the screen, as positions in `keys`: the given order or, if `frozen`, known rows in
    /// their earlier order and new rows behind them.
    fn update(&mut self, keys: Vec<K>, frozen: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        if frozen {
            let places: HashMap<&K, usize> = self.keys.iter().zip(0..).collect();
            order.sort_by_key(|&index| {
                keys.get(index).and_then(|key| places.get(key)).copied().unwrap_or(usize::MAX)
            });
            self.keys = order.iter().filter_map(|&index| keys.get(index).cloned()).collect();
        } else {
            self.keys = keys;
        }
        self.find();
        order
    }

    /// The position of the selected row.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns true if nothing was selected yet.
    pub(crate) fn is_at_start(&self) -> bool {
        self.selected.is_none()
    }

    /// Selects the row with this key.
    pub(crate) fn select(&mut self, key: &K) {
        self.selected = Some(key.clone());
        self.find();
    }

    /// Selects the row at `index`, or the last.
    pub(crate) fn go_to(&mut self, index: usize) {
        self.index = index.min(self.keys.len().saturating_sub(1));
        self.selected = self.keys.get(self.index).cloned();
    }

    /// Selects the first row, and stays there.
    pub(crate) fn home(&mut self) {
        self.index = 0;
        self.selected = None;
    }

    /// Moves by a number of rows. Who arrives at the first row stays on top.
    pub(crate) fn step(&mut self, by: isize) {
        match self.index.saturating_add_signed(by) {
            0 => self.home(),
            index => self.go_to(index),
        }
    }

    /// Selects the row at `index`. Returns true if it was selected already.
    pub(crate) fn click(&mut self, index: usize) -> bool {
        let again = self.selected.is_some() && self.index == index;
        self.go_to(index);
        again
    }

    /// Scrolls so that the cursor is among the `height` rows shown.
    pub(crate) fn scroll(&mut self, height: usize) -> Visible {
        let height = height.max(1);
        self.height = height;
        self.first = self.first.min(self.index).max((self.index + 1).saturating_sub(height));
        let rows = self.keys.len();
        self.first = self.first.min(rows.saturating_sub(height));
        Visible {
            rows: self.first..(self.first + height).min(rows),
            cursor: self.index,
            position: format!("{}/{rows}", (self.index + 1).min(rows)),
        }
    }

    fn find(&mut self) {
        let found =
            self.selected.as_ref().and_then(|selected| self.keys.iter().position(|key| key == selected));
        let is_on_screen = |index: &usize| {
            self.height == 0 || (self.first..self.first.saturating_add(self.height)).contains(index)
        };
        self.index = match (found.filter(is_on_screen), &self.selected) {
            (Some(index), _) => index,
            (None, None) => 0,
            // The row is not in the list now, or not on the screen. The cursor keeps its position, and follows the row when it comes
            // back.
            (None, Some(_)) => self.index.min(self.keys.len().saturating_sub(1)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_stays_with_what_was_selected() {
        let mut cursor = ListCursor::default();
        cursor.update(vec!['a', 'b', 'c'], false);
        cursor.step(1);
        cursor.update(vec!['c', 'a', 'x', 'b'], false);
        assert_eq!(cursor.index(), 3);
        cursor.update(vec!['c', 'a'], false);
        assert_eq!(cursor.index(), 1, "gone");
        cursor.update(vec!['b', 'c', 'a'], false);
        assert_eq!(cursor.index(), 0, "and back");
    }

    #[test]
    fn untouched_it_stays_on_top() {
        let mut cursor = ListCursor::default();
        cursor.update(vec!['a', 'b'], false);
        cursor.update(vec!['b', 'a'], false);
        assert_eq!(cursor.index(), 0);
    }

    #[test]
    fn the_list_does_not_scroll_after_a_row() {
        let mut cursor = ListCursor::default();
        cursor.update((0..100).collect(), false);
        cursor.scroll(10);
        cursor.step(3);
        cursor.update((0..100).rev().collect(), false);
        assert_eq!((cursor.scroll(10).rows.start, cursor.index()), (0, 3), "the row is far below now");
        cursor.update((0..100).collect(), false);
        assert_eq!((cursor.scroll(10).rows.start, cursor.index()), (0, 3), "and back");
        cursor.step(-3);
        cursor.update((50..100).collect(), false);
        assert_eq!(
            (cursor.index(), &*cursor.scroll(10).position),
            (0, "1/50"),
            "it has come to the top, and stays"
        );
    }

    #[test]
    fn frozen_rows_keep_their_places() {
        let mut cursor = ListCursor::default();
        cursor.update(vec!['a', 'b', 'c'], false);
        assert_eq!(cursor.update(vec!['x', 'c', 'b', 'a'], true), [3, 2, 1, 0]);
        assert_eq!(cursor.update(vec!['x', 'c', 'b', 'a'], false), [0, 1, 2, 3]);
    }

    #[test]
    fn it_is_never_off_the_screen() {
        let mut cursor = ListCursor::default();
        cursor.update((0..100).collect(), false);
        cursor.step(50);
        assert_eq!(cursor.scroll(10).rows, 41..51);
        cursor.step(-5);
        assert_eq!(cursor.scroll(10).rows, 41..51);
        cursor.step(1000);
        assert_eq!((cursor.index(), cursor.scroll(10).rows), (99, 90..100));
        cursor.update((0..5).collect(), false);
        assert_eq!(cursor.scroll(10).rows.start, 0);
    }
}
