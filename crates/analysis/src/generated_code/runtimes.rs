//! Language runtimes: how to recognize one by its files, and which of its options make it write a perf map or keep frame pointers.

use std::collections::HashMap;

use model::{Pid, Space, SpaceTable};

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
}

/// The runtimes by the objects that they are made of: the start of a file's name.
const OBJECT_NAME_PREFIXES: [(&str, Runtime); 20] = [
    ("libjvm.so", Runtime::Java),
    ("node", Runtime::Node),
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
    ("libv8.so", Runtime::Node),
    ("php", Runtime::Php),
    ("libphp", Runtime::Php),
    ("luajit", Runtime::LuaJit),
    ("libluajit", Runtime::LuaJit),
    ("beam.", Runtime::Erlang),
];

impl Runtime {
    /// Returns the runtime that an object of this name, without its folder, is a part of.
    pub fn of_object(name: &[u8]) -> Option<Self> {
        OBJECT_NAME_PREFIXES
            .iter()
            .find(|(start, _)| name.starts_with(start.as_bytes()))
            .map(|&(_, runtime)| runtime)
    }

    /// Returns the setting that makes it write a perf map.
    pub fn perf_map_setting(runtime: Option<Self>) -> &'static str {
        match runtime {
            Some(Self::Java) => {
                "`java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit`, or `prof record --runtimes -p PID` while it runs \
                 (both JDK 17 or newer)"
            }
            Some(Self::Node) => "`node --perf-basic-prof --interpreted-frames-native-stack`",
            Some(Self::Chromium) => {
                "`chromium --no-sandbox --js-flags='--perf-basic-prof --interpreted-frames-native-stack'`"
            }
            Some(Self::Python) => "`python3 -X perf` (3.12 or newer)",
            Some(Self::DotNet) => "`DOTNET_PerfMapEnabled=1`",
            Some(Self::Mono) => "`mono --jitmap`",
            Some(Self::Ruby) => "`ruby --yjit --yjit-perf` (3.3 or newer)",
            Some(Self::Php) => {
                "`php -d opcache.enable_cli=1 -d opcache.jit_buffer_size=64M -d opcache.jit=function -d opcache.jit_debug=16` (8.0 or newer)"
            }
            Some(Self::LuaJit) => "a LuaJIT built with `XCFLAGS=-DLUAJIT_USE_PERFTOOLS`",
            Some(Self::Erlang) => "`erl +JPperf true` (OTP 24 or newer)",
            None => {
                "`node --perf-basic-prof --interpreted-frames-native-stack`, `java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` or `python3 -X perf`"
            }
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
            Self::Java | Self::Chromium | Self::DotNet | Self::Mono | Self::LuaJit | Self::Erlang => None,
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
            _ => None,
        }
    }
}
