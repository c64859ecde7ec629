//! Keeps the files open whose names would be gone when the recording is read, as long as there is a process to find them by.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use decoder::record::{Mmap, Record};
use decoder::{CpuMode, Endian, RawRecord, RecordLayout, kind};
use host::objects::{MappingLocation, RetainedFiles};
use host::procfs::{self, PathView};
use host::sys::perf_event::own_pid;
use model::Pid;

use crate::consumer::{
    Chunk, Consumer, Ending, Recording, RecordingSink, RingKind, forward_calls, forward_upkeep,
};

/// Folders of what a distribution installs: these files stay, unless a process sees others under their names.
const SYSTEM: [&[u8]; 9] = [
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
/// Roots of containers that are kept open.
const MOST_ROOTS: usize = 64;
/// Processes that are remembered. When there are more, all are forgotten, and looked at again.
const MOST_PROCESSES: usize = 1 << 16;

/// Sources of names that may be gone when the recording is read.
#[derive(Clone, Default, Debug)]
pub struct NameSources {
    /// The files that will not be found by their paths, open.
    pub files: Arc<RetainedFiles>,
    /// True if a process had memory for generated code, whose names are in files that it writes itself.
    pub has_generated_code: bool,
}

impl NameSources {
    /// Returns true if all names will be found later.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.has_generated_code
    }
}

/// Hands everything on as it comes, and looks at mappings on the way: before they are put into order, while most of their
/// processes live.
pub struct FileHolder<C> {
    consumer: C,
    layout: Option<RecordLayout>,
    own: Option<PathView>,
    /// The views of processes that see other files than we do; `None` for those that see the same.
    processes: HashMap<Pid, Option<PathView>>,
    roots: HashMap<PathView, File>,
    held: Arc<Mutex<RetainedFiles>>,
    has_generated_code: bool,
}

impl<C: Consumer> FileHolder<C> {
    /// Watches what goes to `consumer`.
    pub fn new(consumer: C) -> Self {
        Self::with_shared_files(consumer, Arc::default())
    }

    /// Watches what goes to `consumer`, and adds to `held`, which others may look at meanwhile.
    pub fn with_shared_files(consumer: C, held: Arc<Mutex<RetainedFiles>>) -> Self {
        let (processes, roots) = (HashMap::new(), HashMap::new());
        Self { consumer, layout: None, own: None, processes, roots, held, has_generated_code: false }
    }

    /// Ends the watching; returns the sources of names that were found.
    pub fn into_sources(self) -> NameSources {
        let mut files = std::mem::take(&mut *lock(&self.held));
        files.close_findable();
        NameSources { files: Arc::new(files), has_generated_code: self.has_generated_code }
    }

    fn look_at(&mut self, mut records: &[u8], layout: &RecordLayout) {
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            records = records.get(size..).unwrap_or(&[]);
            if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT) {
                continue;
            }
            match layout.decode(&raw) {
                Ok(Record::Mmap(map)) if map.mode == CpuMode::User => self.map(&map),
                Ok(Record::Comm(comm)) if comm.exec && comm.pid.0 > 0 => drop(self.look_again(comm.pid)),
                // Rings are in no order to each other: what the child did may have come before.
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
        if view.is_none() && SYSTEM.iter().any(|folder| map.path.starts_with(folder)) {
            return;
        }
        let at = MappingLocation {
            pid: map.pid,
            start: map.start,
            end: map.start.saturating_add(map.len),
            root: view.as_ref().and_then(|view| self.roots.get(view)),
        };
        lock(&self.held).add(&identity, &at);
    }

    /// Returns the view of a process, where these are other files than ours.
    fn view(&mut self, pid: Pid) -> Option<PathView> {
        match self.processes.get(&pid) {
            Some(known) => known.clone(),
            None => self.look_again(pid).flatten(),
        }
    }

    /// Containers begin between fork and exec. Of a process that has ended already it stays known what its parent sees.
    fn look_again(&mut self, pid: Pid) -> Option<Option<PathView>> {
        if self.own.is_none() {
            self.own = procfs::path_view(own_pid()).ok();
        }
        let view = procfs::path_view(pid).ok()?;
        let view = (self.own.as_ref() != Some(&view)).then_some(view);
        if self.roots.len() >= MOST_ROOTS {
            let used: HashSet<&PathView> = self.processes.values().flatten().collect();
            self.roots.retain(|view, _| used.contains(view));
        }
        if let Some(view) = view.as_ref().filter(|view| !self.roots.contains_key(view))
            && self.roots.len() < MOST_ROOTS
            && let Ok(root) = procfs::root_folder(pid)
        {
            self.roots.insert(view.clone(), root);
        }
        if self.processes.len() >= MOST_PROCESSES {
            self.processes.clear();
        }
        self.processes.insert(pid, view.clone());
        Some(view)
    }
}

fn lock(held: &Mutex<RetainedFiles>) -> MutexGuard<'_, RetainedFiles> {
    // Nobody panics while holding it; if so, the files are as good as they were.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Consumer> RecordingSink for FileHolder<C> {
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

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.consumer.end(ending)
    }

    forward_calls!(this => this.consumer);
    forward_upkeep!(this => this.consumer);
}

impl<C: Consumer> Consumer for FileHolder<C> {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if chunk.ring == RingKind::Sideband
            && let Some(layout) = self.layout.take()
        {
            self.look_at(&chunk.bytes, &layout);
            self.layout = Some(layout);
        }
        self.consumer.consume(chunk)
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        self.consumer.shorten_sample(sample, until, into)
    }
}
