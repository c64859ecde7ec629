//! What recorded processes are parts of: their programs, their cgroups, and how they name their services. A worker reads it from `/proc`
//! when a process is first seen and when it executes a program.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use decoder::record::Record;
use host::process_memory;
use host::procfs;
use model::{Name, Pid, Timestamp};
use perfdata::sections::MAX_ENTRIES;
use perfdata::sections::resources::{self, MAX_TEXT_BYTES, ProcessResource, ResourceChange};
use rustc_hash::FxBuildHasher;

use super::MAX_PROCESSES;
use super::users::{ProcessUsers, user_of};
use crate::work_queue::{FINISH_TIME, Orders, WorkQueue};

/// Maximum number of processes that are read per second. Reading one takes 30 µs and two switches of threads; programs that are started by the
/// hundred seldom name services of their own, and have those of their parents.
const MAX_READS_PER_SECOND: u32 = 100;
/// Maximum number of processes that are asked again, at the end of a recording, whether they have published a context since they began.
const MAX_ASKED_AT_END: usize = 256;
/// Time after which what a process is a part of is read again, because it may have published a context since.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// The services, programs and cgroups of recorded processes. Clones share it. The default reads nothing.
#[derive(Clone, Default, Debug)]
pub struct ProcessResources(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// True to read what processes say of their services.
    reads_services: bool,
    table: Mutex<Table>,
    /// The worker, which starts with the first request; `None` if it cannot be started.
    worker: OnceLock<Option<WorkQueue<Order>>>,
}

/// An order to the worker.
#[derive(Debug)]
enum Order {
    /// Reads what a process is a part of since a time.
    Read(Pid, Timestamp),
    /// Reads the context that a process has published.
    ReadContext(Pid),
}

#[derive(Default, Debug)]
struct Table {
    /// Live processes that were read, or inherit from one that was.
    known: HashMap<Pid, Known, FxBuildHasher>,
    /// Live processes that the worker has been asked for.
    requested: HashSet<Pid, FxBuildHasher>,
    /// All changes, for a file; `None` if nobody writes one.
    changes: Option<Vec<ResourceChange>>,
    /// The users of processes; `None` if nobody asks for them.
    users: Option<ProcessUsers>,
}

#[derive(Clone, Debug)]
struct Known {
    resource: ProcessResource,
    since: Timestamp,
    read_at: Instant,
}

impl ProcessResources {
    /// Makes an empty table. Reads what processes say of their services if `reads_services`.
    pub(crate) fn new(reads_services: bool) -> Self {
        let (table, worker) = Default::default();
        Self(Some(Arc::new(Shared { reads_services, table, worker })))
    }

    /// Notes the users of processes from now on, for [`Self::user_of`].
    pub(crate) fn note_users(&self) {
        if let Some(shared) = &self.0 {
            let users = ProcessUsers::of_all();
            shared.lock().users = Some(users);
        }
    }

    /// Keeps all changes from now on, for [`Self::to_section`].
    pub(crate) fn keep_changes(&self) {
        if let Some(shared) = &self.0 {
            shared.lock().changes.get_or_insert_default();
        }
    }

    /// Applies a record: a process may begin, execute a program, or end. Requests what is not known.
    pub(crate) fn apply(&self, record: &Record<'_>) {
        let Some(shared) = &self.0 else { return };
        match record {
            Record::Fork(task) if task.pid != task.parent_pid => {
                let mut table = shared.lock();
                match table.known.get(&task.parent_pid) {
                    Some(parent) => {
                        // A context is not inherited.
                        let resource = ProcessResource { context: None, ..parent.resource.clone() };
                        table.requested.insert(task.pid);
                        table.set(task.pid, task.time, resource);
                    }
                    None => drop(table.requested.remove(&task.pid)),
                }
            }
            Record::Comm(comm) => {
                let mut table = shared.lock();
                if comm.exec || !table.requested.contains(&comm.pid) {
                    let time = comm.sample_id.time.unwrap_or(Timestamp(0));
                    table.forget_program(comm.pid, time);
                    table.requested.insert(comm.pid);
                    drop(table);
                    shared.send(Order::Read(comm.pid, time));
                }
            }
            Record::Mmap(map) => self.request(map.pid, map.sample_id.time.unwrap_or(Timestamp(0))),
            Record::Exit(task) if task.pid.0 == task.tid.0 => shared.lock().forget(task.pid),
            _ => {}
        }
    }

