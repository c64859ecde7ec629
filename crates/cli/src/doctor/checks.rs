//! The checks of `prof doctor`, one function each.

mod waits;

use host::procfs::Capability;
use host::survey::Survey;
use host::sysctl::DEFAULT_MAX_SAMPLE_RATE_HZ;
use recorder::EventSupport;

use super::{Facts, Finding, Level, Remedy};

/// Ring size per CPU below which a busy machine loses samples at the default rate.
const MIN_RING_BYTES: u64 = 512 << 10;
/// Number of threads that attaching to a process should support.
const MIN_ATTACHABLE_THREADS: u64 = 1000;

/// What a check says of its subject: how severe it is, in a sentence, and remedies.
type Verdict = (Level, String, Vec<Remedy>);

/// Runs all checks, in the order of the report.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let survey = &facts.survey;
    let mut verdicts = vec![("own programs", own_programs(facts))];
    if verdicts.iter().all(|(_, (level, ..))| *level != Level::Broken) {
        verdicts.extend([
            ("whole machine", whole_machine(facts)),
            ("hardware counters", counters(facts)),
            ("kernel functions", kernel_names(facts)),
            ("where threads wait", waits::waits(facts)),
            ("tracepoints", tracepoints(facts)),
            ("probes in programs", uprobes(facts)),
            ("ring memory", rings(survey)),
            ("sample rate", rate(survey)),
        ]);
    }
    verdicts.push(("open files", descriptors(survey)));
    let others = [
        ("debug information", debug_information(survey)),
        ("NMI watchdog", nmi_watchdog(facts)),
        ("processes", processes(survey)),
        ("container", container(survey)),
    ];
    verdicts.extend(others.into_iter().filter_map(|(what, verdict)| Some((what, verdict?))));
    let finding = |(what, (level, text, remedies))| Finding { level, what, text, remedies };
    verdicts.into_iter().map(finding).collect()
}

/// Says that nothing is missing.
fn good(text: impl Into<String>) -> Verdict {
    (Level::Good, text.into(), Vec::new())
}

/// Says what most recordings lack.
fn limited(text: impl Into<String>, remedies: Vec<Remedy>) -> Verdict {
    (Level::Limited, text.into(), remedies)
}

/// Remarks on something for `-v`.
fn note(text: impl Into<String>, remedies: Vec<Remedy>) -> Verdict {
    (Level::Note, text.into(), remedies)
}

fn command(text: impl Into<String>) -> Remedy {
    Remedy::Command(text.into())
}

fn has(survey: &Survey, capability: Capability) -> bool {
    survey.initial_user_namespace && survey.status.is_some_and(|status| status.has(capability))
}

/// Returns true if every perf event is permitted.
fn may_use_all_events(survey: &Survey) -> bool {
    has(survey, Capability::Perfmon) || has(survey, Capability::SysAdmin)
}

/// Returns ` (kernel.perf_event_paranoid is 2)`.
fn level_in_words(survey: &Survey) -> String {
    let paranoid = survey.settings.paranoid;
    paranoid.map_or_else(String::new, |level| format!(" (kernel.perf_event_paranoid is {level})"))
}

fn own_programs(facts: &Facts) -> Verdict {
    let survey = &facts.survey;
    match facts.offers.clock {
        EventSupport::Samples => good("user space and the kernel"),
        EventSupport::UserSpaceOnly => limited(
            format!("user space only, without the kernel{}", level_in_words(survey)),
            vec![
                Remedy::Capabilities(&[Capability::Perfmon]),
                command("sudo sysctl kernel.perf_event_paranoid=1"),
            ],
        ),
        refused => {
            let (text, remedies) = why_nothing(survey, refused);
            (Level::Broken, text, remedies)
        }
    }
}

