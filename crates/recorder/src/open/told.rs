//! What is told of events once, however many there are; and what the kernel's settings limit.

use decoder::Attr;
use host::sysctl;

use crate::notice::Notice;

/// The notices that have been given already.
#[derive(Default)]
pub(super) struct ToldNotices(Vec<Notice>);

impl ToldNotices {
    /// Returns true if it was told.
    pub(super) fn has(&self, notice: &Notice) -> bool {
        self.0.contains(notice)
    }

    /// Tells it, the first time.
    pub(super) fn once(&mut self, notice: Notice, notices: &mut dyn FnMut(Notice)) {
        if !self.has(&notice) {
            self.0.push(notice.clone());
            notices(notice);
        }
    }

    /// Lowers the frequency to what `kernel.perf_event_max_sample_rate` allows.
    pub(super) fn limit_rate(&mut self, attr: &mut Attr, notices: &mut dyn FnMut(Notice)) {
        let Some(allowed) = sysctl::perf_event_max_sample_rate() else { return };
        if attr.is_frequency() && attr.sample_period > allowed {
            // The largest number is how `-F max` is said.
            if attr.sample_period != u64::MAX {
                self.once(Notice::RateLimited { asked: attr.sample_period, allowed }, notices);
            }
            attr.sample_period = allowed;
        }
    }

    /// Shortens call chains to what `kernel.perf_event_max_stack` allows.
    pub(super) fn limit_stack(&mut self, attr: &mut Attr, notices: &mut dyn FnMut(Notice)) {
        let Some(allowed) = sysctl::perf_event_max_stack() else { return };
        if attr.sample_max_stack > allowed {
            self.once(Notice::StackLimited { asked: attr.sample_max_stack, allowed }, notices);
            attr.sample_max_stack = allowed;
        }
    }
}
