//! Runs a recording: waits for messages of the threads that read rings and watch the target, begins and finishes rounds, and does what is due
//! in between. `prepared` opens the events and starts these threads, `finish` makes the summary.

mod finish;
mod outside;
mod pace;
mod prepared;
mod privileged_execs;

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use host::procfs;
use host::sys::memory;
use host::sys::spawn::{Child, ExitStatus};
use model::{Loss, Pid};

use crate::consumer::{Chunk, Consumer, DrainStats, RingKind, SwitchUpdate, Tasks};
use crate::control::messages::{Inbox, Message};
use crate::control::{Answers, DumpRequests};
use crate::error::Error;
use crate::mapped_files::MappingObserver;
use crate::notice::Notice;
use crate::open::{DuplicateFilter, EventIdMap, Opened, TaskReports, lost_samples, name_lost_cpus};
use crate::options::Options;
use crate::ring::Readers;
use crate::summary::{Tally, Throttling};
use crate::unwind::{Mechanisms, RELEASE_INTERVAL};
use crate::waits::{OutsideReader, POLL_INTERVAL, SwitchLog, SwitchSampler};
use outside::Next;
use pace::{MIN_INTERVAL, Pace};
use prepared::Prepared;
use privileged_execs::PrivilegedExecs;

pub use prepared::record;

/// Longest interval between rounds, in which all rings are drained.
const MAX_ROUND_INTERVAL: Duration = Duration::from_millis(100);
/// Longest interval between rounds with [`Options::low_memory`]: several rounds per redraw of a view.
const LOW_MEMORY_ROUND_INTERVAL: Duration = Duration::from_millis(250);
/// Time per round for unwinding samples in their rings; after it, samples are copied out of the rings with their stacks.
const MAX_UNWIND_TIME: Duration = Duration::from_millis(3);
/// Longest interval between checkpoints.
const MAX_CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);

/// The phase of sampling that [`Session::run_until`] waits for the end of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// Sampling has not begun, because [`Options::delay`] is not over.
    Delay,
    /// Nothing keeps events from being sampled.
    None,
}

/// Releases unused memory regularly, if the recording is one that stays open.
struct Upkeep {
    stays_open: bool,
    released: Instant,
}

impl Upkeep {
    fn new(options: &Options) -> Self {
        Self { stays_open: options.low_memory || options.in_parts, released: Instant::now() }
    }

    /// Releases unused memory to the system, if the last release is long enough ago.
    fn release_memory(&mut self, readers: &Readers) {
        if self.stays_open && self.released.elapsed() >= RELEASE_INTERVAL {
            self.released = Instant::now();
            readers.release_unused();
            memory::release_freed();
        }
    }
}

/// A running recording: the state of the thread that consumes records.
struct Session<'a> {
    consumer: &'a mut dyn Consumer,
    notices: &'a mut dyn FnMut(Notice),
    readers: Readers,
    messages: Inbox,
    mappings: MappingObserver,
    event_ids: EventIdMap,
    duplicates: Option<DuplicateFilter>,
    removed: u64,
    /// Decides when switches are recorded, if they are watched.
    switches: Option<SwitchSampler>,
    /// What the file is to say of them.
    switch_log: SwitchLog,
    /// True if a round is to begin, because the number of switches in the last window decides on the next one.
    are_switches_due: bool,
    /// Reads the stacks of blocked threads, if waits are recorded.
    outside: Option<OutsideReader>,
    counted: DrainStats,
    /// Number of records that the sideband rings had no room for, as their LOST records say.
    lost_sideband: u64,
    tally: Tally,
    task_reports: Option<TaskReports>,
    /// Finds processes whose events the kernel has ended, where these are of tasks.
    privileged_execs: Option<PrivilegedExecs>,
    throttling: Throttling,
    tasks: Option<Tasks>,
    requests: DumpRequests,
    /// The way to answer commands, if there are any.
    answers: Option<Answers>,
    /// The number of the running round, and how many readers have not finished it.
    round: Option<(u64, usize)>,
    /// Number of the target's processes that have not ended.
    left: usize,
    child: Option<Child>,
    exit: Option<ExitStatus>,
    failure: Option<io::Error>,
    /// True if a failure from now on leaves a readable recording.
    kept: bool,
}

