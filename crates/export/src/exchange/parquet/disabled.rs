//! What a build without the feature `parquet` says.

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
