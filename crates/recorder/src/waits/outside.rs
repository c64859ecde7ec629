//! Reads the stacks of blocked threads from outside: where the user may not sample switches, and of threads that were blocked
//! before the recording began.
//!
//! `/proc/PID/task/TID/syscall` has the instruction and stack pointers, `process_vm_readv` the stack. The sample made of both is
//! unwound as every other sample. A thread whose number of switches changed while it was read is left out.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::time::{Duration, Instant};

use decoder::values::{Registers, U64s};
use decoder::{CpuMode, Endian, Record, RecordLayout, Sample, kind, offsets};
use host::process_memory;
use host::procfs::{self, SyscallState};
use host::sys::clock::{self, ClockId};
use model::{CpuId, Pid, Tid, Timestamp};

use super::{calls, holder, kernel_counts};
use crate::consumer::{Recording, SwitchUpdate};
use crate::open::Opened;
use crate::options::{Options, Target};
use crate::records::{each, u32_at};
use stacks::native_architecture;

/// Time between two polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Longest time that a poll takes: 4 % of a CPU, however many threads there are. The next poll goes on with the next thread.
const MAX_POLL_TIME: Duration = Duration::from_millis(1);
/// Bytes that are read of a stack: a record has room for 64 KiB.
const STACK_BYTES: usize = 32 << 10;
/// Refused reads from which on they are reported. A few come at every start: exec keeps other processes out until it is done.
const MIN_REPORTED_REFUSALS: u32 = 20;
/// Maximum number of threads that are followed.
pub(crate) const MAX_THREADS: usize = 100_000;
/// Number of failed polls from which on a thread's system calls are recorded without stacks, if its stack was never read: its waits are
/// shorter than a reading, of 50 µs.
const MIN_FAILURES: u8 = 8;
/// `PERF_SAMPLE_REGS_ABI_64`
const ABI_64: u64 = 2;

/// Reads the stacks of blocked threads.
#[derive(Debug)]
pub(crate) struct OutsideReader {
    id: u64,
    layout: RecordLayout,
    clock: ClockId,
    inherit: bool,
    /// True if the rings have records of other processes than the target's.
    sees_others: bool,
    threads: BTreeMap<i32, FollowedThread>,
    /// Threads with an EXIT record since the last poll.
    exited: BTreeMap<i32, FollowedThread>,
    /// The thread that was read last.
    last: i32,
    due: Instant,
    stack: Vec<u8>,
    /// The number of reads that failed for want of rights.
    refused: u32,
    /// True if the refusals have been reported.
    is_reported: bool,
    /// The kernel's counts of threads that [`OutsideReader::take_updates`] has not returned yet.
    updates: Vec<SwitchUpdate>,
}

#[derive(Debug)]
struct FollowedThread {
    pid: Pid,
    /// The number of times that the thread had been switched in when its stack was last read.
    switches: Option<u64>,
    /// The number of readings during which the thread was switched in.
    failures: u8,
}

impl OutsideReader {
    /// Returns a reader for the threads of the recording's processes; `None` if no event of the recording is for stacks read from
    /// outside.
    pub(crate) fn new(
        options: &Options,
        opened: &Opened,
        recording: &Recording,
        child: Option<Pid>,
    ) -> Option<Self> {
        let (index, _) = opened
            .samplers()
            .enumerate()
            .find(|(_, (_, event))| event.selected.read_outside && !event.selected.is_of_tasks())?;
        let pids = match (&options.target, child) {
            (Target::Command, Some(child)) => vec![child],
            _ => crate::open::processes(options).ok()?,
        };
        let mut reader = Self {
            id: *recording.events.get(index)?.ids.first()?,
            layout: recording.layout(index)?,
            clock: options.clock.id()?,
            inherit: options.inherits(),
            sees_others: opened.whole_cpus.is_some(),
            threads: BTreeMap::new(),
            exited: BTreeMap::new(),
            last: 0,
            due: Instant::now(),
            stack: Vec::new(),
            refused: 0,
            is_reported: false,
            updates: Vec::new(),
        };
        for pid in pids {
            for tid in procfs::threads(pid).unwrap_or_default() {
                let is_meant = match &options.target {
                    Target::Threads(tids) => tids.contains(&tid),
                    _ => true,
                };
                if is_meant {
                    reader.follow(pid, tid);
                }
            }
        }
        Some(reader)
    }

    fn follow(&mut self, pid: Pid, tid: Tid) {
        if self.threads.len() < MAX_THREADS {
            self.threads.insert(tid.0, FollowedThread { pid, switches: None, failures: 0 });
        }
    }

    /// Follows threads that records of a ring start and end.
    pub(crate) fn learn(&mut self, records: &[u8]) {
        for record in each(records) {
            let word = |at: usize| u32_at(record, at).and_then(|word| i32::try_from(word).ok());
            let (Some(pid), Some(tid)) = (word(offsets::PROCESS), word(offsets::TASK_THREAD)) else {
                continue;
            };
            match u32_at(record, 0) {
                Some(kind::FORK) if self.inherit => {
                    let parent = word(offsets::PARENT_PROCESS).map(Pid);
                    if !self.sees_others || self.threads.values().any(|thread| Some(thread.pid) == parent) {
                        self.follow(Pid(pid), Tid(tid));
                    }
                }
                Some(kind::EXIT) => self.exited.extend(self.threads.remove_entry(&tid)),
                // It has executed a program with more rights, and not ended.
                Some(kind::MMAP | kind::MMAP2) => {
                    let tid = word(offsets::THREAD);
                    self.threads.extend(tid.and_then(|tid| self.exited.remove_entry(&tid)));
                }
                _ => {}
            }
        }
    }

