//! Coverage: what share of an event's count its samples stand for.
//!
//! The kernel starts a period for each new thread when the thread starts. Events after a thread's last whole period are never
//! sampled, and a thread that ends within its first period has no sample at all. The count of the event includes both.

use std::collections::HashMap;
use std::time::Duration;

use decoder::{Attr, AttrFlags, ReadFormat, SampleFormat, kind, offsets};
use host::sys::clock::CpuTime;
use model::{Coverage, MissingSamples, Shortfall};
use rustc_hash::FxBuildHasher;

use crate::consumer::RecordedEvent;
use crate::open::{OpenEvent, Opened};
use crate::records::{each, is_sample, u32_at, u64_at};

/// Offset of IDENTIFIER in a sample.
const IDENTIFIER: usize = offsets::in_sample(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);

/// Adds up the samples of each event while they are drained.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The index of the event of each id.
    places: HashMap<u64, usize, FxBuildHasher>,
    events: Vec<Sampled>,
}

/// The samples of one event so far.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    samples: u64,
    sum: u64,
    /// Where the weight of each sample is found.
    period: Period,
}

#[derive(Clone, Copy, Debug)]
enum Period {
    At(usize),
    Fixed(u64),
}

impl Tally {
    pub(crate) fn new(events: &[RecordedEvent]) -> Self {
        let mut tally = Self::default();
        for (place, event) in events.iter().enumerate() {
            tally.places.extend(event.ids.iter().map(|&id| (id, place)));
            tally.events.push(Sampled { samples: 0, sum: 0, period: period_of(&event.attr) });
        }
        tally
    }

    /// Counts the samples among `records`.
    pub(crate) fn add(&mut self, records: &[u8]) {
        for record in each(records).filter(|record| is_sample(record)) {
            let place = u64_at(record, IDENTIFIER).and_then(|id| self.places.get(&id));
            let Some(event) = place.and_then(|&place| self.events.get_mut(place)) else { continue };
            let period = match event.period {
                Period::At(offset) => u64_at(record, offset).unwrap_or(0),
                Period::Fixed(period) => period,
            };
            event.samples += 1;
            event.sum = event.sum.saturating_add(period);
        }
    }

    /// Returns the number of samples of the event at `place`, and the number of events that they stand for.
    pub(crate) fn of(&self, place: usize) -> (u64, u64) {
        self.events.get(place).map_or((0, 0), |event| (event.samples, event.sum))
    }
}

fn period_of(attr: &Attr) -> Period {
    if attr.sample_format.contains(SampleFormat::PERIOD) {
        Period::At(offsets::in_sample(attr.sample_format, SampleFormat::PERIOD))
    } else {
        Period::Fixed(attr.sample_period)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Time between two ticks of the kernel's, in nanoseconds, with the `CONFIG_HZ` of most distributions.
const TICK: f64 = 4e6;

/// Returns the least user time that is likely, in nanoseconds. The kernel divides the time of a thread into user and kernel time by
/// where it was at each tick: so many samples have this standard deviation, and twice that is left out.
fn likely_user_time(time: CpuTime) -> u64 {
    let (total, user) = (nanoseconds(time.total()) as f64, nanoseconds(time.user) as f64);
    let share = user / total.max(1.0);
    let deviation = TICK * (total / TICK * share * (1.0 - share)).sqrt();
    (user - 2.0 * deviation).max(0.0) as u64
}

/// Returns true if the event samples user space only. A clock still counts time in the kernel then.
fn is_user_only(attr: &Attr) -> bool {
    attr.flags.contains(AttrFlags::EXCLUDE_KERNEL)
}

/// What a recording knows of why samples are missing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Circumstances {
    /// For how long the kernel throttled events, the spans of all CPUs and threads added up.
    pub throttled: Duration,
    /// The threads that had events of their own; `None` where events are of whole CPUs.
    pub(crate) tasks: Option<Tasks>,
    /// The number of processes whose events the kernel ended.
    pub(crate) more_rights: u64,
    /// Counts of lost samples that could not be read.
    pub(crate) unread: u64,
}

/// The threads that had events of their own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tasks {
    /// All of them.
    pub(crate) all: u64,
    /// Those that ended.
    pub(crate) ended: u64,
    /// The CPUs that each has an event on.
    pub(crate) cpus: u64,
}

