//! `prof doctor`: what this machine allows, and what would allow more.

use std::io::Write;
use std::process::ExitCode;

use host::survey::survey;
use recorder::event::{Catalogue, Event, select};
use recorder::{Offer, ThisMachine, offer, offer_on_cpu, this_machine};

use crate::console::Console;
use crate::doctor::{Facts, Offers, can_record, findings, report};
use crate::output::Output;

/// Looks around and tells. The exit code is 1 where nothing can be recorded.
///
/// # Errors
/// Where the report cannot be written.
pub fn run(console: &Console) -> anyhow::Result<ExitCode> {
    let facts = Facts { survey: survey(), offers: offers(&this_machine())? };
    let findings = findings(&facts);
    let mut output = Output::stdout()?;
    output.write_all(report(&facts, &findings, console.verbosity() > 0).as_bytes())?;
    output.finish()?;
    Ok(if can_record(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Asks the kernel.
fn offers(machine: &ThisMachine) -> anyhow::Result<Offers> {
    let clock = select("cpu-clock", machine)?;
    let cycles = select("cycles", machine)?;
    let all = |events: &[Event]| events.first().map_or(Offer::Absent, offer);
    let some_cpu = host::sysfs::online_cpus().ok().and_then(|cpus| cpus.first().copied()).unwrap_or_default();
    // Of each system's tracepoints one could be named; that of process switches is in every kernel.
    let tracepoint = select("sched:sched_switch", machine).ok();
    let uprobe = machine.pmus().iter().any(|pmu| pmu.name == "uprobe");
    let uprobe = uprobe.then(|| select("uprobe:/proc/self/exe:0", machine)).transpose()?;
    Ok(Offers {
        clock: all(&clock),
        cycles: all(&cycles),
        whole_cpu: clock.first().map_or(Offer::Absent, |clock| offer_on_cpu(clock, some_cpu)),
        tracepoint: tracepoint.as_deref().map(all),
        uprobe: uprobe.as_deref().map(all),
    })
}
