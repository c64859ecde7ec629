//! The format in which the data of the page is packed. `page/format.js` reads it.
//!
//! The page has named blocks, each a zlib stream in base64 in a `<script type="text/plain" data-block="NAME">`. `meta` is a JSON
//! object (its fields are described in `page/format.js`); the others are columns of integers in LEB128, signed ones as zigzag:
//!
//! | block | content |
//! |---|---|
//! | `nodes` | the number of nodes of the tree of stacks; then for each node but the root, in preorder, the number of levels from the previous node up to its parent (0: the previous node is the parent); then the frame of each node but the root |
//! | `stacks` | the number of different stacks; then the innermost node of each, in the order of the tree, as the difference to the previous one |
//! | `lines` | for each stack its innermost line, as a number of `meta.lines`, or 0 if it is unknown; absent in pages without source |
//! | `instructions` | for each stack the instruction that it ends at, as a number of `meta.code`, from 1, or 0 if its code is not in the page; absent in pages without code |
//! | `times` | for each sample the difference between its distance from the previous sample and the previous distance (signed), in units of time |
//! | `samples` | for each sample the difference of its stack to that of the previous sample (signed): stacks next to each other have most callers in common |
//! | `waits` | for each lane of `meta.waits` its waits: how long after the end of the one before it began, and twice its length, one more where the thread could go on; absent where switches were not recorded |
//! | `wakers` | for each wait of `waits` in which the thread was blocked, who ended it, as a number of `meta.wakers`, from 1, or 0 if that is not known; absent where wakings were not recorded |
//! | `counts` | for each sample how many more it stands for: others of its stack within its unit of time; absent if no samples were merged |
//! | `cpus` | for each sample the difference of its CPU to that of the previous sample (signed); absent if samples have no CPU |
//! | `weights` | for each sample of a weighted event the difference of its period to that of the previous sample (signed) |
//!
//! Samples are grouped in segments (`meta.segments`), one for each event and thread, in the order of time. Differences start
//! from 0 in each segment. Siblings in the tree are sorted by frame, and frames are numbered by name, so that equal
//! recordings give equal pages.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zlib_rs::{DeflateConfig, ReturnCode, compress_bound, compress_slice};

/// A column of integers, encoded.
#[derive(Default, Debug)]
pub(crate) struct Column(Vec<u8>);

impl Column {
    /// Appends an unsigned number as LEB128.
    pub(crate) fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends a signed number as zigzag LEB128.
    pub(crate) fn push_signed(&mut self, value: i64) {
        self.push(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Appends another column.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the encoded bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The compression level of zlib. Level 6 takes twice as long and saves 3 per cent on recordings of rustc.
const COMPRESSION_LEVEL: i32 = 4;

/// Packs bytes to the text of a block: compressed by zlib, encoded in base64.
///
/// # Errors
/// If zlib fails (out of memory).
pub fn pack(bytes: &[u8]) -> io::Result<String> {
    let mut packed = vec![0; compress_bound(bytes.len())];
    let (packed, code) = compress_slice(&mut packed, bytes, DeflateConfig::new(COMPRESSION_LEVEL));
    match code {
        ReturnCode::Ok => Ok(STANDARD.encode(packed)),
        code => Err(io::Error::other(format!("cannot pack the data of the page: zlib says {code:?}"))),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// The bytes of a block.
    pub(crate) fn unpack(block: &str) -> Vec<u8> {
        let packed = STANDARD.decode(block).unwrap();
        let mut bytes = vec![0; 64];
        loop {
            let (read, code) =
                zlib_rs::decompress_slice(&mut bytes, &packed, zlib_rs::InflateConfig::default());
            match code {
                ReturnCode::Ok => {
                    let length = read.len();
                    bytes.truncate(length);
                    return bytes;
                }
                ReturnCode::BufError => bytes = vec![0; bytes.len() * 2],
                code => panic!("{code:?}"),
            }
        }
    }

    /// Reads a column.
    pub(crate) struct Numbers(pub(crate) std::vec::IntoIter<u8>);

    impl Numbers {
        pub(crate) fn of(block: &str) -> Self {
            Self(unpack(block).into_iter())
        }

        pub(crate) fn next(&mut self) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = self.0.next().unwrap();
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }

        pub(crate) fn next_signed(&mut self) -> i64 {
            let value = self.next();
            (value >> 1) as i64 ^ -((value & 1) as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Numbers;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec((any::<u64>(), any::<i64>()), 0..50)) {
            let mut column = Column::default();
            for &(number, signed) in &numbers {
                column.push(number);
                column.push_signed(signed);
            }
            let mut read = Numbers::of(&pack(&column.into_bytes()).unwrap());
            for (number, signed) in numbers {
                prop_assert_eq!((read.next(), read.next_signed()), (number, signed));
            }
            prop_assert_eq!(read.0.next(), None);
        }
    }
}
