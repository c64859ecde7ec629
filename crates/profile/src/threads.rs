//! The threads of a profile, as far as they are kept apart.

use hashbrown::HashMap;
use model::{CpuId, Name, Pid, Tid};

use crate::Detail;
use crate::filter::HOST;

/// The number of a [`Thread`] in its [`Profile`](crate::Profile).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ThreadId(u32);

impl ThreadId {
    /// The position in [`Threads::list`].
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The thread at a position, which is one of a profile's.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }
}

/// A thread under one name. One that changes its name is another from then on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Thread {
    /// The name.
    pub comm: Name,
    /// Its numbers; absent where a profile counts by name only.
    pub ids: Option<(Pid, Tid)>,
    /// The process and its name, where a profile keeps processes apart.
    pub process: Option<(Pid, Name)>,
    /// The CPU that its samples were taken on, where a profile keeps CPUs apart and samples say so.
    pub cpu: Option<CpuId>,
    /// The container that it ran in, or the host, where a profile keeps them apart.
    pub container: Option<Name>,
    /// The path of its cgroup, where a profile keeps cgroups apart.
    pub cgroup: Option<Name>,
    /// The process, where this may be one of its several threads whose names differ in digits alone.
    pub pool: Option<Pid>,
    /// The number of the labels that another tool gave its samples, where a profile keeps them apart.
    pub labels: Option<u32>,
}

/// The name in place of a cgroup's path for samples of which that is not known.
const UNKNOWN_CGROUP: &str = "[unknown]";

/// The CPU, the container and the cgroup in which a sample was taken, and its labels.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Where {
    /// The CPU, if the sample says.
    pub cpu: Option<CpuId>,
    /// The container; `None` on the host.
    pub container: Option<Name>,
    /// The path of the cgroup, if the sample says.
    pub cgroup: Option<Name>,
    /// The number of its labels, which are kept apart by it.
    pub labels: Option<u32>,
}

/// Threads, numbered as they come.
#[derive(Clone, Default, Debug)]
pub struct Threads {
    detail: Detail,
    list: Vec<Thread>,
    ids: HashMap<Thread, ThreadId>,
}

impl Threads {
    /// No threads yet; `detail` says which are kept apart.
    pub fn new(detail: Detail) -> Self {
        Self { detail, ..Self::default() }
    }

    /// The threads. A [`ThreadId`] is a position in this list.
    pub fn list(&self) -> &[Thread] {
        &self.list
    }

    /// The number of the thread of a sample that was taken there, or of all of its name, as they are kept apart. `process` is
    /// asked for the name of the process where that matters.
    pub fn number_on(
        &mut self,
        comm: &Name,
        pid: Pid,
        tid: Tid,
        place: &Where,
        process: impl FnOnce() -> Name,
    ) -> ThreadId {
        let Detail { threads, pools, processes, cpus, containers, cgroups, samples: _ } = self.detail;
        // The name of the first thread is that of its process.
        let may_be_of_pool = pools && tid.0 != pid.0 && has_digit(comm);
        let thread = Thread {
            comm: comm.clone(),
            ids: threads.then_some((pid, tid)),
            process: (processes && !cpus && !containers && !cgroups).then(|| (pid, process())),
            cpu: place.cpu.filter(|_| cpus && !containers && !cgroups),
            container: (containers && !cgroups)
                .then(|| place.container.clone().unwrap_or_else(|| Name::from(HOST))),
            cgroup: cgroups.then(|| place.cgroup.clone().unwrap_or_else(|| Name::from(UNKNOWN_CGROUP))),
            pool: may_be_of_pool.then_some(pid),
            labels: place.labels,
        };
        let list = &mut self.list;
        *self.ids.entry(thread).or_insert_with_key(|thread| {
            list.push(thread.clone());
            // The kernel has at most 2^22 threads at a time; 2^32 names do not fit into memory.
            ThreadId((list.len() - 1) as u32)
        })
    }
}

/// Returns true if the name contains a digit, so that it may be a pool's.
fn has_digit(name: &Name) -> bool {
    name.as_bytes().iter().any(u8::is_ascii_digit)
}
