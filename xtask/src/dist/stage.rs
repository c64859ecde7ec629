//! The files of a release, in the layout of its archive. Packages use them, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::build::{Build, PROGRAMS};
use crate::workspace;

/// Texts in the archive.
const TEXTS: [&str; 6] =
    ["README.md", "CHANGELOG.md", "SECURITY.md", "THIRD-PARTY.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Completions: the shell, and the name of the file that it reads.
const COMPLETIONS: [(&str, &str); 4] =
    [("bash", "prof"), ("zsh", "_prof"), ("fish", "prof.fish"), ("elvish", "prof.elv")];

/// The two folders of a release.
pub(super) struct Stage {
    /// Stripped programs, texts, `man` and `completions`.
    pub(super) files: PathBuf,
    /// The programs' debug information.
    pub(super) debug: PathBuf,
}

impl Stage {
    /// Fills a folder from the folder with the `programs`, after removing its content.
    pub(super) fn fill(root: &Path, folder: PathBuf, programs: &Path, build: &Build) -> anyhow::Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let stage = Self { files: folder.join("files"), debug: folder.join("debug") };
        for folder in [stage.files.join("man"), stage.files.join("completions"), stage.debug.clone()] {
            std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        for program in PROGRAMS {
            stage.split(&programs.join(program), program, build.binutils())?;
        }
        for text in TEXTS {
            std::fs::copy(root.join(text), stage.files.join(text)).with_context(|| text.to_owned())?;
        }
        let prof = build.runs_here(programs.join("prof"));
        workspace::run(prof().arg("man").arg(stage.files.join("man")))?;
        for (shell, file) in COMPLETIONS {
            let script = workspace::output(prof().args(["completions", shell]))?;
            std::fs::write(stage.files.join("completions").join(file), script)?;
        }
        Ok(stage)
    }

    /// Copies a program without its debug information, and writes that to a separate file, to which the program links.
    fn split(&self, program: &Path, name: &str, binutils: &str) -> anyhow::Result<()> {
        let debug = format!("{name}.debug");
        let objcopy = || Command::new(format!("{binutils}objcopy"));
        let kept = self.debug.join(&debug);
        workspace::run(
            objcopy().arg("--only-keep-debug").arg("--compress-debug-sections").arg(program).arg(&kept),
        )?;
        let link = format!("--add-gnu-debuglink={}", kept.display());
        workspace::run(objcopy().arg("--strip-all").arg(link).arg(program).arg(self.files.join(name)))
    }
}
