//! Collects facts about what this machine allows a profiler. `prof doctor` judges them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::BuildId;

use crate::machine::Distribution;
use crate::objects::{self, ObjectStore, SearchPaths};
use crate::process_memory;
use crate::procfs::{self, Status};
use crate::sys::limits::{self, Limit};
use crate::sys::perf_event::own_pid;
use crate::sys::system::{self, SystemName};
use crate::{machine, sysctl, sysfs, tracefs};

/// The kernel, limits, rights and devices of this machine that decide what can be recorded.
#[derive(Clone, Debug)]
pub struct Survey {
    /// `uname(2)`.
    pub system: SystemName,
    /// Number of online CPUs.
    pub cpus: usize,
    /// The effective user of this process.
    pub user: u32,
    /// Our capabilities and seccomp mode; `None` if `/proc` cannot be read.
    pub status: Option<Status>,
    /// True if we are in the initial user namespace. Capabilities of other namespaces do not permit perf events.
    pub initial_user_namespace: bool,
    /// The path of this program.
    pub program: PathBuf,
    /// The kernel's settings.
    pub settings: Settings,
    /// True if the NMI watchdog occupies a hardware counter of each CPU ([`machine::nmi_watchdog_counts`]).
    pub nmi_watchdog_counts: bool,
    /// `RLIMIT_NOFILE`.
    pub open_files: Limit,
    /// `RLIMIT_MEMLOCK`, in bytes.
    pub locked_memory: Limit,
    /// Size of main memory, in KiB.
    pub memory_kb: Option<u64>,
    /// The errno with which opening tracefs fails; `None` if it can be read.
    pub tracefs_errno: Option<i32>,
    /// True if `/proc/kallsyms` shows addresses to us.
    pub kernel_addresses: bool,
    /// The names of the PMUs of the CPU cores.
    pub core_pmus: Vec<String>,
    /// True if the CPU flags include `hypervisor`.
    pub virtual_machine: bool,
    /// True if `/proc` shows processes by the numbers that they have for us.
    pub shows_our_pids: bool,
    /// The kind of container that this process runs in (`docker`, `podman`, …).
    pub container: Option<String>,
    /// The family of the distribution.
    pub distribution: Distribution,
    /// The C library of this process; `None` if it is linked statically.
    pub libc: Option<LibraryDebug>,
}

/// The kernel's settings for profiling, as [`sysctl`] reads them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Settings {
    /// [`sysctl::perf_event_paranoid`].
    pub paranoid: Option<i32>,
    /// [`sysctl::perf_event_mlock_kb`].
    pub mlock_kb: Option<u64>,
    /// [`sysctl::perf_event_max_sample_rate`].
    pub max_sample_rate: Option<u64>,
    /// [`sysctl::perf_cpu_time_max_percent`].
    pub cpu_time_max_percent: Option<u32>,
    /// [`sysctl::perf_event_max_stack`].
    pub max_stack: Option<u16>,
    /// The maximum number of context markers in a stack ([`sysctl::perf_event_max_contexts_per_stack`]).
    pub max_contexts: Option<u16>,
    /// [`sysctl::kptr_restrict`].
    pub kptr_restrict: Option<i32>,
    /// [`sysctl::ptrace_scope`].
    pub ptrace_scope: Option<i32>,
}

impl Settings {
    /// Reads the settings of this kernel.
    pub fn read() -> Self {
        Self {
            paranoid: sysctl::perf_event_paranoid(),
            mlock_kb: sysctl::perf_event_mlock_kb(),
            max_sample_rate: sysctl::perf_event_max_sample_rate(),
            cpu_time_max_percent: sysctl::perf_cpu_time_max_percent(),
            max_stack: sysctl::perf_event_max_stack(),
            max_contexts: sysctl::perf_event_max_contexts_per_stack(),
            kptr_restrict: sysctl::kptr_restrict(),
            ptrace_scope: sysctl::ptrace_scope(),
        }
    }
}

