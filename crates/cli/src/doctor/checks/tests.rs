//! Machines that we do not have.

use std::ffi::OsString;
use std::path::PathBuf;

use host::procfs::Status;
use host::survey::{LibraryDebug, Settings};
use host::sys::limits::Limit;
use host::sys::system::SystemName;
use model::Pid;

use super::*;
use crate::doctor::{Offers, can_record, report};

/// A user on a laptop with Debian, as it is installed, but for `perf_event_paranoid`.
fn laptop(paranoid: i32) -> Facts {
    let status = Status {
        process: Pid(2),
        parent: Pid(1),
        user: 1000,
        creator: 1000,
        own_number: Pid(2),
        state: b'R',
        effective_capabilities: 0,
        effective_user: 1000,
        effective_group: 1000,
        caught_signals: 0,
        seccomp: 0,
    };
    let survey = Survey {
        system: SystemName {
            host: OsString::from("laptop"),
            release: OsString::from("6.1.0-18-amd64"),
            machine: OsString::from("x86_64"),
        },
        cpus: 8,
        user: 1000,
        status: Some(status),
        initial_user_namespace: true,
        program: PathBuf::from("/home/me/bin/prof"),
        settings: Settings {
            paranoid: Some(paranoid),
            mlock_kb: Some(516),
            max_sample_rate: Some(100_000),
            cpu_time_max_percent: Some(25),
            max_stack: Some(127),
            max_contexts: Some(8),
            kptr_restrict: Some(0),
            ptrace_scope: Some(0),
        },
        nmi_watchdog_counts: true,
        open_files: Limit { current: 1024, maximum: 1 << 20 },
        locked_memory: Limit { current: 8 << 20, maximum: 8 << 20 },
        memory_kb: Some(16 << 20),
        tracefs_errno: Some(13),
        kernel_addresses: false,
        core_pmus: vec!["cpu".to_owned()],
        virtual_machine: false,
        shows_our_pids: true,
        container: None,
        distribution: host::machine::Distribution::Debian,
        libc: Some(LibraryDebug { path: PathBuf::from("/lib/libc.so.6"), build_id: None, debug: None }),
    };
    let own = if paranoid > 2 { EventSupport::Forbidden } else { EventSupport::UserSpaceOnly };
    let own = if paranoid < 2 { EventSupport::Samples } else { own };
    let whole = if paranoid < 1 { EventSupport::Samples } else { EventSupport::Forbidden };
    let offers = Offers {
        clock: own,
        cycles: own,
        whole_cpu: whole,
        tracepoint: None,
        uprobe: Some(EventSupport::Forbidden),
    };
    Facts { survey, offers }
}

/// The same as root.
fn root() -> Facts {
    let mut facts = laptop(2);
    facts.survey.user = 0;
    facts.survey.status =
        facts.survey.status.map(|status| Status { effective_capabilities: u64::MAX, ..status });
    facts.survey.tracefs_errno = None;
    facts.survey.kernel_addresses = true;
    let all = EventSupport::Samples;
    facts.offers =
        Offers { clock: all, cycles: all, whole_cpu: all, tracepoint: Some(all), uprobe: Some(all) };
    facts
}

fn found(facts: &Facts, what: &str) -> Finding {
    let all = findings(facts);
    all.into_iter().find(|finding| finding.what == what).unwrap_or_else(|| panic!("no finding of {what}"))
}

fn tells(facts: &Facts) -> String {
    report(facts, &findings(facts), false)
}

#[test]
fn a_user_learns_the_least_that_is_enough() {
    let facts = laptop(2);
    let text = tells(&facts);
    assert!(can_record(&findings(&facts)));
    assert!(
        text.contains("sudo setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep /home/me/bin/prof"),
        "{text}"
    );
    assert!(text.contains("sudo sysctl kernel.perf_event_paranoid=1"), "{text}");
    assert!(text.contains("sudo apt-get install libc6-dbg"), "{text}");
    assert!(text.lines().count() < 20, "calm: {text}");
}

#[test]
fn each_level_of_paranoia_opens_more() {
    let levels = |paranoid| {
        let facts = laptop(paranoid);
        findings(&facts).iter().take(2).map(|finding| finding.level).collect::<Vec<_>>()
    };
    use Level::{Broken, Good, Limited};
    assert_eq!(levels(4)[0], Broken);
    assert_eq!(levels(2), [Limited, Limited]);
    assert_eq!(levels(1), [Good, Limited]);
    assert_eq!(levels(-1), [Good, Limited]);
    // What is left at -1 are other users' mappings.
    assert_eq!(
        found(&laptop(-1), "whole machine").remedies,
        [Remedy::Capabilities(&[Capability::SysPtrace])]
    );
    assert_eq!(found(&laptop(-1), "ring memory").level, Good);
}

#[test]
fn nothing_at_all_has_a_reason_and_a_command() {
    let facts = laptop(4);
    assert!(!can_record(&findings(&facts)));
    let text = tells(&facts);
    assert!(text.contains("perf_event_paranoid is 4") && text.contains("perf_event_paranoid=2"), "{text}");
    assert!(!text.contains("setcap cap_perfmon"), "it may not do at this level: {text}");
    assert!(text.contains("without CAP_PERFMON, or with an older kernel CAP_SYS_ADMIN"), "{text}");
    assert!(text.contains("CAP_SYS_ADMIN") && text.contains("sudo prof record"), "{text}");
    let mut with_perfmon = laptop(3);
    let status = with_perfmon.survey.status.unwrap();
    with_perfmon.survey.status = Some(Status { effective_capabilities: 1 << 38, ..status });
    let text = tells(&with_perfmon);
    assert!(text.contains("CAP_PERFMON does not do"), "{text}");

    let mut contained = root();
    contained.offers.clock = EventSupport::Forbidden;
    contained.survey.container = Some("docker".to_owned());
    contained.survey.status = contained.survey.status.map(|status| Status { seccomp: 2, ..status });
    let text = tells(&contained);
    assert!(text.contains("seccomp filter of this container (docker)"), "{text}");
    assert!(text.contains("docker run --cap-add PERFMON"), "{text}");

    let mut without = laptop(2);
    without.survey.settings.paranoid = None;
    without.offers.clock = EventSupport::Refused(38);
    assert!(tells(&without).contains("CONFIG_PERF_EVENTS"));
}

