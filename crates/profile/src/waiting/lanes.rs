//! What each thread did, one stretch after the other: on a CPU, ready for one, or blocked until somebody woke it.

use hashbrown::HashMap;
use model::{Name, Pid, ThreadState, Tid};
use rustc_hash::FxBuildHasher;

use super::{WaitInput, WakingThread, rest};
use crate::explain::{Functions, OwnCode};
use crate::{FrameId, FrameKind, Label, StackId, pool_names};

/// The number of functions of a place that are told: the innermost ones of the program's own.
const TOLD_FUNCTIONS: usize = 3;

/// A place on a stack: the program's own functions, what the innermost of them calls, and the state of the thread.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Place {
    /// The program's own functions, outermost first.
    pub own: Vec<FrameId>,
    /// What the innermost of them calls of a library or of the kernel.
    pub call: Option<FrameId>,
    /// The state of a thread off the CPU.
    pub state: Option<FrameId>,
    /// True if threads of a pool, of an event loop or of a runtime rest here.
    pub is_rest: bool,
    /// True if the thread waits in a lock of glibc's that keeps who holds it.
    pub(super) is_lock: bool,
}

impl Place {
    /// Returns the innermost functions.
    pub fn told(&self) -> &[FrameId] {
        self.own.get(self.own.len().saturating_sub(TOLD_FUNCTIONS)..).unwrap_or_default()
    }
}

/// The number of a [`Place`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlaceNumber(pub(super) u32);

/// The place of time that no sample tells of.
pub(super) const UNSEEN: PlaceNumber = PlaceNumber(0);

/// Who ended a wait, or started a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ender {
    /// The thread of this lane.
    Lane(u32),
    /// An interrupt, or a thread that was not recorded.
    Elsewhere,
    /// Nobody knows.
    Unknown,
}

/// What a thread did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    Running,
    Runnable,
    /// It had been started, by this thread, and waited for its first CPU.
    Starting(Ender),
    Blocked(Ender),
    /// Switches were not recorded.
    Unknown,
}

/// A stretch of a thread's time, in nanoseconds of the recording's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) place: PlaceNumber,
    pub(super) doing: Doing,
}

impl Segment {
    pub(super) fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) pid: Pid,
    pub(super) tid: Tid,
    /// Its name, in common with the threads of its pool.
    pub(super) name: Name,
    /// The outermost of the program's own functions: what it was started with.
    pub(super) start: Option<FrameId>,
    /// In the order of time, without gaps.
    pub(super) segments: Vec<Segment>,
}

impl Lane {
    /// Returns the position of the segment in which a time lies, that of an end being in the segment before.
    pub(super) fn at(&self, time: u64) -> Option<usize> {
        let behind = self.segments.partition_point(|segment| segment.start < time);
        behind.checked_sub(1)
    }
}

/// All threads.
#[derive(Default, Debug)]
pub(super) struct Lanes {
    pub(super) lanes: Vec<Lane>,
    /// The first is that of time without a sample.
    pub(super) places: Vec<Place>,
}

/// A sample: its time, weight and place.
type Sampled = (u64, u64, PlaceNumber);

