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
    /// `None` where it is not known.
    pub(crate) thread: Option<ThreadLayout>,
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
    /// `co_tlbc` of builds without a global lock, since 3.14: a pointer to an array of pointers to copies of the bytecode, each of which
    /// one thread runs. `None` where all threads run the bytecode in the object.
    pub(crate) thread_bytecode: Option<u64>,
    pub(crate) frame_size: FrameSize,
}

/// Where a code object says how large a frame of it is: i32 numbers of words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameSize {
    /// 3.11: `co_nlocalsplus`, `co_stacksize`, and the words in front of them (`FRAME_SPECIALS_SIZE`).
    Sum { locals: u64, stack: u64, words: u64 },
    /// Since 3.12: `co_framesize`.
    Words(u64),
}

/// `_PyInterpreterFrame`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FrameLayout {
    /// A pointer to the code object. Its lowest bits are tags since 3.14 (`_PyStackRef`).
    pub(crate) code: u64,
    pub(crate) previous: u64,
    /// A pointer to the instruction that the frame executes, or has last executed.
    pub(crate) instruction: u64,
    /// A byte: 0 for a frame on the stack of its thread's frames (`FRAME_OWNED_BY_THREAD`).
    pub(crate) owner: u64,
    pub(crate) entry: EntryMark,
}

impl FrameLayout {
    /// Returns true if the chain of frames has one without Python code for each call of `_PyEval_EvalFrameDefault`.
    pub(crate) fn has_native_entries(&self) -> bool {
        matches!(self.entry, EntryMark::Owner(_))
    }
}

/// The mark of the outermost frame of those that one call of `_PyEval_EvalFrameDefault` runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryMark {
    /// 3.11: the byte `is_entry` of that frame.
    IsEntry(u64),
    /// Since 3.12: a frame without Python code lies outside of it, on the native stack. Its `owner` has at least this value.
    Owner(u8),
}

/// The fields by which one gets from `_PyRuntime` to the innermost frame of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadLayout {
    /// `_PyRuntimeState.interpreters.head`: the first `PyInterpreterState`.
    pub(crate) interpreters: u64,
    /// `PyInterpreterState.next`: the next interpreter of the process.
    pub(crate) next_interpreter: u64,
    /// `PyInterpreterState.threads.head`: the first `PyThreadState`.
    pub(crate) threads: u64,
    /// `PyThreadState.next`: the next thread of the interpreter.
    pub(crate) next: u64,
    /// `PyThreadState.native_thread_id`, a word.
    pub(crate) tid: u64,
    pub(crate) frame: CurrentFrame,
}

/// Where `PyThreadState` has the innermost frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CurrentFrame {
    /// 3.11 and 3.12: `cframe` points to a `_PyCFrame` on the native stack, in the frame of `_PyEval_EvalFrameDefault` itself. That has
    /// `current_frame` and behind it `previous`, the one of the call outside of it.
    OfNative { cframe: u64, current_frame: u64 },
    /// Since 3.13: `current_frame`.
    OfThread(u64),
}

/// `PyASCIIObject` and `PyCompactUnicodeObject`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TextLayout {
    pub(crate) length: u64,
    /// The bit field `state`, a u32.
    pub(crate) state: u64,
    /// The bit of it at which `kind` begins.
    pub(crate) kind_shift: u32,
    /// The characters of text in ASCII.
    pub(crate) ascii: u64,
    /// The characters of other text.
    pub(crate) compact: u64,
}

/// `FRAME_OWNED_BY_CSTACK` of 3.12 and 3.13, `FRAME_OWNED_BY_INTERPRETER` of 3.14 and 3.15.
const OWNED_BY_INTERPRETER: u8 = 3;

/// `_Py_DebugOffsets.cookie`.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// The number of bytes of `_Py_DebugOffsets` that are looked at.
pub(crate) const DEBUG_OFFSETS_BYTES: usize = 1024;

/// No field that is used lies further from the start of its structure. A table that says so is wrong.
const MAX_OFFSET: u64 = 1 << 12;
/// No field of `_PyRuntimeState` and `PyInterpreterState` that is used lies further from their starts, which have whole arrays.
const MAX_RUNTIME_OFFSET: u64 = 1 << 20;

/// The numbers at which the first parts of `_Py_DebugOffsets` begin, in words of 8 bytes, in all versions.
const RUNTIME_STATE: usize = 3;
const INTERPRETER_STATE: usize = 6;

