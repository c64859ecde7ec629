//! The thread that finds the functions of sampled addresses, so that neither recording nor drawing waits for symbol files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use analysis::jit_dumps::JitDumps;
use analysis::symbols::{Remarks, SymbolSettings, Symbolizing, Symbols};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use host::objects::SearchPaths;
use host::sys::{clock, memory};
use model::{Pid, Resolution, SpaceId, SpaceTable, StackEntry};
use rustc_hash::FxBuildHasher;
use symbolizer::NameStyle;

use super::name_queue::{Haste, NameQueue, NameRequest, Stage};

/// A request for the functions of addresses.
struct Batch {
    /// The tracker's spaces.
    spaces: SpaceTable,
    requests: Vec<NameRequest>,
    haste: Haste,
}

/// A message to the thread.
enum WorkerMessage {
    Request(Batch),
    /// Drop requests for all other addresses.
    Retain(HashSet<StackEntry, FxBuildHasher>),
}

/// The functions at an address, as the worker has found them.
pub(crate) struct NamedAddress {
    /// The address.
    pub(crate) entry: StackEntry,
    /// The functions, or why there are none.
    pub(crate) resolution: Resolution,
    /// The stage of the lookup. After [`Stage::Symbols`] another answer follows, with inlined calls.
    pub(crate) stage: Stage,
}

/// Bound of what is kept of objects between passes, in bytes: new addresses of the same programs come all the time. It holds the unpacked
/// debug sections of the C library (7 MB) beside the symbols of programs; those of large ones are not kept. With 24
/// MB, `prof watch` had no less to do beside builds, and more resident (decision 18).
const KEPT_INDEX_BYTES: usize = 16 << 20;
/// A pass that takes at least this long has freed much memory, which is returned to the system right after it.
const LONG_PASS: Duration = Duration::from_millis(20);
/// After this time, memory is returned to the system even if all passes were short.
const TRIM_INTERVAL: Duration = Duration::from_secs(15);

/// The symbol worker: a thread, and the channels to it. The thread ends when this value is dropped.
pub(crate) struct SymbolWorker {
    symbols: Arc<Symbolizing>,
    messages: Sender<WorkerMessage>,
    answers: Receiver<Vec<NamedAddress>>,
    /// A sentence for each file that was found and not used so far.
    remarks: Arc<Mutex<Vec<String>>>,
}

impl SymbolWorker {
    /// Starts the thread, which names functions in this style. Generated functions are looked up in `dumps`, too.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start(dumps: &Arc<JitDumps>, names: NameStyle) -> std::io::Result<Self> {
        let (messages, inbox) = unbounded();
        let (outbox, answers) = unbounded();
        let symbolizing = Symbolizing::new(&SymbolSettings {
            paths: SearchPaths::from_environment(None, Vec::new(), true),
            options: symbolizer::Options { names, ..symbolizer::Options::default() },
            reads_sources: false,
        });
        let symbolizing =
            Arc::new(symbolizing.with_dumps(dumps).keeping_indexes(KEPT_INDEX_BYTES).with_few_threads());
        let symbols = Arc::clone(&symbolizing);
        let remarks = Arc::default();
        let published_remarks = Arc::clone(&remarks);
        thread::Builder::new()
            .name("naming".to_owned())
            .spawn(move || run(&symbolizing, &inbox, &outbox, &published_remarks))?;
        Ok(Self { symbols, messages, answers, remarks })
    }

    /// Starts to read the running kernel's symbols in the background, because samples of the kernel will come.
    pub(crate) fn expect_kernel(&self) {
        self.symbols.read_kernel_ahead();
    }

    /// Asks for the functions at `entries`; `haste` is for these and all earlier requests. `pids` returns processes that a space was seen
    /// in; `weights` has the weight of the samples whose innermost address lies in a space.
    pub(crate) fn request(
        &self,
        entries: &[StackEntry],
        spaces: &SpaceTable,
        pids: impl Fn(SpaceId) -> Vec<Pid>,
        weights: &HashMap<SpaceId, u64, FxBuildHasher>,
        haste: Haste,
    ) {
        let mut requests: HashMap<SpaceId, NameRequest> = HashMap::new();
        for &entry in entries {
            let request = requests.entry(entry.space).or_insert_with(|| NameRequest {
                id: entry.space,
                space: spaces.get(entry.space).clone(),
                pids: pids(entry.space),
                entries: Vec::new(),
                weight: weights.get(&entry.space).copied().unwrap_or(0),
            });
            request.entries.push(entry);
        }
        // Sending fails only if the thread has panicked; then no further names appear.
        let (spaces, requests) = (spaces.clone(), requests.into_values().collect());
        let batch = Batch { spaces, requests, haste };
        let _ = self.messages.send(WorkerMessage::Request(batch));
    }

    /// Withdraws the requests for all addresses that are not in `live`.
    pub(crate) fn retain(&self, live: HashSet<StackEntry, FxBuildHasher>) {
        let _ = self.messages.send(WorkerMessage::Retain(live));
    }

    /// Returns a sentence for each symbol file that was not used, or in part only, since the start. Their number is bounded. Files
    /// are called by their paths on the profiled machine.
    pub(crate) fn remarks(&self) -> Vec<String> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the answers since the last call, without waiting.
    pub(crate) fn answers(&self) -> impl Iterator<Item = NamedAddress> {
        self.answers.try_iter().flatten()
    }
}

