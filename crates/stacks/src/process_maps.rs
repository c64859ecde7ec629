//! The mappings of a process at one moment, as the unwinder needs them. Another thread can unwind with them while the tracker
//! applies further records.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use elf::ObjectSource;
use generated::{DumpSource, is_dump};
use model::{AddressKind, Avma, FileOffset, FrameAddress, Pid, Space, SpaceId, StackEntry, Timestamp};
use rustc_hash::FxBuildHasher;
use tracker::{Generation, Mapping, MappingKind, Tracker};
use unwinder::{AddressSpace, ObjectNumber, Objects, UnwindTables};

use crate::generated_code::{DumpUpdater, GeneratedCode};
use crate::generated_tables::number_of_space;
use crate::interpreters::{InterpreterSlot, Interpreters, MappedRuntime};
use crate::mechanisms::Mechanisms;
use crate::object_tables::{ObjectTables, OpenedLists, RefusedTables, TableSource};
use crate::table_bytes::TableBytes;

/// The mappings of a process at one moment.
#[derive(Debug)]
pub struct ProcessMaps {
    /// The mappings in the form of [`unwinder::Unwinder::unwind`].
    pub space: AddressSpace,
    mappings: Vec<Mapping>,
    images: HashMap<ObjectNumber, Arc<ObjectTables>, FxBuildHasher>,
    /// The code of the jitdumps that the process maps.
    generated: Vec<Arc<GeneratedCode>>,
    interpreters: Option<Interpreters>,
    interpreter: InterpreterSlot,
}

impl ProcessMaps {
    /// Returns the interpreter that the process has mapped, if its object was opened.
    pub fn interpreter(&self) -> Option<Arc<MappedRuntime>> {
        self.interpreter.get(self.interpreters.as_ref()?, &self.space)
    }

    /// Returns true if the process has mapped a jitdump.
    pub fn has_dump(&self) -> bool {
        !self.generated.is_empty()
    }

    /// Returns the space and offset of a frame; `None` outside every mapping.
    pub fn entry(&self, frame: FrameAddress<Avma>) -> Option<StackEntry> {
        let (address, kind, lookup) = match frame {
            FrameAddress::InstructionPointer(address) => (address, AddressKind::InstructionPointer, address),
            FrameAddress::ReturnAddress(address) => {
                (address, AddressKind::ReturnAddress, Avma(address.0.checked_sub(1)?))
            }
        };
        let mapping = self.mapping(lookup)?;
        Some(StackEntry { offset: mapping.offset_of(address), space: mapping.space, kind, in_kernel: false })
    }

    fn mapping(&self, address: Avma) -> Option<&Mapping> {
        let index = self.mappings.partition_point(|mapping| mapping.last < address);
        self.mappings.get(index).filter(|mapping| mapping.contains(address))
    }
}

/// The objects that a process has mapped, for the unwinder.
pub(crate) struct MappedObjects<'s> {
    maps: &'s ProcessMaps,
    /// Returns true once the time is over in which tables may be read. Where it is set, no object is opened at all: that takes long.
    is_over: Option<&'s dyn Fn() -> bool>,
    /// The time at which generated code is asked for.
    time: Timestamp,
    /// True if tables were asked for and not given out, because the time was over or their object is not open.
    pub(crate) lacking: bool,
}

impl fmt::Debug for MappedObjects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedObjects").field("maps", &self.maps).finish_non_exhaustive()
    }
}

impl<'s> MappedObjects<'s> {
    pub(crate) fn all(maps: &'s ProcessMaps) -> Self {
        Self { maps, is_over: None, time: Timestamp(u64::MAX), lacking: false }
    }

    /// Gives out the tables of objects that are open, until `is_over` returns true.
    pub(crate) fn open(maps: &'s ProcessMaps, is_over: &'s dyn Fn() -> bool) -> Self {
        Self { is_over: Some(is_over), ..Self::all(maps) }
    }

    /// Gives out generated code as it was at the time of a sample; without a time, the newest.
    pub(crate) fn at(self, time: Option<Timestamp>) -> Self {
        Self { time: time.unwrap_or(self.time), ..self }
    }

    /// Returns the space that the tables are mapped in.
    pub(crate) fn space(&self) -> &'s AddressSpace {
        &self.maps.space
    }

    /// Returns true if two return addresses are of one function, as the unwind tables have it.
    pub(crate) fn share_function(&mut self, one: Avma, other: Avma) -> bool {
        let place = |address: Avma| {
            let lookup = Avma(address.0.checked_sub(1)?);
            let mapping = self.maps.mapping(lookup)?;
            Some((mapping.space, FileOffset(mapping.offset_of(lookup))))
        };
        let (Some((space, one)), Some((others, other))) = (place(one), place(other)) else { return false };
        let mut tables = || self.tables(number_of_space(space.0));
        space == others && tables().is_some_and(|tables| tables.share_function(one, other))
    }
}

