//! `--runtimes`: makes language runtimes write down the names of the code that they generate.
//!
//! Runtimes are configured by environment variables, which the command and its children inherit. A variable that another version of
//! a runtime does not know must neither stop nor change it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use analysis::Notices;
use clap::{Args, ValueEnum};
use model::Name;
use recorder::JvmMapTiming;

use super::exit_with_usage_error;
use crate::console::Console;

/// The argument that names runtimes.
#[derive(Args)]
pub struct RuntimeArguments {
    /// Make runtimes report the names of their code: jvm, dotnet, erlang, …
    ///
    /// By environment variables of the command: python (3.12 or newer), node (leaves isolate-*-v8.log in its folder), jvm (17 or newer),
    /// dotnet, mono, erlang (24 or newer); all of them, or those in LIST. A running jvm is asked through its attach protocol, as jcmd PID
    /// Compiler.perfmap does.
    #[arg(hide_possible_values = true, long, value_name = "LIST", value_enum, value_delimiter = ',', num_args = 0.., require_equals = true,
          default_missing_values = ["python", "node", "jvm", "dotnet", "mono", "erlang"], help_heading = "Names")]
    runtimes: Vec<Runtime>,
}

/// A runtime that can be configured through its environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Runtime {
    /// CPython: writes a jitdump from 3.13 on, a perf map in 3.12. Older versions ignore the variables.
    Python,
    /// Node.js 8 or newer: writes a perf map.
    Node,
    /// HotSpot: keeps frame pointers, and from 17 on writes a perf map at its end.
    Jvm,
    /// .NET: writes a perf map.
    Dotnet,
    /// Mono: writes a perf map.
    Mono,
    /// Erlang's BEAM: writes a jitdump, and keeps frame pointers.
    Erlang,
}

/// An environment variable for a runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Setting {
    variable: &'static str,
    value: OsString,
}

/// Options for HotSpot. `IgnoreUnrecognizedVMOptions` comes first, because unknown options stop a JVM.
const JVM: &str = "-XX:+IgnoreUnrecognizedVMOptions -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions \
                   -XX:+DumpPerfMapAtExit";
/// The option that makes Node.js write a perf map.
const NODE: &str = "--perf-basic-prof";
/// The option that names interpreted functions, too. Node.js before 12 rejects it in `NODE_OPTIONS` and stops.
const NODE_FRAMES: &str = "--interpreted-frames-native-stack";
/// The option that makes Mono write a perf map. Mono stops at an unknown option.
const MONO: &str = "--jitmap";
/// The option that makes BEAM write a jitdump. An emulator without it, or without a JIT compiler, stops.
const ERLANG: &str = "+JPperf true";
/// The text that emulators with this option contain.
const ERLANG_SWITCH: &str = "JPperf";

impl RuntimeArguments {
    /// Returns true if `--runtimes` is given.
    pub fn are_given(&self) -> bool {
        !self.runtimes.is_empty()
    }

    /// Returns when running Java virtual machines are asked for perf maps, if at all: those of a command at the end of the recording,
    /// since a virtual machine that ends before has written its map; attached ones also early. Exits with a usage error if no runtime
    /// can be asked.
    pub fn jvms(&self, has_command: bool, is_attached: bool) -> Option<JvmMapTiming> {
        if self.are_given() && !has_command && !self.runtimes.contains(&Runtime::Jvm) {
            exit_with_usage_error(
                "of running runtimes, only a jvm can be asked for names; try: --runtimes=jvm",
            );
        }
        let when = if is_attached { JvmMapTiming::OnceWarm } else { JvmMapTiming::AtEnd };
        self.runtimes.contains(&Runtime::Jvm).then_some(when)
    }

