//! The kernel's settings for profiling under `/proc/sys/kernel`.

use std::fs;

/// `kernel.perf_event_paranoid`: 2 own user code only, 1 the kernel too, 0 whole CPUs too, −1 everything;
/// distributions add 3 and 4. `None`: this kernel has no perf events (or `/proc` is not mounted).
pub fn perf_event_paranoid() -> Option<i32> {
    read("perf_event_paranoid")
}

/// `kernel.yama.ptrace_scope`: 0 a user's processes may read each other, 1 only their descendants, 2 those with
/// CAP_SYS_PTRACE only, 3 nobody. `None` where the kernel has no such module: as 0.
pub fn ptrace_scope() -> Option<i32> {
    read("yama/ptrace_scope")
}

/// `kernel.perf_event_mlock_kb`: KiB of ring memory per user and CPU outside `RLIMIT_MEMLOCK`.
pub fn perf_event_mlock_kb() -> Option<u64> {
    read("perf_event_mlock_kb")
}

/// `kernel.perf_event_max_sample_rate`, in Hz; the kernel lowers it when sampling takes too much of its time.
pub fn perf_event_max_sample_rate() -> Option<u64> {
    read("perf_event_max_sample_rate")
}

/// `kernel.perf_cpu_time_max_percent`: how much of a CPU sampling may take before the kernel lowers
/// [`perf_event_max_sample_rate`]; 0 and 100 are no limit.
pub fn perf_cpu_time_max_percent() -> Option<u32> {
    read("perf_cpu_time_max_percent")
}

/// `kernel.perf_event_max_stack`: how many frames a call chain may have.
pub fn perf_event_max_stack() -> Option<u16> {
    read("perf_event_max_stack")
}

/// `kernel.perf_event_max_contexts_per_stack`: how many context markers a call chain may have beside its frames.
pub fn perf_event_max_contexts_per_stack() -> Option<u16> {
    read("perf_event_max_contexts_per_stack")
}

/// `kernel.kptr_restrict`: 0 addresses in kallsyms for those who may profile the kernel, 1 for root, 2 for nobody.
pub fn kptr_restrict() -> Option<i32> {
    read("kptr_restrict")
}

/// `kernel.nmi_watchdog`: 1 takes one hardware counter of each CPU.
pub fn nmi_watchdog() -> Option<i32> {
    read("nmi_watchdog")
}

fn read<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}