impl Lanes {
    pub(super) fn new(input: &WaitInput<'_>) -> Self {
        let (view, threads) = (input.view, input.view.profile().threads());
        let names = pool_names(threads);
        let mut lanes: Vec<Lane> = Vec::new();
        let mut numbers: HashMap<Tid, u32, FxBuildHasher> = HashMap::default();
        let mut places = Places::new(input);
        let mut samples: Vec<[Vec<Sampled>; 2]> = Vec::new();
        for sample in view.profile().samples().iter() {
            let thread = &threads[sample.thread.index()];
            let (Some(time), Some((pid, tid))) = (sample.time, thread.ids) else { continue };
            let number = *numbers.entry(tid).or_insert_with(|| {
                let name = names[sample.thread.index()].clone();
                lanes.push(Lane { pid, tid, name, start: None, segments: Vec::new() });
                samples.push(Default::default());
                (lanes.len() - 1) as u32
            }) as usize;
            let (place, runs) = places.of(sample.thread, sample.stack);
            let lane = &mut lanes[number];
            let name = &names[sample.thread.index()];
            if !name.as_bytes().starts_with(b":") {
                lane.name.clone_from(name);
            }
            lane.start = lane.start.or_else(|| places.list[place.0 as usize].own.first().copied());
            samples[number][usize::from(runs)].push((time.0, sample.period, place));
        }
        let mut spans: Vec<Vec<&model::WaitSpan>> = vec![Vec::new(); lanes.len()];
        for span in input.spans {
            if let Some(&number) = numbers.get(&span.tid) {
                spans[number as usize].push(span);
            }
        }
        let list = &places.list;
        let ender = |span: &model::WaitSpan, place: PlaceNumber| match span
            .waker
            .map(|waker| input.wakers.get(waker).copied().flatten())
        {
            None => Ender::Unknown,
            Some(Some(WakingThread { is_holder: true, .. })) if !list[place.0 as usize].is_lock => {
                Ender::Unknown
            }
            Some(Some(WakingThread { tid, .. })) => {
                numbers.get(&tid).map_or(Ender::Elsewhere, |&lane| Ender::Lane(lane))
            }
            Some(None) => Ender::Elsewhere,
        };
        for ((lane, [off, ran]), spans) in lanes.iter_mut().zip(samples).zip(&mut spans) {
            spans.sort_by_key(|span| span.start);
            let end = input.command.filter(|command| command.tid == lane.tid).map(|command| command.end);
            let mut building = Building { segments: Vec::new(), off, ran, gaps: input.gaps };
            building.fill(spans, end, ender);
            lane.segments = building.segments;
        }
        Self { lanes, places: places.list }
    }

    pub(super) fn place(&self, number: PlaceNumber) -> &Place {
        &self.places[number.0 as usize]
    }
}

/// The segments of a thread, as they are made from its waits and samples.
struct Building<'a> {
    segments: Vec<Segment>,
    /// Samples of time off the CPU, in order.
    off: Vec<Sampled>,
    /// Samples of time on a CPU, in order.
    ran: Vec<Sampled>,
    gaps: &'a [(u64, u64)],
}

impl Building<'_> {
    fn fill(
        &mut self,
        spans: &[&model::WaitSpan],
        end: Option<u64>,
        ender: impl Fn(&model::WaitSpan, PlaceNumber) -> Ender,
    ) {
        let first_run = self.ran.first().map(|&(time, ..)| time);
        let mut cursor =
            spans.first().map(|span| span.start.0).into_iter().chain(first_run).min().unwrap_or(0);
        let (off, mut next) = (std::mem::take(&mut self.off), 0);
        for span in spans {
            let (start, until) = (span.start.0.max(cursor), span.end.0);
            if until <= start {
                continue;
            }
            self.run(cursor, start);
            while off.get(next).is_some_and(|&(time, ..)| time < start) {
                next += 1;
            }
            let place =
                off.get(next).filter(|&&(time, ..)| time <= until).map_or(UNSEEN, |&(.., place)| place);
            let is_first = self.segments.is_empty();
            let doing = match (span.is_runnable, ender(span, place)) {
                (false, ender) => Doing::Blocked(ender),
                (true, starter @ (Ender::Lane(_) | Ender::Elsewhere)) if is_first => Doing::Starting(starter),
                (true, _) => Doing::Runnable,
            };
            self.segments.push(Segment { start, end: until, place, doing });
            cursor = until;
        }
        let last_run = self.ran.last().map(|&(time, ..)| time);
        self.run(cursor, last_run.max(end).unwrap_or(cursor));
    }

    /// Adds a stretch on a CPU, shared out to its samples by their weights.
    fn run(&mut self, start: u64, end: u64) {
        if end <= start {
            return;
        }
        if self.gaps.iter().any(|&(from, to)| from < end && start < to) {
            return self.segments.push(Segment { start, end, place: UNSEEN, doing: Doing::Unknown });
        }
        let first = self.ran.partition_point(|&(time, ..)| time < start);
        let last = self.ran.partition_point(|&(time, ..)| time <= end);
        let samples = self.ran.get(first..last).unwrap_or_default();
        let all: u64 =
            samples.iter().map(|(_, weight, _)| weight).fold(0, |sum, weight| sum.saturating_add(*weight));
        let (mut before, mut at) = (0_u64, start);
        for &(_, weight, place) in samples {
            before = before.saturating_add(weight);
            let until =
                start + (u128::from(end - start) * u128::from(before) / u128::from(all.max(1))) as u64;
            match self.segments.last_mut() {
                Some(last) if last.place == place && last.end == at && last.doing == Doing::Running => {
                    last.end = until
                }
                _ if until > at => {
                    self.segments.push(Segment { start: at, end: until, place, doing: Doing::Running });
                }
                _ => continue,
            }
            at = until;
        }
        if at < end {
            self.segments.push(Segment { start: at, end, place: UNSEEN, doing: Doing::Running });
        }
    }
}

