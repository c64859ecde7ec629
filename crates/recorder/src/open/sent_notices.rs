//! Notices that are sent once for all events; and the limits of the kernel's settings, which such notices report.

use decoder::{Attr, SampleFormat};
use host::sysctl;

use crate::notice::Notice;

/// The notices that were sent already.
#[derive(Default)]
pub(super) struct SentNotices(Vec<Notice>);

impl SentNotices {
    /// Returns true if this notice was sent.
    pub(super) fn contains(&self, notice: &Notice) -> bool {
        self.0.contains(notice)
    }

    /// Sends a notice, unless an equal one was sent.
    pub(super) fn send_once(&mut self, notice: Notice, notices: &mut dyn FnMut(Notice)) {
        if !self.contains(&notice) {
            self.0.push(notice.clone());
            notices(notice);
        }
    }

    /// Lowers the frequency to what `kernel.perf_event_max_sample_rate` allows.
    pub(super) fn limit_rate(&mut self, attr: &mut Attr, notices: &mut dyn FnMut(Notice)) {
        let asked = attr.sample_period;
        // `-F max` asks for the largest number; the limit is what it means.
        if lower_rate(attr) && asked != u64::MAX {
            self.send_once(Notice::RateLimited { asked, allowed: attr.sample_period }, notices);
        }
    }

    /// Shortens the kernel's call chains to what `kernel.perf_event_max_stack` allows. Those of stack copies are made by the recorder,
    /// which has no such limit.
    pub(super) fn limit_stack(&mut self, attr: &mut Attr, notices: &mut dyn FnMut(Notice)) {
        let Some(allowed) = sysctl::perf_event_max_stack() else { return };
        let is_kernels = attr.sample_format.contains(SampleFormat::CALLCHAIN)
            && !attr.sample_format.contains(SampleFormat::STACK_USER);
        if is_kernels && attr.sample_max_stack == 0 {
            // The same for the kernel. Readers of the file know from it which call chains were cut.
            attr.sample_max_stack = allowed;
        }
        if attr.sample_max_stack > allowed {
            if is_kernels {
                self.send_once(Notice::StackLimited { asked: attr.sample_max_stack, allowed }, notices);
            }
            attr.sample_max_stack = allowed;
        }
    }
}

/// Lowers the frequency to what `kernel.perf_event_max_sample_rate` allows, and returns true if it was higher: the kernel refuses more
/// (EINVAL). Where the kernel has lowered the limit, the frequency becomes half of it. The limit is one of samples per tick, and at
/// its last sample of a tick an event is throttled until the next one (`__perf_event_account_interrupt()` in kernel/events/core.c).
pub(super) fn lower_rate(attr: &mut Attr) -> bool {
    let limit = sysctl::perf_event_max_sample_rate().unwrap_or(u64::MAX);
    let lowered = attr.is_frequency().then(|| below(attr.sample_period, limit)).flatten();
    attr.sample_period = lowered.unwrap_or(attr.sample_period);
    lowered.is_some()
}

/// Returns the frequency to use in place of `asked`, if that is too high for `limit`.
fn below(asked: u64, limit: u64) -> Option<u64> {
    let is_lowered = limit < sysctl::DEFAULT_MAX_SAMPLE_RATE_HZ;
    match is_lowered {
        true => (asked > limit / 4 * 3).then(|| (limit / 2).max(1)),
        false => (asked > limit).then_some(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_at_a_lowered_limit_would_throttle_at_every_tick() {
        assert_eq!(below(997, 100_000), None);
        assert_eq!(below(u64::MAX, 100_000), Some(100_000));
        assert_eq!(below(997, 1_000), Some(500));
        assert_eq!(below(997, 500), Some(250));
        assert_eq!(below(997, 1_500), None);
        assert_eq!(below(997, 1), Some(1));
    }
}
