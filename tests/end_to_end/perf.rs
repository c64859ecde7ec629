//! perf beside us, on the same files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use super::folded::Folded;
use super::prof::{Run, run};
use super::programs::{has, skip};

/// Returns true if perf is installed and may record; where not, the test is skipped.
pub(crate) fn is_here() -> bool {
    if !has("perf") {
        return false;
    }
    static MAY: LazyLock<bool> =
        LazyLock::new(|| run(Command::new("perf").args(["stat", "-e", "cpu-clock", "true"])).code == 0);
    if !*MAY {
        skip("perf may not record here");
    }
    *MAY
}

/// perf without the cache in the user's home folder, from which it would resolve names of files long gone.
pub(crate) fn perf(folder: &Path) -> Command {
    let mut command = Command::new("perf");
    command.arg("--buildid-dir").arg(folder.join("no-cache")).current_dir(folder);
    command
}

/// `perf record` without the thread that waits for BPF programs, for the end of which it waits up to a second.
pub(crate) const RECORD: [&str; 3] = ["record", "-q", "--no-bpf-event"];

/// `perf record -g` of a command into `perf.data` of a folder.
pub(crate) fn record(folder: &Path, flags: &[&str], command: &mut dyn FnMut(&mut Command)) -> PathBuf {
    let file = folder.join("perf.data");
    let mut record = perf(folder);
    record
        .args(RECORD)
        .args(["-N", "-F", "4999", "-e", "cpu-clock", "-g", "-o"])
        .arg(&file)
        .args(flags)
        .arg("--");
    command(&mut record);
    run(&mut record).ok();
    file
}

/// `perf script` with the frames of each sample.
pub(crate) fn script(folder: &Path, file: &Path) -> Run {
    run(perf(folder)
        .args(["script", "-f", "--max-stack", "65535", "--no-inline", "-F", "comm,tid,ip,sym,dso", "-i"])
        .arg(file))
}

/// Folds what [`script`] printed. Names are perf's; a frame without one is `[module]`, or `[unknown]` without a module.
pub(crate) fn fold(script: &str) -> Folded {
    let mut folded = Folded::default();
    let mut stack: Option<Vec<String>> = None;
    // An empty line ends each sample; one more ends the last.
    for line in script.lines().chain([""]) {
        if line.is_empty() {
            if let Some(mut frames) = stack.take() {
                frames[1..].reverse();
                folded.add(frames, 1);
            }
        } else if let (Some(frames), true) = (&mut stack, line.starts_with(['\t', ' '])) {
            frames.push(frame(line));
        } else {
            let comm = line.trim_end().rsplit_once(char::is_whitespace).map_or(line, |(comm, _)| comm);
            stack = Some(vec![comm.trim().to_owned()]);
        }
    }
    folded
}

/// `\t  7f79fa2f2ad7 name (module)`.
fn frame(line: &str) -> String {
    let (_, rest) = line.trim_start().split_once(' ').unwrap_or_else(|| panic!("no frame: {line:?}"));
    let (name, module) = rest.rsplit_once(" (").unwrap_or_else(|| panic!("no module: {line:?}"));
    if name != "[unknown]" {
        return name.to_owned();
    }
    let module = module.strip_suffix(')').unwrap_or(module);
    let base = module.rsplit('/').next().unwrap_or(module).trim_matches(['[', ']']);
    format!("[{base}]")
}
