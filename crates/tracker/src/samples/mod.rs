//! Records in time order to samples: what each one stands for, its call chain, and what went missing.
//!
//! A recording that is read and one that is watched while it is made go the same way through [`SampleReader`].

mod chain_limit;
mod counts;
mod last_branches;
mod loss;

use alloc::vec::Vec;
use core::num::NonZeroU64;

use decoder::record::Read;
use decoder::values::U64s;
use decoder::{Attr, AttrFlags, DecodeError, Endian, RawRecord, Record, RecordLayout, Sample, context, kind};
use hashbrown::HashSet;
use model::{EventIndex, Loss, Pid, Tid};
use rustc_hash::FxBuildHasher;

pub use self::chain_limit::{DEFAULT_CHAIN_LIMIT, chain_limit, mark_cut_chain};
use self::counts::{Counting, Counts};
use self::loss::LossAccount;
use crate::{Deferred, Tracker};

/// A source of facts about the events of a recording.
pub trait Events {
    /// The attr of an event.
    fn attr(&self, event: EventIndex) -> Option<&Attr>;

    /// The layout of the records of `event`; of a record that belongs to none, that of the first event.
    fn layout(&self, event: Option<EventIndex>) -> Option<&RecordLayout>;

    /// The event of which an instance has this id (`PERF_EVENT_IOC_ID`).
    fn event_of_id(&self, id: u64) -> Option<EventIndex>;

    /// Returns true if the event only carries what happened beside the samples.
    fn is_sideband(&self, event: EventIndex) -> bool;

    /// Returns true if sideband events have rings of their own, so that nothing lost there is a sample. perf's share one.
    fn have_sideband_rings(&self) -> bool;
}

/// A record of the kernel's types, when its turn in time has come.
#[derive(Clone, Copy, Debug)]
pub struct OrderedRecord<'a> {
    /// Its bytes.
    pub raw: RawRecord<'a>,
    /// The event that it belongs to.
    pub event: Option<EventIndex>,
    /// Its offset in its file; `None` for records out of a ring, a pipe or compressed pieces.
    pub offset: Option<NonZeroU64>,
}

/// A sample, and the recorded machine when it was taken.
pub struct TrackedSample<'a> {
    /// Threads and mappings.
    pub tracker: &'a mut Tracker,
    /// The event.
    pub event: EventIndex,
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// The number of events that the sample stands for.
    pub period: u64,
    /// The user part of its call chain, where the kernel delivered that later.
    pub deferred: Option<U64s<'a>>,
}

/// Receives what a [`SampleReader`] makes of records.
pub trait SampleSink {
    /// The error by which it says that it cannot go on.
    type Error;

    /// Receives the next sample, in time order.
    ///
    /// # Errors
    /// Where it cannot go on: the reader returns the error.
    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Self::Error>;

