//! Recording the switches of some moments where there are too many: a record of each costs more than the switch.
//!
//! While switches are held back, their events are disabled and cost nothing. How long threads ran, and waited for a CPU, the
//! kernel counts all the time (`/proc/PID/schedstat`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use decoder::{kind, misc};
use host::procfs;
use host::sys::clock::{self, ClockId};
use model::Tid;
use perfdata::sections::{Schedstat, SwitchSampling};
use rustc_hash::FxBuildHasher;

use super::outside::OutsideReader;
use crate::consumer::SwitchUpdate;
use crate::open::Opened;
use crate::options::Options;
use crate::records::{each, u32_at};

/// From so many switches a second on one CPU on, they are recorded in windows only.
const MOST_PER_SECOND: f64 = 20_000.0;
/// Below so many, all are recorded again.
const FEW_PER_SECOND: f64 = 15_000.0;
/// Of more, so many a second are recorded on the busiest CPU. With 6 µs for each, that is 1 % of its time.
const SAMPLED_PER_SECOND: f64 = 2_000.0;
/// For so long all are recorded until it is known how many there are.
const FIRST_LOOK: Duration = Duration::from_millis(5);
/// A look at how many there are begins anew after this time.
const LOOK: Duration = Duration::from_millis(100);
/// Switches are recorded for so long at a time.
const WINDOW: Duration = Duration::from_millis(2);
/// Between two windows at least and at most.
const SHORTEST_GAP: Duration = Duration::from_millis(20);
const LONGEST_GAP: Duration = Duration::from_secs(1);
/// Threads whose times are read after a window at most: each takes some 10 µs.
const MOST_READ: usize = 200;
/// The number of threads that are looked at in all.
const MOST_THREADS: usize = 100_000;
/// So many readings are kept, with 24 bytes each; of more the last of each thread.
const MOST_READINGS: usize = 1 << 20;
/// A reading that took longer says too little of when it was. So often it is tried.
const LONGEST_READING: u64 = 50_000;
const TRIES: usize = 3;

/// Offsets of thread and CPU from the end of a switch record: TID, TIME, CPU and IDENTIFIER trail it.
const TID_FROM_END: usize = 28;
const CPU_FROM_END: usize = 16;
const MISC: usize = 4;

/// Decides when switches are recorded.
#[derive(Debug)]
pub(crate) struct SwitchSampler {
    clock: ClockId,
    phase: Phase,
    /// The time at which the counts began.
    since: Instant,
    /// Switches by CPU since then.
    counts: HashMap<u32, u32, FxBuildHasher>,
    /// Threads that were switched since then.
    switched: HashMap<u32, (), FxBuildHasher>,
    /// The time at which the running gap began.
    gap: Option<u64>,
    gaps: Vec<(u64, u64)>,
    /// True if there has been a gap.
    has_held: bool,
    threads: HashMap<u32, Vec<Schedstat>, FxBuildHasher>,
    readings: usize,
    /// What has happened since it was last asked for.
    news: Vec<SwitchUpdate>,
    /// True if nothing is kept for the end.
    light: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// All switches are recorded.
    All,
    /// They are for a moment, until then.
    Window(Instant),
    /// They are not until then.
    Gap {
        until: Instant,
        /// The length of the window before, where what it recorded has still to say how long the gap is to be.
        window: Option<Duration>,
    },
}

