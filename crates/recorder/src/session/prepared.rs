//! Prepares a recording: opens its events, and starts the threads that read rings, the command and its session.

use std::time::{Duration, Instant};

use decoder::{AttrFlags, RecordLayout, StackCopyLocator};
use host::procfs;
use host::sys::clock::{self, CpuTime};
use host::sys::schedule::{PriorityGuard, RealtimeGuard};
use host::sys::spawn::{Child, WaitingChild};
use host::sys::system;
use model::Pid;
use perfdata::sections::WatchedTime;

use super::privileged_execs::PrivilegedExecs;
use super::{Pause, Session};
use crate::consumer::{Chunk, Consumer, DrainStats, Observed, RecordObserver, Recording, RingKind, Tasks};
use crate::control::messages::{self, Inbox, Message, Outbox};
use crate::control::{CommandThread, ConditionThread, Control, DumpRequests, Watcher, workload};
use crate::counting::CountsBeside;
use crate::error::Error;
use crate::mapped_files::{MappedFiles, MappingObserver};
use crate::members::MemberFilter;
use crate::notice::Notice;
use crate::open::{
    EventIdMap, Opened, TaskClocks, describe_events, lost_samples, never_ran, open, require_perf_events,
    whole_cpu_rate,
};
use crate::options::{Options, Target};
use crate::processes::{JvmMapRequester, ProcessResources, Synthesis};
use crate::ring::{DrainOptions, Readers};
use crate::summary::{Summary, Tally, Throttling};
use crate::tasks::TaskObserver;
use crate::unwind::MAX_PENDING_BYTES;
use crate::waits::{OutsideReader, SwitchLog};

/// Maximum number of bytes that wait between the readers and the session with [`Options::low_memory`].
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
    let mut jvm_maps = options.jvm_maps.map(JvmMapRequester::new);
    let own = jvm_maps.as_mut().map(|observer| observer as &mut dyn RecordObserver);
    let mut tasks = TaskObserver::new(options);
    let own = own.into_iter().chain(tasks.as_mut().map(|observer| observer as _));
    let observers = own.chain(observers.into_iter().map(|observer| observer as _)).collect();
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
            summary.loss.samples = members.lost_at_end(summary.loss.samples);
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
pub(super) struct Prepared {
    pub(super) opened: Opened,
    pub(super) recording: Recording,
    pub(super) layout: RecordLayout,
    pub(super) watched: Option<WatchedTime>,
    /// True if the target is a command, from its start on, with all that it starts.
    pub(super) is_of_whole_command: bool,
    /// The CPU time of commands that this process has recorded before.
    pub(super) cpu_time_before: CpuTime,
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
        let child = waiting.as_ref().map(WaitingChild::pid);
        let processes = workload::watched(options, child);
        let watching = processes.len();
        let commands = CommandThread::start(control.take_commands(), outbox.clone());
        let pids = match (&options.target, child) {
            (Target::Command, Some(child)) => vec![child],
            _ if options.dump_conditions.is_empty() || options.target.is_cpu_wide() => Vec::new(),
            _ => crate::open::processes(options).unwrap_or_default(),
        };
        let conditions = ConditionThread::start(options, pids, outbox.clone());
        let watcher = Watcher::start(control, processes, outbox);
        let (commands, answers) = match commands.map(Option::unzip) {
            Ok((thread, answers)) => (Ok(thread), answers),
            Err(error) => (Err(error), None),
        };
        let outside = OutsideReader::new(options, &self.opened, &self.recording, child);
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
            switches: None,
            switch_log: SwitchLog::default(),
            are_switches_due: false,
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
            child: None,
            exit: None,
            failure: None,
            kept: false,
        };
        // To read and consume what a whole system has takes a tenth of a second. Sampling begins after it: hundreds of switches a
        // millisecond would fill the rings meanwhile.
        session.consume(Chunk::new(RingKind::Sideband, self.describe_existing(options, child)));
        self.watched = crate::waits::start_watching(options);
        let begin = Instant::now();
        match self.start(options, waiting) {
            Ok(child) => session.child = child,
            Err(error) => {
                stop_readers(session.readers, &session.messages);
                return Err(error);
            }
        }
        // Kept until `finish` has answered the last commands.
        let mut _command_thread = None;
        let started = watcher.and_then(|watcher| commands.map(|commands| (watcher, commands)));
        let result = started.and_then(|(watcher, commands)| {
            let _conditions = conditions?;
            _command_thread = commands;
            session.begin(&self, options)?;
            if options.delay.is_some() {
                if session.run_until(&mut self.opened, options, begin, Pause::Delay) {
                    return Ok(());
                }
                self.enable(options.staggered)?;
                self.watched = crate::waits::start_watching(options);
                session.begin_watching(&self, options);
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
        self.finish(session, duration, lost, cpus, result)
    }

    fn observer(&self) -> MappingObserver {
        MappingObserver::new(self.recording.files.clone(), self.layout.clone())
    }

    /// Makes records of the kernel and of the target's processes, or of the child that becomes the command.
    fn describe_existing(&self, options: &Options, child: Option<Pid>) -> Vec<u8> {
        let Recording { kernel, files, .. } = &self.recording;
        let mut synthesis = Synthesis::new(&self.layout, options.extras, files);
        synthesis.kernel(kernel);
        synthesis.cgroups();
        match (&options.target, child) {
            (Target::Command, Some(child)) => synthesis.child(child),
            (target, _) => {
                let pids = match target.is_cpu_wide() {
                    true => procfs::processes().ok(),
                    false => crate::open::processes(options).ok(),
                };
                pids.into_iter().flatten().for_each(|pid| synthesis.process(pid));
            }
        }
        synthesis.finish()
    }

    /// Starts a reader for each CPU, also if each ring belongs to a thread.
    fn start_readers(&mut self, cpus: usize, options: &Options, outbox: &Outbox) -> Result<Readers, Error> {
        let per_reader = self.opened.take_rings(cpus);
        let stack_copies = StackCopyLocator::new(self.opened.events.iter().map(|event| &event.attr));
        let waiting_bytes =
            if options.low_memory { LOW_MEMORY_WAITING_BYTES } else { MAX_PENDING_BYTES as u64 };
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
