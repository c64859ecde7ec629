//! Saves the stacks in the scope as a recording: a stack that was counted n times becomes n samples.
//!
//! A snapshot has neither times nor the addresses at which files were mapped. So the samples have no time, and each object
//! gets an address of its own, the same in all processes: readers only use such an address to compute the offset in the
//! file. Generated code and the kernel keep their addresses.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use decoder::record::{Comm, Ksymbol, Mmap, MmapExtended, MmapIdentity};
use decoder::values::U64s;
use decoder::{
    Attr, AttrFlags, CpuMode, Endian, ReadFormat, Record, RecordLayout, Sample, SampleFormat, SampleId,
    context,
};
use export::summary::counted;
use host::files::{self, NameInFolder};
use model::{
    BuildId, FileIdentity, JAVASCRIPT_CODE, KernelText, Name, PYTHON_CODE, Pid, Space, TextSymbol, Tid,
    python_mapping_name,
};
use recorder::{
    Chunk, Consumer, Ending, FileConsumer, LostCount, RecordedEvent, Recording, RecordingSink, RingKind,
};
use rustc_hash::FxBuildHasher;

use live::snapshot::{LookupAddress, Snapshot};
use live::views::{Scope, ScopedStack};

/// Maximum number of samples in a file. If there were more, each written sample stands for several.
const MAX_SAMPLES: u64 = 1_000_000;
/// Size at which encoded records are passed to the file.
const CHUNK_BYTES: usize = 256 << 10;
/// The first of the addresses that objects get. Programs, heaps and libraries lie lower or higher
/// (`Documentation/arch/x86/x86_64/mm.rst`).
const FIRST_OBJECT: u64 = 0x1000_0000_0000;
const FIRST_KERNEL_SYMBOL: u64 = 0xffff_ffff_fe00_0000;
const PAGE: u64 = 4096;
/// `PROT_READ | PROT_EXEC`, `MAP_PRIVATE` and `MAP_SHARED` of `mmap(2)`.
const PROTECTION: u32 = 5;
const MAP_PRIVATE: u32 = 2;
const MAP_SHARED: u32 = 1;

/// Writes the stacks in the scope to a perf.data file, and renames an existing file to `NAME.old`. Returns the message for the
/// user.
///
/// # Errors
/// Fails if weights are time, the scope is empty, or the file cannot be written.
pub(crate) fn save(name: &str, snapshot: &Snapshot, scope: &Scope) -> anyhow::Result<String> {
    if snapshot.status.events.get(scope.event as usize).is_some_and(|event| event.is_time) {
        bail!("time off the CPU is not samples; try: a name that ends in .svg, or prof record --off-cpu");
    }
    let Some(recording) =
        snapshot.recording.as_ref().and_then(|recording| recording_of_scope(recording, scope))
    else {
        bail!("nothing was sampled yet");
    };
    let mut stacks: Vec<ScopedStack<'_>> = scope.stacks(snapshot).collect();
    if stacks.is_empty() {
        bail!("nothing is shown that could be saved");
    }
    stacks.sort_by_key(|stack| (stack.task.pid, stack.task.tid, Arc::clone(&stack.task.comm)));
    let command_line = std::env::args_os().map(|word| Name::from(word.as_encoded_bytes())).collect();
    let destination = NameInFolder::find(Path::new(name)).with_context(|| format!("cannot write {name}"))?;
    let mut consumer = FileConsumer::new(files::DestinationKind::Name(destination), command_line);
    let written = write(&mut consumer, snapshot, &recording, &stacks);
    let (samples, each) = written.with_context(|| format!("cannot write {name}"))?;
    let each = if each > 1 { format!(", each for {each}") } else { String::new() };
    Ok(format!("saved {name}: {}{each}, without times", counted(samples, "sample", "samples")))
}

