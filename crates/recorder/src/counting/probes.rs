//! Probes that are counted in what the target starts, too.

use decoder::attr::TYPE_TRACEPOINT;
use decoder::{Attr, AttrFlags};
use host::defined_probe::{DefinedProbe, ProbePlace};
use host::sys::perf_event::{PerfEvent, Subject};
use model::CpuId;

use crate::error::{EINTR, EINVAL, EIO, Error};
use crate::event::Event;
use crate::open::{Kernel, NO_PLACE_FOR_A_PROBE, Opener, PROBED_BY_FTRACE};

/// `retprobe` in `config` of the PMUs of probes.
const ON_RETURN: u64 = 1;

/// A probe among those of tracefs, set in every program that maps its file.
///
/// In the processes of the target alone it would be lost: the kernel swaps the events of a process with the equal ones of a child
/// as it goes from one to the other, and where the child then ends, takes the probe out of the parent (`uprobe_perf_close()` in
/// kernel/trace/trace_uprobe.c; seen: 27 of 42 calls).
pub(super) struct Followed {
    /// Of a whole CPU, which counts nothing. Closed before the definition goes.
    _everywhere: PerfEvent,
    _defined: DefinedProbe,
}

/// Makes tracepoints of the probes among `events`, which are these as long as what is returned lives. The kernel reads where a
/// probe of a PMU is in our memory; to copy it for a new thread it reads the same address of who starts that, whose `fork` or
/// `clone` then fails (`perf_uprobe_event_init()` in kernel/events/core.c).
pub(super) fn define(events: &mut [Event], cpu: CpuId) -> Result<Vec<Followed>, Error> {
    let mut followed = Vec::new();
    for event in events {
        let Some(probe) = &event.probe else { continue };
        // An address of the kernel is no name that would be read.
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
        let everywhere = Kernel.open(&attr, Subject::Cpu(cpu), None).map_err(refused)?;
        event.attr.kind = TYPE_TRACEPOINT;
        event.attr.config = defined.id;
        (event.attr.config1, event.attr.config2) = (0, 0);
        event.probe = None;
        followed.push(Followed { _everywhere: everywhere, _defined: defined });
    }
    Ok(followed)
}

/// The next thing to try where a probe was not defined in tracefs, or the tracepoint of it was not opened.
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
    fn only_missing_rights_are_said_to_take_root() {
        for code in [EACCES, EPERM] {
            assert!(advice(Some(code), false).contains("takes root"));
        }
        for code in [EINVAL, EIO, EINTR] {
            assert!(!advice(Some(code), false).contains("root"), "{}", advice(Some(code), false));
        }
    }
}
