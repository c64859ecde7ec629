//! The containers that recorded processes run in, read from `/proc` when a process is first seen and when it executes a program.

use std::collections::HashMap;

use decoder::record::Record;
use host::procfs;
use model::{Name, Pid, Timestamp};
use perfdata::sections::MAX_ENTRIES;
use perfdata::sections::containers::{self, ContainerChange};
use rustc_hash::FxBuildHasher;
use tracker::container_of;

use super::MAX_PROCESSES;

/// The containers of live processes. A process that was not seen runs in its parent's container.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Containers {
    known: HashMap<Pid, Option<Name>, FxBuildHasher>,
}

impl Containers {
    /// Applies a record: a process may begin, execute a program, or end. Returns a change if a process runs in another container
    /// than was known.
    pub fn apply(&mut self, record: &Record<'_>) -> Option<ContainerChange> {
        match record {
            Record::Fork(task) if task.pid != task.parent_pid => match self.known.get(&task.parent_pid) {
                Some(container) => {
                    let container = container.clone();
                    self.known.insert(task.pid, container);
                    None
                }
                None => self.read_cgroup(task.pid, task.time),
            },
            Record::Exit(task) if task.pid.0 == task.tid.0 => {
                self.known.remove(&task.pid);
                None
            }
            // Container runtimes move a process into its container between fork and exec.
            Record::Comm(comm) if comm.exec || !self.known.contains_key(&comm.pid) => {
                self.read_cgroup(comm.pid, comm.sample_id.time.unwrap_or(Timestamp(0)))
            }
            Record::Mmap(map) if !self.known.contains_key(&map.pid) => {
                self.read_cgroup(map.pid, map.sample_id.time.unwrap_or(Timestamp(0)))
            }
            _ => None,
        }
    }

    /// Returns the container of a process; `None` for the host. Reads `/proc` for a process that was not seen before.
    pub fn container_of(&mut self, pid: Pid) -> Option<&Name> {
        if !self.known.contains_key(&pid) {
            self.read_cgroup(pid, Timestamp(0));
            // A process that has ended is not read again.
            self.known.entry(pid).or_default();
        }
        self.known.get(&pid)?.as_ref()
    }

    fn read_cgroup(&mut self, pid: Pid, since: Timestamp) -> Option<ContainerChange> {
        if self.known.len() >= MAX_PROCESSES {
            self.known.clear();
        }
        // A process that has ended already most likely ran in its parent's container.
        let cgroup = procfs::cgroup(pid).ok().filter(|_| pid.0 > 0)?;
        self.set(pid, since, container_of(&cgroup))
    }

    fn set(&mut self, pid: Pid, since: Timestamp, container: Option<Name>) -> Option<ContainerChange> {
        let before = self.known.insert(pid, container.clone()).flatten();
        (before != container).then_some(ContainerChange { pid, since, container })
    }
}

/// The changes of containers while recording. A process without a change runs in its parent's container.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ContainerTable {
    changes: Vec<ContainerChange>,
    containers: Containers,
}

impl ContainerTable {
    /// Applies a record of a sideband ring.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        let change = self.containers.apply(record);
        self.changes.extend(change.filter(|_| self.changes.len() < MAX_ENTRIES));
    }

    /// Removes the processes for which `keep` returns false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Pid) -> bool) {
        self.changes.retain(|change| keep(change.pid));
        self.containers.known.retain(|&pid, _| keep(pid));
    }

    /// Encodes the section [`perfdata::sections::id::CONTAINERS`]; `None` if it would be empty.
    pub(crate) fn to_section(&self) -> Option<Vec<u8>> {
        // Processes that inherited their container, for files of a series that begin after their parents ended.
        let mut inherited: Vec<_> =
            self.containers.known.iter().filter(|(_, container)| container.is_some()).collect();
        inherited.retain(|(pid, _)| !self.changes.iter().any(|change| change.pid == **pid));
        inherited.sort();
        let inherited = inherited.into_iter().map(|(&pid, container)| ContainerChange {
            pid,
            since: Timestamp(0),
            container: container.clone(),
        });
        let changes: Vec<ContainerChange> = inherited.chain(self.changes.iter().cloned()).collect();
        (!changes.is_empty()).then(|| containers::to_section(&changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::Task;
    use decoder::{Endian, SampleId};
    use host::sys::perf_event::own_pid;
    use model::Tid;

    fn fork(pid: i32, parent: i32) -> Record<'static> {
        Record::Fork(Task {
            pid: Pid(pid),
            parent_pid: Pid(parent),
            tid: Tid(pid),
            parent_tid: Tid(parent),
            time: Timestamp(5),
            sample_id: SampleId::default(),
        })
    }

    #[test]
    fn children_run_where_their_parents_do_until_something_else_is_seen() {
        let mut table = ContainerTable::default();
        let set = |table: &mut ContainerTable, pid, since, container| {
            let change = table.containers.set(Pid(pid), Timestamp(since), container);
            table.changes.extend(change);
        };
        let docker = Some(Name::from("docker:0123456789ab"));
        set(&mut table, -7, 3, docker.clone());
        table.apply(&fork(-8, -7));
        set(&mut table, -8, 6, docker.clone());
        assert_eq!(table.changes.len(), 1, "nothing new");
        set(&mut table, -8, 7, None);
        table.apply(&fork(-9, -7));
        // Ours is where it is.
        table.apply(&fork(own_pid().0, -100));
        assert!(table.containers.known.contains_key(&own_pid()));
        let section = table.to_section().unwrap();
        let read = containers::from_section(&section, Endian::NATIVE);
        let told = |pid: i32| read.iter().filter(move |change| change.pid == Pid(pid));
        assert_eq!(told(-7).map(|change| change.since.0).collect::<Vec<_>>(), [3]);
        assert_eq!(told(-8).next().map(|change| change.container.clone()), Some(None));
        assert_eq!(
            told(-9).next().map(|change| (change.since.0, change.container.clone())),
            Some((0, docker))
        );
        table.retain(|_| false);
        assert_eq!(table.to_section(), None);
    }
}
