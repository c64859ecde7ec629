//! The same records, watched and written to a file that is read, give the same functions and the same loss.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::collections::BTreeMap;
use std::time::Duration;

use analysis::input::Input;
use analysis::notices::Silent;
use analysis::symbols::SymbolSettings;
use analysis::{Analysis, Request};
use crossbeam_channel::unbounded;
use decoder::record::{Comm, Lost, Mmap, MmapExtended, MmapIdentity};
use decoder::values::{BranchStack, CounterValues, U64s};
use decoder::{
    Attr, AttrFlags, BranchSampleFormat, CpuMode, Endian, ReadFormat, Record, RecordLayout, Sample,
    SampleFormat, SampleId, context,
};
use host::files::{DestinationKind, NameInFolder};
use host::objects::SearchPaths;
use model::{CpuId, FileIdentity, Loss, Pid, Tid, Timestamp, TruncationReason};
use prof_live::views::{Scope, functions};
use prof_live::{Engine, EngineEvent, EngineSettings};
use profile::queries::{ByLabel, CallTree, FunctionTable};
use profile::{Shape, Show};
use recorder::unwind::{Mechanisms, UnwindingStage};
use recorder::{Chunk, Consumer, Ending, FileSink, LostCount, Place, RecordedEvent, Recording, RingKind};

/// Of each event: self and total weight by function.
type Functions = BTreeMap<(usize, String), (u64, u64)>;

const SAMPLER: usize = 0;
const FIRST_ID: u64 = 7;
/// Each module is mapped here and takes so much.
const FIRST_MODULE: u64 = 0x5000_0000;
const MODULE_BYTES: u64 = 0x10000;
const MODULES: [&str; 6] =
    ["/gone/main", "/gone/liba.so", "/gone/libb.so", "/gone/libc.so", "/gone/libd.so", "//anon"];

fn in_module(module: u64, offset: u64) -> u64 {
    FIRST_MODULE + module * MODULE_BYTES + offset
}

/// A recording in the making: samplers, of which the first has what `attr` has, and the sideband event.
struct Script {
    recording: Recording,
    layouts: Vec<RecordLayout>,
    chunks: Vec<(RingKind, Vec<u8>)>,
    time: u64,
}

