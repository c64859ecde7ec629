//! The outputs of `prof record`: one file or a series.

use std::path::Path;
use std::time::Duration;

use recorder::{Consumer, FileConsumer, SeriesConsumer, WindowConsumer};

/// An output of a recording, with figures for the summary.
pub trait RecordingOutput: Consumer {
    /// Returns the number of samples that could not be decoded.
    fn undecodable(&self) -> u64;

    /// Returns how long the recording waited for the destination because its buffer was full.
    fn blocked_time(&self) -> Duration;

    /// Returns path and size of the last file written. `output` is the path of the `-o` option.
    fn written<'a>(&'a self, output: &'a Path) -> Option<(&'a Path, u64)>;
}

impl RecordingOutput for FileConsumer {
    fn undecodable(&self) -> u64 {
        self.undecodable()
    }

    fn blocked_time(&self) -> Duration {
        self.blocked_time()
    }

    fn written<'a>(&'a self, output: &'a Path) -> Option<(&'a Path, u64)> {
        Some((output, self.size()))
    }
}

impl RecordingOutput for WindowConsumer {
    fn undecodable(&self) -> u64 {
        self.undecodable()
    }

    fn blocked_time(&self) -> Duration {
        Duration::ZERO
    }

    fn written<'a>(&'a self, _: &'a Path) -> Option<(&'a Path, u64)> {
        self.last().map(|dump| (dump.path.as_path(), dump.size))
    }
}

impl RecordingOutput for SeriesConsumer {
    fn undecodable(&self) -> u64 {
        self.undecodable()
    }

    fn blocked_time(&self) -> Duration {
        self.blocked_time()
    }

    fn written<'a>(&'a self, _: &'a Path) -> Option<(&'a Path, u64)> {
        self.last().map(|(path, size)| (path.as_path(), *size))
    }
}