impl Tasks {
    /// Counts the threads that records of a sideband ring begin and end.
    pub(crate) fn count(&mut self, records: &[u8]) {
        for record in each(records) {
            match u32_at(record, offsets::KIND) {
                Some(kind::FORK) => self.all += 1,
                Some(kind::EXIT) => self.ended += 1,
                _ => {}
            }
        }
    }
}

/// The coverage of each sampling event, and what is known of why samples are missing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EventCoverage {
    /// In the order of the events.
    pub events: Vec<Coverage>,
    /// What is known.
    pub circumstances: Circumstances,
    /// For each event whether it is a clock.
    pub(crate) are_clocks: Vec<bool>,
}

impl EventCoverage {
    /// Returns the events of which many samples are missing, other than `lost` ones.
    pub fn missing(&self, lost: u64) -> Vec<MissingSamples> {
        let events = (0..).zip(&self.events).zip(self.are_clocks.iter().chain(std::iter::repeat(&false)));
        let of_event = |((event, coverage), &is_clock): ((u64, &Coverage), &bool)| {
            let missing = coverage.missing(lost)?;
            let period = coverage.sampled.checked_div(coverage.samples).unwrap_or(0);
            let reason = self.circumstances.reason(missing, period, is_clock);
            let due = coverage.samples.saturating_add(missing);
            Some(MissingSamples { event, due, missing, period, reason })
        };
        events.filter_map(of_event).collect()
    }
}

impl Circumstances {
    /// Returns the main reason why `missing` samples of this mean period are missing.
    fn reason(&self, missing: u64, period: u64, is_clock: bool) -> Shortfall {
        let missing_ns = if is_clock { missing.saturating_mul(period) } else { 0 };
        let throttled_ns = nanoseconds(self.throttled);
        match self.tasks {
            _ if self.more_rights > 0 => Shortfall::MoreRights,
            _ if self.unread > 0 => Shortfall::UnreadLosses,
            _ if throttled_ns > 0 && throttled_ns.saturating_mul(2) >= missing_ns => Shortfall::Throttled,
            // On whole CPUs a period goes on from thread to thread.
            None if is_clock => Shortfall::LateTicks,
            None => Shortfall::Unknown,
            // Each thread has one unfinished period on each CPU at most.
            Some(tasks) if is_clock && missing > tasks.all.saturating_mul(tasks.cpus) => Shortfall::LateTicks,
            Some(tasks) if tasks.ended.saturating_mul(2) >= tasks.all => Shortfall::ShortLives,
            Some(_) => Shortfall::ShortRuns,
        }
    }
}