impl Script {
    fn new(samplers: Vec<Attr>) -> Self {
        let count = samplers.len();
        let sideband = Attr {
            kind: 1,
            config: 9,
            sample_format: SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let attrs: Vec<Attr> = samplers.into_iter().chain([sideband]).collect();
        let layouts = attrs.iter().map(|attr| RecordLayout::new(attr, Endian::NATIVE)).collect();
        let events = attrs.into_iter().enumerate().map(|(index, attr)| RecordedEvent {
            name: format!("event{index}"),
            attr,
            ids: vec![FIRST_ID + index as u64],
            sideband: index == count,
            leader: (index > 0 && index < count).then_some(SAMPLER),
            tracepoint: None,
        });
        let recording = Recording {
            events: events.collect(),
            cpus: vec![CpuId(0), CpuId(1)],
            ring_size: 1 << 20,
            kernel: std::sync::Arc::default(),
            files: recorder::MappedFiles::default(),
            resources: recorder::ProcessResources::default(),
        };
        let mut script = Self { recording, layouts, chunks: Vec::new(), time: 1_000_000 };
        for pid in [100, 200] {
            script.start_process(pid);
        }
        script
    }

    fn put(&mut self, event: usize, record: &Record<'_>) -> &mut Self {
        let ring = if event + 1 == self.layouts.len() { RingKind::Sideband } else { RingKind::Samples };
        let mut bytes = Vec::new();
        self.layouts[event].encode(record, &mut bytes).unwrap();
        self.chunks.push((ring, bytes));
        self
    }

    fn sample_id(&self, event: usize, pid: i32) -> SampleId {
        SampleId {
            thread: Some((Pid(pid), Tid(pid))),
            time: Some(Timestamp(self.time)),
            identifier: Some(FIRST_ID + event as u64),
            ..SampleId::default()
        }
    }

    fn start_process(&mut self, pid: i32) {
        let sideband = self.layouts.len() - 1;
        self.time += 1_000;
        let sample_id = self.sample_id(sideband, pid);
        let name = format!("app{pid}");
        let comm = Comm { pid: Pid(pid), tid: Tid(pid), comm: name.as_bytes(), exec: true, sample_id };
        self.put(sideband, &Record::Comm(comm));
        for (module, path) in (0..).zip(MODULES) {
            self.time += 1_000;
            let sample_id = self.sample_id(sideband, pid);
            let file = FileIdentity { major: 0, minor: 0, inode: 0, generation: 0 };
            let identity = MmapIdentity::File(file);
            self.put(
                sideband,
                &Record::Mmap(Mmap {
                    pid: Pid(pid),
                    tid: Tid(pid),
                    start: in_module(module, 0),
                    len: MODULE_BYTES,
                    page_offset: 0,
                    path: path.as_bytes(),
                    extended: Some(MmapExtended { identity, protection: 5, flags: 2 }),
                    data: false,
                    mode: CpuMode::User,
                    scan_cut_short: false,
                    sample_id,
                }),
            );
        }
    }

    /// A sample of the first event with what `more` adds.
    fn sample<'a>(&mut self, pid: i32, chain: &'a [u8], more: Sample<'a>) -> &mut Self {
        self.time += 1_000_000;
        let sample = Sample {
            mode: CpuMode::User,
            identifier: Some(FIRST_ID),
            ip: Some(in_module(0, 0x10)),
            thread: Some((Pid(pid), Tid(pid))),
            time: Some(Timestamp(self.time)),
            period: Some(1000 + u64::from(pid.unsigned_abs())),
            callchain: Some(U64s::new(chain, Endian::NATIVE)),
            ..more
        };
        self.put(SAMPLER, &Record::Sample(sample))
    }

    fn lost(&mut self, event: usize, lost: u64) -> &mut Self {
        let sample_id = self.sample_id(event, 100);
        self.put(event, &Record::Lost(Lost { id: 0, lost, sample_id }))
    }

    /// Hands the records over, each in a chunk of its own, a few to a round.
    fn play(&self, consumer: &mut dyn Consumer, ending: &Ending) {
        consumer.begin(&self.recording).unwrap();
        consumer.started().unwrap();
        for round in self.chunks.chunks(5) {
            // The rings of a round are emptied in no order.
            for (ring, bytes) in round.iter().rev() {
                consumer.consume(Chunk::new(*ring, bytes.clone())).unwrap();
            }
            consumer.finished_round().unwrap();
        }
        consumer.end(ending).unwrap();
    }

    fn watched(&self, ending: &Ending) -> (Functions, Loss) {
        let (_orders, ordered) = unbounded();
        let (news, snapshots) = unbounded();
        let settings = EngineSettings {
            target: String::new(),
            window: Duration::from_secs(1000),
            interval: Duration::from_secs(1000),
            max_symbol_wait: prof_live::MAX_SYMBOL_WAIT,
            bounds_inlines: false,
            reads_resources: false,
            intervals_apart: true,
            stacks_unwound: false,
            names: symbolizer::NameStyle::Demangled,
            time: None,
        };
        let tell = move |item| {
            if let EngineEvent::Snapshot(snapshot) = item {
                news.send(snapshot).unwrap();
            }
        };
        let mut engine = Engine::new(settings, ordered, tell).unwrap();
        self.play(&mut UnwindingStage::new(&mut engine, false, Mechanisms::all()), ending);
        let snapshot = snapshots.try_iter().last().unwrap();
        let mut all = Functions::new();
        for event in 0..self.layouts.len() - 1 {
            let scope = Scope { event: event as u32, idle: true, ..Scope::default() };
            for row in functions(&snapshot, &scope) {
                let frame =
                    profile::ViewFrame { kind: profile::FrameKind::User, ..row.frame.without_module() };
                let sums = all.entry((event, export::frame_name(&frame))).or_default();
                *sums = (sums.0 + row.self_weight, sums.1 + row.total);
            }
        }
        (all, snapshot.status.loss)
    }