    /// Applies a record that ends what is known of a process, without requesting anything: for a view that requests what it has samples of.
    pub fn forget_by(&self, record: &Record<'_>) {
        let Some(shared) = &self.0 else { return };
        if let Record::Fork(_) | Record::Exit(_) = record
            && let Some(users) = &mut shared.lock().users
        {
            users.apply(record);
        }
        match record {
            Record::Comm(comm) if comm.exec => shared.lock().forget(comm.pid),
            Record::Fork(task) if task.pid != task.parent_pid => shared.lock().forget(task.pid),
            _ => {}
        }
    }

    /// Has the worker read what a process is a part of since `time`, unless it is known and young. Does not wait.
    pub fn request(&self, pid: Pid, time: Timestamp) {
        let Some(shared) = &self.0 else { return };
        let mut table = shared.lock();
        let is_old = |known: &Known| known.read_at.elapsed() > REFRESH_INTERVAL;
        let is_new = table.requested.insert(pid);
        let is_due = is_new || table.changes.is_none() && table.known.get(&pid).is_some_and(is_old);
        if !is_due || pid.0 < 0 {
            return;
        }
        if let Some(known) = table.known.get_mut(&pid) {
            known.read_at = Instant::now();
        }
        if table.requested.len() > MAX_PROCESSES {
            (table.known, table.requested) = Default::default();
        }
        drop(table);
        shared.send(Order::Read(pid, time));
    }

    /// Returns what a process is a part of; `None` if that is not known (yet).
    pub fn resource_of(&self, pid: Pid) -> Option<ProcessResource> {
        let shared = self.0.as_ref()?;
        shared.lock().known.get(&pid).map(|known| known.resource.clone())
    }

    /// Returns the number of a process's real user; `None` if that is not known, or not noted ([`crate::Options::users`]).
    pub fn user_of(&self, pid: Pid) -> Option<u32> {
        self.0.as_ref()?.lock().users.as_ref()?.of(pid)
    }

    /// Forgets what was not requested for two minutes. What is requested is read again every minute, so that it stays.
    pub fn forget_old(&self) {
        let Some(shared) = &self.0 else { return };
        let Table { known, requested, users, .. } = &mut *shared.lock();
        users.iter_mut().for_each(ProcessUsers::forget_old);
        known.retain(|_, known| known.read_at.elapsed() < 2 * REFRESH_INTERVAL);
        requested.retain(|pid| known.contains_key(pid));
    }

    /// Removes the processes for which `keep` returns false.
    pub fn retain(&self, mut keep: impl FnMut(Pid) -> bool) {
        let Some(shared) = &self.0 else { return };
        let mut table = shared.lock();
        table.known.retain(|&pid, _| keep(pid));
        table.requested.retain(|&pid| keep(pid));
        if let Some(changes) = &mut table.changes {
            changes.retain(|change| keep(change.pid));
        }
    }

    /// Waits for what was requested, and reads the contexts that processes have published since they began. Takes a second at most.
    pub(crate) fn finish(&self) {
        let Some(shared) = &self.0 else { return };
        let Some(Some(worker)) = shared.worker.get() else { return };
        let mut begun: Vec<(Timestamp, Pid)> = {
            let table = shared.lock();
            let begun =
                table.known.iter().filter(|(_, known)| known.since.0 > 0 && known.resource.context.is_none());
            begun.map(|(&pid, known)| (known.since, pid)).collect()
        };
        begun.sort_unstable_by_key(|&(since, pid)| std::cmp::Reverse((since, pid)));
        let contexts = begun.into_iter().take(MAX_ASKED_AT_END).map(|(_, pid)| Order::ReadContext(pid));
        worker.finish(contexts.filter(|_| shared.reads_services), Instant::now() + FINISH_TIME);
    }