/// Returns the reason why even the CPU clock cannot be opened, with remedies.
fn why_nothing(survey: &Survey, offer: EventSupport) -> (String, Vec<Remedy>) {
    let Some(paranoid) = survey.settings.paranoid else {
        let text = "this kernel has no perf events (CONFIG_PERF_EVENTS), or /proc is not mounted";
        return (text.to_owned(), vec![]);
    };
    let filtered = survey.status.is_some_and(|status| status.seccomp == 2);
    // Some distributions add levels above 2, which forbid everything. Otherwise a seccomp filter or a security module forbids it.
    if offer == EventSupport::Forbidden && paranoid > 2 && !has(survey, Capability::SysAdmin) {
        // The older patch asks for CAP_SYS_ADMIN, the newer one for CAP_PERFMON.
        let without = if has(survey, Capability::Perfmon) {
            "CAP_SYS_ADMIN, and CAP_PERFMON does not do"
        } else {
            "CAP_PERFMON, or with an older kernel CAP_SYS_ADMIN"
        };
        let text = format!(
            "nobody may record without {without}: kernel.perf_event_paranoid is {paranoid}, a level of this distribution's own"
        );
        return (
            text,
            vec![command("sudo sysctl kernel.perf_event_paranoid=2"), command("sudo prof record …")],
        );
    }
    if filtered {
        let kind = survey.container.as_deref();
        let of = kind.map_or_else(String::new, |kind| format!(" of this container ({kind})"));
        let remedy = match kind {
            Some(tool @ ("docker" | "podman")) => command(format!("{tool} run --cap-add PERFMON …")),
            Some("kubernetes") => Remedy::Advice(
                "in the pod's securityContext: capabilities: {add: [PERFMON]}, or seccompProfile: {type: Unconfined}"
                    .to_owned(),
            ),
            _ => Remedy::Advice("allow perf_event_open in the filter of the program that started this one".to_owned()),
        };
        return (format!("a seccomp filter{of} forbids perf_event_open"), vec![remedy]);
    }
    let text = match offer {
        EventSupport::Forbidden => "perf_event_open is forbidden, maybe by a security module".to_owned(),
        EventSupport::Refused(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            format!("perf_event_open fails: {}", recorder::Errno(&error))
        }
        _ => "this kernel does not support the event cpu-clock".to_owned(),
    };
    (text, vec![command("prof record -vv -e cpu-clock -- true")])
}

fn whole_machine(facts: &Facts) -> Verdict {
    let survey = &facts.survey;
    match facts.offers.whole_cpu {
        EventSupport::Samples if has(survey, Capability::SysPtrace) => {
            good("all CPUs (-a) and other users' processes")
        }
        EventSupport::Samples => limited(
            "all CPUs (-a), but mappings of other users' processes are hidden, so their functions have no names",
            vec![Remedy::Capabilities(&[Capability::SysPtrace])],
        ),
        _ => limited(
            format!("own processes only: no -a, no other users' processes{}", level_in_words(survey)),
            vec![
                Remedy::Capabilities(&[Capability::Perfmon, Capability::SysPtrace]),
                command("sudo sysctl kernel.perf_event_paranoid=0"),
            ],
        ),
    }
}

fn counters(facts: &Facts) -> Verdict {
    let survey = &facts.survey;
    match facts.offers.cycles {
        EventSupport::Samples | EventSupport::UserSpaceOnly => {
            let names = survey.core_pmus.join(", ");
            let text =
                if names.is_empty() { "cycles can be sampled".to_owned() } else { format!("PMU {names}") };
            good(text)
        }
        EventSupport::Absent if survey.virtual_machine => limited(
            "none: this virtual machine has no PMU, so cpu-clock is sampled instead of cycles",
            vec![Remedy::Advice(
                "enable the PMU of the virtual machine on the host (QEMU: -cpu host,pmu=on)".to_owned(),
            )],
        ),
        EventSupport::Absent => limited(
            "none: the kernel does not support the PMU of this processor, so cpu-clock is sampled instead of cycles",
            vec![],
        ),
        EventSupport::Forbidden => limited("not permitted, but cpu-clock is", vec![]),
        EventSupport::CountsOnly => {
            limited("can count, but not sample (no interrupt), so cpu-clock is sampled", vec![])
        }
        EventSupport::Refused(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            limited(format!("refused: {}", recorder::Errno(&error)), vec![])
        }
    }
}

