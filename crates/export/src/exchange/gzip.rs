//! Compression of messages: pprof's files are gzip, and so are the bodies of requests.

use std::io;

/// Compresses bytes with gzip.
pub(super) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    /// The largest window, and 16 for a gzip header and checksum (zlib's `deflateInit2`).
    const GZIP_WINDOW_BITS: i32 = 15 + 16;
    const HEADER_BYTES: usize = 18;
    let config = zlib_rs::DeflateConfig { level: 6, window_bits: GZIP_WINDOW_BITS, ..Default::default() };
    let mut packed = vec![0; zlib_rs::compress_bound(bytes.len()) + HEADER_BYTES];
    let (written, code) = zlib_rs::compress_slice(&mut packed, bytes, config);
    if code != zlib_rs::ReturnCode::Ok {
        return Err(io::Error::other(format!("cannot compress the profile ({code:?})")));
    }
    let length = written.len();
    packed.truncate(length);
    Ok(packed)
}
