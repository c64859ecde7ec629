//! Who made threads wait, and what would have made a command shorter.
//!
//! ```text
//! time of threads in pieces, spans of waits with who ended them ─▶ lanes ─┬▶ chains: who waited for whom, for what ──▶ culprits
//!                                                                         ├▶ path: what decided when the command ended ─┘
//!                                                                         └▶ replay: how long without a function
//! ```
//!
//! A thread that ended a wait is taken for the one that was waited for: a lock is given by who held it, a queue filled by who produces. What
//! it did since the wait began is what the wait was for; where it was blocked itself, that was what the thread did that woke it, and so on.

mod chains;
mod lanes;
mod parallelism;
mod path;
mod replay;
mod rest;
#[cfg(test)]
mod tests;

use hashbrown::HashMap;
use model::{Name, Pid, Tid, WaitSpan};
use rustc_hash::FxBuildHasher;

use crate::{FrameId, View};
pub use chains::{Chain, Step};
use lanes::{Doing, Lanes};
pub use lanes::{Place, PlaceNumber};
pub use parallelism::Parallelism;

/// Culprits of which the time of the command without them is computed.
const MOST_PREDICTIONS: usize = 5;
/// Culprits that others may be a part of: those behind them are too small to be told.
const MOST_MERGED: usize = 20;
/// Functions of a culprit of which that is said: the innermost one may be a helper that many call.
const MOST_REMOVED: usize = 2;
/// The part of the critical path, of 1, that may be guessed: with more of it nothing is predicted.
const MOST_GUESSED: f64 = 0.1;
/// How much the replay of everything may differ from what was recorded, of 1.
const MOST_OFF: f64 = 0.15;

/// What the waits of a recording are found from.
pub struct WaitInput<'a> {
    /// The time of threads, each by itself, in samples with times. It should show modules.
    pub view: &'a View<'a>,
    /// When threads were off the CPU.
    pub spans: &'a [WaitSpan],
    /// The threads that ended waits, by the numbers of the spans; `None` for an interrupt.
    pub wakers: &'a [Option<WakingThread>],
    /// True if the recording says of every wait who ended it.
    pub has_wakings: bool,
    /// The intervals in which switches were not recorded, in nanoseconds, in order.
    pub gaps: &'a [(u64, u64)],
    /// The command that ended.
    pub command: Option<Command>,
    /// The CPUs of the machine.
    pub cpus: Option<u64>,
    /// Tells whether a module is the user's own code.
    pub is_users: &'a dyn Fn(&str) -> bool,
}

/// A thread that ended waits, or is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakingThread {
    /// The thread.
    pub tid: Tid,
    /// True if it is known as who holds the lock that is waited for, if that is a lock of glibc's: whether it is, the stack tells.
    pub is_holder: bool,
}

/// The first thread of a command that ended, with its beginning and end in nanoseconds of the recording's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The thread.
    pub tid: Tid,
    /// When it was executed.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// What threads waited for. Times are in nanoseconds.
#[derive(Debug)]
pub struct Waiting {
    /// The places of steps, by their numbers.
    pub places: Vec<Place>,
    /// What was waited for in the end, the worst first.
    pub culprits: Vec<Culprit>,
    /// Who waited for whom, those with the most time first.
    pub chains: Vec<Chain>,
    /// Threads that waited for work and nothing else, and their time.
    pub resting: (u64, u64),
    /// The time of waits that were not followed, because there are too many.
    pub not_followed: u64,
    /// What decided when the command ended.
    pub path: Option<CriticalPath>,
    /// How many threads ran at a time.
    pub parallelism: Parallelism,
}

/// Functions that threads waited for, or waited in for something that is no thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Culprit {
    /// The name of the thread, in common with those of its pool.
    pub thread: Name,
    /// The innermost of the program's own functions, outermost first; empty where none was sampled.
    pub functions: Vec<FrameId>,
    /// What it did: the places with their time, the most first.
    pub doing: Vec<(PlaceNumber, u64)>,
    /// The time of its own that is on the critical path.
    pub on_path: u64,
    /// The time that other threads waited for it, all together.
    pub cost: u64,
    /// The time that it waited itself.
    pub own: u64,
    /// The first steps of chains that lead to it, with their time, the most first.
    pub waiters: Vec<(Step, u64)>,
    /// About how long the command had taken without some of the functions, the innermost first.
    pub without: Vec<(FrameId, u64)>,
}

