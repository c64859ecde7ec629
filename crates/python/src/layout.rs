//! Where fields lie in the structures of CPython, by its minor version.
//!
//! 3.11 and 3.12: the headers `Include/cpython/code.h`, `Include/internal/pycore_frame.h`, `Include/cpython/unicodeobject.h`, and
//! `Include/cpython/bytesobject.h` of the release. Since 3.13, `_PyRuntime` begins with a table of them, `_Py_DebugOffsets`
//! (`Include/internal/pycore_runtime.h`; from 3.14 on `pycore_debug_offsets.h`).

/// Offsets of fields in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// `PyObject.ob_type`.
    pub(crate) object_type: u64,
    /// `PyVarObject.ob_size`.
    pub(crate) variable_size: u64,
    /// `PyTypeObject.tp_name`.
    pub(crate) type_name: u64,
    pub(crate) code: CodeLayout,
    pub(crate) frame: FrameLayout,
    pub(crate) text: TextLayout,
    /// `PyBytesObject.ob_sval`.
    pub(crate) bytes_data: u64,
}

/// `PyCodeObject`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeLayout {
    pub(crate) file: u64,
    pub(crate) qualified_name: u64,
    pub(crate) first_line: u64,
    pub(crate) line_table: u64,
    /// The bytecode is the end of the object. `ob_size` counts its units of two bytes.
    pub(crate) bytecode: u64,
}

/// `_PyInterpreterFrame`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FrameLayout {
    pub(crate) code: u64,
    pub(crate) previous: u64,
    /// A pointer to the instruction that the frame executes, or has last executed.
    pub(crate) instruction: u64,
    pub(crate) entry: EntryMark,
}

/// The mark of the outermost frame of those that one call of `_PyEval_EvalFrameDefault` runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryMark {
    /// 3.11: the byte `is_entry` of that frame.
    IsEntry(u64),
    /// Since 3.12: a frame without Python code lies outside of it, on the native stack. Its byte `owner` has at least this value.
    Owner(u64, u8),
}

/// `PyASCIIObject` and `PyCompactUnicodeObject`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextLayout {
    pub(crate) length: u64,
    /// The bit field `state`, a u32.
    pub(crate) state: u64,
    /// The characters of text in ASCII.
    pub(crate) ascii: u64,
    /// The characters of other text.
    pub(crate) compact: u64,
}

/// `FRAME_OWNED_BY_CSTACK` of 3.12 and 3.13, and `FRAME_OWNED_BY_INTERPRETER`, the value below it, of 3.14.
const OWNED_BY_INTERPRETER: u8 = 3;

/// `_Py_DebugOffsets.cookie`.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// The number of bytes of `_Py_DebugOffsets` that are looked at.
pub(crate) const DEBUG_OFFSETS_BYTES: usize = 1024;

/// No field of these structures lies further from their start. A table that says so is wrong.
const MAX_OFFSET: u64 = 1 << 12;

impl Layout {
    /// Returns the layout of a version (`PY_VERSION_HEX`), given the first bytes of `_PyRuntime` in its file. Returns `None` for a
    /// version that is not known.
    pub(crate) fn of_version(version: u32, runtime: &[u8]) -> Option<Self> {
        match version >> 16 {
            0x030b => Some(Self::of_3_11()),
            0x030c => Some(Self::of_3_12()),
            0x030d => DebugOffsets { bytes: runtime, version }.layout(),
            _ => None,
        }
    }

    fn of_3_11() -> Self {
        Self {
            object_type: 8,
            variable_size: 16,
            type_name: 24,
            code: CodeLayout {
                file: 112,
                qualified_name: 128,
                first_line: 72,
                line_table: 136,
                bytecode: 184,
            },
            frame: FrameLayout { code: 32, previous: 48, instruction: 56, entry: EntryMark::IsEntry(68) },
            text: TextLayout { length: 16, state: 32, ascii: 48, compact: 72 },
            bytes_data: 32,
        }
    }

    fn of_3_12() -> Self {
        Self {
            code: CodeLayout { bytecode: 192, ..Self::of_3_11().code },
            frame: FrameLayout {
                code: 0,
                previous: 8,
                instruction: 56,
                entry: EntryMark::Owner(70, OWNED_BY_INTERPRETER),
            },
            text: TextLayout { ascii: 40, compact: 56, ..Self::of_3_11().text },
            ..Self::of_3_11()
        }
    }
}

/// `_Py_DebugOffsets` of 3.13: a cookie and numbers of 8 bytes, which are numbered here from the start of the structure.
struct DebugOffsets<'a> {
    bytes: &'a [u8],
    version: u32,
}

impl DebugOffsets<'_> {
    fn word(&self, number: usize) -> Option<u64> {
        self.bytes.as_chunks().0.get(number).copied().map(u64::from_le_bytes)
    }

    /// Returns an offset that is possible.
    fn offset(&self, number: usize) -> Option<u64> {
        self.word(number).filter(|&offset| offset <= MAX_OFFSET)
    }

    fn layout(&self) -> Option<Layout> {
        let is_of_version = self.word(1)? == u64::from(self.version);
        if !self.bytes.starts_with(COOKIE) || !is_of_version {
            return None;
        }
        let ascii = self.offset(70)?;
        Some(Layout {
            object_type: self.offset(45)?,
            variable_size: self.offset(65)?,
            type_name: self.offset(47)?,
            code: CodeLayout {
                file: self.offset(35)?,
                qualified_name: self.offset(37)?,
                first_line: self.offset(39)?,
                line_table: self.offset(38)?,
                bytecode: self.offset(43)?,
            },
            frame: FrameLayout {
                code: self.offset(30)?,
                previous: self.offset(29)?,
                instruction: self.offset(31)?,
                entry: EntryMark::Owner(self.offset(33)?, OWNED_BY_INTERPRETER),
            },
            text: TextLayout {
                length: self.offset(69)?,
                state: self.offset(68)?,
                ascii,
                // `utf8_length` and `utf8` follow.
                compact: ascii + 16,
            },
            bytes_data: self.offset(66)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_3_13_come_from_its_table() {
        const VERSION: u32 = 0x030d_00f0;
        let mut table = COOKIE.to_vec();
        table.extend(u64::from(VERSION).to_le_bytes());
        table.extend((2_u64..80).flat_map(u64::to_le_bytes));
        let layout = Layout::of_version(VERSION, &table).unwrap();
        assert_eq!((layout.code.file, layout.frame.previous, layout.text.compact), (35, 29, 86));
        assert_eq!(Layout::of_version(VERSION + 1, &table), None, "the table is of another version");
        assert_eq!(Layout::of_version(VERSION, &table[1..]), None);
        assert_eq!(Layout::of_version(VERSION, &table[..500]), None);
        table[43 * 8..44 * 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Layout::of_version(VERSION, &table), None, "no offset is so large");
        assert_eq!(Layout::of_version(0x030a_0df0, &table), None);
    }
}