    fn read(&self, ending: &Ending) -> (Functions, Loss) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        let place = DestinationKind::Name(NameInFolder::find(&path).unwrap());
        self.play(&mut FileSink::new(Place::Destination(place), None, Vec::new()), ending);
        let symbols = SymbolSettings {
            paths: SearchPaths::from_environment(None, Vec::new(), true),
            options: symbolizer::Options::default(),
            reads_sources: false,
        };
        let analysis = Analysis::read(Input::open(&path).unwrap(), &Request::all(&symbols), &Silent).unwrap();
        let mut all = Functions::new();
        for event in &analysis.events {
            let weight = analysis::events::weight_of(&event.event.attr);
            let view = analysis.view(&event.profile, Show::default(), weight, &Shape::default());
            let tree = CallTree::of(&[&view]);
            for (_, key, weights) in FunctionTable::new(&tree, &mut ByLabel::new(tree.frames())).rows() {
                let Some(frame) = tree.frames().get(key as usize) else { continue };
                let frame = profile::ViewFrame { kind: profile::FrameKind::User, ..frame.clone() };
                let sums = all.entry((event.index, export::frame_name(&frame))).or_default();
                *sums = (sums.0 + weights[0].self_weight, sums.1 + weights[0].total);
            }
        }
        (all, analysis.loss)
    }

    /// Checks that both ways agree; returns what they agree on.
    fn agree(&self, ending: &Ending) -> (Functions, Loss) {
        let (watched, read) = (self.watched(ending), self.read(ending));
        assert_eq!(watched, read, "what was watched, and what was read from the file");
        watched
    }
}

