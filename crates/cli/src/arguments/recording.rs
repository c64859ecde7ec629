//! The recording that a command reads.

use std::path::{Path, PathBuf};

use clap::Args;

/// Which recording.
#[derive(Args, Clone, Debug)]
pub struct RecordingArguments {
    /// The recording: a perf.data file by anyone, or `-` for a stream [default: prof.data, else perf.data]
    #[arg(value_name = "FILE", conflicts_with = "input")]
    file: Option<PathBuf>,
    /// The same, as other commands have it
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl RecordingArguments {
    /// The path that was named.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.input.as_deref())
    }
}
