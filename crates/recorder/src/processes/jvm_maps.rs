//! Asks the Java virtual machines of a recording for the names of their code (`host::jvm`), while it runs or at its end.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use decoder::record::{Mmap, Record};
use decoder::{CpuMode, Endian, RawRecord, RecordLayout, SampleFormat, kind, offsets};
use host::jvm::{self, AttachError, AttachOutcome};
use host::procfs;
use model::{Pid, Tid};

use crate::consumer::{Chunk, Consumer, Ending, Recording, RecordingSink, RingKind, forward_calls};
use crate::notice::Notice;
use crate::options::JvmMapTiming;
use crate::records::{each, is_sample, u32_at};

/// The library that a virtual machine is.
const LIBRARY: &[u8] = b"libjvm.so";
/// More virtual machines are not asked.
const MOST: usize = 64;
/// Samples after which one is worth a question while it runs.
const WORTH_IT: u64 = 10;
/// The process in a sample, which begins so whatever else it has.
const PID: usize = offsets::in_sample(
    SampleFormat::IDENTIFIER.union(SampleFormat::IP).union(SampleFormat::TID),
    SampleFormat::TID,
);
/// Least time between two questions to one: a view shows names two seconds after their code became hot.
const BETWEEN: Duration = Duration::from_secs(2);
/// Of its time, a virtual machine answers at most this part: it compiles nothing meanwhile.
const SHARE: u32 = 100;
/// Time after which one that could not be asked twice is asked again: the first time it may have been too young.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Hands everything on as it comes; learns from mappings which processes are virtual machines.
pub(crate) struct JvmMapRequester<C> {
    consumer: C,
    asking: JvmMapTiming,
    layout: Option<RecordLayout>,
    machines: HashMap<Pid, Machine>,
    notices: Vec<Notice>,
}

/// A process in which the library is mapped.
struct Machine {
    /// Its samples since it was asked last.
    samples: u64,
    /// The question that it has not answered.
    question: Option<Receiver<AttachOutcome>>,
    outcome: Option<AttachOutcome>,
    /// Questions in a row that brought nothing.
    failures: u32,
    next: Option<Instant>,
    told: bool,
}

impl Machine {
    fn new(asking: JvmMapTiming) -> Self {
        let next = (asking != JvmMapTiming::AtEnd).then(Instant::now);
        Self { samples: 0, question: None, outcome: None, failures: 0, next, told: false }
    }

    fn ask(&mut self, pid: Pid) {
        self.samples = 0;
        self.question = jvm::request_perf_map(pid).ok();
        self.next = None;
    }

    /// Takes the answer, if it has come.
    fn poll(&mut self, asking: JvmMapTiming) {
        let outcome = match self.question.as_ref().map(Receiver::try_recv) {
            Some(Ok(outcome)) => outcome,
            // Its thread ended without a word.
            Some(Err(TryRecvError::Disconnected)) => Err(AttachError::NoAnswer),
            Some(Err(TryRecvError::Empty)) | None => return,
        };
        self.question = None;
        self.failures = if outcome.is_ok() { 0 } else { self.failures.saturating_add(1) };
        let wait = match &outcome {
            Ok(took) if asking == JvmMapTiming::Repeatedly => Some((*took * SHARE).max(BETWEEN)),
            Ok(_) => None,
            Err(why) if !why.may_succeed_later() => None,
            Err(_) if self.failures < 2 => Some(BETWEEN),
            Err(_) => Some(AFTER_FAILURE),
        };
        self.next = wait.and_then(|wait| Instant::now().checked_add(wait));
        self.outcome = Some(outcome);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.question.is_none() && self.next.is_some_and(|next| now >= next) && self.samples >= WORTH_IT
    }

    /// Returns true if an answer at the end may bring something: it ran since the last one.
    fn is_worth_it_at_the_end(&self) -> bool {
        let may = match &self.outcome {
            Some(Err(why)) => why.may_succeed_later(),
            Some(Ok(_)) | None => true,
        };
        may && self.question.is_none() && self.samples > 0
    }
}

impl<C: Consumer> JvmMapRequester<C> {
    pub(crate) fn new(consumer: C, asking: JvmMapTiming) -> Self {
        Self { consumer, asking, layout: None, machines: HashMap::new(), notices: Vec::new() }
    }

