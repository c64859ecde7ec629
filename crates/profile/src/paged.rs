//! A list by number of which only a part is used.

/// Elements of a page. A chain of 127 frames, the most that the kernel walks by default, touches one page of eight; a
/// table of stacks with many branches touches nearly all.
const PAGE: usize = 16;

/// Values by number, each with its default until it is written. Numbers that were never written cost half a byte.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: Copy + Default> Paged<T> {
    /// The value at `index`.
    pub(crate) fn get(&self, index: usize) -> T {
        let page = self.pages.get(index / PAGE).and_then(Option::as_deref);
        page.map_or_else(T::default, |page| page[index % PAGE])
    }

    /// The value at `index`, to be written.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        if self.pages.len() <= index / PAGE {
            self.pages.resize_with(index / PAGE + 1, || None);
        }
        let page = self.pages[index / PAGE].get_or_insert_with(|| Box::new([T::default(); PAGE]));
        &mut page[index % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_the_default_and_takes_no_page() {
        let mut paged = Paged::<usize>::default();
        for index in [5, 100_000, 7] {
            *paged.get_mut(index) += index;
        }
        assert_eq!([5, 6, 7, 99_999, 100_000, 200_000].map(|at| paged.get(at)), [5, 0, 7, 0, 100_000, 0]);
        assert_eq!(paged.pages.iter().flatten().count(), 2);
    }
}
