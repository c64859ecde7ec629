//! Sums the time of threads by stack: on the CPU, runnable, blocked. How a blocked second is computed:
//!
//! 1. **Intervals** (`tracker::waits`). A thread's time is cut where a record says that it was switched out or in
//!    (`PERF_RECORD_SWITCH`, a sample of `sched:sched_switch` or `context-switches`), woken (`sched:sched_waking`), started or ended.
//!    From switch out to waking it is blocked, or preempted if it could have gone on; from waking to switch in it is runnable. Without
//!    records of wakings the whole wait is blocked, less its part of what the kernel's counts say the thread was runnable (5).
//! 2. **Stacks.** A wait has the stack of the sample at its switch out. Where switches may not be sampled, the recorder reads the
//!    stacks of blocked threads from outside; waits that were too short to be read have those of the short waits of the thread that
//!    were. Running time goes to the samples of the clock, in their shares.
//! 3. **Sums** (`life`). The intervals of a thread are added up by name, state and stack.
//! 4. **Gaps.** Above a number of switches a second they are recorded for 2 ms at a time. Of the time between, the kernel's counts
//!    (`/proc/PID/task/TID/schedstat`) say how much the thread ran and was runnable. It is shared out over what was recorded of the
//!    thread, and has no place in time: views that show when, and parts of the recording's time, leave it out. The output calls it an
//!    estimate (`estimates`).
//! 5. **The kernel's counts hold** (`life::settling`). What they say beyond the records is moved between running, runnable and
//!    blocked, evenly over the intervals: records are written before or after the moments from which the kernel counts, by microseconds
//!    (20 at most are taken of an interval), and wakings of an idle CPU in a virtual machine by what its host takes.
//!    Where wakings are not recorded, what they say of waits for a CPU is taken from the waits before it, without a bound.
//!    Without this the time on the CPU was 21 % too small in a Go program with 10,000 switches a second, and 7 % in a Python program
//!    that hands a lock around; with it both are within the noise of measuring.
//!
//! Views that show when, and not only how much, put the final sums back onto the intervals (`placed`).

mod causes;
mod estimates;
mod kernel_counts;
mod latency;
mod life;
mod live;
mod parts;
mod placed;
mod spans;
mod state;
mod switches;
mod times;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use decoder::values::U64s;
use decoder::{Record, Sample};
use model::{Avma, FileOffset, Pid, Tid, Timestamp, WaitSpan, Waker};
use perfdata::sections::Schedstat;
use profile::waiting::Command;
use profile::{
    ChainCache, Count, Detail, Profile, SampleFacts, SampleFilter, StackId, ThreadId, TimeRange, TimeWeight,
    Where,
};
use rustc_hash::FxBuildHasher;
use tracker::waits::{Activity, At, Interval, Leaving, Timeline};
use tracker::{MappingKind, RawStack, SampleSink, TrackedSample, Tracker};

use crate::Error;
use crate::aggregate::{Mapper, SeenIn, raw_chain};
use crate::samples::explained_filter::ExplainedFilter;
use crate::samples::unsampled_time::PRE_EXEC_COMM;

pub(crate) use estimates::Estimate;
use kernel_counts::{Class, class};
use latency::{Latency, RunningSample};
use life::Life;
pub use live::{LiveTimes, TimeSlice, WatchedEvent};
use parts::Parts;
use placed::{Content, Piece};
pub use spans::{SpanWaker, WaitSpans};
use spans::{Wakers, is_runnable};
pub use state::CauseId;
use state::{Causes, PAGE_FAULT, Said, State, Variable, Wait, WakerId};
use switches::{Field, SwitchFields};
pub(crate) use switches::{Role, Switches, describes_waits};
pub(crate) use times::{Times, activity};
pub use times::{thread_state, with_request};

/// Returns true if intervals of this activity count for a weight.
fn weighs(weight: TimeWeight, activity: Activity) -> bool {
    match weight {
        TimeWeight::Wall => true,
        TimeWeight::Cpu => activity == Activity::Running,
        TimeWeight::OffCpu => activity != Activity::Running,
        TimeWeight::Latency => false,
    }
}