impl Objects for MappedObjects<'_> {
    type Bytes = TableBytes;

    fn tables(&mut self, object: ObjectNumber) -> Option<Arc<UnwindTables<Self::Bytes>>> {
        let Some(image) = self.maps.images.get(&object) else {
            return self.maps.generated.iter().find_map(|code| code.tables(object));
        };
        self.lacking |= self.is_over.is_some_and(|is_over| !image.is_open() || is_over());
        if self.lacking {
            return None;
        }
        image.tables()
    }

    fn generated(&mut self, address: Avma) -> Option<(ObjectNumber, FileOffset)> {
        let found = self.maps.generated.iter().filter_map(|code| code.find(address, self.time));
        let (_, object, offset) = found.max_by_key(|(time, ..)| *time)?;
        Some((object, offset))
    }

    fn watched(&self) -> Arc<[Range<Avma>]> {
        match self.maps.interpreter().as_deref() {
            Some(MappedRuntime::Python(interpreter)) => Arc::clone(interpreter.eval()),
            _ => Arc::default(),
        }
    }
}

/// Caches the newest mappings of each process, and the unwind tables of all objects.
#[derive(Debug)]
pub struct ProcessMapsCache {
    objects: Arc<dyn TableSource>,
    lists: OpenedLists,
    images: HashMap<SpaceId, Arc<ObjectTables>, FxBuildHasher>,
    processes: HashMap<Pid, Known, FxBuildHasher>,
    dump_updater: Option<DumpUpdater>,
    /// Dumps by the spaces of their files; `None` where the dump cannot be opened.
    dumps: HashMap<SpaceId, Option<Arc<GeneratedCode>>, FxBuildHasher>,
}

/// The newest mappings of a process.
#[derive(Debug)]
struct Known {
    generation: Generation,
    /// The number of programs that it had executed.
    program: Option<u32>,
    maps: Arc<ProcessMaps>,
    /// Mappings that may be taken over since these were.
    credit: usize,
}

/// The maximum number of mappings that are taken over for a sample, on average. Processes have hundreds with code. One of 60,000 that
/// makes others all the time would cost all other samples their turn: its maps are as old as its last 60 samples.
const MAPPINGS_OF_SAMPLE: usize = 1024;

/// The maximum number of processes. Beyond it all that is known of them is dropped at once, maps and objects: most of the processes have
/// ended, and many objects were theirs alone.
pub const MAX_PROCESSES: usize = 1024;

/// The number of processes from which on the maps of ended ones are dropped.
const PROCESSES_BEFORE_CLEANUP: usize = 128;

/// The maximum number of open jitdumps.
const MAX_DUMPS: usize = 64;
/// The maximum number of jitdumps of one process: after a fork it may map its parent's, too.
const MAX_DUMPS_OF_PROCESS: usize = 4;

/// The number of objects from which on those that no running process maps are dropped.
const OBJECTS_BEFORE_CLEANUP: usize = 512;
/// The maximum size of the indices of all objects before some are dropped. The linker's own tables are read where they lie. An index
/// that we have to make takes 16 bytes for each function, and an object may claim a million functions.
const MAX_TABLE_BYTES: usize = 32 << 20;

impl ProcessMapsCache {
    /// Creates an empty cache that has objects opened by `objects`.
    pub fn new(objects: Arc<impl ObjectSource + 'static>) -> Self {
        Self {
            objects,
            lists: OpenedLists::default(),
            images: HashMap::default(),
            processes: HashMap::default(),
            dump_updater: None,
            dumps: HashMap::default(),
        }
    }

    /// Returns the same cache, which also unwinds generated code that a process describes in a jitdump; `dumps` opens it. Set
    /// `has_clock` if the times of samples are of `CLOCK_MONOTONIC`, as those of dumps are: else the newest code at an address is
    /// taken.
    #[must_use]
    pub fn with_dumps(self, dumps: impl DumpSource + 'static, has_clock: bool) -> Self {
        Self { dump_updater: Some(DumpUpdater::new(Box::new(dumps), has_clock)), ..self }
    }

