//! Which events of the options are opened, by the CPUs that are sampled.

use model::CpuId;

use crate::error::Error;
use crate::event::{Event, Pmu, default_events};
use crate::options::Options;

/// Returns the CPUs that are chosen among those that are `online`: all where none is named.
pub(crate) fn chosen_cpus<'a>(options: &'a Options, online: &'a [CpuId]) -> Result<&'a [CpuId], Error> {
    match options.cpus.iter().flatten().find(|cpu| !online.contains(cpu)) {
        Some(offline) => Err(Error::CpuOffline { cpu: offline.0 }),
        None => Ok(options.cpus.as_deref().unwrap_or(online)),
    }
}

/// Returns the events of `options`, or the default ones, whose PMU counts on some of the sampled `cpus`. On a machine with several
/// kinds of cores (`core_pmus`), an event is there once for each kind that has a CPU among them.
///
/// # Errors
/// [`Error::NotOnTheseCpus`] where an event counts on none of the CPUs; [`Error::WholeCpusOnly`] where it counts on whole CPUs only,
/// and the target does not consist of these.
pub(crate) fn selected_events(
    options: &Options,
    cpus: &[CpuId],
    core_pmus: &[Pmu],
) -> Result<Vec<Event>, Error> {
    let default = options.events.is_empty().then(|| default_events(core_pmus));
    let events = default.as_ref().unwrap_or(&options.events);
    if let Some(event) = events.iter().find(|event| event.cpus.is_some() && !event.core)
        && !options.target.is_cpu_wide()
    {
        return Err(Error::WholeCpusOnly { event: event.name.clone() });
    }
    let kept = with_cpus(events, cpus);
    let missing = events.iter().find(|event| kept.iter().all(|kept| kept.name != event.name));
    match missing {
        Some(event) => Err(Error::NotOnTheseCpus {
            event: event.name.clone(),
            cpus: event.cpus.as_deref().map(host::cpus::format).unwrap_or_default(),
        }),
        None => Ok(kept),
    }
}

/// Returns those of `events` that count on some of `cpus`. Where the leader of a group is left out, the first of its members
/// becomes the leader.
fn with_cpus(events: &[Event], cpus: &[CpuId]) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::new();
    // The index of each group's leader before, and now.
    let mut leaders: Vec<(usize, usize)> = Vec::new();
    for event in events.iter().filter(|event| cpus.iter().any(|cpu| counts_on(event, *cpu))) {
        let leader = event.leader.map(|leader| {
            let known = leaders.iter().find(|(before, _)| *before == leader).map(|(_, now)| *now);
            known.unwrap_or_else(|| {
                leaders.push((leader, kept.len()));
                kept.len()
            })
        });
        kept.push(Event { leader, ..event.clone() });
    }
    kept
}

/// Returns true if the PMU of `event` counts on `cpu`.
pub(crate) fn counts_on(event: &Event, cpu: CpuId) -> bool {
    event.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;
    use crate::options::Target;
    use model::Pid;

    fn machine() -> Vec<Pmu> {
        let pmu = |name: &str, kind, core, cpus: std::ops::Range<u32>| Pmu {
            name: name.to_owned(),
            kind,
            formats: [("event".to_owned(), "config:0-7".to_owned())].into(),
            cpus: Some(cpus.map(CpuId).collect()),
            core,
            ..Pmu::default()
        };
        vec![
            pmu("cpu_core", 4, true, 0..4),
            pmu("cpu_atom", 10, true, 4..8),
            pmu("uncore_imc_0", 20, false, 0..1),
        ]
    }

    fn opened(list: &str, target: Target, cpus: &[u32]) -> Result<Vec<(u64, Option<usize>)>, Error> {
        let mut options = Options::new(target);
        options.events = select(list, &machine()).unwrap();
        let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
        let events = selected_events(&options, &cpus, &[])?;
        Ok(events.iter().map(|event| (event.attr.config >> 32, event.leader)).collect())
    }

    #[test]
    fn a_kind_of_core_that_is_not_asked_for_is_left_out() {
        assert_eq!(opened("cycles", Target::System, &[0, 5]).unwrap(), [(4, None), (10, None)]);
        assert_eq!(opened("cycles", Target::System, &[5]).unwrap(), [(10, None)]);
        let groups = "{cycles,instructions}";
        let both = [(4, Some(0)), (4, Some(0)), (10, Some(2)), (10, Some(2))];
        assert_eq!(opened(groups, Target::System, &[0, 5]).unwrap(), both);
        assert_eq!(opened(groups, Target::System, &[5]).unwrap(), [(10, Some(0)), (10, Some(0))]);
        let error = opened("cpu_core/event=1/", Target::System, &[5]).unwrap_err().to_string();
        assert!(error.contains("cpu_core/event=1/") && error.contains("0-3"), "{error}");
    }

    #[test]
    fn a_pmu_outside_the_cores_counts_for_no_program() {
        let list = "uncore_imc_0/event=1/";
        assert!(opened(list, Target::System, &[0, 5]).is_ok());
        let error = opened(list, Target::Processes(vec![Pid(1)]), &[0, 5]).unwrap_err().to_string();
        assert!(error.contains("-a"), "{error}");
    }
}
