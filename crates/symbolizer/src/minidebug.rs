//! `.gnu_debugdata`: a whole ELF file with a symbol table, packed with xz, in a section ("MiniDebugInfo").

use std::io::Read;

use elf::{ALWAYS_UNPACKED_BYTES, MAX_RATIO, Object};

/// The largest unpacked object that is read. The largest of Fedora unpack to a few megabytes.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;

/// The memory that the decoder may use, in KiB: `xz -9` needs 64 MiB.
const MAX_DICTIONARY_KIB: u32 = 65 << 10;

/// Unpacks the object in `.gnu_debugdata`; returns `None` where there is no such section.
///
/// # Errors
/// Where the section cannot be unpacked, or its content is larger than these bounds allow.
pub fn minidebug<D: AsRef<[u8]>>(object: &Object<D>) -> Result<Option<Vec<u8>>, String> {
    let Some(packed) = object.contents(".gnu_debugdata").map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let most =
        (packed.len() as u64).saturating_mul(MAX_RATIO).clamp(ALWAYS_UNPACKED_BYTES, MAX_UNPACKED_BYTES);
    let mut unpacked = Vec::new();
    let reader = lzma_rust2::XzReader::new_mem_limit(&*packed, true, MAX_DICTIONARY_KIB);
    let damaged = |error| format!("section .gnu_debugdata: {error}");
    reader.take(most + 1).read_to_end(&mut unpacked).map_err(damaged)?;
    if unpacked.len() as u64 > most {
        return Err(format!(
            "section .gnu_debugdata is not unpacked: more than {most} bytes would come of its {}",
            packed.len()
        ));
    }
    Ok(Some(unpacked))
}
