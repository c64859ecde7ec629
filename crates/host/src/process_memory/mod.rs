//! Reads the memory of processes, and what the kernel reads under the lock of that memory: mappings, arguments, environment.
//!
//! A process can have a page of its memory fetched from a file system that does not answer, and can hold that lock. Who reads then can
//! neither go on nor be killed. A process of our own reads the files of `/proc` ([`slow_files::serve`]), which is left behind if it does
//! not answer, and the memory of other users' processes, too. Memory of our own user's is read here, but no file of a file system that
//! may not answer, and nothing of a process that was waited for in vain.

mod maps;
mod resource;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Avma, BLOCK_BYTES, Pid, Tid};

use crate::mounts::Mounts;
use crate::procfs;
use crate::slow_files::{self, MemoryReader};
use crate::sys::perf_event::own_pid;
use crate::sys::process_memory::{self, MAX_PROCESSES};
use crate::sys::system::effective_user;

pub use maps::{MapEntry, executable_maps};
pub(crate) use resource::MAX_ENVIRONMENT_BYTES;
pub use resource::{ServiceEnvironment, executable, process_context, service_environment};

/// Reads memory of a process from `address` (Avma) into `into`. Returns the number of bytes read: fewer than requested if a page follows
/// that is not in memory, or not mapped, or may not be read.
///
/// # Errors
/// `EFAULT` if nothing is mapped at `address`, `ESRCH` if the process has ended, `EPERM` if we may not read it, `TimedOut` if the read
/// does not end in time.
pub fn read(pid: Pid, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let Some(reader) = reader(pid)? else { return read_here(pid, address, into) };
    let range = (address, into.len() as u64);
    let found = reader.read(&[range])?.pop().unwrap_or_default();
    into.iter_mut().zip(&found).for_each(|(into, found)| *into = *found);
    Ok(found.len())
}

/// Reads the block at `start`, and where another process reads, some of the `others` with it.
pub(crate) fn read_blocks(pid: Pid, start: Avma, others: &[Avma]) -> Vec<(Avma, Arc<Vec<u8>>)> {
    let nothing = || vec![(start, Arc::default())];
    let Ok(reader) = reader(pid) else { return nothing() };
    let Some(reader) = reader else {
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        let read = read_here(pid, start.0, &mut bytes).unwrap_or(0);
        bytes.truncate(read);
        return vec![(start, Arc::new(bytes))];
    };
    let others = others.iter().filter(|&&other| other != start).take(slow_files::MAX_RANGES - 1);
    let starts: Vec<Avma> = std::iter::once(start).chain(others.copied()).collect();
    let ranges: Vec<_> = starts.iter().map(|start| (start.0, BLOCK_BYTES)).collect();
    let found = |found: Vec<Vec<u8>>| starts.into_iter().zip(found.into_iter().map(Arc::new)).collect();
    reader.read(&ranges).map_or_else(|_| nothing(), found)
}

/// Opens a file of `/proc/PID` that the kernel reads under the lock of the process's memory, or from it.
///
/// # Errors
/// Those of `open(2)`; `TimedOut` if it does not end in time.
pub(crate) fn open(pid: Pid, name: &str) -> io::Result<Box<dyn Read>> {
    let path = procfs::shared_path(pid, name)?;
    let reader = if pid == own_pid() { None } else { slow_files::process_reader(pid)? };
    match reader {
        Some(reader) => reader.open(&path),
        None => Ok(Box::new(std::fs::File::open(path)?)),
    }
}

/// Returns the process that reads memory for this one; `None` where this one may.
fn reader(pid: Pid) -> io::Result<Option<MemoryReader>> {
    if pid == own_pid() {
        return Ok(None);
    }
    slow_files::memory_reader(pid, || USERS.with_borrow_mut(|users| users.is_ours(pid)))
}

fn read_here(pid: Pid, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut may_read_file = |address| FILES.with_borrow_mut(|files| files.answer(pid, address));
    process_memory::read(pid, address, into, &mut may_read_file)
}

thread_local! {
    static USERS: RefCell<Users> = RefCell::default();
    static FILES: RefCell<MappedFiles> = RefCell::default();
}

/// For how long a process is taken to be of the user that it was of. To ask takes 10 µs, a block 2 µs.
const USER_TIME: Duration = Duration::from_millis(10);

/// Which processes are of our own user, and since when that is known.
#[derive(Default)]
struct Users(HashMap<Pid, (Instant, bool)>);

impl Users {
    /// Returns true if a process runs as our own user, and was started by it: not by another through a set-user-ID program.
    fn is_ours(&mut self, pid: Pid) -> bool {
        if let Some((asked, is_ours)) = self.0.get(&pid)
            && asked.elapsed() < USER_TIME
        {
            return *is_ours;
        }
        if self.0.len() >= MAX_PROCESSES {
            self.0.clear();
        }
        let own = effective_user();
        let status = procfs::status(Tid(pid.0));
        let is_ours = status.is_ok_and(|status| [status.user, status.effective_user] == [own; 2]);
        self.0.insert(pid, (Instant::now(), is_ours));
        is_ours
    }
}

/// The mappings of processes, and which of them are of file systems that may not answer.
#[derive(Default)]
struct MappedFiles(HashMap<Pid, Vec<(Range<u64>, bool)>>);

impl MappedFiles {
    /// Returns true if what a process has mapped at an address is on a file system that answers. Its mappings are read again where none is
    /// known at the address: the process is of our own user, which gains nothing by holding us up.
    fn answer(&mut self, pid: Pid, address: u64) -> bool {
        let answers = |known: &Vec<(Range<u64>, bool)>| {
            let at = known.partition_point(|(range, _)| range.end <= address);
            known.get(at).filter(|(range, _)| range.contains(&address)).map(|&(_, answers)| answers)
        };
        if let Some(answer) = self.0.get(&pid).and_then(answers) {
            return answer;
        }
        if self.0.len() >= MAX_PROCESSES {
            self.0.clear();
        }
        let mounts = Mounts::of_process(pid);
        let maps = executable_maps(pid, true).map_or_else(|_| Vec::new(), |(maps, _)| maps);
        let maps = maps.into_iter().map(|map| (map.start..map.end, mounts.slow_device(map.device).is_none()));
        let known = self.0.entry(pid).insert_entry(maps.collect());
        answers(known.get()).unwrap_or(false)
    }
}
