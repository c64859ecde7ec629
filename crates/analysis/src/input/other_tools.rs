//! Recognises profiles of other tools among the files and streams that are given as recordings, and reads them whole.

use std::io::{self, Cursor, Read};

use perfdata::read::{ReadAt, Source};

use crate::Error;
use crate::foreign::{ForeignProfile, MAX_BYTES};

/// The magic numbers of recordings, in both byte orders.
const RECORDINGS: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Bytes by which a profile of another tool is recognised, before it is read whole.
const TELLING_BYTES: usize = 64 << 10;

/// Reads the source if it has a profile of another tool. Otherwise returns the source, to be read from its beginning.
///
/// # Errors
/// [`Error::Foreign`] if the profile is damaged or too large, [`Error::Open`] if reading fails.
pub(super) fn parse(source: Source, name: &str) -> Result<(Source, Option<ForeignProfile>), Error> {
    let failed = |source| Error::Open { name: name.to_owned(), source };
    match source {
        Source::File(file) => {
            let bytes = match whole_if_foreign(&*file).map_err(failed)? {
                Some(bytes) => bytes,
                None => return Ok((Source::File(file), None)),
            };
            Ok((Source::File(file), parse_bytes(&bytes, name)?))
        }
        Source::Stream(stream) => {
            let (mut stream, mut bytes) = (stream, Vec::new());
            read_up_to(&mut stream, &mut bytes, RECORDINGS[0].len()).map_err(failed)?;
            if !is_recording(&bytes) && !bytes.is_empty() {
                read_start(&mut stream, &mut bytes).map_err(failed)?;
                if ForeignProfile::may_begin_with(&bytes) {
                    read_up_to(&mut stream, &mut bytes, MAX_BYTES + 1).map_err(failed)?;
                    if let Some(foreign) = parse_bytes(&bytes, name)? {
                        return Ok((Source::Stream(stream), Some(foreign)));
                    }
                }
            }
            Ok((Source::Stream(Box::new(Cursor::new(bytes).chain(stream))), None))
        }
        directory @ Source::Directory { .. } => Ok((directory, None)),
    }
}

fn parse_bytes(bytes: &[u8], name: &str) -> Result<Option<ForeignProfile>, Error> {
    ForeignProfile::parse(bytes).map_err(|source| Error::Foreign { name: name.to_owned(), source })
}

fn is_recording(start: &[u8]) -> bool {
    RECORDINGS.iter().any(|magic| start.starts_with(*magic))
}

/// Returns the bytes of a file if it may be a profile of another tool, up to one more than are parsed.
fn whole_if_foreign(file: &dyn ReadAt) -> io::Result<Option<Vec<u8>>> {
    let mut start = vec![0; TELLING_BYTES];
    let read = read_at(file, &mut start, 0)?;
    start.truncate(read);
    if is_recording(&start) || !ForeignProfile::may_begin_with(&start) {
        return Ok(None);
    }
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(MAX_BYTES + 1);
    let mut bytes = vec![0; length];
    let read = read_at(file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Fills a buffer from a file, as far as the file goes; returns the bytes read.
fn read_at(file: &dyn ReadAt, buffer: &mut [u8], from: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a stream until its first bytes or lines show what it is: it may never end.
fn read_start(stream: &mut dyn Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 4096];
    while bytes.len() < TELLING_BYTES && !ForeignProfile::may_begin_with(bytes) && !bytes.contains(&b'\n') {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(chunk.get(..read).unwrap_or(&chunk)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a stream until `bytes` has as many as wanted, or it ends.
fn read_up_to(stream: &mut dyn Read, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
    let missing = wanted.saturating_sub(bytes.len()) as u64;
    stream.take(missing).read_to_end(bytes).map(|_| ())
}
