//! Names for places, looked for on a thread of their own, so that nobody waits for them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use analysis::jit_dumps::JitDumps;
use analysis::symbols::{Remarks, SymbolSettings, Symbolizing, Symbols};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use host::objects::SearchPaths;
use host::sys::memory;
use model::{Pid, Resolution, Space, SpaceId, SpaceTable, StackEntry};
use rustc_hash::FxBuildHasher;

use super::queue::{NameRequest, Queue, Stage};

/// Places to be named.
struct Batch {
    /// The kernels: the one that runs must be known for its modules, too.
    kernels: Vec<Space>,
    requests: Vec<NameRequest>,
    /// True if somebody waits for the names.
    urgent: bool,
}

/// An order to the thread.
enum Order {
    Name(Batch),
    /// Nobody asks for other places any more.
    Keep(HashSet<StackEntry, FxBuildHasher>),
}

/// The names that were found for a place.
pub(crate) struct Named {
    /// The place.
    pub(crate) place: StackEntry,
    /// Its name, or why there is none.
    pub(crate) resolution: Resolution,
    /// The stage of the answer: after the symbols alone, more comes later.
    pub(crate) stage: Stage,
}

/// Bytes of objects that are kept between passes: new places of the same programs come all the time.
const KEPT: usize = 16 << 20;
/// A pass that takes as long leaves much memory behind.
const WORTH_A_TRIM: Duration = Duration::from_millis(20);
/// The time since the last trim after which a pass of any length is followed by one.
const BETWEEN_TRIMS: Duration = Duration::from_secs(15);

/// The thread that looks for names.
pub(crate) struct SymbolWorker {
    symbols: Arc<Symbolizing>,
    orders: Sender<Order>,
    answers: Receiver<Vec<Named>>,
    /// Remarks on files that were found and not used so far, a sentence each.
    remarks: Arc<Mutex<Vec<String>>>,
}

impl SymbolWorker {
    /// Starts the thread of the worker.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start(dumps: &Arc<JitDumps>) -> std::io::Result<Self> {
        let (orders, asked) = unbounded();
        let (sender, answers) = unbounded();
        let symbolizing = Symbolizing::new(&SymbolSettings {
            paths: SearchPaths::from_environment(None, Vec::new(), true),
            options: symbolizer::Options::default(),
        });
        let symbolizing = Arc::new(symbolizing.with_dumps(dumps).keeping_indexes(KEPT).with_few_threads());
        let symbols = Arc::clone(&symbolizing);
        let remarks = Arc::default();
        let said = Arc::clone(&remarks);
        thread::Builder::new()
            .name("naming".to_owned())
            .spawn(move || look(&symbolizing, &asked, &sender, &said))?;
        Ok(Self { symbols, orders, answers, remarks })
    }

    /// Begins to read the running kernel's names, as samples of it will come.
    pub(crate) fn expect_kernel(&self) {
        self.symbols.read_kernel_ahead();
    }

    /// Asks for the names of places, at once if `urgent`; all that were asked for before are urgent then, too. `pids`
    /// tells processes that a space was seen in, `weights` what its innermost places weigh.
    pub(crate) fn ask(
        &self,
        places: &[StackEntry],
        spaces: &SpaceTable,
        pids: impl Fn(SpaceId) -> Vec<Pid>,
        weights: &HashMap<SpaceId, u64, FxBuildHasher>,
        urgent: bool,
    ) {
        let kernels = spaces.iter().filter(|(_, space)| matches!(space, Space::Kernel { .. }));
        let kernels = kernels.map(|(_, space)| space.clone()).collect();
        let mut requests: HashMap<SpaceId, NameRequest> = HashMap::new();
        for &place in places {
            let request = requests.entry(place.space).or_insert_with(|| NameRequest {
                id: place.space,
                space: spaces.get(place.space).clone(),
                pids: pids(place.space),
                places: Vec::new(),
                weight: weights.get(&place.space).copied().unwrap_or(0),
            });
            request.places.push(place);
        }
        // The thread lives as long as we do; if it has panicked, names stay away.
        let batch = Batch { kernels, requests: requests.into_values().collect(), urgent };
        let _ = self.orders.send(Order::Name(batch));
    }

    /// Takes back what was asked for, but for these places.
    pub(crate) fn keep_only(&self, live: HashSet<StackEntry, FxBuildHasher>) {
        let _ = self.orders.send(Order::Keep(live));
    }

    /// Returns the remarks on sources of names that were not used, or in part only, since the start: a bounded number
    /// of sentences. Files are called as the profiled machine calls them.
    pub(crate) fn remarks(&self) -> Vec<String> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names found since the last call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Named> {
        self.answers.try_iter().flatten()
    }
}

