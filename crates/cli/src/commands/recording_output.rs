//! What `prof record` writes to: one file, or several.

use std::path::Path;
use std::time::Duration;

use recorder::{Consumer, FileConsumer, SwitchingConsumer, WindowConsumer};

/// A sink that a recording goes to, with a report at the end.
pub trait RecordingOutput: Consumer {
    /// Samples that are missing because they could not be decoded.
    fn undecodable(&self) -> u64;

    /// For how long the destination took less than came.
    fn held_up(&self) -> Duration;

    /// The file that was written last, `output` where nothing else is known, and its size.
    fn written<'a>(&'a self, output: &'a Path) -> Option<(&'a Path, u64)>;
}

impl RecordingOutput for FileConsumer {
    fn undecodable(&self) -> u64 {
        self.undecodable()
    }

    fn held_up(&self) -> Duration {
        self.held_up()
    }

    fn written<'a>(&'a self, output: &'a Path) -> Option<(&'a Path, u64)> {
        Some((output, self.size()))
    }
}

impl RecordingOutput for WindowConsumer {
    fn undecodable(&self) -> u64 {
        self.undecodable()
    }

    fn held_up(&self) -> Duration {
        Duration::ZERO
    }

    fn written<'a>(&'a self, _: &'a Path) -> Option<(&'a Path, u64)> {
        self.last().map(|dump| (dump.path.as_path(), dump.size))
    }
}

impl RecordingOutput for SwitchingConsumer {
    fn undecodable(&self) -> u64 {
        self.undecodable()
    }

    fn held_up(&self) -> Duration {
        self.held_up()
    }

    fn written<'a>(&'a self, _: &'a Path) -> Option<(&'a Path, u64)> {
        self.last().map(|(path, size)| (path.as_path(), *size))
    }
}
