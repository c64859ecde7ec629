//! Checks how `record --off-cpu` can record waits.

use host::procfs::Capability;

use super::{Facts, Remedy, Verdict, command, good, has, limited, may_use_all_events, note};

/// Checks whether `record --off-cpu` can record switches with stacks, or only stacks read from outside, as Yama permits.
pub(super) fn waits(facts: &Facts) -> Verdict {
    let survey = &facts.survey;
    let paranoid = survey.settings.paranoid;
    let with_stacks = if may_use_all_events(survey) || paranoid.is_some_and(|level| level <= -1) {
        Some("each switch with its stack, and wakeups (record --off-cpu)")
    } else if paranoid.is_some_and(|level| level <= 1) {
        Some("each switch of own programs with its stack (record --off-cpu)")
    } else {
        None
    };
    let scope =
        if has(survey, Capability::SysPtrace) { 0 } else { survey.settings.ptrace_scope.unwrap_or(0) };
    let everything = Remedy::Capabilities(&[Capability::Perfmon]);
    match (with_stacks, scope) {
        (Some(text), _) => good(text),
        (None, ..=0) => {
            good("switches of own programs, and stacks of longer waits, read from outside (record --off-cpu)")
        }
        (None, 1) => note(
            "stacks can be read of commands that prof starts, but not of running processes (-p): kernel.yama.ptrace_scope is 1",
            vec![command("sudo sysctl kernel.yama.ptrace_scope=0"), everything],
        ),
        (None, 2) => limited(
            "switches of own programs, of blocked threads the stacks of page faults alone: kernel.yama.ptrace_scope is 2",
            vec![everything, command("sudo sysctl kernel.yama.ptrace_scope=1")],
        ),
        // Level 3 cannot be lowered until reboot.
        (None, scope) => limited(
            format!(
                "switches of own programs, of blocked threads the stacks of page faults alone: \
                 kernel.yama.ptrace_scope is {scope}"
            ),
            vec![everything],
        ),
    }
}
