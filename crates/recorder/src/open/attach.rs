//! Attaching to processes that run, without missing a thread or taking one twice.
//!
//! An event that is opened on a thread is inherited by the threads which that thread creates *afterwards*. So all
//! threads are opened, and those listed again that began meanwhile: one whose FORK came through an opened thread,
//! after everything was open there, has inherited; any other is opened. Where both may be true, it is opened, and
//! [`super::DuplicateFilter`] leaves out what two copies of an event take of it.

use std::collections::HashSet;

use decoder::{Endian, RawRecord, Record, RecordLayout};
use host::procfs;
use model::{Pid, Tid};

use super::descriptors::Descriptors;
use super::plan::Opened;
use super::targets::processes;
use crate::error::Error;

use crate::options::Options;

/// Threads that inherited are known by the third pass; more are for processes that are started faster than opened.
const MOST_PASSES: usize = 50;

/// Those of `pids` that do not exist (any more).
pub(crate) fn gone(pids: &[Pid]) -> Result<Vec<Pid>, Error> {
    let gone: Vec<Pid> = pids.iter().copied().filter(|&pid| procfs::threads(pid).is_err()).collect();
    match gone.first() {
        Some(&Pid(pid)) if gone.len() == pids.len() => Err(Error::NoSuchProcess { pid }),
        _ => Ok(gone),
    }
}

/// The threads of all `pids`.
pub(crate) fn all_threads(pids: &[Pid]) -> Vec<Tid> {
    pids.iter().flat_map(|&pid| procfs::threads(pid).unwrap_or_default()).collect()
}

/// The other threads of the processes of `tids`, of which only the sideband is opened: a library that one of them loads
/// is mapped for all.
pub(super) fn siblings(tids: &[Tid], options: &Options) -> Result<Vec<Tid>, Error> {
    // A ring of one's own has no place for what siblings tell.
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

    /// As [`Opened::attach`]; `also` opens what is not among the events, and says whether the thread lives.
    pub(crate) fn attach_with(
        &mut self,
        options: &Options,
        also: &mut dyn FnMut(Tid) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (mut opened, mut forked, mut inherited) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut pids = Vec::new();
        for pass in 0..MOST_PASSES {
            // Children are processes of their own, and may have begun since, too.
            if pass == 0 || options.with_children {
                pids = processes(options)?;
            }
            let listed = all_threads(&pids);
            self.note_forks(&mut forked);
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
                // Began after the pass before had listed, and so after the one before that had opened.
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
        self.note_forks(&mut forked);
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

    /// Reads the sideband rings, and which threads began through an opened one.
    fn note_forks(&mut self, forked: &mut HashSet<Tid>) {
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
