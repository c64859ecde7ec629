//! Samples switches where there are too many: a record of a switch costs more than the switch itself.
//!
//! Switches are recorded in short windows. Between windows, in gaps, their events are disabled and cost nothing. Where samples tell
//! who leaves a CPU, the records of switches, which cost something in gaps, too, are left out in windows as well. The kernel counts all
//! the time how long each thread ran and waited for a CPU (`/proc/PID/schedstat`), so the sums stay right.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use decoder::{SampleFormat, kind, misc, offsets};
use host::sys::clock::{self, ClockId};
use model::Tid;
use rustc_hash::FxBuildHasher;

use super::kernel_counts;
use crate::consumer::SwitchUpdate;
use crate::open::Opened;
use crate::options::Options;
use crate::records::{each, is_sample, u32_at, u64_at};
use crate::ring::ExcludedProcesses;

/// Switches per second on one CPU above which they are recorded in windows only, until a window has fewer.
const MAX_SWITCHES_PER_SECOND: f64 = 20_000.0;
/// Switches per second that windows record on the busiest CPU: as many as there are samples of a busy CPU. At 6 µs each they take 0.6 % of
/// its time, and 1 % of another CPU's to unwind and write them (`cargo xtask bench switches`).
const SAMPLED_SWITCHES_PER_SECOND: f64 = 1_000.0;
/// Least number of switches on one CPU that a rate is measured by. A shorter burst is recorded whole: that takes some 3 ms, and `find`
/// in folders that are not in memory has bursts of 150 in 10 ms.
const MIN_RATED_SWITCHES: u32 = 500;
/// Time after which counting for a rate starts again from zero, in nanoseconds.
const RATE_INTERVAL_NS: u64 = 100_000_000;
/// Length of a window.
const WINDOW: Duration = Duration::from_millis(2);
/// Least and greatest time between two windows.
const MIN_GAP: Duration = Duration::from_millis(20);
const MAX_GAP: Duration = Duration::from_secs(1);
/// Maximum number of threads whose counts are read after a window: each takes some 10 µs.
const MAX_THREADS_READ: usize = 200;

/// The fields that trail switch records.
const TRAILER: SampleFormat =
    SampleFormat::TID.union(SampleFormat::TIME).union(SampleFormat::CPU).union(SampleFormat::IDENTIFIER);
/// Offset of the thread from the end of a switch record: behind the process, which is the first half of the same word.
const TID_FROM_END: usize = offsets::from_end(TRAILER, SampleFormat::TID) - 4;
const CPU_FROM_END: usize = offsets::from_end(TRAILER, SampleFormat::CPU);
const TIME_FROM_END: usize = offsets::from_end(TRAILER, SampleFormat::TIME);

/// The fields that all samples have before their CPU.
const SAMPLE_HEAD: SampleFormat =
    SampleFormat::IDENTIFIER.union(SampleFormat::IP).union(SampleFormat::TID).union(SampleFormat::TIME);
const IDENTIFIER: usize = offsets::in_sample(SAMPLE_HEAD, SampleFormat::IDENTIFIER);
const TID: usize = offsets::thread_in_sample(SAMPLE_HEAD);
const TIME: usize = offsets::in_sample(SAMPLE_HEAD, SampleFormat::TIME);

/// The thread number of the idle task of each CPU.
const IDLE_TASK: u32 = 0;

/// Decides when switches are recorded.
#[derive(Debug)]
pub(crate) struct SwitchSampler {
    clock: ClockId,
    phase: Phase,
    /// The samples that are counted while records of switches are closed; `None` if these have no event of their own.
    samples: Option<SwitchSamples>,
    are_records_closed: bool,
    /// Number of switches by CPU since counting for the rate started.
    counts: HashMap<u32, u32, FxBuildHasher>,
    /// The times of the first and the last of them.
    span: Option<(u64, u64)>,
    /// Threads that were switched, with how often.
    switched: HashMap<u32, u32, FxBuildHasher>,
    /// True if any gap has started.
    has_held: bool,
    /// Updates that [`SwitchSampler::take_updates`] has not returned yet.
    updates: Vec<SwitchUpdate>,
}

