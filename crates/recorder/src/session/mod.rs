//! Runs a recording from opening the events to the summary: starts threads, waits for messages, and finishes rounds.

mod finish;
mod outside;
mod pace;
mod privileged_execs;
mod rounds;
mod switches;
mod upkeep;

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use decoder::{AttrFlags, RecordLayout, StackCopyLocator};
use host::procfs;
use host::sys::clock::{self, CpuTime};
use host::sys::schedule::{PriorityGuard, RealtimeGuard};
use host::sys::spawn::{Child, ExitStatus, WaitingChild};
use host::sys::system;
use model::{Loss, Pid};
use perfdata::sections::WatchedTime;

use crate::consumer::{Chunk, Consumer, DrainStats, Observed, RecordObserver, Recording, RingKind, Tasks};
use crate::control::messages::{self, Inbox, Message, Outbox};
use crate::control::{
    Answers, CommandThread, ConditionThread, Control, DumpRequests, SlowCallDetector, Watcher, workload,
};
use crate::counting::CountsBeside;
use crate::error::Error;
use crate::mapped_files::{MappedFiles, MappingObserver};
use crate::members::MemberFilter;
use crate::notice::Notice;
use crate::open::{
    DuplicateFilter, EventIdMap, Opened, TaskClocks, TaskReports, describe_events, lost_samples, never_ran,
    open, processes, require_perf_events, whole_cpu_rate,
};
use crate::options::{Options, Target};
use crate::processes::{JvmMapRequester, ProcessResources, Synthesis};
use crate::ring::{DrainOptions, Readers};
use crate::summary::{Summary, Tally, Throttling};
use crate::unwind::Mechanisms;
use crate::waits::{OutsideReader, POLL_INTERVAL, SwitchSampler};
use outside::Next;
use pace::{MIN_INTERVAL, Pace};
use privileged_execs::PrivilegedExecs;
use upkeep::Upkeep;

/// Longest interval between rounds, in which all rings are drained.
const MAX_ROUND_INTERVAL: Duration = Duration::from_millis(100);
/// Longest interval between rounds with [`Options::low_memory`]: several rounds per redraw of a view.
const LOW_MEMORY_ROUND_INTERVAL: Duration = Duration::from_millis(250);
/// Longest interval between checkpoints.
const MAX_CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of bytes that wait between the readers and the session.
const MAX_WAITING_BYTES: u64 = 64 << 20;
/// The same with [`Options::low_memory`].
const LOW_MEMORY_WAITING_BYTES: u64 = 16 << 20;

