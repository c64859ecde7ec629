//! `prof list`: lists the events that this machine offers.

use std::io::Write;
use std::process::ExitCode;

use analysis::Notices;
use anyhow::bail;
use clap::Args;
use model::{Harm, Name};
use recorder::event::{Catalogue, EventError, EventKind, ListedEvent, listing, nearest, select};
use recorder::{EventSupport, core_pmu_name, event_support};

use crate::console::Console;
use crate::output::Output;

/// Arguments of `prof list`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof list                          all events for -e
  prof list 'sched:*'                tracepoints of the scheduler
  prof list faults                   events with `faults` in their names
  prof list hw                       events of one kind: hw, cache, sw, pmu, tracepoint, probe

Modifiers follow an event: u user, k kernel, h hypervisor, G guest, H host,
p pp ppp P precision, D pinned, e exclusive, I not while idle.
{a,b} is a group; {a,b}:S samples the first event and reads the others with it.
Parameters: cycles/freq=997/, page-faults/period=100,call-graph=no,max-stack=16,name=faults/.")]
pub struct ListArguments {
    /// Only events whose names contain PATTERN; * and ? are wildcards
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
}

/// Lists the events that can be recorded.
///
/// # Errors
/// No event matches, or the list cannot be written.
pub fn run(arguments: &ListArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let machine = recorder::this_machine();
    let (all, problem) = listing(&machine);
    let patterns = &arguments.patterns;
    let meant =
        |one: &ListedEvent| patterns.is_empty() || patterns.iter().any(|pattern| one.is_meant_by(pattern));
    let chosen: Vec<&ListedEvent> = all.iter().filter(|one| meant(one)).collect();
    let tracepoints_meant = patterns.is_empty()
        || patterns.iter().any(|pattern| {
            pattern.contains(':') || EventKind::Tracepoint.words().contains(&pattern.as_str())
        });
    if chosen.is_empty() {
        return no_match(patterns, &machine, problem);
    }
    if let Some(problem) = problem.filter(|_| tracepoints_meant) {
        console.warn(Harm::Names, &problem.to_string());
    }
    let groups = chosen.chunk_by(|one, other| one.kind == other.kind);
    let offered = groups.map(|group| group.iter().copied().zip(offers(group, &machine)).collect());
    let mut offered: Vec<Vec<(&ListedEvent, Option<EventSupport>)>> = offered.collect();
    // What this machine has comes first, of groups and in each.
    offered.iter_mut().for_each(|group| group.sort_by_key(|(_, offer)| !is_here(*offer)));
    offered.sort_by_key(|group| !group.iter().any(|(_, offer)| is_here(*offer)));
    let mut output = Output::stdout()?;
    for (number, group) in offered.iter().enumerate() {
        if number > 0 {
            writeln!(output)?;
        }
        write_group(group, &mut output)?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the error that no event matches. `problem` is why tracepoints cannot be read: one of them may match.
fn no_match(
    patterns: &[String],
    machine: &dyn Catalogue,
    problem: Option<EventError>,
) -> anyhow::Result<ExitCode> {
    let list = patterns.join(" ");
    if let Some(problem) = problem {
        bail!("no visible event matches {list}: {problem}");
    }
    match patterns.iter().find_map(|pattern| nearest(pattern, machine)) {
        Some(nearest) => bail!("no event of this machine matches {list}; did you mean {nearest}?"),
        None => bail!("no event of this machine matches {list}; try: prof list"),
    }
}

/// Returns what the kernel offers for each event of a group. For tracepoints, only the first is tried, because all give the same
/// answer.
fn offers(group: &[&ListedEvent], machine: &dyn Catalogue) -> Vec<Option<EventSupport>> {
    let ask = |one: &&ListedEvent| {
        let events = select(one.example.as_deref()?, machine);
        // On a hybrid machine, it is enough if one kind of core supports the event.
        let offers = events.iter().flatten().map(event_support);
        offers.min_by_key(|offer| match offer {
            EventSupport::Samples => 0,
            EventSupport::UserSpaceOnly => 1,
            EventSupport::CountsOnly => 2,
            _ => 3,
        })
    };
    match group.first() {
        Some(first) if first.kind == EventKind::Tracepoint => vec![ask(first); group.len()],
        _ => group.iter().map(ask).collect(),
    }
}

/// Returns true if an event can be recorded here, or could be with more rights, or if its form alone is listed.
fn is_here(offer: Option<EventSupport>) -> bool {
    !matches!(offer, Some(EventSupport::Absent | EventSupport::Refused(_)))
}

fn write_group(
    group: &[(&ListedEvent, Option<EventSupport>)],
    output: &mut dyn Write,
) -> std::io::Result<()> {
    let Some((first, offer)) = group.first() else { return Ok(()) };
    let title = title(&first.kind);
    let alike = group.iter().all(|(_, other)| other == offer);
    match offer.filter(|_| alike).and_then(reason) {
        Some(reason) => writeln!(output, "{title}: {reason}")?,
        None => writeln!(output, "{title}")?,
    }
    for (one, offer) in group {
        let names = Name::from(one.names.join(", ").as_str()).to_string();
        match offer.and_then(mark) {
            Some(mark) => writeln!(output, "  {names:<48} {mark}")?,
            None => writeln!(output, "  {names}")?,
        }
    }
    Ok(())
}

fn title(kind: &EventKind) -> String {
    match kind {
        EventKind::Hardware => "Hardware events".to_owned(),
        EventKind::Cache => "Cache events".to_owned(),
        EventKind::Software => "Software events".to_owned(),
        EventKind::Pmu(name) => format!("PMU {}", Name::from(name.as_str())),
        EventKind::Form => "Raw events, breakpoints and probes".to_owned(),
        EventKind::Tracepoint => "Tracepoints".to_owned(),
    }
}

/// Returns the mark behind the name of an event.
fn mark(offer: EventSupport) -> Option<String> {
    match offer {
        EventSupport::Samples | EventSupport::UserSpaceOnly => None,
        EventSupport::CountsOnly => Some("[counts only]".to_owned()),
        EventSupport::Absent => Some("[not here]".to_owned()),
        EventSupport::Forbidden => Some("[not permitted]".to_owned()),
        EventSupport::Refused(errno) => Some(format!("[refused: {}]", words(errno))),
    }
}

fn words(errno: i32) -> String {
    recorder::Errno(&std::io::Error::from_raw_os_error(errno)).to_string()
}

/// Returns the remark behind the title of a group whose events all have the same offer.
fn reason(offer: EventSupport) -> Option<String> {
    match offer {
        EventSupport::Samples => None,
        EventSupport::UserSpaceOnly => Some("user space only (see prof doctor)".to_owned()),
        EventSupport::CountsOnly => Some("can be counted, but not sampled".to_owned()),
        EventSupport::Absent => Some(match core_pmu_name() {
            Some(pmu) => format!("not available from the PMU of this machine ({pmu})"),
            None => "not available on this machine (virtual machines often have no PMU)".to_owned(),
        }),
        EventSupport::Forbidden => Some("not permitted for this user (see prof doctor)".to_owned()),
        EventSupport::Refused(errno) => Some(format!("refused by the kernel: {}", words(errno))),
    }
}
