//! Which attr an event gets: leaves out of it, step by step, what the kernel or the machine does not have, or the user has no right to.

use std::io;

use decoder::{Attr, AttrFlags, BranchSampleFormat, ReadFormat, SampleFormat};
use unwinder::Architecture;

use super::Stop;
use super::facts::{Answer, Facts, Question, Site};
use crate::error::{E2BIG, EACCES, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM};
use crate::options::Clock;

/// Something that was left out of an event, or put in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fallback {
    /// A feature that the kernel does not know was left out.
    Without(&'static str),
    /// A part to which the user has no right was left out.
    Forbidden(&'static str),
    /// The kernel was left out: the user may not observe it.
    UserSpaceOnly,
    /// Threads and processes that the target starts do not inherit the event.
    NotInherited,
    /// The machine has no such counter: the clock is recorded instead.
    Clock,
    /// The processor records no branches: call chains come from frame pointers instead.
    FramePointers,
}

/// A part of an attr that only newer kernels know.
enum AttrPart {
    Flag(AttrFlags),
    Sample(SampleFormat),
    Read(ReadFormat),
    Branch(BranchSampleFormat),
    MaxStack,
}

/// The parts of an attr that only newer kernels know, newest first: they are left out one after the other until an older kernel
/// accepts the attr.
const NEWEST: [(AttrPart, &str); 14] = [
    (AttrPart::Read(ReadFormat::LOST), "PERF_FORMAT_LOST (6.0)"),
    (AttrPart::Sample(SampleFormat::DATA_PAGE_SIZE), "the page sizes of data (5.11)"),
    (AttrPart::Sample(SampleFormat::CODE_PAGE_SIZE), "the page sizes of code (5.11)"),
    (AttrPart::Branch(BranchSampleFormat::HW_INDEX), "the index of the newest branch (5.7)"),
    (AttrPart::Flag(AttrFlags::CGROUP), "CGROUP records (5.7)"),
    (AttrPart::Sample(SampleFormat::CGROUP), "the cgroups of samples (5.7)"),
    (AttrPart::Flag(AttrFlags::BPF_EVENT), "BPF_EVENT records (5.1)"),
    (AttrPart::Flag(AttrFlags::KSYMBOL), "KSYMBOL records (5.1)"),
    (AttrPart::Sample(SampleFormat::PHYS_ADDR), "physical addresses (4.14)"),
    (AttrPart::Flag(AttrFlags::NAMESPACES), "NAMESPACES records (4.12)"),
    (AttrPart::MaxStack, "limits of call chains (4.8)"),
    (AttrPart::Flag(AttrFlags::CONTEXT_SWITCH), "SWITCH records (4.3)"),
    (AttrPart::Flag(AttrFlags::COMM_EXEC), "exec told apart in COMM (3.16)"),
    (AttrPart::Flag(AttrFlags::MMAP2), "MMAP2 records (3.16)"),
];

/// Parts that users may have at no level of `perf_event_paranoid`, or only at the lowest (`perf_event_open(2)`, "namespaces";
/// `perf_trace_event_perm` in kernel/trace/trace_event_perf.c).
const NEVER_FOR_USERS: [(AttrPart, &str); 2] = [
    (AttrPart::Flag(AttrFlags::NAMESPACES), "the namespaces of processes"),
    (AttrPart::Sample(SampleFormat::RAW), "the fields of tracepoints"),
];
/// The part that only users get who may observe the kernel.
const WITH_THE_KERNEL: (AttrPart, &str) = (AttrPart::Sample(SampleFormat::PHYS_ADDR), "physical addresses");

impl AttrPart {
    /// Removes the part from `attr`. Returns false where it was not there.
    fn remove_from(&self, attr: &mut Attr) -> bool {
        let before = attr.clone();
        match *self {
            Self::Flag(flag) => attr.flags.remove(flag),
            Self::Sample(bit) => attr.sample_format.remove(bit),
            Self::Read(bit) => attr.read_format.remove(bit),
            Self::Branch(bit) => attr.branch_sample_format.remove(bit),
            Self::MaxStack => attr.sample_max_stack = 0,
        }
        *attr != before
    }
}

/// The reason why an event is not opened.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The error of `perf_event_open(2)`.
    pub(crate) errno: io::Error,
    /// The attr that was refused.
    pub(crate) attr: Box<Attr>,
}

