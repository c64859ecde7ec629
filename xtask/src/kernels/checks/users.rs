//! What users may record who are not root, and what they are told if they may not.

use anyhow::{Context, ensure};

use super::shares::{script, shares};
use super::{Check, Rights};
use crate::kernels::answer::{Answer, one_line};

/// Capabilities that perf_event_open or `prof` look at.
const CAPABILITIES: [&str; 7] = [
    "cap_perfmon",
    "cap_sys_admin",
    "cap_sys_ptrace",
    "cap_syslog",
    "cap_ipc_lock",
    "cap_dac_read_search",
    "cap_bpf",
];

/// Recordings that a level forbids: the name, the level, and the command line of `prof record`.
const FORBIDDEN: [(&str, i8, &str); 5] = [
    // Debian's level: no user may use perf_event_open.
    ("own program", 3, "-e cpu-clock -- shares alone 100"),
    ("own program", 4, "-e cpu-clock -- shares alone 100"),
    ("the kernel alone", 2, "-e cpu-clock:k -- shares alone 100"),
    ("all CPUs", 2, "-e cpu-clock -a -d 0.1"),
    ("all CPUs", 1, "-e cpu-clock -a -d 0.1"),
];

/// Returns the checks of refusals, and of each capability.
pub(super) fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> =
        FORBIDDEN.iter().map(|&(name, paranoid, options)| refused(name, paranoid, options)).collect();
    let switches = advised("context switches", "-e cs -- shares alone 100");
    checks.push(switches.with_rights(Rights::User { paranoid: 2 }));
    for name in CAPABILITIES {
        let at_2 =
            Check::new("own program", "a recording in 60/30/10 %", script("-e cpu-clock"), |_, answer| {
                answer.text("record")?;
                shares(answer, Some("work"))
            });
        checks.push(at_2.with_rights(Rights::Capability { name, paranoid: 2 }));
        checks.push(
            advised("own program", "-e cpu-clock -- shares alone 100")
                .with_rights(Rights::Capability { name, paranoid: 3 }),
        );
    }
    checks
}

fn refused(name: &str, paranoid: i8, options: &str) -> Check {
    let check = advised(name, options);
    let judge = check.judge;
    Check {
        expects: "a refusal with a command that helps".to_owned(),
        judge: Box::new(move |kernel, answer| {
            let first = answer.run("first")?;
            ensure!(first.status == 1, "exit status {}: {}", first.status, one_line(&first.text));
            judge(kernel, answer)
        }),
        ..check
    }
    .with_rights(Rights::User { paranoid })
}

/// Returns the check that a recording either succeeds, or names a command after which it does; and that the command that the doctor
/// names first helps, too.
fn advised(name: &str, options: &str) -> Check {
    // What follows the last `sudo` is run as root, as it is: a command that is no command does not help. `…` is the same command line.
    let script = format!(
        "first() {{ $as prof record -o first.data {options}; }}\n\
         run first first\n\
         run doctor $as prof doctor\n\
         try=$(first 2>&1 | sed -n 's/.*try: .*sudo //p' | head -n 1)\n\
         case $try in\n\
         *…) run advice prof record -o root.data {options} ;;\n\
         *) run advice sh -c \"$try\"; run then $as prof record -o then.data {options} ;;\n\
         esac\n"
    );
    Check::new(name, "a recording, or a refusal with a command that helps", script, |_, answer| {
        let first = answer.run("first")?;
        if first.status == 0 {
            return doctor_allows(answer);
        }
        ensure!(first.text.contains("try: sudo "), "no advice: {}", one_line(&first.text));
        answer.text("advice").with_context(|| one_line(&first.text))?;
        if !first.text.ends_with('…') {
            answer.text("then").with_context(|| one_line(&first.text))?;
        }
        Ok(())
    })
}

/// Checks that the doctor does not call broken what works.
fn doctor_allows(answer: &Answer) -> anyhow::Result<()> {
    let doctor = answer.run("doctor")?;
    ensure!(!doctor.text.contains("broken"), "the recording works, but: {}", one_line(&doctor.text));
    Ok(())
}
