//! Opens events later: on CPUs that come online while they are recorded whole, and on processes whose events the kernel has ended.
//!
//! The events of a CPU end when it goes offline. When it comes back, also after a suspended machine has woken up, new events are
//! opened on it. Their records go into the rings of the old ones and get their ids ([`EventIdMap`]), so that no later stage has to
//! know of them. Events of threads go on by themselves, but were not opened on CPUs that come online for the first time.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use decoder::{SampleFormat, offsets};
use host::sys::perf_event::{PerfEvent, Subject};
use host::sysfs;
use model::{CpuId, Pid};

use super::opened::{Opened, subject};
use super::rings::{RingOwner, RingPair, redirect};
use super::targets::all_threads;
use crate::notice::Notice;
use crate::options::Options;
use crate::records::{each_mut, is_sample, u64_at};

/// Offset of IDENTIFIER in a sample, and its distance from the end of other records.
const IDENTIFIER: usize = offsets::in_sample(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);
const IDENTIFIER_FROM_END: usize = offsets::from_end(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);

/// What was opened later.
#[derive(Default)]
pub(crate) struct LaterEvents {
    /// Rings of CPUs that came online for the first time.
    pub(crate) rings: Vec<RingPair>,
    /// The ids of new events, each with that of the event which it stands for.
    pub(crate) ids: Vec<(u64, u64)>,
}

/// Opens the events on CPUs that came online since the last call, and sends notices of all that came and went. Calls must be
/// some milliseconds apart: a CPU counts as offline if its sideband event was not enabled in between.
pub(crate) fn follow_cpus(
    opened: &mut Opened,
    options: &Options,
    notices: &mut dyn FnMut(Notice),
) -> LaterEvents {
    let mut change = LaterEvents::default();
    let Ok(online) = sysfs::online_cpus() else { return change };
    let wanted = |cpu: CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(&cpu));
    let Some(mut whole) = opened.whole_cpus.take() else {
        let new: Vec<CpuId> = online.into_iter().filter(|cpu| !opened.cpus.contains(cpu)).collect();
        // An event of a thread on any CPU follows it there, too.
        for &cpu in new.iter().filter(|cpu| wanted(**cpu) && !options.per_thread) {
            notices(Notice::CpuNotSampled { cpu: cpu.0 });
        }
        opened.cpus.extend(new);
        return change;
    };
    for watch in &mut whole.watches {
        let cpu = watch.cpu;
        match (watch.was_enabled(opened.sideband.attr.read_format), online.contains(&cpu)) {
            (true, _) => {}
            (false, true) => {
                // Where it fails, the CPU may have gone again: the next call tries once more.
                let sampled = wanted(cpu).then(|| subject(whole.cgroup.as_ref(), cpu));
                let reopened = change.reopen_on(opened, cpu, (Subject::Cpu(cpu), sampled), true);
                let Ok(event) = reopened else { continue };
                (watch.event, watch.enabled_ns, watch.is_offline) = (event, 0, false);
                if wanted(cpu) {
                    notices(Notice::CpuOnline { cpu: cpu.0 });
                }
            }
            (false, false) => {
                if !std::mem::replace(&mut watch.is_offline, true) && wanted(cpu) {
                    notices(Notice::CpuOffline { cpu: cpu.0 });
                }
            }
        }
    }
    let known: Vec<CpuId> = whole.watches.iter().map(|watch| watch.cpu).collect();
    for &cpu in online.iter().filter(|cpu| !known.contains(cpu)) {
        if let Ok(sideband) = change.open_new_cpu(opened, cpu, whole.cgroup.as_ref(), wanted(cpu)) {
            whole.add(cpu, &sideband);
        }
    }
    opened.whole_cpus = Some(whole);
    change
}

/// Opens the events on the threads of `pids`, and starts them. Their records go into the rings of the events that the recording
/// knows. Returns the ids of the new events, each with that of the event which it stands for. Empty where the processes have ended,
/// where the user may not observe them, and where each thread has a ring, which the kernel lets no other thread use.
pub(crate) fn reopen(opened: &mut Opened, pids: &[Pid], options: &Options) -> Vec<(u64, u64)> {
    let mut change = LaterEvents::default();
    if options.per_thread {
        return change.ids;
    }
    let sampled = opened.sampled_cpus(options);
    for tid in all_threads(pids) {
        for cpu in opened.cpus.clone() {
            let subject = Subject::Thread(tid, Some(cpu));
            let is_sampled = sampled.contains(&cpu);
            let reopened = change.reopen_on(opened, cpu, (subject, is_sampled.then_some(subject)), false);
            if reopened.and_then(|sideband| sideband.enable()).is_err() {
                // It has ended, or is not ours: so it is on all CPUs.
                break;
            }
        }
    }
    change.ids
}

impl LaterEvents {
    /// Opens the events again on subjects of `cpu`, to write into its rings: the sideband event on the first, the sampling events on the
    /// second, if there is one. Disables those that they replace, if that is meant. Returns the sideband event.
    fn reopen_on(
        &mut self,
        opened: &mut Opened,
        cpu: CpuId,
        (sideband, sampled): (Subject<'_>, Option<Subject<'_>>),
        replaces: bool,
    ) -> io::Result<Arc<PerfEvent>> {
        let sideband = opened.open_sideband(sideband)?;
        // The kernel redirects an event only to one of the same CPU.
        redirect(&sideband, &opened.sideband.instances).map_err(io::Error::other)?;
        self.add_instance(opened, None, &sideband)?;
        let samplers = match sampled {
            Some(subject) => opened.open_samplers(subject, Some(cpu)).map_err(|unopened| unopened.errno)?,
            None => Vec::new(),
        };
        for (index, instance) in samplers.iter().enumerate() {
            let (Some(instance), Some(event)) = (instance, opened.events.get(index)) else { continue };
            let Some(old) = event.instances.iter().find(|old| instance.redirect_to(old).is_ok()) else {
                continue;
            };
            if replaces {
                // If the CPU was not offline after all, both events would sample.
                let _ = old.disable();
            }
            self.add_instance(opened, Some(index), instance)?;
        }
        Ok(sideband)
    }

