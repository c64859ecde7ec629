//! Attaches to running processes, without missing a thread or sampling one twice.
//!
//! An event that is opened on a thread is inherited by the threads which that thread creates *afterwards*. So the events are opened
//! on all threads, and then on those that began meanwhile, in further passes. A thread whose FORK was recorded by an opened
//! thread, after everything was open there, has inherited the events; they are opened on any other. Where both may be true they
//! are opened, and [`super::DuplicateFilter`] removes the samples of the second copy.

use std::collections::HashSet;

use decoder::{Endian, RawRecord, Record, RecordLayout};
use host::procfs;
use model::{Pid, Tid};

use super::descriptors::Descriptors;
use super::opened::Opened;
use super::targets::processes;
use crate::error::Error;

use crate::options::Options;

/// Maximum number of passes over the threads. Threads that inherited are known in the third; more passes are needed for processes
/// that start threads faster than these are opened.
const MAX_PASSES: usize = 50;

/// Returns those of `pids` that do not exist, or have ended.
///
/// # Errors
/// [`Error::NoSuchProcess`] where none exists.
pub(crate) fn ended_processes(pids: &[Pid]) -> Result<Vec<Pid>, Error> {
    let gone: Vec<Pid> = pids.iter().copied().filter(|&pid| procfs::threads(pid).is_err()).collect();
    match gone.first() {
        Some(&Pid(pid)) if gone.len() == pids.len() => Err(Error::NoSuchProcess { pid }),
        _ => Ok(gone),
    }
}

/// Returns the threads of all `pids`.
pub(crate) fn all_threads(pids: &[Pid]) -> Vec<Tid> {
    pids.iter().flat_map(|&pid| procfs::threads(pid).unwrap_or_default()).collect()
}

/// Returns the other threads of the processes of `tids`. Only the sideband event is opened on them: a library that one of them
/// loads is mapped for all.
pub(super) fn siblings(tids: &[Tid], options: &Options) -> Result<Vec<Tid>, Error> {
    // With a ring per thread, siblings have no ring for their records.
    if options.per_thread {
        return Ok(Vec::new());
    }
    let asked: HashSet<Tid> = tids.iter().copied().collect();
    let all = all_threads(&processes(options)?);
    Ok(all.into_iter().filter(|tid| !asked.contains(tid)).collect())
}

impl Opened {
    /// Opens the events on all threads of the processes of `options`.
    pub(super) fn attach(&mut self, options: &Options) -> Result<(), Error> {
        self.attach_with(options, &mut |_| Ok(true))
    }

    /// Attaches as [`Opened::attach`]. `also` opens further events on each thread, and returns false if the thread has ended.
    pub(crate) fn attach_with(
        &mut self,
        options: &Options,
        also: &mut dyn FnMut(Tid) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (mut opened, mut forked, mut inherited) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut pids = Vec::new();
        for pass in 0..MAX_PASSES {
            // Child processes, too, may have begun since the last pass.
            if pass == 0 || options.with_children {
                pids = processes(options)?;
            }
            let listed = all_threads(&pids);
            self.collect_forks(&mut forked);
            let new: Vec<Tid> =
                listed.into_iter().filter(|tid| !opened.contains(tid) && !inherited.contains(tid)).collect();
            let mut any = false;
            let descriptors = Descriptors {
                threads: opened.len() + new.len(),
                siblings: 0,
                cpus: if options.per_thread { 1 } else { self.cpus.len() },
                events: self.events.len(),
                watched: pids.len(),
            };
            descriptors.check()?;
            for tid in new {
                // It began after the last pass had listed the threads, and so after the pass before that had opened its parent.
                if pass >= 2 && options.inherits() && forked.contains(&tid) {
                    inherited.insert(tid);
                } else if self.open_thread(tid, options)? && also(tid)? {
                    opened.insert(tid);
                    any = true;
                }
            }
            if !any && pass > 0 {
                break;
            }
        }
        self.collect_forks(&mut forked);
        self.doubtful = options.inherits() && forked.iter().any(|tid| opened.contains(tid));
        match (opened.is_empty(), pids.first()) {
            (true, Some(&Pid(pid))) => Err(Error::NoSuchProcess { pid }),
            _ => Ok(()),
        }
    }

    /// Opens the sampling events on `tids`, and the sideband event on their [`siblings`], too.
    pub(super) fn attach_threads(
        &mut self,
        tids: &[Tid],
        siblings: &[Tid],
        options: &Options,
    ) -> Result<(), Error> {
        for &tid in tids.iter().chain(siblings) {
            self.sideband_of(tid, options)?;
        }
        let mut any = false;
        for &tid in tids {
            let opened = self.samplers_of(tid, options)?;
            any |= opened;
            if !opened {
                self.gone.push(Pid(tid.0));
            }
        }
        match tids.first() {
            Some(&Tid(pid)) if !any => Err(Error::NoSuchProcess { pid }),
            _ => Ok(()),
        }
    }

    /// Empties the sideband rings, and adds to `forked` the threads of their FORK records.
    fn collect_forks(&mut self, forked: &mut HashSet<Tid>) {
        let start = self.drain_sideband();
        let layout = RecordLayout::new(&self.sideband.attr, Endian::NATIVE);
        let mut rest = self.early.get(start..).unwrap_or(&[]);
        while let Ok((raw, size)) = RawRecord::parse(rest, Endian::NATIVE) {
            if raw.kind == decoder::kind::FORK
                && let Ok(Record::Fork(task)) = layout.decode(&raw)
            {
                forked.insert(task.tid);
            }
            rest = rest.get(size..).unwrap_or(&[]);
        }
    }
}