/// Sums the time of threads by what they did and with which stack.
pub(crate) struct ThreadTimes {
    weight: TimeWeight,
    switches: Switches,
    admission: ExplainedFilter,
    range: TimeRange,
    profile: Profile,
    cache: ChainCache,
    mapper: Mapper,
    timeline: Timeline<Wait>,
    /// The causes of waits that were read from outside.
    causes: Causes,
    /// The cause of waits for pages.
    page_fault: Option<CauseId>,
    /// The threads and interrupts that ended waits, if they are asked for.
    wakers: Option<Wakers>,
    /// True if sums tell waits apart by their wakers.
    tells_wakers: bool,
    lives: HashMap<Tid, Life, FxBuildHasher>,
    /// Threads that have ended, whose last intervals have not been counted yet.
    ended: Vec<Tid>,
    /// Samples and runs of processes, for [`TimeWeight::Latency`].
    latency: Latency,
    /// How many threads run in what counts.
    parallelism: Vec<RangeInclusive<u32>>,
    /// The time of threads in pieces, where the profile keeps single samples.
    pieces: Option<Vec<Piece>>,
    /// True if time in which switches were held back counts. It has no place in time, so what is shown by time, or is of a part of the
    /// time, lacks it, but for time on the CPU, whose place samples tell.
    counts_held: bool,
    /// Time off the CPU, and running time without a sample.
    states: HashMap<State, Count, FxBuildHasher>,
    /// The thread that becomes the command.
    waiting_command: Option<Tid>,
    last: Option<Timestamp>,
    /// Number of gaps between recorded switches that are over.
    gaps: usize,
    /// True if the next gap has begun.
    in_gap: bool,
    /// The time at which all intervals were cut last: what ends there goes on.
    cut: Option<Timestamp>,
    /// The kernel's counts of threads, in the order of time.
    counted: HashMap<Tid, Vec<Schedstat>, FxBuildHasher>,
    /// The spans in which threads were off the CPU, if they are asked for.
    spans: Option<Vec<WaitSpan>>,
    /// The threads that started others, by those, if spans are asked for.
    starters: HashMap<Tid, (Pid, Tid), FxBuildHasher>,
    /// The command that was executed, and its end.
    command: Option<Command>,
}

impl ThreadTimes {
    /// Starts with empty sums, for one kind of time.
    pub(crate) fn new(weight: TimeWeight, switches: Switches, filter: &SampleFilter, detail: Detail) -> Self {
        // The time before a delay (-D) is over does not count.
        let begin = switches.watched.map(|watched| Timestamp(watched.begin));
        let time = begin.map_or(filter.time, |begin| filter.time.on_clock(begin));
        let range =
            TimeRange { start: if time.from_start { time.start } else { time.start.max(begin) }, ..time };
        let counts_held = Self::counts_held(weight, filter, detail);
        let parallelism = filter.parallelism.clone();
        let filter = SampleFilter {
            event: None,
            time: TimeRange::default(),
            parallelism: Vec::new(),
            ..filter.clone()
        };
        let mut timeline = Timeline::default();
        let counted = switches.sampling.threads.iter().cloned().collect();
        let mut causes = Causes::default();
        if let Some(watched) = switches.watched {
            timeline.begin(Timestamp(watched.begin));
        }
        Self {
            weight,
            switches,
            admission: ExplainedFilter::new(filter),
            range,
            profile: Profile::new(detail),
            cache: ChainCache::default(),
            mapper: Mapper::default(),
            timeline,
            page_fault: causes.intern(PAGE_FAULT),
            causes,
            wakers: None,
            tells_wakers: false,
            lives: HashMap::default(),
            ended: Vec::new(),
            latency: Latency::default(),
            parallelism,
            pieces: detail.samples.map(|_| Vec::new()),
            counts_held,
            states: HashMap::default(),
            waiting_command: None,
            last: None,
            gaps: 0,
            in_gap: false,
            cut: None,
            counted,
            spans: None,
            starters: HashMap::default(),
            command: None,
        }
    }

    /// Returns true if samples count by how many threads ran.
    fn counts_threads(&self) -> bool {
        self.weight == TimeWeight::Latency || !self.parallelism.is_empty()
    }

    /// Returns true if time in which switches were held back counts in such a profile.
    pub(crate) fn counts_held(weight: TimeWeight, filter: &SampleFilter, detail: Detail) -> bool {
        let is_of_samples = matches!(weight, TimeWeight::Cpu | TimeWeight::Latency);
        is_of_samples || detail.samples.is_none() && filter.time == TimeRange::default()
    }

