//! Generated code: what runtimes write about it to `/tmp/perf-PID.map`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use generated::PerfMapSearch;
use host::perf_map::{self, MAX_MAP_BYTES};
use host::procfs;
use host::timed_worker::{CALL_TIMEOUT, Outcome, PendingResult, TOTAL_TIMEOUT, TimedWorker};
use model::ProcessLifetime;
use model::{Avma, MapRefusal, Name, Pid, Reason, Resolution, Space, StackEntry};

use super::{Job, Remarks, named};
use crate::input::process_lifetimes::ProcessLifetimes;

/// The time to wait for each map when that is used up.
const MIN_READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Bytes of all maps of a recording together: hostile ones are as large as they may be. Some seconds of reading.
const MAX_TOTAL_BYTES: u64 = 4 * MAX_MAP_BYTES;
/// Processes whose lifetimes are remembered when they have ended, in a view that goes on.
const MAX_REMEMBERED_LIFETIMES: usize = 4096;

/// Looks generated code up in the perf maps of its processes.
pub(super) struct PerfMaps {
    /// False if the processes are another machine's: then there are no maps.
    this_host: bool,
    /// The lifetimes in a recording; `None` for processes that are watched while they run.
    lifetimes: Option<Arc<ProcessLifetimes>>,
    worker: Mutex<TimedWorker>,
    state: Mutex<ReadState>,
}

#[derive(Default)]
struct ReadState {
    /// Maps whose reading goes on.
    late: HashMap<Pid, PendingResult<MapAnswer>>,
    /// The time that has been waited in vain.
    waited: Duration,
    /// Bytes that were read.
    read: u64,
    remembered: HashMap<Pid, ProcessLifetime>,
}

/// The functions that a process's map has at some addresses.
struct MapAnswer {
    search: PerfMapSearch,
    found: MapSearchOutcome,
}

enum MapSearchOutcome {
    NoMap,
    Refused(perf_map::RefusedMap),
    Map {
        path: String,
        /// Bytes.
        size: u64,
        read: u64,
        /// When it was written last, in nanoseconds since 1970.
        changed: u64,
        /// Nobody knows when the process began.
        ageless: bool,
    },
}

/// The addresses of generated code that are looked for together, by process: a map is gone through once.
pub(super) struct Lookups<'a> {
    maps: &'a PerfMaps,
    processes: HashMap<Pid, (Vec<Avma>, OnceLock<MapAnswer>)>,
    /// Processes with addresses that the map of another of their programs lists.
    other_programs: Mutex<BTreeSet<Pid>>,
}

impl PerfMaps {
    /// For a recording, or else what runs now. Nothing is looked for where it is another machine's.
    pub(super) fn new(this_host: bool, lifetimes: Option<Arc<ProcessLifetimes>>) -> Self {
        Self { this_host, lifetimes, worker: Mutex::default(), state: Mutex::default() }
    }

    /// Waits for maps anew, in a view that goes on.
    pub(super) fn reset_timeouts(&self) {
        self.lock().waited = Duration::ZERO;
    }