    /// A record is about to be applied; [`SampleSink::settle`] comes next, and [`SampleSink::record`] when it is.
    fn before(&mut self, _record: &Record<'_>) {}

    /// Threads or mappings are about to change: what was put aside must be looked up now, or not at all.
    fn settle(&mut self, _tracker: &mut Tracker) {}

    /// Receives a record beside the samples, in time order.
    fn record(&mut self, _record: &Record<'_>) {}

    /// Receives what a clock says a task has used, in time order.
    fn task_time(&mut self, _read: &Read<'_>) {}

    /// Receives a record that cannot be decoded. It has been counted.
    fn undecodable(&mut self, _record: &OrderedRecord<'_>, _error: DecodeError) {}
}

/// Reads the samples out of the records of a recording, which must come in time order.
///
/// - A sample with counters (`PERF_SAMPLE_READ`) becomes one for each event of its group that has counted since the sample
///   before, with that count as its period.
/// - A sample with the processor's call stack (LBR) gets a call chain made of it.
/// - A call chain that the kernel has cut at its maximum length gets a mark at its end.
/// - A sample whose user stack the kernel delivers later waits for it.
/// - What was lost is added up, each loss once ([`SampleReader::loss`]).
#[derive(Default, Debug)]
pub struct SampleReader {
    /// Threads and mappings at the moment of the last record.
    pub tracker: Tracker,
    deferred: Deferred<KeptRecord>,
    account: LossAccount,
    counts: Counts,
    /// Processes with an EXIT record at an exec, and no mapping since.
    unfollowed: HashSet<Pid, FxBuildHasher>,
}

/// A record that outlives the memory it was read from.
#[derive(Debug)]
struct KeptRecord {
    event: Option<EventIndex>,
    offset: Option<NonZeroU64>,
    kind: u32,
    misc: u16,
    body: Vec<u8>,
}

impl KeptRecord {
    fn new(record: &OrderedRecord<'_>) -> Self {
        let RawRecord { kind, misc, body } = record.raw;
        Self { event: record.event, offset: record.offset, kind, misc, body: body.to_vec() }
    }

    fn ordered(&self) -> OrderedRecord<'_> {
        let raw = RawRecord { kind: self.kind, misc: self.misc, body: &self.body };
        OrderedRecord { raw, event: self.event, offset: self.offset }
    }
}

impl SampleReader {
    /// Returns the loss counted so far.
    pub fn loss(&self) -> Loss {
        Loss { unfollowed: self.unfollowed.len() as u64, ..self.account.loss() }
    }

    /// Adds what went missing before it came here: records that another stage could not decode, or of no known event.
    pub fn add_loss(&mut self, loss: Loss) {
        self.account.add(loss);
    }

    /// Returns what went missing since the last call, and begins anew.
    pub fn take_loss(&mut self) -> Loss {
        core::mem::take(&mut self.account).loss()
    }

    /// Reads the next record. `unwound` is the call chain of a sample whose raw stack had to be unwound, in the byte order
    /// of the recording.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn read<S: SampleSink + ?Sized>(
        &mut self,
        events: &impl Events,
        record: OrderedRecord<'_>,
        unwound: Option<&[u8]>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if record.raw.kind == kind::SAMPLE {
            return self.read_sample(events, record, None, unwound, sink);
        }
        let Some(layout) = events.layout(record.event) else { return Ok(()) };
        let is_sideband = || record.event.is_some_and(|event| events.is_sideband(event));
        match layout.decode(&record.raw) {
            Ok(Record::Lost(lost)) => {
                self.account.lost(&lost, events.have_sideband_rings() && is_sideband());
                // Samples that wait were taken before the loss.
                sink.settle(&mut self.tracker);
                sink.record(&Record::Lost(lost));
            }
            Ok(Record::LostSamples(lost)) => self.account.lost_samples(&lost, is_sideband()),
            Ok(Record::Throttle(throttle)) => {
                self.account.throttled();
                sink.record(&Record::Throttle(throttle));
            }
            Ok(Record::CallchainDeferred(chain)) => {
                let tid = chain.sample_id.thread.map_or(Tid(-1), |(_, tid)| tid);
                for sample in self.deferred.complete(tid, chain.cookie).collect::<Vec<_>>() {
                    self.read_sample(events, sample.ordered(), Some(chain.ips), None, sink)?;
                }
            }
            Ok(Record::Read(read)) => {
                if record.event.and_then(|event| events.attr(event)).is_some_and(Attr::is_cpu_clock) {
                    sink.task_time(&read);
                }
                sink.record(&Record::Read(read));
            }
            Ok(decoded) => {
                match &decoded {
                    Record::Exit(task) => {
                        self.counts.forget(task.tid);
                        // The process lives: the kernel has ended its events, unless these are of whole CPUs.
                        if self.tracker.is_executing(task.pid) {
                            self.unfollowed.insert(task.pid);
                        }
                    }
                    Record::Mmap(map) => drop(self.unfollowed.remove(&map.pid)),
                    _ => {}
                }
                sink.before(&decoded);
                sink.settle(&mut self.tracker);
                self.tracker.apply(&decoded);
                sink.record(&decoded);
            }
            Err(error) => self.undecodable(&record, error, sink),
        }
        Ok(())
    }

    /// Hands on the samples whose user part has not come, and what `sink` has put aside. Nothing comes after that.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn finish<S: SampleSink + ?Sized>(
        &mut self,
        events: &impl Events,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        for sample in self.deferred.finish().collect::<Vec<_>>() {
            self.read_without_user_part(events, &sample, sink)?;
        }
        sink.settle(&mut self.tracker);
        Ok(())
    }

    #[cold]
    fn undecodable<S: SampleSink + ?Sized>(
        &mut self,
        record: &OrderedRecord<'_>,
        error: DecodeError,
        sink: &mut S,
    ) {
        self.account.undecodable();
        sink.undecodable(record, error);
    }

    /// Hands on a sample whose user call chain never came.
    fn read_without_user_part<S: SampleSink + ?Sized>(
        &mut self,
        events: &impl Events,
        sample: &KeptRecord,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let nothing = U64s::new(&[], Endian::NATIVE);
        self.read_sample(events, sample.ordered(), Some(nothing), None, sink)
    }

    /// Hands a sample to the sink, or puts it aside if its user call chain is still to come.
    fn read_sample<S: SampleSink + ?Sized>(
        &mut self,
        events: &impl Events,
        record: OrderedRecord<'_>,
        deferred: Option<U64s<'_>>,
        unwound: Option<&[u8]>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Some(index) = record.event else { return Ok(()) };
        let (Some(attr), Some(layout)) = (events.attr(index), events.layout(Some(index))) else {
            return Ok(());
        };
        // A sample is large: it stays where it was decoded.
        let mut decoded = layout.decode_sample(&record.raw);
        let sample = match &mut decoded {
            Ok(sample) => sample,
            &mut Err(error) => {
                self.undecodable(&record, error, sink);
                return Ok(());
            }
        };
        let calls = if last_branches::are_calls(attr) { last_branches::chain(sample) } else { None };
        let recorded = sample.callchain.filter(|_| calls.is_none() && unwound.is_none());
        let marked = recorded.and_then(|chain| mark_cut_chain(chain, chain_limit(attr)));
        let made: Option<Vec<u8>> =
            calls.or(marked).map(|chain| chain.iter().flat_map(|address| address.to_ne_bytes()).collect());
        if let Some(chain) = &made {
            sample.callchain = Some(U64s::new(chain, Endian::NATIVE));
        } else if let Some(chain) = unwound {
            sample.callchain = Some(U64s::new(chain, layout.endian()));
        } else if deferred.is_none()
            && let Some(cookie) = sample.callchain.and_then(deferred_cookie)
        {
            return match self.deferred.wait(thread_of(sample), cookie, KeptRecord::new(&record)) {
                Some(in_vain) => self.read_without_user_part(events, &in_vain, sink),
                None => Ok(()),
            };
        }
        self.count(events, index, sample, deferred, sink)
    }

    /// Reads the next record, a sample of `event` that has been decoded, with the call chain that it shall have.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn read_decoded<S: SampleSink + ?Sized>(
        &mut self,
        events: &impl Events,
        event: EventIndex,
        mut sample: Sample<'_>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.count(events, event, &mut sample, None, sink)
    }