fn sampler(parts: SampleFormat) -> Attr {
    let common = SampleFormat::IDENTIFIER | SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME;
    Attr {
        kind: 1,
        sample_period: 1_000_000,
        sample_format: common | SampleFormat::CALLCHAIN | parts,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

fn chain(addresses: &[u64]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.to_ne_bytes()).collect()
}

/// Some user chains of different depths, each with a mark first; one is recursive.
fn chains() -> Vec<Vec<u8>> {
    (1..30_u64)
        .map(|number| {
            let depth = 1 + number % 5;
            let frames = (0..depth).map(|level| in_module((number * 7 + level * 3) % 6, 0x100 + number * 16));
            chain(&[context::USER].into_iter().chain(frames).collect::<Vec<_>>())
        })
        .collect()
}

fn script_of_chains(attr: Attr) -> Script {
    let mut script = Script::new(vec![attr]);
    for (number, chain) in chains().iter().enumerate() {
        let pid = if number % 3 == 0 { 200 } else { 100 };
        script.sample(pid, chain, Sample::default());
    }
    script
}

fn samples(functions: &Functions, event: usize) -> u64 {
    functions.iter().filter(|((of, _), _)| *of == event).map(|(_, (own, _))| own).sum()
}

#[test]
fn frame_pointers() {
    let (functions, loss) = script_of_chains(sampler(SampleFormat::empty())).agree(&Ending::default());
    assert_eq!((samples(&functions, SAMPLER), loss), (29, Loss::default()));
    assert_eq!(functions.len(), MODULES.len());
}

#[test]
fn periods() {
    let mut attr = sampler(SampleFormat::PERIOD);
    (attr.kind, attr.flags) = (0, attr.flags | AttrFlags::FREQ);
    let (functions, _) = script_of_chains(attr).agree(&Ending::default());
    assert!(samples(&functions, SAMPLER) > 29 * 1000, "{functions:?}");
}

#[test]
fn unwound_stacks_with_their_ends() {
    let mut script = Script::new(vec![sampler(SampleFormat::empty())]);
    for reason in TruncationReason::ALL {
        let chain = chain(&[
            context::KERNEL,
            0xffff_ffff_8100_1000,
            context::USER,
            in_module(1, 0x10),
            in_module(2, 0x20),
            reason.marker(),
        ]);
        script.sample(100, &chain, Sample::default());
    }
    let (functions, _) = script.agree(&Ending::default());
    let cut = functions.keys().filter(|(_, name)| name.starts_with("[truncated")).count();
    assert_eq!(cut, TruncationReason::ALL.len(), "{functions:?}");
}

#[test]
fn last_branches() {
    let mut attr = sampler(SampleFormat::BRANCH_STACK);
    attr.branch_sample_format = BranchSampleFormat::CALL_STACK | BranchSampleFormat::USER;
    let mut script = Script::new(vec![attr]);
    for number in 0..20_u64 {
        let walked = chain(&[context::USER, in_module(0, number)]);
        let calls: Vec<u64> =
            (1..4).flat_map(|level| [in_module(level, number * 16), in_module(level - 1, 0), 0]).collect();
        let calls = chain(&calls);
        let branch_stack = Some(BranchStack::new(None, U64s::new(&calls, Endian::NATIVE), None));
        script.sample(100, &walked, Sample { branch_stack, ..Sample::default() });
    }
    let (functions, _) = script.agree(&Ending::default());
    let total = |name: &str| functions[&(SAMPLER, name.to_owned())];
    assert_eq!((total("[main]"), total("[libc.so]")), ((20, 20), (0, 20)), "{functions:?}");
}

#[test]
fn counters_of_a_group() {
    let mut leader = sampler(SampleFormat::READ);
    leader.read_format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST;
    leader.flags |= AttrFlags::INHERIT;
    let member = Attr { config: 2, ..leader.clone() };
    let format = leader.read_format;
    let mut script = Script::new(vec![leader, member]);
    for (number, chain) in (1..).zip(chains()) {
        let words = self::chain(&[number * 1_000_000, FIRST_ID, 0, number * number * 10, FIRST_ID + 1, 0]);
        let read = CounterValues::new(format, (0, 0), None, U64s::new(&words, Endian::NATIVE));
        let pid = if number % 2 == 0 { 100 } else { 200 };
        script.sample(pid, &chain, Sample { read: Some(read), ..Sample::default() });
    }
    let (functions, _) = script.agree(&Ending::default());
    assert!(samples(&functions, SAMPLER) > 0 && samples(&functions, 1) > 0, "{functions:?}");
}

#[test]
fn losses() {
    let mut script = script_of_chains(sampler(SampleFormat::empty()));
    script.lost(SAMPLER, 30).lost(1, 4);
    let (_, loss) = script.agree(&Ending::default());
    assert_eq!((loss.samples, loss.sideband), (30, 4));
    // The kernel's own count takes the place of what LOST records say.
    let lost = vec![LostCount { samples: 77, unread: 1 }, LostCount { samples: 6, unread: 0 }];
    let (_, loss) = script.agree(&Ending { lost: Some(lost), ..Ending::default() });
    assert_eq!((loss.samples, loss.sideband, loss.unread), (77, 6, 1));
}

#[test]
fn what_cannot_be_decoded() {
    let mut script = script_of_chains(sampler(SampleFormat::empty()));
    let whole = script.chunks.last().unwrap().1.clone();
    let with = |at: usize, bytes: [u8; 8]| {
        let mut record = whole.clone();
        record[at..at + 8].copy_from_slice(&bytes);
        (RingKind::Samples, record)
    };
    // Behind header, identifier, address, thread and time: the length of the chain.
    script.chunks.push(with(8 + 4 * 8, (1_u64 << 61).to_ne_bytes()));
    // Of an event that nobody opened.
    script.chunks.push(with(8, 1234_u64.to_ne_bytes()));
    let (functions, loss) = script.agree(&Ending::default());
    assert_eq!(samples(&functions, SAMPLER), 29);
    assert_eq!((loss.undecodable, loss.unattributed), (1, 1));
}
