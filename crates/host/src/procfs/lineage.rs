//! Parent and session of a process: `/proc/PID/stat` (proc(5)).

use std::fs;
use std::io;

use model::Pid;

use super::life::fields_after_name;
use super::path;

/// The parent and the session of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lineage {
    /// The parent: the process that started it, or the one that adopted it.
    pub parent: Pid,
    /// The session: the pid of its leader, which may have ended.
    pub session: Pid,
}

/// Reads the lineage of a process.
///
/// # Errors
/// `ENOENT` if there is no such process.
pub fn lineage(pid: Pid) -> io::Result<Lineage> {
    parse(&fs::read(path(pid, "stat")?)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(stat: &[u8]) -> Option<Lineage> {
    // `pid (comm) state ppid pgrp session …`
    let mut fields = fields_after_name(stat)?.skip(1);
    let mut number = || fields.next()?.parse().ok();
    let (parent, _group, session) = (number()?, number()?, number()?);
    Some(Lineage { parent: Pid(parent), session: Pid(session) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_anything_in_them_are_passed_over() {
        let lineage = Lineage { parent: Pid(7), session: Pid(5) };
        assert_eq!(parse(b"42 (a) R 1 2 3) S 7 6 5 0 -1\n"), Some(lineage));
        assert_eq!(parse(b"42 (\xff) S 7 6 5"), Some(lineage));
        assert_eq!(parse(b"42 (a) S 7 6"), None);
        assert_eq!(parse(b""), None);
    }
}
