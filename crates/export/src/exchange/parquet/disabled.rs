//! Stands in for the Parquet writer in builds without the feature `parquet`: returns an error.

use std::io::{self, Write};
use std::time::Duration;

use super::ExportedRecording;
use super::dictionary::Dictionary;

pub(super) fn write(
    _: &ExportedRecording<'_>,
    _: &Dictionary,
    _: Duration,
    _: &mut dyn Write,
) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build has no Parquet: its cargo feature `parquet` is off",
    ))
}
