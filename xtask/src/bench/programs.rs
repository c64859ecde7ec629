//! Programs as they are distributed, that are installed or not, each busy for a second or so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::Tools;

/// A program with its arguments; the last one may say that it reads a source from standard input.
pub(super) const INSTALLED: &[(&str, &[&str])] = &[
    (
        "python3",
        &[
            "-c",
            "import json\nfor _ in range(12): json.loads(json.dumps([{'a': [i] * 9} for i in range(20000)]))",
        ],
    ),
    (
        "node",
        &[
            "-e",
            "let n = 0; for (let i = 0; i < 60; i++) n += JSON.stringify([...Array(30000).keys()].map(x => ({x, s: 'a' + x}))).length",
        ],
    ),
    ("rg", &["-c", "--no-ignore", "-e", "(a|b)+[0-9]{3,}(foo|bar)?", "/usr/share", "/usr/include"]),
    ("g++", &["-O2", "-x", "c++", "-o", "/dev/null", "-"]),
    ("clang", &["-O2", "-x", "c++", "-c", "-o", "/dev/null", "-"]),
    ("rustc", &["-O", "--crate-name", "hello", "--crate-type", "bin", "-o", "/dev/null", "-"]),
];

/// What compilers read from standard input.
const CXX: &str = "#include <regex>\n#include <map>\n#include <iostream>\nint main() { std::map<std::string, int> m; \
                   std::regex r(\"(a|b)*c\"); std::cout << std::regex_match(\"abc\", r) << m[\"x\"]; }\n";
const RUST: &str = "use std::collections::*; fn main() { let mut m = BTreeMap::new(); for i in 0..10u64 { m.insert(i, \
                    format!(\"{i:?}\")); } let h: HashMap<_, _> = m.iter().collect(); println!(\"{h:?}\"); }\n";

/// The command line of a program with these arguments; `None` where it is not installed.
pub(super) fn command(tools: &Tools, name: &str, args: &[&str]) -> anyhow::Result<Option<Vec<OsString>>> {
    let Some(program) = installed(name) else { return Ok(None) };
    let mut command: Vec<OsString> = vec![program.into()];
    command.extend(args.iter().map(OsString::from));
    if args.last() == Some(&"-") {
        let input = tools.scratch.join(format!("{name}-input"));
        std::fs::write(&input, if name == "rustc" { RUST } else { CXX })?;
        let shell = ["sh", "-c", "input=$1; shift; exec \"$@\" < \"$input\"", "sh"].map(OsString::from);
        command = shell.into_iter().chain([input.into()]).chain(command).collect();
    }
    Ok(Some(command))
}

/// The program itself, not what chooses among versions of it.
fn installed(name: &str) -> Option<PathBuf> {
    let chosen = match name {
        "rustc" => Command::new("rustc")
            .args(["--print", "sysroot"])
            .output()
            .ok()
            .map(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("bin/rustc")),
        // `python3` may be a script that chooses one of several versions.
        "python3" => Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .ok()
            .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
        _ => None,
    };
    let path = std::env::var_os("PATH")?;
    let found = || std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    chosen.filter(|path| path.is_file()).or_else(found)
}
