//! The state of the recorded machine at one moment: threads, mappings, the kernel.

use alloc::vec::Vec;

use decoder::record::{Comm, CpuMode, Mmap, MmapIdentity, Record, Task};
use hashbrown::HashMap;
use model::{
    AddressKind, Avma, BuildId, FUNCTION_CODE, FileIdentity, MAX_CGROUPS, Name, Pid, Reason, Space, SpaceId,
    SpaceTable, StackEntry, Tid, Timestamp, TruncationReason,
};

use crate::callchain::{AddressSpace, ChainItem, chain_items};
use crate::container::container_of;
use crate::kernel::KernelMap;
use crate::mapping::{self, FileContents, Mapping, MappingKind};
use crate::process::{Process, Processes};
use crate::process_mappings::ProcessMappings;
use crate::thread::{Seen, Threads};

/// The number of bits of a generation that count the changes of the kernel's mappings: modules and BPF programs are few.
const KERNEL_BITS: u32 = 20;

/// Names one state of the mappings that a process sees, the kernel's included: equal call chains of equal
/// generations have equal stack entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(u64);

impl Generation {
    /// The generation as a number, for keys.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// The raw stack of a sample, to be mapped.
#[derive(Clone, Copy, Debug)]
pub struct RawStack<I> {
    /// The process whose addresses the user part holds.
    pub pid: Pid,
    /// The privilege level of `ip`.
    pub mode: CpuMode,
    /// The sampled instruction, used where the call chain holds no address.
    pub ip: Option<u64>,
    /// The call chain with its context markers, innermost first.
    pub chain: Option<I>,
}

/// Follows threads and mappings through the records, which must come in time order, and says where an address of a
/// process lies at that moment.
///
/// # What the caller supplies
/// Records in the order of [`crate::Orderer`]; the build ids of the recording's BUILD_ID section before the first
/// record ([`Tracker::add_build_id`]).
///
/// # What is not handled
/// The kernel reports no `munmap`, and no `mremap`: an old mapping lasts until a newer one covers it, the process
/// executes another program, or ends. Mappings of guest systems are ignored.
#[derive(Default, Debug)]
pub struct Tracker {
    pub(crate) spaces: SpaceTable,
    pub(crate) threads: Threads,
    pub(crate) processes: Processes,
    pub(crate) kernel: KernelMap,
    /// By path; `None` where the recording lists several for one path.
    build_ids: HashMap<Vec<u8>, Option<BuildId>>,
    /// By the file of MMAP2 records, in the order of time.
    files: HashMap<FileIdentity, Vec<(Timestamp, FileContents)>>,
    generations: u64,
    scans_cut_short: u64,
    /// Cgroups by the numbers that samples carry.
    cgroups: HashMap<u64, Cgroup>,
}

/// A cgroup, as a record describes it.
#[derive(Debug)]
struct Cgroup {
    path: Name,
    /// `None` for a group of the host itself.
    container: Option<Name>,
}

impl Tracker {
    /// Creates a tracker without threads and mappings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the build id that the recording lists for a path (or `[kernel.kallsyms]`). It is used for mappings whose
    /// records carry none.
    pub fn add_build_id(&mut self, path: &[u8], build_id: BuildId) {
        self.build_ids
            .entry(path.to_vec())
            .and_modify(|known| {
                if !known.is_some_and(|known| known.same_object(&build_id)) {
                    *known = None;
                }
            })
            .or_insert(Some(build_id));
    }

    /// Adds what the recorder read of a mapped file, which holds from the time `since` on. It is used for mappings whose records
    /// name the file. As soon as one file is known, build ids by path say nothing of mappings with an inode: another file may have had
    /// the path.
    pub fn add_file(&mut self, file: FileIdentity, since: Timestamp, contents: FileContents) {
        let states = self.files.entry(file).or_default();
        let place = states.partition_point(|(earlier, _)| *earlier < since);
        match states.get_mut(place).filter(|(known, _)| *known == since) {
            Some(known) => known.1 = contents,
            None => states.insert(place, (since, contents)),
        }
    }

    /// Returns the number of files that were added.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Forgets all files that were added. What they are mapped as stays.
    pub fn forget_files(&mut self) {
        self.files = HashMap::new();
    }

