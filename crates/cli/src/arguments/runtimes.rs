//! Asking language runtimes for the names of the code that they generate: `--runtimes`.
//!
//! Each runtime has its own way; those that can be asked through the environment are, for the command and what it starts.
//! A variable that a runtime of another version does not know must neither stop nor change it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use analysis::Notices;
use clap::{Args, ValueEnum};
use model::Name;

use crate::console::Console;

/// Which runtimes are asked.
#[derive(Args)]
pub struct RuntimeArguments {
    /// Ask language runtimes in the command, and in what it starts, for the names of their code, by variables of its
    /// environment: python (3.12 or newer), node (which leaves isolate-*-v8.log in its folder), jvm (17 or newer), dotnet; all
    /// of them, or those in LIST
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', num_args = 0.., require_equals = true,
          requires = "command", default_missing_values = ["python", "node", "jvm", "dotnet"])]
    runtimes: Vec<Runtime>,
}

/// A runtime that can be asked through its environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Runtime {
    /// CPython: a jitdump from 3.13 on, a perf map in 3.12; older ones do not look.
    Python,
    /// Node.js 8 and newer: a perf map.
    Node,
    /// HotSpot: frame pointers, and from 17 on a perf map at the end.
    Jvm,
    /// .NET: a perf map.
    Dotnet,
}

/// What is set for a runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Setting {
    variable: &'static str,
    value: OsString,
}

/// An unknown option stops a JVM, unless this one stands before it.
const JVM: &str = "-XX:+IgnoreUnrecognizedVMOptions -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions \
                   -XX:+DumpPerfMapAtExit";
const NODE: &str = "--perf-basic-prof";
/// Names interpreted functions, too. Before Node.js 12 it is not allowed in `NODE_OPTIONS`, and stops it.
const NODE_FRAMES: &str = "--interpreted-frames-native-stack";

impl RuntimeArguments {
    /// The variables to set for `command`, in addition to what our own environment has. Says which.
    pub fn environment(&self, command: &[OsString], console: &Console) -> Vec<(OsString, OsString)> {
        let knows_frames = self.runtimes.contains(&Runtime::Node)
            && node_of(command).is_some_and(|node| holds(&node, NODE_FRAMES.as_bytes()).unwrap_or(false));
        let set: Vec<Setting> = self
            .runtimes
            .iter()
            .flat_map(|runtime| runtime.settings(|name| std::env::var_os(name), knows_frames))
            .collect();
        if !set.is_empty() {
            let list: Vec<String> =
                set.iter().map(|set| format!("{}={}", set.variable, quoted(&set.value))).collect();
            console.say(&format!("asking runtimes for names: {}", list.join(" ")));
        }
        set.into_iter().map(|set| (set.variable.into(), set.value)).collect()
    }
}

impl Runtime {
    /// `known` is the environment. What is there already is kept: after ours, so that it wins; a switch that is set stays.
    fn settings(self, known: impl Fn(&str) -> Option<OsString>, knows_frames: bool) -> Vec<Setting> {
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
            Self::Node if knows_frames => vec![options("NODE_OPTIONS", &format!("{NODE} {NODE_FRAMES}"))],
            Self::Node => vec![options("NODE_OPTIONS", NODE)],
            Self::Jvm => vec![options("JAVA_TOOL_OPTIONS", JVM)],
            Self::Dotnet => switch("DOTNET_PerfMapEnabled").into_iter().collect(),
        }
    }
}

/// The Node.js that the command is, or else the one in `PATH`.
fn node_of(command: &[OsString]) -> Option<PathBuf> {
    let word = command.first()?;
    let is_node = |name: &OsStr| name.as_bytes().starts_with(b"node");
    let path = PathBuf::from(word);
    if path.file_name().is_some_and(is_node) && word.as_bytes().contains(&b'/') {
        return Some(path);
    }
    let name = if is_node(word) { word.as_os_str() } else { OsStr::new("node") };
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns true if a program has this text in it. A Node.js has 100 MB, of which it looks at every thirtieth byte or so.
fn holds(program: &Path, text: &[u8]) -> io::Result<bool> {
    const BLOCK: usize = 1 << 20;
    let mut file = File::open(program)?;
    let mut bytes = Vec::new();
    loop {
        // What may begin in one block and end in the next is looked at again.
        let kept = bytes.len().min(text.len().saturating_sub(1));
        bytes.drain(..bytes.len() - kept);
        if file.by_ref().take(BLOCK as u64).read_to_end(&mut bytes)? == 0 {
            return Ok(false);
        }
        if is_in(&bytes, text) {
            return Ok(true);
        }
    }
}

/// Searches as Horspool does: the last byte under the text says how far on it can begin.
fn is_in(bytes: &[u8], text: &[u8]) -> bool {
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

    fn set(runtime: Runtime, known: &[(&str, &str)], knows_frames: bool) -> Vec<(&'static str, String)> {
        let find = |name: &str| known.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        let settings = runtime.settings(find, knows_frames);
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
    fn a_text_is_found_over_the_bounds_of_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        for start in [0, (1 << 20) - 5, 3 << 20] {
            let mut bytes = vec![b'-'; 4 << 20];
            bytes[start..start + NODE_FRAMES.len()].copy_from_slice(NODE_FRAMES.as_bytes());
            std::fs::write(&path, &bytes).unwrap();
            assert!(holds(&path, NODE_FRAMES.as_bytes()).unwrap(), "{start}");
            bytes[start + 7] = b'_';
            std::fs::write(&path, &bytes).unwrap();
            assert!(!holds(&path, NODE_FRAMES.as_bytes()).unwrap(), "{start}");
        }
    }
}
