//! Coverage: what share of an event's count its samples stand for.
//!
//! The kernel starts a period for each new thread when the thread starts. Events after a thread's last whole period are never
//! sampled, and a thread that ends within its first period has no sample at all. The count of the event includes both.

use std::collections::HashMap;

use decoder::{Attr, AttrFlags, ReadFormat, SampleFormat, offsets};
use host::sys::clock::CpuTime;
use model::Coverage;
use rustc_hash::FxBuildHasher;

use crate::consumer::{Circumstances, EventCoverage, RecordedEvent, nanoseconds};
use crate::open::{self, OpenEvent, Opened};
use crate::records::{each, is_sample, u64_at};

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
            () if attr.read_format.contains(ReadFormat::GROUP) || event.selected.everywhere => None,
            // When a thread and one that it has started follow each other on a CPU, the kernel may exchange the counts of their
            // events, and add to one what belongs to another: beside other load, a clock counted twice the time of `node`.
            () if attr.is_cpu_clock() => match (open::counted(opened, index), command) {
                (Some(counted), Some(time)) => Some(counted.min(nanoseconds(time.total()))),
                (counted, _) => counted,
            },
            () => open::counted(opened, index),
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
    use decoder::{Endian, RawRecord, Record, RecordLayout, kind};
    use std::time::Duration;

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