    /// Opens the events on a CPU that was offline when the recording began. Returns the sideband event.
    fn open_new_cpu(
        &mut self,
        opened: &mut Opened,
        cpu: CpuId,
        cgroup: Option<&OwnedFd>,
        sampled: bool,
    ) -> io::Result<Arc<PerfEvent>> {
        let sideband = opened.open_sideband(Subject::Cpu(cpu))?;
        opened.add_sideband(RingOwner::Cpu(cpu), Arc::clone(&sideband)).map_err(io::Error::other)?;
        self.add_instance(opened, None, &sideband)?;
        if sampled {
            let samplers =
                opened.open_samplers(subject(cgroup, cpu), Some(cpu)).map_err(|unopened| unopened.errno)?;
            opened.add_samplers(vec![(RingOwner::Cpu(cpu), samplers.clone())]).map_err(io::Error::other)?;
            for (index, instance) in samplers.iter().enumerate() {
                if let Some(instance) = instance {
                    self.add_instance(opened, Some(index), instance)?;
                }
            }
        }
        self.rings.extend(opened.rings.take());
        Ok(sideband)
    }

    /// Adds a new instance of the event at `index`, or of the sideband event. Its records get the id of the first instance, and it
    /// is enabled if the event runs.
    pub(super) fn add_instance(
        &mut self,
        opened: &mut Opened,
        index: Option<usize>,
        instance: &Arc<PerfEvent>,
    ) -> io::Result<()> {
        let runs = index.is_some_and(|index| opened.runs(index));
        let event = match index.map(|index| opened.events.get_mut(index)) {
            None => &mut opened.sideband,
            Some(Some(event)) => event,
            Some(None) => return Ok(()),
        };
        if let Some(first) = event.instances.first().filter(|first| !Arc::ptr_eq(first, instance)) {
            self.ids.push((instance.id()?, first.id()?));
        }
        if !event.instances.iter().any(|known| Arc::ptr_eq(known, instance)) {
            event.instances.push(Arc::clone(instance));
        }
        if runs { instance.enable() } else { Ok(()) }
    }
}

/// Replaces the ids of events that were opened later by those of the events that the recording knows.
#[derive(Debug, Default)]
pub(crate) struct EventIdMap {
    ids: HashMap<u64, u64>,
    /// The ids of events that are opened again and again: those of the last time but one, and of the last.
    reopened: [Vec<u64>; 2],
}

impl EventIdMap {
    /// Adds the ids of new events, each with the id that replaces it.
    pub(crate) fn extend(&mut self, ids: Vec<(u64, u64)>) {
        self.ids.extend(ids);
    }

    /// Adds the ids of events that were closed and opened again, and forgets those of the last time but one. There are no records of
    /// them left: rings are drained more often than that.
    pub(crate) fn reopened(&mut self, ids: Vec<(u64, u64)>) {
        if ids.is_empty() {
            return;
        }
        let [before, last] = &mut self.reopened;
        for id in before.drain(..) {
            self.ids.remove(&id);
        }
        std::mem::swap(before, last);
        last.extend(ids.iter().map(|(id, _)| *id));
        self.ids.extend(ids);
    }

    /// Replaces the ids in `records`, which all have IDENTIFIER.
    pub(crate) fn apply(&self, records: &mut [u8]) {
        if self.ids.is_empty() {
            return;
        }
        for record in each_mut(records) {
            let from_end = record.len().saturating_sub(IDENTIFIER_FROM_END);
            let at = if is_sample(record) { IDENTIFIER } else { from_end };
            if let Some(id) = u64_at(record, at).and_then(|id| self.ids.get(&id))
                && let Some(field) = record.get_mut(at..at + 8)
            {
                field.copy_from_slice(&id.to_ne_bytes());
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
    fn new_events_have_the_ids_of_old_ones() {
        let mut ids = EventIdMap::default();
        let records = |sample: u64, comm: u64| {
            [record(kind::SAMPLE, &[sample, 40, 40]), record(kind::COMM, &[40, 0, comm]), vec![1, 2, 3]]
                .concat()
        };
        let mut bytes = records(40, 41);
        ids.apply(&mut bytes);
        assert_eq!(bytes, records(40, 41));
        ids.extend(vec![(40, 4), (41, 5)]);
        ids.apply(&mut bytes);
        // Equal words elsewhere in a record are no ids.
        assert_eq!(bytes, records(4, 5));
        for (id, expected) in [(50, [9, 51, 52]), (51, [9, 9, 52]), (52, [50, 9, 9])] {
            ids.reopened(vec![(id, 9)]);
            let mut bytes = [50, 51, 52].map(|id| record(kind::COMM, &[40, 0, id])).concat();
            ids.apply(&mut bytes);
            assert_eq!(bytes, expected.map(|id| record(kind::COMM, &[40, 0, id])).concat());
        }
    }
}
