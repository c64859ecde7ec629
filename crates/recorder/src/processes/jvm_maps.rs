//! Asks recorded Java virtual machines to write perf maps with the names of their code (`host::jvm`), while recording or at the end.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use decoder::record::{Mmap, Record};
use decoder::{CpuMode, RecordLayout, SampleFormat, kind, offsets};
use host::jvm::{self, AttachError, AttachOutcome};
use host::procfs;
use model::{Pid, Tid};

use crate::consumer::{Chunk, RecordObserver, Recording, RingKind};
use crate::notice::Notice;
use crate::options::JvmMapTiming;
use crate::records::{each, is_sample, raw_records, u32_at};

/// The library by whose mapping a virtual machine is recognized.
const JVM_LIBRARY: &[u8] = b"libjvm.so";
/// Maximum number of virtual machines that are asked.
const MAX_MACHINES: usize = 64;
/// Minimum number of samples since the last request for another one while recording.
const MIN_SAMPLES: u64 = 10;
/// Offset of the pid in a sample; all samples begin with these fields.
const PID: usize = offsets::in_sample(
    SampleFormat::IDENTIFIER.union(SampleFormat::IP).union(SampleFormat::TID),
    SampleFormat::TID,
);
/// Shortest time between two requests to one virtual machine: a view shows names two seconds after their code became hot.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_secs(2);
/// A virtual machine compiles nothing while it writes a map. The next request waits for this many times as long as the last one
/// took, so that at most one per cent of its time goes into maps.
const PAUSE_PER_REQUEST_TIME: u32 = 100;
/// Time until the next request after two failed ones. The first may fail because the virtual machine has just started.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Learns from mappings which processes are Java virtual machines.
pub(crate) struct JvmMapRequester {
    asking: JvmMapTiming,
    layout: Option<RecordLayout>,
    machines: HashMap<Pid, Machine>,
}

/// A Java virtual machine.
struct Machine {
    /// Number of its samples since the last request.
    samples: u64,
    /// The pending request.
    request: Option<Receiver<AttachOutcome>>,
    outcome: Option<AttachOutcome>,
    /// Number of failed requests in a row.
    failures: u32,
    next: Option<Instant>,
    is_reported: bool,
}

impl Machine {
    fn new(asking: JvmMapTiming) -> Self {
        let next = (asking != JvmMapTiming::AtEnd).then(Instant::now);
        Self { samples: 0, request: None, outcome: None, failures: 0, next, is_reported: false }
    }

    fn ask(&mut self, pid: Pid) {
        self.samples = 0;
        self.request = jvm::request_perf_map(pid).ok();
        self.next = None;
    }

    /// Takes the outcome of the pending request, if there is one, and sets the time of the next.
    fn poll(&mut self, asking: JvmMapTiming) {
        let outcome = match self.request.as_ref().map(Receiver::try_recv) {
            Some(Ok(outcome)) => outcome,
            // The thread of the request ended without an outcome.
            Some(Err(TryRecvError::Disconnected)) => Err(AttachError::NoAnswer),
            Some(Err(TryRecvError::Empty)) | None => return,
        };
        self.request = None;
        self.failures = if outcome.is_ok() { 0 } else { self.failures.saturating_add(1) };
        let wait = match &outcome {
            Ok(took) if asking == JvmMapTiming::Repeatedly => {
                Some((*took * PAUSE_PER_REQUEST_TIME).max(MIN_REQUEST_INTERVAL))
            }
            Ok(_) => None,
            Err(why) if !why.may_succeed_later() => None,
            Err(_) if self.failures < 2 => Some(MIN_REQUEST_INTERVAL),
            Err(_) => Some(RETRY_INTERVAL),
        };
        self.next = wait.and_then(|wait| Instant::now().checked_add(wait));
        self.outcome = Some(outcome);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.request.is_none() && self.next.is_some_and(|next| now >= next) && self.samples >= MIN_SAMPLES
    }

    /// Returns true if a request at the end may bring new names: the virtual machine ran since the last one.
    fn is_worth_last_request(&self) -> bool {
        let may = match &self.outcome {
            Some(Err(why)) => why.may_succeed_later(),
            Some(Ok(_)) | None => true,
        };
        may && self.request.is_none() && self.samples > 0
    }
}

impl JvmMapRequester {
    pub(crate) fn new(asking: JvmMapTiming) -> Self {
        Self { asking, layout: None, machines: HashMap::new() }
    }