    /// Encodes the section [`perfdata::sections::id::RESOURCES`]; `None` if it would be empty.
    pub(crate) fn to_section(&self) -> Option<Vec<u8>> {
        let table = self.0.as_ref()?.lock();
        let changes = table.changes.as_ref().filter(|changes| !changes.is_empty())?;
        Some(resources::to_section(changes))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds the lock; if it did, the table would still be consistent.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(self: &Arc<Self>, order: Order) {
        let worker = self.worker.get_or_init(|| {
            let shared = Arc::downgrade(self);
            let run = move |orders: Orders<Order>| {
                let mut reader = Reader::default();
                for order in orders {
                    let Some(shared) = shared.upgrade() else { return };
                    reader.execute(order, &shared);
                }
            };
            WorkQueue::start("prof-services", run).ok()
        });
        if let Some(worker) = worker {
            // If too many wait, the process keeps what it has inherited.
            worker.offer(order);
        }
    }
}

impl Table {
    fn set(&mut self, pid: Pid, since: Timestamp, resource: ProcessResource) {
        if self.known.get(&pid).is_none_or(|known| known.resource != resource) {
            self.add_change(pid, since, resource.clone());
        }
        self.known.insert(pid, Known { resource, since, read_at: Instant::now() });
    }

    fn add_change(&mut self, pid: Pid, since: Timestamp, resource: ProcessResource) {
        if let Some(changes) = self.changes.as_mut().filter(|changes| changes.len() < MAX_ENTRIES) {
            changes.push(ResourceChange { pid, since, resource });
        }
    }

    /// Forgets what the next program of a process does not inherit.
    fn forget_program(&mut self, pid: Pid, since: Timestamp) {
        let Some(known) = self.known.get(&pid) else { return };
        let resource = ProcessResource { executable: None, context: None, ..known.resource.clone() };
        self.set(pid, since, resource);
    }

    fn forget(&mut self, pid: Pid) {
        self.known.remove(&pid);
        self.requested.remove(&pid);
    }
}

/// Reads processes for the worker.
#[derive(Default)]
struct Reader {
    /// When the current second began, and the number of processes that were read in it.
    second: Option<(Instant, u32)>,
}

impl Reader {
    fn execute(&mut self, order: Order, shared: &Shared) {
        match order {
            Order::Read(pid, since) => {
                // Those that existed before the recording are not started by the hundred.
                if since.0 > 0 && !self.may_read() {
                    return;
                }
                // A program that has just begun has published no context yet. In a recording it is asked at the end.
                let has_just_begun = since.0 > 0 && shared.lock().changes.is_some();
                let Some(resource) = Self::read(pid, shared.reads_services, !has_just_begun) else { return };
                let user = shared.lock().users.is_some().then(|| user_of(pid)).flatten();
                let mut table = shared.lock();
                if let (Some(users), Some(user)) = (&mut table.users, user) {
                    users.set(pid, user);
                }
                if table.requested.contains(&pid) {
                    table.set(pid, since, resource);
                } else {
                    // It has ended since it was read.
                    table.add_change(pid, since, resource);
                }
            }
            Order::ReadContext(pid) => {
                let Some(context) = process_memory::process_context(pid).ok().flatten() else { return };
                let mut table = shared.lock();
                let Some(known) = table.known.get(&pid).cloned() else { return };
                let resource = ProcessResource { context: Some(context.into()), ..known.resource };
                table.set(pid, known.since, resource);
            }
        }
    }

    fn may_read(&mut self) -> bool {
        let now = Instant::now();
        let (begin, reads) = self.second.get_or_insert((now, 0));
        if now.duration_since(*begin) > Duration::from_secs(1) {
            (*begin, *reads) = (now, 0);
        }
        *reads += 1;
        *reads <= MAX_READS_PER_SECOND
    }

