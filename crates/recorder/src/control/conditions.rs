//! Watches for the conditions on which kept records are written, while these still contain what led to them.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use host::procfs;
use model::Pid;

use super::OutsideEvent;
use super::messages::{Message, Outbox};
use crate::error::Error;
use crate::open::with_descendants;
use crate::options::{DumpCondition, Options, Target};

/// Interval between checks for files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between readings of CPU times. A reading walks over all processes of the machine, to find the target's descendants.
const CPU_TIME_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that watches for conditions. It ends when this is dropped.
pub(crate) struct ConditionThread {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ConditionThread {
    /// Starts the thread; `None` if there are no conditions. `processes` are those of the target, unless it is the whole machine.
    pub(crate) fn start(
        options: &Options,
        processes: Vec<Pid>,
        messages: Outbox,
    ) -> Result<Option<Self>, Error> {
        if options.dump_conditions.is_empty() {
            return Ok(None);
        }
        let is_machine = matches!(options.target, Target::System | Target::Cgroup(_));
        let subject = if is_machine { Subject::Machine } else { Subject::Processes(processes) };
        let mut watches: Vec<Watch> = options.dump_conditions.iter().map(Watch::new).collect();
        let (over, is_over) = bounded::<()>(0);
        let work = move || {
            let mut measured = Instant::now();
            while is_over.recv_timeout(FILE_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                let has_cpu = watches.iter().any(|watch| matches!(watch, Watch::CpuUse(_)));
                let is_time = has_cpu && now - measured >= CPU_TIME_INTERVAL;
                let used = is_time.then(|| subject.used()).flatten();
                measured = if is_time { now } else { measured };
                for (index, watch) in watches.iter_mut().enumerate() {
                    let is_met = match &mut *watch {
                        Watch::File { path, was_there } => {
                            // A file system that does not answer blocks this thread only.
                            let is_there = path.symlink_metadata().is_ok();
                            let before = std::mem::replace(was_there, is_there);
                            is_there && !before
                        }
                        Watch::CpuUse(cpu) => used.is_some_and(|used| cpu.is_met(now, used)),
                    };
                    if is_met && messages.leave(Message::Outside(OutsideEvent::Condition(index))).is_err() {
                        return;
                    }
                    if is_met {
                        messages.wake();
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("conditions".to_owned())
            .stack_size(256 << 10)
            .spawn(work)
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Some(Self { over: Some(over), thread: Some(thread) }))
    }
}

impl Drop for ConditionThread {
    fn drop(&mut self) {
        drop(self.over.take());
        // A thread that is blocked by a file system is not waited for.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

enum Watch {
    File { path: PathBuf, was_there: bool },
    CpuUse(CpuWatch),
}

impl Watch {
    fn new(condition: &DumpCondition) -> Self {
        match condition {
            DumpCondition::File(path) => {
                Self::File { path: path.clone(), was_there: path.symlink_metadata().is_ok() }
            }
            DumpCondition::CpuUse { percent, time } => Self::CpuUse(CpuWatch::new(*percent, *time)),
        }
    }
}

/// The processes whose CPU time is measured.
enum Subject {
    /// The whole machine, all of whose CPUs together are 100 %.
    Machine,
    Processes(Vec<Pid>),
}

impl Subject {
    /// Returns the CPU time since an arbitrary moment, divided by the number of CPUs that are 100 %.
    fn used(&self) -> Option<Duration> {
        match self {
            Self::Machine => procfs::busy_time().ok(),
            Self::Processes(pids) => {
                let all = with_descendants(pids);
                Some(all.into_iter().filter_map(|pid| procfs::cpu_time(pid).ok()).sum())
            }
        }
    }
}

/// Detects that CPU use has been above a limit for long enough, once for each time that it rises above it.
struct CpuWatch {
    share: f64,
    time: Duration,
    last: Option<(Instant, Duration)>,
    above_since: Option<Instant>,
    is_reported: bool,
}

impl CpuWatch {
    fn new(percent: u32, time: Duration) -> Self {
        let share = f64::from(percent) / 100.0;
        Self { share, time, last: None, above_since: None, is_reported: false }
    }

    fn is_met(&mut self, now: Instant, used: Duration) -> bool {
        let Some((before, used_before)) = self.last.replace((now, used)) else { return false };
        // The sum can shrink: the CPU time of descendants that ended may not be counted anywhere.
        let share = used.saturating_sub(used_before).as_secs_f64() / (now - before).as_secs_f64().max(0.001);
        if share <= self.share {
            (self.above_since, self.is_reported) = (None, false);
            return false;
        }
        let since = *self.above_since.get_or_insert(before);
        let is_met = now - since >= self.time && !self.is_reported;
        self.is_reported |= is_met;
        is_met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_use_has_to_last_and_is_told_once() {
        let mut watch = CpuWatch::new(90, Duration::from_secs(2));
        let begin = Instant::now();
        let second = Duration::from_secs(1);
        let mut used = Duration::ZERO;
        let told: Vec<bool> = [95, 95, 10, 95, 95, 95, 95, 0, 95, 95]
            .into_iter()
            .enumerate()
            .map(|(index, percent)| {
                used += second * percent / 100;
                watch.is_met(begin + second * index as u32, used)
            })
            .collect();
        // The first measure has nothing before it.
        let expected = [false, false, false, false, true, false, false, false, false, true];
        assert_eq!(told, expected);
    }
}
