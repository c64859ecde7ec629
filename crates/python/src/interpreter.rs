//! What the file of an interpreter says about it.

use std::ops::Range;

use elf::{Object, ReadAt, SymbolSource, SymbolTable};
use model::Svma;

use crate::layout::{DEBUG_OFFSETS_BYTES, Layout};
use crate::split::split_part;

/// An object file with the interpreter of CPython 3.11 to 3.15: `libpython3.x.so`, or a program that it is linked into.
#[derive(Debug)]
pub struct Interpreter {
    pub(crate) layout: Layout,
    /// `_PyRuntime`, which is all of its section.
    pub(crate) runtime: Svma,
    /// `PyCode_Type`.
    pub(crate) code_type: Svma,
    /// `PyUnicode_Type`.
    pub(crate) text_type: Svma,
    /// `_PyEval_EvalFrameDefault`, the function that runs bytecode, and what the compiler has split off from it.
    pub(crate) eval: Vec<Range<Svma>>,
    /// True if it is built of tail calls: `_PyEval_EvalFrameDefault`, in whose native frame entries lie, runs no bytecode itself.
    pub(crate) has_tail_calls: bool,
    /// Functions that only lead from one call of `_PyEval_EvalFrameDefault` to the next, by address.
    pub(crate) glue: Vec<Range<Svma>>,
}

const EVAL: &[u8] = b"_PyEval_EvalFrameDefault";
/// What the names of the functions begin with that run one kind of instruction each, and jump to the next one. In interpreters that are
/// built so (`--with-tail-call-interp`, since 3.14), `_PyEval_EvalFrameDefault` only calls the first of them.
const TAIL_CALL: &[u8] = b"_TAIL_CALL_";

impl Interpreter {
    /// Reads what an object says; `None` where it has no interpreter, or one of another version. All that have one can be told by the
    /// section `.PyRuntime` (since 3.11), which strip(1) keeps.
    pub fn from_object<D: ReadAt>(object: &Object<D>) -> Option<Self> {
        let section = object.section(".PyRuntime").filter(|_| object.is_64())?;
        let runtime = section.file_offset.0;
        let runtime = object.source().copy(runtime..runtime.saturating_add(DEBUG_OFFSETS_BYTES as u64));
        let mut found = Found::default();
        for source in [SymbolSource::Dynamic, SymbolSource::Full] {
            if let Some(table) = SymbolTable::read(object, source) {
                table.iter().for_each(|symbol| found.add(symbol.name(), symbol.address, symbol.size));
            }
        }
        let version = object.file_offset_of(found.version?)?;
        let version = u32::from_le_bytes(object.source().array(version.0)?);
        let layout = Layout::of_version(version, &runtime)?;
        let split = found.eval.iter().filter_map(|range| split_part(object, range.start));
        found.eval.extend(split.collect::<Vec<_>>());
        let has_tail_calls = !found.tail_calls.is_empty();
        if has_tail_calls {
            found.glue.append(&mut found.eval);
            found.eval = found.tail_calls;
        }
        Some(Self {
            layout,
            runtime: section.address,
            code_type: found.code_type?,
            text_type: found.text_type?,
            has_tail_calls,
            eval: Some(joined(found.eval)).filter(|eval| !eval.is_empty())?,
            glue: joined(found.glue),
        })
    }

    /// Returns the ranges of code that run bytecode.
    pub fn eval(&self) -> &[Range<Svma>] {
        &self.eval
    }

    /// Returns true for code that only leads from one Python function to the next: the names are in `GLUE`.
    pub fn is_glue(&self, address: Svma) -> bool {
        let index = self.glue.partition_point(|range| range.end <= address);
        self.glue.get(index).is_some_and(|range| range.contains(&address))
    }
}

/// Compilers begin functions at multiples of this number of bytes.
const ALIGNMENT_BYTES: u64 = 16;

/// Sorts ranges, and joins those with nothing but filling between them.
fn joined(mut ranges: Vec<Range<Svma>>) -> Vec<Range<Svma>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let is_next = next.start.0 < before.end.0.saturating_add(ALIGNMENT_BYTES);
        if is_next {
            before.end = before.end.max(next.end);
        }
        is_next
    });
    ranges
}

