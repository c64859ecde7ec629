//! Generated code: what runtimes write about it to `/tmp/perf-PID.map`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use generated::PerfMapSearch;
use host::perf_map::{self, MAX_MAP_BYTES};
use host::procfs;
use host::timed_worker::{Outcome, PendingResult, TimedWorker};
use model::ProcessLifetime;
use model::{Avma, MapRefusal, Name, Pid, Reason, Resolution, Space, StackEntry};

use super::{Job, Remarks, named};
use crate::generated_code::jit_dumps::DumpRemarks;
use crate::input::process_lifetimes::ProcessLifetimes;

/// The longest time to wait for all maps of a recording, where file systems do not answer. One that is slow, as over a
/// network, answers within a second.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time to wait in a view that goes on: what comes later is there at the next look.
const LIVE_READ_TIMEOUT: Duration = Duration::from_millis(200);
/// The time to wait for each map when that is used up.
const MIN_READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Bytes of all maps of a recording together: hostile ones are as large as they may be. Some seconds of reading.
const MAX_TOTAL_BYTES: u64 = 4 * MAX_MAP_BYTES;
/// Processes whose lifetimes are remembered when they have ended, in a view that goes on.
const MAX_REMEMBERED_LIFETIMES: usize = 4096;

/// Looks generated code up in the perf maps of its processes.
pub(super) struct PerfMaps {
    source: LifetimeSource,
    worker: Mutex<TimedWorker>,
    state: Mutex<ReadState>,
}

/// The knowledge of which process a map must be from.
enum LifetimeSource {
    /// There are no maps: the processes are another machine's.
    OtherHost,
    /// From a recording of this machine, and from `/proc`.
    Recording(Arc<ProcessLifetimes>),
    /// From `/proc` alone, for processes that are watched while they run.
    Watched,
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

/// The remarks on maps that were not used, or in part only.
#[derive(Default)]
pub(super) struct MapRemarks {
    refused: BTreeMap<MapRefusal, BTreeSet<String>>,
    ageless: BTreeSet<String>,
    /// They list several functions at a sampled address.
    ambiguous: BTreeSet<String>,
    /// Their processes ran other programs with generated code as well.
    of_other_programs: BTreeSet<String>,
    /// Their sizes.
    long: BTreeMap<String, u64>,
    /// Sentences about jitdump files.
    dumps: BTreeSet<String>,
    /// Maps that came in time. That they did not, at an earlier look, is no longer true.
    answered: BTreeSet<String>,
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
        let source = match lifetimes {
            _ if !this_host => LifetimeSource::OtherHost,
            Some(lifetimes) => LifetimeSource::Recording(lifetimes),
            None => LifetimeSource::Watched,
        };
        Self { source, worker: Mutex::default(), state: Mutex::default() }
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
        if matches!(self.source, LifetimeSource::OtherHost) || pid.0 <= 0 {
            return false;
        }
        let patience = READ_TIMEOUT.saturating_sub(self.lock().waited).max(MIN_READ_TIMEOUT);
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
        match &self.source {
            LifetimeSource::Recording(lifetimes) => lifetimes.compare_program(pid, space, changed).is_eq(),
            LifetimeSource::OtherHost | LifetimeSource::Watched => true,
        }
    }

