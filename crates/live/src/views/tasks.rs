//! Processes, with their threads.

use std::collections::BTreeMap;

use model::Name;
use profile::{Thread, ThreadId};

use super::{Scope, TaskChoice};
use crate::snapshot::{Snapshot, container_of, ids_of};

/// A process or thread of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRow {
    /// The process or thread.
    pub choice: TaskChoice,
    /// Its name.
    pub comm: Name,
    /// The container that it runs in; `None` on the host.
    pub container: Option<Name>,
    /// The weight of its samples.
    pub weight: u64,
    /// Number of threads with samples; 0 in the row of a thread.
    pub threads: usize,
}

#[derive(Default)]
struct Process {
    /// The name, whether it is the main thread's, and the weight of samples under it.
    comm: Option<(Name, bool, u64)>,
    container: Option<Name>,
    weight: u64,
    /// By tid: the thread's heaviest name, the weight of all samples, and the weight under that name.
    threads: BTreeMap<i32, (Name, u64, u64)>,
}

/// The order of rows of tasks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TaskOrder {
    /// Heaviest first.
    #[default]
    Weight,
    /// By number.
    Pid,
    /// By name.
    Comm,
}

/// Returns the processes in an order, each followed by its threads if it has several.
pub fn tasks(snapshot: &Snapshot, scope: &Scope, order: TaskOrder) -> Vec<TaskRow> {
    let mut weights: BTreeMap<ThreadId, (&Thread, u64)> = BTreeMap::new();
    for stack in scope.stacks(snapshot) {
        weights.entry(stack.thread_id).or_insert((stack.thread, 0)).1 += stack.weight;
    }
    let mut processes: BTreeMap<i32, Process> = BTreeMap::new();
    let weighed = weights.into_values().filter(|&(_, weight)| weight > 0);
    for (thread, weight) in weighed.filter(|(thread, _)| scope.filter.shows_task(thread)) {
        let (pid, tid) = ids_of(thread);
        let process = processes.entry(pid).or_default();
        process.weight += weight;
        // It may have been put into one while it was watched.
        process.container = container_of(thread).cloned().or(process.container.take());
        // The main thread names the process; until it has a sample, any thread does. Of several names, the one with most.
        let is_main = pid == tid;
        if process.comm.as_ref().is_none_or(|(_, main, heaviest)| (is_main, weight) > (*main, *heaviest)) {
            process.comm = Some((thread.comm.clone(), is_main, weight));
        }
        let (comm, sum, heaviest) = process.threads.entry(tid).or_insert_with(|| (thread.comm.clone(), 0, 0));
        *sum += weight;
        if weight > *heaviest {
            (*comm, *heaviest) = (thread.comm.clone(), weight);
        }
    }
    let mut processes: Vec<_> = processes.into_iter().collect();
    processes.sort_by(|(a_pid, a), (b_pid, b)| match order {
        TaskOrder::Weight => b.weight.cmp(&a.weight).then(a_pid.cmp(b_pid)),
        TaskOrder::Pid => a_pid.cmp(b_pid),
        TaskOrder::Comm => {
            let comm = |process: &Process| process.comm.as_ref().map(|(comm, ..)| comm.clone());
            comm(a).cmp(&comm(b)).then(a_pid.cmp(b_pid))
        }
    });
    let mut rows = Vec::new();
    for (pid, process) in processes {
        let Process { comm, container, weight, threads } = process;
        let comm = comm.map_or_else(|| Name::from(""), |(comm, ..)| comm);
        let choice = TaskChoice { pid, tid: None };
        let row = TaskRow { choice, comm, container: container.clone(), weight, threads: threads.len() };
        rows.push(row);
        if threads.len() < 2 {
            continue;
        }
        let mut threads: Vec<_> = threads.into_iter().collect();
        threads.sort_by(|(a_tid, a), (b_tid, b)| match order {
            TaskOrder::Weight => b.1.cmp(&a.1).then(a_tid.cmp(b_tid)),
            TaskOrder::Pid => a_tid.cmp(b_tid),
            TaskOrder::Comm => a.0.cmp(&b.0).then(a_tid.cmp(b_tid)),
        });
        rows.extend(threads.into_iter().map(|(tid, (comm, weight, _))| {
            let choice = TaskChoice { pid, tid: Some(tid) };
            TaskRow { choice, comm, container: container.clone(), weight, threads: 0 }
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SnapshotBuilder;

    #[test]
    fn processes_come_with_their_threads() {
        let mut build = SnapshotBuilder::default();
        build.stack(7, 8, "worker", "f", 5).stack(7, 7, "app", "f", 1).stack(9, 9, "sh", "g", 4);
        let rows = tasks(&build.snapshot(), &Scope::default(), TaskOrder::Weight);
        let texts: Vec<_> =
            rows.iter().map(|r| (r.choice.pid, r.choice.tid, r.comm.to_string(), r.weight)).collect();
        let expected =
            [(7, None, "app", 6), (7, Some(8), "worker", 5), (7, Some(7), "app", 1), (9, None, "sh", 4)]
                .map(|(pid, tid, comm, weight)| (pid, tid, comm.to_owned(), weight));
        assert_eq!(texts, expected);
        assert!(rows.iter().all(|row| row.container.is_none()));
        build.stack_in(Some("docker:0123456789ab"), (7, 8, "worker"), "f", 1);
        let in_container = tasks(&build.snapshot(), &Scope::default(), TaskOrder::Weight);
        assert!(in_container.iter().all(|row| row.container.is_some() == (row.choice.pid == 7)));
        let by_name = tasks(&build.snapshot(), &Scope::default(), TaskOrder::Comm);
        assert_eq!(by_name[0].choice.pid, 7);
    }
}
