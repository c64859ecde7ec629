//! Which containers the recorded processes ran in: looked up when a process is seen first, and when it executes a program.

use std::collections::HashMap;

use decoder::record::Record;
use host::procfs;
use model::{Name, Pid, Timestamp};
use perfdata::sections::containers::{self, ContainerChange, MOST};
use rustc_hash::FxBuildHasher;
use tracker::container_of;

/// More processes are not remembered: those whose ends were lost are forgotten with all others then.
const MOST_KNOWN: usize = 1 << 16;

/// The containers of the processes that live, as far as they were seen. One that was not seen runs where its parent does.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Containers {
    known: HashMap<Pid, Option<Name>, FxBuildHasher>,
}

impl Containers {
    /// Takes a record: of a process that is new, that executes a program, or that ends. Returns the container of a process that runs in
    /// another one than was known from then on.
    pub fn take(&mut self, record: &Record<'_>) -> Option<ContainerChange> {
        match record {
            Record::Fork(task) if task.pid != task.parent_pid => match self.known.get(&task.parent_pid) {
                Some(container) => {
                    let container = container.clone();
                    self.known.insert(task.pid, container);
                    None
                }
                None => self.look_at(task.pid, task.time),
            },
            Record::Exit(task) if task.pid.0 == task.tid.0 => {
                self.known.remove(&task.pid);
                None
            }
            // It may have been put into a container between fork and exec: that is how containers begin.
            Record::Comm(comm) if comm.exec || !self.known.contains_key(&comm.pid) => {
                self.look_at(comm.pid, comm.sample_id.time.unwrap_or(Timestamp(0)))
            }
            Record::Mmap(map) if !self.known.contains_key(&map.pid) => {
                self.look_at(map.pid, map.sample_id.time.unwrap_or(Timestamp(0)))
            }
            _ => None,
        }
    }

    /// Returns the container of a process, which is looked at where it was not seen before; `None` for the host.
    pub fn of(&mut self, pid: Pid) -> Option<&Name> {
        if !self.known.contains_key(&pid) {
            self.look_at(pid, Timestamp(0));
            // One that has ended is not looked for again.
            self.known.entry(pid).or_default();
        }
        self.known.get(&pid)?.as_ref()
    }

    fn look_at(&mut self, pid: Pid, since: Timestamp) -> Option<ContainerChange> {
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        // One that has ended already ran where its parent did, most likely.
        let cgroup = procfs::cgroup(pid).ok().filter(|_| pid.0 > 0)?;
        self.set(pid, since, container_of(&cgroup))
    }

    fn set(&mut self, pid: Pid, since: Timestamp, container: Option<Name>) -> Option<ContainerChange> {
        let before = self.known.insert(pid, container.clone()).flatten();
        (before != container).then_some(ContainerChange { pid, since, container })
    }
}

/// The processes in containers that were seen while recording. One that is not in it runs where its parent did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ContainerTable {
    changes: Vec<ContainerChange>,
    containers: Containers,
}

impl ContainerTable {
    /// Takes a record of a sideband ring.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        let change = self.containers.take(record);
        self.changes.extend(change.filter(|_| self.changes.len() < MOST));
    }

    /// Forgets the processes for which `keep` does not hold.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Pid) -> bool) {
        self.changes.retain(|change| keep(change.pid));
        self.containers.known.retain(|&pid, _| keep(pid));
    }

    /// The bytes of the section ([`perfdata::sections::id::CONTAINERS`]); `None` where it would be empty.
    pub(crate) fn to_section(&self) -> Option<Vec<u8>> {
        // Those that only their parents tell of, for recordings that begin after these.
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
        table.take(&fork(-8, -7));
        set(&mut table, -8, 6, docker.clone());
        assert_eq!(table.changes.len(), 1, "nothing new");
        set(&mut table, -8, 7, None);
        table.take(&fork(-9, -7));
        // Ours is where it is.
        table.take(&fork(own_pid().0, -100));
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
