//! Records of switches through the engine: in every interval, what a thread did adds up to the interval.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use analysis::TimeWeight;
use crossbeam_channel::{Receiver, unbounded};
use decoder::record::{Comm, Switch, Task};
use decoder::values::U64s;
use decoder::{
    Attr, AttrFlags, CpuMode, Endian, Record, RecordLayout, Sample, SampleFormat, SampleId, context,
};
use export::summary::Activity;
use model::{CpuId, Pid, Tid, Timestamp};
use perfdata::sections::{Schedstat, WatchedTime};
use prof_live::snapshot::{Snapshot, ids_of};
use prof_live::views::{Scope, TaskChoice, TimeSpent, functions};
use prof_live::{Engine, EngineEvent, EngineSettings};
use recorder::unwind::{Mechanisms, UnwindingStage};
use recorder::{Chunk, Consumer, Ending, RecordedEvent, Recording, RecordingSink, RingKind, SwitchUpdate};

const MS: u64 = 1_000_000;
const BEGIN: u64 = 1000 * MS;
const PID: Pid = Pid(100);
/// It works, and sleeps in between; one that sleeps all the time; one that begins late.
const WORKER: i32 = 100;
const SLEEPER: i32 = 101;
const LATE: i32 = 102;

/// The events: one that samples what runs, one for the stacks of blocked threads, and the one that tells of switches.
const SAMPLER: usize = 0;
const OUTSIDE: usize = 1;
const SIDEBAND: usize = 2;

type Tell = Box<dyn FnMut(EngineEvent)>;

/// A recording as the engine gets it.
struct Live {
    engine: UnwindingStage<Engine<Tell>>,
    layouts: Vec<RecordLayout>,
    snapshots: Receiver<Arc<Snapshot>>,
    _orders: crossbeam_channel::Sender<prof_live::EngineCommand>,
}

impl Live {
    fn new(weight: TimeWeight) -> Self {
        let common = SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME | SampleFormat::CPU;
        let with = |sample_format, config, sample_period, flags| Attr {
            kind: 1,
            config,
            sample_period,
            sample_format,
            flags: AttrFlags::SAMPLE_ID_ALL | flags,
            ..Attr::default()
        };
        let chain = common | SampleFormat::IP | SampleFormat::CALLCHAIN;
        let none = AttrFlags::empty();
        let attrs = [
            with(chain, 0, 1_000_000, none),
            with(chain | SampleFormat::RAW, 9, 1, AttrFlags::CONTEXT_SWITCH),
            with(common, 9, 0, none),
        ];
        let layouts = attrs.iter().map(|attr| RecordLayout::new(attr, Endian::NATIVE)).collect();
        let names = ["cpu-clock", "blocked-stacks", "dummy"];
        let event = |(index, attr): (usize, &Attr)| RecordedEvent {
            name: names[index].to_owned(),
            attr: attr.clone(),
            ids: vec![index as u64 + 1],
            sideband: index == SIDEBAND,
            leader: None,
            tracepoint: None,
        };
        let recording = Recording {
            events: attrs.iter().enumerate().map(event).collect(),
            cpus: vec![CpuId(0)],
            ring_size: 1 << 20,
            kernel: std::sync::Arc::default(),
            files: recorder::MappedFiles::default(),
            resources: recorder::ProcessResources::default(),
        };
        let (orders, ordered) = unbounded();
        let (news, snapshots) = unbounded();
        let tell: Tell = Box::new(move |item| {
            if let EngineEvent::Snapshot(snapshot) = item {
                news.send(snapshot).unwrap();
            }
        });
        let settings = EngineSettings {
            target: String::new(),
            window: Duration::from_secs(10),
            interval: Duration::from_secs(1),
            max_symbol_wait: prof_live::MAX_SYMBOL_WAIT,
            bounds_inlines: false,
            reads_resources: false,
            intervals_apart: true,
            stacks_unwound: false,
            names: symbolizer::NameStyle::Demangled,
            time: Some(weight),
        };
        let engine = Engine::new(settings, ordered, tell).unwrap();
        let mut engine = UnwindingStage::new(engine, false, Mechanisms::all());
        engine.begin(&recording).unwrap();
        let mut live = Self { engine, layouts, snapshots, _orders: orders };
        live.engine.update_switches(&[SwitchUpdate::Watched(WatchedTime {
            begin: BEGIN,
            end: BEGIN,
            only_sampled: false,
        })]);
        for (tid, name) in [(WORKER, "worker"), (SLEEPER, "sleeper")] {
            let sample_id = SampleId { time: Some(Timestamp(0)), ..sample_id(tid, 0) };
            let comm = name.as_bytes();
            live.put(SIDEBAND, &Record::Comm(Comm { pid: PID, tid: Tid(tid), comm, exec: false, sample_id }));
        }
        live.engine.started().unwrap();
        live
    }

