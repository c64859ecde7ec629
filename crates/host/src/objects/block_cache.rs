//! Reads objects in blocks through a bounded cache. For the unwinder, which reads scattered parts of files that may be huge or
//! change, and must be fast.
//!
//! Copying a block takes 1 µs if it is in the page cache, else 30 µs. Mapping a page and touching it took 97 to 236 µs if it was not
//! in the page cache. And if a file shrinks, a read returns fewer bytes, where a mapping raises SIGBUS.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elf::ReadAt;

use crate::slow_files::OpenFile;

/// The bytes of an object, copied when they are read.
#[derive(Debug)]
pub enum BlockBytes {
    /// A file.
    File(BlockFile),
    /// An image without a file.
    Memory(Vec<u8>),
}

/// An open file that is read through a block cache.
#[derive(Debug)]
pub struct BlockFile {
    file: OpenFile,
    size: u64,
    /// Identifies this file in the cache.
    number: u64,
    cache: Arc<BlockCache>,
}

/// The blocks of all files of one store.
#[derive(Default, Debug)]
pub struct BlockCache {
    blocks: Mutex<BlockMap>,
    files: AtomicU64,
}

/// Blocks by file number and block number. Where there are too many, all are dropped: those in use are soon read again.
type BlockMap = HashMap<(u64, u64), Box<[u8]>>;

/// Size of a block: a page, the unit of the page cache.
const BLOCK_BYTES: usize = 4096;

/// Maximum number of blocks: 8 MiB. The unwinder looks at 1 to 3 MiB of clang's or rustc's tables in a second.
const MAX_BLOCKS: usize = 2048;

impl BlockFile {
    pub(super) fn new(file: OpenFile, size: u64, cache: &Arc<BlockCache>) -> Self {
        let number = cache.files.fetch_add(1, Ordering::Relaxed);
        Self { file, size, number, cache: Arc::clone(cache) }
    }

    /// Copies a block from offset `start` within it, and returns the number of bytes: fewer than `into` has room for at the end of
    /// the file.
    fn read_block(&self, block: u64, start: usize, into: &mut [u8]) -> usize {
        let key = (self.number, block);
        let copy = |bytes: &[u8], into: &mut [u8]| {
            let from = bytes.get(start..).unwrap_or_default();
            let length = from.len().min(into.len());
            into[..length].copy_from_slice(&from[..length]);
            length
        };
        if let Some(bytes) = self.cache.lock().get(&key) {
            return copy(bytes, into);
        }
        // The cache is unlocked during the read, so that other threads continue.
        let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
        let offset = block.saturating_mul(BLOCK_BYTES as u64);
        // Asking for no more than there is saves a second call, which finds the end of the file.
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        let read = read_fully(&self.file, offset, &mut bytes[..left]);
        let copied = copy(&bytes[..read], into);
        if read == BLOCK_BYTES {
            // Only full blocks are cached: the last block of a file may grow.
            let mut blocks = self.cache.lock();
            if blocks.len() >= MAX_BLOCKS {
                blocks.clear();
            }
            blocks.insert(key, bytes);
        }
        copied
    }
}

impl BlockBytes {
    /// Drops all cached blocks, including those of other files.
    pub(super) fn clear_cache(&self) {
        if let Self::File(file) = self {
            *file.cache.lock() = BlockMap::default();
        }
    }
}

impl ReadAt for BlockBytes {
    fn size(&self) -> u64 {
        match self {
            Self::File(file) => file.size,
            Self::Memory(bytes) => bytes.size(),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let file = match self {
            Self::File(file) => file,
            Self::Memory(bytes) => return bytes.read_at(offset, into),
        };
        // Long reads bypass the cache, because they are rarely repeated.
        if into.len() > 4 * BLOCK_BYTES {
            return read_fully(&file.file, offset, into);
        }
        let (mut at, mut filled) = (offset, 0);
        while filled < into.len() {
            let start = (at % BLOCK_BYTES as u64) as usize;
            let wanted = (BLOCK_BYTES - start).min(into.len() - filled);
            let read = file.read_block(at / BLOCK_BYTES as u64, start, &mut into[filled..filled + wanted]);
            filled += read;
            at = at.saturating_add(read as u64);
            if read < wanted {
                break;
            }
        }
        filled
    }
}

impl BlockCache {
    fn lock(&self) -> MutexGuard<'_, BlockMap> {
        // A panic in another thread leaves the blocks valid.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills `into` from `offset`, and returns the number of bytes: fewer at the end of the file or after an error.
pub(super) fn read_fully(file: &OpenFile, offset: u64, into: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn file(bytes: &[u8], cache: &Arc<BlockCache>) -> BlockBytes {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        BlockBytes::File(BlockFile::new(OpenFile::Here(file), bytes.len() as u64, cache))
    }

    #[test]
    fn reads_are_the_files_bytes_wherever_they_begin() {
        let bytes: Vec<u8> = (0..5 * BLOCK_BYTES + 100).map(|index| (index / 7) as u8).collect();
        let cache = Arc::new(BlockCache::default());
        let (one, other) = (file(&bytes, &cache), file(&vec![9; BLOCK_BYTES], &cache));
        for (offset, length) in [
            (0, 1),
            (10, 8),
            (BLOCK_BYTES - 4, 8),
            (BLOCK_BYTES - 1, 2 * BLOCK_BYTES),
            (5, 5 * BLOCK_BYTES),
            (5 * BLOCK_BYTES, 200),
        ] {
            for _ in 0..2 {
                let mut read = vec![0; length];
                let count = one.read_at(offset as u64, &mut read);
                let expected = &bytes[offset..bytes.len().min(offset + length)];
                assert_eq!((count, &read[..count]), (expected.len(), expected), "{offset} {length}");
            }
        }
        assert_eq!(other.array::<4>(8), Some([9; 4]));
        assert_eq!(one.read_at(u64::MAX, &mut [0; 8]), 0);
    }

    #[test]
    fn blocks_are_bounded_and_those_in_use_stay() {
        let cache = Arc::new(BlockCache::default());
        let bytes = file(&vec![1; (2 * MAX_BLOCKS + 1) * BLOCK_BYTES], &cache);
        let BlockBytes::File(inner) = &bytes else { panic!() };
        for block in 0..2 * MAX_BLOCKS as u64 {
            assert_eq!(bytes.array::<1>(block * BLOCK_BYTES as u64), Some([1]));
            assert_eq!(bytes.array::<1>(0), Some([1]));
        }
        let blocks = cache.lock();
        assert!(blocks.len() <= MAX_BLOCKS);
        assert!(blocks.contains_key(&(inner.number, 0)));
    }

    #[test]
    fn a_file_that_shrinks_has_fewer_bytes() {
        let cache = Arc::new(BlockCache::default());
        let bytes = file(&vec![1; 3 * BLOCK_BYTES], &cache);
        assert_eq!(bytes.array::<8>(0), Some([1; 8]));
        let BlockBytes::File(inner) = &bytes else { panic!() };
        let OpenFile::Here(file) = &inner.file else { panic!() };
        file.set_len(BLOCK_BYTES as u64 + 3).unwrap();
        assert_eq!(bytes.array::<8>(BLOCK_BYTES as u64), None);
        assert_eq!(bytes.array::<3>(BLOCK_BYTES as u64), Some([1; 3]));
        assert_eq!(bytes.read_at(2 * BLOCK_BYTES as u64, &mut [0; 8]), 0);
    }
}
