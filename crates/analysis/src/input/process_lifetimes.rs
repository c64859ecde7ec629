//! The wall-clock times at which a recording's processes began, executed other programs and ended, and the users that they ran
//! as.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use decoder::{Endian, Record};
use model::{Pid, ProcessLifetime, Space, Timestamp};
use perfdata::features::{ClockData, Features};
use perfdata::sections;
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

/// The lifetimes of a recording's processes. Records add to it while the recording is read; other threads may query it meanwhile.
#[derive(Default)]
pub struct ProcessLifetimes {
    lifetimes: Mutex<HashMap<Pid, KnownLifetime, FxBuildHasher>>,
    programs: Mutex<HashMap<Pid, Vec<Program>, FxBuildHasher>>,
}

/// The beginning of a program in a process.
#[derive(Clone, Copy)]
struct Program {
    /// The time of its exec on the wall clock, in nanoseconds since 1970.
    start: u64,
    /// The number of the program in its process ([`Tracker::program`]).
    number: u32,
    /// The generation of its first generated code ([`Tracker::code_generation`]).
    code: u32,
}

/// Maximum number of programs that are remembered of one process, at 16 bytes each; later ones are not: a process that executes
/// programs for ever takes no more than 64 KiB.
const MAX_PROGRAMS: usize = 4096;

/// Maximum time by which a file may have changed after the time that it states, in nanoseconds: file systems state the time of the
/// kernel's last tick, and ticks are 10 ms apart where they come least often (`CONFIG_HZ=100`).
const TICK_NS: u64 = 10_000_000;

/// The lifetime of a pid. If several processes had the pid one after the other, the facts are those that hold for all of them.
#[derive(Clone, Copy, Default)]
struct KnownLifetime {
    /// The latest start.
    start: Option<u64>,
    /// The end of the process that has the number now.
    end: Option<u64>,
    /// The earliest end of those that had it before.
    first_end: Option<u64>,
    user: Option<u32>,
    own_number: Option<Pid>,
    /// True if processes of different users had the number.
    of_several: bool,
}

impl ProcessLifetimes {
    /// Adds the processes that the recorder listed in the PROCESSES section. In pipe form the section comes last.
    pub fn add_recorded(&self, features: &Features, endian: Endian) {
        if let Some(section) = features.section(sections::id::PROCESSES) {
            self.add(&sections::processes::from_section(section, endian));
        }
    }

    fn add(&self, processes: &[(Pid, ProcessLifetime)]) {
        let mut lifetimes = self.lock();
        for (pid, life) in processes {
            let known = lifetimes.entry(*pid).or_default();
            known.start = known.start.max(life.start);
            known.of_several |= known.user.is_some() && known.user != life.user;
            (known.user, known.own_number) = (life.user, life.own_number);
        }
    }

    /// Updates lifetimes by a FORK, EXIT or COMM record, after `tracker` has applied it. `clock` converts its time to wall time; without
    /// it nothing is recorded.
    pub fn record(&self, record: &Record<'_>, tracker: &Tracker, clock: Option<ClockData>) {
        let wall_time = |time: Timestamp| {
            let clock = clock.filter(|_| time.0 > 0)?;
            clock.wall_clock.checked_add_signed(time.0.wrapping_sub(clock.clock).cast_signed())
        };
        match record {
            // Records with time 0 name the parent only.
            Record::Fork(task) if task.pid != task.parent_pid && task.time.0 > 0 => {
                let mut lifetimes = self.lock();
                let known = lifetimes.entry(task.pid).or_default();
                let end = known.end.take();
                known.first_end = [known.first_end, end].into_iter().flatten().min();
                // Exact to the nanosecond, where the recorder's look is to 10 ms.
                known.start = known.start.max(wall_time(task.time));
            }
            Record::Comm(comm) if comm.exec => {
                let start = comm.sample_id.time.and_then(wall_time);
                let numbers = tracker.program(comm.pid).zip(tracker.code_generation(comm.pid));
                if let (Some(start), Some((number, code))) = (start, numbers) {
                    let mut programs = self.programs();
                    let of_process = programs.entry(comm.pid).or_default();
                    if of_process.len() < MAX_PROGRAMS {
                        of_process.push(Program { start, number, code });
                    }
                }
            }
            Record::Exit(task) if !tracker.is_alive(task.pid) => {
                if let Some(end) = wall_time(task.time) {
                    self.lock().entry(task.pid).or_default().end = Some(end);
                }
            }
            _ => {}
        }
    }

    /// Returns the facts known of a process.
    pub fn lifetime(&self, pid: Pid) -> ProcessLifetime {
        let known = self.lock().get(&pid).copied().unwrap_or_default();
        ProcessLifetime {
            start: known.start,
            end: [known.first_end, known.end].into_iter().flatten().min(),
            user: known.user.filter(|_| !known.of_several),
            own_number: known.own_number,
        }
    }