#[test]
fn root_is_told_that_all_is_well() {
    let facts = root();
    for finding in findings(&facts) {
        let expected = match finding.what {
            "debug information" => Level::Limited,
            "NMI watchdog" => Level::Note,
            _ => Level::Good,
        };
        assert_eq!(finding.level, expected, "{finding:?}");
    }
    assert!(!tells(&facts).contains("setcap"));
    assert!(tells(&facts).contains("1 more note"));
}

#[test]
fn root_of_a_user_namespace_is_not_root() {
    let mut facts = laptop(4);
    facts.survey.status = root().survey.status;
    facts.survey.initial_user_namespace = false;
    assert!(found(&facts, "own programs").text.contains("perf_event_paranoid is 4"));
    assert!(found(&facts, "container").text.contains("user namespace"));
}

#[test]
fn hidden_kernel_addresses() {
    let mut facts = root();
    facts.survey.kernel_addresses = false;
    facts.survey.settings.kptr_restrict = Some(2);
    let names = found(&facts, "kernel functions");
    assert_eq!(names.remedies, [Remedy::Command("sudo sysctl kernel.kptr_restrict=1".to_owned())]);
    facts.survey.settings.kptr_restrict = Some(1);
    facts.survey.status = laptop(2).survey.status;
    let names = found(&facts, "kernel functions");
    assert_eq!(names.remedies, [Remedy::Capabilities(&[Capability::Syslog])]);
    assert!(names.text.contains("kernel.kptr_restrict is 1"), "{}", names.text);
    // What hides them is not kptr_restrict, which is 0.
    facts.survey.settings.kptr_restrict = Some(0);
    let names = found(&facts, "kernel functions");
    assert!(
        names.text.contains("perf_event_paranoid is 2") && !names.text.contains("kptr_restrict"),
        "{}",
        names.text
    );
    assert!(names.remedies.contains(&Remedy::Command("sudo sysctl kernel.perf_event_paranoid=1".to_owned())));
}

#[test]
fn machines_without_counters() {
    let mut facts = root();
    facts.offers.cycles = EventSupport::Absent;
    facts.survey.virtual_machine = true;
    assert!(found(&facts, "hardware counters").text.contains("virtual machine"));
    assert!(findings(&facts).iter().all(|finding| finding.what != "NMI watchdog"));
    facts.survey.virtual_machine = false;
    assert!(found(&facts, "hardware counters").text.contains("this processor"));
}

#[test]
fn limits_are_held_against_what_a_recording_takes() {
    let mut facts = laptop(2);
    // 516 KiB + 8 MiB / 8 CPUs.
    assert_eq!(found(&facts, "ring memory").level, Level::Note);
    facts.survey.settings.mlock_kb = Some(0);
    facts.survey.locked_memory = Limit { current: 64 << 10, maximum: 64 << 10 };
    let rings = found(&facts, "ring memory");
    assert_eq!(rings.level, Level::Limited);
    assert!(
        rings.remedies.contains(&Remedy::Command("sudo sysctl kernel.perf_event_mlock_kb=16512".to_owned()))
    );
    facts.survey.settings.max_sample_rate = Some(500);
    assert_eq!(found(&facts, "sample rate").level, Level::Limited);
    facts.survey.open_files = Limit { current: 256, maximum: 512 };
    assert_eq!(found(&facts, "open files").level, Level::Limited);
    assert!(found(&facts, "open files").text.contains("28 threads"));
}

#[test]
fn tracefs_is_roots_or_not_mounted() {
    let mut facts = laptop(1);
    assert!(
        found(&facts, "tracepoints")
            .remedies
            .contains(&Remedy::Command("sudo mount -o remount,mode=755 /sys/kernel/tracing".to_owned()))
    );
    facts.survey.tracefs_errno = Some(2);
    assert!(found(&facts, "tracepoints").text.contains("not mounted"));
}

#[test]
fn who_may_not_read_stacks_of_waits_is_told_which_setting_is_the_cause() {
    let waits = |facts: &Facts| {
        findings(facts).into_iter().find(|finding| finding.what == "where threads wait").unwrap()
    };
    let mut facts = laptop(2);
    assert_eq!(waits(&facts).level, Level::Good);
    facts.survey.settings.ptrace_scope = None;
    assert_eq!(waits(&facts).level, Level::Good);
    for (scope, level) in [(1, Level::Note), (2, Level::Limited), (3, Level::Limited)] {
        facts.survey.settings.ptrace_scope = Some(scope);
        let found = waits(&facts);
        assert_eq!(found.level, level);
        assert!(found.text.ends_with(&format!("kernel.yama.ptrace_scope is {scope}")), "{}", found.text);
        assert!(found.remedies.contains(&Remedy::Capabilities(&[Capability::Perfmon])));
    }
    // 3 cannot be taken back.
    assert_eq!(waits(&facts).remedies.len(), 1);
    facts.survey.settings.paranoid = Some(1);
    assert_eq!(waits(&facts).level, Level::Good);
    let mut admin = root();
    admin.survey.settings.ptrace_scope = Some(3);
    assert_eq!(waits(&admin).level, Level::Good);
}
