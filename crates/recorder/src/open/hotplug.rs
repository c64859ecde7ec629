//! CPUs that go offline and come back, or come for the first time, while they are recorded whole.
//!
//! The events of a CPU that goes offline end with it: when it comes back (after a suspended machine has woken up, too) it
//! has to be given new ones. Their records go into the old rings, under the old numbers, so that nobody behind has to know.
//! Events of threads go on by themselves; but what runs on a CPU that was not there when they were opened is not seen.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use decoder::{SampleFormat, offsets};
use host::sys::perf_event::{PerfEvent, Subject};
use host::sysfs;
use model::CpuId;

use super::plan::Opened;
use super::rings::{Place, RingPair};
use crate::notice::Notice;
use crate::options::Options;
use crate::records::{each_mut, is_sample, u64_at};

/// Offset of IDENTIFIER in a sample.
const IDENTIFIER: usize = offsets::in_sample(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);

/// The sideband events of the CPUs that are recorded whole.
#[derive(Debug, Default)]
pub(crate) struct WholeCpus {
    cgroup: Option<OwnedFd>,
    pulses: Vec<Pulse>,
}

/// The sideband event of a CPU, which is enabled as long as the CPU is online.
#[derive(Debug)]
struct Pulse {
    cpu: CpuId,
    event: Arc<PerfEvent>,
    /// For how long it had been enabled at the last look, in nanoseconds.
    enabled: u64,
    away: bool,
}

impl Pulse {
    /// Returns true if it was enabled for some time since the last look.
    fn beats(&mut self) -> bool {
        let mut values = [0; 5];
        // value, enabled, …
        let read = self.event.read(&mut values);
        let before = std::mem::replace(&mut self.enabled, values[1]);
        // What cannot be read says nothing.
        read.is_err() || self.enabled > before
    }
}

/// The rings and events of CPUs that came online.
#[derive(Default)]
pub(crate) struct Change {
    /// Rings of CPUs that are new.
    pub(crate) rings: Vec<RingPair>,
    /// Numbers of new events, and those of the old ones that they stand for.
    pub(crate) numbers: Vec<(u64, u64)>,
}

impl WholeCpus {
    pub(super) fn new(cgroup: Option<OwnedFd>) -> Self {
        Self { cgroup, pulses: Vec::new() }
    }

    pub(super) fn add(&mut self, cpu: CpuId, sideband: &Arc<PerfEvent>) {
        self.pulses.push(Pulse { cpu, event: Arc::clone(sideband), enabled: 0, away: false });
    }
}