    fn learn_machines(&mut self, records: &[u8], layout: &RecordLayout) {
        for raw in raw_records(records) {
            if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::EXIT) {
                continue;
            }
            match layout.decode(&raw) {
                Ok(Record::Mmap(map)) if self.machines.len() < MAX_MACHINES && is_jvm(&map) => {
                    self.machines.entry(map.pid).or_insert_with(|| Machine::new(self.asking));
                }
                Ok(Record::Comm(comm)) if comm.exec => drop(self.machines.remove(&comm.pid)),
                Ok(Record::Exit(task)) if task.pid.0 == task.tid.0 => drop(self.machines.remove(&task.pid)),
                _ => {}
            }
        }
    }

    fn count_samples(&mut self, records: &[u8]) {
        for record in each(records) {
            if is_sample(record)
                && let Some(pid) = u32_at(record, PID).and_then(|pid| i32::try_from(pid).ok())
                && let Some(machine) = self.machines.get_mut(&Pid(pid))
            {
                machine.samples += 1;
            }
        }
    }

    fn poll_and_request(&mut self, notices: &mut Vec<Notice>) {
        let now = Instant::now();
        for (&pid, machine) in &mut self.machines {
            machine.poll(self.asking);
            if machine.is_due(now) {
                machine.ask(pid);
            }
        }
        if self.asking == JvmMapTiming::Repeatedly {
            self.report_failures(2, notices);
        }
    }

    /// Sends requests to all that ran, in parallel, and waits for pending ones, so that their files in the processes' folders are
    /// removed. A live view has no use for names any more, so it sends none.
    fn request_at_end(&mut self, notices: &mut Vec<Notice>) {
        for (&pid, machine) in &mut self.machines {
            machine.poll(self.asking);
            if self.asking != JvmMapTiming::Repeatedly && machine.is_worth_last_request() {
                machine.ask(pid);
            }
        }
        let deadline = Instant::now() + 2 * jvm::TIMEOUT;
        for machine in self.machines.values_mut() {
            if let Some(request) = machine.request.take() {
                let left = deadline.saturating_duration_since(Instant::now());
                machine.outcome = Some(request.recv_timeout(left).unwrap_or(Err(AttachError::NoAnswer)));
            }
        }
        let is_asked = |machine: &Machine| matches!(machine.outcome, Some(Ok(_)));
        let asked = self.machines.iter().filter(|(_, machine)| is_asked(machine));
        let mut pids: Vec<Pid> = asked.map(|(&pid, _)| pid).collect();
        pids.sort_unstable();
        if !pids.is_empty() && self.asking != JvmMapTiming::Repeatedly {
            notices.push(Notice::JvmsAsked { pids });
        }
        self.report_failures(0, notices);
    }

    /// Adds notices, once each, of virtual machines that cannot be asked, or whose requests failed `failures` times in a row.
    fn report_failures(&mut self, failures: u32, notices: &mut Vec<Notice>) {
        for (&pid, machine) in &mut self.machines {
            // A virtual machine that has ended may have written its map itself.
            if let Some(Err(why)) = &machine.outcome
                && !machine.is_reported
                && (machine.failures >= failures || !why.may_succeed_later())
                && procfs::comm(pid, Tid(pid.0)).is_ok()
            {
                machine.is_reported = true;
                notices.push(Notice::JvmNotAsked { pid, why: why.to_string() });
            }
        }
    }
}

fn is_jvm(map: &Mmap<'_>) -> bool {
    let name = map.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    map.mode == CpuMode::User && !map.data && map.pid.0 > 0 && name.starts_with(JVM_LIBRARY)
}

impl RecordObserver for JvmMapRequester {
    fn begin(&mut self, recording: &Recording) {
        self.layout = recording.layout(recording.events.len().saturating_sub(1));
    }

    fn observe(&mut self, chunk: &Chunk) {
        if chunk.ring == RingKind::Sideband
            && let Some(layout) = self.layout.take()
        {
            self.learn_machines(&chunk.bytes, &layout);
            self.layout = Some(layout);
        }
        if chunk.ring == RingKind::Samples && !self.machines.is_empty() {
            self.count_samples(&chunk.bytes);
        }
    }

    fn finished_round(&mut self, notices: &mut Vec<Notice>) {
        self.poll_and_request(notices);
    }

    fn end(&mut self, notices: &mut Vec<Notice>) {
        self.request_at_end(notices);
    }
}