impl SwitchSampler {
    /// For a recording that watches switches.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        let is_watched = options.events.iter().any(|event| event.watches);
        Some(Self {
            clock: options.clock.id().filter(|_| is_watched)?,
            phase: Phase::All,
            since: Instant::now(),
            counts: HashMap::default(),
            switched: HashMap::default(),
            gap: None,
            gaps: Vec::new(),
            has_held: false,
            threads: HashMap::default(),
            readings: 0,
            news: Vec::new(),
            light: options.low_memory,
        })
    }

    /// Counts the switches among records that came out of a ring.
    pub(crate) fn count(&mut self, records: &[u8]) {
        let is_out = |record: &&[u8]| {
            let misc = u32_at(record, MISC).unwrap_or(0) as u16;
            u32_at(record, 0) == Some(kind::SWITCH) && misc & misc::SWITCH_OUT != 0
        };
        for record in each(records).filter(is_out) {
            let from_end = |offset: usize| u32_at(record, record.len().checked_sub(offset)?);
            if let (Some(cpu), Some(tid)) = (from_end(CPU_FROM_END), from_end(TID_FROM_END)) {
                *self.counts.entry(cpu).or_default() += 1;
                if self.switched.len() < MOST_READ {
                    self.switched.insert(tid, ());
                }
            }
        }
    }

    /// Returns true if no switch has been held back so far.
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_held
    }

    /// Returns the time at which [`SwitchSampler::step`] has to be called again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::All => None,
            Phase::Window(until) | Phase::Gap { until, .. } => Some(until),
        }
    }

    /// Goes on to what is due `now`. True where a window has ended: what it recorded is to be fetched.
    pub(crate) fn step(&mut self, now: Instant, opened: &mut Opened) -> bool {
        match self.phase {
            Phase::All => {
                let looked = now.saturating_duration_since(self.since);
                if looked >= FIRST_LOOK && self.rate(looked) > MOST_PER_SECOND {
                    let gap = self.next_gap();
                    self.read_times();
                    self.hold(now + gap, None, opened);
                    return true;
                }
                if looked > LOOK {
                    self.look_again(now);
                }
                false
            }
            Phase::Window(until) if now >= until => {
                let window = now.saturating_duration_since(self.since);
                self.hold(now + SHORTEST_GAP, Some(window), opened);
                true
            }
            Phase::Gap { until, window } if now >= until => {
                let rate = window.map(|window| self.rate(window));
                self.read_times();
                let rest = self.next_gap().saturating_sub(SHORTEST_GAP);
                if rate.is_some_and(|rate| rate >= FEW_PER_SECOND) && !rest.is_zero() {
                    self.phase = Phase::Gap { until: now + rest, window: None };
                    return false;
                }
                opened.hold_switches(false);
                let end = clock::now(self.clock).ok();
                let gap = self.gap.take().zip(end);
                self.news.extend(gap.map(|(_, end)| SwitchUpdate::Resumed(end)));
                self.gaps.extend(gap.filter(|_| !self.light));
                let is_calm = rate.is_some_and(|rate| rate < FEW_PER_SECOND);
                self.phase = if is_calm { Phase::All } else { Phase::Window(Instant::now() + WINDOW) };
                self.look_again(Instant::now());
                false
            }
            Phase::Window(_) | Phase::Gap { .. } => false,
        }
    }

    /// Takes what has happened since the last call.
    pub(crate) fn take_updates(&mut self) -> Vec<SwitchUpdate> {
        std::mem::take(&mut self.news)
    }

    /// Returns the records that were held back and counted, at the end of the recording.
    pub(crate) fn finish<'o>(
        mut self,
        end: u64,
        outside: impl Iterator<Item = &'o OutsideReader>,
    ) -> Option<SwitchSampling> {
        for (tid, read) in outside.flat_map(OutsideReader::times) {
            self.threads.entry(tid.0 as u32).or_default().extend(read);
        }
        for readings in self.threads.values_mut() {
            readings.sort_by_key(|reading| reading.time);
            readings.dedup_by_key(|reading| reading.time);
        }
        self.gaps.extend(self.gap.take().map(|begin| (begin, end.max(begin))));
        let mut threads: Vec<_> =
            self.threads.into_iter().map(|(tid, read)| (Tid(tid as i32), read)).collect();
        threads.sort_unstable_by_key(|(tid, _)| *tid);
        let is_any = !self.gaps.is_empty() || !threads.is_empty();
        is_any.then_some(SwitchSampling { gaps: self.gaps, threads })
    }

    fn hold(&mut self, until: Instant, window: Option<Duration>, opened: &mut Opened) {
        self.gap = clock::now(self.clock).ok();
        self.news.extend(self.gap.map(SwitchUpdate::Paused));
        self.has_held = true;
        opened.hold_switches(true);
        self.phase = Phase::Gap { until, window };
    }

    fn look_again(&mut self, now: Instant) {
        self.since = now;
        self.counts.clear();
        self.switched.clear();
    }

    /// Switches a second on the busiest CPU.
    fn rate(&self, time: Duration) -> f64 {
        f64::from(self.most()) / time.as_secs_f64().max(1e-6)
    }

    fn most(&self) -> u32 {
        self.counts.values().copied().max().unwrap_or(0)
    }

    fn next_gap(&self) -> Duration {
        let gap = Duration::from_secs_f64(f64::from(self.most()) / SAMPLED_PER_SECOND);
        // Programs have a rhythm, too: windows must not keep to it.
        let jitter = clock::now(self.clock).unwrap_or(0) % 64;
        gap.mul_f64(0.75 + jitter as f64 / 128.0).clamp(SHORTEST_GAP, LONGEST_GAP)
    }

    /// Reads what the kernel counted of the threads that were switched in the last window.
    fn read_times(&mut self) {
        for &tid in self.switched.keys() {
            if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&tid) {
                continue;
            }
            let Some(reading) = read_times(Tid(tid as i32), self.clock) else { continue };
            if self.light {
                self.news.push(SwitchUpdate::SchedStat(Tid(tid as i32), reading));
                continue;
            }
            let readings = self.threads.entry(tid).or_default();
            match readings.as_mut_slice() {
                [_, .., last] if self.readings >= MOST_READINGS => *last = reading,
                _ => {
                    readings.push(reading);
                    self.readings += 1;
                }
            }
        }
    }
}

/// The kernel's counts of a thread until now.
fn read_times(tid: Tid, clock: ClockId) -> Option<Schedstat> {
    let mut best: Option<(u64, Schedstat)> = None;
    for _ in 0..TRIES {
        let before = clock::now(clock).ok()?;
        let [running, runnable, _] = procfs::schedstat(tid).ok()?;
        let took = clock::now(clock).ok()?.saturating_sub(before);
        let reading = Schedstat { time: before + took / 2, running, runnable };
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, reading));
        }
        if took <= LONGEST_READING {
            break;
        }
    }
    best.map(|(_, reading)| reading)
}