    /// Returns the same cache, which also looks for those interpreters in the objects that it opens that `mechanisms` name functions of.
    #[must_use]
    pub fn with_interpreters(mut self, mechanisms: Mechanisms) -> Self {
        if mechanisms.intersects(Mechanisms::PYTHON | Mechanisms::JAVASCRIPT) {
            self.lists.interpreters = Some(Interpreters::new(mechanisms));
        }
        self
    }

    /// Returns the list of unwind tables that could not be read. It grows as further objects are opened.
    pub fn refused_tables(&self) -> RefusedTables {
        self.lists.refused.clone()
    }

    /// Returns the mappings of a process as the tracker knows them now, and reads on its jitdumps.
    pub fn get(&mut self, tracker: &mut Tracker, pid: Pid) -> Arc<ProcessMaps> {
        let generation = tracker.recorded_generation(pid);
        let program = tracker.program(pid);
        if let Some(known) = self.processes.get_mut(&pid) {
            known.credit = known.credit.saturating_add(MAPPINGS_OF_SAMPLE);
            let is_early = known.program == program && known.credit < known.maps.mappings.len();
            if known.generation == generation || is_early {
                let maps = Arc::clone(&known.maps);
                self.update_dumps(&maps);
                return maps;
            }
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.drop_all();
        }
        let maps = Arc::new(self.build_maps(tracker, pid));
        self.update_dumps(&maps);
        self.processes.insert(pid, Known { generation, program, maps: Arc::clone(&maps), credit: 0 });
        maps
    }

    /// Returns the mappings of a process without reading any file, if neither they nor its jitdumps have changed since they were last
    /// asked for.
    pub fn get_unchanged(&self, tracker: &mut Tracker, pid: Pid) -> Option<(Generation, Arc<ProcessMaps>)> {
        let generation = tracker.recorded_generation(pid);
        let found = self.processes.get(&pid).filter(|known| known.generation == generation)?;
        // A dump that has grown may tell of new code, and has to be read.
        let has_news = found.maps.generated.iter().any(|code| code.has_grown());
        (!has_news).then(|| (generation, Arc::clone(&found.maps)))
    }

    /// Reads on the dumps of a process that have grown.
    fn update_dumps(&mut self, maps: &ProcessMaps) {
        let Some(updater) = self.dump_updater.as_mut().filter(|_| !maps.generated.is_empty()) else { return };
        let all: usize = self.dumps.values().flatten().map(|code| code.loads()).sum();
        for code in &maps.generated {
            updater.update(code, all.saturating_sub(code.loads()));
        }
    }

    /// Returns the code that the dump in a space describes. Dumps of ended processes make room for new ones.
    fn generated_code(&mut self, space: SpaceId, path: &[u8], pid: Pid) -> Option<Arc<GeneratedCode>> {
        let updater = self.dump_updater.as_mut()?;
        if let Some(known) = self.dumps.get(&space) {
            return known.clone();
        }
        if self.dumps.len() >= MAX_DUMPS {
            self.dumps.retain(|_, code| code.as_ref().is_some_and(|code| Arc::strong_count(code) > 1));
        }
        if self.dumps.len() >= MAX_DUMPS {
            return None;
        }
        let code = updater.open(pid, path).map(Arc::new);
        self.dumps.insert(space, code.clone());
        code
    }

    /// Returns true if the cache has an object of this space, opened or not.
    pub fn has_object(&self, space: SpaceId) -> bool {
        self.images.contains_key(&space)
    }

    /// Releases the memory that only makes later reads of objects faster.
    pub fn release_caches(&self) {
        self.objects.release_caches();
    }

    /// Drops the mappings of processes that the tracker has forgotten, and the older half of the objects that no process maps any more,
    /// once there are many. Drops more where tables take too much memory.
    pub fn forget_ended(&mut self, tracker: &Tracker) {
        let is_too_large = self.table_bytes() > MAX_TABLE_BYTES;
        if self.processes.len() > PROCESSES_BEFORE_CLEANUP || is_too_large {
            self.processes.retain(|&pid, _| tracker.knows(pid));
        }
        if self.images.len() > OBJECTS_BEFORE_CLEANUP || is_too_large {
            // Objects come and go less often than processes: those of short-lived programs are worth keeping.
            let mut unused: Vec<SpaceId> = self
                .images
                .iter()
                .filter(|(_, image)| Arc::strong_count(image) == 1)
                .map(|(&space, _)| space)
                .collect();
            unused.sort_unstable();
            let dropped = if is_too_large { unused.len() } else { unused.len() / 2 };
            for image in unused.iter().take(dropped).filter_map(|space| self.images.remove(space)) {
                image.close();
            }
        }
        if is_too_large && self.table_bytes() > MAX_TABLE_BYTES {
            self.drop_all();
        }
    }

