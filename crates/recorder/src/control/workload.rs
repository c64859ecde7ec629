//! The command of a recording, and the processes whose end is the recording's.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use host::sys::pidfd::PidFd;
use host::sys::spawn::{Child, Program, WaitingChild};
use model::Pid;

use super::Control;
use crate::error::{ENOENT, Error};
use crate::open::processes;
use crate::options::{Options, Target, Workload};

/// Makes the process that the command will be, which waits.
pub(crate) fn fork(workload: &Workload, control: &Control) -> Result<WaitingChild, Error> {
    // Some JITs write their symbol maps only under perf, which sets this (design §3).
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

/// Lets the child become the command.
pub(crate) fn start(waiting: WaitingChild, options: &Options) -> Result<Child, Error> {
    waiting.start().map_err(|errno| {
        let program = options.workload.as_ref().and_then(|workload| workload.words.first());
        let name = program.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        match errno.raw_os_error() {
            // A file that is there is a script or a program whose interpreter is not.
            Some(ENOENT) if name.contains('/') && Path::new(&name).exists() => Error::NoInterpreter { name },
            Some(ENOENT) => Error::CommandNotFound { name },
            _ => Error::NotExecutable { name, errno },
        }
    })
}

/// The processes and threads whose end is the recording's.
pub(crate) fn watched(options: &Options, child: Option<&Child>) -> Vec<PidFd> {
    let watch = |pid: Pid| PidFd::open(pid).ok();
    // One that ended a moment ago has nothing to wait for.
    match (&options.target, child) {
        (_, Some(child)) => watch(child.pid()).into_iter().collect(),
        (Target::Threads(tids), None) => {
            let threads: Vec<PidFd> = tids.iter().filter_map(|&tid| PidFd::open_thread(tid).ok()).collect();
            if !threads.is_empty() {
                return threads;
            }
            // Before Linux 6.9 only processes can be waited for.
            processes(options).unwrap_or_default().into_iter().filter_map(watch).collect()
        }
        _ => processes(options).unwrap_or_default().into_iter().filter_map(watch).collect(),
    }
}
