//! A recording from its beginning to its end.

mod outside;
mod pace;
mod rounds;
mod switches;
mod upkeep;

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use decoder::{RecordLayout, StackCopyLocator};
use host::procfs;
use host::sys::clock;
use host::sys::schedule::{PriorityGuard, RealtimeGuard};
use host::sys::spawn::{Child, ExitStatus, WaitingChild};
use model::{Loss, Pid};
use perfdata::sections::WatchedTime;

use crate::consumer::{Chunk, Consumer, DrainStats, Ending, LostCount, Recording, RingKind};
use crate::control::messages::{self, Inbox, Message, Outbox};
use crate::control::{
    Answers, CommandThread, ConditionThread, Control, DumpRequests, SlowCallDetector, Watcher, workload,
};
use crate::error::Error;
use crate::members::MemberFilter;
use crate::notice::Notice;
use crate::open::{DuplicateFilter, Numbers, Opened, TaskClocks, TaskReports, open, processes};
use crate::options::{Options, Target};
use crate::processes::{JvmMapRequester, Synthesis};
use crate::ring::{DrainOptions, Readers};
use crate::summary::{Command, RunningCommand, Summary, Tally, coverage, lost_samples};
use crate::unwind::Mechanisms;
use crate::waits::{OutsideReader, SwitchSampler};
use outside::Next;
use pace::{Pace, SOON};
use upkeep::Upkeep;

/// The interval at which all rings are emptied and a round is finished.
const ROUND: Duration = Duration::from_millis(100);
/// The same interval for a view that is to be light: several times for each time that it is drawn.
const LIGHT_ROUND: Duration = Duration::from_millis(250);
/// The interval at which the recording is made readable.
const CHECKPOINT: Duration = Duration::from_millis(500);
/// Bytes that wait between the readers and the writer,
const WAITING: u64 = 64 << 20;
/// The same bound where the recording is to be light.
const LIGHT_WAITING: u64 = 16 << 20;

