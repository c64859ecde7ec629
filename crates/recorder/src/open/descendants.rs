//! The running processes that given processes have started.

use std::collections::HashSet;

use host::procfs::{self, Lineage};
use host::sys::perf_event::own_pid;
use model::Pid;

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