    /// Keeps the spans in which threads were off the CPU, too, with who ended them.
    pub(crate) fn with_spans(self) -> Self {
        Self { spans: Some(Vec::new()), wakers: Some(Wakers::default()), ..self }
    }

    /// Distinguishes waits by the thread or interrupt that ended them, too.
    pub(crate) fn with_wakers(self) -> Self {
        Self { wakers: Some(Wakers::default()), tells_wakers: true, ..self }
    }

    /// Pauses and resumes the timeline at the borders of gaps up to `time`. Returns true if `time` is in a gap.
    fn pass_gaps(&mut self, time: Timestamp) -> bool {
        while let Some(&(begin, end)) = self.switches.sampling.gaps.get(self.gaps) {
            if !self.in_gap && begin <= time.0 {
                self.timeline.pause(Timestamp(begin));
                self.in_gap = true;
            }
            if !self.in_gap || time.0 < end {
                break;
            }
            self.timeline.resume(Timestamp(end));
            (self.in_gap, self.gaps) = (false, self.gaps + 1);
        }
        self.in_gap
    }

    /// Returns the reason why the filter admitted nothing.
    pub(crate) fn why_none(&self) -> Option<String> {
        self.admission.why_none()
    }

    /// Ends the time of all threads; returns what has been counted, and the spans that [`Self::with_spans`] asks for.
    pub(crate) fn finish(mut self, tracker: &mut Tracker) -> (Times, SeenIn, WaitSpans) {
        self.end_all(tracker);
        self.count_latency();
        let Self { profile, states, pieces, causes, wakers, mapper, spans, command, .. } = self;
        let spans = WaitSpans {
            spans: spans.unwrap_or_default(),
            wakers: wakers.as_ref().map(|wakers| wakers.list.clone()).unwrap_or_default(),
            has_wakings: self.switches.has_wakers(),
            command: command.filter(|command| command.end > command.start),
        };
        let times = Times { profile, states, pieces, causes, wakers: wakers.unwrap_or_default() };
        (times, mapper.seen_in, spans)
    }

    /// Counts the samples whose weight is known now that the running time of their processes is.
    fn count_latency(&mut self) {
        for (sample, share, number) in self.latency.take_weighed(&self.switches.sampling.gaps) {
            let is_number = |range: &RangeInclusive<u32>| {
                number.is_some_and(|number| {
                    number >= u64::from(*range.start()) && number <= u64::from(*range.end())
                })
            };
            if !self.parallelism.is_empty() && !self.parallelism.iter().any(is_number) {
                continue;
            }
            let RunningSample { thread, stack, time, period, cpu, .. } = sample;
            let share = if self.weight == TimeWeight::Latency { share } else { 1.0 };
            let period = (period as f64 * share).round() as u64;
            match &mut self.pieces {
                Some(pieces) => {
                    let (content, start, end) = (Content::Ran(stack), time, time);
                    pieces.push(Piece { thread, content, start, end, weight: period, cpu });
                }
                None => self.profile.add_counts(thread, stack, Count { samples: 1, period }),
            }
        }
    }

    fn end_all(&mut self, tracker: &mut Tracker) {
        let end = self.switches.watched.map(|watched| Timestamp(watched.end)).max(self.last);
        if let Some(end) = end {
            self.pass_gaps(end);
            self.timeline.finish(end);
        }
        self.count_ended(tracker);
        self.ended = self.lives.keys().copied().collect();
        self.count_ended(tracker);
        if let Some(spans) = &mut self.spans {
            spans.sort_by_key(|span| span.end);
        }
    }

    /// Counts the intervals that have ended, with the names that threads have now, and then the threads that have.
    fn count_ended(&mut self, tracker: &mut Tracker) {
        for interval in self.timeline.take_ended() {
            self.count(&interval, tracker);
        }
        for tid in std::mem::take(&mut self.ended) {
            if let Some(mut life) = self.lives.remove(&tid) {
                let counted =
                    self.counted.get(&tid).and_then(|counts| Some([*counts.first()?, *counts.last()?]));
                life.settle(counted, self.switches.has_wakings());
                self.share(life);
            }
        }
    }

