//! Gives the threads of a pool a common name: `worker-1` to `worker-64` become `worker-*`.

use hashbrown::HashMap;
use model::{Name, Pid};
use rustc_hash::FxBuildHasher;

use crate::Thread;

/// Returns a name for each thread. Threads of one pool (with the same [`Thread::pool`]) whose names differ only in their
/// numbers get the same name, with `*` for each number that differs.
pub fn names(threads: &[Thread]) -> Vec<Name> {
    type Key<'t> = (Pid, Vec<&'t [u8]>);
    let mut pools: HashMap<Key<'_>, Vec<usize>, FxBuildHasher> = HashMap::default();
    for (index, thread) in threads.iter().enumerate() {
        if let Some(pid) = thread.pool {
            let text = pieces(&thread.comm).filter(|piece| !is_number(piece)).collect();
            pools.entry((pid, text)).or_default().push(index);
        }
    }
    let mut names: Vec<_> = threads.iter().map(|thread| thread.comm.clone()).collect();
    for members in pools.values() {
        let same = |index: &usize| threads[*index].comm == threads[members[0]].comm;
        if members.iter().all(same) {
            continue;
        }
        let comms = members.iter().map(|&index| &threads[index].comm);
        for (&index, name) in members.iter().zip(std::iter::repeat(common(comms))) {
            names[index] = name;
        }
    }
    names
}

/// Returns the common name of names that differ only in their numbers: each number that is not the same in all of them
/// becomes `*`.
fn common<'t>(mut names: impl Iterator<Item = &'t Name>) -> Name {
    let mut common: Vec<&[u8]> = names.next().map(|name| pieces(name).collect()).unwrap_or_default();
    for name in names {
        for (piece, other) in common.iter_mut().zip(pieces(name)) {
            if *piece != other {
                *piece = b"*";
            }
        }
    }
    Name::new(&common.concat())
}

/// Splits a name into its numbers and the text between them.
fn pieces(name: &Name) -> impl Iterator<Item = &[u8]> {
    name.as_bytes().chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit())
}

fn is_number(piece: &&[u8]) -> bool {
    piece.first().is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(threads: &[(&str, Option<i32>)]) -> Vec<String> {
        let thread = |&(comm, pool): &(&str, Option<i32>)| Thread {
            comm: Name::from(comm),
            ids: None,
            process: None,
            cpu: None,
            container: None,
            cgroup: None,
            pool: pool.map(Pid),
            labels: None,
        };
        let threads: Vec<_> = threads.iter().map(thread).collect();
        names(&threads).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn threads_that_differ_in_digits_alone_are_one() {
        let threads =
            [("worker-1", Some(1)), ("worker-22", Some(1)), ("worker-a", Some(1)), ("io-1", Some(1))];
        assert_eq!(merged(&threads), ["worker-*", "worker-*", "worker-a", "io-1"]);
        let pools = [("pool-2-thread-1", Some(1)), ("pool-2-thread-7", Some(1)), ("pool-2-thread", Some(1))];
        assert_eq!(merged(&pools), ["pool-2-thread-*", "pool-2-thread-*", "pool-2-thread"]);
        assert_eq!(merged(&[("1", Some(1)), ("2", Some(1))]), ["*", "*"]);
    }

    #[test]
    fn processes_and_threads_of_others_keep_their_names() {
        let threads = [("worker-1", Some(1)), ("worker-2", Some(2)), ("worker-3", None)];
        assert_eq!(merged(&threads), ["worker-1", "worker-2", "worker-3"]);
        assert_eq!(merged(&[("cc1", Some(1)), ("cc1", Some(1))]), ["cc1", "cc1"]);
    }
}
