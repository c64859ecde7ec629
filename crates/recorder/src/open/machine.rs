//! What this machine says: the facts that a plan needs, and the answers of the kernel to its questions.

use std::os::fd::AsFd;
use std::path::Path;

use host::procfs::{self, Capability};
use host::survey::Settings;
use host::sys::limits;
use host::sys::perf_event::{PerfEvent, Subject};
use host::{machine, sysfs};
use model::{CpuId, Pid, Tid};

use super::advice::explain_refused;
use super::open_event;
use super::targets::{all_threads, ended_processes, processes, siblings};
use crate::error::{EINVAL, EIO, ESRCH, Error};
use crate::event::{Event, core_pmus};
use crate::notice::Notice;
use crate::options::{Options, Target};
use crate::plan::{self, Answer, EventSupport, Facts, Question, Site, Stop};
use crate::waits;

/// The thread that opens events, as `perf_event_open(2)` knows it.
const OWN_THREAD: Tid = Tid(0);

/// Opens the folder of a cgroup, as a subject of events.
pub(crate) fn open_cgroup(path: &Path) -> Result<std::fs::File, Error> {
    host::cgroup::open(path).map_err(|errno| Error::Cgroup { path: path.display().to_string(), errno })
}

/// Returns the CPUs that are online.
pub(super) fn online_cpus() -> Result<Vec<CpuId>, Error> {
    sysfs::online_cpus().map_err(|errno| Error::System { what: "cannot read which CPUs are online", errno })
}

/// Reads the facts of this machine that decide what is opened for `options`. `child` is the waiting child that becomes the command.
pub(crate) fn read_facts(options: &Options, child: Option<Pid>) -> Result<Facts, Error> {
    let (threads, siblings, processes) = match &options.target {
        Target::System | Target::Cgroup(_) => (Vec::new(), Vec::new(), Vec::new()),
        Target::Command => (child.map(|Pid(pid)| Tid(pid)).into_iter().collect(), Vec::new(), Vec::new()),
        Target::Threads(tids) => (tids.clone(), siblings(tids, options)?, Vec::new()),
        Target::Processes(_) | Target::User(_) => {
            let pids = processes(options)?;
            ended_processes(&pids)?;
            (all_threads(&pids), Vec::new(), pids)
        }
    };
    let names_cores = options.events.is_empty() || options.events.iter().any(|event| event.core);
    let own = procfs::own_status().ok();
    let has = |capability| own.as_ref().is_some_and(|own| own.has(capability));
    Ok(Facts {
        online_cpus: online_cpus()?,
        allowed_cpus: procfs::allowed_cpus().unwrap_or_default(),
        core_pmus: if names_cores { core_pmus() } else { Vec::new() },
        settings: Settings::read(),
        is_capable: has(Capability::Perfmon) || has(Capability::SysAdmin),
        threads,
        siblings,
        processes,
        memory_kb: machine::total_memory_kb(),
        ..Facts::default()
    })
}

/// Returns what `plan` says once all its questions are answered, and adds its notices. Events that it wants tried stay open until
/// then: opening the first event of a machine, and closing the last, takes milliseconds.
///
/// # Errors
/// The reason why nothing can be opened.
pub(crate) fn decide<T>(
    options: &Options,
    facts: &mut Facts,
    notices: &mut Vec<Notice>,
    plan: impl Fn(&Facts, &mut Vec<Notice>) -> Result<T, Stop>,
) -> Result<T, Error> {
    let mut open = Vec::new();
    loop {
        notices.clear();
        match plan(facts, notices) {
            Ok(decided) => return Ok(decided),
            Err(Stop::Ask(questions)) => {
                for question in questions {
                    let answer = answer(&question, options, &facts.threads, &mut open)?;
                    facts.answers.push((question, answer));
                }
            }
            Err(Stop::Fail(error)) => return Err(error),
            Err(Stop::Refused(event)) => return Err(explain_refused(*event, options)),
        }
    }
}

/// Asks the kernel, and adds the events that it opens for that to `open`.
fn answer(
    question: &Question,
    options: &Options,
    threads: &[Tid],
    open: &mut Vec<PerfEvent>,
) -> Result<Answer, Error> {
    let (attr, site) = match question {
        Question::Opens(attr, site) => (attr, *site),
        Question::Descriptors(asked) => return Ok(Ok(limits::raise_open_files(*asked).current)),
        Question::Switches => {
            return Ok(waits::count_switches().map_err(|errno| errno.raw_os_error().unwrap_or(EIO)));
        }
    };
    let mut opens = |subject: Subject<'_>| match open_event(attr, subject, None) {
        Ok(event) => {
            open.push(event);
            Ok(0)
        }
        Err(errno) => Err(errno.raw_os_error().unwrap_or(EINVAL)),
    };
    Ok(match (site, &options.target) {
        // The first thread that lives tells.
        (Site::Thread(cpu), _) => {
            let mut answers = threads.iter().map(|&tid| opens(Subject::Thread(tid, cpu)));
            answers.find(|answer| *answer != Err(ESRCH)).unwrap_or(Err(ESRCH))
        }
        (Site::Cgroup(cpu), Target::Cgroup(path)) => opens(Subject::Cgroup(open_cgroup(path)?.as_fd(), cpu)),
        (Site::Cpu(cpu) | Site::Cgroup(cpu), _) => opens(Subject::Cpu(cpu)),
    })
}

/// Returns the highest rate at which whole CPUs are opened for a command, in Hz, if they are not at the requested one.
pub(crate) fn whole_cpu_rate(options: &Options) -> Option<u64> {
    let mut facts = read_facts(options, None).ok()?;
    decide(options, &mut facts, &mut Vec::new(), |facts, _| plan::whole_cpu_rate(options, facts)).ok()?
}

/// Opens `event` on this process, or on a CPU where its PMU counts only there, and closes it again.
pub fn event_support(event: &Event) -> EventSupport {
    // A PMU outside the cores belongs to no thread.
    let site = match &event.cpus {
        Some(cpus) if !event.core => Site::Cpu(cpus.first().copied().unwrap_or(CpuId(0))),
        Some(cpus) => Site::Thread(cpus.first().copied()),
        None => Site::Thread(None),
    };
    support_at(site, event, &Options { inherit: false, ..Options::new(Target::Threads(vec![OWN_THREAD])) })
}

/// Opens `event` on all that runs on `cpu`, and closes it again.
pub fn event_support_on_cpu(event: &Event, cpu: CpuId) -> EventSupport {
    support_at(Site::Cpu(cpu), event, &Options::new(Target::System))
}

fn support_at(site: Site, event: &Event, options: &Options) -> EventSupport {
    let mut facts = Facts { threads: vec![OWN_THREAD], settings: Settings::read(), ..Facts::default() };
    let support = |facts: &Facts, _: &mut Vec<Notice>| plan::support(event, options, site, facts);
    // It judges the event, and is not refused itself.
    decide(options, &mut facts, &mut Vec::new(), support).unwrap_or(EventSupport::Absent)
}
