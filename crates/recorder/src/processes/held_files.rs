//! Keeps mapped files open that will not be found by their paths when the recording is read: a process that maps a file is
//! the way to open it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use decoder::record::{Mmap, Record};
use decoder::{CpuMode, RecordLayout, kind};
use host::objects::{MappingLocation, RetainedFiles};
use host::procfs::{self, PathView};
use model::Pid;

use super::MAX_PROCESSES;
use crate::consumer::{Chunk, RecordObserver, Recording, RingKind};
use crate::records::raw_records;

/// Folders of installed packages, whose files stay. A process in another mount namespace or root may see other files there.
const PACKAGE_FOLDERS: [&[u8]; 9] = [
    b"/usr/",
    b"/lib/",
    b"/lib32/",
    b"/lib64/",
    b"/bin/",
    b"/sbin/",
    b"/nix/store/",
    b"/gnu/store/",
    b"/snap/",
];

/// Sources of names that may not exist any more when the recording is read.
#[derive(Clone, Default, Debug)]
pub struct NameSources {
    /// The open files that will not be found by their paths.
    pub files: Arc<RetainedFiles>,
    /// True if a process has generated code: it writes the names of that into files.
    pub has_generated_code: bool,
}

impl NameSources {
    /// Returns true if all names will be found later.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.has_generated_code
    }
}

/// Opens mapped files. It observes the records before they are put into order, when most of the processes still live.
#[derive(Default)]
pub struct FileHolder {
    layout: Option<RecordLayout>,
    /// The mount namespace and root of each process; `None` if they are ours.
    processes: HashMap<Pid, Option<PathView>>,
    roots: HashMap<PathView, File>,
    held: Arc<Mutex<RetainedFiles>>,
    has_generated_code: bool,
}

impl FileHolder {
    /// Creates an observer that adds the files to `held`, which other threads may read meanwhile.
    pub fn new(held: Arc<Mutex<RetainedFiles>>) -> Self {
        Self { held, ..Self::default() }
    }

    /// Closes the files that will be found by their paths, and returns the others.
    pub fn into_sources(self) -> NameSources {
        let mut files = std::mem::take(&mut *lock(&self.held));
        files.close_findable();
        NameSources { files: Arc::new(files), has_generated_code: self.has_generated_code }
    }

    fn apply_records(&mut self, records: &[u8], layout: &RecordLayout) {
        for raw in raw_records(records) {
            if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT) {
                continue;
            }
            match layout.decode(&raw) {
                Ok(Record::Mmap(map)) if map.mode == CpuMode::User => self.map(&map),
                Ok(Record::Comm(comm)) if comm.exec && comm.pid.0 > 0 => drop(self.read_view(comm.pid)),
                // The child's records, from another ring, may have come before this one.
                Ok(Record::Fork(task)) if task.pid != task.parent_pid => {
                    if let Some(view) = self.processes.get(&task.parent_pid).cloned() {
                        self.processes.entry(task.pid).or_insert(view);
                    }
                }
                Ok(Record::Exit(task)) if task.pid.0 == task.tid.0 => drop(self.processes.remove(&task.pid)),
                _ => {}
            }
        }
    }

    fn map(&mut self, map: &Mmap<'_>) {
        self.has_generated_code |= tracker::is_generated_code(map) || generated::is_dump(map.path);
        let Some(identity) = tracker::mapped_object(map).filter(|_| map.pid.0 > 0) else { return };
        let view = self.view(map.pid);
        if view.is_none() && PACKAGE_FOLDERS.iter().any(|folder| map.path.starts_with(folder)) {
            return;
        }
        let at = MappingLocation {
            pid: map.pid,
            start: map.start,
            end: map.start.saturating_add(map.len),
            root: view.as_ref().and_then(|view| self.roots.get(view)),
            is_foreign: view.as_ref().is_some_and(|view| view.is_foreign),
        };
        lock(&self.held).add(&identity, &at);
    }

    /// Returns the mount namespace and root of a process; `None` if they are ours.
    fn view(&mut self, pid: Pid) -> Option<PathView> {
        match self.processes.get(&pid) {
            Some(known) => known.clone(),
            None => self.read_view(pid).flatten(),
        }
    }

    /// Reads the mount namespace and root of a process, again after exec: container runtimes change them between fork and exec. A
    /// process that has ended already keeps what it inherited from its parent.
    fn read_view(&mut self, pid: Pid) -> Option<Option<PathView>> {
        let view = procfs::path_view(pid).ok()?;
        let view = (PathView::own() != Some(&view)).then_some(view);
        if self.roots.len() >= PathView::MAX {
            let used: HashSet<&PathView> = self.processes.values().flatten().collect();
            self.roots.retain(|view, _| used.contains(view));
        }
        if let Some(view) = view.as_ref().filter(|view| !self.roots.contains_key(view))
            && self.roots.len() < PathView::MAX
            && let Ok(root) = procfs::root_folder(pid)
        {
            self.roots.insert(view.clone(), root);
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.clear();
        }
        self.processes.insert(pid, view.clone());
        Some(view)
    }
}

fn lock(held: &Mutex<RetainedFiles>) -> MutexGuard<'_, RetainedFiles> {
    // No code panics while it holds the lock; if it did, the files would still be consistent.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RecordObserver for FileHolder {
    fn begin(&mut self, recording: &Recording) {
        self.layout = recording.layout(recording.events.len().saturating_sub(1));
    }

    fn observe(&mut self, chunk: &Chunk) {
        if chunk.ring == RingKind::Sideband
            && let Some(layout) = self.layout.take()
        {
            self.apply_records(&chunk.bytes, &layout);
            self.layout = Some(layout);
        }
    }
}
