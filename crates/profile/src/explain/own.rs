//! Which functions of a stack are the program's own, as against the kernel, the system's libraries and the library of its language:
//! those that who reads can change, and knows the names of.

use model::Name;

use crate::{FrameId, FrameKind, Label, ViewFrame, runtime_names};

/// The beginnings of names of what languages bring along, by which they are known in a program that is linked with it.
const OF_LANGUAGES: [&str; 58] = [
    // C++
    "std::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "__gthread_",
    "operator new",
    "operator delete",
    // Rust
    "core::",
    "alloc::",
    "hashbrown::",
    "__rustc::",
    "__rust_",
    // Go
    "runtime.",
    "runtime/",
    "internal/",
    "sync.",
    "sync/",
    "sort.",
    "slices.",
    "maps.",
    "strings.",
    "bytes.",
    "strconv.",
    "fmt.",
    "reflect.",
    "syscall.",
    "os.",
    "os/",
    "io.",
    "io/",
    "bufio.",
    "net.",
    "net/",
    "math.",
    "math/",
    "regexp.",
    "regexp/",
    "time.",
    "unicode.",
    "unicode/",
    "encoding/",
    "crypto/",
    "hash/",
    "compress/",
    "container/",
    "context.",
    "errors.",
    "log.",
    "text/",
    "html/",
    "database/sql",
    "vendor/golang.org/",
    // Java
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "Ljava/",
    "Ljdk/",
    "Lsun/",
];

/// The types of Rust whose methods are the language's.
const RUST_PRIMITIVES: [&str; 17] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8", "u16", "u32",
    "u64", "u128", "usize",
];

/// The beginnings of names that runtimes give the code that they generate for themselves.
const OF_RUNTIMES: [&str; 9] = [
    // HotSpot
    "DeoptimizationBlob",
    "I2C/C2I",
    "Interpreter",
    "RuntimeStub",
    "SafepointBlob",
    "StubRoutines",
    "call_stub",
    "itable stub",
    "vtable stub",
];

/// The beginnings of names of libraries that every program of their language has.
const OF_EVERY_PROGRAM: [&str; 17] = [
    "ld-",
    "ld.",
    "ld64.",
    "libc++",
    "libc-",
    "libc.",
    "libgcc_s",
    "libjemalloc",
    "libm-",
    "libm.",
    "libmimalloc",
    "libpthread",
    "libpython3.",
    "libstdc++",
    "libtcmalloc",
    "python3.",
    "vdso",
];

/// How near to its reader code is: the nearest that a stack has is taken for the program's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// The kernel, the C library and the like, and the library of a language.
    System,
    /// Other programs and libraries.
    Other,
    /// The user's own code.
    Own,
}

/// Tells the program's own functions from others.
pub(crate) struct OwnCode(Vec<Option<Nearness>>);

impl OwnCode {
    /// Judges frames by their kinds, names and modules; `is_users` tells whether a module is the user's own code.
    pub(crate) fn new(frames: &[ViewFrame], is_users: &dyn Fn(&str) -> bool) -> Self {
        let nearness = |frame: &ViewFrame| match &frame.label {
            Label::Function(name, module) => Some(of_function(name, module.as_ref(), frame.kind, is_users)),
            Label::Module(module, _) => Some(of_module(Some(module), frame.kind, is_users)),
            Label::Unknown(_) => Some(Nearness::System),
            _ => None,
        };
        Self(frames.iter().map(nearness).collect())
    }

    /// Leaves of a stack, outermost first, its thread, the program's own functions, and what the innermost of them calls: the frame
    /// that is called, and the state of the thread. Calls `push` with each frame, and true for those that are called.
    pub(crate) fn of_stack(&self, stack: &[FrameId], mut push: impl FnMut(FrameId, bool)) {
        let of = |frame: &FrameId| self.0[frame.index()];
        // Without a frame of a thread's own, none is nearer than the others.
        let nearest = stack.iter().filter_map(of).max();
        let last = stack.iter().rposition(|frame| of(frame).is_some() && of(frame) == nearest);
        for (place, frame) in stack.iter().enumerate() {
            let is_function = of(frame).is_some();
            let inside = last.is_some_and(|last| place > last);
            if inside && (!is_function || last == place.checked_sub(1)) {
                push(*frame, true);
            } else if !inside && (!is_function || of(frame) == nearest) {
                push(*frame, false);
            }
        }
    }
}