    /// Returns the time at which [`OutsideReader::poll`] is to be called.
    pub(crate) fn deadline(&self) -> Instant {
        self.due
    }

    /// Reads the kernel's counts of threads, and the stacks of those that have been blocked anew: records of samples. Empty where it is
    /// not yet time.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<u8> {
        let mut records = Vec::new();
        if now < self.due {
            return records;
        }
        self.due = now + POLL_INTERVAL;
        self.exited.clear();
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let mut tids: Vec<i32> = self.threads.range(after).map(|(tid, _)| *tid).collect();
        tids.extend(self.threads.range(..=self.last).map(|(tid, _)| *tid));
        let end = now + MAX_POLL_TIME;
        for tid in tids {
            if Instant::now() >= end {
                break;
            }
            self.last = tid;
            // Any other error means that the thread has ended.
            if let Err(error) = self.read(Tid(tid), &mut records) {
                self.refused += u32::from(error.kind() == io::ErrorKind::PermissionDenied);
            }
        }
        records
    }

    /// Returns true once, when enough reads were refused to conclude that the user may not read stacks.
    pub(crate) fn is_refused(&mut self) -> bool {
        let is_due = self.refused >= MIN_REPORTED_REFUSALS && !self.is_reported;
        self.is_reported |= is_due;
        is_due
    }

    /// Returns the kernel's counts that were read since the last call.
    pub(crate) fn take_updates(&mut self) -> Vec<SwitchUpdate> {
        std::mem::take(&mut self.updates)
    }

    fn read(&mut self, tid: Tid, records: &mut Vec<u8>) -> io::Result<()> {
        let Some(&FollowedThread { pid, switches: known, .. }) = self.threads.get(&tid.0) else {
            return Ok(());
        };
        let (reading, switches) = kernel_counts::read(tid, self.clock)?;
        self.updates.push(SwitchUpdate::SchedStat(tid, reading));
        // It is in the wait that was read.
        if known == Some(switches) {
            return Ok(());
        }
        let Some(call) = self.read_stack(pid, tid, switches)? else { return Ok(()) };
        if let Some(seen) = self.threads.get_mut(&tid.0).filter(|_| self.stack.is_empty()) {
            seen.failures = seen.failures.saturating_add(1);
            // The system call was read at one moment, so it is recorded even then.
            if known.is_some() || seen.failures < MIN_FAILURES {
                return Ok(());
            }
        }
        let mut what = calls::describe(pid, &call);
        what.extend(holder::words(pid, tid, &call).into_iter().flat_map(String::into_bytes));
        self.write(pid, tid, &call, &what, records);
        Ok(())
    }

    /// Reads the stack of a thread that has been switched in `switches` times. Returns its system call; `None` if it runs. Leaves the
    /// stack empty if the thread ran meanwhile.
    fn read_stack(&mut self, pid: Pid, tid: Tid, switches: u64) -> io::Result<Option<SyscallState>> {
        self.stack.clear();
        let call = procfs::syscall_state(pid, tid)?.filter(|call| call.stack_pointer != 0);
        let Some(call) = call else { return Ok(None) };
        self.stack.resize(STACK_BYTES, 0);
        let read = process_memory::read(pid, call.stack_pointer, &mut self.stack)?;
        self.stack.truncate(read);
        let is_unchanged = procfs::syscall_state(pid, tid)? == Some(call)
            && procfs::schedstat(tid)?.last() == Some(&switches);
        match self.threads.get_mut(&tid.0).filter(|_| is_unchanged) {
            Some(seen) => seen.switches = Some(switches),
            None => self.stack.clear(),
        }
        Ok(Some(call))
    }

    /// Writes a sample of a blocked thread, with the stack that was read, or without one if that is empty.
    fn write(&self, pid: Pid, tid: Tid, call: &SyscallState, what: &[u8], records: &mut Vec<u8>) {
        let (Some(architecture), Ok(time)) = (native_architecture(), clock::now(self.clock)) else { return };
        let mut registers = [
            (architecture.perf_number(architecture.stack_pointer()), call.stack_pointer),
            (architecture.perf_number(architecture.program_counter()), call.program_counter),
        ];
        registers.sort_unstable();
        let values: Vec<u8> = registers.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect();
        let mask = registers.iter().filter_map(|(bit, _)| *bit).fold(0, |mask, bit| mask | 1 << bit);
        let has_stack = !self.stack.is_empty();
        // A record's raw part ends at a multiple of 8 with the four bytes of its length.
        let mut raw = what.to_vec();
        raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
        let sample = Sample {
            mode: CpuMode::User,
            identifier: Some(self.id),
            ip: has_stack.then_some(call.program_counter),
            thread: Some((pid, tid)),
            time: Some(Timestamp(time)),
            cpu: Some(CpuId(0)),
            raw: Some(&raw),
            user_registers: has_stack
                .then(|| Registers::new(ABI_64, mask, U64s::new(&values, Endian::NATIVE))),
            user_stack: Some(&self.stack),
            ..Sample::default()
        };
        // One of 40 KiB fits.
        let _ = self.layout.encode(&Record::Sample(sample), records);
    }
}
