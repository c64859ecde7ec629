//! Notices that are sent once for all events; and the limits of the kernel's settings, which such notices report.

use decoder::Attr;
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
        let Some(allowed) = sysctl::perf_event_max_sample_rate() else { return };
        if attr.is_frequency() && attr.sample_period > allowed {
            // `-F max` asks for the largest number; the limit is what it means.
            if attr.sample_period != u64::MAX {
                self.send_once(Notice::RateLimited { asked: attr.sample_period, allowed }, notices);
            }
            attr.sample_period = allowed;
        }
    }

    /// Shortens call chains to what `kernel.perf_event_max_stack` allows.
    pub(super) fn limit_stack(&mut self, attr: &mut Attr, notices: &mut dyn FnMut(Notice)) {
        let Some(allowed) = sysctl::perf_event_max_stack() else { return };
        if attr.sample_max_stack > allowed {
            self.send_once(Notice::StackLimited { asked: attr.sample_max_stack, allowed }, notices);
            attr.sample_max_stack = allowed;
        }
    }
}