    /// Returns the variables to set for `command` in addition to our environment, and prints them.
    pub fn environment(&self, command: &[OsString], console: &Console) -> Vec<(OsString, OsString)> {
        let knows = |runtime, find: fn(&[OsString]) -> Option<PathBuf>, switch: &str| {
            self.runtimes.contains(&runtime)
                && find(command)
                    .is_some_and(|program| contains_text(&program, switch.as_bytes()).unwrap_or(false))
        };
        let known = KnownSwitches {
            node_frames: knows(Runtime::Node, node_of, NODE_FRAMES),
            mono: knows(Runtime::Mono, |command| program_of(command, "mono"), "jitmap"),
            erlang: knows(Runtime::Erlang, emulator_of, ERLANG_SWITCH),
        };
        let set: Vec<Setting> = self
            .runtimes
            .iter()
            .flat_map(|runtime| runtime.settings(|name| std::env::var_os(name), known))
            .collect();
        if !set.is_empty() {
            let list: Vec<String> =
                set.iter().map(|set| format!("{}={}", set.variable, quoted(&set.value))).collect();
            console.detail(&format!("asking runtimes for names: {}", list.join(" ")));
        }
        set.into_iter().map(|set| (set.variable.into(), set.value)).collect()
    }
}

impl Runtime {
    /// Returns the variables for this runtime. `known` looks up the environment: options of the user follow ours, so that they win,
    /// and a switch that is set stays.
    fn settings(self, known: impl Fn(&str) -> Option<OsString>, switches: KnownSwitches) -> Vec<Setting> {
        let switch = |variable: &'static str| {
            known(variable).is_none().then(|| Setting { variable, value: "1".into() })
        };
        let options = |variable: &'static str, ours: &str| {
            let mut value = OsString::from(ours);
            if let Some(theirs) = known(variable).filter(|theirs| !theirs.is_empty()) {
                value.push(" ");
                value.push(theirs);
            }
            Setting { variable, value }
        };
        match self {
            Self::Python => {
                ["PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT"].into_iter().filter_map(switch).collect()
            }
            Self::Node if switches.node_frames => {
                vec![options("NODE_OPTIONS", &format!("{NODE} {NODE_FRAMES}"))]
            }
            Self::Node => vec![options("NODE_OPTIONS", NODE)],
            Self::Jvm => vec![options("JAVA_TOOL_OPTIONS", JVM)],
            Self::Dotnet => switch("DOTNET_PerfMapEnabled").into_iter().collect(),
            Self::Mono if switches.mono => vec![options("MONO_ENV_OPTIONS", MONO)],
            Self::Mono => Vec::new(),
            Self::Erlang if switches.erlang => vec![options("ERL_FLAGS", ERLANG)],
            Self::Erlang => Vec::new(),
        }
    }
}

/// Whether programs that an unknown option would stop know our options.
#[derive(Clone, Copy, Default)]
struct KnownSwitches {
    node_frames: bool,
    mono: bool,
    erlang: bool,
}

/// Returns the Node.js that the command runs, or else the one in `PATH`.
fn node_of(command: &[OsString]) -> Option<PathBuf> {
    program_of(command, "node")
}

/// Returns the emulator (`lib/erlang/erts-*/bin/beam.smp`) of the `erl` that the command runs, or else of the one in `PATH`.
fn emulator_of(command: &[OsString]) -> Option<PathBuf> {
    let erl = std::fs::canonicalize(program_of(command, "erl")?).ok()?;
    let folders = std::fs::read_dir(erl.parent()?.parent()?).ok()?;
    let is_runtime =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"erts-"));
    let runtimes = folders.filter_map(|entry| Some(entry.ok()?.path())).filter(is_runtime);
    runtimes.map(|runtime| runtime.join("bin/beam.smp")).find(|path| path.is_file())
}

