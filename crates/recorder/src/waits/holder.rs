//! Who a blocked thread waits for, as far as its system call and one word of memory say, for users who see no wakings.

use host::process_memory;
use host::procfs::{self, SyscallState};
use model::{Pid, Tid};

/// `futex(2)`: the operation without its flags, and those that wait for a word to change.
const OPERATION: u64 = 0x7f;
const WAIT: u64 = 0;
const WAIT_BITSET: u64 = 9;
/// The word of a lock of glibc's that a thread holds and others wait for (`nptl/lowlevellock.h`).
const CONTENDED: u32 = 2;
/// `waitid(2)`: the number is that of a process.
const OF_PROCESS: u64 = 1;
const FUTEX: u64 = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
const WAIT4: u64 = if cfg!(target_arch = "x86_64") { 61 } else { 260 };
const WAITID: u64 = if cfg!(target_arch = "x86_64") { 247 } else { 95 };

/// Says of a call who its thread waits for: ` by TID` of the thread that is joined or the child that is waited for, and ` held by TID` where
/// a lock of glibc's would keep who holds it. Whether it is one, the functions on the stack tell.
pub(super) fn words(pid: Pid, tid: Tid, call: &SyscallState) -> Option<String> {
    let [first, second, third, ..] = call.arguments;
    let number = |word: u64| i32::try_from(word).ok().filter(|&number| number > 0);
    match call.number? {
        WAIT4 => number(first).map(|child| format!(" by {child}")),
        WAITID if first == OF_PROCESS => number(second).map(|child| format!(" by {child}")),
        FUTEX if matches!(second & OPERATION, WAIT | WAIT_BITSET) => futex(pid, tid, first, third as u32),
        _ => None,
    }
}

fn futex(pid: Pid, tid: Tid, address: u64, expected: u32) -> Option<String> {
    let read = || {
        let mut bytes = [0; 12];
        let read = process_memory::read(pid, address, &mut bytes).ok()?;
        (read == bytes.len()).then_some(())?;
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        // `__lock`, `__count` and `__owner` of `pthread_mutex_t`.
        Some((word(0)?, word(8)?))
    };
    let (word, owner) = read().filter(|&(word, _)| word == expected)?;
    let (wanted, is_lock) = if word == CONTENDED { (owner, true) } else { (word, false) };
    let holder = Tid(i32::try_from(wanted).ok().filter(|&wanted| wanted > 0 && wanted != tid.0)?);
    // In another namespace threads have other numbers there.
    let is_same_namespace = procfs::status(tid).ok()?.own_number.0 == tid.0;
    let lives = procfs::status(holder).is_ok_and(|status| status.process == pid);
    match is_same_namespace && lives && (!is_lock || read() == Some((word, owner))) {
        true if is_lock => Some(format!(" held by {holder}")),
        true => Some(format!(" by {holder}")),
        false => None,
    }
}
