//! Playing a recording in the order of time.

use std::num::NonZeroU64;
use std::thread;

use decoder::values::U64s;
use decoder::{DecodeError, Endian, RawRecord, Record, Sample, context, kind};
use model::{EventIndex, Loss, Tid};
use perfdata::Description;
use tracker::{Deferred, Tracker};

use super::build_ids::ListedBuildIds;
use super::counts::Counts;
use super::events::is_dummy;
use super::input::Input;
use super::last_branches::{self, are_calls};
use super::loss::LossAccount;
use super::ordered::{Batch, Batches, Ordered};
use super::undecodable::Undecodable;
use crate::console::{Console, Progress};

/// A sample, and the machine at its moment.
pub struct Moment<'a> {
    /// Threads and mappings.
    pub tracker: &'a mut Tracker,
    /// The event.
    pub event: EventIndex,
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// How many events the sample stands for.
    pub period: u64,
    /// The user part of its call chain, where the kernel delivered that later.
    pub deferred: Option<U64s<'a>>,
}

/// What takes the samples of a recording.
pub trait Sink {
    /// Takes the next sample, in the order of time.
    ///
    /// # Errors
    /// Where it cannot go on (its output is gone, say): the replay ends with that error.
    fn sample(&mut self, moment: Moment<'_>) -> anyhow::Result<()>;

    /// Threads or mappings are about to change: what was put aside must be looked up now, or not at all.
    fn settle(&mut self, _tracker: &mut Tracker) {}

    /// Takes a record beside the samples, in the order of time.
    fn record(&mut self, _record: &Record<'_>) {}
}

/// A recording that has been played.
pub struct Replayed {
    /// The machine at the end, and all spaces that were met.
    pub tracker: Tracker,
    /// What could not be delivered.
    pub loss: Loss,
    /// Its events and features.
    pub recording: Description,
}

/// Plays `input` into `sink`.
///
/// # Errors
/// Where the recording cannot be read on, and those of the sink.
pub fn replay(input: Input, console: &Console, sink: &mut dyn Sink) -> anyhow::Result<Replayed> {
    let Input { reader, name } = input;
    let progress = Progress::new(console, &format!("reading {name}"), reader.total_size());
    let mut replay = Replay::default();
    let outcome = thread::scope(|scope| {
        let batches = Batches::of(reader, &name, scope)?;
        let played = replay.play(&batches, &progress, sink);
        let outcome = batches.finish();
        // A sink that failed ended the reading, too.
        played.and(outcome)
    })?;
    for notice in &outcome.notices {
        console.warn(&format!("{name}: {notice}"));
    }
    if let Some(notice) = replay.undecodable.notice() {
        console.warn(&format!("{name}: {notice}"));
    }
    let mut loss = replay.account.loss();
    loss += outcome.loss;
    Ok(Replayed { tracker: replay.tracker, loss, recording: outcome.recording })
}

#[derive(Default)]
struct Replay {
    tracker: Tracker,
    /// Samples whose user call chain is still to come.
    deferred: Deferred<Kept>,
    account: LossAccount,
    undecodable: Undecodable,
    /// The counters that samples carry, as they were last.
    counts: Counts,
    build_ids: ListedBuildIds,
}

/// A sample that outlives its batch.
struct Kept {
    event: Option<EventIndex>,
    offset: Option<NonZeroU64>,
    kind: u32,
    misc: u16,
    body: Vec<u8>,
}

impl Kept {
    fn of(record: &Ordered<'_>) -> Self {
        let RawRecord { kind, misc, body } = record.raw;
        Self { event: record.event, offset: record.offset, kind, misc, body: body.to_vec() }
    }

    fn ordered(&self) -> Ordered<'_> {
        let raw = RawRecord { kind: self.kind, misc: self.misc, body: &self.body };
        Ordered { raw, event: self.event, offset: self.offset }
    }
}

impl Replay {
    fn play(
        &mut self,
        batches: &Batches<'_>,
        progress: &Progress,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<()> {
        let mut latest = None;
        while let Some(batch) = batches.next() {
            progress.set(batch.position);
            for index in 0..batch.len() {
                self.take(&batch, index, sink)?;
            }
            latest = Some(batch.recording.clone());
            batches.give_back(batch);
        }
        if let Some(recording) = latest {
            for sample in self.deferred.finish().collect::<Vec<_>>() {
                self.take_without_user_part(&recording, &sample, sink)?;
            }
        }
        sink.settle(&mut self.tracker);
        Ok(())
    }

    fn take(&mut self, batch: &Batch, index: usize, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let Some(record) = batch.get(index) else { return Ok(()) };
        if record.raw.kind != kind::SAMPLE {
            return self.take_sideband(&batch.recording, record, sink);
        }
        self.take_sample(&batch.recording, record, None, batch.chains.get(index), sink)
    }

    fn take_sideband(
        &mut self,
        recording: &Description,
        record: Ordered<'_>,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<()> {
        self.build_ids.tell(recording, &mut self.tracker);
        let Some(layout) = recording.layout_of(record.event) else { return Ok(()) };
        match layout.decode(&record.raw) {
            Ok(Record::Lost(lost)) => self.account.lost(&lost),
            Ok(Record::LostSamples(lost)) => {
                let event = record.event.and_then(|event| recording.event(event));
                self.account.lost_samples(&lost, event.is_some_and(|event| is_dummy(&event.attr)));
            }
            Ok(Record::Throttle(_)) => self.account.throttled(),
            Ok(Record::CallchainDeferred(chain)) => {
                let tid = chain.sample_id.thread.map_or(Tid(-1), |(_, tid)| tid);
                for sample in self.deferred.complete(tid, chain.cookie).collect::<Vec<_>>() {
                    self.take_sample(recording, sample.ordered(), Some(chain.ips), None, sink)?;
                }
            }
            Ok(record) => {
                sink.settle(&mut self.tracker);
                self.tracker.apply(&record);
                sink.record(&record);
            }
            Err(error) => self.undecodable(&record, error),
        }
        Ok(())
    }

    #[cold]
    fn undecodable(&mut self, record: &Ordered<'_>, error: DecodeError) {
        self.account.undecodable();
        self.undecodable.add(record.offset.map(NonZeroU64::get), record.raw.kind, error);
    }

    /// Hands on a sample whose user call chain never came.
    fn take_without_user_part(
        &mut self,
        recording: &Description,
        sample: &Kept,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<()> {
        let nothing = U64s::new(&[], recording.endian());
        self.take_sample(recording, sample.ordered(), Some(nothing), None, sink)
    }

    /// Hands a sample to the sink, or puts it aside if its user call chain is still to come. `unwound` is its call
    /// chain, where its raw stack had to be unwound.
    fn take_sample(
        &mut self,
        recording: &Description,
        record: Ordered<'_>,
        deferred: Option<U64s<'_>>,
        unwound: Option<&[u8]>,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<()> {
        let Some(index) = record.event else { return Ok(()) };
        let Some(event) = recording.event(index) else { return Ok(()) };
        let mut sample = match event.layout.decode(&record.raw) {
            Ok(Record::Sample(sample)) => sample,
            Ok(_) => {
                self.account.undecodable();
                return Ok(());
            }
            Err(error) => {
                self.undecodable(&record, error);
                return Ok(());
            }
        };
        let calls = if are_calls(&event.attr) { last_branches::chain(&sample) } else { None };
        let calls: Option<Vec<u8>> =
            calls.map(|chain| chain.iter().flat_map(|address| address.to_ne_bytes()).collect());
        if let Some(chain) = &calls {
            sample.callchain = Some(U64s::new(chain, Endian::NATIVE));
        } else if let Some(chain) = unwound {
            sample.callchain = Some(U64s::new(chain, recording.endian()));
        } else if deferred.is_none()
            && let Some(cookie) = sample.callchain.and_then(deferred_cookie)
        {
            let tid = sample.thread.map_or(Tid(-1), |(_, tid)| tid);
            return match self.deferred.wait(tid, cookie, Kept::of(&record)) {
                Some(in_vain) => self.take_without_user_part(recording, &in_vain, sink),
                None => Ok(()),
            };
        }
        let tracker = &mut self.tracker;
        let Some(values) = sample.read else {
            let fixed = if event.attr.is_frequency() { 1 } else { event.attr.sample_period };
            let period = sample.period.unwrap_or(fixed);
            return sink.sample(Moment { tracker, event: index, sample: &sample, period, deferred });
        };
        for (id, count) in self.counts.since_last(&values) {
            let Some(event) = id.map_or(Some(index), |id| recording.event_of_id(id)) else {
                self.account.unattributed();
                continue;
            };
            sample.period = Some(count);
            let tracker = &mut self.tracker;
            sink.sample(Moment { tracker, event, sample: &sample, period: count, deferred })?;
        }
        Ok(())
    }
}

/// The cookie that stands for the user part, at the end of a call chain whose user part comes later.
fn deferred_cookie(chain: U64s<'_>) -> Option<u64> {
    let marker = chain.get(chain.len().checked_sub(2)?)?;
    (marker == context::USER_DEFERRED).then(|| chain.get(chain.len() - 1))?
}
