//! Files with raw user stacks (`perf record --call-graph dwarf`, `prof record --keep-stacks`): a stage between the order
//! and the replay, on all cores, that gives such samples their call chains.
//!
//! The threads of the stage take turns: one takes the next batch, plays its sideband into a tracker of the stage's own and
//! notes which mappings each sample sees; then the next thread has its turn, while this one unwinds its samples where they
//! lie. What comes out is in the order of what came in.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, bounded};
use decoder::{Attr, CpuMode, Endian, Record, Sample, SampleFormat, context, kind};
use host::dump_files::DumpFiles;
use host::objects::{BlockBytes, ObjectStore, SearchPaths};
use model::{Avma, Name, Pid, TruncationReason};
use perfdata::Description;
use stacks::{
    ChainUnwinder, ProcessMaps, ProcessMapsCache, UserState, extend_by_walk, instruction_of_32_bit_program,
    is_32_bit, link_register,
};
use tracker::{AddressSpace, ChainItem, OrderedRecord, Tracker, chain_items, chain_limit};
use unwinder::{Architecture, NoMemory};

use crate::Error;
use crate::batch::Batch;
use crate::generated_code::jit_dumps::{JitDumps, has_clock_of_dumps};
use crate::input::listed_build_ids::ListedBuildIds;

/// Batches that may be ahead of the one that the taker waits for, per thread.
const BATCHES_AHEAD_PER_THREAD: usize = 2;

/// Returns true if samples of the recording may have raw stacks.
pub(crate) fn may_have_stacks(recording: &Description) -> bool {
    let may_have = |format: SampleFormat| format.has_stack_copies() || format.has_walk_and_registers();
    recording.events().iter().any(|event| may_have(event.attr.sample_format))
}

/// Starts the stage: what comes from `batches` comes out of the channels in the channel, one each, in the same order. Objects
/// with unwind tables are looked for in `paths`.
///
/// # Errors
/// Where no thread can be started.
pub(crate) fn start<'scope>(
    batches: Receiver<Batch>,
    paths: &SearchPaths,
    dumps: &Arc<JitDumps>,
    scope: &'scope Scope<'scope, '_>,
) -> Result<Receiver<Receiver<Batch>>, Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (queue, ready) = bounded(threads * BATCHES_AHEAD_PER_THREAD);
    let turn = Arc::new(Mutex::new(SharedQueue {
        batches,
        queue,
        paths: paths.clone(),
        dumps: Arc::clone(dumps),
        machine: None,
    }));
    for _ in 0..threads {
        let turn = Arc::clone(&turn);
        thread::Builder::new()
            .name("prof-unwinder".to_owned())
            .spawn_scoped(scope, move || work(&turn))
            .map_err(|source| Error::Thread { purpose: "unwind", source })?;
    }
    Ok(ready)
}

/// The state that the threads share: the thread whose turn it is holds it.
struct SharedQueue {
    batches: Receiver<Batch>,
    queue: Sender<Receiver<Batch>>,
    paths: SearchPaths,
    dumps: Arc<JitDumps>,
    /// Made for the first batch.
    machine: Option<MachineState>,
}

/// The recorded machine at the end of the last batch taken.
struct MachineState {
    tracker: Tracker,
    build_ids: ListedBuildIds,
    maps_cache: ProcessMapsCache,
    architecture: Option<Architecture>,
}

/// A sample to be unwound: its place in the batch, and the mappings at its moment.
struct UnwindJob {
    index: usize,
    maps: Arc<ProcessMaps>,
}

fn work(turn: &Mutex<SharedQueue>) {
    let mut unwinder = ChainUnwinder::default();
    let (mut jobs, mut chain) = (Vec::new(), Vec::new());
    loop {
        let taken = turn.lock().unwrap_or_else(PoisonError::into_inner).take(&mut jobs);
        let Some((mut batch, architecture, done)) = taken else { return };
        let mut chains = std::mem::take(&mut batch.chains);
        chains.clear();
        for UnwindJob { index, maps } in jobs.drain(..) {
            let Some((sample, attr)) =
                batch.get(index).and_then(|record| sample_of(&batch.recording, record))
            else {
                continue;
            };
            chain.clear();
            push_kernel_part(&sample, &mut chain);
            if attr.sample_format.has_walk_and_registers() {
                let start = chain.len();
                extend_by_walk(&sample, chain_limit(attr), &mut chain);
                let link = link_register(&sample, architecture).unwrap_or_default();
                unwinder.insert_leaf_caller(architecture, &maps, link, &mut chain, start);
                chains.push(index, &chain);
                continue;
            }
            let Some(state) = UserState::from_sample_with_any_copy(&sample, architecture) else {
                let end = TruncationReason::NoUnwindData.marker();
                let user = instruction_of_32_bit_program(&sample, architecture);
                chain.extend(user.into_iter().flat_map(|ip| [context::USER, ip, end]));
                chains.push(index, &chain);
                continue;
            };
            unwinder.unwind(&maps, &state, &mut NoMemory, &mut chain);
            chains.push(index, &chain);
        }
        batch.chains = chains;
        // Sending fails only if the receiving thread has failed: then the batch is not needed.
        let _ = done.send(batch);
    }
}

