//! The thread that reads tasks.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use decoder::values::{Registers, U64s};
use decoder::{CpuMode, Endian, Record, RecordLayout, Sample, context};
use elf::Object;
use host::live_processes::LiveProcesses;
use host::objects::{ObjectBytes, ObjectStore, SearchPaths};
use host::sys::clock::{self, ClockId};
use model::{CpuId, FileOffset, Name, ObjectIdentity, Pid, Tid, Timestamp};
use rustc_hash::FxHashSet;
use tasks::{Choice, Counts, GoProcess, GoProgram, NotUnderstood, Snapshot, TaskStack};
use unwinder::Unwinder;

use super::labels::Label;
use super::share::Share;
use super::{Change, Mapping, Shared, Totals};
use crate::consumer::Recording;
use crate::function_mappings::FunctionTable;
use crate::waits::MAX_THREADS;

/// `CLOCK_THREAD_CPUTIME_ID`
const THREAD_CPU_TIME: ClockId = 3;

/// Reads the tasks of processes.
pub(super) struct Reader {
    id: u64,
    layout: RecordLayout,
    clock: ClockId,
    interval: Duration,
    objects: ObjectStore<ObjectBytes>,
    processes: HashMap<Pid, Process>,
    labels: FunctionTable<Label>,
    share: Share,
}

/// A process of Go.
struct Process {
    object: Arc<Object<ObjectBytes>>,
    go: Result<GoProcess, NotUnderstood>,
    /// The addresses of the labels for which there are records.
    recorded: FxHashSet<u64>,
    started: HashMap<u64, Arc<Label>>,
    reasons: HashMap<u8, Arc<Label>>,
    /// The time of the last snapshot that was whole.
    last: Option<u64>,
}

/// A sample to be.
struct Group {
    /// What the tasks wait for, or why they were not read.
    leaf: Arc<Label>,
    root: Arc<Label>,
    stack: TaskStack,
    tasks: u64,
}

impl Reader {
    /// Returns a reader whose samples are of the event at `index`.
    pub(super) fn new(recording: &Recording, index: usize, snapshots: u64) -> Option<Self> {
        let event = recording.events.get(index)?;
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        Some(Self {
            id: *event.ids.first()?,
            layout: recording.layout(index)?,
            clock: event.attr.clockid,
            interval: Duration::from_secs(1) / u32::try_from(snapshots.max(1)).ok()?,
            objects: ObjectStore::new(paths),
            processes: HashMap::new(),
            labels: FunctionTable::default(),
            share: Share::all(),
        })
    }

    /// Takes snapshots until `shared` is closed: after half an interval to one and a half, so that they are not in step with the timers of
    /// programs.
    pub(super) fn run(mut self, shared: &Shared) {
        let mut random = std::hash::RandomState::new();
        let mut due = Instant::now();
        loop {
            let state = shared.state();
            let rest = due.saturating_duration_since(Instant::now());
            let is_early = |state: &mut super::State| !state.is_closed;
            let waited = shared.closed.wait_timeout_while(state, rest, is_early);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_closed {
                return;
            }
            let changes = std::mem::take(&mut state.changes);
            drop(state);
            changes.into_iter().for_each(|change| self.apply(change));
            let (records, totals) = self.take_snapshots();
            let mut state = shared.state();
            state.records.extend(records);
            state.totals.counts += totals.counts;
            state.totals.snapshots += totals.snapshots;
            state.totals.unobserved = state.totals.unobserved.saturating_add(totals.unobserved);
            drop(state);
            let half = self.interval / 2;
            due = Instant::now() + half + self.interval.mul_f64(part(&mut random));
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Ends(pid) => drop(self.processes.remove(&pid)),
            Change::Maps(pid, mapping) => {
                if self.processes.len() < MAX_THREADS
                    && !self.processes.contains_key(&pid)
                    && let Some(process) = Process::new(&self.objects, pid, &mapping)
                {
                    self.processes.insert(pid, process);
                }
            }
        }
    }

    /// Reads the tasks of all processes, and returns their samples.
    fn take_snapshots(&mut self) -> (Vec<u8>, Totals) {
        let (before, begin) = (clock::now(THREAD_CPU_TIME).unwrap_or(0), Instant::now());
        let mut records = Vec::new();
        let mut all = Totals::default();
        let interval = self.interval;
        let Self { processes, share, labels, layout, id, .. } = self;
        for (&pid, process) in processes {
            let choice = Choice {
                wants: &|task| share.has(task),
                is_over: &|| begin.elapsed() > interval,
                max_tasks: MAX_THREADS as u64,
                max_frames: Unwinder::FRAME_LIMIT,
            };
            let Some(snapshot) = process.snapshot(pid, &choice) else { continue };
            let Ok(now) = clock::now(self.clock) else { continue };
            all.counts += snapshot.counts;
            all.snapshots += 1;
            let nanoseconds = interval.as_nanos() as u64;
            let since = process.last.map_or(nanoseconds / 2, |last| now.saturating_sub(last));
            process.last = Some(now);
            let observed = since.min(2 * nanoseconds);
            all.unobserved = all.unobserved.saturating_add(since - observed);
            for group in process.groups(pid, snapshot) {
                let place = (pid, Timestamp(now));
                let mut address = |label: &Arc<Label>, records: &mut Vec<u8>| {
                    labels.address(Some((label, 0)), place, &mut process.recorded, layout, records)
                };
                let leaf = address(&group.leaf, &mut records);
                let mut chain = vec![context::USER, leaf];
                chain.extend(&group.stack.frames);
                chain.push(match group.stack.cut {
                    Some(reason) => reason.marker(),
                    // All but an innermost address are looked up one byte before.
                    None => address(&group.root, &mut records) + 1,
                });
                let weight = share.weight(group.tasks, observed);
                encode(layout, *id, place, &chain, (group.tasks, weight), &mut records);
            }
        }
        let took = clock::now(THREAD_CPU_TIME).unwrap_or(0).saturating_sub(before);
        let Counts { seen, unread, .. } = all.counts;
        share.adapt(Duration::from_nanos(took), (seen, seen.saturating_add(unread)), interval);
        (records, all)
    }
}