    fn put(&mut self, event: usize, record: &Record<'_>) {
        let mut bytes = Vec::new();
        self.layouts[event].encode(record, &mut bytes).unwrap();
        let ring = if event == SIDEBAND { RingKind::Sideband } else { RingKind::Samples };
        self.engine.consume(Chunk::new(ring, bytes)).unwrap();
    }

    /// A thread is switched, so many milliseconds after the beginning.
    fn switch(&mut self, tid: i32, at: u64, out: bool, preempted: bool) {
        let sample_id = SampleId { identifier: Some(OUTSIDE as u64 + 1), ..sample_id(tid, BEGIN + at * MS) };
        self.put(OUTSIDE, &Record::Switch(Switch { out, preempted, other: None, sample_id }));
    }

    fn sample(&mut self, tid: i32, at: u64) {
        self.stack(SAMPLER, tid, at, &[context::USER, 0x1000], None);
    }

    /// A thread is seen blocked.
    fn seen(&mut self, tid: i32, at: u64, request: &[u8; 12]) {
        self.stack(OUTSIDE, tid, at, &[context::USER, 0x2000, 0x3000], Some(request));
    }

    fn stack(&mut self, event: usize, tid: i32, at: u64, chain: &[u64], raw: Option<&[u8]>) {
        let chain: Vec<u8> = chain.iter().flat_map(|address| address.to_ne_bytes()).collect();
        let sample = Sample {
            mode: CpuMode::User,
            identifier: Some(event as u64 + 1),
            ip: Some(0x1000),
            thread: Some((PID, Tid(tid))),
            time: Some(Timestamp(BEGIN + at * MS)),
            cpu: Some(CpuId(0)),
            callchain: Some(U64s::new(&chain, Endian::NATIVE)),
            raw,
            ..Sample::default()
        };
        self.put(event, &Record::Sample(sample));
    }