impl SharedQueue {
    /// The next batch, with its samples that are to be unwound in `jobs`, and where it goes then. `None` at the end, or
    /// where nobody wants more.
    fn take(&mut self, jobs: &mut Vec<UnwindJob>) -> Option<(Batch, Architecture, Sender<Batch>)> {
        loop {
            let batch = self.batches.recv().ok()?;
            let (done, wanted) = bounded(1);
            self.queue.send(wanted).ok()?;
            let machine = self
                .machine
                .get_or_insert_with(|| MachineState::of(&batch.recording, self.paths.clone(), &self.dumps));
            match machine.architecture {
                Some(architecture) => {
                    machine.play(&batch, architecture, jobs);
                    return Some((batch, architecture, done));
                }
                // The recorded machine's stacks cannot be unwound here: the batch passes unchanged.
                None => done.send(batch).ok()?,
            }
        }
    }
}

impl MachineState {
    /// At the beginning of a recording.
    fn of(recording: &Description, paths: SearchPaths, dumps: &Arc<JitDumps>) -> Self {
        let features = recording.features();
        let own_images = paths.own_images && features.hostname.is_some();
        let paths = SearchPaths { own_images, ..paths };
        let dumps = Arc::clone(dumps);
        let dump_files = DumpFiles::new(move |pid| dumps.life(pid));
        let has_clock = recording.events().iter().all(|event| has_clock_of_dumps(&event.attr));
        // A file without a machine's name is taken for one of this machine.
        let machine = features.arch.as_ref().map_or(std::env::consts::ARCH.as_bytes(), Name::as_bytes);
        let architecture = match machine {
            b"x86_64" | b"amd64" => Some(Architecture::X86_64),
            b"aarch64" | b"arm64" => Some(Architecture::Aarch64),
            _ => None,
        };
        Self {
            tracker: Tracker::new(),
            build_ids: ListedBuildIds::default(),
            maps_cache: ProcessMapsCache::new(Arc::new(ObjectStore::<BlockBytes>::new(paths)))
                .with_dumps(dump_files, has_clock),
            architecture: architecture.filter(|_| recording.endian() == Endian::Little),
        }
    }

    /// Plays a batch, and finds the samples in it that are to be unwound.
    fn play(&mut self, batch: &Batch, architecture: Architecture, jobs: &mut Vec<UnwindJob>) {
        let recording = &batch.recording;
        self.build_ids.add_new_to(recording, &mut self.tracker);
        for index in 0..batch.len() {
            let Some(record) = batch.get(index) else { continue };
            if record.raw.kind != kind::SAMPLE {
                let layout = recording.layout_of(record.event);
                if let Some(Ok(record)) = layout.map(|layout| layout.decode(&record.raw)) {
                    self.tracker.apply(&record);
                }
            } else if let Some((sample, attr)) = sample_of(recording, record)
                && let Some((pid, tid)) = sample.thread
            {
                // Makes the thread known: this sample may be its first record.
                self.tracker.comm(pid, tid);
                let must_unwind = match attr.sample_format.has_stack_copies() {
                    true => must_unwind(&sample, pid, architecture, &self.tracker),
                    false => link_register(&sample, architecture).is_some() && has_user_part(&sample),
                };
                if must_unwind {
                    jobs.push(UnwindJob { index, maps: self.maps_cache.get(&mut self.tracker, pid) });
                }
            }
        }
    }
}

/// The sample and the attr of its event, if that copies stacks or registers.
fn sample_of<'a>(recording: &'a Description, record: OrderedRecord<'a>) -> Option<(Sample<'a>, &'a Attr)> {
    let event = recording.event(record.event?)?;
    if !event.attr.sample_format.has_stack_copies() && !event.attr.sample_format.has_walk_and_registers() {
        return None;
    }
    match event.layout.decode(&record.raw) {
        Ok(Record::Sample(sample)) => Some((sample, &event.attr)),
        // The replay counts records that cannot be decoded.
        _ => None,
    }
}

fn must_unwind(sample: &Sample<'_>, pid: Pid, architecture: Architecture, tracker: &Tracker) -> bool {
    if is_32_bit(sample) {
        // Its stack is not unwound: the chain gets the instruction pointer and a truncation marker.
        return !has_user_part(sample);
    }
    let state = UserState::from_sample_with_any_copy(sample, architecture).filter(|_| pid != Pid::NONE);
    let Some(state) = state else { return false };
    if !state.stack.bytes.is_empty() {
        return true;
    }
    // The kernel's own walk, where the sample has it, says more than a copy without a byte. Without that walk, a thread in the kernel
    // may be waiting for the page of its stack pointer. A thread in exec has no user stack: its program is no longer mapped.
    let instruction = state.registers.program_counter();
    let is_mapped = || instruction.is_some_and(|address| tracker.mapping(pid, Avma(address)).is_some());
    !has_user_part(sample) && (sample.mode != CpuMode::Kernel || is_mapped())
}

fn has_user_part(sample: &Sample<'_>) -> bool {
    sample.callchain.is_some_and(|chain| {
        chain_items(chain.iter(), sample.mode).any(|item| {
            matches!(
                item,
                ChainItem::Address { context: Some(AddressSpace::User), .. } | ChainItem::Deferred(_)
            )
        })
    })
}

/// The chain up to its user part. Without a chain, the sampled instruction is all that the kernel's side has.
fn push_kernel_part(sample: &Sample<'_>, chain: &mut Vec<u64>) {
    let user = [context::USER, context::USER_DEFERRED];
    match (sample.callchain, sample.ip) {
        (None, Some(ip)) if sample.mode == CpuMode::Kernel => chain.extend([context::KERNEL, ip]),
        (None, _) => {}
        (Some(recorded), _) => chain.extend(recorded.iter().take_while(|value| !user.contains(value))),
    }
}