    fn look_at(&mut self, mut records: &[u8], layout: &RecordLayout) {
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::EXIT) {
                continue;
            }
            match layout.decode(&raw) {
                Ok(Record::Mmap(map)) if self.machines.len() < MOST && is_jvm(&map) => {
                    self.machines.entry(map.pid).or_insert_with(|| Machine::new(self.asking));
                }
                Ok(Record::Comm(comm)) if comm.exec => drop(self.machines.remove(&comm.pid)),
                Ok(Record::Exit(task)) if task.pid.0 == task.tid.0 => drop(self.machines.remove(&task.pid)),
                _ => {}
            }
        }
    }

    fn count(&mut self, records: &[u8]) {
        for record in each(records) {
            if is_sample(record)
                && let Some(pid) = u32_at(record, PID).and_then(|pid| i32::try_from(pid).ok())
                && let Some(machine) = self.machines.get_mut(&Pid(pid))
            {
                machine.samples += 1;
            }
        }
    }

    fn attend(&mut self) {
        let now = Instant::now();
        for (&pid, machine) in &mut self.machines {
            machine.poll(self.asking);
            if machine.is_due(now) {
                machine.ask(pid);
            }
        }
        if self.asking == JvmMapTiming::Repeatedly {
            self.tell_refusals(2);
        }
    }

    /// Asks all that have run, at once, and waits for their answers: what a question has put into their folders goes with it. Nobody
    /// looks at a view any more, so that none begins there.
    fn ask_at_the_end(&mut self) {
        for (&pid, machine) in &mut self.machines {
            machine.poll(self.asking);
            if self.asking != JvmMapTiming::Repeatedly && machine.is_worth_it_at_the_end() {
                machine.ask(pid);
            }
        }
        let deadline = Instant::now() + jvm::TIMEOUT + Duration::from_millis(50);
        for machine in self.machines.values_mut() {
            if let Some(question) = machine.question.take() {
                let left = deadline.saturating_duration_since(Instant::now());
                machine.outcome = Some(question.recv_timeout(left).unwrap_or(Err(AttachError::NoAnswer)));
            }
        }
        let is_asked = |machine: &Machine| matches!(machine.outcome, Some(Ok(_)));
        let asked = self.machines.iter().filter(|(_, machine)| is_asked(machine));
        let mut pids: Vec<Pid> = asked.map(|(&pid, _)| pid).collect();
        pids.sort_unstable();
        if !pids.is_empty() && self.asking != JvmMapTiming::Repeatedly {
            self.notices.push(Notice::JvmsAsked { pids });
        }
        self.tell_refusals(0);
    }

    /// Tells of those that will not answer, and of those that have not so many times.
    fn tell_refusals(&mut self, failures: u32) {
        for (&pid, machine) in &mut self.machines {
            // One that ends has no more to say, or says it by itself.
            if let Some(Err(why)) = &machine.outcome
                && !machine.told
                && (machine.failures >= failures || !why.may_succeed_later())
                && procfs::comm(pid, Tid(pid.0)).is_ok()
            {
                machine.told = true;
                self.notices.push(Notice::JvmNotAsked { pid, why: why.to_string() });
            }
        }
    }
}

fn is_jvm(map: &Mmap<'_>) -> bool {
    let name = map.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    map.mode == CpuMode::User && !map.data && map.pid.0 > 0 && name.starts_with(LIBRARY)
}

impl<C: Consumer> RecordingSink for JvmMapRequester<C> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.layout = recording.layout(recording.events.len().saturating_sub(1));
        self.consumer.begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.consumer.finished_round()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.attend();
        self.consumer.checkpoint()
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.consumer.take_notices());
        notices
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.ask_at_the_end();
        self.consumer.end(ending)
    }

    forward_calls!(this => this.consumer);
}

impl<C: Consumer> Consumer for JvmMapRequester<C> {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if chunk.ring == RingKind::Sideband
            && let Some(layout) = self.layout.take()
        {
            self.look_at(&chunk.bytes, &layout);
            self.layout = Some(layout);
        }
        if chunk.ring == RingKind::Samples && !self.machines.is_empty() {
            self.count(&chunk.bytes);
        }
        self.consumer.consume(chunk)
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        self.consumer.shorten_sample(sample, until, into)
    }
}
