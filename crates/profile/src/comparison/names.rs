//! Names without the parts that compilers number, so that a function has one name in two builds.

use std::borrow::Cow;
use std::sync::Arc;

use model::Name;

use crate::runtime_names::is_script;
use crate::{FrameKind, Label, ViewFrame};

/// Returns the frame by which a frame is compared: without numbers of compilers, without its line, and the same whether the function
/// was inlined or not.
pub(super) fn compared_frame(frame: &ViewFrame) -> ViewFrame {
    let kind = match frame.kind {
        FrameKind::Inlined => FrameKind::User,
        kind => kind,
    };
    let label = match &frame.label {
        Label::Function(name, module) => compared_function(name, module.as_ref(), kind),
        // The mapping of generated code is named after the process.
        Label::Module(_, at) if kind == FrameKind::Jit => Label::Module(Name::from("generated"), *at),
        other => other.clone(),
    };
    ViewFrame { label, kind, line: None }
}

fn compared_function(name: &Arc<str>, module: Option<&Name>, kind: FrameKind) -> Label {
    // The mapping of generated code is named after the process, a script is not.
    let module = module.filter(|module| kind != FrameKind::Jit || is_script(&module.to_string())).cloned();
    let name = match compared_name(name) {
        Cow::Borrowed(whole) if whole.len() == name.len() => Arc::clone(name),
        changed => Arc::from(&*changed),
    };
    Label::Function(name, module)
}

/// Returns a name without the parts that a compiler numbers or adds to clones: `.llvm.123`, `.cold`, `.part.0`, `.constprop.1`, the
/// hash of a legacy name of Rust, and the numbers of closures.
pub fn compared_name(name: &str) -> Cow<'_, str> {
    let base = without_clone_suffixes(name);
    if !base.contains(['#', '{', '$', '\'']) && !base.contains(".func") && !base.contains("wrap") {
        return Cow::Borrowed(base);
    }
    Cow::Owned(without_closure_numbers(base))
}

/// Suffixes of clones that are followed by a number.
const NUMBERED: [&str; 7] = [".llvm", ".part", ".constprop", ".isra", ".lto_priv", ".cold", ".specialized"];

fn without_clone_suffixes(name: &str) -> &str {
    let mut name = name;
    loop {
        let before = name.len();
        // cpp_demangle and c++filt write `f() [clone .cold]`.
        if let Some((function, clone)) = name.rsplit_once(" [clone ")
            && clone.ends_with(']')
        {
            name = function;
        }
        // The demangler of LLVM writes `f() (.cold)`.
        if let Some((function, clone)) = name.rsplit_once(" (.")
            && clone.ends_with(')')
        {
            name = function;
        }
        name = name.strip_suffix(".cold").unwrap_or(name);
        if let Some((function, number)) = name.rsplit_once('.')
            && is_number(number)
            && let Some(function) = NUMBERED.iter().find_map(|suffix| function.strip_suffix(suffix))
        {
            name = function;
        }
        if let Some((function, hash)) = name.rsplit_once("::h")
            && hash.len() == 16
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            name = function;
        }
        if name.len() == before {
            return name;
        }
    }
}

/// Words of closures that a number follows: of Go (`main.f.func1.2`, `main.f.gowrap1`), of clang (`$_0`, `'lambda0'`).
const BEFORE_NUMBERS: [&str; 5] = [".func", ".gowrap", ".deferwrap", "$_", "'lambda"];

fn without_closure_numbers(name: &str) -> String {
    let name = name.replace("{{closure}}", "{closure}");
    let mut kept = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(character) = rest.chars().next() {
        let is_numbered = |text: &str| text.split_once('}').is_some_and(|(number, _)| is_number(number));
        let word = BEFORE_NUMBERS.iter().find(|word| rest.starts_with(**word));
        let (keep, skip) = if character == '#' && rest.get(1..).is_some_and(is_numbered) {
            // `{closure#3}`, `{impl#0}`, `{lambda(int)#2}`.
            (0, rest.find('}').unwrap_or(1))
        } else if let Some(word) = word {
            let behind = rest.get(word.len()..).unwrap_or_default();
            let is_go = word.starts_with('.');
            let end = behind.trim_start_matches(|next: char| next.is_ascii_digit() || is_go && next == '.');
            // A number must end the word: `.function` is none.
            let ends = end.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_');
            (word.len(), if ends { rest.len() - end.len() } else { word.len() })
        } else {
            (character.len_utf8(), character.len_utf8())
        };
        kept.push_str(rest.get(..keep).unwrap_or_default());
        rest = rest.get(skip..).unwrap_or_default();
    }
    kept
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns what two versions of a module's name have in common: `libpython3.11.so.1.0` is `libpython.so`, `rg-14.1.0` is `rg`.
pub(super) fn module_stem(module: &Name) -> String {
    let text = module.to_string();
    let is_library = text.contains(".so");
    let name = text.split(".so").next().unwrap_or(&text);
    let stem =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || "._-".contains(character));
    let stem = if stem.is_empty() { name } else { stem };
    if is_library { format!("{stem}.so") } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_compilers_are_no_part_of_a_name() {
        for (name, compared) in [
            ("parse.llvm.1234567890123", "parse"),
            ("parse.cold", "parse"),
            ("parse.constprop.0.cold", "parse"),
            ("parse.part.0.isra.12", "parse"),
            ("a::b() [clone .part.0]", "a::b()"),
            ("a::b() (.llvm.77)", "a::b()"),
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("a::b::{closure#12}::{closure#0}", "a::b::{closure}::{closure}"),
            ("a::b::{{closure}}", "a::b::{closure}"),
            ("main::{lambda(int)#2}::operator()(int) const", "main::{lambda(int)}::operator()(int) const"),
            ("main::$_0::operator()() const", "main::$_::operator()() const"),
            ("f()::'lambda1'()", "f()::'lambda'()"),
            ("main.run.func2.1", "main.run.func"),
            ("main.run.gowrap3", "main.run.gowrap"),
            ("main.function", "main.function"),
            ("version.2", "version.2"),
            ("operator#", "operator#"),
            ("é#1}é", "é}é"),
            ("", ""),
        ] {
            assert_eq!(compared_name(name), compared, "{name}");
        }
    }

    #[test]
    fn functions_of_scripts_keep_their_file_and_other_generated_code_has_no_module() {
        let compared = |module: &str| {
            let label = Label::Function("f".into(), Some(Name::from(module)));
            compared_frame(&ViewFrame { label, kind: FrameKind::Jit, line: None }).label
        };
        for script in ["app.js", "python3.12/json/__init__.py", "node:internal/vm"] {
            assert_eq!(compared(script), Label::Function("f".into(), Some(Name::from(script))));
        }
        for mapping in ["anon", "jit-17.dump", "perf-17.map"] {
            assert_eq!(compared(mapping), Label::Function("f".into(), None));
        }
    }

    #[test]
    fn versions_of_a_module_have_one_stem() {
        for (module, stem) in [
            ("libpython3.11.so.1.0", "libpython.so"),
            ("libc-2.31.so", "libc.so"),
            ("rg-14.1.0", "rg"),
            ("7z", "7z"),
            ("123", "123"),
            ("app.js", "app.js"),
        ] {
            assert_eq!(module_stem(&Name::from(module)), stem);
        }
    }
}