    /// Hands a sample to the sink, once for each event that it counts.
    #[inline]
    fn count<S: SampleSink + ?Sized>(
        &mut self,
        events: &impl Events,
        index: EventIndex,
        sample: &mut Sample<'_>,
        deferred: Option<U64s<'_>>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Some(attr) = events.attr(index) else { return Ok(()) };
        let tracker = &mut self.tracker;
        let Some(values) = sample.read else {
            let fixed = if attr.is_frequency() { 1 } else { attr.sample_period };
            let period = sample.period.unwrap_or(fixed);
            return sink.sample(TrackedSample { tracker, event: index, sample, period, deferred });
        };
        let is_inherited = attr.flags.contains(AttrFlags::INHERIT);
        let counting = if is_inherited { Counting::Thread(thread_of(sample)) } else { Counting::All };
        for (id, count) in self.counts.since_last(counting, &values) {
            let Some(event) = id.map_or(Some(index), |id| events.event_of_id(id)) else {
                self.account.unattributed();
                continue;
            };
            sample.period = Some(count);
            let tracker = &mut self.tracker;
            sink.sample(TrackedSample { tracker, event, sample, period: count, deferred })?;
        }
        Ok(())
    }
}

fn thread_of(sample: &Sample<'_>) -> Tid {
    sample.thread.map_or(Tid(-1), |(_, tid)| tid)
}

/// The cookie that stands for the user part, at the end of a call chain whose user part comes later.
fn deferred_cookie(chain: U64s<'_>) -> Option<u64> {
    let marker = chain.get(chain.len().checked_sub(2)?)?;
    (marker == context::USER_DEFERRED).then(|| chain.get(chain.len() - 1))?
}

#[cfg(test)]
mod tests;