/// Describes the recording to write: only the event of the scope, and only the sample fields that a snapshot has.
fn recording_of_scope(recording: &Recording, scope: &Scope) -> Option<Recording> {
    let event = recording.events.iter().filter(|event| !event.sideband).nth(scope.event as usize)?;
    let parts = [SampleFormat::IDENTIFIER, SampleFormat::IP, SampleFormat::TID];
    let parts = parts.into_iter().chain([SampleFormat::CALLCHAIN, SampleFormat::PERIOD]);
    let attr = Attr {
        sample_format: parts.fold(SampleFormat::empty(), |all, part| all | part),
        read_format: ReadFormat::empty(),
        // The mappings that we write have build ids; nobody opens this event.
        flags: event.attr.flags.difference(AttrFlags::USE_CLOCKID) | AttrFlags::BUILD_ID,
        clockid: 0,
        sample_regs_user: 0,
        sample_stack_user: 0,
        sample_regs_intr: 0,
        ..event.attr.clone()
    };
    let event = RecordedEvent { attr, leader: None, tracepoint: None, ..event.clone() };
    Some(Recording { events: vec![event], ..recording.clone() })
}

/// Writes the recording. Returns the number of samples, and how many counted samples each of them stands for.
fn write(
    consumer: &mut FileConsumer,
    snapshot: &Snapshot,
    recording: &Recording,
    stacks: &[ScopedStack<'_>],
) -> anyhow::Result<(u64, u64)> {
    let (Some(event), Some(layout)) = (recording.events.first(), recording.layout(0)) else {
        bail!("there is no event");
    };
    let addresses = Addresses::of(stacks.iter().flat_map(|stack| stack.addresses()));
    consumer.begin(recording)?;
    consumer.started()?;
    let mut out = RecordWriter { consumer, layout: &layout, bytes: Vec::new(), kind: RingKind::Sideband };
    addresses.describe(stacks, &mut out)?;

    let all: u64 = stacks.iter().map(|stack| stack.samples).sum();
    let each = all.div_ceil(MAX_SAMPLES).max(1);
    let (mut written, mut rest) = (0, 0);
    let mut named = None;
    let mut chain = Vec::new();
    for stack in stacks {
        let (pid, tid) = (Pid(stack.task.pid), Tid(stack.task.tid));
        if named != Some(stack.task) {
            let comm = stack.task.comm.as_bytes();
            let sample_id = trailer(event, pid, tid);
            out.push(RingKind::Sideband, &Record::Comm(Comm { pid, tid, comm, exec: false, sample_id }))?;
            named = Some(stack.task);
        }
        chain.clear();
        let ip = addresses.chain(stack.addresses(), &mut chain);
        let in_kernel = stack.addresses().next().is_some_and(|place| place.entry.in_kernel);
        rest += stack.samples;
        let (samples, period) = (rest / each, period(event, stack, each));
        rest %= each;
        let sample = Sample {
            mode: if in_kernel { CpuMode::Kernel } else { CpuMode::User },
            identifier: event.ids.first().copied(),
            ip: Some(ip),
            thread: Some((pid, tid)),
            period: Some(period),
            callchain: Some(U64s::new(&chain, Endian::NATIVE)),
            ..Sample::default()
        };
        for _ in 0..samples {
            out.push(RingKind::Samples, &Record::Sample(sample))?;
        }
        written += samples;
    }
    out.flush()?;
    let loss = &snapshot.status.loss;
    let lost = LostCount { samples: loss.samples, unread: loss.unread };
    consumer.end(&Ending { lost: Some(vec![lost]), ..Ending::default() })?;
    Ok((written, each))
}

/// Returns the period of each sample of a stack: nanoseconds for clocks, otherwise the number of events.
fn period(event: &RecordedEvent, stack: &ScopedStack<'_>, each: u64) -> u64 {
    let attr = &event.attr;
    let one = match (attr.is_frequency(), attr.is_cpu_clock()) {
        (true, true) => 1_000_000_000 / attr.sample_period.max(1),
        (true, false) => stack.weight / stack.samples.max(1),
        (false, _) => attr.sample_period,
    };
    one.saturating_mul(each)
}

fn trailer(event: &RecordedEvent, pid: Pid, tid: Tid) -> SampleId {
    SampleId { thread: Some((pid, tid)), identifier: event.ids.first().copied(), ..SampleId::default() }
}

/// Encodes records, and passes them to the file in chunks.
struct RecordWriter<'a> {
    consumer: &'a mut FileConsumer,
    layout: &'a RecordLayout,
    bytes: Vec<u8>,
    kind: RingKind,
}

