//! The names that will be gone soon, for the files of a recording that goes on: found by a process of its own, which ends in
//! time, has no rights to do harm, and whose memory goes with it.

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
use recorder::Completion;

use super::archive;
use crate::console::Console;
use crate::sandbox;

/// The name of the command.
const COMMAND: &str = "dump-names";
/// Bytes of memory that it may take: programs of the profiled may claim to need any amount.
const MAX_DATA_BYTES: u64 = 1 << 30;

/// Descriptors that the recorder has opened.
#[derive(Args)]
pub struct DumpNamesArguments {
    /// The recording, to be read and appended to
    recording: i32,
    /// Files that were kept open while recording
    held: Vec<i32>,
}

/// Appends the names to the recording, where there are any.
///
/// # Errors
/// Where it cannot be read, or has no room.
pub fn run(arguments: &DumpNamesArguments, console: &Console) -> anyhow::Result<ExitCode> {
    limits::lower_data_limit(MAX_DATA_BYTES)?;
    // The file is to be whole soon, and among a thousand busy threads it would take a minute.
    schedule::raise_priority();
    if !sandbox::is_switched_off()
        && let Err(error) = host_sandbox::confine_this_process(std::os::unix::process::parent_id())
    {
        console.detail(&format!("files are read with all our rights, as they cannot be given up: {error}"));
    }
    let recording = inherited::descriptor(arguments.recording).context("there is no recording")?;
    let held = arguments.held.iter().filter_map(|&number| inherited::descriptor_to_read(number).ok());
    let held = Arc::new(RetainedFiles::from_files(held));
    let length = recording.metadata()?.len();
    let input = Input::from_file(recording.try_clone()?, "the recording")?.with_held(&held);
    if let Some(names) = archive::vanishing_names(input, length, console) {
        recording.write_all_at(&names, length)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Has names added to the files of a recording.
pub struct DumpNames {
    held: Arc<Mutex<RetainedFiles>>,
}

impl DumpNames {
    /// From these files that are kept open, too, as they are at that time.
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
        let files: Vec<OwnedFd> =
            held.files().map(inherited::duplicate_for_child).collect::<std::io::Result<_>>()?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["--quiet", COMMAND]);
        command.args([&file].into_iter().chain(&files).map(|file| file.as_raw_fd().to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match timed_child::run_until(&mut command, times, when_late)? {
            Some(ExitStatus::Code(0)) => Ok(()),
            Some(ExitStatus::Code(code)) => anyhow::bail!("they cannot be read (code {code})"),
            Some(ExitStatus::Signal(signal)) => anyhow::bail!("reading them was ended by signal {signal}"),
            None => anyhow::bail!("there was no time to find them"),
        }
    }
}

impl Completion for DumpNames {
    fn complete(
        &mut self,
        file: &File,
        times: (Instant, Instant),
        when_late: &mut dyn FnMut(),
    ) -> Result<u64, String> {
        let said = |error: &anyhow::Error| format!("names that will be gone soon are not in it: {error:#}");
        let length = || file.metadata().map(|metadata| metadata.len());
        let before = length().map_err(|error| said(&error.into()))?;
        let result = self.append(file, times, when_late);
        match (result, length()) {
            (Ok(()), Ok(after)) => Ok(after.saturating_sub(before)),
            (result, _) => {
                // A part of them may be there.
                let cut = file.set_len(before).err();
                let error = result.err().or(cut.map(Into::into));
                Err(error.as_ref().map_or_else(|| "it cannot be looked at".to_owned(), said))
            }
        }
    }
}
