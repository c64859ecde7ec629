//! An open recording: a file, a folder of `perf record --threads`, a stream, or a profile of another tool; and what its header and records say of processes,
//! build ids and damage.

pub(crate) mod listed_build_ids;
mod other_tools;
pub mod process_lifetimes;
pub(crate) mod undecodable_records;

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use host::objects::{RecordedFiles, RetainedFiles, file_author};
use host::sys::identity::NOBODY;
use host::sys::system::SystemName;
use model::Name;
use perfdata::features::Features;
use perfdata::read::{ReadAt, Reader, Source};

use crate::Error;
use crate::embedded::jit_placements;
use crate::foreign::{self, ForeignProfile};
use crate::generated_code::jit_dumps::JitDumps;
use process_lifetimes::ProcessLifetimes;

/// An open recording, and what to call it.
pub struct Input {
    /// Reads its records.
    pub reader: Reader,
    /// Its name in messages: mostly its path.
    pub name: String,
    /// The time at which the file was last written; `None` for a stream.
    pub written: Option<SystemTime>,
    /// The lifetimes of its processes, as far as its header tells them; [`replay`](crate::replay::replay) adds the rest.
    pub lifetimes: Arc<ProcessLifetimes>,
    /// The jitdumps of its processes; filled by [`replay`](crate::replay::replay).
    pub dumps: Arc<JitDumps>,
    /// Files of its processes that were kept open while recording.
    pub held: Arc<RetainedFiles>,
    /// The contents that it says mapped files had; filled by [`replay`](crate::replay::replay).
    pub files: Arc<RecordedFiles>,
    /// The user who answers for the lines that it names: its owner. Root's recordings carry what the files of other users said, so
    /// nobody answers for these, nor for a stream.
    pub author: u32,
    /// The profile, if this is one of another tool: `reader` has no records then.
    pub foreign: Option<Box<ForeignProfile>>,
}

impl Input {
    /// Opens the recording at `path`: a file, a folder that `perf record --threads` wrote, or a pipe.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NotADirectoryOfParts`], [`Error::Read`] where it is no recording.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let (source, author) = open_path(path, &name)?;
        Self::from_source(source, name, author)
    }

    /// Reads a file that is open already, at offsets. `name` is what to call it.
    ///
    /// # Errors
    /// [`Error::Read`] where it is no recording.
    pub fn from_file(file: File, name: &str) -> Result<Self, Error> {
        let author = author_of(&file);
        Self::from_source(Source::File(Box::new(file)), name.to_owned(), author)
    }

    /// Reads a stream in the form for pipes, or a file's bytes that come through one. `name` is what to call it.
    ///
    /// # Errors
    /// [`Error::Read`] where it is no recording.
    pub fn from_stream(stream: Box<dyn Read + Send>, name: &str) -> Result<Self, Error> {
        Self::from_source(Source::Stream(stream), name.to_owned(), NOBODY)
    }

    /// Has files of its processes that were kept open while recording.
    #[must_use]
    pub fn with_held(self, held: &Arc<RetainedFiles>) -> Self {
        Self { held: Arc::clone(held), ..self }
    }

    /// Accepts recordings only.
    ///
    /// # Errors
    /// [`Error::NotARecording`] if this is a profile of another tool.
    pub fn recording_only(self) -> Result<Self, Error> {
        match &self.foreign {
            Some(foreign) => Err(Error::NotARecording { name: self.name, format: foreign.format }),
            None => Ok(self),
        }
    }

    fn from_source(source: Source, name: String, author: u32) -> Result<Self, Error> {
        let (source, foreign) = other_tools::parse(source, &name)?;
        let reader = match (&foreign, source) {
            (Some(foreign), _) => Reader::without_records(foreign::events(foreign)),
            (None, source) => {
                Reader::open(source).map_err(|source| Error::Read { name: name.clone(), source })?
            }
        };
        let lifetimes = ProcessLifetimes::default();
        lifetimes.add_recorded(reader.features(), reader.endian());
        let written =
            fs::metadata(&name).ok().filter(Metadata::is_file).and_then(|file| file.modified().ok());
        let lifetimes = Arc::new(lifetimes);
        let dumps = JitDumps::new(is_of_this_host(reader.features()), Some(Arc::clone(&lifetimes)))
            .with_embedded(jit_placements::read(&reader));
        Ok(Self {
            reader,
            name,
            written,
            lifetimes,
            dumps: Arc::new(dumps),
            held: Arc::default(),
            files: Arc::default(),
            author,
            foreign: foreign.map(Box::new),
        })
    }
}

/// Returns true if the recording was made here: then processes that still live can be asked for their files.
pub fn is_of_this_host(features: &Features) -> bool {
    let here = SystemName::read();
    let is = |name: &Name, here: &OsStr| name.as_bytes() == here.as_bytes();
    // A recording that was never finished names no host; it is mostly read where it broke off.
    features.hostname.as_ref().is_none_or(|name| is(name, &here.host))
        && features.os_release.as_ref().is_none_or(|name| is(name, &here.release))
}

fn author_of(recording: &File) -> u32 {
    match file_author(recording) {
        0 => NOBODY,
        author => author,
    }
}

fn open_path(path: &Path, name: &str) -> Result<(Source, u32), Error> {
    let failed = |source| Error::Open { name: name.to_owned(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return open_directory(path, name);
    }
    let file = File::open(path).map_err(failed)?;
    let author = author_of(&file);
    let is_file = metadata.is_file();
    Ok((if is_file { Source::File(Box::new(file)) } else { Source::Stream(Box::new(file)) }, author))
}

/// Opens the folder that `perf record --threads` writes: `data` with the header, and `data.0`, `data.1`, …
fn open_directory(path: &Path, name: &str) -> Result<(Source, u32), Error> {
    let open = |path: PathBuf| -> Result<File, Error> {
        let failed = |source| Error::Open { name: path.display().to_string(), source };
        File::open(&path).map_err(failed)
    };
    let data = path.join("data");
    if !data.is_file() {
        return Err(Error::NotADirectoryOfParts { name: name.to_owned() });
    }
    let mut numbers: Vec<u32> = fs::read_dir(path)
        .map_err(|source| Error::Open { name: name.to_owned(), source })?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("data.")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let boxed = |file: File| -> Box<dyn ReadAt> { Box::new(file) };
    let parts = numbers.iter().map(|number| open(path.join(format!("data.{number}"))).map(boxed));
    let parts = parts.collect::<Result<_, _>>()?;
    let data = open(data)?;
    let author = author_of(&data);
    Ok((Source::Directory { data: boxed(data), parts }, author))
}
