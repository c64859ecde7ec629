//! Playing a recording in the order of time.

use std::sync::Arc;
use std::thread;

use decoder::values::U64s;
use decoder::{Endian, RawRecord, Record, Sample, SampleFormat, context, kind};
use model::{EventIndex, Loss, Pid, Tid};
use perfdata::Description;
use tracker::{Deferred, Tracker};

use super::counts::Counts;
use super::events::is_dummy;
use super::input::Input;
use super::last_branches::{self, are_calls};
use super::loss::LossAccount;
use super::ordered::{Batch, Batches, Ordered};
use super::unwind::UserStacks;
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
    /// The counters that samples carry, as they were last.
    counts: Counts,
    /// How many of the listed build ids the tracker has.
    build_ids: usize,
    /// Unwinds raw user stacks; made for the first one.
    stacks: Option<UserStacks>,
    /// Samples that are handed on when their stacks, or those of earlier samples, have been unwound: the place in
    /// their batch, and whether they are in `stacks`.
    waiting: Vec<(Arc<Batch>, usize, bool)>,
}

/// A sample that outlives its batch.
struct Kept {
    event: Option<EventIndex>,
    kind: u32,
    misc: u16,
    body: Vec<u8>,
}

impl Kept {
    fn of(record: &Ordered<'_>) -> Self {
        let RawRecord { kind, misc, body } = record.raw;
        Self { event: record.event, kind, misc, body: body.to_vec() }
    }

    fn ordered(&self) -> Ordered<'_> {
        Ordered { raw: RawRecord { kind: self.kind, misc: self.misc, body: &self.body }, event: self.event }
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
            let batch = Arc::new(batch);
            for index in 0..batch.len() {
                self.take(&batch, index, sink)?;
            }
            latest = Some(batch.recording.clone());
            if let Some(batch) = Arc::into_inner(batch) {
                batches.give_back(batch);
            }
        }
        self.finish_waiting(sink)?;
        if let Some(recording) = latest {
            for sample in self.deferred.finish().collect::<Vec<_>>() {
                self.take_without_user_part(&recording, &sample, sink)?;
            }
        }
        sink.settle(&mut self.tracker);
        Ok(())
    }

    fn take(&mut self, batch: &Arc<Batch>, index: usize, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let Some(record) = batch.get(index) else { return Ok(()) };
        if record.raw.kind != kind::SAMPLE {
            // What it says of threads and mappings does not hold for earlier samples.
            self.finish_waiting(sink)?;
            return self.take_sideband(&batch.recording, record, sink);
        }
        let unwind = self.must_unwind(&batch.recording, record);
        if unwind || !self.waiting.is_empty() {
            self.waiting.push((Arc::clone(batch), index, unwind));
        } else {
            self.take_sample(&batch.recording, record, None, None, sink)?;
        }
        if self.stacks.as_ref().is_some_and(UserStacks::is_full) {
            self.finish_waiting(sink)?;
        }
        Ok(())
    }

    /// Takes a sample's user stack to be unwound, if it has one.
    fn must_unwind(&mut self, recording: &Description, record: Ordered<'_>) -> bool {
        let Some(event) = record.event.and_then(|event| recording.event(event)) else {
            return false;
        };
        if !event.attr.sample_format.contains(SampleFormat::REGS_USER | SampleFormat::STACK_USER) {
            return false;
        }
        let stacks = self.stacks.get_or_insert_with(|| UserStacks::of(recording));
        // A record that cannot be decoded is counted when its turn comes.
        match event.layout.decode(&record.raw) {
            Ok(Record::Sample(sample)) => stacks.take(&sample, &mut self.tracker),
            _ => false,
        }
    }

    /// Unwinds the stacks of the samples that wait, and hands these on.
    fn finish_waiting(&mut self, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let Some(stacks) = self.stacks.as_mut().filter(|_| !self.waiting.is_empty()) else { return Ok(()) };
        let mut chains = stacks.unwind().into_iter();
        for (batch, index, unwound) in std::mem::take(&mut self.waiting) {
            let chain = if unwound { chains.next() } else { None };
            if let Some(record) = batch.get(index) {
                self.take_sample(&batch.recording, record, None, chain.as_deref(), sink)?;
            }
        }
        Ok(())
    }

    fn take_sideband(
        &mut self,
        recording: &Description,
        record: Ordered<'_>,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<()> {
        self.list_build_ids(recording);
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
            Err(_) => self.account.undecodable(),
        }
        Ok(())
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
        let Ok(Record::Sample(mut sample)) = event.layout.decode(&record.raw) else {
            self.account.undecodable();
            return Ok(());
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

    /// Gives the tracker the build ids that the recording lists; a pipe lists them late.
    fn list_build_ids(&mut self, recording: &Description) {
        let listed = &recording.features().build_ids;
        for entry in &listed[self.build_ids.min(listed.len())..] {
            if entry.pid == Pid::NONE {
                self.tracker.add_build_id(entry.path.as_bytes(), entry.build_id);
            }
        }
        self.build_ids = listed.len();
    }
}

/// The cookie that stands for the user part, at the end of a call chain whose user part comes later.
fn deferred_cookie(chain: U64s<'_>) -> Option<u64> {
    let marker = chain.get(chain.len().checked_sub(2)?)?;
    (marker == context::USER_DEFERRED).then(|| chain.get(chain.len() - 1))?
}