/// The samples that tell which thread leaves a CPU.
#[derive(Debug)]
struct SwitchSamples {
    ids: Vec<u64>,
    /// The offset of the CPU in such a sample.
    cpu: usize,
    /// The processes whose samples do not leave their rings. They switch, too.
    excluded: Option<Arc<ExcludedProcesses>>,
    /// Number of samples that did not leave their rings until counting for the rate started.
    dropped_before: u64,
}

impl SwitchSamples {
    fn new(opened: &Opened) -> Option<Self> {
        let (ids, event) = opened.switch_samples()?;
        let cpu = offsets::in_sample(event.attr.sample_format, SampleFormat::CPU);
        Some(Self { ids, cpu, excluded: opened.excluded.clone(), dropped_before: 0 })
    }

    fn dropped(&self) -> u64 {
        self.excluded.as_ref().map_or(0, |excluded| excluded.dropped_samples())
    }
}

/// A switch of a thread that leaves its CPU.
struct SwitchOut {
    tid: u32,
    cpu: u32,
    time: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// All switches are recorded.
    All,
    /// Each switch is sampled until this time, and recorded where its record has no event of its own.
    Window(Instant),
    /// No switches are recorded.
    Gap {
        /// The end of the gap, as far as it is known.
        until: Instant,
        /// True if the window before is not yet counted: its number of switches decides on the length of the gap, or that there
        /// is no other.
        is_open: bool,
    },
}

impl SwitchSampler {
    /// Returns a sampler for a recording that watches switches; `None` for others, for those that cannot say when switches were held back,
    /// and with a clock that cannot be read.
    pub(crate) fn new(options: &Options, opened: &Opened) -> Option<Self> {
        Self::with_samples(options, SwitchSamples::new(opened))
    }

    fn with_samples(options: &Options, samples: Option<SwitchSamples>) -> Option<Self> {
        let is_watched = options.events.iter().any(|event| event.watches);
        let can_say = !options.is_streamed && !options.in_parts;
        Some(Self {
            clock: options.clock.id().filter(|_| is_watched && can_say)?,
            phase: Phase::All,
            samples,
            are_records_closed: false,
            counts: HashMap::default(),
            span: None,
            switched: HashMap::default(),
            has_held: false,
            updates: Vec::new(),
        })
    }

    /// Counts the switches among records that came out of a ring: how often threads left a CPU. The idle task does not count.
    pub(crate) fn count(&mut self, records: &[u8]) {
        for record in each(records) {
            let Some(SwitchOut { tid, cpu, time }) = self.switch_of(record) else { continue };
            if tid == IDLE_TASK {
                continue;
            }
            *self.counts.entry(cpu).or_default() += 1;
            let (first, last) = self.span.get_or_insert((time, time));
            (*first, *last) = ((*first).min(time), (*last).max(time));
            if self.switched.len() < MAX_THREADS_READ || self.switched.contains_key(&tid) {
                *self.switched.entry(tid).or_default() += 1;
            }
        }
    }

    /// Returns the switch that a record tells of: the record of a switch itself, or while there are none, the sample.
    fn switch_of(&self, record: &[u8]) -> Option<SwitchOut> {
        if let Some(samples) = self.samples.as_ref().filter(|_| self.are_records_closed) {
            let is_switch = is_sample(record) && samples.ids.contains(&u64_at(record, IDENTIFIER)?);
            let (tid, cpu) = (u32_at(record, TID)?, u32_at(record, samples.cpu)?);
            return is_switch.then_some(SwitchOut { tid, cpu, time: u64_at(record, TIME)? });
        }
        let misc = u32_at(record, offsets::MISC)? as u16;
        let is_out = matches!(u32_at(record, offsets::KIND)?, kind::SWITCH | kind::SWITCH_CPU_WIDE)
            && misc & misc::SWITCH_OUT != 0;
        let from_end = |offset: usize| record.len().checked_sub(offset).filter(|_| is_out);
        Some(SwitchOut {
            tid: u32_at(record, from_end(TID_FROM_END)?)?,
            cpu: u32_at(record, from_end(CPU_FROM_END)?)?,
            time: u64_at(record, from_end(TIME_FROM_END)?)?,
        })
    }