impl Culprit {
    /// Returns what it is worth to look at it: its part of the critical path, and what others waited.
    fn weight(&self) -> u64 {
        self.on_path.saturating_add(self.cost)
    }

    fn merge(&mut self, other: Self) {
        (self.on_path, self.cost, self.own) = (
            self.on_path + other.on_path,
            self.cost.saturating_add(other.cost),
            self.own.saturating_add(other.own),
        );
        other.doing.into_iter().for_each(|(place, weight)| add(&mut self.doing, place, weight));
        other.waiters.into_iter().for_each(|(step, weight)| add(&mut self.waiters, step, weight));
    }
}

/// The stretches of time that decided when a command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CriticalPath {
    /// From the start to the end of the command.
    pub length: u64,
    /// The part that is not known.
    pub guessed: u64,
    /// The stretches, in the order of time.
    pub stretches: Vec<PathStretch>,
}

/// A stretch of the critical path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathStretch {
    /// The process of the thread.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Its beginning and end, by the recording's clock.
    pub time: (u64, u64),
    /// Where the thread was.
    pub place: PlaceNumber,
}

impl Waiting {
    /// Returns a place.
    pub fn place(&self, number: PlaceNumber) -> &Place {
        &self.places[number.0 as usize]
    }

    /// Returns the culprit that a chain leads to.
    pub fn culprit_of(&self, chain: &Chain) -> Option<&Culprit> {
        let last = chain.steps.last()?;
        let functions = self.place(last.place).told();
        self.culprits
            .iter()
            .find(|culprit| culprit.thread == last.thread && culprit.functions.ends_with(functions))
    }
}

/// Finds what threads waited for.
pub fn find(input: &WaitInput<'_>) -> Waiting {
    let lanes = Lanes::new(input);
    let last = input.command.and_then(|command| lanes.lanes.iter().position(|lane| lane.tid == command.tid));
    let critical = input
        .command
        .zip(last)
        .map(|(command, last)| (command, last, path::path(&lanes, last as u32, command.end)));
    let found = chains::find(&lanes);
    let mut culprits = culprits(&lanes, &found.chains, critical.as_ref().map_or(&[], |(.., path)| path));
    let path = critical.as_ref().map(|(command, _, path)| critical_path(&lanes, *command, path));
    if let (Some((command, last, _)), Some(path)) = (&critical, &path)
        && input.has_wakings
        && path.guessed as f64 <= path.length as f64 * MOST_GUESSED
    {
        predict(&lanes, *last, command.end - command.start, input.cpus.unwrap_or(1), &mut culprits);
    }
    let during = input.command.map(|command| (command.start, command.end));
    Waiting {
        culprits,
        chains: found.chains,
        resting: found.resting,
        not_followed: found.not_followed,
        path,
        parallelism: Parallelism::of(&lanes, during),
        places: lanes.places,
    }
}

