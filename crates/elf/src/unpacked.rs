//! The contents of sections, and the budget of memory for unpacked ones.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

/// The contents of a section.
#[derive(Debug)]
pub enum Contents<'a> {
    /// As they lie in the file.
    InFile(&'a [u8]),
    /// Unpacked from the file.
    Unpacked(Unpacked),
}

/// Bytes that were unpacked. Their share of an [`UnpackBudget`] is released when they are dropped.
#[derive(Debug)]
pub struct Unpacked {
    bytes: Vec<u8>,
    _share: Share,
}

/// The number of bytes that unpacked sections may take at the same time: those of one object, and those of all
/// objects that are given the same budget. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct UnpackBudget {
    of_object: u64,
    together: Arc<Counter>,
}

/// The limit that a section exceeds when unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UnpackLimit {
    /// This many times its size in the file.
    Ratio(u64),
    /// The bytes that are left for its object.
    Object(u64),
    /// The bytes that are left for all objects.
    Together(u64),
}

/// The share of a budget that one object has.
#[derive(Clone, Debug)]
pub(crate) struct ObjectBudget {
    own: Arc<Counter>,
    together: Arc<Counter>,
}

/// Bytes that are reserved in a budget until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: u64,
    budget: ObjectBudget,
}

#[derive(Debug)]
struct Counter {
    limit: u64,
    used: AtomicU64,
}

impl UnpackBudget {
    /// At limit `of_object` bytes for each object, and `together` for all.
    pub fn new(of_object: u64, together: u64) -> Self {
        Self { of_object, together: Arc::new(Counter::new(together)) }
    }

    pub(crate) fn for_object(&self) -> ObjectBudget {
        ObjectBudget { own: Arc::new(Counter::new(self.of_object)), together: Arc::clone(&self.together) }
    }
}

impl Default for UnpackBudget {
    /// 64 MiB for one object alone, which is enough to read a section or two.
    fn default() -> Self {
        Self::new(64 << 20, 64 << 20)
    }
}

impl ObjectBudget {
    /// Reserves bytes until the share is dropped.
    ///
    /// # Errors
    /// The limit that they exceed.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Share, UnpackLimit> {
        self.own.reserve(bytes).map_err(UnpackLimit::Object)?;
        if let Err(left) = self.together.reserve(bytes) {
            self.own.release(bytes);
            return Err(UnpackLimit::Together(left));
        }
        Ok(Share { bytes, budget: self.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.own.release(self.bytes);
        self.budget.together.release(self.bytes);
    }
}

impl Counter {
    fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Adds to the bytes in use, or returns the number of bytes left as an error.
    fn reserve(&self, bytes: u64) -> Result<(), u64> {
        let add = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.limit);
        let used = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        used.map(drop).map_err(|used| self.limit.saturating_sub(used))
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Unpacked {
    pub(crate) fn new(bytes: Vec<u8>, share: Share) -> Self {
        Self { bytes, _share: share }
    }
}

impl Deref for Unpacked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Deref for Contents<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::InFile(bytes) => bytes,
            Self::Unpacked(bytes) => bytes,
        }
    }
}

impl Default for Contents<'_> {
    fn default() -> Self {
        Self::InFile(&[])
    }
}

impl fmt::Display for UnpackLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(limit) => write!(f, "more than {limit} times its size in the file"),
            Self::Object(left) => write!(f, "and {left} are left for this file"),
            Self::Together(left) => write!(f, "and {left} are left for all files"),
        }
    }
}
