//! Language runtimes: how to recognize one by its files, and which of its options make it write a perf map or keep frame pointers.

use std::collections::HashMap;

use model::{Pid, Space, SpaceTable, UNKNOWN_JAVASCRIPT};

use crate::aggregate::SeenIn;

/// A runtime that generates code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Runtime {
    /// HotSpot.
    Java,
    /// V8 in Node.js.
    Node,
    /// V8 in Chromium and what is built on it.
    Chromium,
    /// CPython.
    Python,
    /// CoreCLR.
    DotNet,
    /// Mono.
    Mono,
    /// CRuby.
    Ruby,
    /// PHP.
    Php,
    /// LuaJIT.
    LuaJit,
    /// BEAM, the virtual machine of Erlang and Elixir.
    Erlang,
    /// QEMU, which translates the code of another processor.
    Qemu,
}

/// The runtimes by the objects that they are made of: the start of a file's name, which a version may follow.
const OBJECT_NAME_PREFIXES: [(&str, Runtime); 27] = [
    ("libjvm.so", Runtime::Java),
    ("node", Runtime::Node),
    ("nodejs", Runtime::Node),
    ("libnode.so", Runtime::Node),
    ("chrome", Runtime::Chromium),
    ("chromium", Runtime::Chromium),
    ("electron", Runtime::Chromium),
    ("python3", Runtime::Python),
    ("libpython3", Runtime::Python),
    ("libcoreclr.so", Runtime::DotNet),
    ("libclrjit.so", Runtime::DotNet),
    ("mono-sgen", Runtime::Mono),
    ("libmonosgen-", Runtime::Mono),
    ("ruby", Runtime::Ruby),
    ("libruby", Runtime::Ruby),
    ("libruby-", Runtime::Ruby),
    ("libv8.so", Runtime::Node),
    ("php", Runtime::Php),
    ("php-cgi", Runtime::Php),
    ("php-fpm", Runtime::Php),
    ("libphp", Runtime::Php),
    ("luajit", Runtime::LuaJit),
    ("luajit-", Runtime::LuaJit),
    ("libluajit-", Runtime::LuaJit),
    ("beam.", Runtime::Erlang),
    ("qemu-", Runtime::Qemu),
    ("libqemu-", Runtime::Qemu),
];

/// The first version of Python that tells `perf` the names of its functions: 3.12.
const FIRST_PYTHON_WITH_NAMES: u32 = 12;
/// The first version of Python whose functions the recorder finds without its help: 3.11.
const FIRST_PYTHON_READ: u32 = 11;

impl Runtime {
    /// Returns the runtime that an object of this name, without its folder, is a part of.
    pub fn of_object(name: &[u8]) -> Option<Self> {
        let is_of = |start: &str| {
            let version = name.strip_prefix(start.as_bytes())?;
            let is_open = start.ends_with(['-', '.']);
            // `node20` and `libnode.so.108`, but not `node_exporter`.
            (is_open || version.first().is_none_or(|byte| byte.is_ascii_digit() || *byte == b'.'))
                .then_some(())
        };
        OBJECT_NAME_PREFIXES.iter().find(|(start, _)| is_of(start).is_some()).map(|&(_, runtime)| runtime)
    }

    /// Returns false if an object of this name is of a version that tells nobody the names of its functions.
    pub fn can_tell_names(self, object: &str) -> bool {
        self.python_minor(object).is_none_or(|minor| minor >= FIRST_PYTHON_WITH_NAMES)
    }

    /// Returns false if an object of this name is of a version whose functions the recorder does not find in memory.
    pub fn is_read_as_it_runs(self, object: &str) -> bool {
        self.python_minor(object).is_some_and(|minor| minor >= FIRST_PYTHON_READ)
    }

    /// Returns the minor version of Python 3 that an object of this name is of.
    fn python_minor(self, object: &str) -> Option<u32> {
        let (_, version) = object.split_once("python3.").filter(|_| self == Self::Python)?;
        version.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    }

    /// Returns true if `prof record --runtimes` makes it tell names.
    pub fn is_asked_by_environment(self) -> bool {
        matches!(self, Self::Python | Self::Node | Self::Java | Self::DotNet | Self::Mono | Self::Erlang)
    }