    /// Returns true if all switches have been recorded so far.
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_held
    }

    /// Returns the thread that was switched most often since counting for the rate started.
    pub(crate) fn busiest(&self) -> Option<Tid> {
        self.switched.iter().max_by_key(|(_, count)| **count).map(|(tid, _)| Tid(*tid as i32))
    }

    /// Returns true if switches are held back now.
    pub(crate) fn is_in_gap(&self) -> bool {
        matches!(self.phase, Phase::Gap { .. })
    }

    /// Returns the time at which [`SwitchSampler::step`] has to be called again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::All => None,
            Phase::Window(until) | Phase::Gap { until, .. } => Some(until),
        }
    }

    /// Starts and ends windows that are due at `now`, by enabling and disabling the events of switches. Returns true if a window
    /// has ended: the caller must drain the rings, so that its switches are counted.
    pub(crate) fn step(&mut self, now: Instant, opened: &mut Opened) -> bool {
        match self.phase {
            Phase::All => {
                let is_too_often = self.is_too_often() && self.busiest_count() >= MIN_RATED_SWITCHES;
                if is_too_often {
                    self.read_times();
                    self.start_gap(Phase::Gap { until: now + self.next_gap(), is_open: false }, opened);
                } else if self.counted_for() > RATE_INTERVAL_NS {
                    self.restart_rate();
                }
                is_too_often
            }
            Phase::Window(until) if now >= until => {
                self.start_gap(Phase::Gap { until: now + MIN_GAP, is_open: true }, opened);
                true
            }
            Phase::Gap { until, is_open } if now >= until => {
                self.read_times();
                let is_calm = is_open && !self.is_too_often();
                let rest = self.next_gap().saturating_sub(MIN_GAP);
                if is_open && !is_calm && !rest.is_zero() {
                    self.phase = Phase::Gap { until: now + rest, is_open: false };
                    return false;
                }
                if is_calm {
                    opened.reopen_switch_records();
                    self.are_records_closed = opened.are_switch_records_closed();
                }
                opened.hold_switches(false);
                self.updates.extend(clock::now(self.clock).ok().map(SwitchUpdate::Resumed));
                self.phase = if is_calm { Phase::All } else { Phase::Window(Instant::now() + WINDOW) };
                self.restart_rate();
                false
            }
            Phase::Window(_) | Phase::Gap { .. } => false,
        }
    }

    /// Returns the updates since the last call.
    pub(crate) fn take_updates(&mut self) -> Vec<SwitchUpdate> {
        std::mem::take(&mut self.updates)
    }

    fn start_gap(&mut self, gap: Phase, opened: &mut Opened) {
        self.updates.extend(clock::now(self.clock).ok().map(SwitchUpdate::Paused));
        self.has_held = true;
        opened.hold_switches(true);
        self.are_records_closed = opened.are_switch_records_closed();
        self.phase = gap;
    }

    fn restart_rate(&mut self) {
        self.counts.clear();
        self.span = None;
        self.switched.clear();
        self.samples.iter_mut().for_each(|samples| samples.dropped_before = samples.dropped());
    }

    /// Returns the time from the first counted switch to the last, in nanoseconds.
    fn counted_for(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// Returns true if the busiest CPU switches too often to record it, by the times of its switches.
    fn is_too_often(&self) -> bool {
        let time = WINDOW.max(Duration::from_nanos(self.counted_for()));
        f64::from(self.busiest_count()) > MAX_SWITCHES_PER_SECOND * time.as_secs_f64()
    }

    /// Returns the number of switches on the busiest CPU. Samples that did not leave their rings count as if all were of that CPU:
    /// where others switch that often, there are too many switches, too.
    fn busiest_count(&self) -> u32 {
        let counted = self.counts.values().copied().max().unwrap_or(0);
        let samples = self.samples.as_ref().filter(|_| self.are_records_closed);
        let dropped = samples.map_or(0, |samples| samples.dropped().saturating_sub(samples.dropped_before));
        counted.saturating_add(u32::try_from(dropped).unwrap_or(u32::MAX))
    }

    fn next_gap(&self) -> Duration {
        let gap = Duration::from_secs_f64(f64::from(self.busiest_count()) / SAMPLED_SWITCHES_PER_SECOND);
        // Random lengths, so that windows do not fall into step with a program's own rhythm.
        let jitter = clock::now(self.clock).unwrap_or(0) % 64;
        gap.mul_f64(0.75 + jitter as f64 / 128.0).clamp(MIN_GAP, MAX_GAP)
    }

    /// Reads the kernel's counts of the threads that were switched in the last window.
    fn read_times(&mut self) {
        let tids = self.switched.keys().map(|tid| Tid(*tid as i32));
        let read = tids.filter_map(|tid| Some((tid, kernel_counts::read(tid, self.clock).ok()?)));
        self.updates.extend(read.map(|(tid, (counts, _))| SwitchUpdate::SchedStat(tid, counts)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, dummy_event};
    use crate::options::Target;
    use decoder::{Endian, RawRecord};

    fn sampler(samples: Option<SwitchSamples>) -> SwitchSampler {
        let mut options = Options::new(Target::Command);
        options.events = vec![Event { watches: true, ..dummy_event("switches") }];
        SwitchSampler::with_samples(&options, samples).unwrap()
    }

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut record = Vec::new();
        RawRecord { kind, misc, body: &body }.encode(Endian::NATIVE, &mut record).unwrap();
        record
    }

    #[test]
    fn while_switches_have_no_records_their_samples_count() {
        let excluded = Arc::new(ExcludedProcesses::default());
        let cpu = offsets::in_sample(SAMPLE_HEAD | SampleFormat::CPU, SampleFormat::CPU);
        let excluded_too = Some(Arc::clone(&excluded));
        let counted = SwitchSamples { ids: vec![4, 5], cpu, excluded: excluded_too, dropped_before: 0 };
        let mut sampler = sampler(Some(counted));
        let sample =
            |id: u64, tid: u64, cpu: u64| record(kind::SAMPLE, 2, &[id, 0xdead, tid << 32 | 7, 99, cpu]);
        let switch = record(kind::SWITCH, misc::SWITCH_OUT, &[8 << 32 | 7, 99, 1, 6]);
        let samples =
            [sample(4, 8, 1), sample(5, 9, 1), sample(5, 8, 0), sample(3, 10, 1), sample(4, 0, 1), switch]
                .concat();
        sampler.count(&samples);
        assert_eq!((sampler.busiest_count(), sampler.switched.len()), (1, 1), "by the record");
        sampler.restart_rate();
        sampler.are_records_closed = true;
        sampler.count(&samples);
        assert_eq!((sampler.busiest_count(), sampler.switched.len()), (2, 2), "by the samples of two CPUs");
        excluded.set(7, true);
        assert!(excluded.drops(&sample(4, 8, 1)));
        assert_eq!(sampler.busiest_count(), 3, "with those that stayed in their rings");
        sampler.restart_rate();
        assert_eq!(sampler.busiest_count(), 0);
    }

    #[test]
    fn records_that_come_late_are_no_burst() {
        let mut sampler = sampler(None);
        // A thread leaves its CPU every 0.1 ms, and its ring is drained after 0.2 s.
        for number in 0..2_000_u64 {
            // Thread 7 of process 7, the time, CPU 1, and the event's id.
            let trailer = [7 << 32 | 7, number * 100_000, 1, 0];
            sampler.count(&record(kind::SWITCH, misc::SWITCH_OUT, &trailer));
        }
        assert_eq!(sampler.busiest_count(), 2_000);
        assert!(!sampler.is_too_often());
        sampler.restart_rate();
        for number in 0..2_000_u64 {
            sampler.count(&record(kind::SWITCH, misc::SWITCH_OUT, &[7 << 32 | 7, number * 10_000, 1, 0]));
        }
        assert!(sampler.is_too_often());
    }
}
