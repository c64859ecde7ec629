//! Synthesizes records that the kernel does not write: of what existed before the recording (the kernel, its modules, processes,
//! threads, mappings), with time 0, which sorts them before all others; and of mappings that are found in `/proc` later.

use decoder::record::{Cgroup, Comm, Mmap, MmapExtended, MmapIdentity, Namespaces};
use decoder::values::U64s;
use decoder::{CpuMode, Endian, Record, RecordLayout, SampleId};
use host::machine::KernelObjects;
use host::objects::MappedFileReader;
use host::process_memory::{self, MapEntry};
use host::procfs;
use host::sys::perf_event::own_pid;
use host::sys::spawn::exec_address;
use model::{FileIdentity, KernelText, Pid, Tid, Timestamp};

use crate::mapped_files::MappedFiles;
use crate::options::Extras;

/// `PROT_EXEC`, `MAP_SHARED`, `MAP_PRIVATE` of `mmap(2)`.
const PROT_EXEC: u32 = 4;
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;

/// Collects synthesized records.
pub(crate) struct Synthesis<'a> {
    layout: &'a RecordLayout,
    extras: Extras,
    time: Timestamp,
    records: Vec<u8>,
    files: &'a MappedFiles,
    /// Reads mapped files before their records are used; without it, the worker of `files` does, sooner or later.
    reader: Option<MappedFileReader>,
}

impl<'a> Synthesis<'a> {
    /// Starts records of what existed before the recording, in the layout of one of its events. Reads the files of its mappings.
    pub(crate) fn new(layout: &'a RecordLayout, extras: Extras, files: &'a MappedFiles) -> Self {
        let reader = Some(MappedFileReader::default());
        Self { layout, extras, time: Timestamp(0), records: Vec::new(), files, reader }
    }

    /// Starts records of what existed at `time`. Has the files of its mappings read.
    pub(crate) fn at(layout: &'a RecordLayout, time: Timestamp, files: &'a MappedFiles) -> Self {
        Self { time, reader: None, ..Self::new(layout, Extras::default(), files) }
    }

    /// Returns the records.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.records
    }

    /// Adds the kernel's image and modules, if their addresses are visible to us.
    pub(crate) fn kernel(&mut self, kernel: &KernelObjects) {
        if let Some(image) = &kernel.image {
            let KernelText { symbol, address } = image.text;
            let path = format!("[kernel.kallsyms]{}", symbol.name());
            self.kernel_map(address, image.length, address, path.as_bytes());
        }
        for module in &kernel.modules {
            self.kernel_map(module.start, module.length, 0, module.recorded_name().as_bytes());
        }
    }

    fn kernel_map(&mut self, start: u64, len: u64, page_offset: u64, path: &[u8]) {
        self.push(&Record::Mmap(Mmap {
            pid: Pid(-1),
            tid: Tid(0),
            start,
            len,
            page_offset,
            path,
            extended: None,
            data: false,
            mode: CpuMode::Kernel,
            scan_cut_short: false,
            sample_id: trailer(Pid(-1), Tid(0)),
        }));
    }

    /// Adds the child that becomes the command: its name before `execve`, the mapping of the code that calls `execve`, and its
    /// namespaces.
    pub(crate) fn child(&mut self, pid: Pid) {
        self.thread(pid, Tid(pid.0), b"prof-exec");
        // It is a fork of us. Events are enabled within `execve`, so the first samples can have the address of the call.
        let call = exec_address();
        let (maps, _) = mappings(own_pid(), false);
        if let Some(map) = maps.iter().find(|map| (map.start..map.end).contains(&call)) {
            let record = self.record(pid, map, false);
            // The child itself may have other mappings by the time they are read.
            self.files.request(&Mmap { pid: own_pid(), ..record });
            self.push(&Record::Mmap(record));
        }
        if self.extras.namespaces {
            self.namespaces(pid);
        }
    }

    /// Adds a thread and its name.
    fn thread(&mut self, pid: Pid, tid: Tid, comm: &[u8]) {
        let sample_id = SampleId { time: Some(self.time), ..trailer(pid, tid) };
        self.push(&Record::Comm(Comm { pid, tid, comm, exec: false, sample_id }));
    }

    /// Adds a process: its threads and its executable mappings. If it ends meanwhile, the rest is missing.
    pub(crate) fn process(&mut self, pid: Pid) {
        for tid in procfs::threads(pid).unwrap_or_default() {
            if let Ok(comm) = procfs::comm(pid, tid) {
                self.thread(pid, tid, &comm);
            }
        }
        if self.extras.namespaces {
            self.namespaces(pid);
        }
        let (maps, cut_short) = mappings(pid, self.extras.data);
        let last = maps.len().saturating_sub(1);
        for (index, map) in maps.iter().enumerate() {
            self.mapping(pid, map, cut_short && index == last);
        }
    }

    fn namespaces(&mut self, pid: Pid) {
        let Some(links) = procfs::namespaces(pid) else { return };
        let bytes: Vec<u8> = links.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
        let tid = Tid(pid.0);
        let links = U64s::new(&bytes, Endian::NATIVE);
        self.push(&Record::Namespaces(Namespaces { pid, tid, links, sample_id: trailer(pid, tid) }));
    }

    /// Adds all cgroups, if samples carry the ids of theirs.
    pub(crate) fn cgroups(&mut self) {
        if !self.extras.cgroups {
            return;
        }
        for (id, path) in host::cgroup::all() {
            let sample_id = trailer(Pid(-1), Tid(-1));
            self.push(&Record::Cgroup(Cgroup { id, path: path.as_bytes(), sample_id }));
        }
    }

    /// Adds one mapping of a process.
    pub(crate) fn mapping(&mut self, pid: Pid, map: &MapEntry, scan_cut_short: bool) {
        let record = self.record(pid, map, scan_cut_short);
        match &mut self.reader {
            Some(reader) => self.files.read_now(&record, reader),
            None => drop(self.files.request(&record)),
        }
        self.push(&Record::Mmap(record));
    }

    fn record<'m>(&self, pid: Pid, map: &'m MapEntry, scan_cut_short: bool) -> Mmap<'m> {
        let (major, minor) = map.device;
        let identity = MmapIdentity::File(FileIdentity { major, minor, inode: map.inode, generation: 0 });
        let sharing = if map.shared { MAP_SHARED } else { MAP_PRIVATE };
        Mmap {
            pid,
            tid: Tid(pid.0),
            start: map.start,
            len: map.end.saturating_sub(map.start),
            page_offset: map.page_offset,
            // perf's name for memory without a file.
            path: if map.path.is_empty() { b"//anon" } else { &map.path },
            extended: Some(MmapExtended { identity, protection: map.protection, flags: sharing }),
            data: map.protection & PROT_EXEC == 0,
            mode: CpuMode::User,
            scan_cut_short,
            sample_id: SampleId { time: Some(self.time), ..trailer(pid, Tid(pid.0)) },
        }
    }

    fn push(&mut self, record: &Record<'_>) {
        // Only a name beyond the limits of /proc does not fit into a record; there is none.
        let _ = self.layout.encode(record, &mut self.records);
    }
}

/// Reads the executable mappings of a process, or with `data` all; and whether some are missing because reading took too long. Empty
/// for kernel threads, and for processes that we may not read.
pub(crate) fn mappings(pid: Pid, data: bool) -> (Vec<MapEntry>, bool) {
    process_memory::executable_maps(pid, data).unwrap_or_default()
}

fn trailer(pid: Pid, tid: Tid) -> SampleId {
    SampleId { thread: Some((pid, tid)), time: Some(Timestamp(0)), ..SampleId::default() }
}
