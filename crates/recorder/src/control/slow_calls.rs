//! Detects slow calls: matches the samples of a probe at a function's entry with those of one at its return, while recording.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use decoder::{Record, RecordLayout, kind};
use model::{Tid, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::Orderer;

use crate::consumer::{Chunk, News, RecordObserver, Recording, RingKind};
use crate::notice::Notice;
use crate::options::SlowCall;
use crate::records::raw_records;

/// Number of rounds after which later stages have forwarded the samples of a slow call.
const ROUNDS_UNTIL_DUMP: u8 = 2;
/// Shortest time between two files for the same function, which may be slow all the time.
const MIN_DUMP_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of calls of a thread without a return; of a deeper recursion the outermost calls are forgotten.
const MAX_OPEN_CALLS: usize = 1 << 10;
/// Maximum number of threads with such calls. When it is reached, all are forgotten: threads that ended within a call stay
/// until then.
const MAX_THREADS: usize = 1 << 16;

/// Requests a file when a call was slow.
pub(crate) struct SlowCallDetector {
    calls: Vec<SlowCall>,
    /// For each id of the kernel: the index in `calls`, and whether the probe is at the return.
    ids: HashMap<u64, (usize, bool), FxBuildHasher>,
    layouts: Vec<[Option<RecordLayout>; 2]>,
    orderer: Orderer<(usize, bool, Tid)>,
    /// The entry times of calls without a return, by index in `calls` and thread; the innermost is the last.
    open_calls: HashMap<(usize, Tid), Vec<u64>, FxBuildHasher>,
    /// When each of `calls` last requested a file.
    requested: Vec<Option<Instant>>,
    /// Number of rounds until a file is requested, if one is to be.
    rounds: Option<u8>,
}

impl SlowCallDetector {
    /// Watches for slow `calls` among the samples.
    pub(crate) fn new(calls: Vec<SlowCall>) -> Self {
        Self {
            requested: vec![None; calls.len()],
            calls,
            ids: HashMap::default(),
            layouts: Vec::new(),
            orderer: Orderer::default(),
            open_calls: HashMap::default(),
            rounds: None,
        }
    }

    /// Puts the samples of the probes into the order of time.
    fn push_samples(&mut self, records: &[u8]) {
        let Some(any) = self.layouts.iter().flatten().flatten().next().cloned() else { return };
        for raw in raw_records(records) {
            if raw.kind != kind::SAMPLE {
                continue;
            }
            // The id is at the same offset in samples of all events.
            let Some(&(place, is_return)) = any.id_of(&raw).and_then(|id| self.ids.get(&id)) else {
                continue;
            };
            let layout = self.layouts.get(place).and_then(|both| both[usize::from(is_return)].as_ref());
            if let Some(Ok(Record::Sample(sample))) = layout.map(|layout| layout.decode(&raw))
                && let (Some((_, tid)), Some(time)) = (sample.thread, sample.time)
            {
                self.orderer.push(time, (place, is_return, tid));
            }
        }
    }

    fn match_calls(&mut self, news: &mut News) {
        self.orderer.finish_round();
        while let Some((Timestamp(time), (place, is_return, tid))) = self.orderer.pop() {
            if !is_return {
                if self.open_calls.len() >= MAX_THREADS {
                    self.open_calls.clear();
                }
                let open_calls = self.open_calls.entry((place, tid)).or_default();
                if open_calls.len() >= MAX_OPEN_CALLS {
                    open_calls.remove(0);
                }
                open_calls.push(time);
                continue;
            }
            let Some(open_calls) = self.open_calls.get_mut(&(place, tid)) else { continue };
            let took = open_calls.pop().map(|begin| Duration::from_nanos(time.saturating_sub(begin)));
            if open_calls.is_empty() {
                self.open_calls.remove(&(place, tid));
            }
            if let (Some(took), Some(call)) = (took, self.calls.get(place))
                && took > call.limit
                && let Some(requested) = self.requested.get_mut(place)
                && requested.is_none_or(|requested| requested.elapsed() >= MIN_DUMP_INTERVAL)
            {
                *requested = Some(Instant::now());
                let took = took.as_secs_f64() * 1000.0;
                let why = format!("a call of {} in thread {} took {took:.1} ms", call.name, tid.0);
                news.notices.push(Notice::ConditionMet(why));
                self.rounds.get_or_insert(ROUNDS_UNTIL_DUMP);
            }
        }
    }
}

impl RecordObserver for SlowCallDetector {
    fn begin(&mut self, recording: &Recording) {
        for (place, call) in self.calls.iter().enumerate() {
            let mut layouts = [None, None];
            for (is_return, probe) in [false, true].into_iter().zip(&call.probes) {
                let index = recording.events.iter().position(|event| event.name == probe.name);
                let Some(index) = index else { continue };
                if let (Some(layout), Some(event)) =
                    (layouts.get_mut(usize::from(is_return)), recording.events.get(index))
                {
                    *layout = recording.layout(index);
                    self.ids.extend(event.ids.iter().map(|&id| (id, (place, is_return))));
                }
            }
            self.layouts.push(layouts);
        }
    }

    fn observe(&mut self, chunk: &Chunk) {
        if chunk.ring == RingKind::Samples {
            self.push_samples(&chunk.bytes);
        }
    }

    fn finished_round(&mut self, news: &mut News) {
        self.rounds = match self.rounds {
            Some(0) => {
                news.wants_dump = true;
                None
            }
            rounds => rounds.map(|rounds| rounds - 1),
        };
        self.match_calls(news);
    }
}