    /// Returns the number of a thread under the name that it has now; `None` if the filter does not admit it.
    fn admitted(
        &mut self,
        tracker: &mut Tracker,
        (pid, tid): (Pid, Tid),
        at: At,
        cgroup: Option<u64>,
    ) -> Option<ThreadId> {
        let comm = tracker.comm(pid, tid).clone();
        let container = tracker.container(pid, cgroup).cloned();
        let facts = SampleFacts {
            comm: &comm,
            pid,
            tid,
            cpu: at.cpu,
            event: model::EventIndex(0),
            time: Some(at.time),
            container: container.as_ref(),
            cgroup: None,
        };
        if comm.as_bytes() == PRE_EXEC_COMM || !self.admission.admits(&facts) {
            return None;
        }
        let place = Where { container, ..Where::default() };
        Some(self.profile.thread_on(&comm, pid, tid, &place, || tracker.comm(pid, Tid(pid.0)).clone()))
    }

    fn count(&mut self, interval: &Interval<Wait>, tracker: &mut Tracker) {
        let Interval { pid, tid, activity, start, end, stack, cpu } = *interval;
        if tid.0 <= 0 || pid.0 < 0 {
            return;
        }
        if self.counts_threads() && activity == Activity::Running {
            self.latency.push_run(pid, tid, (start.0, end.0));
        }
        let life = self.lives.entry(tid).or_default();
        if let Some(counts) = self.counted.get(&tid) {
            life.measure(activity, (start.0, end.0), counts, self.cut == Some(end));
        }
        if activity == Activity::Unwatched && !self.counts_held {
            return;
        }
        // A recording that does not say when it starts does so with its first time.
        self.range = self.range.on_clock(start);
        let start = self.range.start.map_or(start, |first| start.max(first));
        let end = self.range.end.map_or(end, |last| end.min(last));
        if end <= start {
            return;
        }
        let Some(thread) = self.admitted(tracker, (pid, tid), At { time: start, cpu }, None) else { return };
        if let (true, Some(is_runnable)) = (self.spans.is_some(), is_runnable(activity)) {
            let starter = self.starters.remove(&tid).filter(|_| activity == Activity::Started);
            let waker = match starter {
                Some(starter) => self.known_waker(tracker, starter, false),
                None => stack.and_then(|wait| wait.waker).filter(|_| !is_runnable),
            };
            let waker = waker.map(|WakerId(number)| number as usize);
            self.spans
                .iter_mut()
                .for_each(|spans| spans.push(WaitSpan { pid, tid, start, end, is_runnable, waker }));
        }
        let wait = stack.unwrap_or_default();
        let wait = Wait { waker: wait.waker.filter(|_| self.tells_wakers), ..wait };
        let state = State { thread, activity, wait };
        let life = self.lives.entry(tid).or_default();
        life.add(state, (start.0, end.0));
        // The kernel samples every wait for a page, so a reading of one is no sample of others.
        let is_read = class(activity) == Some(Class::Blocked) && wait.cause.is_some();
        if is_read && wait.cause != self.page_fault {
            life.add_read(wait, end.0 - start.0);
        }
        if self.pieces.is_some() {
            life.intervals.push(state, (start.0, end.0));
        }
        start.extend(&mut self.profile.span);
        end.extend(&mut self.profile.span);
    }

    /// Adds the time of a thread to the sums, and distributes its running time to its samples by their shares.
    fn share(&mut self, mut life: Life) {
        let placed = self.pieces.as_ref().map(|_| life.states.clone());
        let substitutes = life.share_stacks(&self.causes, self.switches.are_records_alone());
        let Life { states, samples, ran, sampled, intervals, .. } = life;
        if self.switches.is_only_of_sampled() && !sampled {
            return;
        }
        match (&mut self.pieces, placed) {
            (Some(pieces), Some(sums)) if weighs(self.weight, Activity::Blocked) => {
                intervals.place_states(&sums, &substitutes, pieces);
            }
            (Some(_), _) => {}
            (None, _) => {
                for (key, count) in states.into_iter().filter(|(key, _)| weighs(self.weight, key.activity)) {
                    add(self.states.entry(key).or_default(), count);
                }
            }
        }
        if self.counts_threads() || !weighs(self.weight, Activity::Running) {
            return;
        }
        let mut by_name: HashMap<ThreadId, Vec<(StackId, Count)>, FxBuildHasher> = HashMap::default();
        for ((thread, stack), count) in samples {
            by_name.entry(thread).or_default().push((stack, count));
        }
        for (thread, ran) in ran.into_iter().filter(|(_, ran)| *ran > 0) {
            match &mut self.pieces {
                Some(pieces) => intervals.place_running(thread, ran, pieces),
                None => self.share_running(thread, ran, by_name.remove(&thread).unwrap_or_default()),
            }
        }
    }