    /// Applies the next record in time order. Records that do not concern threads, mappings or cgroups are ignored.
    pub fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::Mmap(mmap) => self.mmap(mmap),
            Record::Comm(comm) => self.comm_record(comm),
            Record::Fork(task) => self.fork(task),
            Record::Exit(task) => self.exit(task),
            Record::Cgroup(cgroup)
                if self.cgroups.len() < MAX_CGROUPS || self.cgroups.contains_key(&cgroup.id) =>
            {
                let (path, container) = (Name::new(cgroup.path), container_of(cgroup.path));
                self.cgroups.insert(cgroup.id, Cgroup { path, container });
            }
            Record::Ksymbol(symbol) => self.kernel.symbol(symbol, &mut self.spaces),
            _ => {}
        }
    }

    /// The name of a thread at this moment: of its COMM record, else its parent's, else `:TID`.
    pub fn comm(&mut self, pid: Pid, tid: Tid) -> &Name {
        self.see(pid, tid);
        // `see` has just made sure that it is there under this process; a borrow cannot be returned from there.
        &self.threads.find(pid, tid).0.comm
    }

    /// A process runs in this container from now on, and so will its children.
    pub fn set_container(&mut self, pid: Pid, container: Option<Name>) {
        self.process(pid).container = container;
    }

    /// The path of the cgroup of this number, as samples carry it; `None` where no record tells of it.
    pub fn cgroup(&self, id: u64) -> Option<&Name> {
        self.cgroups.get(&id).map(|cgroup| &cgroup.path)
    }

    /// The container that a sample of a process was taken in: that of the cgroup that the sample tells, else of the process.
    /// `None` for the host, and where nothing is known.
    pub fn container(&self, pid: Pid, cgroup: Option<u64>) -> Option<&Name> {
        match cgroup.and_then(|cgroup| self.cgroups.get(&cgroup)) {
            Some(cgroup) => cgroup.container.as_ref(),
            None => self.processes.get(pid)?.container.as_ref(),
        }
    }

    /// Returns true if a process has a thread that is not known to have ended.
    pub fn is_alive(&self, pid: Pid) -> bool {
        self.processes.get(pid).is_some_and(|process| process.threads > 0)
    }

    /// Returns true if a process has executed a program that has mapped nothing yet.
    pub(crate) fn is_executing(&self, pid: Pid) -> bool {
        let has_no_mapping = |process: &Process| process.mappings.recorded.iter().next().is_none();
        self.processes.get(pid).is_some_and(|process| process.former.is_some() && has_no_mapping(process))
    }

    /// Names the mappings that the process sees at this moment.
    pub fn generation(&mut self, pid: Pid) -> Generation {
        if self.process(pid).generation == 0 {
            // Processes without mappings get different generations, too.
            self.renew(pid);
        }
        let kernel = u64::from(self.kernel.generation) & ((1 << KERNEL_BITS) - 1);
        Generation(self.process(pid).generation << KERNEL_BITS | kernel)
    }

    /// Names the state of [`Tracker::recorded_mappings`] at this moment, for a process of any.
    pub fn recorded_generation(&mut self, pid: Pid) -> Generation {
        if self.process(pid).recorded_generation == 0 {
            self.renew(pid);
        }
        Generation(self.process(pid).recorded_generation << KERNEL_BITS)
    }

    /// The program that a process runs writes what code it generates to the jitdump at `path`. Returns the space for
    /// [`Tracker::map_generated`], and the program's number, which tells whether it still runs ([`Tracker::program`]).
    pub fn begin_dump(&mut self, pid: Pid, path: &[u8]) -> (SpaceId, u32) {
        let process = self.processes.of(pid);
        process.has_dump = true;
        let (generation, program) = (process.code, process.program);
        (self.spaces.intern(Space::JitDump { pid, generation, path: Name::new(path) }), program)
    }

    /// Counts the programs that a process has executed: code that one of them generated is not there in the next.
    pub fn program(&self, pid: Pid) -> Option<u32> {
        Some(self.processes.get(pid)?.program)
    }

    /// Returns the generation that code without a file has in a process from now on ([`Space::Jit`]).
    pub fn code_generation(&self, pid: Pid) -> Option<u32> {
        Some(self.processes.get(pid)?.code)
    }

    /// A runtime has put functions at addresses: first address, last address, and the offset of the first byte of the code in
    /// the dump that `space` is. What else lies there gives way. Samples that were taken before must have been mapped.
    pub fn map_generated(
        &mut self,
        pid: Pid,
        space: SpaceId,
        functions: impl IntoIterator<Item = (Avma, Avma, u64)>,
    ) {
        let process = self.processes.of(pid);
        let kind = MappingKind::Generated;
        for (start, last, offset) in functions {
            process.mappings.insert_generated(Mapping { start, last, offset, space, kind, executable: true });
        }
        self.renew_generated(pid);
    }

    /// The mapping of a process that covers `address`.
    pub fn mapping(&self, pid: Pid, address: Avma) -> Option<Mapping> {
        self.processes.get(pid)?.mappings.get(address)
    }

    /// The mapping of a process that covers `address`, as records tell: without generated functions.
    pub fn recorded_mapping(&self, pid: Pid, address: Avma) -> Option<Mapping> {
        self.processes.get(pid)?.mappings.recorded.get(address)
    }

    /// All mappings of a process that records tell of, by ascending address: without generated functions.
    pub fn recorded_mappings(&self, pid: Pid) -> impl Iterator<Item = Mapping> {
        self.processes.get(pid).into_iter().flat_map(|process| process.mappings.recorded.iter())
    }

    /// The spaces found so far.
    pub fn spaces(&self) -> &SpaceTable {
        &self.spaces
    }

    /// The number of a space that no mapping leads to, such as a state of threads.
    pub fn intern_space(&mut self, space: Space) -> SpaceId {
        self.spaces.intern(space)
    }

    /// The spaces found, at the end of the recording.
    pub fn into_spaces(self) -> SpaceTable {
        self.spaces
    }

    /// Mappings that a tool recorded from a scan of `/proc` which it had to cut short: some may be missing.
    pub fn scans_cut_short(&self) -> u64 {
        self.scans_cut_short
    }

    /// Pushes the entries of a sample's stack, innermost first. Returns the cookie of the user part if that comes
    /// later: see [`crate::Deferred`] and [`Tracker::map_deferred`].
    pub fn map_callchain(
        &mut self,
        stack: RawStack<impl Iterator<Item = u64>>,
        entries: &mut Vec<StackEntry>,
    ) -> Option<u64> {
        let before = entries.len();
        let mut cookie = None;
        let mut near = None;
        for item in stack.chain.into_iter().flat_map(|chain| chain_items(chain, stack.mode)) {
            match item {
                ChainItem::Address { address, kind, context } => {
                    entries.push(self.map_near(stack.pid, context, Avma(address), kind, &mut near));
                }
                ChainItem::Deferred(value) => cookie = Some(value),
            }
        }
        if entries.len() == before
            && cookie.is_none()
            && let Some(ip) = stack.ip
        {
            let kind = AddressKind::InstructionPointer;
            entries.push(self.map_address(stack.pid, AddressSpace::of_mode(stack.mode), Avma(ip), kind));
        }
        cookie
    }

    /// Pushes the user part that came later onto the stack of the sample that waited for it.
    pub fn map_deferred(&mut self, pid: Pid, ips: impl Iterator<Item = u64>, entries: &mut Vec<StackEntry>) {
        let stack = RawStack { pid, mode: CpuMode::User, ip: None, chain: Some(ips) };
        self.map_callchain(stack, entries);
    }

    /// The place of one address. Without a context, the address itself tells the kernel from the process.
    pub fn map_address(
        &mut self,
        pid: Pid,
        context: Option<AddressSpace>,
        address: Avma,
        kind: AddressKind,
    ) -> StackEntry {
        self.map_near(pid, context, address, kind, &mut None)
    }

    /// As [`Self::map_address`]. `near` is the mapping of an address of the same process and the same moment: frames that
    /// follow each other are often of one.
    fn map_near(
        &mut self,
        pid: Pid,
        context: Option<AddressSpace>,
        address: Avma,
        kind: AddressKind,
        near: &mut Option<Mapping>,
    ) -> StackEntry {
        let context = context.unwrap_or_else(|| {
            if self.kernel.covers(address) { AddressSpace::Kernel } else { AddressSpace::User }
        });
        let (space, offset) = match context {
            AddressSpace::Kernel => self.kernel.locate(address, &mut self.spaces),
            AddressSpace::User => self.locate_user(pid, address, kind, near),
            AddressSpace::Foreign => (self.spaces.intern(Space::Foreign(Reason::Foreign)), address.0),
        };
        StackEntry { offset, space, kind, in_kernel: context == AddressSpace::Kernel }
    }

    fn locate_user(
        &mut self,
        pid: Pid,
        address: Avma,
        kind: AddressKind,
        near: &mut Option<Mapping>,
    ) -> (SpaceId, u64) {
        if let Some(mapping) = near.filter(|mapping| mapping.contains(address)) {
            return (mapping.space, mapping.offset_of(address));
        }
        let process = self.processes.of(pid);
        if FUNCTION_CODE.contains(&address)
            && let Some(mapping) = process.mappings.function_at(address)
        {
            return (mapping.space, mapping.offset_of(address));
        }
        // A call may be the last instruction of a generated function, and the next function may begin right behind it.
        let call = match kind {
            AddressKind::ReturnAddress => address.0.checked_sub(1).map(Avma),
            _ => None,
        };
        if let Some(call) = call
            && process.has_dump
            && let Some((space, offset)) = process.mappings.locate(call)
        {
            return (space, offset.wrapping_add(1));
        }
        let generated = if process.has_dump { process.mappings.generated_at(address) } else { None };
        let recorded = &process.mappings.recorded;
        let own = generated.or_else(|| recorded.own_at(address));
        if let Some(mapping) = own.or_else(|| recorded.shared_at(address)) {
            // Calls at the end of generated functions are looked up one by one.
            *near = own.filter(|_| !process.has_dump);
            if process.former.take().is_some() {
                // Now the program after exec runs.
                self.renew(pid);
            }
            return (mapping.space, mapping.offset_of(address));
        }
        if let Some(place) = process.former.as_ref().and_then(|former| former.locate(address)) {
            return place;
        }
        if let Some(reason) = TruncationReason::from_marker(address.0) {
            return (self.spaces.intern(Space::Truncated(reason)), 0);
        }
        let program = process.program;
        let unmapped = || self.spaces.intern(Space::Unmapped { pid, generation: program });
        (*process.unmapped.get_or_insert_with(unmapped), address.0)
    }

    fn mmap(&mut self, record: &Mmap<'_>) {
        self.scans_cut_short = self.scans_cut_short.saturating_add(u64::from(record.scan_cut_short));
        let known = self.known_contents(record);
        match record.mode {
            CpuMode::Hypervisor | CpuMode::GuestKernel | CpuMode::GuestUser => return,
            CpuMode::Kernel => return self.kernel.map(record, known.build_id, &mut self.spaces),
            _ if record.pid == Pid::NONE => {
                return self.kernel.map(record, known.build_id, &mut self.spaces);
            }
            _ => {}
        }
        let Some((start, last)) = mapping::range(record.start, record.len) else { return };
        self.see(record.pid, record.tid);
        self.revive(record.pid, record.tid);
        let executable = mapping::is_executable(record);
        if FUNCTION_CODE.contains(&start) {
            let space = self.spaces.intern(Space::of_function_mapping(start, record.path));
            let (offset, kind) = (record.page_offset, MappingKind::Function);
            let mapping = Mapping { start, last, offset, space, kind, executable };
            self.processes.of(record.pid).mappings.insert_function(mapping);
            return self.renew_generated(record.pid);
        }
        let process = self.processes.of(record.pid);
        if mapping::is_anonymous(record, mapping::build_id(record).or(known.build_id)) {
            let space = match process.anonymous_at(start, last) {
                Some(again) if same_code(&self.spaces, again.space, record) => again.space,
                _ => self.spaces.intern(mapping::anonymous_space(record.pid, process.code, record.path)),
            };
            let kind = MappingKind::Anonymous;
            if !process.map_anonymous(Mapping { start, last, offset: start.0, space, kind, executable }) {
                return;
            }
        } else {
            let space = self.spaces.intern(mapping::image_space(record, known));
            let kind = MappingKind::Image;
            process.map_image(Mapping { start, last, offset: record.page_offset, space, kind, executable });
        }
        self.renew(record.pid);
    }

    /// Returns what the recording lists for the file of a record, or else for its path.
    fn known_contents(&self, record: &Mmap<'_>) -> FileContents {
        if let Some(MmapIdentity::File(file)) = record.extended.map(|extended| extended.identity)
            && file.inode != 0
            && !self.files.is_empty()
        {
            let time = record.sample_id.time.unwrap_or(Timestamp(u64::MAX));
            let states = self.files.get(&file).map_or(&[][..], Vec::as_slice);
            let place = states.partition_point(|(since, _)| *since <= time).max(1);
            return states.get(place - 1).map(|(_, contents)| *contents).unwrap_or_default();
        }
        // The kernel image's record names its reference symbol, too: `[kernel.kallsyms]_text`.
        let kernel: &[u8] = b"[kernel.kallsyms]";
        let path = if record.path.starts_with(kernel) { kernel } else { record.path };
        FileContents { build_id: self.build_ids.get(path).copied().flatten(), is_foreign: false }
    }

    fn comm_record(&mut self, record: &Comm<'_>) {
        self.see(record.pid, record.tid);
        let thread = self.threads.find(record.pid, record.tid).0;
        thread.comm = Name::new(record.comm);
        thread.named = true;
        if record.exec {
            self.process(record.pid).execute();
            self.renew(record.pid);
        }
    }

    fn fork(&mut self, record: &Task) {
        let parent = self.threads.get(record.parent_pid, record.parent_tid);
        let inherited = parent.filter(|parent| parent.named).map(|parent| parent.comm.clone());
        let (thread, seen) = self.threads.begin(record.pid, record.tid);
        if let Some(comm) = inherited {
            thread.comm = comm;
            thread.named = true;
        }
        self.count(record.pid, seen);
        if record.pid == record.parent_pid {
            return;
        }
        // A synthesized record (time 0) tells who the parent is, not that the process still looks like it.
        let (mappings, has_dump, container) = match self.processes.get_mut(record.parent_pid) {
            Some(parent) if record.time.0 != 0 => {
                (parent.mappings.fork(), parent.has_dump, parent.container.clone())
            }
            _ => (ProcessMappings::default(), false, None),
        };
        let process = self.process(record.pid);
        if record.time.0 != 0 {
            process.container = container;
        }
        process.begin_program(mappings);
        process.has_dump = has_dump;
        self.renew(record.pid);
    }

    fn exit(&mut self, record: &Task) {
        let (thread, seen) = self.threads.find(record.pid, record.tid);
        let was_alive = core::mem::replace(&mut thread.alive, false);
        self.count(record.pid, seen);
        if !was_alive {
            return;
        }
        self.threads.end(record.tid);
        let process = self.process(record.pid);
        process.threads = process.threads.saturating_sub(1);
        if process.threads == 0 {
            self.processes.end(record.pid);
        }
    }

    /// Lets a thread live that maps memory after its EXIT record. The kernel writes that record, too, when a thread executes a program
    /// with more rights (`begin_new_exec()` in fs/exec.c), and goes on with it. A thread that ends has no memory left to map into.
    fn revive(&mut self, pid: Pid, tid: Tid) {
        let thread = self.threads.find(pid, tid).0;
        if !core::mem::replace(&mut thread.alive, true) {
            let process = self.process(pid);
            process.threads = process.threads.saturating_add(1);
        }
    }

    /// Registers the thread of a record, if it is new.
    fn see(&mut self, pid: Pid, tid: Tid) {
        let (_, seen) = self.threads.find(pid, tid);
        if seen != Seen::Known {
            self.count(pid, seen);
        }
    }

    fn count(&mut self, pid: Pid, seen: Seen) {
        if let Seen::Replaced(former) = seen
            && let Some(process) = self.processes.get_mut(former)
        {
            process.threads = process.threads.saturating_sub(1);
        }
        if seen != Seen::Known {
            let process = self.process(pid);
            process.threads = process.threads.saturating_add(1);
            process.doubted = false;
        }
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        self.processes.of(pid)
    }

    /// Gives the mappings of a process a new name, after the recorded ones changed.
    fn renew(&mut self, pid: Pid) {
        self.renew_generated(pid);
        let process = self.process(pid);
        process.recorded_generation = process.generation;
    }

    /// Gives the mappings of a process a new name, after generated functions were added.
    fn renew_generated(&mut self, pid: Pid) {
        // With the kernel's bits taken off, years of a hundred thousand changes a second.
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        self.process(pid).generation = generation;
    }
}

/// Returns true if `space` is generated code under the name that `record` announces (again).
fn same_code(spaces: &SpaceTable, space: SpaceId, record: &Mmap<'_>) -> bool {
    matches!(spaces.get(space), Space::Jit { mapping, .. }
        if mapping.as_bytes() == record.path || record.path.is_empty() && mapping.as_bytes() == b"//anon")
}
