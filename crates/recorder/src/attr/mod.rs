//! Makes the `perf_event_attr` of `perf_event_open(2)` from events and options.

use decoder::attr::{SIZE_NEWEST, SIZE_VER7, SIZE_VER8, TYPE_SOFTWARE};
use decoder::{Attr, AttrFlags, BranchSampleFormat, ReadFormat, SampleFormat};
use unwinder::Architecture;

use crate::event::{Event, Precision, Rate, is_bpf_output};
use crate::options::{CallChain, DEFAULT_FREQUENCY, Options, PrivilegeLevels, Target};

/// `PERF_COUNT_SW_CPU_CLOCK`
const CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_TASK_CLOCK`
const TASK_CLOCK: u64 = 1;
/// `PERF_COUNT_SW_DUMMY`: counts nothing.
const DUMMY: u64 = 9;

/// The fields that the records of all events carry, at the same offsets, so that a record can be assigned to an event, thread, time and
/// CPU without knowing its event's layout.
const COMMON: SampleFormat = SampleFormat::IDENTIFIER
    .union(SampleFormat::IP)
    .union(SampleFormat::TID)
    .union(SampleFormat::TIME)
    .union(SampleFormat::CPU);

/// Has a read of the sideband event return for how long it has been enabled, as the second word: it stops growing when the CPU goes
/// offline.
const ENABLED_TIME: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED;

/// The registers of `asm/perf_regs.h` that samples can carry.
const REGISTERS: u64 = if cfg!(target_arch = "x86_64") {
    0xff_0fff // without ds, es, fs, gs
} else if cfg!(target_arch = "aarch64") {
    0x1_ffff_ffff
} else {
    0
};

/// The last branches as a call stack: the calls that have not returned, without flags and cycles.
const CALL_STACK_BRANCHES: BranchSampleFormat = BranchSampleFormat::USER
    .union(BranchSampleFormat::CALL_STACK)
    .union(BranchSampleFormat::NO_CYCLES)
    .union(BranchSampleFormat::NO_FLAGS)
    .union(BranchSampleFormat::HW_INDEX);

/// Returns the attr of a sampling event. `copy` is the size of stack copies, `wakeup` the fill of the ring at which readers are woken,
/// both in bytes.
pub(crate) fn sampler(event: &Event, options: &Options, copy: u32, wakeup: u32) -> Attr {
    let rate = rate_of(event, options);
    let extras = &options.extras;
    let mut format = COMMON;
    format.set(SampleFormat::PERIOD, matches!(rate, Rate::Frequency(_)));
    let chain = options.call_chain_of(event);
    let chains = chain != CallChain::None;
    format.set(SampleFormat::CALLCHAIN, chains);
    format.set(
        SampleFormat::RAW,
        event.tracepoint.is_some() || is_bpf_output(&event.attr) || event.read_outside,
    );
    format.set(SampleFormat::READ, event.modifiers.sample_read);
    let mut read_format = ReadFormat::ID | ReadFormat::LOST;
    read_format.set(ReadFormat::GROUP, event.modifiers.sample_read);
    // The times tell at the end whether the event ever ran. In samples they would only need space.
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    read_format.set(times, !event.modifiers.sample_read);
    let mut stack = Attr::default();
    let user_chains = options.chain_levels != PrivilegeLevels::Kernel && !is_function_tracer(event);
    if let CallChain::Stacks { .. } = chain
        && user_chains
        && let Some(architecture) = stacks::native_architecture()
    {
        format |= SampleFormat::REGS_USER | SampleFormat::STACK_USER;
        let vectors = if host::machine::has_scalable_vectors() { architecture.vector_perf_mask() } else { 0 };
        let all = architecture.perf_mask() | vectors;
        stack.sample_regs_user = if event.read_outside { architecture.least_perf_mask() } else { all };
        stack.sample_stack_user = copy;
    }
    if chain == CallChain::FramePointers
        && user_chains
        && let Some(mask) = stacks::native_architecture().map(Architecture::leaf_perf_mask)
        && mask != 0
    {
        // Whoever reads the recording finds the callers of leaf functions by it, as perf does.
        format |= SampleFormat::REGS_USER;
        stack.sample_regs_user = mask;
    }
    if !extras.branches.is_empty() {
        format |= SampleFormat::BRANCH_STACK;
        stack.branch_sample_format = extras.branches;
    }
    if chain == CallChain::LastBranches && user_chains {
        format |= SampleFormat::BRANCH_STACK;
        stack.branch_sample_format = CALL_STACK_BRANCHES;
    }
    format.set(SampleFormat::ADDR, extras.data | extras.physical_data | extras.data_page_sizes);
    format.set(SampleFormat::DATA_PAGE_SIZE, extras.data_page_sizes);
    format.set(SampleFormat::CODE_PAGE_SIZE, extras.code_page_sizes);
    format.set(SampleFormat::PHYS_ADDR, extras.physical_data);
    format.set(SampleFormat::DATA_SRC, extras.data | extras.physical_data);
    format.set(SampleFormat::REGS_INTR, extras.registers);
    format.set(SampleFormat::WEIGHT, extras.weight);
    format.set(SampleFormat::CGROUP, extras.cgroups);
    let mut flags =
        event.modifiers.flags() | AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL | AttrFlags::WATERMARK;
    flags.set(AttrFlags::FREQ, matches!(rate, Rate::Frequency(_)));
    match options.levels {
        PrivilegeLevels::AsSelected => {}
        PrivilegeLevels::User => flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        PrivilegeLevels::Kernel => flags |= AttrFlags::EXCLUDE_USER,
    }
    flags.set(AttrFlags::USE_CLOCKID, options.clock.id().is_some());
    // An inherited probe would make the target's forks fail (`plan::scope`).
    let inherits = options.inherits() && event.probe.is_none();
    flags.set(AttrFlags::INHERIT, inherits);
    flags.set(AttrFlags::INHERIT_THREAD, inherits && options.threads_only);
    flags.set(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, chains && options.chain_levels == PrivilegeLevels::User);
    // The kernel refuses its function tracer with user stacks (perf_trace_event_perm()).
    let kernel_chains = options.chain_levels == PrivilegeLevels::Kernel || is_function_tracer(event);
    flags.set(AttrFlags::EXCLUDE_CALLCHAIN_USER, kernel_chains);
    match options.target {
        Target::Command => {
            // With a delay, the session enables the event later.
            flags.set(AttrFlags::ENABLE_ON_EXEC, options.delay.is_none());
        }
        Target::Processes(_) | Target::User(_) | Target::Threads(_) => {}
        // The CPU clock would sample idle CPUs, too.
        Target::System | Target::Cgroup(_) => {
            let clock = event.attr.kind == TYPE_SOFTWARE && event.attr.config == CPU_CLOCK;
            flags.set(AttrFlags::EXCLUDE_IDLE, clock | event.modifiers.exclude_idle);
        }
    }
    flags.set(AttrFlags::CONTEXT_SWITCH, event.records_switches);
    // Samples made of blocked threads have user space only. An event for the kernel, too, would be refused to most users.
    if event.read_outside {
        flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    }
    if event.everywhere {
        flags -= AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC | AttrFlags::DISABLED;
    }
    let (Rate::Frequency(period) | Rate::Period(period)) = rate;
    Attr {
        size: size_with(&event.attr),
        sample_period: period,
        sample_format: format,
        read_format,
        flags,
        precise_ip: match event.modifiers.precision {
            Precision::Any => 0,
            Precision::Level(level) => level,
            Precision::Highest => 3,
        },
        wakeup,
        sample_regs_user: stack.sample_regs_user,
        sample_stack_user: stack.sample_stack_user,
        branch_sample_format: stack.branch_sample_format,
        sample_max_stack: if chains { event.max_stack.or(options.max_stack).unwrap_or(0) } else { 0 },
        sample_regs_intr: if extras.registers { REGISTERS } else { 0 },
        clockid: options.clock.id().unwrap_or(0),
        ..event.attr.clone()
    }
}

/// Returns true if the event is ftrace's function tracer, which occurs at calls of kernel functions.
pub(crate) fn is_function_tracer(event: &Event) -> bool {
    event.tracepoint.as_ref().is_some_and(|(system, name)| system == "ftrace" && name == "function")
}

/// Returns the attr of a member of a group. The leader enables and schedules it. With `:S` the leader's samples carry the member's
/// count, and the member takes none.
pub(crate) fn member(sampler: Attr) -> Attr {
    let mut flags = sampler.flags - (AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC);
    let is_read = sampler.read_format.contains(ReadFormat::GROUP);
    flags.set(AttrFlags::FREQ, !is_read && sampler.is_frequency());
    Attr { flags, sample_period: if is_read { 0 } else { sampler.sample_period }, ..sampler }
}

/// Returns the smallest size of an attr with the event's config fields: a kernel refuses a larger attr than it knows, unless the rest is
/// 0.
pub(crate) fn size_with(event: &Attr) -> u32 {
    match (event.config3, event.config4) {
        (0, 0) => SIZE_VER7,
        (_, 0) => SIZE_VER8,
        _ => SIZE_NEWEST,
    }
}

/// Returns the attr of the sideband event, which reports mappings, names and threads, and is always enabled.
pub(crate) fn sideband(samplers: &[Attr], options: &Options, wakeup: u32) -> Attr {
    let mut flags = AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK
        | AttrFlags::KSYMBOL
        | AttrFlags::BPF_EVENT
        | AttrFlags::SAMPLE_ID_ALL
        | AttrFlags::EXCLUDE_GUEST
        | AttrFlags::WATERMARK;
    let inherits = !options.target.is_cpu_wide() && !options.per_thread;
    flags.set(AttrFlags::INHERIT, inherits);
    flags.set(AttrFlags::INHERIT_THREAD, inherits && options.threads_only);
    flags.set(AttrFlags::USE_CLOCKID, options.clock.id().is_some());
    flags.set(AttrFlags::MMAP_DATA, options.extras.data);
    flags.set(AttrFlags::CONTEXT_SWITCH, options.extras.switches);
    flags.set(AttrFlags::NAMESPACES, options.extras.namespaces);
    flags.set(AttrFlags::CGROUP, options.extras.cgroups);
    // A user who may not observe the kernel gets no event without these flags, even one that counts nothing.
    let user_only = samplers.iter().all(|attr| attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, user_only);
    if user_only {
        flags.remove(AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT);
    }
    Attr {
        sample_period: 1,
        sample_format: COMMON,
        read_format: if options.target.is_cpu_wide() { ENABLED_TIME } else { ReadFormat::empty() }
            | ReadFormat::ID
            | ReadFormat::LOST,
        flags,
        wakeup,
        clockid: options.clock.id().unwrap_or(0),
        ..dummy()
    }
}

/// Returns the attr of an event that counts nothing, which every kernel has and every user may open.
pub(crate) fn dummy() -> Attr {
    Attr { kind: TYPE_SOFTWARE, config: DUMMY, size: SIZE_VER7, ..Attr::default() }
}

/// Returns the attr of the clock that counts the CPU time of each followed task, and reports it in a READ record at the task's end.
pub(crate) fn task_clock(samplers: &[Attr], options: &Options) -> Attr {
    let sideband = sideband(samplers, options, 0);
    let kept = AttrFlags::SAMPLE_ID_ALL
        | AttrFlags::EXCLUDE_GUEST
        | AttrFlags::EXCLUDE_KERNEL
        | AttrFlags::EXCLUDE_HV
        | AttrFlags::USE_CLOCKID
        | AttrFlags::INHERIT_THREAD;
    let mut flags = sideband.flags.intersection(kept)
        | AttrFlags::DISABLED
        | AttrFlags::INHERIT
        | AttrFlags::INHERIT_STAT
        | AttrFlags::WATERMARK;
    let by_exec = options.target == Target::Command && options.delay.is_none();
    flags.set(AttrFlags::ENABLE_ON_EXEC, by_exec);
    // The event only counts, so it has no samples to lose: PERF_FORMAT_LOST, which kernels before 6.0 lack, is not needed.
    Attr { config: TASK_CLOCK, sample_period: 0, read_format: ReadFormat::ID, flags, ..sideband }
}

/// Returns the attr of an event that counts nothing and owns a ring for the records of events like `writer`.
pub(crate) fn ring_owner(writer: &Attr) -> Attr {
    Attr { kind: TYPE_SOFTWARE, config: DUMMY, config1: 0, config2: 0, sample_period: 1, ..writer.clone() }
}

/// Returns the rate at which an event samples.
pub(crate) fn rate_of(event: &Event, options: &Options) -> Rate {
    event.rate.or(options.rate).unwrap_or(if event.every_occurrence {
        Rate::Period(1)
    } else {
        Rate::Frequency(DEFAULT_FREQUENCY)
    })
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;

    fn samplers(list: &str) -> Vec<Attr> {
        let options = Options::new(Target::Command);
        select(list, &Vec::new()).unwrap().iter().map(|event| sampler(event, &options, 4096, 4096)).collect()
    }

    #[test]
    fn what_belongs_to_a_leader_is_not_its_members() {
        for modifiers in ["D", "e", "DeS"] {
            let asked = samplers(&format!("{{cpu-clock,page-faults}}:{modifiers}"));
            let leaders =
                AttrFlags::PINNED | AttrFlags::EXCLUSIVE | AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
            assert!(asked[0].flags.intersects(AttrFlags::PINNED | AttrFlags::EXCLUSIVE));
            let member = member(asked[1].clone());
            assert!(!member.flags.intersects(leaders), "{modifiers}");
            // With `:S` the leader alone samples.
            let samples = !modifiers.contains('S');
            assert_eq!((member.is_frequency(), member.sample_period > 0), (samples, samples));
        }
    }

    #[test]
    fn an_attr_is_as_long_as_what_it_counts_by() {
        let plain = Attr::default();
        assert_eq!(size_with(&plain), SIZE_VER7);
        assert_eq!(size_with(&Attr { config3: 1, ..plain.clone() }), SIZE_VER8);
        assert_eq!(size_with(&Attr { config4: 1, ..plain }), SIZE_NEWEST);
        let machine = vec![crate::event::Pmu {
            name: "cpu".to_owned(),
            kind: 4,
            formats: [("wide".to_owned(), "config3:0-63".to_owned())].into(),
            ..crate::event::Pmu::default()
        }];
        for text in ["cpu/config3=5/", "cpu/wide=5/"] {
            let event = select(text, &machine).unwrap().remove(0);
            let attr = sampler(&event, &Options::new(Target::Command), 4096, 4096);
            let bytes = attr.to_bytes(decoder::Endian::NATIVE);
            assert_eq!((bytes.len(), bytes[128]), (136, 5), "{text}");
        }
    }
}