    /// Distributes the time that a thread ran under one of its names to the samples with that name.
    fn share_running(&mut self, thread: ThreadId, ran: u64, mut samples: Vec<(StackId, Count)>) {
        let all: u128 = samples.iter().map(|(_, count)| u128::from(count.period)).sum();
        if all == 0 {
            let key = State { thread, activity: Activity::Running, wait: Wait::default() };
            return add(self.states.entry(key).or_default(), Count { samples: 0, period: ran });
        }
        let mut parts = Parts::new(ran, all);
        samples.sort_unstable_by_key(|(stack, _)| *stack);
        for (stack, count) in samples {
            let period = parts.next(count.period);
            self.profile.add_counts(thread, stack, Count { period, ..count });
        }
    }

    /// Maps the stack of a sample at once: the next record may end its thread.
    fn stack(
        &mut self,
        tracker: &mut Tracker,
        sample: &Sample<'_>,
        pid: Pid,
        deferred: Option<U64s<'_>>,
    ) -> StackId {
        let raw = RawStack { pid, mode: sample.mode, ip: sample.ip, chain: sample.callchain };
        if deferred.is_some() {
            return self.profile.stacks.intern(self.mapper.map(tracker, raw, deferred));
        }
        let generation = tracker.generation(pid);
        let bytes = sample.callchain.map_or(&[][..], |chain| chain.as_bytes());
        let key = self.cache.key(&raw_chain(generation, sample.ip, sample.mode, bytes));
        if let Some(stack) = self.cache.get(key) {
            return stack;
        }
        let stack = self.profile.stacks.intern(self.mapper.map(tracker, raw, None));
        if tracker.generation(pid) == generation {
            self.cache.insert(key, stack);
        }
        stack
    }

    /// Returns the waker of a thread: the thread on the CPU, or an interrupt there, as `flags` say (`TRACE_FLAG_HARDIRQ`,
    /// `TRACE_FLAG_SOFTIRQ` in `include/linux/trace_events.h`).
    fn waker(&mut self, tracker: &mut Tracker, (pid, tid): (Pid, Tid), flags: u64) -> Option<WakerId> {
        const IN_INTERRUPT: u64 = 0x08;
        const IN_DEFERRED_INTERRUPT: u64 = 0x10;
        let is_interrupt = flags & IN_INTERRUPT != 0 || tid.0 == 0;
        let is_deferred = flags & IN_DEFERRED_INTERRUPT != 0;
        let wakers = self.wakers.as_mut()?;
        let comm = tracker.comm(pid, tid);
        let name = (!comm.as_bytes().starts_with(b":")).then(|| comm.to_string());
        let waker = match name {
            _ if is_interrupt => Waker::Interrupt,
            Some(name) if is_deferred => Waker::DeferredInterrupt(name),
            Some(name) => Waker::Thread(name),
            None if is_deferred => Waker::Interrupt,
            None => Waker::Outside,
        };
        let thread = (self.spans.is_some() && !is_interrupt).then_some((pid, tid));
        wakers.intern(SpanWaker { waker, thread, is_holder: false })
    }

    /// Returns the number of a thread that is known to be waited for.
    fn known_waker(
        &mut self,
        tracker: &mut Tracker,
        (pid, tid): (Pid, Tid),
        is_holder: bool,
    ) -> Option<WakerId> {
        let waker = Waker::Thread(tracker.comm(pid, tid).to_string());
        self.wakers.as_mut()?.intern(SpanWaker { waker, thread: Some((pid, tid)), is_holder })
    }
}