fn kernel_names(facts: &Facts) -> Verdict {
    let survey = &facts.survey;
    if survey.kernel_addresses {
        return good("have names");
    }
    let restrict = survey.settings.kptr_restrict.unwrap_or(0);
    // At 0, kallsyms shows addresses to those who may profile the kernel (`kallsyms_show_value()`).
    let cause = match (restrict, survey.settings.paranoid) {
        (..=0, Some(2..)) => level_in_words(survey),
        _ => format!(" (kernel.kptr_restrict is {restrict})"),
    };
    let text = format!("have no names: their addresses are hidden{cause}");
    let syslog = has(survey, Capability::Syslog);
    let remedies = match restrict {
        // 2 hides addresses from everybody, 1 from users without CAP_SYSLOG.
        2.. if syslog => vec![command("sudo sysctl kernel.kptr_restrict=1")],
        2.. => {
            vec![command("sudo sysctl kernel.kptr_restrict=1"), Remedy::Capabilities(&[Capability::Syslog])]
        }
        1 => vec![Remedy::Capabilities(&[Capability::Syslog])],
        _ => vec![
            Remedy::Capabilities(&[Capability::Syslog]),
            command("sudo sysctl kernel.perf_event_paranoid=1"),
        ],
    };
    limited(text, remedies)
}

/// `ENOENT`
const ENOENT: i32 = 2;

fn tracepoints(facts: &Facts) -> Verdict {
    let readable = "sudo mount -o remount,mode=755 /sys/kernel/tracing";
    match (facts.survey.tracefs_errno, facts.offers.tracepoint) {
        (None, Some(EventSupport::Samples | EventSupport::UserSpaceOnly)) => good("can be sampled"),
        (None, None) => note("this kernel has none", vec![]),
        (None, Some(_)) => note(
            format!("not permitted for this user{}", level_in_words(&facts.survey)),
            vec![
                Remedy::Capabilities(&[Capability::Perfmon]),
                command("sudo sysctl kernel.perf_event_paranoid=-1"),
            ],
        ),
        (Some(ENOENT), _) => note(
            "cannot be used by name: tracefs is not mounted",
            vec![command("sudo mount -t tracefs nodev /sys/kernel/tracing")],
        ),
        (Some(_), _) => note(
            "cannot be used by name: only root can read /sys/kernel/tracing",
            vec![command(readable), Remedy::Capabilities(&[Capability::Perfmon])],
        ),
    }
}

fn uprobes(facts: &Facts) -> Verdict {
    match facts.offers.uprobe {
        Some(EventSupport::Samples | EventSupport::UserSpaceOnly) => good("can be set (uprobe:…)"),
        None => note("this kernel has none (CONFIG_UPROBE_EVENTS)", vec![]),
        Some(_) => note(
            "need CAP_SYS_ADMIN on this kernel",
            vec![command("sudo prof record -e uprobe:PATH:SYMBOL …")],
        ),
    }
}

/// Returns how much ring memory per CPU this user may map, in bytes: `perf_event_mlock_kb` plus a share of `RLIMIT_MEMLOCK`. `None`
/// if there is no limit.
fn ring_limit(survey: &Survey) -> Option<u64> {
    let settings = &survey.settings;
    if has(survey, Capability::IpcLock) || settings.paranoid.is_some_and(|level| level < 0) {
        return None;
    }
    if survey.locked_memory.current == u64::MAX {
        return None;
    }
    let allowance = settings.mlock_kb.unwrap_or(0).saturating_mul(1024);
    Some(allowance.saturating_add(survey.locked_memory.current / survey.cpus.max(1) as u64))
}

