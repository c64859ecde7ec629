//! The program whose functions take 60, 30 and 10 % of its time, by event, method and rights.

use anyhow::{bail, ensure};

use super::{Check, On, Rights, has_pmu};
use crate::kernels::answer::{Answer, one_line};
use crate::kernels::text::{self, Stack};

/// The CPU time of the program in ms.
const MILLISECONDS: u32 = 500;
/// The samples of that time at the default rate, 997 Hz.
const SAMPLES: u32 = 498;
/// How far a share may be off: of the whole program, and of a part of it, which begins and ends within a round of the three functions. Two
/// standard deviations of a share of 60 % in 500 samples are 4.4 points; the samples are more regular than that.
const WHOLE: f64 = 0.04;
pub(super) const PART: f64 = 0.15;

const PARTS: [(&str, f64); 3] = [("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1)];

/// Events, and the kernels on which they can be sampled.
const EVENTS: [(&str, On); 2] = [("cpu-clock", |_| true), ("cycles", has_pmu)];
const METHODS: [(&str, &str); 3] = [("no chain", "no"), ("fp", "fp"), ("dwarf", "dwarf")];

/// Returns the checks: by rate and by period as root, and every way of recording for every user.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = rates();
    for paranoid in [2, 1, 0, -1] {
        for (event, on) in EVENTS {
            checks.extend(METHODS.map(|(name, method)| {
                let caller = if method == "no" { None } else { Some("work") };
                let options = format!("-e {event} --call-graph {method}");
                recorded(format!("{event}, {name}"), &options, SAMPLES, caller)
                    .with_rights(Rights::User { paranoid })
                    .on(on)
            }));
        }
    }
    checks
}

fn rates() -> Vec<Check> {
    vec![
        recorded("cpu-clock by rate", "-e cpu-clock", SAMPLES, Some("work")),
        recorded("cpu-clock by rate, 4,999 Hz", "-e cpu-clock -F 4999", 2499, Some("work")),
        recorded("cpu-clock by period", "-e cpu-clock -c 1000000", MILLISECONDS, Some("work")),
        recorded("cycles by rate", "-e cycles", SAMPLES, Some("work")).on(has_pmu),
        // A cycle takes a nanosecond of the emulation's clock.
        recorded("cycles by period", "-e cycles -c 1000000", MILLISECONDS, Some("work")).on(has_pmu),
    ]
}

/// Returns the check that a recording of the program has the samples that are due, with `caller` above each function.
fn recorded(name: impl Into<String>, options: &str, due: u32, caller: Option<&'static str>) -> Check {
    let expects = format!("{due} samples, in 60/30/10 %");
    let has_copies = !["--call-graph no", "--call-graph fp"].iter().any(|method| options.contains(method));
    // Copying a stack takes up to 0.3 ms here, in an interrupt: the clock of the samples counts that, the program's does not. And the kernel
    // begins with a short period of a counter, until it has seen how fast that counts.
    let adapts = options.contains("-e cycles") && !options.contains("-c ");
    let least = if adapts { 0.92 } else { 0.97 };
    let most = if has_copies || adapts { 1.4 } else { 1.1 };
    Check::new(name, expects, script(options), move |_, answer| {
        samples(answer, due, [least, most])?;
        shares(answer, caller)
    })
}

/// Returns how the program is recorded and drawn.
pub(super) fn script(options: &str) -> String {
    format!(
        "run record $as prof record {options} -o r.data -- shares alone {MILLISECONDS}\n\
         run folded $as prof -q flame --folded --weight samples -i r.data\n"
    )
}

/// Checks the number of samples: those of the three functions, between which the program looks at its clock, and not half as many for its
/// start and its end. Few may be lost where the recorder and the program share one slow CPU. `least` is the
/// smallest part of those due that may be there, `most` the largest that the functions may have.
fn samples(answer: &Answer, due: u32, [least, most]: [f64; 2]) -> anyhow::Result<()> {
    let record = answer.text("record")?;
    let (seen, lost) = text::samples_and_lost(record)?;
    let due = f64::from(due);
    ensure!(lost <= due * 0.06, "lost samples: {}", one_line(record));
    let seen = seen + lost;
    ensure!(
        (due * least..due * 1.5).contains(&seen),
        "{seen} samples where {due} were due: {}",
        one_line(record)
    );
    let functions = in_functions(&text::folded(answer.text("folded")?)) as f64;
    ensure!(
        (due * (least - 0.03) - lost..due * most).contains(&functions),
        "{functions} samples in the functions, which run for {due}"
    );
    Ok(())
}

/// Checks the shares of the functions, and that the caller of each is in its place. Samples that are said to be lost may be of any function:
/// a recorder without the right to a higher priority shares one slow CPU with the program.
pub(super) fn shares(answer: &Answer, caller: Option<&str>) -> anyhow::Result<()> {
    let record = answer.text("record")?;
    let (seen, lost) = text::samples_and_lost(record)?;
    let tolerance = WHOLE + lost / (seen + lost).max(1.0);
    shares_of(&text::folded(answer.text("folded")?), caller, tolerance)
}

/// The same for stacks, whose shares may be off by `tolerance`.
pub(super) fn shares_of(stacks: &[Stack], caller: Option<&str>, tolerance: f64) -> anyhow::Result<()> {
    let of = |function: &str| text::weight(stacks.iter().filter(|(stack, _)| stack.contains(&function)));
    let functions = in_functions(stacks);
    let total = text::weight(stacks);
    for (function, part) in PARTS {
        let seen = of(function) as f64 / functions as f64;
        ensure!((seen - part).abs() <= tolerance, "{function} has {:.1} %", seen * 100.0);
    }
    let Some(caller) = caller else { return Ok(()) };
    for (stack, count) in stacks {
        let called = stack.windows(2).find(|pair| PARTS.iter().any(|(function, _)| *function == pair[1]));
        if called.is_some_and(|pair| pair[0] != caller) {
            bail!("{count} of {total} samples lack {caller}: {}", stack.join(";"));
        }
    }
    Ok(())
}

/// Returns the number of samples in the three functions.
fn in_functions(stacks: &[Stack]) -> u64 {
    let is_part = |frame: &str| PARTS.iter().any(|(function, _)| *function == frame);
    text::weight(stacks.iter().filter(|(stack, _)| stack.iter().any(|frame| is_part(frame))))
}
