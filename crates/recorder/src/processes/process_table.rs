//! The processes with generated code: when they began and which user they ran as. With this, whoever reads the recording can tell a
//! process's own perf map from one that somebody else wrote.

use std::collections::{HashMap, HashSet};

use decoder::record::Record;
use decoder::{RawRecord, RecordLayout, kind};
use host::procfs;
use model::{Pid, ProcessLifetime};
use perfdata::sections::{MAX_ENTRIES, id, processes};

use super::container_table::ContainerTable;
use super::resources::ProcessResources;

/// The processes with generated code, as `/proc` described them while recording, and the containers and services of all processes.
#[derive(Default, Debug)]
pub(crate) struct ProcessTable {
    entries: Vec<(Pid, ProcessLifetime)>,
    /// The processes that are known until they execute another program or end.
    seen: HashSet<Pid>,
    /// The index in `entries` of each process's newest entry.
    numbers: HashMap<Pid, usize>,
    containers: ContainerTable,
    resources: ProcessResources,
}

impl ProcessTable {
    /// Makes an empty table, which keeps what `resources` reads of processes.
    pub(crate) fn new(resources: &ProcessResources) -> Self {
        resources.keep_changes();
        Self { resources: resources.clone(), ..Self::default() }
    }

    /// Waits, for half a second at most, for what is being read of processes.
    pub(crate) fn finish(&self) {
        self.resources.finish();
    }

    /// Applies a record of a sideband ring. Reads `/proc` when a process first maps memory for generated code.
    pub(crate) fn apply(&mut self, raw: &RawRecord<'_>, layout: &RecordLayout) {
        if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT) {
            return;
        }
        let record = layout.decode(raw);
        if let Ok(record) = &record {
            self.containers.apply(record);
            self.resources.apply(record);
        }
        match record {
            Ok(Record::Mmap(map)) if tracker::is_generated_code(&map) => self.read_life(map.pid),
            Ok(Record::Comm(comm)) if comm.exec => drop(self.seen.remove(&comm.pid)),
            Ok(Record::Fork(task)) if task.pid != task.parent_pid => drop(self.seen.remove(&task.pid)),
            Ok(Record::Exit(task)) if task.pid.0 == task.tid.0 => drop(self.seen.remove(&task.pid)),
            _ => {}
        }
    }

    fn read_life(&mut self, pid: Pid) {
        if pid.0 <= 0 || self.entries.len() >= MAX_ENTRIES || !self.seen.insert(pid) {
            return;
        }
        // A process that has ended already gets no entry; its FORK and EXIT records tell when it lived.
        let Ok(life) = procfs::life(pid) else { return };
        match self.numbers.get(&pid).and_then(|&number| self.entries.get_mut(number)) {
            Some((_, known)) if known.may_be(&life) => *known = life,
            _ => {
                self.numbers.insert(pid, self.entries.len());
                self.entries.push((pid, life));
            }
        }
    }

    /// Returns the processes with their lives. A pid that was used twice has two entries.
    pub(crate) fn entries(&self) -> &[(Pid, ProcessLifetime)] {
        &self.entries
    }

    /// Removes the processes for which `keep` returns false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Pid) -> bool) {
        self.entries.retain(|(pid, _)| keep(*pid));
        self.seen.retain(|pid| keep(*pid));
        self.containers.retain(&mut keep);
        self.resources.retain(&mut keep);
        self.numbers = self.entries.iter().enumerate().map(|(number, (pid, _))| (*pid, number)).collect();
    }

    /// Encodes the sections of a recording that describe processes: their ids and bytes.
    pub(crate) fn sections(&self) -> Vec<(u32, Vec<u8>)> {
        let processes = self.to_section().map(|section| (id::PROCESSES, section));
        let containers = self.containers.to_section().map(|section| (id::CONTAINERS, section));
        let resources = self.resources.to_section().map(|section| (id::RESOURCES, section));
        [processes, containers, resources].into_iter().flatten().collect()
    }

    /// Encodes the section [`perfdata::sections::id::PROCESSES`]; `None` if it would be empty.
    pub(crate) fn to_section(&self) -> Option<Vec<u8>> {
        (!self.entries.is_empty()).then(|| processes::to_section(&self.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::{Comm, Mmap, MmapExtended, MmapIdentity};
    use decoder::{Attr, CpuMode, Endian, SampleId};
    use host::sys::perf_event::own_pid;
    use model::{FileIdentity, Tid};

    fn take(table: &mut ProcessTable, record: &Record<'_>) {
        let layout = RecordLayout::new(&Attr::default(), Endian::NATIVE);
        let mut bytes = Vec::new();
        layout.encode(record, &mut bytes).unwrap();
        let (raw, _) = RawRecord::parse(&bytes, Endian::NATIVE).unwrap();
        table.apply(&raw, &layout);
    }

    fn map(pid: Pid, path: &[u8], protection: u32) -> Record<'_> {
        let file = FileIdentity { major: 0, minor: 0, inode: 0, generation: 0 };
        let extended = MmapExtended { identity: MmapIdentity::File(file), protection, flags: 2 };
        Record::Mmap(Mmap {
            pid,
            tid: Tid(pid.0),
            start: 0x1000,
            len: 0x1000,
            page_offset: 0,
            path,
            extended: Some(extended),
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: SampleId::default(),
        })
    }

    #[test]
    fn processes_with_memory_for_code_are_looked_at() {
        let own = own_pid();
        let mut table = ProcessTable::default();
        for (path, protection) in
            [(b"/usr/bin/x".as_slice(), 5), (b"//anon", 3), (b"[vdso]", 5), (b"/usr/lib/libc.so", 7)]
        {
            take(&mut table, &map(own, path, protection));
            assert_eq!(table.entries, [], "{path:?}");
        }
        // Memory that is shared with children: PHP generates code there.
        let mut shared = ProcessTable::default();
        take(&mut shared, &map(own, b"/dev/zero (deleted)", 7));
        assert_eq!(shared.entries.len(), 1);
        take(&mut table, &map(Pid(-1), b"//anon", 7));
        take(&mut table, &map(own, b"//anon", 5));
        let known = procfs::life(own).unwrap();
        assert_eq!(table.entries[0].0, own);
        assert_eq!(table.entries[0].1.user, known.user);
        // Another program of the same process: the same entry.
        let comm = Comm { pid: own, tid: Tid(own.0), comm: b"x", exec: true, sample_id: SampleId::default() };
        take(&mut table, &Record::Comm(comm));
        take(&mut table, &map(own, b"/memfd:jit (deleted)", 7));
        assert_eq!(table.entries.len(), 1);
    }
}
