//! The processes and threads that a recording attaches to.

use std::collections::HashSet;

use host::procfs::{self, Lineage};
use host::sys::perf_event::own_pid;
use host::sys::system;
use model::{Pid, Tid};

use crate::error::Error;
use crate::options::{Options, Target};

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
            let own = own_pid();
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

/// Returns those of `pids` that do not exist, or have ended.
///
/// # Errors
/// [`Error::NoSuchProcess`] where none exists.
pub(crate) fn ended_processes(pids: &[Pid]) -> Result<Vec<Pid>, Error> {
    let gone: Vec<Pid> = pids.iter().copied().filter(|&pid| procfs::threads(pid).is_err()).collect();
    match gone.first() {
        Some(&Pid(pid)) if gone.len() == pids.len() => Err(Error::NoSuchProcess { pid }),
        _ => Ok(gone),
    }
}

/// Returns the threads of all `pids`.
pub(crate) fn all_threads(pids: &[Pid]) -> Vec<Tid> {
    pids.iter().flat_map(|&pid| procfs::threads(pid).unwrap_or_default()).collect()
}

/// Returns the other threads of the processes of `tids`. Only the sideband event is opened on them: a library that one of them
/// loads is mapped for all.
pub(super) fn siblings(tids: &[Tid], options: &Options) -> Result<Vec<Tid>, Error> {
    // With a ring per thread, siblings have no ring for their records.
    if options.per_thread {
        return Ok(Vec::new());
    }
    let asked: HashSet<Tid> = tids.iter().copied().collect();
    let all = all_threads(&processes(options)?);
    Ok(all.into_iter().filter(|tid| !asked.contains(tid)).collect())
}

/// Returns `pids` and all their running descendants, without this process and its own. A process whose parent has ended counts as a
/// descendant if one of the others is the leader of its session.
pub(crate) fn with_descendants(pids: &[Pid]) -> Vec<Pid> {
    let all = procfs::processes().unwrap_or_default();
    let lineages: Vec<(Pid, Lineage)> =
        all.into_iter().filter_map(|pid| Some((pid, procfs::lineage(pid).ok()?))).collect();
    descend(pids, &lineages, own_pid())
}

fn descend(pids: &[Pid], lineages: &[(Pid, Lineage)], own: Pid) -> Vec<Pid> {
    let mut ours = vec![own];
    let mut next = 0;
    while let Some(&ancestor) = ours.get(next) {
        next += 1;
        let children = lineages.iter().filter(|(_, lineage)| lineage.parent == ancestor);
        ours.extend(children.map(|&(pid, _)| pid).filter(|pid| !pids.contains(pid)));
        ours.truncate(lineages.len() + 1);
    }
    let mut found = pids.to_vec();
    let mut known: HashSet<Pid> = pids.iter().copied().chain(ours).collect();
    let mut next = 0;
    while let Some(&ancestor) = found.get(next) {
        next += 1;
        for &(pid, lineage) in lineages {
            // Processes get into a session by birth alone, so that all its members descend from its leader.
            let is_child = lineage.parent == ancestor || lineage.session == ancestor;
            if is_child && known.insert(pid) {
                found.push(pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, parent and session.
    fn tree(of: &[(i32, i32, i32)]) -> Vec<(Pid, Lineage)> {
        let entry =
            |&(pid, parent, session)| (Pid(pid), Lineage { parent: Pid(parent), session: Pid(session) });
        of.iter().map(entry).collect()
    }

    fn below(pids: &[i32], of: &[(i32, i32, i32)]) -> Vec<i32> {
        let pids: Vec<Pid> = pids.iter().copied().map(Pid).collect();
        descend(&pids, &tree(of), Pid(99)).into_iter().map(|pid| pid.0).collect()
    }

    #[test]
    fn children_of_children_are_found_each_once() {
        let machine = [(1, 0, 1), (10, 1, 10), (11, 10, 10), (12, 11, 12), (20, 1, 20), (21, 20, 20)];
        assert_eq!(below(&[10], &machine), [10, 11, 12]);
        assert_eq!(below(&[11, 10], &machine), [11, 10, 12]);
        assert_eq!(below(&[77], &machine), [77]);
    }

    #[test]
    fn orphans_are_known_by_their_session() {
        // 13 and 14 forked twice; 14 lives under a user's service manager.
        let machine =
            [(1, 0, 1), (5, 1, 5), (10, 5, 10), (13, 1, 10), (14, 5, 10), (15, 13, 10), (30, 1, 30)];
        assert_eq!(below(&[10], &machine), [10, 13, 14, 15]);
        // The session's other members are not what a member has started.
        let shell = [(1, 0, 1), (40, 1, 40), (41, 40, 40), (42, 40, 40)];
        assert_eq!(below(&[41], &shell), [41]);
    }

    #[test]
    fn this_process_is_no_descendant() {
        let machine = [(1, 0, 1), (10, 1, 10), (99, 10, 10), (100, 99, 10), (11, 10, 10)];
        assert_eq!(below(&[10], &machine), [10, 11]);
    }

    #[test]
    fn loops_end() {
        assert_eq!(below(&[2], &[(2, 3, 2), (3, 2, 2)]), [2, 3]);
    }
}