/// Returns the coverage of each event: the weight of its samples beside its count. `command` is the time of a command that was recorded
/// from its start to its end.
pub(crate) fn coverage(
    opened: &Opened,
    tally: &Tally,
    command: Option<CpuTime>,
    circumstances: Circumstances,
) -> EventCoverage {
    let of_event = |(place, (index, event)): (usize, (usize, &OpenEvent))| {
        let (samples, sampled) = tally.of(place);
        let attr = &event.attr;
        let counted = match () {
            // A clock that samples user space only counts time in the kernel, too.
            () if attr.is_cpu_clock() && is_user_only(attr) => command.map(likely_user_time),
            // Events of whole CPUs count other processes, too. A clock of the command's tasks would cost 3 % of the time of a program
            // with 90,000 switches a second (`cargo xtask bench switches`).
            () if opened.whole_cpus.is_some() => {
                command.filter(|_| attr.is_cpu_clock()).map(|time| nanoseconds(time.total()))
            }
            () if attr.read_format.contains(ReadFormat::GROUP) || event.is_everywhere() => None,
            // When a thread and one that it has started follow each other on a CPU, the kernel may exchange the counts of their
            // events, and add to one what belongs to another: beside other load, a clock counted twice the time of `node`.
            () if attr.is_cpu_clock() => match (opened.counted(index), command) {
                (Some(counted), Some(time)) => Some(counted.min(nanoseconds(time.total()))),
                (counted, _) => counted,
            },
            () => opened.counted(index),
        };
        Coverage { event: event.name.clone(), samples, sampled, counted }
    };
    let are_clocks = opened.samplers().map(|(_, event)| event.attr.is_cpu_clock()).collect();
    let events = opened.samplers().enumerate().map(of_event).collect();
    EventCoverage { events, circumstances, are_clocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::clock_event;
    use crate::options::{Extras, Options, Target};
    use decoder::{Endian, RawRecord, Record, RecordLayout};

    #[test]
    fn user_time_is_as_uncertain_as_the_kernels_ticks() {
        let time = |user, kernel| CpuTime {
            user: Duration::from_millis(user),
            kernel: Duration::from_millis(kernel),
        };
        // 138 ticks, of which 50 were in user space, give or take 11.
        assert_eq!(likely_user_time(time(200, 352)) / 1_000_000, 154);
        assert_eq!(likely_user_time(time(20_000, 35_200)) / 1_000_000, 19_548);
        assert_eq!(likely_user_time(time(200, 0)), 200_000_000);
        assert_eq!(likely_user_time(time(0, 0)), 0);
    }

    #[test]
    fn the_reason_is_the_one_that_is_large_enough() {
        let tasks = |all, ended| Some(Tasks { all, ended, cpus: 2 });
        let here = Circumstances { tasks: tasks(400, 0), ..Circumstances::default() };
        let of_clock = |here: Circumstances, missing| here.reason(missing, 1_000_000, true);
        assert_eq!(of_clock(here, 500), Shortfall::ShortRuns, "they live on");
        assert_eq!(of_clock(Circumstances { tasks: tasks(400, 390), ..here }, 500), Shortfall::ShortLives);
        let two_threads = Circumstances { tasks: tasks(3, 3), ..here };
        assert_eq!(of_clock(two_threads, 500), Shortfall::LateTicks, "more than six unfinished periods");
        assert_eq!(of_clock(Circumstances { tasks: None, ..here }, 500), Shortfall::LateTicks);
        let throttled =
            |milliseconds| Circumstances { throttled: Duration::from_millis(milliseconds), ..here };
        assert_eq!(of_clock(throttled(300), 500), Shortfall::Throttled);
        assert_eq!(of_clock(throttled(30), 500), Shortfall::ShortRuns, "throttling explains a tenth of it");
        assert_eq!(throttled(30).reason(500, 1_000_000, false), Shortfall::Throttled, "no clock");
        assert_eq!(of_clock(Circumstances { more_rights: 1, ..throttled(300) }, 500), Shortfall::MoreRights);
        assert_eq!(of_clock(Circumstances { unread: 1, ..throttled(300) }, 500), Shortfall::UnreadLosses);
    }

    #[test]
    fn periods_are_found_in_every_layout() {
        let mut with_addresses = Options::new(Target::Command);
        with_addresses.extras = Extras { data: true, ..Extras::default() };
        for options in [Options::new(Target::Command), with_addresses] {
            let attr = crate::attr::sampler(&clock_event(), &options, 0, 4096);
            let words: u64 = 60;
            let mut bytes = Vec::new();
            bytes.extend(kind::SAMPLE.to_ne_bytes());
            bytes.extend([0, 0]);
            bytes.extend((8 + 8 * words as u16).to_ne_bytes());
            (0..words).for_each(|word| bytes.extend((if word == 0 { 77 } else { word }).to_ne_bytes()));
            // The decoder must find the period at the same offset. Fields behind it do not matter.
            let mut plain = attr.clone();
            let behind = SampleFormat::CALLCHAIN | SampleFormat::REGS_USER | SampleFormat::STACK_USER;
            plain.sample_format.remove(behind);
            let (raw, _) = RawRecord::parse(&bytes, Endian::NATIVE).unwrap();
            let Record::Sample(sample) = RecordLayout::new(&plain, Endian::NATIVE).decode(&raw).unwrap()
            else {
                panic!("a sample")
            };
            let event = RecordedEvent {
                name: String::new(),
                attr,
                ids: vec![77],
                sideband: false,
                leader: None,
                tracepoint: None,
            };
            let mut tally = Tally::new(&[event]);
            tally.add(&bytes);
            let mut other = bytes.clone();
            other[..4].copy_from_slice(&kind::LOST_SAMPLES.to_ne_bytes());
            tally.add(&other);
            assert_eq!(tally.of(0), (1, sample.period.unwrap()), "of samples alone");
        }
    }
}