    /// All that came so far has its turn; the interval that is over is told.
    fn interval(&mut self) -> Arc<Snapshot> {
        for _ in 0..2000 {
            self.engine.finished_round().unwrap();
            if let Ok(snapshot) = self.snapshots.try_recv() {
                return snapshot;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no interval came");
    }

    fn end(&mut self, at: u64) -> Arc<Snapshot> {
        let watched = Some(WatchedTime { begin: BEGIN, end: BEGIN + at * MS, only_sampled: false });
        self.engine.end(&Ending { watched, ..Ending::default() }).unwrap();
        self.snapshots.try_iter().last().unwrap()
    }
}

fn sample_id(tid: i32, time: u64) -> SampleId {
    SampleId {
        thread: Some((PID, Tid(tid))),
        time: Some(Timestamp(time)),
        cpu: Some(CpuId(0)),
        identifier: Some(SIDEBAND as u64 + 1),
        ..SampleId::default()
    }
}

/// What the kernel has counted of the worker, so many milliseconds after the beginning, in milliseconds.
fn counted(time: u64, running: u64, runnable: u64) -> SwitchUpdate {
    let [time, running, runnable] = [BEGIN + time * MS, running * MS, runnable * MS];
    SwitchUpdate::SchedStat(Tid(WORKER), Schedstat { time, running, runnable })
}

/// What each thread did, in milliseconds, and the length of the interval.
fn spent(snapshot: &Snapshot) -> (BTreeMap<i32, [u64; 4]>, u64) {
    let times = TimeSpent::of(snapshot, &Scope::default());
    let profile = &snapshot.profiles[0];
    let of = |(thread, ..): (profile::ThreadId, profile::StackId, profile::Count)| {
        let (pid, tid) = ids_of(&profile.threads()[thread.index()]);
        let thread = TaskChoice { pid, tid: Some(tid) };
        let Activity { running, runnable, blocked, waiting, unknown } = times.of_task(thread);
        (tid, [running, runnable, blocked + waiting, unknown].map(|time| time / MS))
    };
    (profile.counts().map(of).collect(), snapshot.status.covered.as_millis() as u64)
}

fn names(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let scope = Scope { at_rest: true, ..Scope::default() };
    let rows = functions(snapshot, &scope).into_iter().filter(|row| row.self_weight > 0);
    rows.map(|row| (export::report::function(&row.frame), row.self_weight / MS)).collect()
}

#[test]
fn what_lasts_counts_in_every_interval() {
    let mut live = Live::new(TimeWeight::Wall);
    live.seen(SLEEPER, 10, b"futex 0x10\0\0");
    for at in [50, 100, 150] {
        live.sample(WORKER, at);
    }
    live.switch(WORKER, 200, true, false);
    // Something has to say that time goes on: a thread begins.
    let late = Task {
        pid: PID,
        tid: Tid(LATE),
        parent_pid: PID,
        parent_tid: Tid(WORKER),
        time: Timestamp(BEGIN + 2_100 * MS),
        sample_id: sample_id(LATE, BEGIN + 2_100 * MS),
    };
    live.seen(WORKER, 1_200, b"epoll_wait\0\0");
    let first = live.interval();
    assert_eq!(
        spent(&first),
        (BTreeMap::from([(WORKER, [200, 0, 800, 0]), (SLEEPER, [0, 0, 1000, 0])]), 1000)
    );
    assert_eq!(names(&first)["[blocked: futex 0x10]"], 1000);

    live.put(SIDEBAND, &Record::Fork(late));
    live.switch(LATE, 2_150, false, false);
    live.switch(LATE, 2_400, true, true);
    let second = live.interval();
    let both = [(WORKER, [0, 0, 1000, 0]), (SLEEPER, [0, 0, 1000, 0])];
    assert_eq!(spent(&second), (BTreeMap::from(both), 1000), "nothing was told, and they slept all the time");
    assert_eq!(names(&second)["[waiting: epoll]"], 1000, "as it was seen since");
    assert_eq!(Scope::default().total(&second), 1_000_000_000, "who is at rest does not count");

    live.switch(WORKER, 3_100, false, false);
    live.switch(WORKER, 3_300, true, false);
    let third = live.interval();
    let all = [both[0], both[1], (LATE, [250, 650, 0, 0])];
    assert_eq!(spent(&third), (BTreeMap::from(all), 1000));

    let rest = live.end(3_500);
    let all = [(WORKER, [200, 0, 300, 0]), (SLEEPER, [0, 0, 500, 0]), (LATE, [0, 500, 0, 0])];
    assert_eq!(spent(&rest), (BTreeMap::from(all), 500));
    assert!(rest.status.ended);
}

#[test]
fn a_kind_of_time_is_a_part_of_all() {
    for (weight, expected) in [
        (TimeWeight::Cpu, [200, 0, 0, 0]),
        (TimeWeight::OffCpu, [0, 0, 800, 0]),
        (TimeWeight::Wall, [200, 0, 800, 0]),
    ] {
        let mut live = Live::new(weight);
        live.sample(WORKER, 50);
        live.switch(WORKER, 200, true, false);
        live.switch(WORKER, 1_100, false, false);
        assert_eq!(spent(&live.interval()).0[&WORKER], expected, "{weight:?}");
    }
}

#[test]
fn what_switches_do_not_say_the_kernel_counts() {
    let mut live = Live::new(TimeWeight::Wall);
    let at = |time: u64| BEGIN + time * MS;
    live.sample(WORKER, 5);
    live.switch(WORKER, 10, true, false);
    live.switch(WORKER, 20, false, false);
    live.engine.update_switches(&[counted(20, 5_010, 0), SwitchUpdate::Paused(at(20))]);
    // Half of the time it ran, for a tenth it was ready to.
    live.engine.update_switches(&[counted(1_520, 5_760, 150), SwitchUpdate::Resumed(at(1_520))]);
    live.switch(WORKER, 1_520, true, false);
    live.switch(WORKER, 1_530, false, false);
    let first = live.interval();
    let (sums, length) = spent(&first);
    assert_eq!((sums[&WORKER].iter().sum::<u64>().div_ceil(10) * 10, length), (1000, 1000));
    let close = |is: u64, should: u64| assert!(is.abs_diff(should) <= 2, "{is}, not {should}");
    close(sums[&WORKER][0], 10 + 490);
    close(sums[&WORKER][1], 98);
    live.engine.update_switches(&[counted(2_100, 6_330, 150)]);
    live.switch(WORKER, 2_100, true, false);
    let second = live.interval();
    let (sums, _) = spent(&second);
    // To the end of the gap as before, and then it ran.
    close(sums[&WORKER][0], 260 + 470);
    close(sums[&WORKER][1], 52);
}

#[test]
fn where_switches_are_recorded_an_interval_that_ends_between_two_counts_has_what_records_say() {
    let mut live = Live::new(TimeWeight::Wall);
    live.sample(WORKER, 5);
    live.engine.update_switches(&[counted(10, 10, 0)]);
    live.switch(WORKER, 100, true, true);
    live.switch(WORKER, 400, false, false);
    live.switch(WORKER, 410, true, false);
    live.engine.update_switches(&[counted(1_090, 110, 300)]);
    live.switch(WORKER, 1_100, false, false);
    assert_eq!(spent(&live.interval()).0[&WORKER], [110, 300, 590, 0]);

    live.switch(WORKER, 1_200, true, true);
    live.switch(WORKER, 1_500, false, false);
    live.switch(WORKER, 1_510, true, false);
    live.engine.update_switches(&[counted(2_400, 220, 600)]);
    live.switch(WORKER, 2_500, false, false);
    assert_eq!(spent(&live.interval()).0[&WORKER], [110, 300, 590, 0]);
}
