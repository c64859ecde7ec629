//! The fields of a tracepoint's raw data.

/// A field of a tracepoint's raw data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// Its offset from the start of the raw data, in bytes.
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) signed: bool,
    /// The size of an element of a fixed or dynamic array; `None` for other fields.
    pub(super) element: Option<usize>,
    pub(super) location: FieldLocation,
    /// True for an array of `char`.
    pub(super) text: bool,
    pub(super) pointer: bool,
    /// True if the C type contains the word `long`: without a `print fmt` perf prints such a field in hexadecimal.
    pub(super) long: bool,
}

/// The location of a field's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FieldLocation {
    /// In the field itself.
    Inline,
    /// `__data_loc`: the low half of the field is the offset in the raw data, the high half the length.
    DataLoc,
    /// `__rel_loc`: as `__data_loc`, with an offset relative to the end of the field.
    RelLoc,
}

/// Returns the size of a C type, for elements of dynamic arrays.
pub(super) fn size_of_type(kind: &str, long_size: usize) -> usize {
    let mut longs = 0;
    for word in kind.split_whitespace() {
        match word.trim_start_matches('_') {
            "char" | "u8" | "s8" | "bool" | "uint8_t" | "int8_t" => return 1,
            "short" | "u16" | "s16" | "le16" | "be16" | "uint16_t" | "int16_t" => return 2,
            "u32" | "s32" | "le32" | "be32" | "uint32_t" | "int32_t" | "gfp_t" | "pid_t" => return 4,
            "u64" | "s64" | "le64" | "be64" | "uint64_t" | "int64_t" | "sector_t" => return 8,
            "size_t" | "ssize_t" | "uintptr_t" => return long_size,
            "long" => longs += 1,
            _ => {}
        }
    }
    match longs {
        0 => 4,
        1 => long_size,
        _ => 8,
    }
}
