//! Output of results: to standard output, or to a file that appears when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use analysis::Notices;
use anyhow::Context;
use host::files::{Destination, DestinationKind, NewFile};

use crate::console::Console;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 1 << 16;
/// The mode of pictures and texts, less the umask.
const PUBLIC_MODE: u32 = 0o666;
/// The mode of files that are as private as a recording.
const PRIVATE_MODE: u32 = 0o600;

/// An open output for a result.
pub struct Output {
    target: OutputTarget,
    /// The path as it was typed, or `standard output`.
    name: String,
    is_stdout: bool,
}

enum OutputTarget {
    /// A pipe, terminal or other stream.
    Stream(BufWriter<File>),
    /// A file that gets its name in [`Output::finish`].
    File(BufWriter<NewFile>),
}

impl Output {
    /// Opens standard output.
    ///
    /// # Errors
    /// Standard output was closed when this process started.
    pub fn stdout() -> anyhow::Result<Self> {
        Self::at(Destination::standard_output().context("cannot write to standard output")?)
    }

    /// Opens `path`, or standard output for `None` and `-`. If `path` is a named pipe, waits for its reader.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(path: Option<&Path>, console: &Console) -> anyhow::Result<Self> {
        match path.filter(|&path| path != Path::new("-")) {
            Some(path) => Self::at(find(path, console)?),
            None => Self::stdout(),
        }
    }

    /// Opens `path` with mode 0600, for a recording.
    ///
    /// # Errors
    /// As [`Output::open`].
    pub fn private(path: &Path, console: &Console) -> anyhow::Result<Self> {
        Self::with_mode(find(path, console)?, PRIVATE_MODE)
    }

    /// Creates a nameless temporary file. The second value reads what is written to the first.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn nameless() -> anyhow::Result<(Self, File)> {
        let folder = std::env::temp_dir();
        let name = format!("a temporary file in {}", folder.display());
        let file = NewFile::create_nameless(&folder).with_context(|| format!("cannot create {name}"))?;
        let file = file.file().try_clone().with_context(|| format!("cannot use {name}"))?;
        let again = file.try_clone().with_context(|| format!("cannot use {name}"))?;
        let target = OutputTarget::Stream(BufWriter::with_capacity(BUFFER_BYTES, file));
        Ok((Self { target, name, is_stdout: false }, again))
    }

    fn at(destination: Destination) -> anyhow::Result<Self> {
        Self::with_mode(destination, PUBLIC_MODE)
    }

    fn with_mode(destination: Destination, mode: u32) -> anyhow::Result<Self> {
        let name = destination.path().display().to_string();
        let is_stdout = destination.is_standard_output();
        match destination.into_kind() {
            DestinationKind::Stream(stream) => Ok(Self {
                target: OutputTarget::Stream(BufWriter::with_capacity(BUFFER_BYTES, stream)),
                name,
                is_stdout,
            }),
            DestinationKind::Name(found) => {
                let file = NewFile::create(found, mode).with_context(|| format!("cannot create {name}"))?;
                Ok(Self::file(file, name))
            }
        }
    }

    /// Creates a file without blocking.
    ///
    /// # Errors
    /// The file cannot be created, or `path` is a stream.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = NewFile::create_at(path, PUBLIC_MODE).with_context(|| format!("cannot create {name}"))?;
        Ok(Self::file(file, name))
    }

    fn file(file: NewFile, name: String) -> Self {
        Self {
            target: OutputTarget::File(BufWriter::with_capacity(BUFFER_BYTES, file)),
            name,
            is_stdout: false,
        }
    }

    /// Returns true if the output is the same file as standard output.
    pub fn is_stdout(&self) -> bool {
        self.is_stdout
    }

    /// Flushes the buffer and gives the file its name.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be named.
    pub fn finish(self) -> anyhow::Result<()> {
        let written = match self.target {
            OutputTarget::Stream(mut stream) => stream.flush(),
            OutputTarget::File(file) => {
                file.into_inner().map_err(|error| error.into_error()).and_then(NewFile::persist)
            }
        };
        Ok(written.map_err(|error| cannot_write(&self.name, &error))?)
    }
}

/// Finds the destination at `path`. If it is a named pipe without reader, prints a notice and waits.
///
/// # Errors
/// The path cannot be written to.
pub fn find(path: &Path, console: &Console) -> anyhow::Result<Destination> {
    let name = path.display();
    let waiting = || console.say(&format!("{name} is a named pipe: waiting until somebody reads it"));
    Destination::find(path, waiting).with_context(|| format!("cannot write to {name}"))
}

/// Errors name the output.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.target {
            OutputTarget::Stream(stream) => stream.write(bytes),
            OutputTarget::File(file) => file.write(bytes),
        };
        written.map_err(|error| cannot_write(&self.name, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.target {
            OutputTarget::Stream(stream) => stream.flush(),
            OutputTarget::File(file) => file.flush(),
        };
        flushed.map_err(|error| cannot_write(&self.name, &error))
    }
}

fn cannot_write(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to {name}: {error}"))
}