    fn table_bytes(&self) -> usize {
        self.images.values().map(|image| image.size()).sum()
    }

    /// Drops all maps, objects and dumps. Those in use are made again when they are asked for.
    fn drop_all(&mut self) {
        self.processes.clear();
        self.images.clear();
        self.dumps.clear();
        self.objects.close_all();
    }

    fn build_maps(&mut self, tracker: &Tracker, pid: Pid) -> ProcessMaps {
        let mappings: Vec<Mapping> = tracker.recorded_mappings(pid).collect();
        let mut space = AddressSpace::default();
        let mut images = HashMap::default();
        let mut generated: Vec<Arc<GeneratedCode>> = Vec::new();
        for mapping in &mappings {
            let object = (mapping.kind == MappingKind::Image).then_some(number_of_space(mapping.space.0));
            if let Some(object) = object {
                let known = self.images.entry(mapping.space).or_insert_with(|| {
                    let space = tracker.spaces().get(mapping.space).clone();
                    let objects = Arc::clone(&self.objects);
                    Arc::new(ObjectTables::new(space, object, pid, objects, &self.lists))
                });
                images.insert(object, Arc::clone(known));
                if generated.len() < MAX_DUMPS_OF_PROCESS
                    && let Space::Object(identity) = tracker.spaces().get(mapping.space)
                    && is_dump(identity.path.as_bytes())
                    && let Some(code) = self.generated_code(mapping.space, identity.path.as_bytes(), pid)
                    && !generated.iter().any(|known| Arc::ptr_eq(known, &code))
                {
                    generated.push(code);
                }
            }
            space.insert(unwinder::Mapping {
                range: mapping.start..Avma(mapping.last.0.saturating_add(1)),
                file_offset: FileOffset(mapping.offset),
                object,
                executable: mapping.executable,
            });
        }
        let interpreters = self.lists.interpreters.clone();
        ProcessMaps {
            space,
            mappings,
            images,
            generated,
            interpreters,
            interpreter: InterpreterSlot::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::record::{Comm, Mmap, Record, Task};
    use decoder::{CpuMode, SampleId};
    use model::Tid;

    use crate::test_sources::MemoryObjects;

    /// Returns a tracker of processes from 1 on, each with a program of its own.
    fn tracker_of(processes: i32) -> Tracker {
        let mut tracker = Tracker::new();
        for pid in 1..=processes {
            tracker.apply(&Record::Mmap(Mmap {
                pid: Pid(pid),
                tid: Tid(pid),
                start: 0x40_0000,
                len: 0x1000,
                page_offset: 0,
                path: format!("/bin/program{pid}").as_bytes(),
                extended: None,
                data: false,
                mode: CpuMode::User,
                scan_cut_short: false,
                sample_id: SampleId::default(),
            }));
        }
        tracker
    }

    fn end(tracker: &mut Tracker, pids: std::ops::RangeInclusive<i32>) {
        for pid in pids {
            tracker.apply(&Record::Exit(Task {
                pid: Pid(pid),
                tid: Tid(pid),
                parent_pid: Pid(0),
                parent_tid: Tid(0),
                time: Timestamp(1),
                sample_id: SampleId::default(),
            }));
        }
    }

    fn maps_of(tracker: &mut Tracker, processes: i32) -> ProcessMapsCache {
        maps_with(tracker, processes, MemoryObjects::default())
    }

    fn maps_with(tracker: &mut Tracker, processes: i32, objects: MemoryObjects) -> ProcessMapsCache {
        let mut maps_cache = ProcessMapsCache::new(Arc::new(objects));
        for pid in 1..=processes {
            maps_cache.get(tracker, Pid(pid));
        }
        maps_cache
    }

    #[test]
    fn a_process_with_many_mappings_that_makes_others_all_the_time_is_looked_at_now_and_then() {
        const ALL: u64 = 20_000;
        let mut tracker = Tracker::new();
        let map = |tracker: &mut Tracker, number: u64| {
            let record = |path| Mmap {
                pid: Pid(1),
                tid: Tid(1),
                start: number << 12,
                len: 0x1000,
                page_offset: 0,
                path,
                extended: None,
                data: false,
                mode: CpuMode::User,
                scan_cut_short: false,
                sample_id: SampleId::default(),
            };
            tracker.apply(&Record::Mmap(record(b"//anon")));
        };
        (1..=ALL).for_each(|number| map(&mut tracker, number));
        let mut maps_cache = maps_with(&mut tracker, 0, MemoryObjects::default());
        let mut maps = maps_cache.get(&mut tracker, Pid(1));
        let mut taken = 0;
        for number in ALL + 1..ALL + 101 {
            map(&mut tracker, number);
            let now = maps_cache.get(&mut tracker, Pid(1));
            taken += u64::from(!Arc::ptr_eq(&maps, &now));
            maps = now;
        }
        assert_eq!(taken, 100 * MAPPINGS_OF_SAMPLE as u64 / ALL);
        // Another program has others.
        tracker.apply(&Record::Comm(Comm {
            pid: Pid(1),
            tid: Tid(1),
            comm: b"other",
            exec: true,
            sample_id: SampleId::default(),
        }));
        assert!(!Arc::ptr_eq(&maps, &maps_cache.get(&mut tracker, Pid(1))));
    }

    #[test]
    fn few_mappings_stay_though_their_processes_ended() {
        let mut tracker = tracker_of(PROCESSES_BEFORE_CLEANUP as i32);
        let mut maps_cache = maps_of(&mut tracker, PROCESSES_BEFORE_CLEANUP as i32);
        maps_cache.forget_ended(&Tracker::new());
        assert_eq!(maps_cache.processes.len(), PROCESSES_BEFORE_CLEANUP);
        assert_eq!(maps_cache.images.len(), PROCESSES_BEFORE_CLEANUP);
    }

    #[test]
    fn of_many_mappings_those_of_the_ended_go_and_half_of_the_objects_that_were_theirs() {
        const ALL: i32 = 900;
        const LIVING: i32 = 100;
        let mut tracker = tracker_of(ALL);
        let mut maps_cache = maps_of(&mut tracker, ALL);
        let space = |maps_cache: &mut ProcessMapsCache, tracker: &mut Tracker, pid| {
            let maps = maps_cache.get(tracker, Pid(pid));
            maps.entry(FrameAddress::InstructionPointer(Avma(0x40_0010))).unwrap().space
        };
        let [first, oldest, newest] =
            [1, LIVING + 1, ALL].map(|pid| space(&mut maps_cache, &mut tracker, pid));
        end(&mut tracker, LIVING + 1..=ALL);
        // The tracker remembers the ended for a while: records may still come.
        maps_cache.forget_ended(&tracker);
        assert_eq!(maps_cache.processes.len(), ALL as usize);
        tracker.forget_dead(|pid| pid.0 <= LIVING);
        tracker.forget_dead(|pid| pid.0 <= LIVING);
        maps_cache.forget_ended(&tracker);
        assert_eq!(maps_cache.processes.len(), LIVING as usize);
        assert_eq!(maps_cache.images.len(), ((ALL - LIVING) / 2 + LIVING) as usize);
        assert!(maps_cache.has_object(first), "a living process has it, though it is the oldest of all");
        assert!(!maps_cache.has_object(oldest) && maps_cache.has_object(newest));
    }

    /// An ELF file of 64 bits with many section headers, all empty.
    fn object_of_many_sections() -> Vec<u8> {
        const SECTIONS: u16 = 60_000;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([3_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
        file.extend(1_u32.to_le_bytes());
        file.extend([0_u64, 0, 64].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(0_u32.to_le_bytes());
        file.extend([64_u16, 56, 0, 64, SECTIONS, 0].iter().flat_map(|half| half.to_le_bytes()));
        file.resize(64 + 64 * usize::from(SECTIONS), 0);
        file
    }

    #[test]
    fn tables_of_hostile_objects_are_bounded_in_bytes() {
        const ALL: i32 = 24;
        let object = object_of_many_sections();
        let programs = (1..=ALL).map(|pid| (format!("/bin/program{pid}"), object.clone()));
        let mut tracker = tracker_of(ALL);
        let mut maps_cache = maps_with(&mut tracker, 0, MemoryObjects::with(programs));
        let mut most = 0;
        for pid in 1..=ALL {
            let maps = maps_cache.get(&mut tracker, Pid(pid));
            maps.images.values().for_each(|image| drop(image.tables()));
            drop(maps);
            most = most.max(maps_cache.table_bytes());
            // All of these processes live.
            maps_cache.forget_ended(&tracker);
            assert!(maps_cache.table_bytes() <= MAX_TABLE_BYTES);
        }
        assert!(most > MAX_TABLE_BYTES, "the bound was met: {most}");
        assert!(most < MAX_TABLE_BYTES + (16 << 20), "{most}");
    }
}