impl RecordWriter<'_> {
    fn push(&mut self, kind: RingKind, record: &Record<'_>) -> std::io::Result<()> {
        if self.kind != kind || self.bytes.len() > CHUNK_BYTES {
            self.flush()?;
            self.kind = kind;
        }
        self.layout.encode(record, &mut self.bytes).map_err(std::io::Error::other)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let chunk = Chunk::new(self.kind, bytes);
        if let Some(mut bytes) = self.consumer.consume(chunk)? {
            bytes.clear();
            self.bytes = bytes;
        }
        Ok(())
    }
}

/// The address ranges of all spaces in the recording.
struct Addresses {
    /// Sorted so that the mapping of the kernel is written before those of its modules, which may overlap it.
    ranges: Vec<Range>,
    /// Indices in `ranges` by the pointer of the space: a snapshot has each space once.
    numbers: HashMap<*const Space, usize, FxBuildHasher>,
}

struct Range {
    space: Arc<Space>,
    /// The address of offset 0.
    base: u64,
    /// The smallest and the largest offset that occurs in a stack.
    first: u64,
    last: u64,
}

impl Addresses {
    fn of<'a>(addresses: impl Iterator<Item = &'a LookupAddress>) -> Self {
        let mut by_space: HashMap<*const Space, Range, FxBuildHasher> = HashMap::default();
        let mut taken = BTreeSet::new();
        for place in addresses {
            let offset = place.entry.offset;
            let range = by_space.entry(Arc::as_ptr(&place.space)).or_insert_with(|| Range {
                space: Arc::clone(&place.space),
                base: 0,
                first: offset,
                last: offset,
            });
            (range.first, range.last) = (range.first.min(offset), range.last.max(offset));
            if matches!(*place.space, Space::Jit { .. } | Space::Unmapped { .. }) {
                taken.insert(offset);
            }
        }
        let mut ranges: Vec<Range> = by_space.into_values().collect();
        ranges.sort_by_cached_key(|range| format!("{:?}", range.space));
        let numbers = (0..).zip(&ranges).map(|(number, range)| (Arc::as_ptr(&range.space), number)).collect();
        let (mut next, mut next_symbol) = (FIRST_OBJECT, FIRST_KERNEL_SYMBOL);
        let (mut next_python, mut next_javascript) = (PYTHON_CODE.start.0, JAVASCRIPT_CODE.start.0);
        for range in &mut ranges {
            let size = (range.last / PAGE).saturating_add(2).saturating_mul(PAGE);
            match &*range.space {
                Space::Object(_) | Space::Vdso { .. } => {
                    while let Some(address) = taken.range(next..next.saturating_add(size)).next_back() {
                        next = (address / PAGE + 1) * PAGE;
                    }
                    range.base = next;
                    next = next.saturating_add(size);
                }
                Space::Python { .. } => {
                    range.base = next_python;
                    next_python = next_python.saturating_add(size);
                }
                Space::JavaScript { .. } => {
                    range.base = next_javascript;
                    next_javascript = next_javascript.saturating_add(size);
                }
                Space::KernelSymbol { .. } => {
                    range.base = next_symbol;
                    next_symbol = next_symbol.saturating_add(size);
                }
                _ => {}
            }
        }
        Self { ranges, numbers }
    }

    fn range(&self, place: &LookupAddress) -> Option<(usize, &Range)> {
        let number = *self.numbers.get(&Arc::as_ptr(&place.space))?;
        Some((number, self.ranges.get(number)?))
    }

    /// Appends the call chain of addresses, innermost first, with context markers. Returns its first address.
    fn chain<'a>(&self, addresses: impl Iterator<Item = &'a LookupAddress>, chain: &mut Vec<u8>) -> u64 {
        let (mut mark, mut ip) = (None, None);
        for place in addresses {
            let context = match (&*place.space, place.entry.in_kernel) {
                (Space::Foreign(_), _) => context::GUEST,
                (_, true) => context::KERNEL,
                (_, false) => context::USER,
            };
            if mark != Some(context) {
                chain.extend(context.to_ne_bytes());
                mark = Some(context);
            }
            let address = match &*place.space {
                Space::Truncated(reason) => reason.marker(),
                _ => {
                    let base = self.range(place).map_or(0, |(_, range)| range.base);
                    base.wrapping_add(place.entry.offset)
                }
            };
            chain.extend(address.to_ne_bytes());
            ip.get_or_insert(address);
        }
        ip.unwrap_or(0)
    }

    /// Writes the mappings of the kernel, then those of each process.
    fn describe(&self, stacks: &[ScopedStack<'_>], out: &mut RecordWriter<'_>) -> std::io::Result<()> {
        for range in &self.ranges {
            range.describe(Pid(-1), out)?;
        }
        let mut of_processes: BTreeSet<(i32, usize)> = BTreeSet::new();
        for stack in stacks {
            let user = stack.addresses().filter(|place| !place.entry.in_kernel);
            let numbers = user.filter_map(|place| Some(self.range(place)?.0));
            of_processes.extend(numbers.map(|number| (stack.task.pid, number)));
        }
        for (pid, number) in of_processes {
            if let Some(range) = self.ranges.get(number) {
                range.describe(Pid(pid), out)?;
            }
        }
        Ok(())
    }
}

