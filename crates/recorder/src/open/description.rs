//! Describes open events to the consumer of a recording.

use std::io;
use std::sync::Arc;

use decoder::SampleFormat;
use decoder::attr::SIZE_VER7;
use host::machine::KernelObjects;

use super::opened::{OpenEvent, Opened};
use crate::consumer::{RecordedEvent, Recording};
use crate::error::Error;
use crate::mapped_files::MappedFiles;
use crate::processes::ProcessResources;

/// Describes the events to a consumer: the sampling events, the sideband event, and the clock of tasks if it reports.
pub(crate) fn describe_events(opened: &Opened) -> Result<Recording, Error> {
    let describe = |event: &OpenEvent, index: Option<usize>| {
        let sideband = index.is_none();
        let ids: io::Result<Vec<u64>> = match index {
            Some(index) => opened.instances_of(index).map(|instance| instance.id()).collect(),
            None => event.instances.iter().map(|instance| instance.id()).collect(),
        };
        let ids = ids.map_err(|errno| Error::System { what: "cannot read an event's id", errno })?;
        let (name, mut attr) = (event.name.clone(), event.attr.clone());
        // The index among the described events.
        let leader = event.leader.and_then(|leader| opened.samplers().position(|(place, _)| place == leader));
        if event.selected.probe.is_some() {
            attr.config1 = 0; // It is an address in the memory of the recorder.
        }
        if attr.sample_format.contains(SampleFormat::STACK_USER) {
            // The limit of the call chains that the recorder makes of stack copies; the kernel's own may have a lower one.
            attr.sample_max_stack = event.selected.max_stack.unwrap_or(0);
        }
        // perf of Linux before 6.3 refuses a file with longer attrs. The fields beyond do not concern samples.
        attr.size = attr.size.min(SIZE_VER7);
        let tracepoint = event.selected.tracepoint.clone();
        Ok(RecordedEvent { name, attr, ids, sideband, leader, tracepoint })
    };
    let mut events: Vec<RecordedEvent> =
        opened.samplers().map(|(index, event)| describe(event, Some(index))).collect::<Result<_, Error>>()?;
    events.push(describe(&opened.sideband, None)?);
    // Behind the sideband event, since it has neither samples nor lost counts.
    events.extend(opened.task_clocks.as_ref().map(|clocks| RecordedEvent {
        name: "task-clock".to_owned(),
        attr: clocks.attr.clone(),
        ids: clocks.ids(),
        sideband: true,
        leader: None,
        tracepoint: None,
    }));
    let kernel = Arc::new(KernelObjects::read());
    Ok(Recording {
        events,
        cpus: opened.cpus.clone(),
        ring_size: opened.rings.size,
        kernel,
        files: MappedFiles::default(),
        resources: ProcessResources::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Pmu, select};
    use crate::options::{Options, Target};
    use crate::plan::PlannedEvent;
    use model::CpuId;

    fn planned(event: Event, before: &[PlannedEvent]) -> PlannedEvent {
        let attr = crate::attr::sampler(&event, &Options::new(Target::System), 0, 4096);
        PlannedEvent::new(event.name.clone(), attr, event).part_among(before)
    }

    #[test]
    fn an_event_of_two_kinds_of_cores_is_one_in_the_recording() {
        let core = |name: &str, kind, cpu| Pmu {
            name: name.to_owned(),
            kind,
            cpus: Some(vec![CpuId(cpu)]),
            core: true,
            ..Pmu::default()
        };
        let machine = vec![core("cpu_core", 4, 0), core("cpu_atom", 10, 1)];
        let mut events: Vec<PlannedEvent> = Vec::new();
        for event in select("cycles:u,cs,{instructions,branches},cycles:k", &machine).unwrap() {
            let event = planned(event, &events);
            events.push(event);
        }
        let sideband = planned(select("dummy", &machine).unwrap().remove(0), &[]);
        let mut opened = Opened::of_sideband(sideband, Vec::new());
        opened.events = events.into_iter().map(OpenEvent::from).collect();
        let recording = describe_events(&opened).unwrap();
        let shown: Vec<(&str, Option<usize>)> =
            recording.events.iter().map(|event| (event.name.as_str(), event.leader)).collect();
        let expected = [
            ("cycles:u", None),
            ("cs", None),
            ("instructions", Some(2)),
            ("branches", Some(2)),
            ("cycles:k", None),
            ("dummy", None),
        ];
        assert_eq!(shown, expected);
    }
}
