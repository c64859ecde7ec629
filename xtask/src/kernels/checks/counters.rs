//! Cycles and instructions of the emulated PMU, alone, in groups, and more of them than there are counters.

use anyhow::{Context, ensure};

use super::{Check, has_pmu};
use crate::kernels::answer::{Answer, one_line};

/// Nanoseconds of the emulated clock per instruction (`Machine::Exact`), and cycles per nanosecond.
const CYCLES_PER_INSTRUCTION: f64 = 8.0;

/// Returns the checks, for the architecture whose emulation counts.
pub(super) fn checks() -> Vec<Check> {
    [counted(), group(), multiplexed()].map(|check| check.on(has_pmu)).into()
}

fn counted() -> Check {
    let script = "run stat prof stat -j -e task-clock,cycles,instructions -- shares alone 300\n";
    let expects = "a cycle a nanosecond, and an eighth as many instructions, within 0.2 %";
    Check::new("cycles and instructions", expects, script, |_, answer| {
        let [clock, cycles, instructions] = counts(answer, ["task-clock", "cycles", "instructions"])?;
        // The clock of a task does not run at the ends of a switch, counters do.
        let rate = cycles / (clock * 1e6);
        ensure!((0.98..1.02).contains(&rate), "{rate:.4} cycles per ns: {}", one_line(answer.text("stat")?));
        let ratio = cycles / instructions / CYCLES_PER_INSTRUCTION;
        ensure!((0.998..1.002).contains(&ratio), "{cycles} cycles, {instructions} instructions");
        Ok(())
    })
}

fn group() -> Check {
    let script = "run record prof record -e '{cycles,instructions}:S' -F 997 -o r.data -- shares alone 300\n\
                  run report prof report r.data\n\
                  run stat prof stat -j -e '{cycles,instructions}' -- shares alone 300\n";
    let expects = "both events of the group, read at each sample of the first";
    Check::new("groups, with :S", expects, script, |_, answer| {
        answer.text("record")?;
        let report = answer.text("report")?;
        for event in ["cycles", "instructions"] {
            ensure!(report.contains(event), "no {event}: {}", one_line(report));
        }
        let [cycles, instructions] = counts(answer, ["cycles", "instructions"])?;
        let ratio = cycles / instructions / CYCLES_PER_INSTRUCTION;
        ensure!((0.99..1.01).contains(&ratio), "{cycles} cycles, {instructions} instructions");
        Ok(())
    })
}

/// The emulated PMU has six counters beside that of cycles.
fn multiplexed() -> Check {
    let events = "instructions,instructions:u,instructions:k,cycles:u,cycles:k,cycles,instructions:uk,cycles:uk,instructions";
    let script = format!("run stat prof stat -j -e {events} -- shares alone 1000\n");
    Check::new("more events than counters", "estimates within 5 %, called so", script, |_, answer| {
        let stat = answer.text("stat")?;
        let counts = parsed(stat)?;
        let share = |count: &serde_json::Value| count["running_share"].as_f64().unwrap_or(1.0);
        ensure!(
            counts.iter().any(|count| share(count) < 0.99),
            "no event was multiplexed: {}",
            one_line(stat)
        );
        let [instructions, cycles] = counted_as(&counts, ["instructions", "cycles"])?;
        let ratio = cycles / instructions / CYCLES_PER_INSTRUCTION;
        ensure!((0.95..1.05).contains(&ratio), "{cycles} cycles, {instructions} instructions");
        Ok(())
    })
}

fn counts<const N: usize>(answer: &Answer, events: [&str; N]) -> anyhow::Result<[f64; N]> {
    counted_as(&parsed(answer.text("stat")?)?, events)
}

/// Returns the counts in the JSON of `prof stat`, which follows what the program printed.
pub(super) fn parsed(stat: &str) -> anyhow::Result<Vec<serde_json::Value>> {
    let json = stat.lines().find(|line| line.starts_with('{')).with_context(|| one_line(stat))?;
    let stat: serde_json::Value = serde_json::from_str(json)?;
    stat["counts"].as_array().cloned().context("no counts")
}

/// Returns the counts of `events`.
pub(super) fn counted_as<const N: usize>(
    counts: &[serde_json::Value],
    events: [&str; N],
) -> anyhow::Result<[f64; N]> {
    let mut values = [0.0; N];
    for (value, event) in values.iter_mut().zip(events) {
        let count = counts.iter().find(|count| count["event"] == event);
        let count = count.with_context(|| format!("{event} was not counted: {counts:?}"))?;
        *value = count["value"].as_f64().with_context(|| format!("{event} has no value: {count}"))?;
    }
    Ok(values)
}
