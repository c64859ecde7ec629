//! What happens to events after they were opened: CPUs come and go, which is said, and the kernel ends the events of processes, which are
//! opened again. Records of the new ones go into the rings of the old ones and get their ids ([`EventIdMap`]), so that no later stage has
//! to know of them.
//!
//! The events of a whole CPU end when it goes offline, or when the machine is suspended. Those of threads go on by themselves.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use decoder::{SampleFormat, offsets};
use host::sys::perf_event::{PerfEvent, Subject};
use host::sysfs;
use model::{CpuId, Pid, Tid};

use super::opened::Opened;
use super::rings::redirect;
use super::targets::all_threads;
use crate::notice::Notice;
use crate::options::Options;
use crate::records::{each_mut, is_sample, u64_at};

/// Offset of IDENTIFIER in a sample, and its distance from the end of other records.
const IDENTIFIER: usize = offsets::in_sample(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);
const IDENTIFIER_FROM_END: usize = offsets::from_end(SampleFormat::IDENTIFIER, SampleFormat::IDENTIFIER);

/// Sends notices of the CPUs that are not recorded any more, because they went offline, and of those that came online since the events
/// were opened. Calls must be some milliseconds apart: a CPU counts as offline if its sideband event was not enabled in between.
pub(crate) fn name_lost_cpus(opened: &mut Opened, options: &Options, notices: &mut dyn FnMut(Notice)) {
    let Ok(online) = sysfs::online_cpus() else { return };
    let wanted = |cpu: CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(&cpu));
    let format = opened.sideband.attr.read_format;
    let watches = opened.whole_cpus.iter_mut().flat_map(|whole| &mut whole.watches);
    for watch in watches.filter(|watch| !watch.is_offline && wanted(watch.cpu)) {
        if !watch.was_enabled(format) {
            watch.is_offline = true;
            notices(Notice::CpuOffline { cpu: watch.cpu.0 });
        }
    }
    // An event of a thread on any CPU follows it there, too.
    let is_new = |cpu: &CpuId| !opened.cpus.contains(cpu) && wanted(*cpu) && !options.per_thread;
    for cpu in online.into_iter().filter(is_new) {
        if opened.new_cpus.insert(cpu) {
            notices(Notice::CpuNotSampled { cpu: cpu.0 });
        }
    }
}

/// Opens the events on the threads of `pids`, and starts them. Their records go into the rings of the events that the recording
/// knows. Returns the ids of the new events, each with that of the event which it stands for. Empty where the processes have ended,
/// where the user may not observe them, and where each thread has a ring, which the kernel lets no other thread use.
pub(crate) fn reopen(opened: &mut Opened, pids: &[Pid], options: &Options) -> Vec<(u64, u64)> {
    let mut ids = Vec::new();
    if options.per_thread {
        return ids;
    }
    let sampled = opened.sampled_cpus(options);
    for tid in all_threads(pids) {
        for cpu in opened.cpus.clone() {
            if reopen_on(opened, tid, cpu, sampled.contains(&cpu), &mut ids).is_err() {
                // It has ended, or is not ours: so it is on all CPUs.
                break;
            }
        }
    }
    ids
}

/// Opens the sideband event on a thread on `cpu`, to write into the rings of that CPU, and the sampling events if they are meant. Adds the
/// ids.
fn reopen_on(
    opened: &mut Opened,
    tid: Tid,
    cpu: CpuId,
    is_sampled: bool,
    ids: &mut Vec<(u64, u64)>,
) -> io::Result<()> {
    let subject = Subject::Thread(tid, Some(cpu));
    let sideband = opened.open_sideband(subject)?;
    // The kernel redirects an event only to one of the same CPU.
    redirect(&sideband, &opened.sideband.instances).map_err(io::Error::other)?;
    add_instance(opened, None, &sideband, ids)?;
    let samplers = match is_sampled {
        true => opened.open_samplers(subject, Some(cpu)).map_err(|unopened| unopened.errno)?,
        false => Vec::new(),
    };
    for (index, instance) in samplers.iter().enumerate() {
        let (Some(instance), Some(event)) = (instance, opened.events.get(index)) else { continue };
        if event.instances.iter().any(|old| instance.redirect_to(old).is_ok()) {
            add_instance(opened, Some(index), instance, ids)?;
        }
    }
    sideband.enable()
}

/// Adds a new instance of the event at `index`, or of the sideband event. Its records get the id of the first instance, and it is enabled
/// if the event runs.
fn add_instance(
    opened: &mut Opened,
    index: Option<usize>,
    instance: &Arc<PerfEvent>,
    ids: &mut Vec<(u64, u64)>,
) -> io::Result<()> {
    let runs = index.is_some_and(|index| opened.runs(index));
    let event = match index.map(|index| opened.events.get_mut(index)) {
        None => &mut opened.sideband,
        Some(Some(event)) => event,
        Some(None) => return Ok(()),
    };
    if let Some(first) = event.instances.first() {
        ids.push((instance.id()?, first.id()?));
    }
    event.instances.push(Arc::clone(instance));
    if runs { instance.enable() } else { Ok(()) }
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
