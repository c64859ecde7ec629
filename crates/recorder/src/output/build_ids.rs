//! The build ids of what the records of one file map: by file in a section of ours, by path in the header for other readers.

use std::collections::{HashMap, HashSet};

use decoder::record::{Mmap, MmapIdentity};
use decoder::{RawRecord, Record, RecordLayout, kind, misc};
use model::{BuildId, FileIdentity, Name, Pid, TextSymbol};
use perfdata::features::BuildIdEntry;
use perfdata::sections::mapped_files::{self, MappedFile};
use perfdata::sections::{self, id};
use perfdata::write::section_records;

use crate::consumer::Recording;
use crate::mapped_files::{MappedFiles, mapped_file};
use crate::records::raw_records;

/// Collects the mapped files of one recording.
#[derive(Clone, Default)]
pub(crate) struct BuildIds {
    files: MappedFiles,
    /// The files of the records.
    mapped: HashMap<FileIdentity, SeenFile>,
    /// What is known of them, in the order in which it became known.
    states: Vec<MappedFile>,
    /// The number of states that [`BuildIds::take_new_records`] has returned.
    written: usize,
    /// See [`MappedFiles::read_since`].
    cursor: u64,
    listed: HashSet<BuildId>,
    entries: Vec<BuildIdEntry>,
}

/// A file of a record.
#[derive(Clone)]
struct SeenFile {
    /// The path of the first mapping.
    path: Name,
    /// The number of its states in [`BuildIds::states`].
    states: usize,
}

impl BuildIds {
    /// Starts with the build ids of the kernel.
    pub(crate) fn new(recording: &Recording) -> Self {
        let mut build_ids = Self { files: recording.files.clone(), ..Self::default() };
        for (path, build_id) in recording.kernel.build_ids() {
            build_ids.list(build_id, Name::from(path.as_str()), 1);
        }
        build_ids
    }

    /// Adds the file of a record, if it is a mapping.
    pub(crate) fn add_record(&mut self, raw: &RawRecord<'_>, layout: &RecordLayout) {
        if raw.kind != kind::MMAP2 {
            return;
        }
        let Ok(Record::Mmap(map)) = layout.decode(raw) else { return };
        if let Some(MmapIdentity::BuildId(Some(build_id))) = map.extended.map(|extended| extended.identity) {
            self.list(build_id, listed_path(&map), raw.misc & misc::CPUMODE_MASK);
        } else if let Some(file) = mapped_file(&map)
            && !self.mapped.contains_key(&file)
        {
            self.mapped.insert(file, SeenFile { path: Name::new(map.path), states: 0 });
            self.take_states(&file);
        }
    }

    /// Adds the files of all records in `records`.
    pub(crate) fn add_all(&mut self, records: &[u8], layout: &RecordLayout) {
        for raw in raw_records(records) {
            self.add_record(&raw, layout);
        }
    }

    /// Adds the files of `others`, whose records are in the same file.
    pub(crate) fn add(&mut self, others: &Self) {
        for (file, seen) in &others.mapped {
            self.mapped.entry(*file).or_insert_with(|| SeenFile { path: seen.path.clone(), states: 0 });
            self.take_states(file);
        }
        for entry in &others.entries {
            self.list(entry.build_id, entry.path.clone(), entry.misc);
        }
    }

    /// Returns records that carry what became known of the files since the last call, to be written before the next records: readers
    /// of a stream, and of a file whose recorder was killed, have nothing else.
    pub(crate) fn take_new_records(&mut self) -> Vec<u8> {
        for file in self.files.read_since(&mut self.cursor) {
            self.take_states(&file);
        }
        let new = self.states.get(self.written..).unwrap_or_default();
        self.written = self.states.len();
        if new.is_empty() {
            Vec::new()
        } else {
            section_records(id::MAPPED_FILES, &mapped_files::to_section(new))
        }
    }

    /// Looks at all files of the records for the last time.
    pub(crate) fn finish(&mut self) {
        let files: Vec<FileIdentity> = self.mapped.keys().copied().collect();
        files.iter().for_each(|file| self.take_states(file));
    }

    /// Returns the build ids by path.
    pub(crate) fn entries(&self) -> Vec<BuildIdEntry> {
        self.entries.clone()
    }

    /// Returns the section of the build ids by file, with its number.
    pub(crate) fn section(&self) -> (u32, Vec<u8>) {
        (sections::id::MAPPED_FILES, mapped_files::to_section(&self.states))
    }

    /// Adds the states of a file of the records that became known since the last call.
    fn take_states(&mut self, file: &FileIdentity) {
        let Some(seen) = self.mapped.get_mut(file) else { return };
        let states = self.files.states(file);
        let new = states.get(seen.states..).unwrap_or_default();
        seen.states = seen.states.max(states.len());
        let path = seen.path.clone();
        self.states.extend_from_slice(new);
        for build_id in new.iter().filter_map(|state| state.build_id) {
            self.list(build_id, path.clone(), 2);
        }
    }

    /// Adds a build id for the header. `mode` is the privilege level in `misc`: 1 for the kernel, 2 for user space.
    fn list(&mut self, build_id: BuildId, path: Name, mode: u16) {
        if self.listed.insert(build_id) {
            self.entries.push(BuildIdEntry { pid: Pid(-1), misc: mode, build_id, path });
        }
    }
}

/// Returns the path for the header: without the reference symbol, for the kernel's image.
fn listed_path(map: &Mmap<'_>) -> Name {
    let is_kernel = map.path.starts_with(b"[kernel");
    Name::new(if is_kernel { TextSymbol::split_path(map.path).0 } else { map.path })
}