impl Layout {
    /// Returns the layout of a version (`PY_VERSION_HEX`), given the first bytes of `_PyRuntime` in its file. Returns `None` for a
    /// version that is not known.
    pub(crate) fn of_version(version: u32, runtime: &[u8]) -> Option<Self> {
        match version >> 16 {
            0x030b => Some(Self::of_3_11()),
            0x030c => Some(Self::of_3_12()),
            0x030d => DebugOffsets { bytes: runtime, version, starts: &OF_3_13 }.layout(),
            0x030e => DebugOffsets { bytes: runtime, version, starts: &OF_3_14 }.layout(),
            0x030f => DebugOffsets { bytes: runtime, version, starts: &OF_3_15 }.layout(),
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
                thread_bytecode: None,
                frame_size: FrameSize::Sum { locals: 76, stack: 68, words: 9 },
            },
            frame: FrameLayout {
                code: 32,
                previous: 48,
                instruction: 56,
                owner: 69,
                entry: EntryMark::IsEntry(68),
            },
            thread: Some(ThreadLayout {
                interpreters: 40,
                next_interpreter: 0,
                threads: 16,
                next: 8,
                tid: 160,
                frame: CurrentFrame::OfNative { cframe: 56, current_frame: 8 },
            }),
            text: TextLayout { length: 16, state: 32, kind_shift: 2, ascii: 48, compact: 72 },
            bytes_data: 32,
        }
    }

    fn of_3_12() -> Self {
        Self {
            code: CodeLayout {
                first_line: 68,
                bytecode: 192,
                frame_size: FrameSize::Words(76),
                ..Self::of_3_11().code
            },
            frame: FrameLayout {
                code: 0,
                previous: 8,
                instruction: 56,
                owner: 70,
                entry: EntryMark::Owner(OWNED_BY_INTERPRETER),
            },
            thread: Some(ThreadLayout {
                interpreters: 40,
                next_interpreter: 0,
                threads: 72,
                next: 8,
                tid: 144,
                frame: CurrentFrame::OfNative { cframe: 56, current_frame: 0 },
            }),
            text: TextLayout { ascii: 40, compact: 56, ..Self::of_3_11().text },
            ..Self::of_3_11()
        }
    }
}

/// The numbers at which the parts of `_Py_DebugOffsets` begin, in words of 8 bytes. Minor versions add parts, and members at the ends of
/// parts; those that are used here have kept their order.
struct Starts {
    /// `None` where it is not known.
    thread_state: Option<usize>,
    interpreter_frame: usize,
    code_object: usize,
    object: usize,
    type_object: usize,
    bytes_object: usize,
    unicode_object: usize,
}

const OF_3_13: Starts = Starts {
    thread_state: Some(19),
    interpreter_frame: 28,
    code_object: 34,
    object: 44,
    type_object: 46,
    bytes_object: 64,
    unicode_object: 67,
};
const OF_3_14: Starts = Starts {
    thread_state: Some(22),
    interpreter_frame: 31,
    code_object: 39,
    object: 50,
    type_object: 52,
    bytes_object: 74,
    unicode_object: 77,
};
const OF_3_15: Starts = Starts {
    thread_state: None,
    interpreter_frame: 39,
    code_object: 47,
    object: 58,
    type_object: 60,
    bytes_object: 86,
    unicode_object: 89,
};

/// `_Py_DebugOffsets`: a cookie, the version, whether the build has no global lock, and parts of numbers of 8 bytes, each of which begins
/// with the size of a structure.
struct DebugOffsets<'a> {
    bytes: &'a [u8],
    version: u32,
    starts: &'a Starts,
}