    /// Gathers what jobs ask.
    pub(super) fn lookups(&self, jobs: &[Job<'_>]) -> Lookups<'_> {
        let mut processes: HashMap<Pid, (Vec<Avma>, OnceLock<MapAnswer>)> = HashMap::new();
        for job in jobs {
            if let Space::Jit { pid, .. } | Space::Unmapped { pid, .. } = job.space {
                let addresses = job.entries.iter().map(|entry| Avma(entry.lookup_offset()));
                processes.entry(*pid).or_default().0.extend(addresses);
            }
        }
        Lookups { maps: self, processes, other_programs: Mutex::default() }
    }

    /// Returns true if there may be a map of this process: a file of its name, or a file system that does not answer. Opens no map.
    pub(super) fn may_exist(&self, pid: Pid) -> bool {
        if !self.this_host || pid.0 <= 0 {
            return false;
        }
        let patience = TOTAL_TIMEOUT.saturating_sub(self.lock().waited).max(MIN_READ_TIMEOUT);
        let begin = Instant::now();
        let search = move || !matches!(perf_map::find(pid, ProcessLifetime::default()), Ok(None));
        let outcome = self.worker.lock().unwrap_or_else(PoisonError::into_inner).run(patience, search);
        match outcome {
            Outcome::Done(found) => found,
            Outcome::Pending(_) => {
                self.lock().waited += begin.elapsed();
                true
            }
            Outcome::Refused => true,
        }
    }

    /// Returns false if a process ran another program than the one with code in `space` when its map was written.
    fn is_of_program(&self, pid: Pid, space: &Space, changed: u64) -> bool {
        let lifetimes = self.lifetimes.as_ref();
        lifetimes.is_none_or(|lifetimes| lifetimes.compare_program(pid, space, changed).is_eq())
    }

    fn life(&self, pid: Pid) -> Option<ProcessLifetime> {
        if !self.this_host || pid.0 <= 0 {
            return None;
        }
        if let Some(lifetimes) = &self.lifetimes {
            return Some(lifetimes.lifetime(pid));
        }
        let now = procfs::life(pid).ok();
        let mut state = self.lock();
        if state.remembered.len() >= MAX_REMEMBERED_LIFETIMES {
            state.remembered.clear();
        }
        if let Some(life) = now {
            state.remembered.insert(pid, life);
        }
        // Of a process that has ended, only its last known life can tell its user.
        state.remembered.get(&pid).copied()
    }

    fn search(&self, pid: Pid, addresses: &[Avma]) -> MapAnswer {
        let nothing = |found| MapAnswer { search: PerfMapSearch::new([]), found };
        let refused =
            |why| nothing(MapSearchOutcome::Refused(perf_map::RefusedMap { path: path_of_map(pid), why }));
        if let Some(late) = self.lock().late.remove(&pid) {
            return match late.poll() {
                Ok(answer) => answer,
                Err(late) => {
                    self.lock().late.insert(pid, late);
                    refused(MapRefusal::Unanswered)
                }
            };
        }
        let Some(life) = self.life(pid) else {
            return nothing(MapSearchOutcome::NoMap);
        };
        let is_recording = self.lifetimes.is_some();
        let (patience, left) = {
            let state = self.lock();
            let patience = if is_recording { TOTAL_TIMEOUT } else { CALL_TIMEOUT };
            let left = MAX_TOTAL_BYTES.saturating_sub(state.read);
            (patience.saturating_sub(state.waited).max(MIN_READ_TIMEOUT), left)
        };
        let addresses = addresses.to_vec();
        let begin = Instant::now();
        // Only one map is read at a time: the lock is held while this waits.
        let outcome = self
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .run(patience, move || read(pid, life, addresses, left));
        match outcome {
            Outcome::Done(answer) => {
                if let (true, MapSearchOutcome::Map { read, .. }) = (is_recording, &answer.found) {
                    self.lock().read += read;
                }
                answer
            }
            Outcome::Pending(late) => {
                let mut state = self.lock();
                state.waited += begin.elapsed();
                state.late.insert(pid, late);
                drop(state);
                refused(MapRefusal::Unanswered)
            }
            Outcome::Refused => refused(MapRefusal::Unanswered),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path of a process's map as the process's own mount namespace has it, for remarks.
fn path_of_map(pid: Pid) -> String {
    format!("/tmp/perf-{pid}.map")
}

/// Finds and reads the map of a process.
fn read(pid: Pid, life: ProcessLifetime, addresses: Vec<Avma>, left: u64) -> MapAnswer {
    let mut search = PerfMapSearch::new(addresses);
    let map = match perf_map::find(pid, life) {
        Ok(Some(map)) => map,
        Ok(None) => return MapAnswer { search, found: MapSearchOutcome::NoMap },
        Err(refused) => return MapAnswer { search, found: MapSearchOutcome::Refused(refused) },
    };
    let refused = |why| MapSearchOutcome::Refused(perf_map::RefusedMap { path: map.path.clone(), why });
    if left == 0 {
        return MapAnswer { search, found: refused(MapRefusal::TooMuch) };
    }
    let found = match map.lines_from_the_end(|line| search.push_line(line)) {
        Ok(read) => {
            let (changed, ageless) = (map.changed(), map.start_unknown);
            MapSearchOutcome::Map { read, changed, ageless, size: map.size, path: map.path }
        }
        Err(_) => refused(MapRefusal::Unreadable),
    };
    MapAnswer { search, found }
}

impl Lookups<'_> {
    /// Returns the function that the map of a process has at an address in one of its spaces. Where the map lists several for
    /// the address, the name states two.
    pub(super) fn resolve(&self, pid: Pid, space: &Space, entry: &StackEntry) -> Resolution {
        let Some((addresses, answer)) = self.processes.get(&pid) else {
            return Resolution::Unresolved(Reason::NoJitMap);
        };
        let answer = answer.get_or_init(|| self.maps.search(pid, addresses));
        let refused = |why| Resolution::Unresolved(Reason::JitMapRefused(why));
        match (answer.search.find(Avma(entry.lookup_offset())), &answer.found) {
            (Some(found), MapSearchOutcome::Map { changed, .. }) => {
                if !self.maps.is_of_program(pid, space, *changed) {
                    self.other_programs.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
                    return refused(MapRefusal::OtherProgram);
                }
                let start = entry.offset.checked_sub(found.start.0);
                match found.earlier {
                    Some(earlier) => named(&Name::cut(&format!("{} (or {earlier})", found.name)), start),
                    None => named(found.name, start),
                }
            }
            (_, MapSearchOutcome::NoMap) => Resolution::Unresolved(Reason::NoJitMap),
            (_, MapSearchOutcome::Refused(why)) => refused(why.why),
            (None, MapSearchOutcome::Map { .. }) => Resolution::Unresolved(Reason::NotInJitMap),
        }
    }

    /// Records remarks about the perf maps that were read.
    pub(super) fn remark(self, remarks: &mut Remarks) {
        let other_programs = self.other_programs.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (pid, (addresses, answer)) in self.processes {
            let Some(MapAnswer { search, found }) = answer.into_inner() else { continue };
            if !matches!(&found, MapSearchOutcome::Refused(refused) if refused.why == MapRefusal::Unanswered)
            {
                remarks.maps.answered.insert(path_of_map(pid));
            }
            match found {
                MapSearchOutcome::NoMap => {}
                MapSearchOutcome::Refused(refused) => {
                    remarks.maps.refused.entry(refused.why).or_default().insert(refused.path);
                }
                MapSearchOutcome::Map { path, size, read, ageless, .. } => {
                    let has_two =
                        |address: &&Avma| search.find(**address).is_some_and(|found| found.earlier.is_some());
                    if addresses.iter().any(|address| has_two(&address)) {
                        remarks.maps.ambiguous.insert(path.clone());
                    }
                    if other_programs.contains(&pid) {
                        remarks.maps.of_other_programs.insert(path.clone());
                    }
                    if search.cut_names() > 0 {
                        remarks.add_cut_names(Name::from(path.as_str()), search.cut_names());
                    }
                    if read >= MAX_MAP_BYTES && size > read {
                        remarks.maps.long.insert(path.clone(), size);
                    }
                    if ageless {
                        remarks.maps.ageless.insert(path);
                    }
                }
            }
        }
    }
}
