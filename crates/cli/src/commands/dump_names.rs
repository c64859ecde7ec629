//! Adds names that may be gone later to the dumps of a running recording. A sandboxed process with a time limit looks them up, so that
//! its memory is released at its end.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use analysis::Notices;
use analysis::input::Input;
use anyhow::Context;
use clap::Args;
use host::objects::RetainedFiles;
use host::sys::spawn::ExitStatus;
use host::sys::{inherited, limits, sandbox as host_sandbox, schedule, timed_child};
use recorder::FileCompletion;

use super::archive;
use crate::console::Console;
use crate::sandbox;

/// The name of the hidden command.
const COMMAND: &str = "dump-names";
/// Limit of its private memory: profiled programs can contain debug information of any size.
const MAX_DATA_BYTES: u64 = 1 << 30;

/// The descriptors that the recorder has opened.
#[derive(Args)]
pub struct DumpNamesArguments {
    /// Descriptor of the recording, which is read and appended to
    recording: i32,
    /// Descriptors of retained files
    held: Vec<i32>,
    /// Descriptors of retained files that name only mappings of their inodes
    #[arg(long, num_args = 0..)]
    foreign: Vec<i32>,
}

/// Appends the names to the recording, if there are any.
///
/// # Errors
/// The recording cannot be read or written.
pub fn run(arguments: &DumpNamesArguments, console: &Console) -> anyhow::Result<ExitCode> {
    limits::lower_data_limit(MAX_DATA_BYTES)?;
    // Among a thousand busy threads, it would take a minute at normal priority.
    schedule::raise_priority();
    if !sandbox::is_switched_off()
        && let Err(error) = host_sandbox::confine_this_process(std::os::unix::process::parent_id())
    {
        console.detail(&format!("reading files without a sandbox: {error}"));
    }
    let recording = inherited::descriptor(arguments.recording).context("cannot open the recording")?;
    let open = |number: &i32| inherited::descriptor_to_read(*number).ok();
    let (held, foreign) = (arguments.held.iter().filter_map(open), arguments.foreign.iter().filter_map(open));
    let held = Arc::new(RetainedFiles::from_files(held, foreign));
    let length = recording.metadata()?.len();
    let input = Input::from_file(recording.try_clone()?, "the recording")?.with_held(&held);
    if let Some(names) = archive::vanishing_names(input, length, console) {
        recording.write_all_at(&names, length)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds names to the dumps of a recording.
pub struct DumpNames {
    held: Arc<Mutex<RetainedFiles>>,
}

impl DumpNames {
    /// Names come from these retained files, too, in their state at the time of each dump.
    pub fn new(held: Arc<Mutex<RetainedFiles>>) -> Self {
        Self { held }
    }

    fn append(
        &self,
        recording: &File,
        times: (Instant, Instant),
        when_late: &mut dyn FnMut(),
    ) -> anyhow::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.close_findable();
        let file = inherited::duplicate_for_child(recording)?;
        let duplicates = |foreign| -> std::io::Result<Vec<OwnedFd>> {
            held.files(foreign).map(inherited::duplicate_for_child).collect()
        };
        let (files, foreign) = (duplicates(false)?, duplicates(true)?);
        let number = |file: &OwnedFd| file.as_raw_fd().to_string();
        let mut command = Command::new("/proc/self/exe");
        command.args(["--quiet", COMMAND]);
        command.args([&file].into_iter().chain(&files).map(number));
        command.arg("--foreign").args(foreign.iter().map(number));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match timed_child::run_until(&mut command, times, when_late)? {
            Some(ExitStatus::Code(0)) => Ok(()),
            Some(ExitStatus::Code(code)) => {
                anyhow::bail!("the process that reads them failed (exit code {code})")
            }
            Some(ExitStatus::Signal(signal)) => {
                anyhow::bail!("signal {signal} ended the process that reads them")
            }
            None => anyhow::bail!("looking them up took too long"),
        }
    }
}

impl FileCompletion for DumpNames {
    fn complete(
        &mut self,
        file: &File,
        times: (Instant, Instant),
        when_late: &mut dyn FnMut(),
    ) -> Result<u64, String> {
        let said = |error: &anyhow::Error| format!("names that may be gone later are not in it: {error:#}");
        let length = || file.metadata().map(|metadata| metadata.len());
        let before = length().map_err(|error| said(&error.into()))?;
        let result = self.append(file, times, when_late);
        match (result, length()) {
            (Ok(()), Ok(after)) => Ok(after.saturating_sub(before)),
            (result, _) => {
                // Remove what was written in part.
                let cut = file.set_len(before).err();
                let error = result.err().or(cut.map(Into::into));
                Err(error.as_ref().map_or_else(|| "it cannot be looked at".to_owned(), said))
            }
        }
    }
}
