//! `prof doctor`: checks what this machine allows, and how to allow more.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use host::procfs::Capability;
use host::survey::survey;
use host::sys::sandbox::with_capability;
use recorder::event::{Catalogue, Event, select};
use recorder::{EventSupport, ThisMachine, event_support, event_support_on_cpu, this_machine};

use crate::console::Console;
use crate::doctor::{Facts, Offers, UnitKind, can_record, findings, report, unit};
use crate::output::Output;

/// The arguments of `prof doctor`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof doctor               what this user may record here, and how to allow more
  prof doctor -v            all that was checked
  prof doctor --unit        a systemd unit for a continuous recording")]
pub struct DoctorArguments {
    /// Print a systemd unit with the least privileges that it needs here: for profiles that are sent to an engine (watch), or for a flight
    /// recorder (record -a --overwrite)
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, value_parser = UnitKind::NAMES,
          default_missing_value = UnitKind::NAMES[0])]
    unit: Option<String>,
}

/// Surveys the machine and prints the findings. The exit code is 1 if nothing can be recorded.
///
/// # Errors
/// The report cannot be written.
pub fn run(arguments: &DoctorArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if let Some(kind) = &arguments.unit {
        let mut output = Output::stdout()?;
        let (survey, clock) = (survey(), select("cpu-clock", &this_machine())?);
        let has_perfmon = survey.status.is_some_and(|own| own.has(Capability::Perfmon));
        let opens = || clock.first().is_some_and(|clock| on_some_cpu(clock) == EventSupport::Samples);
        let perfmon_opens =
            if has_perfmon { with_capability(Capability::Perfmon as u32, opens) } else { None };
        output.write_all(unit(&survey, UnitKind::by_name(kind), perfmon_opens).as_bytes())?;
        output.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = Facts { survey: survey(), offers: offers(&this_machine())? };
    let findings = findings(&facts);
    let mut output = Output::stdout()?;
    output.write_all(report(&facts, &findings, console.verbosity() > 0).as_bytes())?;
    output.finish()?;
    Ok(if can_record(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opens trial events to see what the kernel offers.
fn offers(machine: &ThisMachine) -> anyhow::Result<Offers> {
    let clock = select("cpu-clock", machine)?;
    let cycles = select("cycles", machine)?;
    let all = |events: &[Event]| events.first().map_or(EventSupport::Absent, event_support);
    // One tracepoint stands for all; every kernel with tracepoints has sched_switch.
    let tracepoint = select("sched:sched_switch", machine).ok();
    let uprobe = machine.pmus().iter().any(|pmu| pmu.name == "uprobe");
    let uprobe = uprobe.then(|| select("uprobe:/proc/self/exe:0", machine)).transpose()?;
    Ok(Offers {
        clock: all(&clock),
        cycles: all(&cycles),
        whole_cpu: clock.first().map_or(EventSupport::Absent, on_some_cpu),
        tracepoint: tracepoint.as_deref().map(all),
        uprobe: uprobe.as_deref().map(all),
    })
}

/// Tries an event on all that runs on a CPU.
fn on_some_cpu(event: &Event) -> EventSupport {
    let cpu = host::sysfs::online_cpus().ok().and_then(|cpus| cpus.first().copied()).unwrap_or_default();
    event_support_on_cpu(event, cpu)
}
