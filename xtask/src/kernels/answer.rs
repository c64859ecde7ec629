//! What a guest printed, by check and command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::NamedTempFile;

use crate::workspace;

/// What begins a line that is ours among the lines of the guest's console.
const MARK: &str = "@@ ";

/// The commands of one check, as they ended, and the files that it sent.
#[derive(Default, Debug)]
pub(super) struct Answer {
    runs: BTreeMap<String, Run>,
    files: BTreeMap<String, Vec<u8>>,
    /// The host's `prof`.
    pub(super) prof: PathBuf,
}

/// A command that has ended.
#[derive(Default, Debug)]
pub(super) struct Run {
    /// Both outputs.
    pub(super) text: String,
    pub(super) status: i32,
}

impl Answer {
    /// Returns the command of this name.
    pub(super) fn run(&self, name: &str) -> anyhow::Result<&Run> {
        self.runs.get(name).with_context(|| format!("{name}: the guest stopped before it had ended"))
    }

    /// Returns what a command printed that must have succeeded.
    pub(super) fn text(&self, name: &str) -> anyhow::Result<&str> {
        let run = self.run(name)?;
        if run.status != 0 {
            bail!("{name}: exit status {}: {}", run.status, one_line(&run.text));
        }
        Ok(&run.text)
    }

    /// Returns a file that the guest sent, as a temporary one.
    pub(super) fn file(&self, name: &str) -> anyhow::Result<NamedTempFile> {
        let bytes = self.files.get(name).with_context(|| format!("{name}: the guest did not send it"))?;
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), bytes).context("a temporary file")?;
        Ok(file)
    }

    /// Returns the folded stacks of a recording that the guest sent, as the host reads it.
    pub(super) fn read_on_host(&self, name: &str) -> anyhow::Result<String> {
        folded_on_host(&self.prof, self.file(name)?.path())
    }
}

/// Returns the folded stacks of a recording.
pub(super) fn folded_on_host(prof: &Path, recording: &Path) -> anyhow::Result<String> {
    workspace::output(Command::new(prof).args(["-q", "flame", "--folded", "-i"]).arg(recording))
}

/// Returns the words of a text on one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads the answers by check from what came out of a guest's console.
pub(super) fn parse(console: &str) -> BTreeMap<String, Answer> {
    let mut answers: BTreeMap<String, Answer> = BTreeMap::new();
    let mut check = String::new();
    let mut open: Option<(String, String)> = None;
    for line in console.lines() {
        let line = line.trim_end_matches('\r');
        let Some(mark) = line.strip_prefix(MARK) else {
            if let Some((_, text)) = &mut open {
                text.push_str(line);
                text.push('\n');
            }
            continue;
        };
        let (what, value) = mark.split_once(' ').unwrap_or((mark, ""));
        match what {
            "check" => {
                value.clone_into(&mut check);
                answers.entry(check.clone()).or_default();
                open = None;
            }
            "run" | "file" => open = Some((value.to_owned(), String::new())),
            "status" => {
                if let (Some((name, text)), Some(answer)) = (open.take(), answers.get_mut(&check)) {
                    let status = value.parse().unwrap_or(-1);
                    answer.runs.insert(name, Run { text: text.trim_end().to_owned(), status });
                }
            }
            "end" => {
                if let (Some((name, text)), Some(answer)) = (open.take(), answers.get_mut(&check))
                    && let Ok(bytes) = STANDARD.decode(text.replace('\n', ""))
                {
                    answer.files.insert(name, bytes);
                }
            }
            _ => {}
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_are_told_apart_by_marks() {
        let console = "booting\r\n@@ check 001\r\n@@ run a\r\nhello\r\n\r\n@@ status 3\r\n@@ file x\r\naGk=\r\n@@ end\r\n\
                       @@ check 002\r\n@@ run b\r\nhalf";
        let answers = parse(console);
        let first = &answers["001"];
        let run = first.run("a").unwrap();
        assert_eq!((run.text.as_str(), run.status), ("hello", 3));
        assert!(first.text("a").unwrap_err().to_string().contains("exit status 3: hello"));
        assert_eq!(first.files["x"], b"hi");
        assert!(answers["002"].run("b").unwrap_err().to_string().contains("stopped"));
    }
}
