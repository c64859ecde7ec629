//! The names of files that hold the rest of an object's debug information (GDB manual, "Debugging Information in
//! Separate Files"; `dwz(1)`).

use alloc::vec::Vec;

use model::BuildId;
use object::Endianness;

/// The contents of `.gnu_debuglink`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DebugLink {
    /// The file's name, without a folder. It comes from the object: whoever joins it to a folder checks it first.
    pub file_name: Vec<u8>,
    /// The CRC-32 of the whole debug file: see [`debug_link_crc`].
    pub crc: u32,
}

/// The contents of `.gnu_debugaltlink`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AltLink {
    /// The path, absolute or relative to the folder of the file that has the link.
    pub path: Vec<u8>,
    /// The build id of the supplementary file.
    pub build_id: Option<BuildId>,
}

pub(crate) fn debug_link(bytes: &[u8], endian: Endianness) -> Option<DebugLink> {
    let length = bytes.iter().position(|&byte| byte == 0)?;
    // The checksum follows the terminated name at the next multiple of four.
    let crc_at = length.checked_add(4)? & !3;
    let crc: [u8; 4] = bytes.get(crc_at..crc_at.checked_add(4)?)?.try_into().ok()?;
    let file_name = bytes.get(..length).filter(|name| !name.is_empty())?.to_vec();
    let crc = match endian {
        Endianness::Little => u32::from_le_bytes(crc),
        Endianness::Big => u32::from_be_bytes(crc),
    };
    Some(DebugLink { file_name, crc })
}

pub(crate) fn alt_link(bytes: &[u8]) -> Option<AltLink> {
    let length = bytes.iter().position(|&byte| byte == 0)?;
    let path = bytes.get(..length).filter(|path| !path.is_empty())?.to_vec();
    Some(AltLink { path, build_id: bytes.get(length + 1..).and_then(BuildId::from_bytes) })
}

/// The checksum that `.gnu_debuglink` carries: CRC-32 with the polynomial 0xEDB88320, as zlib computes it. `before` is that of
/// the bytes before these, 0 at the beginning of the file.
pub fn debug_link_crc(before: u32, bytes: &[u8]) -> u32 {
    zlib_rs::crc32::crc32(before, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_a_name_and_an_aligned_checksum() {
        let bytes = b"a.debug\0\x78\x56\x34\x12";
        let link = debug_link(bytes, Endianness::Little).unwrap();
        assert_eq!((link.file_name.as_slice(), link.crc), (b"a.debug".as_slice(), 0x1234_5678));
        assert_eq!(debug_link(b"abcd\0\0\0\0\x12\x34\x56\x78", Endianness::Big).unwrap().crc, 0x1234_5678);
        assert_eq!(debug_link(&bytes[..11], Endianness::Little), None);
        assert_eq!(debug_link(b"\0\0\0\0\0\0\0\0", Endianness::Little), None);
        assert_eq!(debug_link(b"never ends", Endianness::Little), None);
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(debug_link_crc(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(debug_link_crc(debug_link_crc(0, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn a_supplementary_file_may_lack_its_id() {
        assert_eq!(alt_link(b"/x\0\x01\x02").unwrap().build_id.unwrap().as_bytes(), &[1, 2]);
        assert_eq!(alt_link(b"/x\0").unwrap().build_id, None);
        assert_eq!(alt_link(b"/x"), None);
    }
}