    /// Reads what a process is a part of, with its service and the context that it has published if these are wanted; `None` if it has ended.
    fn read(pid: Pid, service: bool, context: bool) -> Option<ProcessResource> {
        let executable = process_memory::executable(pid).ok();
        let cgroup = procfs::cgroup(pid).ok();
        if executable.is_none() && cgroup.is_none() {
            return None;
        }
        let name = |text: Vec<u8>| Name::new(&text);
        let has_memory = executable.as_ref().is_some_and(|path| !path.is_empty());
        let reads = service && has_memory;
        let environment =
            reads.then(|| process_memory::service_environment(pid).ok()).flatten().unwrap_or_default();
        let context =
            (reads && context).then(|| process_memory::process_context(pid).ok()).flatten().flatten();
        let short = |text: &Vec<u8>| text.len() <= MAX_TEXT_BYTES;
        Some(ProcessResource {
            executable: executable.map(name),
            cgroup: cgroup.map(name),
            service_name: environment.service_name.map(name),
            attributes: environment.attributes.filter(short).map(Into::into),
            context: context.map(Into::into),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::{Comm, Task};
    use decoder::{Endian, SampleId};
    use host::sys::perf_event::own_pid;
    use model::Tid;

    fn comm(pid: Pid, exec: bool) -> Record<'static> {
        let sample_id = SampleId { time: Some(Timestamp(7)), ..SampleId::default() };
        Record::Comm(Comm { pid, tid: Tid(pid.0), comm: b"x", exec, sample_id })
    }

    fn fork(pid: i32, parent: Pid) -> Record<'static> {
        Record::Fork(Task {
            pid: Pid(pid),
            parent_pid: parent,
            tid: Tid(pid),
            parent_tid: Tid(parent.0),
            time: Timestamp(9),
            sample_id: SampleId::default(),
        })
    }

    #[test]
    fn processes_are_read_once_and_their_children_inherit() {
        let resources = ProcessResources::new(true);
        resources.keep_changes();
        resources.apply(&comm(own_pid(), false));
        resources.apply(&comm(own_pid(), false));
        resources.finish();
        let own = resources.resource_of(own_pid()).unwrap();
        let path = std::env::current_exe().unwrap();
        assert_eq!(own.executable.as_ref().map(Name::to_string), Some(path.display().to_string()));
        assert!(own.cgroup.is_some());
        // Above the largest pid (`PID_MAX_LIMIT`).
        let child = 1 << 22;
        resources.apply(&fork(child, own_pid()));
        assert_eq!(resources.resource_of(Pid(child)), Some(own.clone()));
        resources.apply(&comm(Pid(child), true));
        resources.finish();
        let after = resources.resource_of(Pid(child)).unwrap();
        assert_eq!((after.executable, after.cgroup), (None, own.cgroup.clone()), "it had ended");
        let section = resources.to_section().unwrap();
        let read = resources::from_section(&section, Endian::NATIVE);
        assert_eq!(read.iter().map(|change| change.pid.0).collect::<Vec<_>>(), [own_pid().0, child, child]);
        resources.retain(|_| false);
        assert_eq!((resources.to_section(), resources.resource_of(own_pid())), (None, None));
    }

    #[test]
    fn children_have_the_users_of_their_parents() {
        let resources = ProcessResources::new(true);
        assert_eq!(resources.user_of(own_pid()), None, "nobody asked");
        resources.note_users();
        let own = user_of(own_pid()).unwrap();
        assert_eq!(resources.user_of(own_pid()), Some(own));
        // Above the largest pid (`PID_MAX_LIMIT`).
        let (child, stranger) = (1 << 22, (1 << 22) + 1);
        resources.forget_by(&fork(child, own_pid()));
        resources.forget_by(&fork(stranger, Pid(stranger + 1)));
        resources.forget_old();
        assert_eq!(resources.user_of(Pid(child)), Some(own));
        assert_eq!(resources.user_of(Pid(stranger)), None, "its parent is not known");
    }

    #[test]
    fn the_default_reads_nothing() {
        let resources = ProcessResources::default();
        resources.keep_changes();
        resources.apply(&comm(own_pid(), true));
        resources.finish();
        assert_eq!((resources.to_section(), resources.resource_of(own_pid())), (None, None));
    }
}
