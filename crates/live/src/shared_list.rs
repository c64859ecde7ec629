//! A list that grows, and whose copies share memory.

use std::ops::Index;
use std::sync::Arc;

/// Number of items in a chunk. A change to a chunk that another list shares copies this many items.
const CHUNK: usize = 512;

/// A list of chunks that is cheap to clone, also while it grows or some of its items change. A clone costs a pointer per chunk; the
/// first change to a shared chunk copies that chunk alone.
#[derive(Clone, Debug)]
pub struct SharedList<T> {
    /// All of them hold [`CHUNK`] items, except for the last.
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Clone> SharedList<T> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, |last| last.len());
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    /// Returns true if the list has no items.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the item at a position, or `None` behind the end.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// Returns the item at a position for a change, or `None` behind the end. Copies its chunk if another list shares it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(index / CHUNK)?).get_mut(index % CHUNK)
    }

    /// Appends an item. Copies the last chunk if another list shares it.
    pub fn push(&mut self, item: T) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => Arc::make_mut(last).push(item),
            None => self.chunks.push(Arc::new(vec![item])),
        }
    }

    /// Iterates over all items.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Returns true if one list is a clone of the other and neither has changed since. Compares pointers alone: equal items in
    /// different memory are not the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let both = self.chunks.iter().zip(&other.chunks);
        self.chunks.len() == other.chunks.len()
            && both.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl<T: Clone> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::default();
        items.into_iter().for_each(|item| list.push(item));
        list
    }
}

/// Indexing panics behind the end, as that of a slice does.
impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_they_have_in_common() {
        let mut list: SharedList<usize> = (0..3 * CHUNK + 7).collect();
        let before = list.clone();
        assert!(before.is_same(&list));
        list.push(1000);
        *list.get_mut(CHUNK).unwrap() = 2000;
        assert!(!before.is_same(&list));
        assert_eq!((before.len(), list.len()), (3 * CHUNK + 7, 3 * CHUNK + 8));
        assert_eq!((before[CHUNK], list[CHUNK], list[3 * CHUNK + 7]), (CHUNK, 2000, 1000));
        assert_eq!((before.get(3 * CHUNK + 7), list.get_mut(4 * CHUNK)), (None, None));
        assert!(before.iter().copied().eq(0..3 * CHUNK + 7));
        let shared = before.chunks.iter().zip(&list.chunks).filter(|(one, other)| Arc::ptr_eq(one, other));
        assert_eq!(shared.count(), 2, "two of four have changed");
        assert_eq!((SharedList::<u8>::default().len(), SharedList::<u8>::default().get(0)), (0, None));
    }
}