fn of_function(
    name: &str,
    module: Option<&Name>,
    kind: FrameKind,
    is_users: &dyn Fn(&str) -> bool,
) -> Nearness {
    let is_of_runtime = kind == FrameKind::Jit && OF_RUNTIMES.iter().any(|start| name.starts_with(start));
    match is_of_runtime || is_of_language(name) {
        true => Nearness::System,
        false => of_module(module, kind, is_users),
    }
}

fn of_module(module: Option<&Name>, kind: FrameKind, is_users: &dyn Fn(&str) -> bool) -> Nearness {
    let module = module.map(Name::to_string);
    match module.as_deref() {
        _ if kind == FrameKind::Kernel => Nearness::System,
        // Inlined into the kernel.
        Some("kernel.kallsyms") => Nearness::System,
        Some(module) if OF_EVERY_PROGRAM.iter().any(|start| module.starts_with(start)) => Nearness::System,
        Some(script)
            if (kind == FrameKind::Jit || runtime_names::is_python_script(script))
                && runtime_names::is_of_runtime(script) =>
        {
            Nearness::System
        }
        Some(script) if runtime_names::is_python_script(script) => Nearness::Own,
        Some(module) if kind != FrameKind::Jit && !is_users(module) => Nearness::Other,
        _ => Nearness::Own,
    }
}

/// Returns true for the functions of a language's own library.
fn is_of_language(name: &str) -> bool {
    if name == "_start" {
        return true;
    }
    // `<alloc::vec::Vec<u8> as core::clone::Clone>::clone` is a function of `alloc`, `<u64>::pow` one of the language.
    let path = name.trim_start_matches(['<', '&', '[', '*']);
    let path = ["dyn ", "mut ", "const "].iter().find_map(|word| path.strip_prefix(word)).unwrap_or(path);
    let word = path.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_primitive = name.starts_with('<') && RUST_PRIMITIVES.contains(&word);
    // `void java.util.ArrayList.sort(java.util.Comparator)`
    let signature = name.split_once('(').and_then(|(head, _)| head.rsplit_once(' '));
    let paths = [Some(path), signature.map(|(_, path)| path)];
    let is_of = |path: &str| OF_LANGUAGES.iter().any(|start| path.starts_with(start));
    if is_primitive || paths.into_iter().flatten().any(is_of) {
        return true;
    }
    // In a view with raw names, or of a profile of another tool.
    let script = runtime_names::parse(name, false).and_then(|name| name.script);
    script.is_some_and(runtime_names::is_of_runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_languages_library_are_not_the_programs_own() {
        for name in [
            "std::vector<int, std::allocator<int> >::push_back",
            "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
            "<u64>::wrapping_mul",
            "<[u8]>::to_vec",
            "<*const u8>::copy_to_nonoverlapping",
            "runtime.mallocgc",
            "encoding/json.Marshal",
            "java.util.ArrayList.add",
            "void java.util.ArrayList.sort(java.util.Comparator)",
            "py::loads:/usr/lib/python3.12/json/__init__.py",
            "JS:*compileFunction node:internal/vm:73:1",
        ] {
            assert!(is_of_language(name), "{name}");
        }
        for name in [
            "stdlib::f",
            "u8::decode",
            "<app::Cache as app::Store>::get",
            "main.worker",
            "github.com/me/runtime.Run",
            "com.example.App.handle",
            "int com.example.App.handle(java.util.List)",
            "py::validate:/home/me/app.py",
            "JS:~handle /home/me/app.js:4:16",
        ] {
            assert!(!is_of_language(name), "{name}");
        }
    }

    #[test]
    fn scripts_of_python_are_the_users_but_for_its_library() {
        let nearness = |module: &str| of_module(Some(&Name::from(module)), FrameKind::User, &|_| false);
        assert!(nearness("app.py") == Nearness::Own && nearness("<string>") == Nearness::Own);
        assert!(nearness("python3.11/json/decoder.py") == Nearness::System);
        assert!(nearness("<frozen importlib._bootstrap>") == Nearness::System);
        assert!(
            nearness("python3.11") == Nearness::System
                && nearness("libpython3.11.so.1.0") == Nearness::System
        );
    }
}
