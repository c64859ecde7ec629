//! The byte order of a recording.

/// The order of bytes in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endian {
    /// Least significant first (x86, most ARM, RISC-V).
    Little,
    /// Most significant first (s390x, some POWER and MIPS).
    Big,
}

macro_rules! number {
    ($read:ident, $write:ident, $type:ty, $len:literal, $what:literal) => {
        #[doc = concat!($what, " as a number.")]
        #[inline]
        pub fn $read(self, bytes: [u8; $len]) -> $type {
            match self {
                Self::Little => <$type>::from_le_bytes(bytes),
                Self::Big => <$type>::from_be_bytes(bytes),
            }
        }

        #[doc = concat!("A number as ", stringify!($len), " bytes.")]
        #[inline]
        pub fn $write(self, value: $type) -> [u8; $len] {
            match self {
                Self::Little => value.to_le_bytes(),
                Self::Big => value.to_be_bytes(),
            }
        }
    };
}

impl Endian {
    /// The order of the machine that runs this code.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };

    number!(u16, u16_bytes, u16, 2, "Two bytes");
    number!(u32, u32_bytes, u32, 4, "Four bytes");
    number!(u64, u64_bytes, u64, 8, "Eight bytes");

    /// A word of C bit fields, given by their widths in the order of the declaration, with the first field in the
    /// lowest bits whatever the byte order: big-endian compilers allot bit fields from the most significant bit.
    /// Bits behind the last given field are taken as fields of one bit.
    ///
    /// The same function undoes it, since it is its own inverse only for one-bit fields: see [`Self::store_fields`].
    pub fn load_fields(self, word: u64, widths: &[u32]) -> u64 {
        match self {
            Self::Little => word,
            Self::Big => rearrange(
                word,
                widths,
                |word, at, width| (word >> (64 - at - width)) & mask(width),
                |value, at, _| value << at,
            ),
        }
    }

    /// The word as a machine of this byte order holds it: the inverse of [`Self::load_fields`].
    pub fn store_fields(self, word: u64, widths: &[u32]) -> u64 {
        match self {
            Self::Little => word,
            Self::Big => rearrange(
                word,
                widths,
                |word, at, width| (word >> at) & mask(width),
                |value, at, width| value << (64 - at - width),
            ),
        }
    }
}

fn mask(width: u32) -> u64 {
    1_u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1)
}

fn rearrange(
    word: u64,
    widths: &[u32],
    load: impl Fn(u64, u32, u32) -> u64,
    store: impl Fn(u64, u32, u32) -> u64,
) -> u64 {
    let mut at = 0_u32;
    let mut result = 0;
    // Fields of no bits are skipped.
    for width in widths.iter().copied().filter(|&width| width > 0).chain(core::iter::repeat(1)) {
        let Some(end) = at.checked_add(width).filter(|&end| end <= 64) else { break };
        result |= store(load(word, at, width), at, width);
        at = end;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bit_fields_keep_the_order_of_bits_inside_a_field() {
        // struct { disabled:1, two:2, rest } with disabled = 1 and two = 0b10, as s390x stores it.
        let big = (1_u64 << 63) | (0b10 << 61);
        assert_eq!(Endian::Big.load_fields(big, &[1, 2]), 0b101);
        assert_eq!(Endian::Big.store_fields(0b101, &[1, 2]), big);
        assert_eq!(Endian::Little.load_fields(0b101, &[1, 2]), 0b101);
    }

    proptest! {
        #[test]
        fn fields_of_any_widths_come_back(word: u64, widths in proptest::collection::vec(0_u32..70, 0..8)) {
            let mut bits = 0;
            let fitting = widths.iter().take_while(|&&width| { bits += width; bits <= 64 }).count();
            for endian in [Endian::Little, Endian::Big] {
                // Widths that do not fit end the word; they must not end the program.
                let _ = endian.load_fields(endian.store_fields(word, &widths), &[u32::MAX, 0]);
                let widths = &widths[..fitting];
                prop_assert_eq!(endian.load_fields(endian.store_fields(word, widths), widths), word);
            }
        }
    }
}
