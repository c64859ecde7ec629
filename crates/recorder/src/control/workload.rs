//! Starts the command of a recording, and finds the processes whose end ends the recording.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use host::process_handle::ProcessHandle;
use host::sys::spawn::{Child, Program, WaitingChild};
use model::Pid;

use super::Control;
use crate::error::{ENOENT, Error};
use crate::open::processes;
use crate::options::{Options, Target, Workload};

/// Forks the process that becomes the command; it waits until [`start`].
pub(crate) fn fork(workload: &Workload, control: &Control) -> Result<WaitingChild, Error> {
    // Some JITs write their symbol maps only if this is set, as perf sets it.
    let buildid_dir = std::env::var_os("PERF_BUILDID_DIR")
        .or_else(|| std::env::home_dir().map(|home| home.join(".debug").into_os_string()))
        .unwrap_or_else(|| ".debug".into());
    let own = (OsStr::new("PERF_BUILDID_DIR"), buildid_dir.as_os_str());
    let asked = workload.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let variables: Vec<(&OsStr, &OsStr)> = asked.chain([own]).collect();
    let program = Program::new(&workload.words, &variables).map_err(Error::Spawn)?;
    let stderr = io::stderr();
    let stdout = workload.output_to_stderr.then(|| stderr.as_fd());
    program.fork(control.mask_for_command(), stdout).map_err(Error::Spawn)
}

/// Lets the waiting child execute the command.
pub(crate) fn start(waiting: WaitingChild, options: &Options) -> Result<Child, Error> {
    waiting.start().map_err(|errno| {
        let program = options.workload.as_ref().and_then(|workload| workload.words.first());
        let name = program.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        match errno.raw_os_error() {
            // The file exists, so its interpreter is what is missing.
            Some(ENOENT) if name.contains('/') && Path::new(&name).exists() => Error::NoInterpreter { name },
            Some(ENOENT) => Error::CommandNotFound { name },
            _ => Error::NotExecutable { name, errno },
        }
    })
}

/// Refers to the processes and threads whose end ends the recording: the command's process `child`, or else those of the target.
pub(crate) fn watched(options: &Options, child: Option<Pid>) -> Vec<ProcessHandle> {
    match (&options.target, child) {
        (_, Some(child)) => vec![ProcessHandle::of_process(child)],
        (Target::Threads(tids), None) => tids.iter().map(|&tid| ProcessHandle::of_thread(tid)).collect(),
        _ => processes(options).unwrap_or_default().into_iter().map(ProcessHandle::of_process).collect(),
    }
}
