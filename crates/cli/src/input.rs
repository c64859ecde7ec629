//! Finds and reads the input: the recording that is named, standard input, or the recording in the current folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::input::Input;
use analysis::{Analysis, Notices, Request};
use anyhow::{Context, bail};
use host::sys::poll::PollSet;
use model::Name;

use crate::console::Console;

/// Default names of recordings in the current folder, in the order in which they are tried.
const DEFAULT_NAMES: [&str; 2] = ["prof.data", "perf.data"];

/// The error if no recording is found.
pub const NO_RECORDING: &str = "there is no prof.data or perf.data in this folder; try: prof record -- COMMAND, or name a \
                                recording with -i FILE";

/// The name of a recording from standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// Opens `input`, or else standard input if a recording is piped into it, or else the recording in the current folder.
///
/// # Errors
/// There is no recording, or it cannot be read.
pub fn open(input: Option<&Path>, console: &Console) -> anyhow::Result<Input> {
    match input.map(Path::to_owned).or_else(|| choose_source(default_path(), console)) {
        Some(path) if path == Path::new("-") => match standard_input()? {
            Err(analysis::Error::Read { source: perfdata::Error::Empty, .. }) => bail!(
                "standard input is empty; to pipe a recording, try: prof record -o - -- COMMAND | prof flame"
            ),
            opened => Ok(opened?),
        },
        Some(path) if !path.exists() => bail!(no_such_file(&path)),
        Some(path) => Ok(Input::open(&path)?),
        None => bail!(NO_RECORDING),
    }
}

/// Says that a recording is not there, and what is.
fn no_such_file(path: &Path) -> String {
    let there = default_path().map(|there| format!("this folder has {}", there.display()));
    let there = there.unwrap_or_else(|| "try: prof record -- COMMAND".to_owned());
    format!(
        "cannot read {}: No such file or directory; {there}",
        Name::from(path.as_os_str().as_encoded_bytes())
    )
}

/// Reads a recording. `act` is the verb of the error message if it has no usable samples: "cannot draw".
///
/// # Errors
/// As [`Analysis::read`].
pub fn analyse(
    input: Input,
    request: &Request<'_>,
    act: &str,
    notices: &dyn Notices,
) -> anyhow::Result<Analysis> {
    let cannot = format!("cannot {act} {}", input.name);
    match Analysis::read(input, request, notices) {
        Err(error) if error.is_about_samples() => Err(error).context(cannot),
        read => Ok(read?),
    }
}

/// Opens standard input. A file is reopened, so that it can be read at any offset. A stream is read through the inherited descriptor.
fn standard_input() -> anyhow::Result<Result<Input, analysis::Error>> {
    let stdin = File::open("/proc/self/fd/0").context("cannot read standard input")?;
    let is_file = stdin.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok(if is_file {
        Input::from_file(stdin, STANDARD_INPUT)
    } else {
        Input::from_stream(Box::new(io::stdin()), STANDARD_INPUT)
    })
}

/// Returns the path of the recording in the current folder.
pub fn default_path() -> Option<PathBuf> {
    DEFAULT_NAMES.iter().map(Path::new).find(|name| name.exists()).map(Path::to_owned)
}

/// How long to wait for data from a pipe if the current folder has a recording, too.
const PIPE_TIMEOUT: Duration = Duration::from_secs(2);

/// Chooses the input if none is named: `-` for standard input, or `file`, the recording in the current folder.
///
/// Like perf, reads from a pipe without `-i -`. But many programs are started with a pipe to which nobody writes, so if there is a
/// file, a pipe is read only if it has data within [`PIPE_TIMEOUT`]. If standard input is a file, it is read if it is a recording
/// (`prof flame < perf.data`); any other file belongs to the calling script.
fn choose_source(file: Option<PathBuf>, console: &Console) -> Option<PathBuf> {
    let standard_input = Some(PathBuf::from("-"));
    let Ok(stdin) = fs::metadata("/proc/self/fd/0") else { return file };
    let is_pipe = stdin.file_type().is_fifo() || stdin.file_type().is_socket();
    let is_meant = if let (true, Some(file)) = (is_pipe, &file) {
        let came = has_data_soon(io::stdin().as_fd());
        if !came {
            let file = file.display();
            console.say(&format!("standard input has no data: reading {file} (-i - waits for it)"));
        }
        came
    } else if is_pipe {
        true
    } else {
        // Reopened, so that the position of the shared descriptor does not move.
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
