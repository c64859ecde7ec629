//! What was found of one call of `_PyEval_EvalFrameDefault`.

use std::sync::Arc;

use crate::code::PythonFunction;

/// One Python function on a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PythonFrame {
    /// The function that ran.
    pub function: Arc<PythonFunction>,
    /// The line that it executed, or from which it called: one of the function's.
    pub line: u32,
}

/// The Python functions that one call of `_PyEval_EvalFrameDefault` ran.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Run {
    /// The functions, innermost first.
    pub frames: Vec<PythonFrame>,
    /// False if further functions, or all, were not found.
    pub is_complete: bool,
    /// The functions outside of those that were not found: they are functions that the thread ran before the sample and behind it.
    pub lasting: Vec<PythonFrame>,
}

impl Run {
    /// Removes code of the interpreter that is in no program.
    pub(crate) fn remove_interpreters_own(&mut self) {
        for frames in [&mut self.frames, &mut self.lasting] {
            frames.retain(|frame| !frame.function.is_interpreters_own());
        }
    }
}