/// Looks for what is asked for, space by space, until nobody asks any more.
fn look(
    symbolizing: &Symbolizing,
    asked: &Receiver<Order>,
    sender: &Sender<Vec<Named>>,
    said: &Mutex<Vec<String>>,
) {
    let mut queue = Queue::default();
    let mut remarks = Remarks::default();
    let mut kernels = Vec::new();
    let mut given_back = Instant::now();
    loop {
        let asked = match queue.due() {
            // Always with a look whether anybody is still there.
            Some(due) => asked.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match asked {
            Ok(Order::Keep(live)) => {
                queue.keep_only(&live);
                continue;
            }
            Ok(Order::Name(batch)) => {
                kernels = batch.kernels;
                queue.add(batch.requests, batch.urgent, Instant::now());
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let begin = Instant::now();
        let (mut requests, mut stage) = (queue.take_small(begin), Stage::Whole);
        if requests.is_empty()
            && let Some(taken) = queue.take(begin)
        {
            stage = taken.1;
            requests.push(taken.0);
        }
        let Some(count) = u32::try_from(requests.len()).ok().filter(|&count| count > 0) else { continue };
        let (named, new_remarks) = name(symbolizing, &kernels, &requests, stage);
        if remarks.merge(new_remarks) {
            // Before the names, so that whoever has them knows what they lack.
            *said.lock().unwrap_or_else(PoisonError::into_inner) = remarks.sentences();
        }
        let end = Instant::now();
        let share = end.saturating_duration_since(begin) / count;
        for request in requests {
            queue.done(request.id, stage, end.checked_sub(share).unwrap_or(begin), end);
            if stage == Stage::Symbols {
                queue.add_rest(request, end);
            }
        }
        // What reading a large object takes is needed no more, but for what is kept; what many small ones took lies in
        // pieces, between what is in use.
        if begin.elapsed() > WORTH_A_TRIM || given_back.elapsed() > BETWEEN_TRIMS {
            memory::release_freed();
            given_back = Instant::now();
        }
        if sender.send(named).is_err() {
            return;
        }
    }
}

/// The names of the places of some spaces, and what is to be said of the files they come from.
fn name(
    symbolizing: &Symbolizing,
    kernels: &[Space],
    requests: &[NameRequest],
    stage: Stage,
) -> (Vec<Named>, Remarks) {
    symbolizing.be_patient_again();
    let mut spaces = SpaceTable::default();
    for kernel in kernels {
        spaces.intern(kernel.clone());
    }
    // Equal spaces that were forgotten in between have several numbers.
    let requests: Vec<(SpaceId, &NameRequest)> =
        requests.iter().map(|request| (spaces.intern(request.space.clone()), request)).collect();
    let pids: HashMap<SpaceId, &[Pid]> =
        requests.iter().map(|(space, request)| (*space, &*request.pids)).collect();
    let places = || {
        requests.iter().flat_map(|&(space, request)| {
            request.places.iter().map(move |&asked| (asked, StackEntry { space, ..asked }))
        })
    };
    let mut symbols = Symbols::default();
    let entries = places().map(|(_, entry)| entry);
    let pids = |space| pids.get(&space).map_or_else(Vec::new, |pids| pids.to_vec());
    match stage {
        Stage::Symbols => symbolizing.resolve_without_inlines(entries, &spaces, pids, &mut symbols),
        Stage::Whole => symbolizing.resolve(entries, &spaces, pids, &mut symbols),
    }
    let found = |(place, entry)| {
        let resolution = symbols.resolutions.get(&entry)?.clone();
        Some(Named { place, resolution, stage })
    };
    let named = places().filter_map(found).collect();
    (named, symbols.into_remarks())
}
