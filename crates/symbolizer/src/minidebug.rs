//! `.gnu_debugdata`: a whole ELF file with a symbol table, packed with xz, in a section ("MiniDebugInfo").

use std::io::Read;

use elf::Object;

/// Fedora's largest unpacks to a few megabytes.
const MAX_SIZE: u64 = 64 << 20;

/// The largest ratio of its unpacked size to its size in the file.
const MAX_RATIO: u64 = 32;

/// An object that is no larger than this unpacked, in bytes, is unpacked whatever the ratio: a few symbols come to 40 times.
const ALWAYS_UNPACKED: u64 = 1 << 20;

/// The memory that unpacking may take itself, in KiB: `xz -9` asks for 64 MiB.
const MAX_DICTIONARY_KIB: u32 = 65 << 10;

/// The bytes of the object in `.gnu_debugdata`; `None` where there is none.
///
/// # Errors
/// Where it cannot be unpacked, or is larger than any that somebody meant to be read.
pub fn minidebug<D: AsRef<[u8]>>(object: &Object<D>) -> Result<Option<Vec<u8>>, String> {
    let Some(packed) = object.contents(".gnu_debugdata").map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let most = (packed.len() as u64).saturating_mul(MAX_RATIO).clamp(ALWAYS_UNPACKED, MAX_SIZE);
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