impl DebugOffsets<'_> {
    fn word(&self, number: usize) -> Option<u64> {
        self.bytes.as_chunks().0.get(number).copied().map(u64::from_le_bytes)
    }

    /// Returns the offset that is member `member` of the part that begins at `start`: one within the structure.
    fn offset(&self, start: usize, member: usize) -> Option<u64> {
        self.within(start, member, MAX_OFFSET)
    }

    fn within(&self, start: usize, member: usize, most: u64) -> Option<u64> {
        let size = self.word(start)?.min(most);
        self.word(start + member).filter(|&offset| offset < size)
    }

    fn thread(&self, start: usize) -> Option<ThreadLayout> {
        let runtime = |member| self.within(RUNTIME_STATE, member, MAX_RUNTIME_OFFSET);
        let interpreter = |member| self.within(INTERPRETER_STATE, member, MAX_RUNTIME_OFFSET);
        Some(ThreadLayout {
            interpreters: runtime(2)?,
            next_interpreter: interpreter(2)?,
            threads: interpreter(3)?,
            next: self.offset(start, 2)?,
            tid: self.offset(start, 6)?,
            frame: CurrentFrame::OfThread(self.offset(start, 4)?),
        })
    }

    fn layout(&self) -> Option<Layout> {
        let is_of_version = self.word(1)? == u64::from(self.version);
        if !self.bytes.starts_with(COOKIE) || !is_of_version {
            return None;
        }
        let has_no_lock = match self.word(2)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let is_3_14 = self.version >> 16 >= 0x030e;
        let frame = |member| self.offset(self.starts.interpreter_frame, member);
        let code = |member| self.offset(self.starts.code_object, member);
        let bytes = |member| self.offset(self.starts.bytes_object, member);
        let text = |member| self.offset(self.starts.unicode_object, member);
        // `sizeof(PyASCIIObject)`. `utf8_length` and `utf8` follow.
        let ascii = text(3)?;
        Some(Layout {
            object_type: self.offset(self.starts.object, 1)?,
            variable_size: bytes(1)?,
            type_name: self.offset(self.starts.type_object, 1)?,
            code: CodeLayout {
                file: code(1)?,
                qualified_name: code(3)?,
                first_line: code(5)?,
                line_table: code(4)?,
                bytecode: code(9)?,
                thread_bytecode: if has_no_lock && is_3_14 { Some(code(10)?) } else { None },
                // `co_nlocalsplus` lies between them.
                frame_size: FrameSize::Words(code(5)? + 8),
            },
            frame: FrameLayout {
                code: frame(2)?,
                previous: frame(1)?,
                instruction: frame(3)?,
                owner: frame(5)?,
                entry: EntryMark::Owner(OWNED_BY_INTERPRETER),
            },
            thread: self.starts.thread_state.and_then(|start| self.thread(start)),
            text: TextLayout {
                length: text(2)?,
                state: text(1)?,
                // `interned` is a byte there, as it is read and written atomically.
                kind_shift: if has_no_lock && is_3_14 { 8 } else { 2 },
                ascii,
                compact: ascii + 16,
            },
            bytes_data: bytes(2)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table of 3.13 or later whose parts begin at `starts`, with the offsets that its structures have.
    fn table(version: u32, starts: &Starts, has_no_lock: bool) -> Vec<u8> {
        let mut words = [u64::MAX; 128];
        words[0] = u64::from_le_bytes(*COOKIE);
        words[1] = u64::from(version);
        words[2] = has_no_lock.into();
        let parts: [(usize, &[u64]); 9] = [
            (RUNTIME_STATE, &[400_000, 0, 664]),
            (INTERPRETER_STATE, &[300_000, 7_264, 7_256, 7_272]),
            (starts.thread_state.unwrap_or(100), &[616, 0, 8, 16, 72, 152, 160]),
            (starts.interpreter_frame, &[88, 8, 0, 56, 80, 74, 64, 72]),
            (starts.code_object, &[224, 112, 120, 128, 136, 68, 52, 96, 104, 216, 208]),
            (starts.object, &[16, 8]),
            (starts.type_object, &[416, 24]),
            (starts.bytes_object, &[40, 16, 32]),
            (starts.unicode_object, &[64, 32, 16, 40]),
        ];
        for (start, part) in parts {
            words[start..start + part.len()].copy_from_slice(part);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn offsets_come_from_the_interpreters_own_table_since_3_13() {
        for (version, starts, other) in [
            (0x030d_00f0, &OF_3_13, &OF_3_14),
            (0x030e_0af0, &OF_3_14, &OF_3_15),
            (0x030f_02f0, &OF_3_15, &OF_3_14),
        ] {
            let mut bytes = table(version, starts, false);
            let layout = Layout::of_version(version, &bytes).unwrap();
            let CodeLayout { file, bytecode, thread_bytecode, .. } = layout.code;
            assert_eq!((file, bytecode, thread_bytecode), (112, 216, None));
            assert_eq!((layout.frame.previous, layout.frame.owner), (8, 74));
            assert_eq!((layout.text.kind_shift, layout.text.compact, layout.bytes_data), (2, 56, 32));
            let thread = layout.thread.map(|thread| (thread.threads, thread.tid, thread.frame));
            let known = starts.thread_state.map(|_| (7_272, 160, CurrentFrame::OfThread(72)));
            assert_eq!(thread, known);
            assert_eq!(Layout::of_version(version + 1, &bytes), None, "the table is of another version");
            assert_eq!(Layout::of_version(version, &bytes[1..]), None);
            assert_eq!(Layout::of_version(version, &bytes[..500]), None);
            let moved = table(version, other, false);
            assert_eq!(Layout::of_version(version, &moved), None, "the parts lie elsewhere");
            let at = 8 * (starts.code_object + 9);
            bytes[at..at + 8].copy_from_slice(&225_u64.to_le_bytes());
            assert_eq!(Layout::of_version(version, &bytes), None, "bytecode lies behind the structure");
        }
        for unknown in [0x030a_0df0, 0x0310_00a1] {
            assert_eq!(Layout::of_version(unknown, &table(unknown, &OF_3_15, false)), None);
        }
    }

    #[test]
    fn builds_without_a_global_lock_have_bytecode_of_threads_since_3_14() {
        for (version, starts, thread_bytecode, kind_shift) in
            [(0x030d_00f0, &OF_3_13, None, 2), (0x030e_0af0, &OF_3_14, Some(208), 8)]
        {
            let layout = Layout::of_version(version, &table(version, starts, true)).unwrap();
            assert_eq!((layout.code.thread_bytecode, layout.text.kind_shift), (thread_bytecode, kind_shift));
        }
    }
}