    /// Returns the setting that makes it write a perf map.
    pub fn perf_map_setting(self) -> &'static str {
        match self {
            Self::Java => {
                "`java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit`, or `prof record --runtimes -p PID` while it runs \
                 (both JDK 17 or newer)"
            }
            Self::Node => "`node --perf-basic-prof --interpreted-frames-native-stack`",
            Self::Chromium => {
                "`chromium --no-sandbox --js-flags='--perf-basic-prof --interpreted-frames-native-stack'`"
            }
            Self::Python => "`python3 -X perf` (3.12 or newer)",
            Self::DotNet => "`DOTNET_PerfMapEnabled=1`",
            Self::Mono => "`mono --jitmap`",
            Self::Ruby => "`ruby --yjit --yjit-perf` (3.3 or newer)",
            Self::Php => {
                "`php -d opcache.enable_cli=1 -d opcache.jit_buffer_size=64M -d opcache.jit=function -d opcache.jit_debug=16` (8.0 or newer)"
            }
            Self::LuaJit => "a LuaJIT built with `XCFLAGS=-DLUAJIT_USE_PERFTOOLS`",
            Self::Erlang => "`erl +JPperf true` (OTP 24 or newer)",
            Self::Qemu => "`-perfmap` among its options (8.1 or newer)",
        }
    }

    /// The function of its own that runs the program's functions, which have no frames of their own then.
    pub fn interpreter(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Python => Some(&["_PyEval_EvalFrameDefault"]),
            Self::Ruby => Some(&["vm_exec_core", "rb_vm_exec"]),
            Self::Php => Some(&["execute_ex"]),
            Self::Node => Some(&["Builtins_InterpreterEntryTrampoline"]),
            // The interpreter is generated code that a perf map names, or cannot be told from other code.
            Self::Java
            | Self::Chromium
            | Self::DotNet
            | Self::Mono
            | Self::LuaJit
            | Self::Erlang
            | Self::Qemu => None,
        }
    }

    /// Returns the language of its programs.
    pub fn language(self) -> &'static str {
        match self {
            Self::Java => "Java",
            Self::Node | Self::Chromium => "JavaScript",
            Self::Python => "Python",
            Self::DotNet | Self::Mono => ".NET",
            Self::Ruby => "Ruby",
            Self::Php => "PHP",
            Self::LuaJit => "Lua",
            Self::Erlang => "Erlang",
            Self::Qemu => "translated",
        }
    }

    /// Returns the kind of its frames as `profile.frame.type` of OpenTelemetry's conventions names it; `None` if these have no name for it.
    pub fn frame_type(self) -> Option<&'static str> {
        match self {
            Self::Java => Some("jvm"),
            Self::Node | Self::Chromium => Some("v8js"),
            Self::Python => Some("cpython"),
            Self::DotNet | Self::Mono => Some("dotnet"),
            Self::Ruby => Some("ruby"),
            Self::Php => Some("php"),
            Self::Erlang => Some("beam"),
            Self::LuaJit | Self::Qemu => None,
        }
    }

    /// Returns the setting that makes its code keep frame pointers, without which nobody can follow stacks through
    /// it.
    pub fn frame_pointer_setting(self) -> Option<&'static str> {
        match self {
            Self::Java => Some("`java -XX:+PreserveFramePointer`"),
            // The other runtimes keep frame pointers always, or never.
            _ => None,
        }
    }
}

/// The runtimes whose interpreter loop is a known function.
pub const INTERPRETED: [Runtime; 4] = [Runtime::Python, Runtime::Node, Runtime::Ruby, Runtime::Php];

/// The runtimes of a recording's processes.
#[derive(Default)]
pub struct Runtimes(HashMap<Pid, Runtime>);

impl Runtimes {
    /// By the objects that samples lie in.
    pub fn new(spaces: &SpaceTable, seen_in: &SeenIn) -> Self {
        let mut runtimes = HashMap::new();
        for (id, space) in spaces.iter() {
            if let Space::Object(object) = space
                && let Some(runtime) = Runtime::of_object(object.path.base_name())
            {
                runtimes.extend(seen_in.pids(id).into_iter().map(|pid| (pid, runtime)));
            }
        }
        Self(runtimes)
    }

    /// The runtime that an object is a part of.
    pub fn of_object(space: &Space) -> Option<Runtime> {
        match space {
            Space::Object(object) => Runtime::of_object(object.path.base_name()),
            _ => None,
        }
    }

    /// The runtime whose code a space is.
    pub fn runtime_of(&self, space: &Space) -> Option<Runtime> {
        match space {
            Space::Jit { pid, .. } | Space::JitDump { pid, .. } | Space::Unmapped { pid, .. } => {
                self.0.get(pid).copied()
            }
            Space::Python { file, .. } if !file.is_empty() => Some(Runtime::Python),
            Space::JavaScript { name } if name.as_bytes() != UNKNOWN_JAVASCRIPT.as_bytes() => {
                Some(Runtime::Node)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_the_names_of_their_files() {
        let of = |name: &str| Runtime::of_object(name.as_bytes());
        for (name, runtime) in [
            ("node", Runtime::Node),
            ("node20", Runtime::Node),
            ("libnode.so.108", Runtime::Node),
            ("python3.12", Runtime::Python),
            ("libpython3.11.so.1.0", Runtime::Python),
            ("php8.2", Runtime::Php),
            ("php-fpm8.2", Runtime::Php),
            ("libruby-3.1.so.3.1.2", Runtime::Ruby),
            ("beam.smp", Runtime::Erlang),
            ("qemu-system-x86_64", Runtime::Qemu),
        ] {
            assert_eq!(of(name), Some(runtime), "{name}");
        }
        for name in ["node_exporter", "rubyfmt", "phpstan", "chrome_crashpad_handler", "valgrind", "server"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn a_python_before_3_12_tells_no_names() {
        let can = |object| Runtime::Python.can_tell_names(object);
        assert!(!can("python3.9") && !can("libpython3.11.so.1.0"));
        assert!(can("python3.12") && can("libpython3.13.so.1.0") && can("python3"));
        let is_read = |object| Runtime::Python.is_read_as_it_runs(object);
        assert!(is_read("libpython3.11.so.1.0") && !is_read("python3.10") && !is_read("python3"));
    }
}
