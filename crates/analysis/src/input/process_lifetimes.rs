//! The wall-clock times at which a recording's processes began and ended, and the users that they ran as.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use decoder::{Endian, Record};
use model::{Pid, ProcessLifetime, Timestamp};
use perfdata::features::{ClockData, Features};
use perfdata::sections;
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

/// The lifetimes of a recording's processes. Records add to it while the recording is read; other threads may query it meanwhile.
#[derive(Default)]
pub struct ProcessLifetimes {
    lifetimes: Mutex<HashMap<Pid, KnownLifetime, FxBuildHasher>>,
}

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

    /// Updates lifetimes by a FORK or EXIT record, after `tracker` has applied it. `clock` converts its time to wall time; without
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, KnownLifetime, FxBuildHasher>> {
        self.lifetimes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::SampleId;
    use decoder::record::Task;
    use model::Tid;

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
        let (lifetimes, mut tracker) = (ProcessLifetimes::default(), Tracker::new());
        for record in records {
            tracker.apply(record);
            lifetimes.record(record, &tracker, clock);
        }
        lifetimes.lifetime(Pid(7))
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