/// Functions through which the interpreter calls itself. What a program asks of the interpreter, such as `builtin_sorted`, is not among
/// them.
const GLUE: &[&[u8]] = &[
    b"PyEval_EvalCode",
    b"PyEval_EvalFrame",
    b"PyEval_EvalFrameEx",
    b"_PyEval_EvalFrame",
    b"_PyEval_Vector",
    b"_PyFunction_Vectorcall",
    b"_PyObject_Call",
    b"_PyObject_Call_Prepend",
    b"_PyObject_FastCallDictTstate",
    b"_PyObject_MakeTpCall",
    b"_PyObject_VectorcallTstate",
    b"_PyVectorcall_Call",
    b"PyObject_Call",
    b"PyObject_CallFunctionObjArgs",
    b"PyObject_CallMethodObjArgs",
    b"PyObject_CallNoArgs",
    b"PyObject_CallObject",
    b"PyObject_CallOneArg",
    b"PyObject_Vectorcall",
    b"PyObject_VectorcallDict",
    b"PyObject_VectorcallMethod",
    b"PyVectorcall_Call",
    b"cfunction_call",
    b"cfunction_vectorcall_FASTCALL",
    b"cfunction_vectorcall_FASTCALL_KEYWORDS",
    b"cfunction_vectorcall_NOARGS",
    b"cfunction_vectorcall_O",
    b"do_call_core",
    b"method_vectorcall",
    b"method_vectorcall_FASTCALL",
    b"method_vectorcall_FASTCALL_KEYWORDS",
    b"method_vectorcall_NOARGS",
    b"method_vectorcall_O",
    b"method_vectorcall_VARARGS",
    b"method_vectorcall_VARARGS_KEYWORDS",
    b"object_vacall",
    b"run_eval_code_obj",
    b"run_mod",
];

/// The symbols that were found so far.
#[derive(Default)]
struct Found {
    version: Option<Svma>,
    code_type: Option<Svma>,
    text_type: Option<Svma>,
    eval: Vec<Range<Svma>>,
    tail_calls: Vec<Range<Svma>>,
    glue: Vec<Range<Svma>>,
}

impl Found {
    fn add(&mut self, name: &[u8], address: Svma, size: u64) {
        let range = || address..Svma(address.0.saturating_add(size));
        match name {
            b"Py_Version" => self.version = Some(address),
            b"PyCode_Type" => self.code_type = Some(address),
            b"PyUnicode_Type" => self.text_type = Some(address),
            // Compilers append `.cold`, `.part.0`, `.constprop.0`.
            _ => {
                let function = name.split(|byte| *byte == b'.').next().unwrap_or_default();
                if size > 0 && function == EVAL {
                    self.eval.push(range());
                } else if size > 0 && function.starts_with(TAIL_CALL) {
                    self.tail_calls.push(range());
                } else if size > 0 && GLUE.contains(&function) {
                    self.glue.push(range());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(ranges: &[(u64, u64)]) -> Vec<Range<Svma>> {
        ranges.iter().map(|(start, end)| Svma(*start)..Svma(*end)).collect()
    }

    #[test]
    fn functions_that_follow_each_other_are_one_range() {
        let found = joined(ranges(&[(0x200, 0x230), (0x100, 0x1fb), (0x100, 0x1fb), (0x240, 0x260)]));
        assert_eq!(found, ranges(&[(0x100, 0x230), (0x240, 0x260)]));
    }

    #[test]
    fn instructions_in_functions_of_their_own_are_told_from_the_call_of_the_first() {
        let mut found = Found::default();
        for (name, address) in [("_PyEval_EvalFrameDefault", 0x500), ("_TAIL_CALL_CALL.cold", 0x100)] {
            found.add(name.as_bytes(), Svma(address), 16);
        }
        assert_eq!(found.tail_calls, ranges(&[(0x100, 0x110)]));
        assert_eq!(found.eval, ranges(&[(0x500, 0x510)]));
    }
}