/// Returns the program of the command if its name starts with `name`, or else the program `name` in `PATH`.
fn program_of(command: &[OsString], name: &str) -> Option<PathBuf> {
    let word = command.first()?;
    let is_it = |word: &OsStr| word.as_bytes().starts_with(name.as_bytes());
    let path = PathBuf::from(word);
    if path.file_name().is_some_and(is_it) && word.as_bytes().contains(&b'/') {
        return Some(path);
    }
    let name = if is_it(word) { word.as_os_str() } else { OsStr::new(name) };
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns true if the file of a program contains this text. Of the 100 MB of Node.js, it compares about every thirtieth byte.
fn contains_text(program: &Path, text: &[u8]) -> io::Result<bool> {
    const BLOCK: usize = 1 << 20;
    let mut file = File::open(program)?;
    let mut bytes = Vec::new();
    loop {
        // The text may start in one block and end in the next.
        let kept = bytes.len().min(text.len().saturating_sub(1));
        bytes.drain(..bytes.len() - kept);
        if file.by_ref().take(BLOCK as u64).read_to_end(&mut bytes)? == 0 {
            return Ok(false);
        }
        if find_text(&bytes, text) {
            return Ok(true);
        }
    }
}

/// Searches with the Boyer–Moore–Horspool algorithm.
fn find_text(bytes: &[u8], text: &[u8]) -> bool {
    let Some(last) = text.len().checked_sub(1) else { return true };
    let mut skips = [text.len(); 256];
    for (index, &byte) in text[..last].iter().enumerate() {
        skips[usize::from(byte)] = last - index;
    }
    let mut start = 0;
    while let Some(part) = bytes.get(start..start + text.len()) {
        if part == text {
            return true;
        }
        start += skips[usize::from(part[last])];
    }
    false
}

fn quoted(value: &OsStr) -> String {
    let text = Name::new(value.as_bytes()).to_string();
    if text.contains(' ') { format!("'{text}'") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(runtime: Runtime, known: &[(&str, &str)], knows_all: bool) -> Vec<(&'static str, String)> {
        let find = |name: &str| known.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        let switches = KnownSwitches { node_frames: knows_all, mono: knows_all, erlang: knows_all };
        let settings = runtime.settings(find, switches);
        settings.into_iter().map(|set| (set.variable, set.value.into_string().unwrap())).collect()
    }

    #[test]
    fn what_is_set_stays_and_wins() {
        let [support, jit] =
            ["PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT"].map(|name| (name, "1".to_owned()));
        assert_eq!(set(Runtime::Python, &[], false), [support, jit.clone()]);
        assert_eq!(set(Runtime::Python, &[("PYTHONPERFSUPPORT", "0")], false), [jit]);
        assert_eq!(set(Runtime::Dotnet, &[("DOTNET_PerfMapEnabled", "0")], false), []);
        let theirs = "-Xmx1g -XX:-PreserveFramePointer";
        let java = set(Runtime::Jvm, &[("JAVA_TOOL_OPTIONS", theirs)], false);
        assert_eq!(java, [("JAVA_TOOL_OPTIONS", format!("{JVM} {theirs}"))]);
        assert!(JVM.starts_with("-XX:+IgnoreUnrecognizedVMOptions "), "before those that may be unknown");
    }

    #[test]
    fn a_node_that_would_refuse_an_option_is_not_given_it() {
        assert_eq!(set(Runtime::Node, &[], false), [("NODE_OPTIONS", NODE.to_owned())]);
        let with = format!("{NODE} {NODE_FRAMES} --max-old-space-size=100");
        let known = [("NODE_OPTIONS", "--max-old-space-size=100")];
        assert_eq!(set(Runtime::Node, &known, true), [("NODE_OPTIONS", with)]);
    }

    #[test]
    fn an_emulator_that_would_stop_is_not_given_the_switch() {
        assert_eq!(set(Runtime::Mono, &[], false), []);
        let mono = set(Runtime::Mono, &[("MONO_ENV_OPTIONS", "--debug")], true);
        assert_eq!(mono, [("MONO_ENV_OPTIONS", "--jitmap --debug".to_owned())]);
        assert_eq!(set(Runtime::Erlang, &[], false), []);
        let with = set(Runtime::Erlang, &[("ERL_FLAGS", "+S 2")], true);
        assert_eq!(with, [("ERL_FLAGS", "+JPperf true +S 2".to_owned())]);
    }

    #[test]
    fn a_text_is_found_over_the_bounds_of_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        for start in [0, (1 << 20) - 5, 3 << 20] {
            let mut bytes = vec![b'-'; 4 << 20];
            bytes[start..start + NODE_FRAMES.len()].copy_from_slice(NODE_FRAMES.as_bytes());
            std::fs::write(&path, &bytes).unwrap();
            assert!(contains_text(&path, NODE_FRAMES.as_bytes()).unwrap(), "{start}");
            bytes[start + 7] = b'_';
            std::fs::write(&path, &bytes).unwrap();
            assert!(!contains_text(&path, NODE_FRAMES.as_bytes()).unwrap(), "{start}");
        }
    }
}
