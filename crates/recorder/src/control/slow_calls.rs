//! Calls that take too long: a probe at the entry of a function and one at its return, whose samples are matched as they come.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use decoder::{Endian, RawRecord, Record, RecordLayout, kind};
use model::{Tid, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::Orderer;

use super::NOBODY;
use crate::consumer::{Chunk, Consumer, Ending, Recording, RecordingSink, RingKind, forward_calls};
use crate::notice::Notice;
use crate::options::SlowCall;

/// Rounds until the stages behind have handed on what has come.
const ROUNDS: u8 = 2;
/// A function that is slow all the time makes a file no more often than this.
const BETWEEN: Duration = Duration::from_secs(10);
/// Calls of a thread that have not returned: of deeper recursion the outer ones are forgotten.
const MOST_CALLS: usize = 1 << 10;
/// Threads with such calls. Those that ended within one stay until there are so many.
const MOST_THREADS: usize = 1 << 16;

/// A consumer that hands everything on, and asks for a file when a call took too long.
pub(crate) struct CallWatch<C> {
    consumer: C,
    calls: Vec<SlowCall>,
    /// By the kernel's id: the place of the call, and whether it is its return.
    ids: HashMap<u64, (usize, bool), FxBuildHasher>,
    layouts: Vec<[Option<RecordLayout>; 2]>,
    orderer: Orderer<(usize, bool, Tid)>,
    /// The times at which calls began that have not returned.
    begun: HashMap<(usize, Tid), Vec<u64>, FxBuildHasher>,
    /// The time at which a file was asked for last, for each call.
    asked: Vec<Option<Instant>>,
    /// Rounds until the file is asked for.
    rounds: Option<u8>,
    notices: Vec<Notice>,
}

impl<C: Consumer> CallWatch<C> {
    /// Watches for `calls` in what goes to `consumer`.
    pub(crate) fn new(consumer: C, calls: Vec<SlowCall>) -> Self {
        Self {
            consumer,
            asked: vec![None; calls.len()],
            calls,
            ids: HashMap::default(),
            layouts: Vec::new(),
            orderer: Orderer::default(),
            begun: HashMap::default(),
            rounds: None,
            notices: Vec::new(),
        }
    }

    /// Notes the samples of the probes.
    fn note(&mut self, mut records: &[u8]) {
        let Some(any) = self.layouts.iter().flatten().flatten().next().cloned() else { return };
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            if raw.kind != kind::SAMPLE {
                continue;
            }
            // The id stands at the same place in samples of all events.
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

    fn match_calls(&mut self) {
        self.orderer.finish_round();
        while let Some((Timestamp(time), (place, is_return, tid))) = self.orderer.pop() {
            if !is_return {
                if self.begun.len() >= MOST_THREADS {
                    self.begun.clear();
                }
                let begun = self.begun.entry((place, tid)).or_default();
                if begun.len() >= MOST_CALLS {
                    begun.remove(0);
                }
                begun.push(time);
                continue;
            }
            let Some(begun) = self.begun.get_mut(&(place, tid)) else { continue };
            let took = begun.pop().map(|begin| Duration::from_nanos(time.saturating_sub(begin)));
            if begun.is_empty() {
                self.begun.remove(&(place, tid));
            }
            if let (Some(took), Some(call)) = (took, self.calls.get(place))
                && took > call.limit
                && let Some(asked) = self.asked.get_mut(place)
                && asked.is_none_or(|asked| asked.elapsed() >= BETWEEN)
            {
                *asked = Some(Instant::now());
                let took = took.as_secs_f64() * 1000.0;
                let why = format!("a call of {} in thread {} took {took:.1} ms", call.name, tid.0);
                self.notices.push(Notice::ConditionMet(why));
                self.rounds.get_or_insert(ROUNDS);
            }
        }
    }
}

impl<C: Consumer> RecordingSink for CallWatch<C> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
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
        self.consumer.begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.consumer.finished_round()?;
        self.rounds = match self.rounds {
            Some(0) => {
                self.consumer.request_dump(NOBODY);
                None
            }
            rounds => rounds.map(|rounds| rounds - 1),
        };
        self.match_calls();
        Ok(())
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.consumer.take_notices());
        notices
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.consumer.checkpoint()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.consumer.end(ending)
    }

    forward_calls!(this => this.consumer);
}

impl<C: Consumer> Consumer for CallWatch<C> {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if chunk.ring == RingKind::Samples {
            self.note(&chunk.bytes);
        }
        self.consumer.consume(chunk)
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        self.consumer.shorten_sample(sample, until, into)
    }
}
