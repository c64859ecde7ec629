//! The processes and threads that a recording attaches to.

use host::procfs;
use host::sys::{perf_event, system};
use model::{Pid, Tid};

use super::attach::all_threads;
use super::descendants::with_descendants;
use crate::error::Error;
use crate::options::{Options, Target};

/// Returns the threads of the target on which events are opened.
pub(super) fn threads_of(options: &Options) -> Result<Vec<Tid>, Error> {
    match &options.target {
        // The child that becomes the command, whose number is not needed here.
        Target::Command => Ok(vec![Tid(0)]),
        Target::Threads(tids) => Ok(tids.clone()),
        _ => Ok(all_threads(&processes(options)?)),
    }
}

/// Returns the processes that are attached to; none where the target is a command, a cgroup or the system.
pub(crate) fn processes(options: &Options) -> Result<Vec<Pid>, Error> {
    let first = match &options.target {
        Target::Processes(pids) => pids.first().map(|pid| pid.0),
        Target::Threads(tids) => tids.first().map(|tid| tid.0),
        _ => None,
    };
    if let Some(pid) = first.filter(|_| !system::shows_our_pids()) {
        return Err(Error::ForeignProc { pid });
    }
    match &options.target {
        Target::Processes(pids) if options.with_children => Ok(with_descendants(pids)),
        Target::Processes(pids) => Ok(pids.clone()),
        Target::User(user) => {
            let own = perf_event::own_pid();
            let all = procfs::processes()
                .map_err(|errno| Error::System { what: "cannot read which processes run", errno })?;
            let theirs = |pid: &Pid| procfs::status(Tid(pid.0)).is_ok_and(|status| status.user == *user);
            let pids: Vec<Pid> = all.into_iter().filter(|&pid| pid != own).filter(theirs).collect();
            if pids.is_empty() { Err(Error::NoProcessOf { user: *user }) } else { Ok(pids) }
        }
        Target::Threads(tids) => {
            let mut pids: Vec<Pid> = tids
                .iter()
                .filter_map(|&tid| procfs::status(tid).ok())
                .map(|status| status.process)
                .collect();
            pids.sort_unstable();
            pids.dedup();
            match (pids.is_empty(), tids.first()) {
                (true, Some(tid)) => Err(Error::NoSuchProcess { pid: tid.0 }),
                _ => Ok(pids),
            }
        }
        _ => Ok(Vec::new()),
    }
}