impl Range {
    /// Writes the range as a mapping of a process, or of the kernel if `pid` is −1. Does nothing if the range does not belong there.
    fn describe(&self, pid: Pid, out: &mut RecordWriter<'_>) -> std::io::Result<()> {
        let in_kernel = pid == Pid(-1);
        let whole = |start: u64| (start, self.base.saturating_add(self.last).saturating_sub(start) / PAGE);
        let (path, (start, pages), page_offset, id, file): (_, _, _, Option<BuildId>, Option<FileIdentity>) =
            match &*self.space {
                Space::Kernel { build_id, text } if in_kernel => {
                    let first = self.first & !(PAGE - 1);
                    let text = text.unwrap_or(KernelText { symbol: TextSymbol::Text, address: first });
                    let path = format!("[kernel.kallsyms]{}", text.symbol.name());
                    let range = whole(text.address.min(first));
                    (Name::from(path.as_str()), range, text.address, *build_id, None)
                }
                Space::KernelModule { name, build_id, start } if in_kernel => {
                    (name.clone(), whole(*start), 0, *build_id, None)
                }
                Space::KernelSymbol { name } if in_kernel => {
                    let len = u32::try_from(self.last.saturating_add(1)).unwrap_or(u32::MAX);
                    let sample_id = SampleId::default();
                    let (start, name) = (self.base, name.as_bytes());
                    let symbol = Ksymbol { start, len, kind: 1, unregister: false, name, sample_id };
                    return out.push(RingKind::Sideband, &Record::Ksymbol(symbol));
                }
                Space::Object(identity) if !in_kernel => {
                    (identity.path.clone(), whole(self.base), 0, identity.build_id, identity.file)
                }
                Space::Vdso { build_id } if !in_kernel => {
                    (Name::from("[vdso]"), whole(self.base), 0, *build_id, None)
                }
                Space::Python { file, function } if !in_kernel => {
                    let name = python_mapping_name(&file.to_string(), &function.to_string());
                    (Name::new(&name), whole(self.base), 0, None, None)
                }
                Space::JavaScript { name } if !in_kernel => (name.clone(), whole(self.base), 0, None, None),
                // Described as a mapping of the dump at address 0, so that addresses are offsets in the dump.
                Space::JitDump { path, .. } if !in_kernel => (path.clone(), whole(self.base), 0, None, None),
                Space::Jit { mapping, .. } if !in_kernel => {
                    let start = self.first & !(PAGE - 1);
                    (mapping.clone(), whole(start), start, None, None)
                }
                _ => return Ok(()),
            };
        let identity = match (id, file) {
            (Some(id), _) => MmapIdentity::BuildId(Some(id)),
            (None, file) => MmapIdentity::File(file.unwrap_or(FileIdentity {
                major: 0,
                minor: 0,
                inode: 0,
                generation: 0,
            })),
        };
        // Readers take a private mapping of a memfd for a program.
        let flags = if matches!(*self.space, Space::Jit { .. }) { MAP_SHARED } else { MAP_PRIVATE };
        let extended = MmapExtended { identity, protection: PROTECTION, flags };
        out.push(
            RingKind::Sideband,
            &Record::Mmap(Mmap {
                pid,
                tid: Tid(if in_kernel { 0 } else { pid.0 }),
                start,
                len: pages.saturating_add(1).saturating_mul(PAGE),
                page_offset,
                path: path.as_bytes(),
                extended: Some(extended).filter(|_| !in_kernel || id.is_some()),
                data: false,
                mode: if in_kernel { CpuMode::Kernel } else { CpuMode::User },
                scan_cut_short: false,
                sample_id: SampleId::default(),
            }),
        )
    }
}