impl Process {
    /// Returns the process if the mapping is of a program of Go.
    fn new(objects: &ObjectStore<ObjectBytes>, pid: Pid, mapping: &Mapping) -> Option<Self> {
        let path = Name::new(&mapping.path);
        let identity = ObjectIdentity { path, build_id: None, file: Some(mapping.file) };
        let object = objects.open(&identity, &[pid]).ok()?;
        let go = GoProgram::from_object(&object).map(|program| {
            let address = object.svma_of(FileOffset(mapping.page_offset));
            program.map(|program| {
                GoProcess::new(program, mapping.start.wrapping_sub(address.map_or(0, |at| at.0)))
            })
        });
        if go.is_none() {
            objects.close(&identity);
        }
        let (recorded, started, reasons) = Default::default();
        Some(Self { object, go: go?, recorded, started, reasons, last: None })
    }

    fn snapshot(&mut self, pid: Pid, choice: &Choice<'_>) -> Option<Snapshot> {
        match &mut self.go {
            Ok(go) => go.snapshot(&self.object, (&LiveProcesses, pid), choice),
            Err(_) => Some(Snapshot::default()),
        }
    }

    /// Returns the samples of a snapshot.
    fn groups(&mut self, pid: Pid, snapshot: Snapshot) -> Vec<Group> {
        let label = |text: &str| Arc::new(Label(text.to_owned()));
        let go = match &self.go {
            Ok(go) => go,
            Err(why) => {
                let leaf = label(&format!("[not read: {why}]"));
                let stack = TaskStack { started: 0, reason: 0, frames: Vec::new(), cut: None };
                return vec![Group { leaf, root: label("goroutines"), stack, tasks: 1 }];
            }
        };
        let mut groups = Vec::new();
        for (stack, tasks) in snapshot.stacks {
            let root = self.started.entry(stack.started).or_insert_with(|| {
                let place = go.started_in(&self.object, stack.started);
                label(&place.map_or("goroutine".to_owned(), |place| format!("goroutine, started in {place}")))
            });
            let leaf = self.reasons.entry(stack.reason).or_insert_with(|| {
                let words = go.reason(&self.object, (&LiveProcesses, pid), stack.reason);
                label(&format!("[waits: {}]", words.unwrap_or_else(|| format!("reason {}", stack.reason))))
            });
            groups.push(Group { leaf: Arc::clone(leaf), root: Arc::clone(root), stack, tasks });
        }
        let Counts { torn, unread, .. } = snapshot.counts;
        for (tasks, why) in [(torn, "[not read: it went on meanwhile]"), (unread, "[not read: no time]")] {
            let stack = TaskStack { started: 0, reason: 0, frames: Vec::new(), cut: None };
            if tasks > 0 {
                groups.push(Group { leaf: label(why), root: label("goroutine"), stack, tasks });
            }
        }
        groups
    }
}

fn encode(
    layout: &RecordLayout,
    id: u64,
    (pid, time): (Pid, Timestamp),
    chain: &[u64],
    (tasks, weight): (u64, u64),
    records: &mut Vec<u8>,
) {
    let chain: Vec<u8> = chain.iter().flat_map(|address| address.to_ne_bytes()).collect();
    // A record's raw part ends at a multiple of 8 with the four bytes of its length.
    let mut raw = tasks.to_ne_bytes().to_vec();
    raw.extend([0; 4]);
    let sample = Sample {
        mode: CpuMode::User,
        identifier: Some(id),
        ip: Some(0),
        thread: Some((pid, Tid(pid.0))),
        time: Some(time),
        cpu: Some(CpuId(0)),
        period: Some(weight),
        callchain: Some(U64s::new(&chain, Endian::NATIVE)),
        raw: Some(&raw),
        user_registers: Some(Registers::new(0, 0, U64s::new(&[], Endian::NATIVE))),
        ..Sample::default()
    };
    // One with as many frames as there may be fits.
    let _ = layout.encode(&Record::Sample(sample), records);
}

/// Returns a number from 0 to 1 at random.
fn part(random: &mut std::hash::RandomState) -> f64 {
    use std::hash::BuildHasher;
    let number = random.hash_one(0_u8);
    *random = std::hash::RandomState::new();
    (number >> u32::BITS) as f64 / f64::from(u32::MAX)
}
