//! The four shapes of a recording that is written.

use std::fs::File;
use std::io;

use host::files::NewFile;
use perfdata::write::{Compressor, FileWriter, PipeWriter, RecordWriter};

/// A file or a stream, compressed or not.
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

    /// Fails where the file has been deleted, or the folder that it is in.
    pub(crate) fn still_there(&mut self) -> io::Result<()> {
        match self.file() {
            Some(file) if file.is_deleted() => {
                let problem = "it was deleted while it was written";
                Err(io::Error::new(io::ErrorKind::NotFound, problem))
            }
            _ => Ok(()),
        }
    }
}
