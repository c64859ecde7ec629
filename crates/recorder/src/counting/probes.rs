//! Counts probes also in the processes that the target starts, by defining them in tracefs.

use decoder::attr::TYPE_TRACEPOINT;
use decoder::{Attr, AttrFlags};
use host::defined_probe::{DefinedProbe, ProbePlace};
use host::sys::perf_event::{PerfEvent, Subject};
use model::CpuId;

use crate::error::{EINTR, EINVAL, EIO, Error};
use crate::event::Event;
use crate::open::{NO_PLACE_FOR_A_PROBE, PROBED_BY_FTRACE, open_event};

/// `retprobe` in `config` of the PMUs of probes.
const ON_RETURN: u64 = 1;

/// A probe that is defined in tracefs, and enabled on a whole CPU, so that it is set in every program that maps its file.
///
/// A probe in the processes of the target alone would be lost: the kernel swaps the events of a process with the equal ones of its
/// child when it switches between them, and where the child then ends, it removes the probe from the parent
/// (`uprobe_perf_close()` in kernel/trace/trace_uprobe.c; measured: 27 of 42 calls were counted).
pub(super) struct TracefsProbe {
    /// A disabled event of a whole CPU. It has to be closed before the definition is removed: fields are dropped in their order.
    _everywhere: PerfEvent,
    _defined: DefinedProbe,
}

/// Turns the probes among `events` into tracepoints, which exist as long as the returned values. A probe of a PMU cannot be inherited:
/// its attr points to a path in the memory of the recorder, and for a new thread the kernel reads that address in the memory of
/// the thread's creator, whose `fork` or `clone` then fails (`perf_uprobe_event_init()` in kernel/events/core.c).
pub(super) fn define_in_tracefs(events: &mut [Event], cpu: CpuId) -> Result<Vec<TracefsProbe>, Error> {
    let mut followed = Vec::new();
    for event in events {
        let Some(probe) = &event.probe else { continue };
        // A probe at an address of the kernel has no path.
        let Some(path) = &probe.path else { continue };
        let offset = event.attr.config2;
        let place = if probe.in_kernel {
            ProbePlace::Kernel(path, offset)
        } else {
            ProbePlace::Program(path, offset)
        };
        let in_kernel = probe.in_kernel;
        let refused = |errno: std::io::Error| {
            let advice = advice(errno.raw_os_error(), in_kernel).to_owned();
            Error::Open { event: event.name.clone(), errno, advice }
        };
        let defined = DefinedProbe::new(place, event.attr.config & ON_RETURN != 0).map_err(refused)?;
        let attr = Attr {
            kind: TYPE_TRACEPOINT,
            config: defined.id,
            flags: AttrFlags::DISABLED,
            ..crate::attr::dummy()
        };
        let everywhere = open_event(&attr, Subject::Cpu(cpu), None).map_err(refused)?;
        event.attr.kind = TYPE_TRACEPOINT;
        event.attr.config = defined.id;
        (event.attr.config1, event.attr.config2) = (0, 0);
        event.probe = None;
        followed.push(TracefsProbe { _everywhere: everywhere, _defined: defined });
    }
    Ok(followed)
}

/// Returns what to try where a probe could not be defined in tracefs, or its tracepoint not be opened.
fn advice(errno: Option<i32>, in_kernel: bool) -> &'static str {
    match errno {
        Some(EINVAL | EIO) if !in_kernel => NO_PLACE_FOR_A_PROBE,
        Some(EINTR) => PROBED_BY_FTRACE,
        _ => {
            "to count it in what the target starts, too, it has to be defined in tracefs, which takes root; try --no-inherit, \
             or -a as root"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{EACCES, EPERM};

    #[test]
    fn only_missing_rights_lead_to_the_advice_of_root() {
        for code in [EACCES, EPERM] {
            assert!(advice(Some(code), false).contains("takes root"));
        }
        for code in [EINVAL, EIO, EINTR] {
            assert!(!advice(Some(code), false).contains("root"), "{}", advice(Some(code), false));
        }
    }
}