/// Adds chains up by what they lead to.
fn culprits(lanes: &Lanes, chains: &[Chain], path: &[path::Stretch]) -> Vec<Culprit> {
    let mut culprits: Vec<Culprit> = Vec::new();
    let mut numbers: HashMap<(Name, Vec<FrameId>), usize, FxBuildHasher> = HashMap::default();
    let key = |thread: &Name, place: PlaceNumber| (thread.clone(), lanes.place(place).told().to_vec());
    for Chain { steps, weight, .. } in chains {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { continue };
        let number =
            *numbers.entry(key(&last.thread, last.place)).or_insert_with_key(|(thread, functions)| {
                culprits.push(Culprit {
                    thread: thread.clone(),
                    functions: functions.clone(),
                    doing: Vec::new(),
                    on_path: 0,
                    cost: 0,
                    own: 0,
                    waiters: Vec::new(),
                    without: Vec::new(),
                });
                culprits.len() - 1
            });
        let culprit = &mut culprits[number];
        add(&mut culprit.doing, last.place, *weight);
        if steps.len() == 1 {
            culprit.own += weight;
            continue;
        }
        culprit.cost = culprit.cost.saturating_add(*weight);
        add(&mut culprit.waiters, first.clone(), *weight);
    }
    for path::Stretch { lane, segment } in
        path.iter().filter(|stretch| stretch.segment.doing != Doing::Unknown)
    {
        let name = &lanes.lanes[*lane as usize].name;
        if let Some(&number) = numbers.get(&key(name, segment.place)) {
            culprits[number].on_path += segment.length();
        }
    }
    culprits.sort_by_key(|culprit| std::cmp::Reverse((culprit.weight(), culprit.own)));
    let mut merged: Vec<Culprit> = Vec::new();
    for culprit in culprits {
        // A stack that ends early, or a call in the place of a return, leaves out the outer functions.
        let is_part = |known: &&mut Culprit| {
            known.thread == culprit.thread
                && !culprit.functions.is_empty()
                && known.functions.ends_with(&culprit.functions)
        };
        match merged.iter_mut().take(MOST_MERGED).find(is_part) {
            Some(known) => known.merge(culprit),
            None => merged.push(culprit),
        }
    }
    for culprit in &mut merged {
        culprit.doing.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        culprit.waiters.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    }
    merged.sort_by_key(|culprit| std::cmp::Reverse((culprit.weight(), culprit.own)));
    merged
}

fn add<T: PartialEq>(sums: &mut Vec<(T, u64)>, what: T, weight: u64) {
    match sums.iter_mut().find(|(known, _)| *known == what) {
        Some((_, sum)) => *sum = sum.saturating_add(weight),
        None => sums.push((what, weight)),
    }
}

fn critical_path(lanes: &Lanes, command: Command, path: &[path::Stretch]) -> CriticalPath {
    let length = command.end - command.start;
    let stretches = path.iter().filter(|stretch| stretch.segment.end > command.start);
    let known = |stretch: &&path::Stretch| stretch.segment.doing != Doing::Unknown;
    let of_known = stretches.clone().filter(known);
    let known: u64 =
        of_known.map(|stretch| stretch.segment.end - stretch.segment.start.max(command.start)).sum();
    let stretch = |stretch: &path::Stretch| {
        let lane = &lanes.lanes[stretch.lane as usize];
        let time = (stretch.segment.start.max(command.start), stretch.segment.end);
        PathStretch { pid: lane.pid, tid: lane.tid, time, place: stretch.segment.place }
    };
    CriticalPath {
        length,
        guessed: length.saturating_sub(known),
        stretches: stretches.map(stretch).collect(),
    }
}

/// Says of the first culprits how long the command had taken without them, if the replay of everything takes as long as it did.
fn predict(lanes: &Lanes, last: usize, length: u64, cpus: u64, culprits: &mut [Culprit]) {
    let replay = |removed: Option<FrameId>| {
        let is_removed = |place| removed.is_some_and(|removed| lanes.place(place).own.contains(&removed));
        replay::wall(lanes, last as u32, cpus, is_removed)
    };
    let Some(whole) = replay(None) else { return };
    if (whole as f64 / length.max(1) as f64 - 1.0).abs() > MOST_OFF {
        return;
    }
    for culprit in culprits.iter_mut().take(MOST_PREDICTIONS).filter(|culprit| culprit.on_path > 0) {
        // The outermost function is all that its thread does.
        let calls = |function: &&FrameId| {
            culprit.doing.iter().any(|(place, _)| lanes.place(*place).own.first() != Some(*function))
        };
        let removed = culprit.functions.iter().rev().filter(calls).take(MOST_REMOVED);
        let without = removed.filter_map(|&function| Some((function, replay(Some(function))?)));
        culprit.without = without
            .map(|(function, wall)| (function, length.saturating_sub(whole.saturating_sub(wall))))
            .collect();
    }
}