/// Returns `attr`, or what is left of it after fallbacks, as the kernel accepts it at `site` by what it has said so far; with the
/// fallbacks to report. `clock` is the event to fall back to where the machine has no such counter.
/// Where nothing helps, returns the refusal that explains best why: the first one, unless that was about rights, or the last one has a
/// cause that no fallback is for.
///
/// # Errors
/// [`Stop::Ask`] where the kernel has to be asked first.
pub(crate) fn negotiate(
    mut attr: Attr,
    clock: Option<&Attr>,
    site: Site,
    facts: &Facts,
) -> Result<Result<(Attr, Vec<Fallback>), Refusal>, Stop> {
    let answer = |attr: &Attr| facts.answer_to(Question::Opens(attr.clone(), site));
    let mut fallbacks = Vec::new();
    let mut first = None;
    loop {
        exclude_kernel_from_chains(&mut attr);
        let Err(code) = answer(&attr)? else { return Ok(Ok((attr, fallbacks))) };
        let refusal = Refusal { errno: io::Error::from_raw_os_error(code), attr: Box::new(attr.clone()) };
        // None: no fallback is left. Some(None): one that is not reported.
        let fallback = match code {
            EACCES | EPERM => remove_first(NEVER_FOR_USERS, &mut attr, Fallback::Forbidden)
                .or_else(|| exclude_kernel(&mut attr))
                .or_else(|| remove_first([WITH_THE_KERNEL], &mut attr, Fallback::Forbidden)),
            EINVAL | EOPNOTSUPP if remove_vector_length(&mut attr) => Some(None),
            EINVAL | E2BIG => remove_clock_id(&mut attr, answer)?
                .or_else(|| remove_newest_part(&mut attr))
                .or_else(|| use_frame_pointers(&mut attr))
                .or_else(|| lower_precision(&mut attr))
                .or_else(|| remove_pmu(&mut attr)),
            EOPNOTSUPP if attr.sample_format.contains(SampleFormat::BRANCH_STACK) => {
                use_frame_pointers(&mut attr).or_else(|| lower_precision(&mut attr))
            }
            ENOENT | EOPNOTSUPP | ENODEV => lower_precision(&mut attr)
                .or_else(|| remove_pmu(&mut attr))
                .or_else(|| use_clock(&mut attr, clock)),
            _ => None,
        };
        match fallback {
            Some(Some(fallback)) => fallbacks.push(fallback),
            Some(None) => {}
            None => {
                let may_mislead = matches!(code, EINVAL | E2BIG | ENOENT | EOPNOTSUPP | ENODEV);
                return Ok(Err(first.filter(|_| may_mislead).unwrap_or(refusal)));
            }
        }
        // The first refusal names the cause: later ones are about a reduced attr, and could mislead. There are two exceptions,
        // where the next refusal is the one to report: if rights are missing, because the reduced attr is one that users may
        // open; and if no fallback exists, such as for chains that are too long or breakpoints that are in use.
        if !matches!(fallback, Some(Some(Fallback::UserSpaceOnly | Fallback::Forbidden(_)))) {
            first.get_or_insert(refusal);
        }
    }
}

