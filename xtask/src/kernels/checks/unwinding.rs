//! Stacks of programs with frame pointers, with tables, with neither, with signed return addresses, and with scalable vectors.

use anyhow::ensure;

use super::{Check, On, is_aarch64};
use crate::kernels::answer::one_line;
use crate::kernels::text::{self, Stack};

/// Share of whole stacks of programs that can be unwound.
const COMPLETE: f64 = 0.99;

/// Programs that can be unwound: the name, what runs, the function above the innermost one, and where.
const PROGRAMS: [(&str, &str, &str, On); 5] = [
    ("with frame pointers", "shares-fp alone 500", "work", |_| true),
    ("with tables", "shares-tables alone 500", "work", |_| true),
    ("with PAC, key A", "shares-pac-a alone 500", "work", is_aarch64),
    ("with PAC, key B", "shares-pac-b alone 500", "work", is_aarch64),
    ("with SVE", "vectors 500", "scalable", is_aarch64),
];

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, command, caller, on) in PROGRAMS {
        let expects = format!("{} % of the stacks from main through {caller}", COMPLETE * 100.0);
        let unwound = Check::new(
            format!("unwinding -O2 {name}"),
            expects,
            script("auto", command),
            move |_, answer| {
                let stacks = text::folded(answer.text("folded")?);
                let seen = through(&stacks, caller);
                ensure!(seen >= COMPLETE, "{:.1} %: {}", seen * 100.0, one_line(answer.text("record")?));
                Ok(())
            },
        );
        checks.push(unwound.on(on));
    }
    let fp = Check::new(
        "frame pointers of -O2",
        "99 % of the stacks from main through work",
        script("fp", "shares-fp alone 500"),
        |_, answer| {
            let stacks = text::folded(answer.text("folded")?);
            let seen = through(&stacks, "work");
            ensure!(seen >= COMPLETE, "{:.1} %: {}", seen * 100.0, one_line(answer.text("record")?));
            Ok(())
        },
    );
    checks.push(fp);
    checks.push(bare());
    checks
}

/// A program without frame pointers and without tables: what is missing must not be called complete.
fn bare() -> Check {
    let expects = "no more stacks are called complete than are";
    Check::new("unwinding -O2 with neither", expects, script("auto", "shares-bare alone 500"), |_, answer| {
        let record = answer.text("record")?;
        let stacks = text::folded(answer.text("folded")?);
        let (said, seen) = (text::figure(record, "%")? / 100.0, through(&stacks, "work"));
        ensure!(
            said <= seen + 0.01,
            "{:.1} % are from main through work: {}",
            seen * 100.0,
            one_line(record)
        );
        Ok(())
    })
}

fn script(method: &str, command: &str) -> String {
    format!(
        "run record prof record -e cpu-clock:u --call-graph {method} -o r.data -- {command}\n\
         run folded prof -q flame --folded -i r.data\n"
    )
}

/// Returns the share of the weight in stacks that lead from `main` to `caller`.
fn through(stacks: &[Stack], caller: &str) -> f64 {
    let leads = |(frames, _): &&Stack| frames.windows(2).any(|pair| pair == ["main", caller]);
    text::weight(stacks.iter().filter(leads)) as f64 / text::weight(stacks).max(1) as f64
}
