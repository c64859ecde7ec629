//! Counts samples in the window, by event, thread and stack.

use std::convert::Infallible;

use analysis::aggregate::SeenIn;
use analysis::jit_dumps::is_dump;
use decoder::Record;
use model::{Pid, Tid, Timestamp};
use profile::RawChain;
use recorder::ProcessResources;
use tracker::{RawStack, SampleSink, TrackedSample, Tracker};

use super::thread_time::ThreadTime;
use super::window::Window;

/// A sink that counts samples in a window.
pub(crate) struct SampleCounter<'e> {
    pub(crate) window: &'e mut Window,
    /// Counts the time of threads instead of samples, where it is set.
    pub(crate) time: Option<&'e mut ThreadTime>,
    pub(crate) seen_in: &'e mut SeenIn,
    /// Reads what processes with samples are parts of, where it is set.
    pub(crate) resources: Option<&'e ProcessResources>,
    /// The process and the path, where the last record has mapped a jitdump.
    pub(crate) mapped_dump: Option<(Pid, Vec<u8>)>,
}

impl SampleSink for SampleCounter<'_> {
    type Error = Infallible;

    fn record(&mut self, record: &Record<'_>) {
        self.window.containers.apply(record);
        if let Some(resources) = self.resources {
            resources.forget_by(record);
        }
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
        let raw = RawStack {
            pid,
            mode: sample.mode,
            ip: sample.ip,
            chain: sample.callchain.map(|chain| chain.iter()),
        };
        let seen_in = &mut *self.seen_in;
        let stack = match deferred {
            None => {
                let chain = RawChain {
                    generation: tracker.generation(pid).as_u64(),
                    ip: sample.ip.unwrap_or(0),
                    mode: sample.mode as u8,
                    bytes: sample.callchain.map_or(&[], |chain| chain.as_bytes()),
                };
                self.window.stack(chain, |entries| {
                    tracker.map_callchain(raw, entries);
                    seen_in.see(pid, entries);
                })
            }
            Some(user_part) => {
                let mut entries = Vec::new();
                tracker.map_callchain(raw, &mut entries);
                tracker.map_deferred(pid, user_part.iter(), &mut entries);
                seen_in.see(pid, &entries);
                self.window.stacks.intern(&entries)
            }
        };
        let time = sample.time.unwrap_or(Timestamp(0));
        if let Some(resources) = self.resources {
            resources.request(pid, time);
        }
        let thread = self.window.thread_of(pid, tid, comm);
        self.window.add(event.0, thread, stack, period, time.0);
        Ok(())
    }
}
