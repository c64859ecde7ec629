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
    /// `PyCode_Type`.
    pub(crate) code_type: Svma,
    /// `PyUnicode_Type`.
    pub(crate) text_type: Svma,
    /// `_PyEval_EvalFrameDefault`, the function that runs bytecode, and what the compiler has split off from it.
    pub(crate) eval: Vec<Range<Svma>>,
    /// Functions that only lead from one call of `_PyEval_EvalFrameDefault` to the next, by address.
    pub(crate) glue: Vec<Range<Svma>>,
}

const EVAL: &[u8] = b"_PyEval_EvalFrameDefault";

impl Interpreter {
    /// Reads what an object says; `None` where it has no interpreter, or one of another version. All that have one can be told by the
    /// section `.PyRuntime` (since 3.11), which strip(1) keeps.
    pub fn from_object<D: ReadAt>(object: &Object<D>) -> Option<Self> {
        let runtime = object.section(".PyRuntime").filter(|_| object.is_64())?;
        let runtime = runtime.file_offset.0;
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
        found.eval.sort_unstable_by_key(|range| range.start);
        found.eval.dedup();
        found.glue.sort_unstable_by_key(|range| range.start);
        found.glue.dedup();
        Some(Self {
            layout,
            code_type: found.code_type?,
            text_type: found.text_type?,
            eval: Some(found.eval).filter(|eval| !eval.is_empty())?,
            glue: found.glue,
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
    pub(crate) eval: Vec<Range<Svma>>,
    pub(crate) glue: Vec<Range<Svma>>,
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
                } else if size > 0 && GLUE.contains(&function) {
                    self.glue.push(range());
                }
            }
        }
    }
}