    /// Compares the program that had code in `space` with the one that wrote a file which changed last at wall-clock time
    /// `changed`: it ran before (less), was the same, or ran after (greater). Equal, too, where no other program is known.
    pub fn compare_program(&self, pid: Pid, space: &Space, changed: u64) -> Ordering {
        let programs = self.programs();
        let Some(programs) = programs.get(&pid) else { return Ordering::Equal };
        let of_code = match space {
            Space::Jit { generation, .. } => programs.partition_point(|program| program.code <= *generation),
            Space::Unmapped { generation, .. } => {
                programs.partition_point(|program| program.number <= *generation)
            }
            _ => return Ordering::Equal,
        };
        let written = changed.saturating_add(TICK_NS);
        of_code.cmp(&programs.partition_point(|program| program.start <= written))
    }

    fn programs(&self) -> MutexGuard<'_, HashMap<Pid, Vec<Program>, FxBuildHasher>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, KnownLifetime, FxBuildHasher>> {
        self.lifetimes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::SampleId;
    use decoder::record::{Comm, Task};
    use model::{Name, Tid};

    const CLOCK: ClockData = ClockData { clockid: 1, wall_clock: 1_000_000, clock: 400 };

    fn task(pid: i32, time: u64) -> Task {
        Task {
            pid: Pid(pid),
            parent_pid: Pid(1),
            tid: Tid(pid),
            parent_tid: Tid(1),
            time: Timestamp(time),
            sample_id: SampleId::default(),
        }
    }

    fn played(records: &[Record<'_>], clock: Option<ClockData>) -> ProcessLifetime {
        played_all(records, clock).lifetime(Pid(7))
    }

    fn played_all(records: &[Record<'_>], clock: Option<ClockData>) -> ProcessLifetimes {
        let (lifetimes, mut tracker) = (ProcessLifetimes::default(), Tracker::new());
        for record in records {
            tracker.apply(record);
            lifetimes.record(record, &tracker, clock);
        }
        lifetimes
    }

    #[test]
    fn a_file_is_of_the_program_that_ran_when_it_changed() {
        let exec = |time| {
            let sample_id = SampleId { time: Some(Timestamp(time)), ..SampleId::default() };
            Record::Comm(Comm { pid: Pid(7), tid: Tid(7), comm: b"next", exec: true, sample_id })
        };
        const SECOND: u64 = 1_000_000_000;
        let records = [exec(SECOND), exec(3 * SECOND), exec(5 * SECOND)];
        let lifetimes = played_all(&records, Some(CLOCK));
        // Nothing is known of the generation of the process that was there before: its first program is number 0.
        let code = |generation| Space::Jit { pid: Pid(7), generation, mapping: Name::from("//anon") };
        let compared = |time: u64, generation| {
            let changed = CLOCK.wall_clock + time - CLOCK.clock;
            let unmapped = Space::Unmapped { pid: Pid(7), generation };
            let order = lifetimes.compare_program(Pid(7), &code(generation), changed);
            assert_eq!(order, lifetimes.compare_program(Pid(7), &unmapped, changed));
            order
        };
        assert_eq!([0, 1, 2, 3].map(|program| compared(4 * SECOND, program)), {
            use Ordering::{Equal, Greater, Less};
            [Less, Less, Equal, Greater]
        });
        assert_eq!(compared(3 * SECOND - TICK_NS / 2, 2), Ordering::Equal, "the file states the last tick");
        assert_eq!(compared(SECOND / 2, 0), Ordering::Equal);
        assert_eq!(
            lifetimes.compare_program(Pid(8), &code(1), 0),
            Ordering::Equal,
            "no other program is known"
        );
        let unknown = played_all(&records, None);
        assert_eq!(unknown.compare_program(Pid(7), &code(1), 0), Ordering::Equal);
    }

    #[test]
    fn starts_and_ends_are_told_on_the_wall_clock() {
        let life = played(&[Record::Fork(task(7, 300)), Record::Exit(task(7, 500))], Some(CLOCK));
        assert_eq!((life.start, life.end), (Some(999_900), Some(1_000_100)));
        let life = played(&[Record::Fork(task(7, 300)), Record::Exit(task(7, 500))], None);
        assert_eq!(life, ProcessLifetime::default(), "without a wall clock nothing is known");
        assert_eq!(
            played(&[Record::Fork(task(7, 0))], Some(CLOCK)),
            ProcessLifetime::default(),
            "not a start"
        );
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let thread = Task { tid: Tid(8), parent_pid: Pid(7), ..task(7, 310) };
        let mut records = vec![Record::Fork(task(7, 300)), Record::Fork(thread), Record::Exit(task(7, 400))];
        assert_eq!(played(&records, Some(CLOCK)).end, None);
        records.push(Record::Exit(Task { time: Timestamp(500), ..thread }));
        assert_eq!(played(&records, Some(CLOCK)).end, Some(1_000_100));
    }

    #[test]
    fn a_number_that_is_used_again_is_bounded_by_both() {
        let records = [Record::Fork(task(7, 300)), Record::Exit(task(7, 350)), Record::Fork(task(7, 500))];
        let life = played(&records, Some(CLOCK));
        assert_eq!((life.start, life.end), (Some(1_000_100), Some(999_950)), "no moment lies between");
    }
}
