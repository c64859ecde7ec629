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
use host::procfs::{self, SyscallState};
use host::sys::clock::{self, ClockId};
use host::sys::process_memory;
use model::{CpuId, Pid, Tid, Timestamp};
use perfdata::sections::Schedstat;

use super::{calls, kernel_counts};
use crate::consumer::{Recording, SwitchUpdate};
use crate::open::Opened;
use crate::options::{Options, Target};
use crate::records::{each, u32_at};
use stacks::native_architecture;

/// Time between two polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Ratio of the newest thread's age to the time between two readings of the kernel's counts, where no event tells when threads are woken:
/// the time of a thread after its last reading is at most 2 % of its life.
const AGE_PER_COUNT: u32 = 50;
/// Least time between two of these readings. With both, recording a tokio server of 0.4 s takes 1 % of a CPU more than with
/// [`POLL_INTERVAL`] (own CPU time of `record -v --off-cpu`).
const MIN_COUNT_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of threads that are read more often than [`POLL_INTERVAL`]: 10 µs for each reading.
const MAX_COUNTED_THREADS: usize = 64;
/// Longest time that a poll takes: 4 % of a CPU, however many threads there are. The next poll goes on with the next thread.
const MAX_POLL_TIME: Duration = Duration::from_millis(1);
/// Bytes that are read of a stack: a record has room for 64 KiB.
const STACK_BYTES: usize = 32 << 10;
/// Refused reads from which on they are reported. A few come at every start: exec keeps other processes out until it is done.
const MIN_REPORTED_REFUSALS: u32 = 20;
/// Maximum number of threads that are followed.
const MAX_THREADS: usize = 100_000;
/// Number of switches between two polls from which on a thread's waits are too short to be read at each poll: 1,000 a second.
const MANY_SWITCHES: u64 = 25;
/// Number of polls from one reading of such a thread to the next, where samples of switches have the stacks: 50 µs each time, and the
/// kernel keeps the thread from running meanwhile.
const POLLS_PER_READING: u8 = 8;
/// Number of failed polls from which on a thread's system calls are recorded without stacks, if its stack was never read: its waits are
/// shorter than a reading (see [`POLLS_PER_READING`]).
const MIN_FAILURES: u8 = 8;
/// Maximum number of further attempts at a stack in each of these polls.
const MAX_RETRIES: usize = 7;
/// Least time between two updates on the kernel's counts of a thread, in nanoseconds.
const UPDATE_INTERVAL_NANOSECONDS: u64 = 50_000_000;
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
    /// The time of the next poll that reads stacks.
    stacks_due: Instant,
    /// The time at which the newest thread was learned of.
    newest: Instant,
    stack: Vec<u8>,
    /// The number of reads that failed for want of rights.
    refused: u32,
    /// True if the refusals have been reported.
    is_reported: bool,
    /// The kernel's counts of threads that [`OutsideReader::take_updates`] has not returned yet.
    updates: Vec<SwitchUpdate>,
    /// True if samples of switches have the stacks, too.
    has_switches: bool,
    /// True if counts are reported as updates while the recording runs, and forgotten with their thread.
    low_memory: bool,
}

#[derive(Debug)]
struct FollowedThread {
    pid: Pid,
    /// The number of times that the thread had been switched in when its stack was last read.
    switches: Option<u64>,
    /// The number of readings during which the thread was switched in.
    failures: u8,
    /// The number of switches at the last poll.
    polled: u64,
    /// The number of the last polls in which it was switched often.
    busy_polls: u8,
    /// Two counts of the kernel: the first one (with updates: the last one reported), and the newest.
    times: Option<[Schedstat; 2]>,
}

impl FollowedThread {
    fn new(pid: Pid) -> Self {
        Self { pid, switches: None, failures: 0, polled: 0, busy_polls: 0, times: None }
    }