impl SampleSink for ThreadTimes {
    type Error = Error;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Error> {
        let TrackedSample { tracker, event, sample, period, deferred } = sample;
        let role = self.switches.role(event);
        let (Some((pid, tid)), Some(time)) = (sample.thread, sample.time) else { return Ok(()) };
        self.last = self.last.max(Some(time));
        let at = At { time, cpu: sample.cpu };
        // Wakings are recorded on whole CPUs, also before the delay is over.
        let is_before = self.switches.watched.is_some_and(|watched| time.0 < watched.begin);
        match role {
            _ if is_before => {}
            Role::None => {}
            Role::Waking { .. } | Role::Switch { .. } | Role::PageFault if self.pass_gaps(time) => {}
            Role::Waking { woken, flags } => {
                let read = |field: Field| field.read(sample.raw?);
                if let Some(woken) = read(woken) {
                    let waker = flags.and_then(read).and_then(|flags| self.waker(tracker, (pid, tid), flags));
                    let mark = |wait: Wait| Wait { waker: wait.waker.or(waker), ..wait };
                    self.timeline.woken(Tid(woken as i32), time, mark);
                }
            }
            Role::Outside => {
                let is_in_gap = self.pass_gaps(time);
                // Without an address, the call alone was read.
                let has_stack = sample.ip.is_some_and(|address| address != 0);
                let stack =
                    if has_stack { self.stack(tracker, sample, pid, deferred) } else { StackId::EMPTY };
                let Said { cause, by } = Said::parse(sample.raw.unwrap_or_default());
                let cause = self.causes.intern_at(cause, |address| variable_at(tracker, pid, address));
                // Where wakings are recorded, they say.
                let waker = by
                    .filter(|_| !self.switches.has_wakers())
                    .and_then(|(by, is_holder)| self.known_waker(tracker, (pid, by), is_holder));
                let seen = Wait { stack, cause, waker };
                let life = self.lives.entry(tid).or_default();
                life.sampled = true;
                if is_in_gap {
                    // The wait that was current before may be over.
                    life.add_read(Wait { waker: None, ..seen }, 0);
                } else {
                    self.timeline.seen_blocked(tid, seen, |known, seen| Wait {
                        stack: if known.stack == StackId::EMPTY { seen.stack } else { known.stack },
                        cause: seen.cause,
                        waker: known.waker.or(seen.waker),
                    });
                }
            }
            Role::PageFault => {
                let stack = self.stack(tracker, sample, pid, deferred);
                let cause = self.page_fault;
                self.lives.entry(tid).or_default().sampled = true;
                self.timeline.faulted(tid, time, Wait { stack, cause, waker: None });
            }
            Role::Switch { fields } => {
                let read = |field: fn(SwitchFields) -> Field| field(fields?).read(sample.raw?);
                // The idle task has no time, and a thread that has ended no number any more (-1).
                if tid.0 > 0 {
                    let stack = self.stack(tracker, sample, pid, deferred);
                    let state = read(|fields| fields.state);
                    let leaving = state.map_or(Leaving::Unsaid, Leaving::from_prev_state);
                    self.lives.entry(tid).or_default().sampled = true;
                    let wait = Wait { stack, ..Wait::default() };
                    self.timeline.switched_out(pid, tid, at, leaving, Some(wait));
                }
                if let Some(next) = read(|fields| fields.next).filter(|&next| next != 0) {
                    self.timeline.comes_next(Tid(next as i32), at, self.switches.has_records);
                }
            }
            Role::Time => {
                if tid.0 <= 0 {
                    return Ok(());
                }
                let is_in_gap = self.pass_gaps(time);
                self.timeline.sampled(tid, None);
                if is_in_gap && !self.counts_held && self.weight == TimeWeight::Wall {
                    return Ok(());
                }
                self.range = self.range.on_clock(time);
                let within = self.range.start.is_none_or(|start| time >= start)
                    && self.range.end.is_none_or(|end| time <= end);
                self.lives.entry(tid).or_default().sampled = true;
                let thread = within.then(|| self.admitted(tracker, (pid, tid), at, sample.cgroup));
                let Some(thread) = thread.flatten() else { return Ok(()) };
                let stack = self.stack(tracker, sample, pid, deferred);
                if self.switches.are_records_alone() {
                    self.timeline.sampled(tid, Some(Wait { stack, ..Wait::default() }));
                }
                let running = RunningSample { tid, thread, stack, time: time.0, period, cpu: sample.cpu };
                if self.counts_threads() {
                    self.latency.push_sample(pid, running);
                    return Ok(());
                }
                let life = self.lives.entry(tid).or_default();
                add(life.samples.entry((thread, stack)).or_default(), Count { samples: 1, period });
                if self.pieces.is_some() {
                    life.intervals.push_sample(running);
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        self.count_ended(tracker);
    }

    fn before(&mut self, record: &Record<'_>) {
        let Record::Comm(comm) = record else { return };
        if let Some(time) = comm.sample_id.time.filter(|time| time.0 != 0) {
            self.pass_gaps(time);
            let by_itself = comm.sample_id.thread.is_some_and(|(_, tid)| tid == comm.tid);
            self.timeline.renamed(comm.tid, time, by_itself);
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Switch(switch) => {
                let sample_id = &switch.sample_id;
                let (Some((pid, tid)), Some(time)) = (sample_id.thread, sample_id.time) else { return };
                self.last = self.last.max(Some(time));
                if self.pass_gaps(time) {
                    return;
                }
                let at = At { time, cpu: sample_id.cpu };
                if let Some((_, other)) = switch.other.filter(|(_, other)| other.0 > 0) {
                    // Not all threads tell of themselves: those of some namespaces do not.
                    match switch.out {
                        true => self.timeline.comes_next(other, at, true),
                        false => self.timeline.ran_before(other, at),
                    }
                }
                if tid.0 <= 0 {
                    return;
                }
                if switch.out {
                    let leaving = if switch.preempted { Leaving::Preempted } else { Leaving::Blocked };
                    self.timeline.switched_out(pid, tid, at, leaving, None);
                } else {
                    self.timeline.switched_in(pid, tid, at);
                }
            }
            Record::Fork(task) if task.time.0 == 0 => self.timeline.exists(task.pid, task.tid),
            Record::Fork(task) => {
                self.pass_gaps(task.time);
                self.timeline.started(task.pid, task.tid, task.time);
                if self.spans.is_some() {
                    self.starters.insert(task.tid, (task.parent_pid, task.parent_tid));
                }
                // The kernel counts from here.
                if let Some(counts) = self.counted.get_mut(&task.tid) {
                    counts.retain(|count| count.time > task.time.0);
                    counts.insert(0, Schedstat { time: task.time.0, running: 0, runnable: 0 });
                }
            }
            Record::Exit(task) if task.time.0 != 0 => {
                self.pass_gaps(task.time);
                self.timeline.exited(task.tid, task.time);
                self.ended.push(task.tid);
                if let Some(command) = self.command.as_mut().filter(|command| command.tid == task.tid) {
                    command.end = task.time.0;
                }
            }
            Record::Mmap(map) => self.timeline.revived(map.pid, map.tid),
            Record::Comm(comm) => {
                let time = comm.sample_id.time.filter(|time| time.0 != 0);
                match time {
                    None if comm.comm == PRE_EXEC_COMM => self.waiting_command = Some(comm.tid),
                    None => self.timeline.exists(comm.pid, comm.tid),
                    Some(time) if comm.exec && self.waiting_command == Some(comm.tid) => {
                        self.pass_gaps(time);
                        self.waiting_command = None;
                        self.lives.remove(&comm.tid);
                        self.command = Some(Command { tid: comm.tid, start: time.0, end: 0 });
                        self.timeline.restarted(comm.pid, comm.tid, time, comm.sample_id.cpu);
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
}

/// Returns where an address lies behind the code of an object: the kernel says nothing of memory that is not code, but variables follow the
/// code of their object, at the distance that the linker gave them.
fn variable_at(tracker: &Tracker, pid: Pid, address: Avma) -> Option<Variable> {
    let before =
        tracker.recorded_mappings(pid).filter(|mapping| mapping.executable && mapping.start <= address);
    let code =
        before.max_by_key(|mapping| mapping.start).filter(|mapping| mapping.kind == MappingKind::Image)?;
    Some(Variable { space: code.space, place: (FileOffset(code.offset), address.0 - code.start.0) })
}

fn add(sum: &mut Count, count: Count) {
    sum.samples = sum.samples.saturating_add(count.samples);
    sum.period = sum.period.saturating_add(count.period);
}
