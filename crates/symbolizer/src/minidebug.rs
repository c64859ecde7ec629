//! `.gnu_debugdata`: a whole ELF file with a symbol table, packed with xz, in a section ("MiniDebugInfo").

use std::io::Read;

use elf::Object;

/// Fedora's largest unpacks to a few megabytes.
const MAX_SIZE: u64 = 256 << 20;

/// The bytes of the object in `.gnu_debugdata`; `None` where there is none, or it cannot be unpacked.
pub fn minidebug<D: AsRef<[u8]>>(object: &Object<D>) -> Option<Vec<u8>> {
    let packed = object.contents(".gnu_debugdata").ok().flatten()?;
    let mut unpacked = Vec::new();
    let reader = lzma_rust2::XzReader::new(packed.as_ref(), true);
    reader.take(MAX_SIZE).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}
