//! The four formats in which a recording is written.

use std::fs::File;
use std::io;

use host::files::NewFile;
use perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};

/// A writer of a file or a stream, compressed or not.
pub(crate) enum Output {
    File(FileWriter<NewFile>),
    CompressedFile(Box<Compressor<FileWriter<NewFile>>>),
    Stream(PipeWriter<File>),
    CompressedStream(Box<Compressor<PipeWriter<File>>>),
}

impl Output {
    pub(crate) fn records(&mut self) -> &mut dyn RecordWriter {
        match self {
            Self::File(writer) => writer,
            Self::CompressedFile(writer) => writer.as_mut(),
            Self::Stream(writer) => writer,
            Self::CompressedStream(writer) => writer.as_mut(),
        }
    }

    pub(crate) fn file(&mut self) -> Option<&mut NewFile> {
        match self {
            Self::File(writer) => Some(writer.get_mut()),
            Self::CompressedFile(writer) => Some(writer.get_mut().get_mut()),
            Self::Stream(_) | Self::CompressedStream(_) => None,
        }
    }

    /// Returns an error if the file, or the folder that it is in, has been deleted; never for streams.
    pub(crate) fn check_not_deleted(&mut self) -> io::Result<()> {
        match self.file() {
            Some(file) if file.is_deleted() => {
                let problem = "it was deleted while it was written";
                Err(io::Error::new(io::ErrorKind::NotFound, problem))
            }
            _ => Ok(()),
        }
    }
}
