//! The identity of an object file: the contents of its `NT_GNU_BUILD_ID` note.

use core::fmt;

/// A build id of 1 to 20 bytes (SHA-1 is 20; `ld --build-id=md5` makes 16; the kernel reports at most 20,
/// `BUILD_ID_SIZE_MAX` in `include/linux/buildid.h`). Longer notes are cut to 20, as the kernel does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId {
    bytes: [u8; 20],
    len: u8,
}

impl BuildId {
    /// Takes the bytes of a note or record; `None` where there are none or all are zero (the kernel's way to say
    /// "none found").
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..20).unwrap_or(bytes);
        if bytes.iter().all(|&byte| byte == 0) {
            return None;
        }
        let mut padded = [0; 20];
        padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Some(Self { bytes: padded, len: bytes.len() as u8 })
    }

    /// Parses the hexadecimal form (`readelf -n`, folder names under `.build-id`); `None` for anything else.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if !digits.len().is_multiple_of(2) || digits.len() > 40 {
            return None;
        }
        let mut bytes = [0; 20];
        for (byte, &[high, low]) in bytes.iter_mut().zip(digits.as_chunks().0) {
            let high = char::from(high).to_digit(16)?;
            let low = char::from(low).to_digit(16)?;
            *byte = (high * 16 + low) as u8;
        }
        Self::from_bytes(bytes.get(..digits.len() / 2)?)
    }

    /// The bytes, 1 to 20 of them.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }

    /// Returns true if both name the same object. perf before 5.12 stored no length: a 16-byte id then comes back padded
    /// with zeroes to 20, so trailing zeroes do not count.
    pub fn same_object(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn hex_round_trip_and_padding() {
        let id = BuildId::from_hex("00ff10").unwrap();
        assert_eq!(id.to_string(), "00ff10");
        let mut padded = [0; 20];
        padded[..3].copy_from_slice(&[0, 0xff, 0x10]);
        assert!(id.same_object(&BuildId::from_bytes(&padded).unwrap()));
        assert_eq!(BuildId::from_bytes(&[0; 20]), None);
        assert_eq!(BuildId::from_hex("0g"), None);
        assert_eq!(BuildId::from_hex(""), None);
    }
}