/// Answers requests, space by space, until the other end of the channels is dropped.
fn run(
    symbolizing: &Symbolizing,
    inbox: &Receiver<WorkerMessage>,
    outbox: &Sender<Vec<NamedAddress>>,
    published_remarks: &Mutex<Vec<String>>,
) {
    let mut queue = NameQueue::default();
    let mut remarks = Remarks::default();
    let mut spaces = SpaceTable::default();
    let mut trimmed_at = Instant::now();
    loop {
        let message = match queue.due() {
            // A wait of no time still sees whether the other end has been dropped.
            Some(due) => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(WorkerMessage::Retain(live)) => {
                queue.retain(&live);
                continue;
            }
            Ok(WorkerMessage::Request(batch)) => {
                spaces = batch.spaces;
                queue.add(batch.requests, batch.haste, Instant::now());
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let begin = Instant::now();
        let (mut requests, mut stage) = (queue.pop_small(begin), Stage::Full);
        if requests.is_empty()
            && let Some((request, of_request)) = queue.pop(begin)
        {
            stage = of_request;
            requests.push(request);
        }
        let Some(count) = u32::try_from(requests.len()).ok().filter(|&count| count > 0) else { continue };
        // Other threads of ours work while this one does, but little.
        let cpu_before = clock::cpu_time_of_this_process();
        let (named, new_remarks) = symbolize(symbolizing, &spaces, &requests, stage);
        let is_last = named.iter().all(|named| named.stage == Stage::Full);
        if remarks.merge(new_remarks) {
            // Before the answers: a snapshot with names that are missing has the reason beside them.
            *published_remarks.lock().unwrap_or_else(PoisonError::into_inner) = remarks.sentences();
        }
        let end = Instant::now();
        let share = clock::cpu_time_of_this_process().saturating_sub(cpu_before) / count;
        for request in requests {
            queue.record_pass(request.id, stage, share, end);
            if !is_last {
                queue.add_second_stage(request, end);
            }
        }
        // A large object leaves much free memory in one piece. That of many small ones is scattered between memory in use.
        if begin.elapsed() > LONG_PASS || trimmed_at.elapsed() > TRIM_INTERVAL {
            memory::release_freed();
            trimmed_at = Instant::now();
        }
        if outbox.send(named).is_err() {
            return;
        }
    }
}

/// Finds the functions of the requested addresses, and remarks on the files that they come from.
fn symbolize(
    symbolizing: &Symbolizing,
    spaces: &SpaceTable,
    requests: &[NameRequest],
    stage: Stage,
) -> (Vec<NamedAddress>, Remarks) {
    symbolizing.reset_timeouts();
    let pids: HashMap<SpaceId, &[Pid]> =
        requests.iter().map(|request| (request.id, &*request.pids)).collect();
    let pids = |space| pids.get(&space).map_or_else(Vec::new, |pids| pids.to_vec());
    let entries = || requests.iter().flat_map(|request| request.entries.iter().copied());
    let mut symbols = Symbols::default();
    match stage {
        Stage::Symbols => symbolizing.resolve_without_inlines(entries(), spaces, pids, &mut symbols),
        Stage::Full => symbolizing.resolve(entries(), spaces, pids, &mut symbols),
    }
    // Of most programs, symbols are all that there is.
    let stage = if symbols.has_more_than_symbols { stage } else { Stage::Full };
    let named = entries().filter_map(|entry| {
        let resolution = symbols.resolutions.get(&entry)?.clone();
        Some(NamedAddress { entry, resolution, stage })
    });
    let named = named.collect();
    (named, symbols.into_remarks())
}
