//! Unpacks gzip files in memory.

use zlib_rs::{Inflate, InflateFlush, Status};

use super::ForeignError;

/// The first bytes of a gzip file (RFC 1952).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The largest window, and 16 for a gzip header and checksum (zlib's `inflateInit2`).
const WINDOW_BITS: u8 = 15 + 16;

/// Bytes by which the result grows at least: a large profile takes some hundred steps, a small one no more memory than this.
const STEP_BYTES: usize = 256 << 10;

/// Returns true if the bytes begin like a gzip file.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Unpacks all members of a gzip file to at most `most` bytes.
///
/// # Errors
/// [`ForeignError::Gzip`] if the file is damaged or cut, [`ForeignError::TooLarge`] if it unpacks to more.
pub(super) fn unpack(bytes: &[u8], most: usize) -> Result<Vec<u8>, ForeignError> {
    let mut rest = bytes;
    let mut unpacked = Vec::new();
    while is_packed(rest) {
        let mut inflate = Inflate::new(true, WINDOW_BITS);
        loop {
            let start = unpacked.len();
            if start > most {
                return Err(ForeignError::TooLarge);
            }
            // One byte more than allowed shows that there is more.
            let step = STEP_BYTES.max(start).min(most + 1 - start);
            unpacked.resize(start + step, 0);
            let before = (inflate.total_in(), inflate.total_out());
            let status = inflate
                .decompress(rest, &mut unpacked[start..], InflateFlush::NoFlush)
                .map_err(|error| ForeignError::Gzip(error.as_str()))?;
            let read = (inflate.total_in() - before.0) as usize;
            let written = (inflate.total_out() - before.1) as usize;
            rest = rest.get(read..).unwrap_or_default();
            unpacked.truncate(start + written);
            match status {
                Status::StreamEnd => break,
                _ if read == 0 && written == 0 => return Err(ForeignError::Gzip("its end is missing")),
                _ => {}
            }
        }
    }
    if unpacked.len() > most { Err(ForeignError::TooLarge) } else { Ok(unpacked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let config = zlib_rs::DeflateConfig {
            window_bits: i32::from(WINDOW_BITS),
            ..zlib_rs::DeflateConfig::default()
        };
        let mut packed = vec![0; zlib_rs::compress_bound(bytes.len()) + 18];
        let (written, code) = zlib_rs::compress_slice(&mut packed, bytes, config);
        assert_eq!(code, zlib_rs::ReturnCode::Ok);
        written.to_vec()
    }

    #[test]
    fn members_are_unpacked_one_after_the_other_up_to_the_limit() {
        let text: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let both = [packed(&text), packed(b"end")].concat();
        let expected = [text.as_slice(), b"end"].concat();
        assert_eq!(unpack(&both, expected.len()).unwrap(), expected);
        assert_eq!(unpack(&both, expected.len() - 1), Err(ForeignError::TooLarge));
        assert_eq!(unpack(&packed(b"")[..], 0).unwrap(), b"");
    }

    #[test]
    fn cut_and_damaged_data_is_refused() {
        let whole = packed(&[b'x'; 1000]);
        for cut in 2..whole.len() {
            assert!(matches!(unpack(&whole[..cut], 1 << 20), Err(ForeignError::Gzip(_))), "cut at {cut}");
        }
        let mut damaged = whole.clone();
        let last = damaged.len() - 6;
        damaged[last] ^= 1;
        assert!(matches!(unpack(&damaged, 1 << 20), Err(ForeignError::Gzip(_))), "the checksum is checked");
    }
}
