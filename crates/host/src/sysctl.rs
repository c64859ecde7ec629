//! Reads the kernel's settings for profiling from `/proc/sys/kernel`.

use std::fs;
use std::path::{Path, PathBuf};

/// `kernel.perf_event_paranoid`: 2 allows own user code only, 1 the kernel too, 0 whole CPUs too, −1 everything. Distributions
/// add 3 and 4, which allow nothing. `None` if the kernel has no perf events, or `/proc` is not mounted.
pub fn perf_event_paranoid() -> Option<i32> {
    read("perf_event_paranoid")
}

/// Returns true if the kernel has perf events: it then has [`perf_event_paranoid`] (perf_event_open(2)). Takes no file descriptor, so
/// that too many open files are not taken for another kernel. False if `/proc` is not mounted.
pub fn has_perf_events() -> bool {
    path("perf_event_paranoid").exists()
}

/// `kernel.yama.ptrace_scope`: with 0 a process may read all processes of its user, with 1 its descendants, with 2 it needs
/// `CAP_SYS_PTRACE`, and 3 forbids it. `None` if the kernel lacks the module, which means 0.
pub fn ptrace_scope() -> Option<i32> {
    read("yama/ptrace_scope")
}

/// `kernel.perf_event_mlock_kb`: KiB of ring memory that a user gets per CPU in addition to `RLIMIT_MEMLOCK`.
pub fn perf_event_mlock_kb() -> Option<u64> {
    read("perf_event_mlock_kb")
}

/// The kernel's default of [`perf_event_max_sample_rate`], in Hz (kernel/events/core.c).
pub const DEFAULT_MAX_SAMPLE_RATE_HZ: u64 = 100_000;

/// `kernel.perf_event_max_sample_rate`, in Hz. The kernel lowers it when sampling takes too much CPU time.
pub fn perf_event_max_sample_rate() -> Option<u64> {
    read("perf_event_max_sample_rate")
}

/// `kernel.perf_cpu_time_max_percent`: the share of a CPU that sampling may take before the kernel lowers
/// [`perf_event_max_sample_rate`]; 0 and 100 mean no limit.
pub fn perf_cpu_time_max_percent() -> Option<u32> {
    read("perf_cpu_time_max_percent")
}

/// `kernel.perf_event_max_stack`: maximum number of frames in a call chain.
pub fn perf_event_max_stack() -> Option<u16> {
    read("perf_event_max_stack")
}

/// `kernel.perf_event_max_contexts_per_stack`: maximum number of context markers in a call chain, in addition to its frames.
pub fn perf_event_max_contexts_per_stack() -> Option<u16> {
    read("perf_event_max_contexts_per_stack")
}

/// `kernel.kptr_restrict`: with 0, kallsyms shows addresses to whoever may profile the kernel, with 1 to holders of `CAP_SYSLOG`,
/// with 2 to nobody.
pub fn kptr_restrict() -> Option<i32> {
    read("kptr_restrict")
}

/// `kernel.nmi_watchdog`: 1 if the watchdog occupies a hardware counter on each CPU.
pub fn nmi_watchdog() -> Option<i32> {
    read("nmi_watchdog")
}

fn read<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(path(name)).ok()?.trim().parse().ok()
}

fn path(name: &str) -> PathBuf {
    Path::new("/proc/sys/kernel").join(name)
}