/// Records the target of `options` until it ends, the time is over, or `control` stops it.
///
/// # Errors
/// [`Error`]: where nothing can be recorded, or the consumer fails. A command that was started before the failure
/// is waited for.
pub fn record(
    options: &Options,
    control: &Control,
    consumer: &mut dyn Consumer,
    notices: &mut dyn FnMut(Notice),
) -> Result<Summary, Error> {
    require_perf_events()?;
    // First of all, while there is only one thread.
    let waiting = options.workload.as_ref().map(|workload| workload::fork(workload, control)).transpose()?;
    let pid = waiting.as_ref().map(WaitingChild::pid);
    // Among thousands of busy threads, opening events for each of them has to get its turn. Later, records that wait for
    // long fill all memory that there is for them, and then their rings.
    let _urgent = PriorityGuard::acquire();
    let mut watch;
    let consumer: &mut dyn Consumer = if options.slow_calls.is_empty() {
        consumer
    } else {
        watch = SlowCallDetector::new(consumer, options.slow_calls.clone());
        &mut watch
    };
    let mut asking;
    let consumer: &mut dyn Consumer = match options.jvm_maps {
        None => consumer,
        Some(when) => {
            asking = JvmMapRequester::new(consumer, when);
            &mut asking
        }
    };
    match prepare(options, pid, consumer, notices) {
        Ok(mut prepared) => {
            let Some(pids) = prepared.opened.members.take() else {
                return prepared.run(options, control, consumer, notices, waiting);
            };
            // A command's own samples begin with its exec.
            let child = pid.filter(|_| options.target == Target::Command);
            let mut members = MemberFilter::new(consumer, &pids, child, (options.inherit, options.in_parts));
            prepared.opened.excluded = Some(members.excluded());
            let mut summary = prepared.run(options, control, &mut members, notices, waiting)?;
            summary.samples = summary.samples.saturating_sub(members.removed);
            summary.loss.samples = members.share_of(summary.loss.samples);
            for (place, coverage) in summary.coverage.iter_mut().enumerate() {
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

/// Refuses where the kernel has no perf events at all.
pub(crate) fn require_perf_events() -> Result<(), Error> {
    match host::sysctl::perf_event_paranoid() {
        Some(_) => Ok(()),
        None => Err(Error::NoPerfEvents(
            "this kernel has no perf events (or /proc is not mounted): /proc/sys/kernel/perf_event_paranoid is missing",
        )),
    }
}

/// Everything is open, nothing runs yet.
struct Prepared {
    opened: Opened,
    recording: Recording,
    layout: RecordLayout,
    watched: Option<WatchedTime>,
}

fn prepare(
    options: &Options,
    child: Option<Pid>,
    consumer: &mut dyn Consumer,
    notices: &mut dyn FnMut(Notice),
) -> Result<Prepared, Error> {
    let opened = open(options, child, notices)?;
    let recording = opened.recording()?;
    let layout = recording
        .layout(recording.events.len() - 1)
        .ok_or(Error::NoPerfEvents("the layout of this kernel's records is not known"))?;
    consumer.begin(&recording).map_err(|errno| Error::Consumer { errno, kept: false })?;
    Ok(Prepared { opened, recording, layout, watched: None })
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
        let cpus = if options.per_thread { self.opened.cpus.len() } else { self.opened.rings.len() };
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
        let mut run = Run {
            consumer,
            notices,
            readers,
            messages,
            numbers: Numbers::default(),
            duplicates: None,
            removed: 0,
            switches: SwitchSampler::new(options),
            outside,
            counted: DrainStats::default(),
            lost_sideband: 0,
            tally: Tally::new(&self.recording.events),
            task_reports: self
                .opened
                .task_clocks
                .as_ref()
                .filter(|clocks| clocks.has_reports())
                .map(TaskClocks::reports),
            requests: DumpRequests::default(),
            answers,
            round: None,
            left: watching,
            child,
            exit: None,
            failure: None,
            kept: false,
        };
        // It answers as long as there is something to answer.
        let mut _command_thread = None;
        let started = watcher.and_then(|watcher| commands.map(|commands| (watcher, commands)));
        let result = started.and_then(|(watcher, commands)| {
            let _conditions = conditions?;
            _command_thread = commands;
            run.begin(&self, options)?;
            if options.delay.is_some() {
                if run.until_the_end(&mut self.opened, options, begin, Pause::Delay) {
                    return Ok(());
                }
                self.enable()?;
                self.watched = run.begin_watching(crate::waits::start_watching(options));
            }
            run.until_the_end(&mut self.opened, options, Instant::now(), Pause::None);
            drop(watcher);
            Ok(())
        });
        self.disable();
        self.watched = self.watched.map(|watched| crate::waits::stop_watching(watched, options));
        let duration = begin.elapsed();
        run.last_round();
        let lost = self.opened.lost();
        for (event, why) in self.opened.never_ran() {
            (run.notices)(Notice::NeverRan { event, why });
        }
        run.finish(self, duration, lost, cpus, result)
    }

    /// Starts a reader for each CPU, also where the rings are those of threads.
    fn start_readers(&mut self, cpus: usize, options: &Options, outbox: &Outbox) -> Result<Readers, Error> {
        let per_reader = self.opened.take_rings(cpus);
        let stack_copies = StackCopyLocator::new(self.opened.events.iter().map(|event| &event.attr));
        let waiting_bytes = if options.low_memory { LIGHT_WAITING } else { WAITING };
        let drain = DrainOptions { stack_copies, excluded: self.opened.excluded.take() };
        Readers::start(per_reader, drain, waiting_bytes, outbox)
    }

    /// Starts sampling, and lets the child become the command.
    fn start(&mut self, options: &Options, waiting: Option<WaitingChild>) -> Result<Option<Child>, Error> {
        // A command that is the target is sampled from its first instruction on: its exec enables the events. It cannot do so
        // for those of whole CPUs; until then, the child waits.
        let by_exec = options.target == Target::Command && self.opened.whole_cpus.is_none();
        if !by_exec
            && options.delay.is_none()
            && let Err(error) = self.enable()
        {
            waiting.into_iter().for_each(WaitingChild::cancel);
            return Err(error);
        }
        waiting.map(|waiting| workload::start(waiting, options)).transpose()
    }

    /// Starts sampling. The first samples come while the last events wait for it, and nobody takes them yet.
    fn enable(&mut self) -> Result<(), Error> {
        let _at_once = RealtimeGuard::acquire();
        self.opened.enable()
    }

    /// Stops sampling. The last samples come while the first events have stopped, and nobody takes them.
    fn disable(&self) {
        let _at_once = RealtimeGuard::acquire();
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

/// The phase of sampling in which [`Run::until_the_end`] waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// Sampling has not begun.
    Delay,
    /// It runs.
    None,
}

/// The writer's side of a running recording.
struct Run<'a> {
    consumer: &'a mut dyn Consumer,
    notices: &'a mut dyn FnMut(Notice),
    readers: Readers,
    messages: Inbox,
    numbers: Numbers,
    duplicates: Option<DuplicateFilter>,
    removed: u64,
    /// True if all switches are recorded, or those of some moments.
    switches: Option<SwitchSampler>,
    /// The reader of blocked threads' stacks.
    outside: Option<OutsideReader>,
    counted: DrainStats,
    /// The number of records that the sideband rings had no room for.
    lost_sideband: u64,
    tally: Tally,
    task_reports: Option<TaskReports>,
    requests: DumpRequests,
    /// To those who sent commands.
    answers: Option<Answers>,
    /// The running round: its number, and how many readers have not answered.
    round: Option<(u64, usize)>,
    /// Processes of the target that live.
    left: usize,
    child: Option<Child>,
    exit: Option<ExitStatus>,
    failure: Option<io::Error>,
    /// True if what was written can be found, should the rest fail.
    kept: bool,
}

impl Run<'_> {
    /// Describes what existed before.
    fn begin(&mut self, prepared: &Prepared, options: &Options) -> Result<(), Error> {
        if prepared.opened.doubtful {
            let ids = prepared.opened.ids_apart()?;
            let format = prepared.opened.events.first().map(|event| event.attr.sample_format);
            self.duplicates =
                Some(DuplicateFilter::new(ids.iter().map(Vec::as_slice), format.unwrap_or_default()));
        }
        // What is before the end of a delay is nobody's time.
        self.begin_watching(prepared.watched.filter(|_| options.delay.is_none()));
        let mut synthesis = Synthesis::new(&prepared.layout, options.extras);
        synthesis.kernel();
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
        self.take(Chunk { ring: RingKind::Sideband, bytes, drained: DrainStats::default() });
        let bytes = prepared.opened.early.clone();
        if self.failure.is_none() {
            let result = self.consumer.started();
            // What is kept in memory only is not.
            self.kept = result.is_ok() && !options.in_parts;
            self.note(result);
        }
        self.take(Chunk { ring: RingKind::Sideband, bytes, drained: DrainStats::default() });
        Ok(())
    }

    /// Takes what the readers bring, until something ends the recording: true; or the delay is over: false.
    fn until_the_end(
        &mut self,
        opened: &mut Opened,
        options: &Options,
        begin: Instant,
        pause: Pause,
    ) -> bool {
        let duration = if pause == Pause::Delay { options.delay } else { options.duration };
        let end = duration.and_then(|duration| begin.checked_add(duration));
        let mut checkpoint = 2 * SOON;
        let slowest = match options.low_memory {
            // Copies of stacks wait in memory for the end of their round.
            true if options.copies_stacks() => LIGHT_ROUND,
            true => 2 * LIGHT_ROUND,
            false => ROUND,
        };
        let slowest = match options.mechanisms.contains(Mechanisms::PACE) {
            true => slowest,
            false => SOON,
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
            let interval = pace.time(self.consumer.wants_round_soon());
            if self.round_is_due(now, last_round + interval) {
                let written = self.readers.take_max_written();
                if self.round.is_none() {
                    self.begin_round();
                }
                pace.adapt(now - last_round, written);
                self.readers.set_reader_threshold(pace.waits_until());
                last_round = now;
            }
            self.tell_reports();
            if now >= next_checkpoint {
                let result = self.consumer.checkpoint();
                self.note(result);
                self.look_after_cpus(opened, options);
                upkeep.release_memory(&self.readers);
                checkpoint = (2 * checkpoint).min(CHECKPOINT);
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
                    if let Some(size) = self.consumer.wanted_copy_size()
                        && opened.set_copy_size(size)
                    {
                        // How fast rings fill up was learned with other copies.
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
            Message::Chunk(chunk) => self.take(chunk),
            Message::Answer(round) => {
                if let Some((current, left)) = &mut self.round
                    && *current == round
                {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.round = None;
                        let result = self.consumer.finished_round();
                        self.note(result);
                        self.requests.finished_round(self.consumer);
                    }
                }
            }
            Message::Outside(_) => {}
        }
    }

    fn take(&mut self, mut chunk: Chunk) {
        if chunk.ring == RingKind::TaskTimes {
            // What is damaged in this ring is expected to be, and known from the sum of all times.
            self.task_reports.iter_mut().for_each(|reports| reports.check(&mut chunk.bytes));
            (chunk.ring, chunk.drained) = (RingKind::Sideband, DrainStats::default());
        }
        self.counted.samples += chunk.drained.samples;
        self.counted.throttles += chunk.drained.throttles;
        self.counted.bad_bytes += chunk.drained.bad_bytes;
        if let Some(outside) = self.outside.as_mut().filter(|_| chunk.ring == RingKind::Sideband) {
            outside.learn(&chunk.bytes);
        }
        let lost = match chunk.ring {
            RingKind::Samples => &mut self.counted.lost,
            RingKind::Sideband | RingKind::TaskTimes => &mut self.lost_sideband,
        };
        *lost = lost.saturating_add(chunk.drained.lost);
        if chunk.drained.bad_bytes > 0 {
            self.consumer.add_loss(Loss { cut_bytes: chunk.drained.bad_bytes, ..Loss::default() });
        }
        self.numbers.apply(&mut chunk.bytes);
        if let Some(duplicates) = &mut self.duplicates {
            let removed = duplicates.remove(&mut chunk.bytes);
            self.removed += removed;
            self.counted.samples = self.counted.samples.saturating_sub(removed);
        }
        if chunk.ring == RingKind::Samples {
            self.tally.add(&chunk.bytes);
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

    fn note(&mut self, result: io::Result<()>) {
        if self.failure.is_none() {
            self.failure = result.err();
        }
    }

    fn finish(
        mut self,
        prepared: Prepared,
        duration: Duration,
        lost: Option<Vec<LostCount>>,
        cpus: usize,
        result: Result<(), Error>,
    ) -> Result<Summary, Error> {
        let full_rings = if lost.is_none() { self.readers.full_rings() } else { 0 };
        if self.failure.is_none() {
            let task_times = match (&prepared.opened.task_clocks, &self.task_reports) {
                (Some(clocks), Some(reports)) => clocks.rest(reports),
                _ => Vec::new(),
            };
            let (exit, watched) = (self.exit, prepared.watched);
            let switches =
                self.switches.take().and_then(|switches| switches.finish(watched?.end, self.outside.iter()));
            let (lost, stacks) = (lost.clone(), None);
            let ending = Ending { lost, full_rings, stacks, task_times, exit, watched, switches };
            self.failure = self.consumer.end(&ending).err();
        }
        self.tell_reports();
        self.readers.join();
        let exit =
            self.exit.or_else(|| self.child.as_ref().and_then(|child| child.try_wait().ok().flatten()));
        let error = match (result, self.failure) {
            (Err(error), _) => Some(error),
            (Ok(()), Some(errno)) => {
                let kept = self.kept && errno.kind() != io::ErrorKind::NotFound;
                Some(Error::Consumer { errno, kept })
            }
            (Ok(()), None) => None,
        };
        if let Some(error) = error {
            if let Some(child) = self.child.filter(|_| exit.is_none()) {
                (self.notices)(Notice::CommandGoesOn { because: error.to_string() });
                // How it ends is not ours to tell any more: our failure wins over its code.
                let _ = child.wait();
            }
            return Err(error);
        }
        let samplers = prepared.opened.samplers().count();
        let (samples, sideband) = (self.counted.lost, self.lost_sideband);
        let rings = Loss { samples, sideband, unread: full_rings, ..Loss::default() };
        let loss = Loss {
            throttles: self.counted.throttles,
            cut_bytes: self.counted.bad_bytes,
            ..lost_samples(rings, lost.as_deref(), samplers)
        };
        let command = match (self.child, exit) {
            (_, Some(status)) => Some(Command::Ended(status)),
            (Some(child), None) => Some(Command::Running(RunningCommand { child })),
            (None, None) => None,
        };
        let ended = matches!(command, Some(Command::Ended(_)));
        let cpu_time = ended.then(clock::cpu_time_of_children);
        Ok(Summary {
            coverage: coverage(&prepared.opened, &self.tally, cpu_time),
            events: prepared.recording.events,
            cpus,
            samples: self.counted.samples,
            duplicates: self.removed,
            loss,
            duration,
            cpu_time,
            has_task_times: self.task_reports.is_some(),
            unrecorded_children: prepared.opened.unrecorded_children,
            command,
        })
    }
}
