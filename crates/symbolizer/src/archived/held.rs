//! Counts the memory that decoded sections of a recording take, because a section may unpack to much more than it has bytes.

/// Memory in bytes that may still be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldBytes {
    left: u64,
}

/// The error of taking more memory than is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMuch;

impl HeldBytes {
    /// What the allocator needs for each allocation, and reference counts take.
    const PER_ALLOCATION: u64 = 32;

    /// Returns a budget of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self { left: bytes }
    }

    /// Takes `bytes` for one allocation.
    ///
    /// # Errors
    /// It is more than is left.
    pub fn take(&mut self, bytes: usize) -> Result<(), TooMuch> {
        let all = Self::PER_ALLOCATION.saturating_add(bytes as u64);
        self.left = self.left.checked_sub(all).ok_or(TooMuch)?;
        Ok(())
    }

    /// Takes memory for a value in a list or a table that grows as it is filled, and so has room for up to twice as many.
    ///
    /// # Errors
    /// As [`HeldBytes::take`].
    pub fn take_entry<T>(&mut self) -> Result<(), TooMuch> {
        self.left = self.left.checked_sub(2 * size_of::<T>() as u64 + 2).ok_or(TooMuch)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_allowed_is_taken() {
        let mut held = HeldBytes::new(100);
        assert_eq!(held.take(60), Ok(()));
        assert_eq!(held.take_entry::<u64>(), Err(TooMuch));
        assert_eq!(held.take_entry::<u16>(), Ok(()));
        for size in [usize::MAX - 32, usize::MAX] {
            assert_eq!(held.take(size), Err(TooMuch));
        }
    }
}
