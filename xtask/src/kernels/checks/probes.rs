//! Events that occur a known number of times: probes in programs and in the kernel, tracepoints with a filter, breakpoints.

use anyhow::ensure;

use super::Check;
use crate::kernels::answer::{Answer, one_line};
use crate::kernels::kernel::Kernel;
use crate::kernels::text;

/// How often a program calls the function, or reads.
const TIMES: u32 = 500;

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let calls = format!("counts {TIMES}");
    let reads = format!("dd if=/dev/zero of=/dev/null bs=7 count={TIMES}");
    let breakpoint = format!(
        "prof record -q -e uprobe:/bin/counts:bump -c 1 --call-graph no -o address.data -- counts 1\n\
         address=$(prof script -F ip address.data | tr -d ' \\t' | head -n 1)\n\
         run record prof record -e \"mem:0x$address:x\" -c 1 -o r.data -- {calls}\n"
    );
    vec![
        counted("uprobe", "-e uprobe:/bin/counts:bump", &calls),
        counted("uretprobe", "-e uprobe:/bin/counts:bump%return", &calls),
        counted("kprobe", "-e kprobe:read_zero", &reads),
        counted("kretprobe", "-e kprobe:read_zero%return", &reads),
        counted("tracepoint with filter", "-e syscalls:sys_enter_read --filter 'count == 7'", &reads),
        Check::new("breakpoint", format!("{TIMES} samples"), breakpoint, judge),
    ]
}

fn counted(name: &str, options: &str, command: &str) -> Check {
    let script = format!("run record prof record {options} -c 1 -o r.data -- {command}\n");
    Check::new(name, format!("{TIMES} samples, counting those that are said to be lost"), script, judge)
}

fn judge(_: &Kernel, answer: &Answer) -> anyhow::Result<()> {
    let record = answer.text("record")?;
    // All 500 come within milliseconds. Where the recorder gets the only CPU at the next tick, not all of their stacks have room in a ring.
    let (samples, lost) = text::samples_and_lost(record)?;
    ensure!(samples + lost == f64::from(TIMES) && samples >= f64::from(TIMES) / 4.0, "{}", one_line(record));
    Ok(())
}
