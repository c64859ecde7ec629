//! Processes that run generated code: when they began, and whose they are, so that a perf map which somebody else wrote is
//! known for what it is when the recording is read.

use std::collections::{HashMap, HashSet};

use decoder::record::{Mmap, Record};
use decoder::{Endian, RawRecord, RecordLayout, kind};
use host::procfs::{self, Life};
use model::Pid;

const PROT_EXEC: u32 = 4;
/// Processes that are remembered: all that live at a time, with the kernel's default `pid_max` of 32,768.
const MOST: usize = 1 << 16;
/// Bytes of an entry: pid, number in its own namespace, user, 0 (u32 each), start (u64, nanoseconds since 1970).
const ENTRY: usize = 24;

/// The table, as a recording carries it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProcessTable {
    entries: Vec<(Pid, Life)>,
    /// Those that need not be looked at again before they execute another program.
    seen: HashSet<Pid>,
    /// The entry of a process.
    numbers: HashMap<Pid, usize>,
}

impl ProcessTable {
    /// The layout of the section: this number (u64), then the entries.
    const VERSION: u64 = 1;

    /// Takes a record of a sideband ring: looks at a process when it first maps memory for generated code.
    pub(crate) fn take(&mut self, raw: &RawRecord<'_>, layout: &RecordLayout) {
        if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT) {
            return;
        }
        match layout.decode(raw) {
            Ok(Record::Mmap(map)) if is_for_code(&map) => self.look_at(map.pid),
            Ok(Record::Comm(comm)) if comm.exec => drop(self.seen.remove(&comm.pid)),
            Ok(Record::Fork(task)) if task.pid != task.parent_pid => drop(self.seen.remove(&task.pid)),
            Ok(Record::Exit(task)) if task.pid.0 == task.tid.0 => drop(self.seen.remove(&task.pid)),
            _ => {}
        }
    }

    fn look_at(&mut self, pid: Pid) {
        if pid.0 <= 0 || self.entries.len() >= MOST || !self.seen.insert(pid) {
            return;
        }
        // One that has ended already has no entry: of a process that lived for so short a time FORK and EXIT say when.
        let Ok(life) = procfs::life(pid) else { return };
        match self.numbers.get(&pid).and_then(|&number| self.entries.get_mut(number)) {
            Some((_, known)) if known.may_be(&life) => *known = life,
            _ => {
                self.numbers.insert(pid, self.entries.len());
                self.entries.push((pid, life));
            }
        }
    }

    /// The processes. A number that was used twice has two entries.
    pub fn entries(&self) -> &[(Pid, Life)] {
        &self.entries
    }

    /// Forgets the processes for which `keep` does not hold.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Pid) -> bool) {
        self.entries.retain(|(pid, _)| keep(*pid));
        self.seen.retain(|pid| keep(*pid));
        self.numbers = self.entries.iter().enumerate().map(|(number, (pid, _))| (*pid, number)).collect();
    }

    /// The bytes of the section ([`perfdata::sections::id::PROCESSES`]); `None` where it would be empty.
    pub fn to_section(&self) -> Option<Vec<u8>> {
        if self.entries.is_empty() {
            return None;
        }
        let mut section = Self::VERSION.to_ne_bytes().to_vec();
        for (pid, life) in &self.entries {
            let own_number = life.own_number.unwrap_or(*pid);
            let words =
                [pid.0.cast_unsigned(), own_number.0.cast_unsigned(), life.user.unwrap_or(u32::MAX), 0];
            section.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            section.extend(life.start.unwrap_or(0).to_ne_bytes());
        }
        Some(section)
    }

    /// Reads the section; what is cut off or of another version is left out.
    pub fn from_section(section: &[u8], endian: Endian) -> Self {
        let mut table = Self::default();
        let Some((version, entries)) = section.split_first_chunk::<8>() else { return table };
        if endian.u64(*version) != Self::VERSION {
            return table;
        }
        for entry in entries.chunks_exact(ENTRY).take(MOST) {
            let word = |index: usize| {
                let bytes = entry.get(4 * index..).and_then(|rest| rest.first_chunk()).copied();
                endian.u32(bytes.unwrap_or_default())
            };
            let start = endian.u64(entry.last_chunk().copied().unwrap_or_default());
            let life = Life {
                start: Some(start).filter(|&start| start > 0),
                end: None,
                user: Some(word(2)).filter(|&user| user != u32::MAX),
                own_number: Some(Pid(word(1).cast_signed())),
            };
            table.entries.push((Pid(word(0).cast_signed()), life));
        }
        table
    }
}

/// Whether a runtime may put code there: executable memory that is no object's.
fn is_for_code(map: &Mmap<'_>) -> bool {
    let executable = map.extended.is_some_and(|extended| extended.protection & PROT_EXEC != 0);
    let file =
        map.path.starts_with(b"/") && !map.path.starts_with(b"//") && !map.path.starts_with(b"/memfd:");
    executable && !file && !map.path.starts_with(b"[v")
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::{Comm, MmapExtended, MmapIdentity};
    use decoder::{Attr, CpuMode, SampleId};
    use host::sys::perf_event::own_pid;
    use model::{FileIdentity, Tid};

    fn take(table: &mut ProcessTable, record: &Record<'_>) {
        let layout = RecordLayout::new(&Attr::default(), Endian::NATIVE);
        let mut bytes = Vec::new();
        layout.encode(record, &mut bytes).unwrap();
        let (raw, _) = RawRecord::parse(&bytes, Endian::NATIVE).unwrap();
        table.take(&raw, &layout);
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
            assert_eq!(table.entries(), [], "{path:?}");
        }
        take(&mut table, &map(Pid(-1), b"//anon", 7));
        take(&mut table, &map(own, b"//anon", 5));
        let known = procfs::life(own).unwrap();
        assert_eq!(table.entries()[0].0, own);
        assert_eq!(table.entries()[0].1.user, known.user);
        // Another program of the same process: the same entry.
        let comm = Comm { pid: own, tid: Tid(own.0), comm: b"x", exec: true, sample_id: SampleId::default() };
        take(&mut table, &Record::Comm(comm));
        take(&mut table, &map(own, b"/memfd:jit (deleted)", 7));
        assert_eq!(table.entries().len(), 1);
    }

    #[test]
    fn a_table_reads_as_it_was_written() {
        let life = |start, user| Life { start, end: None, user, own_number: Some(Pid(7)) };
        let entries = vec![
            (Pid(1), life(Some(1_700_000_000_000_000_000), Some(1000))),
            (Pid(4_000_000), life(None, None)),
        ];
        let table = ProcessTable { entries, ..ProcessTable::default() };
        let section = table.to_section().unwrap();
        assert_eq!(ProcessTable::from_section(&section, Endian::NATIVE), table);
        for cut in 0..section.len() {
            let read = ProcessTable::from_section(&section[..cut], Endian::NATIVE);
            assert!(table.entries.starts_with(&read.entries));
        }
        assert_eq!(ProcessTable::default().to_section(), None);
        let other = [&2_u64.to_ne_bytes(), &section[8..]].concat();
        assert_eq!(ProcessTable::from_section(&other, Endian::NATIVE), ProcessTable::default());
    }
}