/// The places of stacks, each kept once.
struct Places<'a> {
    input: &'a WaitInput<'a>,
    own: OwnCode,
    functions: Functions,
    rests: rest::Rests,
    list: Vec<Place>,
    numbers: HashMap<Place, PlaceNumber, FxBuildHasher>,
    of_stacks: HashMap<StackId, (PlaceNumber, bool), FxBuildHasher>,
    /// The first frame of a thread that was ready for a CPU.
    ready: Option<FrameId>,
    stack: Vec<FrameId>,
}

impl<'a> Places<'a> {
    fn new(input: &'a WaitInput<'a>) -> Self {
        let frames = input.view.frames().frames();
        Self {
            input,
            own: OwnCode::new(frames, input.is_users),
            functions: Functions::new(input.view),
            rests: rest::Rests::new(frames),
            list: vec![Place::default()],
            numbers: HashMap::default(),
            of_stacks: HashMap::default(),
            ready: None,
            stack: Vec::new(),
        }
    }

    /// Returns the place of a stack, and true if the thread ran.
    fn of(&mut self, thread: crate::ThreadId, stack: StackId) -> (PlaceNumber, bool) {
        if let Some(known) = self.of_stacks.get(&stack) {
            return *known;
        }
        let frames = self.input.view.frames().frames();
        self.stack.clear();
        self.input.view.stack(thread, stack, &mut self.stack);
        self.stack.retain(|frame| {
            let label = &frames[frame.index()].label;
            !label.is_thread() && !matches!(label, Label::Truncated(_))
        });
        let mut place = Place {
            is_rest: self.rests.contain(&self.stack),
            is_lock: self.stack.iter().any(|frame| is_lock(&frames[frame.index()].label)),
            ..Place::default()
        };
        let (mut runs, mut is_sampled) = (true, true);
        if let Some(last) = self.stack.last()
            && let Label::State(state) = &frames[last.index()].label
        {
            (runs, is_sampled) = (!state.is_off_cpu(), false);
            let is_ready = matches!(state, ThreadState::Runnable(_));
            // Why it was ready is all the same for who waited.
            let state = if is_ready { *self.ready.get_or_insert(*last) } else { *last };
            place.state = Some(state).filter(|_| !runs);
            self.stack.pop();
        }
        let in_kernel = self.stack.iter().rposition(|frame| frames[frame.index()].kind != FrameKind::Kernel);
        self.stack.truncate(in_kernel.map_or(self.stack.len(), |last| last + 1));
        let functions: Vec<FrameId> = self.stack.iter().map(|&frame| self.functions.of(frame)).collect();
        let is_told = self.ready.is_none_or(|ready| place.state != Some(ready));
        self.own.of_stack(&functions, |frame, is_called| match is_called {
            true => place.call = place.call.or(Some(frame).filter(|_| is_told)),
            false if place.own.last() == Some(&frame) => {}
            false => place.own.push(frame),
        });
        let list = &mut self.list;
        let number = match place.own.is_empty() && runs && !is_sampled {
            true => UNSEEN,
            false => *self.numbers.entry(place).or_insert_with_key(|place| {
                list.push(place.clone());
                PlaceNumber((list.len() - 1) as u32)
            }),
        };
        self.of_stacks.insert(stack, (number, runs));
        (number, runs)
    }
}

/// Returns true for the functions of glibc that lock a mutex, or lock it again behind a condition.
fn is_lock(label: &Label) -> bool {
    let Label::Function(name, Some(module)) = label else { return false };
    let name = name.trim_start_matches("__GI_").trim_start_matches('_');
    let is_glibc =
        [&b"libc.so"[..], b"libc-", b"libpthread"].iter().any(|start| module.as_bytes().starts_with(start));
    is_glibc && (name.starts_with("pthread_mutex_") || name.starts_with("pthread_cond_"))
}