fn rings(survey: &Survey) -> Verdict {
    let samples = recorder::default_ring_bytes(survey.memory_kb, survey.cpus);
    let wanted = samples + recorder::SIDEBAND_SIZE;
    match ring_limit(survey) {
        Some(limit) if limit < wanted => {
            let level = if limit < MIN_RING_BYTES { Level::Limited } else { Level::Note };
            let text = format!(
                "{} KiB per CPU are allowed instead of {} KiB: at high rates samples may be lost",
                limit / 1024,
                wanted / 1024
            );
            let sysctl =
                format!("sudo sysctl kernel.perf_event_mlock_kb={}", recorder::mlock_kb_for(samples));
            (level, text, vec![Remedy::Capabilities(&[Capability::IpcLock]), command(sysctl)])
        }
        _ => good(format!("{} KiB per CPU", wanted / 1024)),
    }
}

fn rate(survey: &Survey) -> Verdict {
    let settings = &survey.settings;
    let Some(most) = settings.max_sample_rate else {
        return note("the kernel has no limit", vec![]);
    };
    let share = settings.cpu_time_max_percent.filter(|percent| (1..100).contains(percent));
    let share = share.map_or_else(String::new, |percent| format!(", and {percent} % of a CPU's time"));
    let text = format!("up to {most} Hz{share}");
    if most >= recorder::DEFAULT_FREQUENCY {
        return good(text);
    }
    let text = format!("{text}: less than the default of {} Hz", recorder::DEFAULT_FREQUENCY);
    limited(
        text,
        vec![command(format!("sudo sysctl kernel.perf_event_max_sample_rate={DEFAULT_MAX_SAMPLE_RATE_HZ}"))],
    )
}

fn descriptors(survey: &Survey) -> Verdict {
    let most = survey.open_files.maximum;
    let threads = recorder::attachable_threads(most, survey.cpus);
    if most == u64::MAX || threads >= MIN_ATTACHABLE_THREADS {
        return good("enough to attach to thousands of threads");
    }
    let wanted = recorder::descriptors_for(MIN_ATTACHABLE_THREADS, survey.cpus);
    let text = format!("{most} are allowed: enough to attach to {threads} threads with one event");
    let level = if threads < 50 { Level::Limited } else { Level::Note };
    (level, text, vec![command(format!("sudo prlimit --pid $$ --nofile={wanted}"))])
}

fn debug_information(survey: &Survey) -> Option<Verdict> {
    let library = survey.libc.as_ref()?;
    let path = library.path.display();
    if let Some(debug) = &library.debug {
        let text = format!("of {path} is in {}", debug.display());
        return Some(good(text));
    }
    let install = survey.distribution.libc_debug_command().map(|install| command(format!("sudo {install}")));
    let text = format!("of {path} is missing: its internal and inlined functions have no names");
    Some(limited(text, install.into_iter().collect()))
}

fn nmi_watchdog(facts: &Facts) -> Option<Verdict> {
    let counters = matches!(facts.offers.cycles, EventSupport::Samples | EventSupport::UserSpaceOnly);
    if !counters || !facts.survey.nmi_watchdog_counts {
        return None;
    }
    let text = "occupies one hardware counter of each CPU: groups that need all counters never run";
    Some(note(text, vec![command("sudo sysctl kernel.nmi_watchdog=0")]))
}

fn processes(survey: &Survey) -> Option<Verdict> {
    let text = "/proc shows those of another pid namespace: nothing is read of a process there, and -p and -t are refused";
    let remedies =
        vec![command("unshare --pid --fork --mount-proc …"), command("sudo mount -t proc proc /proc")];
    (!survey.shows_our_pids).then(|| limited(text, remedies))
}

fn container(survey: &Survey) -> Option<Verdict> {
    if !survey.initial_user_namespace {
        let text = "in a user namespace of its own, whose root has no privileges for perf events";
        return Some(note(text, vec![]));
    }
    let kind = survey.container.as_deref()?;
    let text =
        format!("{kind}: -a records the whole host; files of other containers are found while they run");
    Some(note(text, vec![]))
}

#[cfg(test)]
mod tests;
