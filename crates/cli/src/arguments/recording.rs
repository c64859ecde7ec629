//! The argument that names a recording.

use std::path::{Path, PathBuf};

use clap::Args;

/// The recording that a command reads.
#[derive(Args, Clone, Debug)]
pub struct RecordingArguments {
    /// The recording, or `-` for standard input [default: prof.data, else perf.data]
    #[arg(value_name = "FILE", conflicts_with = "input")]
    file: Option<PathBuf>,
    /// The same as FILE
    #[arg(hide_short_help = true, short, long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl RecordingArguments {
    /// Returns the path, if one is given.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.input.as_deref())
    }
}