/// Records the target of `options` until it ends, its duration is over, or `control` stops it. Blocks the calling thread, which makes
/// all calls to `consumer`, `observers` and `notices`.
///
/// # Errors
/// [`Error`] if nothing can be recorded, or the consumer fails. A command that was started before is waited for.
pub fn record(
    options: &Options,
    control: &Control,
    consumer: &mut dyn Consumer,
    observers: Vec<&mut dyn RecordObserver>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Summary, Error> {
    require_perf_events()?;
    if !system::shows_our_pids() {
        notices(Notice::ForeignProc);
    }
    // The fork comes first, while there is only one thread.
    let waiting = options.workload.as_ref().map(|workload| workload::fork(workload, control)).transpose()?;
    let pid = waiting.as_ref().map(WaitingChild::pid);
    let beside = CountsBeside::open(options, pid);
    // With thousands of busy threads this thread would get little CPU time: to open the events of each of them, and later to consume
    // records before the memory for them, and then the rings, are full.
    let _priority = PriorityGuard::acquire();
    let mut slow_calls =
        (!options.slow_calls.is_empty()).then(|| SlowCallDetector::new(options.slow_calls.clone()));
    let mut jvm_maps = options.jvm_maps.map(JvmMapRequester::new);
    let own = [
        slow_calls.as_mut().map(|observer| observer as &mut dyn RecordObserver),
        jvm_maps.as_mut().map(|observer| observer as &mut dyn RecordObserver),
    ];
    let observers =
        own.into_iter().flatten().chain(observers.into_iter().map(|observer| observer as _)).collect();
    let consumer = &mut Observed::new(consumer, observers);
    match prepare(options, pid, consumer, notices) {
        Ok(mut prepared) => {
            let Some(pids) = prepared.opened.members.take() else {
                let summary = prepared.run(options, control, consumer, notices, waiting)?;
                let counts = beside.read();
                return Ok(Summary { whole_cpu_rate: whole_cpu_rate(options), counts, ..summary });
            };
            // Samples of the forked child before its exec are not the command's.
            let child = pid.filter(|_| options.target == Target::Command);
            let kept_ids = prepared.opened.everywhere_ids();
            let settings = (options.inherit, options.in_parts);
            let members = MemberFilter::new(consumer, &pids, child, kept_ids, settings);
            let mut members = members.with_recording(&prepared.recording);
            prepared.opened.excluded = Some(members.excluded());
            let mut summary = prepared.run(options, control, &mut members, notices, waiting)?;
            summary.counts = beside.read();
            summary.samples = summary.samples.saturating_sub(members.removed);
            summary.loss.samples = members.share_of(summary.loss.samples);
            for (place, coverage) in summary.coverage.events.iter_mut().enumerate() {
                (coverage.samples, coverage.sampled) = members.tally.of(place);
            }
            Ok(summary)
        }
        Err(error) => {
            if let Some(waiting) = waiting {
                waiting.cancel();
            }
            Err(error)
        }
    }
}

/// A recording whose events are open, and whose readers and command do not run yet.
struct Prepared {
    opened: Opened,
    recording: Recording,
    layout: RecordLayout,
    watched: Option<WatchedTime>,
    /// True if the target is a command, from its start on, with all that it starts.
    is_of_whole_command: bool,
    /// The CPU time of commands that this process has recorded before.
    cpu_time_before: CpuTime,
}

fn prepare(
    options: &Options,
    child: Option<Pid>,
    consumer: &mut dyn Consumer,
    notices: &mut dyn FnMut(Notice),
) -> Result<Prepared, Error> {
    let opened = open(options, child, notices)?;
    let mut recording = describe_events(&opened)?;
    let sideband = &opened.sideband.attr;
    let has_clock = sideband.flags.contains(AttrFlags::USE_CLOCKID);
    recording.files = MappedFiles::start(has_clock.then_some(sideband.clockid))?;
    recording.resources = ProcessResources::new(options.services);
    if options.users {
        recording.resources.note_users();
    }
    let layout = recording
        .layout(recording.events.len() - 1)
        .ok_or(Error::NoPerfEvents("the layout of this kernel's records is not known"))?;
    consumer.begin(&recording).map_err(|errno| Error::Consumer { errno, kept: false })?;
    // The kernel adds up the time of all of the command's threads and children, on all CPUs.
    let is_of_whole_command = options.target == Target::Command
        && options.delay.is_none()
        && options.cpus.is_none()
        && options.inherits()
        && !options.threads_only;
    let cpu_time_before = clock::cpu_time_of_children();
    Ok(Prepared { opened, recording, layout, watched: None, is_of_whole_command, cpu_time_before })
}

impl Prepared {
    fn run(
        mut self,
        options: &Options,
        control: &Control,
        consumer: &mut dyn Consumer,
        notices: &mut dyn FnMut(Notice),
        waiting: Option<WaitingChild>,
    ) -> Result<Summary, Error> {
        let cpus = if options.per_thread { self.opened.cpus.len() } else { self.opened.rings.count() };
        let (outbox, messages) = messages::queue();
        let readers = match self.start_readers(cpus, options, &outbox) {
            Ok(readers) => readers,
            Err(error) => {
                if let Some(waiting) = waiting {
                    waiting.cancel();
                }
                return Err(error);
            }
        };
        self.watched = crate::waits::start_watching(options);
        let begin = Instant::now();
        let child = match self.start(options, waiting) {
            Ok(child) => child,
            Err(error) => {
                stop_readers(readers, &messages);
                return Err(error);
            }
        };
        let processes = workload::watched(options, child.as_ref());
        let watching = processes.len();
        let commands = CommandThread::start(control.take_commands(), outbox.clone());
        let pids = match (&options.target, &child) {
            (Target::Command, Some(child)) => vec![child.pid()],
            _ if options.dump_conditions.is_empty() || options.target.is_cpu_wide() => Vec::new(),
            _ => crate::open::processes(options).unwrap_or_default(),
        };
        let conditions = ConditionThread::start(options, pids, outbox.clone());
        let watcher = Watcher::start(control, processes, outbox);
        let (commands, answers) = match commands.map(Option::unzip) {
            Ok((thread, answers)) => (Ok(thread), answers),
            Err(error) => (Err(error), None),
        };
        let own = child.as_ref().map(Child::pid);
        let outside = OutsideReader::new(options, &self.opened, &self.recording, own);
        let has_task_events = self.opened.whole_cpus.is_none();
        let cpus_of_task = if options.per_thread { 1 } else { self.opened.cpus.len().max(1) };
        let opened_tasks = self.opened.sideband.instances.len() / cpus_of_task;
        let tasks = Tasks { all: opened_tasks as u64, ended: 0, cpus: cpus_of_task as u64 };
        let mut session = Session {
            consumer,
            notices,
            readers,
            messages,
            mappings: self.observer(),
            event_ids: EventIdMap::default(),
            duplicates: None,
            removed: 0,
            switches: SwitchSampler::new(options, &self.opened),
            are_switches_due: false,
            has_small_copies: false,
            outside,
            counted: DrainStats::default(),
            lost_sideband: 0,
            tally: Tally::new(&self.recording.events),
            task_reports: self.opened.task_clocks.as_ref().map(TaskClocks::reports),
            privileged_execs: has_task_events
                .then(|| PrivilegedExecs::new(self.layout.clone(), self.recording.files.clone())),
            throttling: Throttling::default(),
            tasks: has_task_events.then_some(tasks),
            requests: DumpRequests::default(),
            answers,
            round: None,
            left: watching,
            child,
            exit: None,
            failure: None,
            kept: false,
        };
        // Kept until `finish` has answered the last commands.
        let mut _command_thread = None;
        let started = watcher.and_then(|watcher| commands.map(|commands| (watcher, commands)));
        let result = started.and_then(|(watcher, commands)| {
            let _conditions = conditions?;
            _command_thread = commands;
            session.describe_existing(&self, options)?;
            if options.delay.is_some() {
                if session.run_until(&mut self.opened, options, begin, Pause::Delay) {
                    return Ok(());
                }
                self.enable(options.staggered)?;
                self.watched = session.begin_watching(crate::waits::start_watching(options));
            }
            session.run_until(&mut self.opened, options, Instant::now(), Pause::None);
            drop(watcher);
            Ok(())
        });
        self.disable();
        self.watched = self.watched.map(|watched| crate::waits::stop_watching(watched, options));
        let duration = begin.elapsed();
        session.last_round();
        let lost = lost_samples(&self.opened);
        for (event, why) in never_ran(&self.opened) {
            (session.notices)(Notice::NeverRan { event, why });
        }
        session.finish(self, duration, lost, cpus, result)
    }

    fn observer(&self) -> MappingObserver {
        MappingObserver::new(self.recording.files.clone(), self.layout.clone())
    }

    /// Starts a reader for each CPU, also if each ring belongs to a thread.
    fn start_readers(&mut self, cpus: usize, options: &Options, outbox: &Outbox) -> Result<Readers, Error> {
        let per_reader = self.opened.take_rings(cpus);
        let stack_copies = StackCopyLocator::new(self.opened.events.iter().map(|event| &event.attr));
        let waiting_bytes = if options.low_memory { LOW_MEMORY_WAITING_BYTES } else { MAX_WAITING_BYTES };
        let mappings = Some(self.observer());
        let drain = DrainOptions { stack_copies, excluded: self.opened.excluded.clone(), mappings };
        Readers::start(per_reader, drain, waiting_bytes, outbox)
    }

    /// Starts sampling, and lets the child become the command.
    fn start(&mut self, options: &Options, waiting: Option<WaitingChild>) -> Result<Option<Child>, Error> {
        // The exec of a command that is the target enables its events, so that its first instruction is sampled. Events of whole CPUs
        // cannot be enabled by an exec: they are enabled here, while the child waits.
        let by_exec = options.target == Target::Command && self.opened.whole_cpus.is_none();
        self.opened.state.enabled |= by_exec && options.delay.is_none();
        if !by_exec
            && options.delay.is_none()
            && let Err(error) = self.enable(options.staggered)
        {
            waiting.into_iter().for_each(WaitingChild::cancel);
            return Err(error);
        }
        waiting.map(|waiting| workload::start(waiting, options)).transpose()
    }

    /// Enables all events. This has to be quick: the first events sample while the last ones are not enabled yet, and the rings are
    /// not drained meanwhile. `staggered` is the time of a few samples.
    fn enable(&mut self, staggered: Option<Duration>) -> Result<(), Error> {
        let _realtime = RealtimeGuard::acquire();
        self.opened.enable(staggered)
    }

    /// Disables all events. This has to be quick: the last events sample while the first ones are disabled already, and the rings are
    /// not drained meanwhile.
    fn disable(&self) {
        let _realtime = RealtimeGuard::acquire();
        self.opened.disable();
    }
}

fn stop_readers(mut readers: Readers, messages: &Inbox) {
    let (mut left, round) = readers.begin_last_round();
    while left > 0 {
        match messages.next(None) {
            Ok(Message::Answer(answer)) if answer == round => left -= 1,
            Ok(Message::Chunk(chunk)) => readers.recycle(Some(chunk.bytes)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    readers.join();
}

/// The phase of sampling that [`Session::run_until`] waits for the end of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// Sampling has not begun, because [`Options::delay`] is not over.
    Delay,
    /// Sampling runs.
    None,
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
    /// True if a round is to begin, because the number of switches in the last window decides on the next one.
    are_switches_due: bool,
    /// True once stacks of waits have had smaller copies than was asked for.
    has_small_copies: bool,
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
    /// Sends records of what existed before to the consumer, and then calls its `started`.
    fn describe_existing(&mut self, prepared: &Prepared, options: &Options) -> Result<(), Error> {
        if prepared.opened.doubtful {
            let ids = prepared.opened.ids_apart()?;
            let format = prepared.opened.events.first().map(|event| event.attr.sample_format);
            self.duplicates =
                Some(DuplicateFilter::new(ids.iter().map(Vec::as_slice), format.unwrap_or_default()));
        }
        // Time before the end of a delay is not watched.
        self.begin_watching(prepared.watched.filter(|_| options.delay.is_none()));
        let Recording { kernel, files, .. } = &prepared.recording;
        let mut synthesis = Synthesis::new(&prepared.layout, options.extras, files);
        synthesis.kernel(kernel);
        synthesis.cgroups();
        match (&options.target, &self.child) {
            (Target::Command, Some(child)) => synthesis.child(child.pid()),
            (target, _) => {
                let pids =
                    if target.is_cpu_wide() { procfs::processes().ok() } else { processes(options).ok() };
                pids.into_iter().flatten().for_each(|pid| synthesis.process(pid));
            }
        }
        let bytes = synthesis.finish();
        self.consume(Chunk::new(RingKind::Sideband, bytes));
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
                self.watch_switches(now, opened);
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
                self.follow_cpus(opened, options);
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
                Ok(message) => {
                    self.handle(message);
                    if self.resize_copies(opened) {
                        // The pace was learned with another size of copies.
                        pace = Pace::new(slowest);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
        true
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
                        self.requests.finished_round(self.consumer);
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