/// A shared library and the file with its debug information.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryDebug {
    /// The path of the library.
    pub path: PathBuf,
    /// Its build id.
    pub build_id: Option<BuildId>,
    /// The file with its debug information: the library itself, or a separate file; `None` if there is none.
    pub debug: Option<PathBuf>,
}

/// Collects the facts about this machine.
pub fn survey() -> Survey {
    let pmus = sysfs::pmus(Path::new(sysfs::EVENT_SOURCES)).unwrap_or_default();
    let is_core = |pmu: &sysfs::PmuFiles| pmu.core || pmu.name == "cpu" || pmu.name.starts_with("armv");
    Survey {
        system: SystemName::read(),
        cpus: sysfs::online_cpus().map_or(1, |cpus| cpus.len()),
        user: system::effective_user(),
        status: procfs::own_status().ok(),
        initial_user_namespace: read("/proc/self/uid_map").is_none_or(|map| is_initial(&map)),
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("prof")),
        settings: Settings::read(),
        nmi_watchdog_counts: machine::nmi_watchdog_counts(),
        open_files: limits::open_files(),
        locked_memory: limits::locked_memory(),
        memory_kb: machine::total_memory_kb(),
        tracefs_errno: tracefs::folder().err().map(|error| error.raw_os_error().unwrap_or(libc::ENOENT)),
        kernel_addresses: machine::kernel_image().is_some(),
        core_pmus: pmus.into_iter().filter(is_core).map(|pmu| pmu.name).collect(),
        virtual_machine: read("/proc/cpuinfo").is_some_and(|text| has_hypervisor(&text)),
        shows_our_pids: system::shows_our_pids(),
        container: container(),
        distribution: machine::distribution(),
        libc: libc_debug().ok().flatten(),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns true if every user id is mapped to itself (user_namespaces(7)).
fn is_initial(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn has_hypervisor(cpuinfo: &str) -> bool {
    let first = cpuinfo.split("\n\n").next().unwrap_or_default();
    let flags = first.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Returns the kind of container that we run in, found as systemd-detect-virt(1) does without privileges.
fn container() -> Option<String> {
    if Path::new("/.dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_owned());
    }
    // systemd and LXC set this variable.
    let told = std::env::var("container").ok().or_else(|| read("/run/systemd/container"))?;
    Some(told.trim().to_owned()).filter(|kind| !kind.is_empty())
}

/// Finds the debug information of the C library of this process; `None` if it is linked statically.
fn libc_debug() -> io::Result<Option<LibraryDebug>> {
    let (maps, _) = process_memory::executable_maps(own_pid(), false)?;
    let is_libc = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
    };
    let paths = maps.iter().map(|map| PathBuf::from(String::from_utf8_lossy(&map.path).into_owned()));
    let Some(path) = paths.into_iter().find(|path| is_libc(path)) else { return Ok(None) };
    let object = objects::open_file(&path).map_err(|reason| io::Error::other(reason.to_string()))?;
    let store = ObjectStore::new(SearchPaths::from_environment(None, Vec::new(), true));
    let debug = if object.has_contents(".debug_info") {
        Some(path.clone())
    } else {
        store.debug_files(&object, &path).debug_path
    };
    Ok(Some(LibraryDebug { build_id: object.build_id(), path, debug }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_for_their_facts() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(has_hypervisor("processor\t: 0\nflags\t\t: fpu hypervisor lahf\n\nprocessor\t: 1\n"));
        assert!(!has_hypervisor("processor\t: 0\nflags\t\t: fpu\nmodel name\t: hypervisor\n"));
    }

    #[test]
    fn this_machine_can_be_surveyed() {
        let survey = survey();
        assert!(survey.cpus > 0 && !survey.program.as_os_str().is_empty());
        assert_eq!(survey.user, system::effective_user());
    }
}
