//! Finding and opening a recording.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use host::sys::poll::PollSet;
use host::sys::system::SystemName;
use model::Name;
use perfdata::features::Features;
use perfdata::read::{ReadAt, Reader, Source};

use super::lives::Lives;
use crate::console::Console;

/// Names of recordings in the current folder, in the order in which they are tried.
const DEFAULT_NAMES: [&str; 2] = ["prof.data", "perf.data"];

/// What to call a recording that comes from there.
const STANDARD_INPUT: &str = "standard input";

/// An open recording, and what to call it.
pub struct Input {
    /// Its records.
    pub reader: Reader,
    /// The path, or `standard input`.
    pub name: String,
    /// When the file was last written.
    pub written: Option<SystemTime>,
    /// When its processes began and ended, as far as is known: playing it tells the rest.
    pub lives: Arc<Lives>,
}

impl Input {
    fn new(reader: Reader, name: String) -> Self {
        let lives = Lives::default();
        lives.add_recorded(reader.features(), reader.endian());
        let written =
            fs::metadata(&name).ok().filter(Metadata::is_file).and_then(|file| file.modified().ok());
        Self { reader, name, written, lives: Arc::new(lives) }
    }
}

/// Opens `input`; else what is piped into us; else the recording in the current folder.
///
/// # Errors
/// Where there is none, where it cannot be read, or where it is no recording.
pub fn open(input: Option<&Path>, console: &Console) -> anyhow::Result<Input> {
    let (source, name) = match input.map(Path::to_owned).or_else(|| choose(default_path(), console)) {
        Some(path) if path == Path::new("-") => (standard_input()?, STANDARD_INPUT.to_owned()),
        Some(path) => (open_path(&path)?, path.display().to_string()),
        None => bail!(
            "there is no prof.data or perf.data in this folder; record one with `prof record -- COMMAND`, or name \
             one with `-i FILE`"
        ),
    };
    match Reader::open(source) {
        Ok(reader) => Ok(Input::new(reader, name)),
        Err(perfdata::Error::Empty) if name == STANDARD_INPUT => bail!(
            "nothing came through standard input; if that is a recording, let it be written there: prof record -o - -- \
             COMMAND | prof flame"
        ),
        Err(error) => Err(error).with_context(|| format!("cannot read {name}")),
    }
}

/// Reads a recording that is open already; `name` is what to call it.
///
/// # Errors
/// Where it is none.
pub fn of_file(file: File, name: &str) -> anyhow::Result<Input> {
    let source = Source::File(Box::new(FileBytes(file)));
    let reader = Reader::open(source).with_context(|| format!("cannot read {name}"))?;
    Ok(Input::new(reader, name.to_owned()))
}

/// Whether the recording was made here: then processes that still live can be asked for their files.
pub fn is_of_this_host(features: &Features) -> bool {
    let here = SystemName::read();
    let is = |name: &Name, here: &OsStr| name.as_bytes() == here.as_bytes();
    // A recording that was never finished names no host; it is mostly read where it broke off.
    features.hostname.as_ref().is_none_or(|name| is(name, &here.host))
        && features.os_release.as_ref().is_none_or(|name| is(name, &here.release))
}

/// The recording in the current folder.
fn default_path() -> Option<PathBuf> {
    DEFAULT_NAMES.iter().map(Path::new).find(|name| name.exists()).map(Path::to_owned)
}

fn open_path(path: &Path) -> anyhow::Result<Source> {
    let name = path.display();
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {name}"))?;
    if metadata.is_dir() {
        return open_directory(path);
    }
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    if metadata.is_file() {
        Ok(Source::File(Box::new(FileBytes(file))))
    } else {
        Ok(Source::Stream(Box::new(file)))
    }
}

/// The folder that `perf record --threads` writes: `data` with the header, and `data.0`, `data.1`, …
fn open_directory(path: &Path) -> anyhow::Result<Source> {
    let name = path.display();
    let open = |path: PathBuf| -> anyhow::Result<Box<dyn ReadAt>> {
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Box::new(FileBytes(file)))
    };
    let data = path.join("data");
    if !data.is_file() {
        bail!("{name} is a directory, and not one of `perf record --threads`: it has no file `data`");
    }
    let mut numbers: Vec<u32> = fs::read_dir(path)
        .with_context(|| format!("cannot read {name}"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("data.")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let parts =
        numbers.iter().map(|number| open(path.join(format!("data.{number}")))).collect::<Result<_, _>>()?;
    Ok(Source::Directory { data: open(data)?, parts })
}

/// How long a pipe may keep us waiting while there is also a file that could be meant.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to read where nothing is named: `-` for standard input, or `file`, the one in the current folder.
///
/// perf, too, reads a pipe without being told. But many a program is started with a pipe that nobody writes to; so with
/// a file at hand, a silent pipe is not waited for. Standard input that is a file counts if it is a recording
/// (`prof flame < perf.data`): any other belongs to the script that called us.
fn choose(file: Option<PathBuf>, console: &Console) -> Option<PathBuf> {
    let standard_input = Some(PathBuf::from("-"));
    let Ok(stdin) = fs::metadata("/proc/self/fd/0") else { return file };
    let is_pipe = stdin.file_type().is_fifo() || stdin.file_type().is_socket();
    let is_meant = if let (true, Some(file)) = (is_pipe, &file) {
        let came = has_data_soon(io::stdin().as_fd());
        if !came {
            let file = file.display();
            console.say(&format!("nothing comes through standard input: reading {file} (`-i -` would wait)"));
        }
        came
    } else if is_pipe {
        true
    } else {
        // Opened anew, so that nothing is taken from the one that we share with others.
        let mut magic = [0; 8];
        stdin.is_file()
            && File::open("/proc/self/fd/0").and_then(|mut file| file.read_exact(&mut magic)).is_ok()
            && (&magic == b"PERFILE2" || &magic == b"2ELIFREP")
    };
    if is_meant { standard_input } else { file }
}

fn has_data_soon(pipe: BorrowedFd<'_>) -> bool {
    let mut set = PollSet::default();
    let index = set.add(pipe);
    set.wait(Some(PATIENCE)).is_ok_and(|ready| ready > 0) && set.ready(index).readable
}

fn standard_input() -> anyhow::Result<Source> {
    let stdin = File::open("/proc/self/fd/0").context("cannot read standard input")?;
    let is_file = stdin.metadata().is_ok_and(|metadata| metadata.is_file());
    // A file can be read at any place; anything else only once, and only through the descriptor that we were given.
    if is_file {
        Ok(Source::File(Box::new(FileBytes(stdin))))
    } else {
        Ok(Source::Stream(Box::new(io::stdin())))
    }
}

/// A file, read at offsets: bytes that vanish while we read are missing bytes, not a signal.
struct FileBytes(File);

impl ReadAt for FileBytes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
