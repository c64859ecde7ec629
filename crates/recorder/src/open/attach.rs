//! Attaches to running processes, without missing a thread or sampling one twice.
//!
//! An event that is opened on a thread is inherited by the threads which that thread creates *afterwards*. So the events are opened
//! on all threads, and then on those that began meanwhile, in further passes. A thread whose FORK was recorded by an opened
//! thread, after everything was open there, has inherited the events; they are opened on any other. Where both may be true they
//! are opened, and [`super::DuplicateFilter`] removes the samples of the second copy.

use std::collections::HashSet;

use decoder::{Endian, RawRecord, Record, RecordLayout};
use host::sys::limits;
use model::{Pid, Tid};

use super::opened::Opened;
use super::targets::{all_threads, processes};
use crate::error::Error;
use crate::options::Options;
use crate::plan::Descriptors;

/// Maximum number of passes over the threads. Threads that inherited are known in the third; more passes are needed for processes
/// that start threads faster than these are opened.
const MAX_PASSES: usize = 50;

/// Opens the events on all threads of the processes of `options`. `also` opens further events on each thread, and returns false if the
/// thread has ended.
pub(crate) fn attach(
    opened: &mut Opened,
    options: &Options,
    also: &mut dyn FnMut(Tid) -> Result<bool, Error>,
) -> Result<(), Error> {
    let (mut attached, mut forked, mut inherited) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut pids = Vec::new();
    for pass in 0..MAX_PASSES {
        // Child processes, too, may have begun since the last pass.
        if pass == 0 || options.with_children {
            pids = processes(options)?;
        }
        let listed = all_threads(&pids);
        collect_forks(opened, &mut forked);
        let new: Vec<Tid> =
            listed.into_iter().filter(|tid| !attached.contains(tid) && !inherited.contains(tid)).collect();
        let mut any = false;
        let descriptors = Descriptors {
            threads: attached.len() + new.len(),
            siblings: 0,
            cpus: if options.per_thread { 1 } else { opened.cpus.len() },
            events: opened.events.len(),
            watched: pids.len(),
        };
        descriptors.fit(limits::raise_open_files(descriptors.needed()).current)?;
        for tid in new {
            // It began after the last pass had listed the threads, and so after the pass before that had opened its parent.
            if pass >= 2 && options.inherits() && forked.contains(&tid) {
                inherited.insert(tid);
            } else if opened.open_thread(tid, options)? && also(tid)? {
                attached.insert(tid);
                any = true;
            }
        }
        if !any && pass > 0 {
            break;
        }
    }
    collect_forks(opened, &mut forked);
    opened.doubtful = options.inherits() && forked.iter().any(|tid| attached.contains(tid));
    match (attached.is_empty(), pids.first()) {
        (true, Some(&Pid(pid))) => Err(Error::NoSuchProcess { pid }),
        _ => Ok(()),
    }
}

/// Calls `open` for each of `threads`, which returns false for those that have ended. Returns these.
///
/// # Errors
/// [`Error::NoSuchProcess`] where all have ended.
pub(crate) fn open_threads(
    threads: &[Tid],
    open: &mut dyn FnMut(Tid) -> Result<bool, Error>,
) -> Result<Vec<Pid>, Error> {
    let mut gone = Vec::new();
    for &tid in threads {
        if !open(tid)? {
            gone.push(Pid(tid.0));
        }
    }
    match gone.first() {
        Some(&Pid(pid)) if gone.len() == threads.len() => Err(Error::NoSuchProcess { pid }),
        _ => Ok(gone),
    }
}

/// Empties the sideband rings, and adds to `forked` the threads of their FORK records.
fn collect_forks(opened: &mut Opened, forked: &mut HashSet<Tid>) {
    let start = opened.drain_sideband();
    let layout = RecordLayout::new(&opened.sideband.attr, Endian::NATIVE);
    let mut rest = opened.early.get(start..).unwrap_or(&[]);
    while let Ok((raw, size)) = RawRecord::parse(rest, Endian::NATIVE) {
        if raw.kind == decoder::kind::FORK
            && let Ok(Record::Fork(task)) = layout.decode(&raw)
        {
            forked.insert(task.tid);
        }
        rest = rest.get(size..).unwrap_or(&[]);
    }
}