/// Removes the first of `parts` that `attr` has, and reports it.
fn remove_first(
    parts: impl IntoIterator<Item = (AttrPart, &'static str)>,
    attr: &mut Attr,
    report: fn(&'static str) -> Fallback,
) -> Option<Option<Fallback>> {
    let (_, name) = parts.into_iter().find(|(part, _)| part.remove_from(attr))?;
    Some(Some(report(name)))
}

fn exclude_kernel(attr: &mut Attr) -> Option<Option<Fallback>> {
    // Where only the kernel was asked for, there is nothing left to record.
    if attr.is_kernel_breakpoint()
        || attr.flags.intersects(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_USER)
    {
        return None;
    }
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    Some(Some(Fallback::UserSpaceOnly))
}

/// Excludes the kernel from the call chains of an event that excludes it, whoever decided that: its samples have no kernel frames either
/// way, but kernels from 6.12.117, 7.2.12 and 7.3.4 on give chains that could have some only to those who may observe the kernel
/// (EACCES).
fn exclude_kernel_from_chains(attr: &mut Attr) {
    let chains = attr.sample_format.contains(SampleFormat::CALLCHAIN);
    if chains && attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
        attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
    }
}

/// Removes the length of SVE vectors from the registers, without a notice: the usual length stands in for it. Kernels before Linux 6.1 do not
/// know it (EINVAL), and events that no PMU counts do not have it (EOPNOTSUPP; `PERF_PMU_CAP_EXTENDED_REGS` in kernel/events/core.c).
/// Returns false where it was not asked for.
fn remove_vector_length(attr: &mut Attr) -> bool {
    let mask = Architecture::Aarch64.vector_perf_mask();
    let was_asked = attr.sample_regs_user & mask != 0;
    if was_asked {
        attr.sample_regs_user &= !mask;
    }
    was_asked
}

/// Removes CLOCK_MONOTONIC, where the kernel does not know it (before Linux 4.1, timestamps are on the kernel's own clock). An event
/// that needs nothing else tells that: if a single event lost its clock for another reason, its records could not be ordered with those
/// of the others.
fn remove_clock_id(
    attr: &mut Attr,
    answer: impl Fn(&Attr) -> Result<Answer, Stop>,
) -> Result<Option<Option<Fallback>>, Stop> {
    if Clock::MONOTONIC.id() != Some(attr.clockid) || !attr.flags.contains(AttrFlags::USE_CLOCKID) {
        return Ok(None);
    }
    let excluded = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let probe = Attr {
        flags: AttrFlags::USE_CLOCKID | AttrFlags::DISABLED | excluded,
        clockid: attr.clockid,
        ..crate::attr::dummy()
    };
    let is_unknown = answer(&probe)? == Err(EINVAL);
    Ok(is_unknown.then(|| {
        attr.flags.remove(AttrFlags::USE_CLOCKID);
        attr.clockid = 0;
        Some(Fallback::Without("CLOCK_MONOTONIC for timestamps (4.1)"))
    }))
}

fn remove_newest_part(attr: &mut Attr) -> Option<Option<Fallback>> {
    // PERF_SAMPLE_READ cannot be combined with inherit before Linux 6.12.
    if attr.sample_format.contains(SampleFormat::READ) && attr.flags.contains(AttrFlags::INHERIT) {
        attr.flags.remove(AttrFlags::INHERIT);
        return Some(Some(Fallback::NotInherited));
    }
    remove_first(NEWEST, attr, Fallback::Without)
}

/// Removes the call stack of last branches, for a processor that records no branches. Branches that the user asked for stay.
fn use_frame_pointers(attr: &mut Attr) -> Option<Option<Fallback>> {
    if !attr.branch_sample_format.contains(BranchSampleFormat::CALL_STACK) {
        return None;
    }
    attr.branch_sample_format = BranchSampleFormat::empty();
    attr.sample_format.remove(SampleFormat::BRANCH_STACK);
    Some(Some(Fallback::FramePointers))
}

/// Lowers `precise_ip` by one, without a notice: `P` asks for the best that there is, and the samples stay right, with more skid.
fn lower_precision(attr: &mut Attr) -> Option<Option<Fallback>> {
    attr.precise_ip = attr.precise_ip.checked_sub(1)?;
    Some(None)
}

/// Removes the kind of core, without a notice: for kernels that do not know it (before Linux 5.13; on ARM 6.6), the CPU on which the
/// event is opened chooses it.
fn remove_pmu(attr: &mut Attr) -> Option<Option<Fallback>> {
    attr.remove_pmu().then_some(None)
}

fn use_clock(attr: &mut Attr, clock: Option<&Attr>) -> Option<Option<Fallback>> {
    let clock = clock.filter(|clock| (clock.kind, clock.config) != (attr.kind, attr.config))?;
    // Levels that the user may not observe stay excluded.
    let excluded = attr.flags & (AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    *attr = Attr { read_format: attr.read_format, flags: clock.flags | excluded, ..clock.clone() };
    Some(Some(Fallback::Clock))
}

#[cfg(test)]
mod tests;