impl Opened {
    /// Looks which CPUs have gone, come back or come anew, and opens the events there. To be called every now and then, not
    /// within the same few milliseconds.
    pub(crate) fn look_after_cpus(&mut self, options: &Options, notices: &mut dyn FnMut(Notice)) -> Change {
        let mut change = Change::default();
        let Ok(online) = sysfs::online_cpus() else { return change };
        let wanted = |cpu: CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(&cpu));
        let Some(mut whole) = self.whole_cpus.take() else {
            let new: Vec<CpuId> = online.into_iter().filter(|cpu| !self.cpus.contains(cpu)).collect();
            // Events on any CPU are on that one, too.
            for &cpu in new.iter().filter(|cpu| wanted(**cpu) && !options.per_thread) {
                notices(Notice::CpuUnseen { cpu: cpu.0 });
            }
            self.cpus.extend(new);
            return change;
        };
        for pulse in &mut whole.pulses {
            let cpu = pulse.cpu;
            match (pulse.beats(), online.contains(&cpu)) {
                (true, _) => {}
                (false, true) => {
                    let told = match self.renew(cpu, &pulse.event, whole.cgroup.as_ref(), &mut change) {
                        Ok(event) => {
                            (pulse.event, pulse.enabled, pulse.away) = (event, 0, false);
                            Notice::CpuBack { cpu: cpu.0 }
                        }
                        // It may have gone again; the next look tries once more.
                        Err(_) => continue,
                    };
                    if wanted(cpu) {
                        notices(told);
                    }
                }
                (false, false) => {
                    if !std::mem::replace(&mut pulse.away, true) && wanted(cpu) {
                        notices(Notice::CpuAway { cpu: cpu.0 });
                    }
                }
            }
        }
        let known: Vec<CpuId> = whole.pulses.iter().map(|pulse| pulse.cpu).collect();
        for &cpu in online.iter().filter(|cpu| !known.contains(cpu)) {
            if let Ok(sideband) = self.open_new(cpu, whole.cgroup.as_ref(), wanted(cpu), &mut change) {
                whole.add(cpu, &sideband);
            }
        }
        self.whole_cpus = Some(whole);
        change
    }

    /// Opens the events anew on a CPU that was away; returns the sideband event.
    fn renew(
        &mut self,
        cpu: CpuId,
        former: &Arc<PerfEvent>,
        cgroup: Option<&OwnedFd>,
        change: &mut Change,
    ) -> io::Result<Arc<PerfEvent>> {
        let sideband = self.open_sideband(Subject::Cpu(cpu))?;
        sideband.redirect_to(former)?;
        self.take_over(None, &sideband, change)?;
        let subject = cgroup.map_or(Subject::Cpu(cpu), |cgroup| Subject::Cgroup(cgroup.as_fd(), cpu));
        let samplers = self.open_samplers(subject, Some(cpu)).map_err(|unopened| unopened.errno)?;
        for (index, instance) in samplers.iter().enumerate() {
            let (Some(instance), Some(event)) = (instance, self.events.get(index)) else { continue };
            // Of the old ones, that of this CPU is the one that takes it; an -a without this CPU has none.
            let Some(old) = event.instances.iter().find(|old| instance.redirect_to(old).is_ok()) else {
                continue;
            };
            // Where it was not away after all, two of one kind would sample.
            let _ = old.disable();
            self.take_over(Some(index), instance, change)?;
        }
        Ok(sideband)
    }

    /// Opens the events on a CPU that was not there when the recording began; returns the sideband event.
    fn open_new(
        &mut self,
        cpu: CpuId,
        cgroup: Option<&OwnedFd>,
        sampled: bool,
        change: &mut Change,
    ) -> io::Result<Arc<PerfEvent>> {
        let sideband = self.open_sideband(Subject::Cpu(cpu))?;
        self.add_sideband(Place::Cpu(cpu), Arc::clone(&sideband)).map_err(io::Error::other)?;
        self.take_over(None, &sideband, change)?;
        if sampled {
            let subject = cgroup.map_or(Subject::Cpu(cpu), |cgroup| Subject::Cgroup(cgroup.as_fd(), cpu));
            let samplers = self.open_samplers(subject, Some(cpu)).map_err(|unopened| unopened.errno)?;
            self.add_samplers(vec![(Place::Cpu(cpu), samplers.clone())]).map_err(io::Error::other)?;
            for (index, instance) in samplers.iter().enumerate() {
                if let Some(instance) = instance {
                    self.take_over(Some(index), instance, change)?;
                }
            }
        }
        change.rings.append(&mut self.rings);
        Ok(sideband)
    }

    /// Lets a new instance of the event at `index` (or of the sideband event) stand for the first one, and run as they do.
    fn take_over(
        &mut self,
        index: Option<usize>,
        instance: &Arc<PerfEvent>,
        change: &mut Change,
    ) -> io::Result<()> {
        let runs = index.is_some_and(|index| self.runs(index));
        let event = match index.map(|index| self.events.get_mut(index)) {
            None => &mut self.sideband,
            Some(Some(event)) => event,
            Some(None) => return Ok(()),
        };
        if let Some(first) = event.instances.first().filter(|first| !Arc::ptr_eq(first, instance)) {
            change.numbers.push((instance.id()?, first.id()?));
        }
        if !event.instances.iter().any(|known| Arc::ptr_eq(known, instance)) {
            event.instances.push(Arc::clone(instance));
        }
        if runs { instance.enable() } else { Ok(()) }
    }
}

/// Gives records of events that were opened later the numbers of those that the recording knows.
#[derive(Debug, Default)]
pub(crate) struct Numbers(HashMap<u64, u64>);

impl Numbers {
    pub(crate) fn learn(&mut self, numbers: Vec<(u64, u64)>) {
        self.0.extend(numbers);
    }

    /// Changes the numbers in `records`, of which each carries its event's: a sample as its first word, others as their last.
    pub(crate) fn apply(&self, records: &mut [u8]) {
        if self.0.is_empty() {
            return;
        }
        for record in each_mut(records) {
            let at = if is_sample(record) { IDENTIFIER } else { record.len().saturating_sub(8) };
            if let Some(number) = u64_at(record, at).and_then(|number| self.0.get(&number))
                && let Some(place) = record.get_mut(at..at + 8)
            {
                place.copy_from_slice(&number.to_ne_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::kind;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let header = [u64::from(kind) | (8 + 8 * words.len() as u64) << 48];
        header.iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn new_events_have_the_numbers_of_old_ones() {
        let mut numbers = Numbers::default();
        let records = |sample: u64, comm: u64| {
            [record(kind::SAMPLE, &[sample, 40, 40]), record(kind::COMM, &[40, 0, comm]), vec![1, 2, 3]]
                .concat()
        };
        let mut bytes = records(40, 41);
        numbers.apply(&mut bytes);
        assert_eq!(bytes, records(40, 41));
        numbers.learn(vec![(40, 4), (41, 5)]);
        numbers.apply(&mut bytes);
        // What lies elsewhere in a record is no number of an event.
        assert_eq!(bytes, records(4, 5));
    }
}
