//! Where results go: standard output, or a file that appears whole or not at all.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use host::files::NewFile;

/// A place for a result.
pub enum Output {
    /// Standard output.
    Stdout(BufWriter<io::Stdout>),
    /// A file that takes its name in [`Output::finish`].
    File(BufWriter<NewFile>, PathBuf),
}

impl Output {
    /// Opens `path`, or standard output for `None` and `-`.
    ///
    /// # Errors
    /// Where the file cannot be made, or where the result would go to a terminal: `what` (for example "an SVG")
    /// and `instead` (the command to type) are part of the message then.
    pub fn open(path: Option<&Path>, what: &str, instead: &str) -> anyhow::Result<Self> {
        match path {
            Some(path) if path != Path::new("-") => {
                let file = NewFile::create(path, 0o666)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Ok(Self::File(BufWriter::with_capacity(1 << 16, file), path.to_owned()))
            }
            None if !what.is_empty() && io::stdout().is_terminal() => {
                bail!("{what} does not belong on a terminal; try: {instead}")
            }
            _ => Ok(Self::Stdout(BufWriter::with_capacity(1 << 16, io::stdout()))),
        }
    }

    /// Writes what is left and gives the file its name.
    ///
    /// # Errors
    /// Where the last bytes cannot be written (a full disk) or the file cannot take its name.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush().context("cannot write to standard output"),
            Self::File(file, path) => file
                .into_inner()
                .map_err(|error| error.into_error())
                .and_then(NewFile::persist)
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file, _) => file.flush(),
        }
    }
}
