//! Finding the recording that is meant: the one named, what is piped into us, or the one in the current folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::Notices;
use analysis::input::Input;
use anyhow::{Context, bail};
use host::sys::poll::PollSet;

use crate::console::Console;

/// Names of recordings in the current folder, in the order in which they are tried.
const DEFAULT_NAMES: [&str; 2] = ["prof.data", "perf.data"];

/// The message that there is nothing to read, with what to type.
pub const NO_RECORDING: &str = "there is no prof.data or perf.data in this folder; record one with `prof record -- COMMAND`, \
                                or name one with `-i FILE`";

/// The name that messages have for a recording that comes from there.
const STANDARD_INPUT: &str = "standard input";

/// Opens `input`; else what is piped into us; else the recording in the current folder.
///
/// # Errors
/// Where there is none, where it cannot be read, or where it is no recording.
pub fn open(input: Option<&Path>, console: &Console) -> anyhow::Result<Input> {
    match input.map(Path::to_owned).or_else(|| choose_source(default_path(), console)) {
        Some(path) if path == Path::new("-") => match standard_input()? {
            Err(analysis::Error::Read { source: perfdata::Error::Empty, .. }) => bail!(
                "nothing came through standard input; if that is a recording, let it be written there: prof record -o - \
                 -- COMMAND | prof flame"
            ),
            opened => Ok(opened?),
        },
        Some(path) => Ok(Input::open(&path)?),
        None => bail!(NO_RECORDING),
    }
}

/// Opens standard input. A file can be read at any offset; anything else only once, and only through the descriptor that we
/// were given.
fn standard_input() -> anyhow::Result<Result<Input, analysis::Error>> {
    let stdin = File::open("/proc/self/fd/0").context("cannot read standard input")?;
    let is_file = stdin.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok(if is_file {
        Input::from_file(stdin, STANDARD_INPUT)
    } else {
        Input::from_stream(Box::new(io::stdin()), STANDARD_INPUT)
    })
}

/// The recording in the current folder.
pub fn default_path() -> Option<PathBuf> {
    DEFAULT_NAMES.iter().map(Path::new).find(|name| name.exists()).map(Path::to_owned)
}

/// The longest time to wait for a pipe while there is also a file that could be meant.
const PIPE_TIMEOUT: Duration = Duration::from_secs(2);

/// Chooses what to read where nothing is named: `-` for standard input, or `file`, the one in the current folder.
///
/// perf, too, reads a pipe without being told. But many a program is started with a pipe that nobody writes to; so with
/// a file at hand, a silent pipe is not waited for. Standard input that is a file counts if it is a recording
/// (`prof flame < perf.data`): any other belongs to the script that called us.
fn choose_source(file: Option<PathBuf>, console: &Console) -> Option<PathBuf> {
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
    set.wait(Some(PIPE_TIMEOUT)).is_ok_and(|ready| ready > 0) && set.ready(index).readable
}