    /// Returns true if a poll in which the thread has been switched in `switches` times is to read its stack.
    fn is_due(&mut self, switches: u64, has_samples: bool) -> bool {
        let since = switches.saturating_sub(std::mem::replace(&mut self.polled, switches));
        if !has_samples || since < MANY_SWITCHES {
            self.busy_polls = 0;
            return true;
        }
        let is_due = self.busy_polls == 0;
        self.busy_polls = (self.busy_polls + 1) % POLLS_PER_READING;
        is_due
    }
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
        let (index, _) = opened.samplers().enumerate().find(|(_, (_, event))| event.selected.read_outside)?;
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
            stacks_due: Instant::now(),
            newest: Instant::now(),
            stack: Vec::new(),
            refused: 0,
            is_reported: false,
            updates: Vec::new(),
            has_switches: opened.samplers().any(|(_, event)| event.samples_switches()),
            low_memory: options.low_memory,
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
            self.threads.insert(tid.0, FollowedThread::new(pid));
            self.newest = Instant::now();
            self.due = self.due.min(self.newest + self.poll_interval(self.newest));
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
                Some(kind::EXIT) => {
                    // Its times are still wanted at the end.
                    if let Some(seen) = self.threads.get(&tid)
                        && (seen.times.is_none() || self.low_memory)
                    {
                        self.exited.extend(self.threads.remove_entry(&tid));
                    }
                }
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

    fn poll_interval(&self, now: Instant) -> Duration {
        if self.has_switches || self.threads.len() > MAX_COUNTED_THREADS {
            return POLL_INTERVAL;
        }
        let age = now.saturating_duration_since(self.newest);
        (age / AGE_PER_COUNT).clamp(MIN_COUNT_INTERVAL, POLL_INTERVAL)
    }

    /// Reads the kernel's counts of threads, and the stacks of those that have been blocked anew: records of samples. Empty where it is
    /// not yet time.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<u8> {
        let mut records = Vec::new();
        if now < self.due {
            return records;
        }
        self.due = now + self.poll_interval(now);
        self.exited.clear();
        let reads_stacks = now >= self.stacks_due;
        if reads_stacks {
            self.stacks_due = now + POLL_INTERVAL;
        }
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
            if let Err(error) = self.read(Tid(tid), reads_stacks, &mut records) {
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

    /// Iterates over the kernel's counts for each thread, first and last.
    pub(crate) fn times(&self) -> impl Iterator<Item = (Tid, [Schedstat; 2])> {
        self.threads.iter().filter_map(|(tid, seen)| Some((Tid(*tid), seen.times?)))
    }

    fn read(&mut self, tid: Tid, reads_stack: bool, records: &mut Vec<u8>) -> io::Result<()> {
        let Some(seen) = self.threads.get_mut(&tid.0) else { return Ok(()) };
        let (reading, switches) = kernel_counts::read(tid, self.clock)?;
        let is_first = seen.times.is_none();
        let [told, last] = seen.times.get_or_insert([reading; 2]);
        *last = reading;
        if self.low_memory
            && (is_first || reading.time.saturating_sub(told.time) >= UPDATE_INTERVAL_NANOSECONDS)
        {
            *told = reading;
            self.updates.push(SwitchUpdate::SchedStat(tid, reading));
        }
        let is_due = reads_stack && seen.is_due(switches, self.has_switches);
        if seen.switches == Some(switches) || !is_due {
            return Ok(());
        }
        // Where samples of switches have the stacks, this one is not needed.
        let is_new = seen.switches.is_none() && !self.has_switches;
        let retries = if is_new && seen.failures < MIN_FAILURES { MAX_RETRIES } else { 0 };
        let pid = seen.pid;
        let Some(mut call) = self.read_stack(pid, tid, switches)? else { return Ok(()) };
        for _ in 0..retries {
            if !self.stack.is_empty() {
                break;
            }
            let [.., switches] = procfs::schedstat(tid)?;
            call = self.read_stack(pid, tid, switches)?.unwrap_or(call);
        }
        let Some(seen) = self.threads.get_mut(&tid.0) else { return Ok(()) };
        if self.stack.is_empty() {
            // The system call was read at one moment, so it is recorded even then.
            seen.failures = seen.failures.saturating_add(1);
            if !is_new || seen.failures < MIN_FAILURES {
                return Ok(());
            }
        }
        let what = calls::describe(pid, &call);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_switched_often_are_read_seldom() {
        let mut thread = FollowedThread::new(Pid(1));
        let polls = u64::from(3 * POLLS_PER_READING);
        let busy = (1..=polls).filter(|poll| thread.is_due(poll * MANY_SWITCHES, true)).count();
        assert_eq!(busy, 3);
        // At rest, and without samples of its switches, it is read each time.
        assert!(thread.is_due(polls * MANY_SWITCHES + 1, true));
        assert!((1..9).all(|poll| thread.is_due((polls + 1 + poll) * MANY_SWITCHES, false)));
    }
}
