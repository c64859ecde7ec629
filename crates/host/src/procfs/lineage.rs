//! `/proc/PID/stat` (proc(5)): where a process comes from.

use std::fs;
use std::io;

use model::Pid;

/// The origin of a process: its parents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lineage {
    /// Its parent: the one that started it, or that took it in when that had ended.
    pub parent: Pid,
    /// Its session: the process that began it, which may have ended.
    pub session: Pid,
}

/// The lineage of a process.
///
/// # Errors
/// `ENOENT` where there is none (any more).
pub fn lineage(pid: Pid) -> io::Result<Lineage> {
    parse(&fs::read(format!("/proc/{pid}/stat"))?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(stat: &[u8]) -> Option<Lineage> {
    // `pid (comm) state ppid pgrp session …`: the name may hold anything, parentheses too.
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = std::str::from_utf8(stat.get(behind..)?).ok()?.split_ascii_whitespace().skip(1);
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