impl Session<'_> {
    /// Calls the consumer's `started`: what existed before has been consumed, and the command runs.
    fn begin(&mut self, prepared: &Prepared, options: &Options) -> Result<(), Error> {
        if prepared.opened.doubtful {
            let ids = prepared.opened.ids_apart()?;
            let format = prepared.opened.events.first().map(|event| event.attr.sample_format);
            self.duplicates =
                Some(DuplicateFilter::new(ids.iter().map(Vec::as_slice), format.unwrap_or_default()));
        }
        // Time before the end of a delay is not watched.
        if options.delay.is_none() {
            self.begin_watching(prepared, options);
        }
        let bytes = prepared.opened.early.clone();
        if self.failure.is_none() {
            let result = self.consumer.started();
            // Records of a window are in memory only, and are lost by a failure.
            self.kept = result.is_ok() && !options.in_parts;
            self.keep_first_failure(result);
        }
        self.consume(Chunk::new(RingKind::Sideband, bytes));
        Ok(())
    }

    /// Consumes messages and runs rounds until something ends the recording (returns true), or the delay is over (returns false).
    fn run_until(&mut self, opened: &mut Opened, options: &Options, begin: Instant, pause: Pause) -> bool {
        let duration = if pause == Pause::Delay { options.delay } else { options.duration };
        let end = duration.and_then(|duration| begin.checked_add(duration));
        let mut checkpoint = 2 * MIN_INTERVAL;
        let slowest = match options.low_memory {
            // Stack copies wait in memory for the end of their round.
            true if options.copies_stacks() => LOW_MEMORY_ROUND_INTERVAL,
            true => 2 * LOW_MEMORY_ROUND_INTERVAL,
            false => MAX_ROUND_INTERVAL,
        };
        let slowest = match options.mechanisms.contains(Mechanisms::PACE) {
            true => slowest,
            false => MIN_INTERVAL,
        };
        let mut pace = Pace::new(slowest);
        let mut last_round = Instant::now();
        let mut next_checkpoint = Instant::now() + checkpoint;
        let mut upkeep = Upkeep::new(options);
        while self.failure.is_none() {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                if pause == Pause::Delay {
                    return false;
                }
                self.stop_command();
                return true;
            }
            if pause == Pause::None {
                self.watch_switches(now, opened, options);
            }
            let mut interval = pace.time(self.consumer.wants_round_soon());
            let is_in_gap = self.switches.as_ref().is_some_and(SwitchSampler::is_in_gap);
            if options.low_memory && is_in_gap && self.outside.is_some() {
                // New threads have to be known by the next poll: otherwise 5 % of a second of a shell that starts ten threads at a time
                // is unknown (`prof top --off-cpu --json`).
                interval = interval.min(POLL_INTERVAL);
            }
            if self.round_is_due(now, last_round + interval) {
                let written = self.readers.take_max_written();
                if self.round.is_none() {
                    self.begin_round();
                }
                pace.adapt(now - last_round, written);
                self.readers.set_reader_threshold(pace.max_waiting_fill());
                last_round = now;
            }
            self.forward_reports();
            self.follow_privileged_execs(opened, options);
            if now >= next_checkpoint {
                let result = self.consumer.checkpoint();
                self.keep_first_failure(result);
                if self.readers.take_filled()
                    && let Some(lost) = lost_samples(opened)
                {
                    self.consumer.set_lost(&lost);
                }
                name_lost_cpus(opened, options, self.notices);
                upkeep.release_memory(&self.readers);
                checkpoint = (2 * checkpoint).min(MAX_CHECKPOINT_INTERVAL);
                next_checkpoint = now + checkpoint;
            }
            let next_round = last_round + interval;
            let deadline = next_round.min(next_checkpoint).min(end.unwrap_or(next_round));
            let switches = self.switches.as_ref().and_then(SwitchSampler::deadline);
            let outside = self.outside.as_ref().filter(|_| pause == Pause::None).map(OutsideReader::deadline);
            let deadline = deadline.min(switches.unwrap_or(deadline)).min(outside.unwrap_or(deadline));
            match self.messages.next(Some(deadline)) {
                Ok(Message::Outside(event)) => match self.outside(event, opened, options, pause) {
                    Next::GoOn => {}
                    Next::Begin => return false,
                    Next::End => return true,
                },
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
        true
    }

    /// Begins a round: drains rings that hold little, and asks the readers for the others.
    fn begin_round(&mut self) {
        let (consumer, may_shorten) = (&mut self.consumer, self.duplicates.is_none());
        let until = Instant::now() + MAX_UNWIND_TIME;
        let mut shrink = |sample: &[u8], into: &mut Chunk| {
            may_shorten && Instant::now() < until && consumer.shorten_sample(sample, until, into)
        };
        let (readers, round) = self.readers.begin_round(&mut shrink);
        self.round = Some((round, readers));
    }

    /// Drains all rings for the last time and waits for the readers.
    fn last_round(&mut self) {
        let (readers, round) = self.readers.begin_last_round();
        self.round = Some((round, readers));
        while self.round.is_some() {
            match self.messages.next(None) {
                Ok(message) => self.handle(message),
                Err(_) => break,
            }
        }
    }

    /// Reports to the consumer that switches are watched from now on, if they are, and decides from now on when they are recorded.
    fn begin_watching(&mut self, prepared: &Prepared, options: &Options) {
        let updates: Vec<SwitchUpdate> = prepared.watched.map(SwitchUpdate::Watched).into_iter().collect();
        self.consumer.update_switches(&updates);
        self.switches = SwitchSampler::new(options, &prepared.opened);
    }

    /// Does the work that is due at `now`: pauses or resumes the recording of switches, reads blocked threads, and reports updates to
    /// the consumer.
    fn watch_switches(&mut self, now: Instant, opened: &mut Opened, options: &Options) {
        self.sample_switches(now, opened);
        self.read_outside(now);
        self.forward_switch_updates(options);
    }

    /// Pauses the recording of switches if there are too many, or resumes it.
    fn sample_switches(&mut self, now: Instant, opened: &mut Opened) {
        let Some(switches) = &mut self.switches else { return };
        let was_whole = switches.is_whole();
        let is_to_be_fetched = switches.step(now, opened);
        self.event_ids.reopened(opened.take_later_ids());
        if was_whole && !switches.is_whole() {
            let name = switches.busiest().and_then(|tid| procfs::comm(Pid(tid.0), tid).ok());
            (self.notices)(Notice::SwitchesSampled { busiest: name });
        }
        self.are_switches_due |= is_to_be_fetched;
        // A round that runs may have drained the rings too early.
        if self.are_switches_due && self.round.is_none() {
            self.are_switches_due = false;
            self.begin_round();
        }
    }

    /// Reports updates about switches to the consumer.
    fn forward_switch_updates(&mut self, options: &Options) {
        let mut updates = self.switches.as_mut().map(SwitchSampler::take_updates).unwrap_or_default();
        updates.extend(self.outside.iter_mut().flat_map(OutsideReader::take_updates));
        if self.switches.is_some() && !options.low_memory {
            updates.iter().for_each(|update| self.switch_log.add(update));
        }
        if !updates.is_empty() {
            self.consumer.update_switches(&updates);
        }
    }

    /// Reads the stacks of blocked threads and sends them to the consumer as samples.
    fn read_outside(&mut self, now: Instant) {
        let Some(outside) = &mut self.outside else { return };
        let bytes = outside.poll(now);
        if outside.is_refused() {
            (self.notices)(Notice::StacksRefused { ptrace_scope: host::sysctl::ptrace_scope() });
        }
        if !bytes.is_empty() {
            self.consume(Chunk::new(RingKind::Samples, bytes));
        }
    }

    /// Opens the events again on processes that have lost them, as far as that is permitted.
    fn follow_privileged_execs(&mut self, opened: &mut Opened, options: &Options) {
        let Some(mut execs) = self.privileged_execs.take_if(|execs| execs.are_due()) else { return };
        for exec in execs.take_due() {
            if let Some(reopened) = execs.reopen(exec, opened, options) {
                self.event_ids.extend(reopened.ids);
                self.consume(Chunk::new(RingKind::Sideband, reopened.records));
            }
        }
        self.privileged_execs = Some(execs);
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Chunk(chunk) => self.consume(chunk),
            Message::Answer(round) => {
                if let Some((current, left)) = &mut self.round
                    && *current == round
                {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.round = None;
                        self.privileged_execs.iter_mut().for_each(PrivilegedExecs::finish_round);
                        let result = self.consumer.finished_round();
                        self.keep_first_failure(result);
                        let result = self.requests.finished_round(self.consumer);
                        self.keep_first_failure(result);
                    }
                }
            }
            Message::Outside(_) => {}
        }
    }

    fn consume(&mut self, mut chunk: Chunk) {
        if chunk.ring == RingKind::TaskTimes {
            // Damaged records are expected in this ring; their times are known from the total.
            self.task_reports.iter_mut().for_each(|reports| reports.check(&mut chunk.bytes));
            (chunk.ring, chunk.drained) = (RingKind::Sideband, DrainStats::default());
        }
        self.counted.samples += chunk.drained.samples;
        self.counted.throttles += chunk.drained.throttles;
        self.counted.bad_bytes += chunk.drained.bad_bytes;
        if chunk.ring == RingKind::Sideband {
            self.outside.iter_mut().for_each(|outside| outside.learn(&chunk.bytes));
            self.privileged_execs.iter_mut().for_each(|execs| execs.apply(&chunk.bytes));
            self.tasks.iter_mut().for_each(|tasks| tasks.count(&chunk.bytes));
        }
        let lost = match chunk.ring {
            RingKind::Samples => &mut self.counted.lost,
            RingKind::Sideband | RingKind::TaskTimes => &mut self.lost_sideband,
        };
        *lost = lost.saturating_add(chunk.drained.lost);
        if chunk.drained.bad_bytes > 0 {
            self.consumer.add_loss(Loss { cut_bytes: chunk.drained.bad_bytes, ..Loss::default() });
        }
        if chunk.ring == RingKind::Sideband {
            self.mappings.observe_all(&mut chunk.bytes);
        }
        self.event_ids.apply(&mut chunk.bytes);
        if let Some(duplicates) = &mut self.duplicates {
            let removed = duplicates.remove(&mut chunk);
            self.removed += removed;
            self.counted.samples = self.counted.samples.saturating_sub(removed);
        }
        if chunk.ring == RingKind::Samples {
            self.tally.add(&chunk.bytes);
            if chunk.drained.throttles > 0 || self.throttling.is_throttled() {
                self.throttling.add(&chunk.bytes);
            }
            self.switches.iter_mut().for_each(|switches| switches.count(&chunk.bytes));
        }
        if self.failure.is_some() || chunk.bytes.is_empty() {
            return self.readers.recycle(Some(chunk.bytes));
        }
        match self.consumer.consume(chunk) {
            Ok(bytes) => self.readers.recycle(bytes),
            Err(error) => {
                self.failure = Some(error);
                self.readers.recycle(None);
            }
        }
    }

    fn keep_first_failure(&mut self, result: io::Result<()>) {
        if self.failure.is_none() {
            self.failure = result.err();
        }
    }
}
