//! What is asked of a recording before it is read.

use profile::{Detail, SampleFilter};

use crate::TimeWeight;
use crate::symbols::SymbolSettings;

/// A query over a recording: the samples that count, what of them is summed up, and where names come from.
pub struct Request<'r> {
    /// Counts the samples that pass this filter.
    pub filter: SampleFilter,
    /// Keeps these apart beside stacks.
    pub detail: Detail,
    /// Sums up this.
    pub measure: Measure,
    /// Tells the time that threads were blocked apart by who woke them. Only with a measure of time off the CPU.
    pub wakers: bool,
    /// Keeps the time of threads in pieces beside samples, from which [`Analysis::waiting`](crate::Analysis::waiting) finds who made threads
    /// wait, where switches were recorded.
    pub waiting: bool,
    /// Finds names in these files, and writes them in this form.
    pub symbols: &'r SymbolSettings,
    /// Reads the kernel's symbols ahead of the samples, as frames of the kernel will be shown.
    pub kernel: bool,
    /// Keeps addresses apart that lie in no mapping of their process, also those that nothing can name. Without it a process has
    /// one such address: frame pointers that are none lead to a new one with nearly every sample.
    pub unmapped_addresses: bool,
    /// Asks these servers for debug files.
    pub servers: Servers,
    /// Keeps the event of this name alone.
    pub event: Option<&'r str>,
    /// Accepts several events with samples where none is named.
    pub several_events: bool,
    /// Reads all quantities of a profile of another tool where none is named, the one that it shows first.
    pub all_quantities: bool,
}

/// The quantity that profiles of a recording sum up.
#[derive(Clone, Copy, Debug)]
pub enum Measure {
    /// Samples and their periods.
    Samples,
    /// Samples, and where switches were recorded also the wall-clock time of threads
    /// ([`Analysis::thread_time`](crate::Analysis::thread_time), in pieces if single samples are kept) and when threads were off the CPU
    /// ([`Analysis::waits`](crate::Analysis::waits)).
    SamplesAndWaits,
    /// Samples, and beside them the time of threads by stack, where switches were recorded:
    /// [`Analysis::time`](crate::Analysis::time).
    SamplesAndTime(TimeWeight),
    /// The time of threads in nanoseconds, as one event. Where single samples are kept, each stands for a piece of a thread's time
    /// and lies where that was spent; of weights without time off the CPU, [`Analysis::waits`](crate::Analysis::waits) has the
    /// spans off it.
    Time(TimeWeight),
}

/// The debuginfod servers that are asked for debug files of hot objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Servers {
    /// No server.
    None,
    /// Those that `DEBUGINFOD_URLS` names.
    OfEnvironment,
    /// Those of the environment, else of the system, else elfutils' own.
    Any,
}

impl<'r> Request<'r> {
    /// Asks for all samples of all events and for all names that files of this machine tell.
    pub fn all(symbols: &'r SymbolSettings) -> Self {
        Self {
            filter: SampleFilter::default(),
            detail: Detail::default(),
            measure: Measure::Samples,
            wakers: false,
            waiting: false,
            symbols,
            kernel: true,
            unmapped_addresses: true,
            servers: Servers::None,
            event: None,
            several_events: true,
            all_quantities: false,
        }
    }
}
