//! Functions that start a program or a thread: what stands below the code that somebody wrote.

use crate::async_rust;

/// The part that a frame has in the start of a program or thread, if all frames outside of it have one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum StartPart {
    /// None.
    #[default]
    None,
    /// It is a part of it.
    Part,
    /// As [`Self::Part`]; a `main` that calls it is one, too.
    Runtime,
    /// The `main` of C, which is a part where a runtime gave it, not the program.
    Main,
}

/// Beginnings of names of what the `main` of a runtime calls.
const RUNTIMES: [&str; 4] = ["std::rt::lang_start", "Py_BytesMain", "pymain_", "node::Start"];

/// Beginnings of names that mean a start wherever they are: C reserves them for itself, or the path is that of a library or runtime. Of C++'s
/// library, whose packages have no symbols, it is the only function without a name that starts anything.
const ANYWHERE: [&str; 25] = [
    "_start",
    "__libc_start_",
    "__clone",
    "execute_native_thread_routine",
    "[libstdc++.so",
    "std::thread::_",
    "std::__invoke",
    "std::rt::",
    "std::panicking::",
    "std::panic::",
    "runtime.goexit",
    "runtime.main",
    "java.lang.Thread.run",
    "Py_RunMain",
    "node::StartExecution",
    "node::NodeMainInstance::",
    "node::SpinEventLoop",
    "node::LoadEnvironment",
    "node::Realm::ExecuteBootstrapper",
    "node::builtins::BuiltinLoader::CompileAndCall",
    "v8::Function::Call",
    "v8::internal::Execution::Call",
    "v8::internal::(anonymous namespace)::Invoke",
    "Builtins_JSEntry",
    "Builtins_JSRunMicrotasksEntry",
];

/// Beginnings of modules or scripts, each with beginnings of the names that mean a start there.
const IN_MODULES: [(&str, &[&str]); 9] = [
    ("libc", &["clone", "start_thread", "thread_start"]),
    ("libpthread", &["start_thread"]),
    ("ld-musl", &["start", "libc_start_main"]),
    ("libjli", &["JavaMain", "ThreadJavaMain"]),
    (
        "libjvm",
        &["thread_native_entry", "Thread::call_run", "JavaThread::", "thread_entry", "JavaCalls::", "jni_"],
    ),
    ("libpython", &["builtin_exec"]),
    ("<frozen ", &[""]),
    ("node:internal/main/", &[""]),
    ("node:internal/modules/", &[""]),
];

/// Python's own module of threads, by the end of its path.
const THREADING: &str = "/threading.py";

impl StartPart {
    /// Returns the part that a function has, by its name, and the module or the script that it is of.
    pub fn of(function: &str, place: Option<&str>) -> Self {
        let place = place.unwrap_or_default();
        let begins = |beginnings: &[&str]| beginnings.iter().any(|begin| function.starts_with(begin));
        let is_in_module = |&(module, names): &(&str, &[&str])| place.starts_with(module) && begins(names);
        if function == "main" {
            StartPart::Main
        } else if begins(&RUNTIMES) {
            StartPart::Runtime
        } else if begins(&ANYWHERE)
            || IN_MODULES.iter().any(is_in_module)
            || (place.ends_with(THREADING) && function.starts_with("Thread."))
            || async_rust::leads_on(function)
        {
            StartPart::Part
        } else {
            StartPart::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_known_by_name_and_module() {
        use StartPart::{Main, None, Part, Runtime};
        for (function, place, part) in [
            ("_start", Some("prog"), Part),
            ("__libc_start_main@@GLIBC_2.34", Some("libc.so.6"), Part),
            ("start_thread", Some("libc.so.6"), Part),
            ("start_thread", Some("prog"), None),
            ("main", Some("prog"), Main),
            ("std::rt::lang_start_internal", Some("prog"), Runtime),
            ("std::thread::lifecycle::spawn_unchecked::{{closure}}", Some("prog"), Part),
            ("<std::sys::thread::unix::Thread>::new::thread_start", Some("prog"), Part),
            ("std::thread::sleep", Some("prog"), None),
            ("tokio::runtime::scheduler::multi_thread::worker::run", Some("prog"), Part),
            ("<server::Connection as core::future::future::Future>::poll", Some("prog"), None),
            ("java.lang.Thread.run", Option::None, Part),
            ("demo.Thread.run", Option::None, None),
            ("Thread.run", Some("python3.11/threading.py"), Part),
            ("Thread.run", Some("app/worker.py"), None),
            ("_run_code", Some("<frozen runpy>"), Part),
            ("Module._load", Some("node:internal/modules/cjs/loader"), Part),
            ("handle", Some("/srv/app.js"), None),
        ] {
            assert_eq!(StartPart::of(function, place), part, "{function} {place:?}");
        }
    }
}