    fn life(&self, pid: Pid) -> Option<ProcessLifetime> {
        match &self.source {
            LifetimeSource::OtherHost => None,
            LifetimeSource::Recording(lifetimes) => Some(lifetimes.lifetime(pid)),
            LifetimeSource::Watched => {
                let now = procfs::life(pid).ok();
                let mut state = self.lock();
                if state.remembered.len() >= MAX_REMEMBERED_LIFETIMES {
                    state.remembered.clear();
                }
                match now {
                    Some(life) => {
                        state.remembered.insert(pid, life);
                        Some(life)
                    }
                    // The process has ended: only its last known life can tell its user.
                    None => state.remembered.get(&pid).copied(),
                }
            }
        }
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
        let Some(life) = self.life(pid).filter(|_| pid.0 > 0) else {
            return nothing(MapSearchOutcome::NoMap);
        };
        let is_recording = matches!(self.source, LifetimeSource::Recording(_));
        let (patience, left) = {
            let state = self.lock();
            let patience = if is_recording { READ_TIMEOUT } else { LIVE_READ_TIMEOUT };
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

impl MapRemarks {
    /// Adds remarks about jitdump files.
    pub(super) fn add_dumps(&mut self, remarks: DumpRemarks) {
        for refused in remarks.refused {
            self.refused.entry(refused.why).or_default().insert(refused.path);
        }
        self.dumps.extend(remarks.sentences);
    }

    /// Returns true if there are no remarks.
    pub(super) fn is_empty(&self) -> bool {
        let Self { refused, ageless, ambiguous, of_other_programs, long, dumps, answered } = self;
        let sets = [ageless, ambiguous, of_other_programs, dumps, answered];
        refused.is_empty() && long.is_empty() && sets.into_iter().all(BTreeSet::is_empty)
    }

    /// Adds those of a later look, so that each list has at most `most`.
    pub(super) fn merge(&mut self, others: Self, most: usize) {
        let Self { refused, ageless, ambiguous, of_other_programs, long, dumps, answered } = others;
        if let Some(unanswered) = self.refused.get_mut(&MapRefusal::Unanswered) {
            unanswered.retain(|path| !answered.contains(path));
        }
        self.refused.retain(|_, paths| !paths.is_empty());
        for (why, paths) in refused {
            add(self.refused.entry(why).or_default(), paths, most);
        }
        add(&mut self.ageless, ageless, most);
        add(&mut self.ambiguous, ambiguous, most);
        add(&mut self.of_other_programs, of_other_programs, most);
        add(&mut self.dumps, dumps, most);
        for (path, size) in long {
            if self.long.len() < most || self.long.contains_key(&path) {
                self.long.insert(path, size);
            }
        }
    }

    /// A sentence for each kind.
    pub(super) fn sentences(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|(why, paths)| match several(paths) {
            (path, 0) => format!("{path} is not used: {why}"),
            (path, more) => format!("{path} is not used: {why} ({more} more like it)"),
        });
        let of_all = |paths: &BTreeSet<String>, what: &str| {
            let (path, more) = several(paths);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!paths.is_empty()).then(|| format!("{path}{more} {what}"))
        };
        let ageless = of_all(
            &self.ageless,
            "may be from an earlier process with the same number: the recording has no wall-clock time",
        );
        let ambiguous = of_all(
            &self.ambiguous,
            "has several functions at addresses that were used again, and no times: they are shown as `NAME (or EARLIER \
             NAME)`; a jitdump would tell them apart",
        );
        let of_other_programs = of_all(
            &self.of_other_programs,
            "names the generated code of one program only: that of others that the process ran before or after has no names",
        );
        let partly = ambiguous.into_iter().chain(of_other_programs);
        let long = self.long.iter().map(|(path, size)| {
            format!("{path} has {} MiB: only the last {} MiB are read", size >> 20, MAX_MAP_BYTES >> 20)
        });
        refused.chain(ageless).chain(partly).chain(long).chain(self.dumps.iter().cloned()).collect()
    }
}

/// Adds texts, so that there are at most `most`.
pub(super) fn add(texts: &mut BTreeSet<String>, more: BTreeSet<String>, most: usize) {
    let room = most.saturating_sub(texts.len());
    let new: Vec<String> = more.into_iter().filter(|text| !texts.contains(text)).take(room).collect();
    texts.extend(new);
}

/// The first path, and how many others there are.
fn several(paths: &BTreeSet<String>) -> (&str, usize) {
    (paths.first().map_or("", String::as_str), paths.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_came_in_time_is_no_longer_said_to_be_late() {
        let path = || path_of_map(Pid(1));
        let refused = |why| {
            let mut remarks = MapRemarks::default();
            remarks.refused.insert(why, [path()].into());
            remarks
        };
        let answered = || MapRemarks { answered: [path()].into(), ..MapRemarks::default() };
        let mut all = refused(MapRefusal::Unanswered);
        all.merge(MapRemarks::default(), 9);
        assert_eq!(all.sentences(), ["/tmp/perf-1.map is not used: it could not be read in time"]);
        assert!(!answered().is_empty(), "it is to be merged");
        all.merge(answered(), 9);
        assert!(all.sentences().is_empty());
        // A later answer does not make a foreign file ours.
        all.merge(refused(MapRefusal::Foreign), 9);
        all.merge(answered(), 9);
        assert_eq!(all.sentences().len(), 1);
    }

    #[test]
    fn each_kind_is_said_once() {
        let mut remarks = MapRemarks::default();
        let paths =
            |numbers: &[u32]| numbers.iter().map(|number| format!("/tmp/perf-{number}.map")).collect();
        remarks.refused.insert(MapRefusal::Foreign, paths(&[2, 1]));
        remarks.refused.insert(MapRefusal::Older, paths(&[3]));
        remarks.ageless = paths(&[4, 5]);
        let said = remarks.sentences();
        assert_eq!(
            said,
            [
                "/tmp/perf-1.map is not used: it belongs to another user than the process (1 more like it)",
                "/tmp/perf-3.map is not used: it is older than the process",
                "/tmp/perf-4.map and 1 more may be from an earlier process with the same number: the recording has no \
                 wall-clock time",
            ]
        );
    }
}
