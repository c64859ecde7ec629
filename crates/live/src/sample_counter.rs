//! Counts samples in the window, by event, thread and stack.

use std::convert::Infallible;

use analysis::aggregate::Mapper;
use analysis::jit_dumps::is_dump;
use decoder::Record;
use model::{Pid, Tid, Timestamp};
use profile::{Count, RawChain};
use recorder::ProcessResources;
use tracker::{RawStack, SampleSink, TrackedSample, Tracker};

use super::thread_time::ThreadTime;
use super::window::Window;

/// A sink that counts samples in a window.
pub(crate) struct SampleCounter {
    pub(crate) window: Window,
    /// Counts the time of threads instead of samples, where it is set.
    pub(crate) time: Option<ThreadTime>,
    pub(crate) mapper: Mapper,
    /// The services, programs and cgroups of processes with samples, where they are read.
    pub(crate) resources: ProcessResources,
    /// The process and the path, where the last record has mapped a jitdump.
    pub(crate) mapped_dump: Option<(Pid, Vec<u8>)>,
}

impl SampleCounter {
    pub(crate) fn new(window: Window) -> Self {
        let (mapper, resources) = Default::default();
        Self { window, time: None, mapper, resources, mapped_dump: None }
    }
}

impl SampleSink for SampleCounter {
    type Error = Infallible;

    fn record(&mut self, record: &Record<'_>) {
        self.window.containers.apply(record);
        self.resources.forget_by(record);
        if let Record::Mmap(mmap) = record
            && is_dump(mmap.path)
        {
            self.mapped_dump = Some((mmap.pid, mmap.path.to_vec()));
        }
        if let Some(time) = &mut self.time {
            time.record(record);
        }
    }

    fn before(&mut self, record: &Record<'_>) {
        if let Some(time) = &mut self.time {
            time.before(record);
        }
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        if let Some(time) = &mut self.time {
            time.settle(tracker);
        }
    }

    fn sample(&mut self, tracked: TrackedSample<'_>) -> Result<(), Infallible> {
        if let Some(time) = &mut self.time {
            return time.sample(tracked);
        }
        let TrackedSample { tracker, event, sample, period, deferred } = tracked;
        let (pid, tid) = sample.thread.unwrap_or((Pid::NONE, Tid(-1)));
        let comm = tracker.comm(pid, tid).clone();
        let raw = RawStack { pid, mode: sample.mode, ip: sample.ip, chain: sample.callchain };
        let mapper = &mut self.mapper;
        let stack = match deferred {
            None => {
                let chain = RawChain {
                    generation: tracker.generation(pid).as_u64(),
                    ip: sample.ip.unwrap_or(0),
                    mode: sample.mode as u8,
                    bytes: sample.callchain.map_or(&[], |chain| chain.as_bytes()),
                };
                self.window.stack(chain, || mapper.map(tracker, raw, None))
            }
            Some(_) => self.window.stacks.intern(mapper.map(tracker, raw, deferred)),
        };
        let time = sample.time.unwrap_or(Timestamp(0));
        self.resources.request(pid, time);
        let thread = self.window.thread(pid, tid, &comm);
        self.window.add_count((event.0, thread, stack), Count { samples: 1, period }, time.0);
        Ok(())
    }
}
