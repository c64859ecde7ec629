//! The samples of the page as columns, grouped by event and thread, in the order of time.

use std::collections::HashMap;

use model::{CpuId, Name, Pid, Tid};
use profile::{Thread, View, pool_names};
use rustc_hash::FxBuildHasher;

use super::assembly::Instructions;
use super::blocks::Column;
use super::source::Lines;
use super::stacks::{EventStacks, RootedStack};
use super::tree::{PageTree, StackEnd};
use crate::interner::IndexedInterner;

/// A thread under all of its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lane {
    /// The recording: 0, or in a comparison 1 after the change.
    pub(crate) side: u32,
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    /// The name of its process at the time of that one's last sample.
    pub(crate) process: Name,
    pub(crate) name: Name,
    /// The name of its thread pool; empty if it belongs to none.
    pub(crate) pool: String,
    /// The sum of the periods of its samples under `name`.
    period_under_name: u64,
}

/// The samples of one event and thread.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) event: u32,
    pub(super) lane: u32,
    /// In the order in which they were taken.
    pub(super) rows: Vec<Row>,
}

/// One sample, or several that were merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The number of its stack in the event's profile, and from [`Samples::end`] on that of its leaf.
    pub(super) leaf: u32,
    /// The thread in the event's profile.
    pub(super) thread: u32,
    pub(super) cpu: u32,
    /// The time at which it was taken, in microseconds.
    pub(super) time: u64,
    pub(super) period: u64,
    /// The number of samples that it stands for.
    pub(super) count: u32,
}

impl Row {
    /// Returns what it weighs in its event.
    pub(super) fn weight(&self, weighted: bool) -> u64 {
        if weighted { self.period } else { self.count.into() }
    }
}

/// The end of a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Leaf {
    /// Number of the node.
    node: u32,
    /// 0 where it is not known.
    line: u32,
    /// 0 where its code is not in the page.
    instruction: u32,
}

/// The samples of all events.
#[derive(Default, Debug)]
pub(crate) struct Samples {
    pub(crate) lanes: Vec<Lane>,
    lane_numbers: HashMap<(u32, Pid, Tid), u32, FxBuildHasher>,
    /// The time of the last sample of each process, in microseconds, and its name then: a process may execute other programs.
    process_names: HashMap<(u32, Pid), (u64, Name), FxBuildHasher>,
    /// The times from which those of each side count, in microseconds of its recording's clock: in a comparison that of its first
    /// sample, else 0.
    pub(crate) origins: Vec<u64>,
    /// Where stacks end.
    leaves: IndexedInterner<Leaf>,
    pub(crate) lines: Lines,
    /// True if stacks that end on different lines are kept apart.
    pub(crate) has_lines: bool,
    /// The code of the page: stacks that end at different instructions get different leaves.
    pub(crate) instructions: Instructions,
    /// By event and lane, each with samples.
    pub(super) segments: Vec<Segment>,
    /// True if all samples have a time.
    pub(super) is_timed: bool,
    /// True for events whose samples all have a CPU, by event.
    has_cpus: Vec<bool>,
}

/// The clock of the page, in which times of samples are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    /// The time of unit 0, in microseconds of the recording's clock.
    pub(crate) origin: u64,
    /// The length of a unit in microseconds, a power of two.
    pub(crate) unit: u64,
    /// The number of units from the origin to the last sample, inclusive.
    pub(crate) length: u64,
}

impl Clock {
    /// Converts a time in nanoseconds of the recording's clock; one outside of the page becomes its beginning or end.
    pub(crate) fn units(self, time: u64) -> u64 {
        ((time / 1000).saturating_sub(self.origin) / self.unit).min(self.length)
    }
}

/// The columns of the page, before they are compressed.
#[derive(Default, Debug)]
pub(crate) struct Columns {
    pub(crate) stacks: Column,
    pub(crate) times: Column,
    pub(crate) samples: Column,
    pub(crate) lines: Option<Column>,
    pub(crate) instructions: Option<Column>,
    pub(crate) cpus: Option<Column>,
    pub(crate) weights: Option<Column>,
    pub(crate) counts: Option<Column>,
    /// The event, lane, number of rows and number of samples of each segment.
    pub(crate) segments: Vec<(u32, u32, u64, u64)>,
    /// The highest CPU number plus one.
    pub(crate) cpu_count: u32,
    /// True for events whose samples all have a CPU, by event.
    pub(crate) has_cpus: Vec<bool>,
    /// The time of the first sample of each lane, in units.
    pub(crate) starts: Vec<u64>,
    /// The number of samples off the CPU, by event.
    pub(crate) off_cpu: Vec<u64>,
    /// The self weight of each node of the sorted tree, for each event.
    pub(crate) own: Vec<Vec<u64>>,
    /// The number of samples of each line, by its number.
    pub(crate) samples_of_lines: Vec<u64>,
}

/// Stands for a CPU that a sample does not state.
const NO_CPU: u32 = u32::MAX;
/// Stands for a time that a sample does not state.
const NO_TIME: u64 = u64::MAX;

/// Maximum number of units of time of the page.
const MAX_UNITS: u64 = u32::MAX as u64 - 1;

/// Maximum number of samples whose times are stored in microseconds. The unit doubles with each doubling of the samples: a
/// page of 1.6 million samples and 42,000 stacks has to stay below 4 MB, and microseconds alone would take 1.3.
const MAX_MICROSECOND_SAMPLES: u64 = 1 << 17;

/// The samples of a page before it is known where their stacks end.
#[derive(Debug)]
pub struct PageSamples(pub(crate) Samples);

impl PageSamples {
    /// Puts the samples of the views of a page's events in order; `is_compared` for the two sides of a comparison.
    pub fn of<'v>(views: impl Iterator<Item = &'v View<'v>>, is_compared: bool) -> Self {
        let mut samples = Samples::default();
        (0..).zip(views).for_each(|(event, view)| samples.add(event, view, is_compared));
        Self(samples)
    }
}

impl Samples {
    /// Adds the samples of an event, in a comparison those of a side, in the order of time; equal times stay in the order of the
    /// recording. The ends of their stacks are yet to be told ([`Samples::end`]).
    fn add(&mut self, event: u32, view: &View<'_>, is_compared: bool) {
        let profile = view.profile();
        let side = if is_compared { event } else { 0 };
        let first = is_compared.then(|| profile.samples().iter().filter_map(|sample| sample.time).min());
        let origin = first.flatten().map_or(0, |first| first.0 / 1000);
        self.origins.resize(side as usize + 1, origin);
        let lanes: Vec<u32> = profile.threads().iter().map(|thread| self.lane(side, thread)).collect();
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); self.lanes.len()];
        for sample in profile.samples().iter() {
            let thread = sample.thread.index() as u32;
            rows[lanes[thread as usize] as usize].push(Row {
                leaf: sample.stack.index() as u32,
                thread,
                cpu: sample.cpu.filter(|&cpu| cpu <= CpuId::MAX).map(|cpu| cpu.0).unwrap_or(NO_CPU),
                time: sample.time.map_or(NO_TIME, |time| (time.0 / 1000).saturating_sub(origin)),
                period: sample.period,
                count: 1,
            });
        }
        // Those without a time come first.
        rows.iter_mut().for_each(|rows| rows.sort_by_key(|row| row.time.wrapping_add(1)));
        self.segments.extend((0..).zip(rows).map(|(lane, rows)| Segment { event, lane, rows }));
    }

    /// Gives the samples of each event the leaves of their stacks. Removes samples of stacks that the view omits. Leaves are numbered in
    /// the order of the tree.
    pub(crate) fn end(&mut self, views: &[&View<'_>], stacks: &[EventStacks], is_compared: bool) {
        let of_events = views.iter().zip(stacks);
        let mut leaves: Vec<_> = of_events.map(|(view, stacks)| self.leaves(view, stacks)).collect();
        self.sort_leaves(&mut leaves);
        self.is_timed = true;
        for (((event, view), stacks), leaves) in (0..).zip(views).zip(stacks).zip(&leaves) {
            self.end_of_event(event, view, &StackLeaves::new(stacks, leaves), is_compared);
        }
        self.segments.retain(|segment| !segment.rows.is_empty());
    }

    /// As [`Self::end`], of one event.
    fn end_of_event(&mut self, event: u32, view: &View<'_>, leaves: &StackLeaves<'_>, is_compared: bool) {
        let threads = view.profile().threads();
        let side = if is_compared { event } else { 0 };
        let mut has_cpus = true;
        let mut named = vec![0_u64; threads.len()];
        let mut last = vec![None; threads.len()];
        for Segment { rows, .. } in self.segments.iter_mut().filter(|segment| segment.event == event) {
            rows.retain_mut(|row| {
                let Some(leaf) = leaves.get(row.leaf, row.thread) else { return false };
                self.is_timed &= row.time != NO_TIME;
                has_cpus &= row.cpu != NO_CPU;
                row.leaf = leaf;
                row.time = if row.time == NO_TIME { 0 } else { row.time };
                row.cpu = if row.cpu == NO_CPU { 0 } else { row.cpu };
                let thread = row.thread as usize;
                named[thread] = named[thread].saturating_add(row.period.max(1));
                last[thread] = last[thread].max(Some(row.time));
                true
            });
        }
        self.has_cpus.push(has_cpus);
        let lanes: Vec<u32> = threads.iter().map(|thread| self.lane(side, thread)).collect();
        self.name_lanes(threads, &pool_names(threads), &lanes, &named);
        self.name_processes(side, threads, &last);
    }

    /// Returns the leaf of each stack; `None` if the view omits it.
    fn leaves(&mut self, view: &View<'_>, stacks: &EventStacks) -> Vec<Option<u32>> {
        let lines = if self.has_lines { self.lines.of_frames(view) } else { Vec::new() };
        let instructions = self.instructions.of_places(view.profile().stacks.places());
        let leaf = |(_, &RootedStack { thread, stack, end }): (_, &RootedStack)| {
            let StackEnd { node, frame } = end?;
            let line = frame.and_then(|frame| lines.get(frame.index()).copied()).unwrap_or(0);
            let mut leaf = Leaf { node, line, instruction: 0 };
            if !instructions.is_empty() {
                let place = view.innermost_place(thread, stack);
                let number = place.and_then(|place| instructions.get(place.index()).copied());
                leaf.instruction = number.unwrap_or(0);
            }
            Some(self.leaves.intern(leaf.node as usize, leaf))
        };
        stacks.all().map(leaf).collect()
    }

    /// Numbers leaves in the order of the tree.
    fn sort_leaves(&mut self, of_stacks: &mut [Vec<Option<u32>>]) {
        let leaves = &mut self.leaves.values;
        let mut order: Vec<u32> = (0..leaves.len() as u32).collect();
        order.sort_unstable_by_key(|&leaf| leaves[leaf as usize]);
        let mut ranks = vec![0_u32; leaves.len()];
        for (rank, &leaf) in (0..).zip(&order) {
            ranks[leaf as usize] = rank;
        }
        *leaves = order.iter().map(|&leaf| leaves[leaf as usize]).collect();
        of_stacks.iter_mut().flatten().flatten().for_each(|leaf| *leaf = ranks[*leaf as usize]);
    }

    /// Returns for each node of the tree whether stacks of samples end at it.
    pub(crate) fn ends_at(&self, nodes: usize) -> Vec<bool> {
        let mut ends = vec![false; nodes];
        self.rows().for_each(|row| ends[self.leaves.values[row.leaf as usize].node as usize] = true);
        ends
    }

    /// Gives nodes the numbers in `moved`, which are in the same order.
    pub(crate) fn move_nodes(&mut self, moved: &[u32]) {
        self.leaves.values.iter_mut().for_each(|leaf| leaf.node = moved[leaf.node as usize]);
    }

    /// Gives each lane the name under which its thread has most of the sums of periods in `named`.
    fn name_lanes(&mut self, threads: &[Thread], pools: &[Name], lanes: &[u32], named: &[u64]) {
        for (((thread, pool), &lane), &period) in threads.iter().zip(pools).zip(lanes).zip(named) {
            let lane = &mut self.lanes[lane as usize];
            if period > lane.period_under_name {
                lane.period_under_name = period;
                lane.name = thread.comm.clone();
                lane.pool = if *pool == thread.comm { String::new() } else { pool.to_string() };
            }
        }
    }

    fn lane(&mut self, side: u32, thread: &Thread) -> u32 {
        let (pid, tid) = thread.ids.unwrap_or((Pid::NONE, Tid(-1)));
        let lanes = &mut self.lanes;
        *self.lane_numbers.entry((side, pid, tid)).or_insert_with(|| {
            let (process, name, pool) = (thread.comm.clone(), thread.comm.clone(), String::new());
            lanes.push(Lane { side, pid, tid, process, name, pool, period_under_name: 0 });
            (lanes.len() - 1) as u32
        })
    }

    /// Names the processes of a side's threads whose last samples were taken at these times.
    fn name_processes(&mut self, side: u32, threads: &[Thread], last: &[Option<u64>]) {
        for (thread, last) in threads.iter().zip(last) {
            let (Some((pid, name)), Some(last)) = (&thread.process, *last) else { continue };
            let known = self.process_names.entry((side, *pid)).or_insert_with(|| (last, name.clone()));
            if known.0 < last {
                *known = (last, name.clone());
            }
        }
        for lane in &mut self.lanes {
            if let Some((_, name)) = self.process_names.get(&(lane.side, lane.pid)) {
                lane.process = name.clone();
            }
        }
    }

    /// Returns the number of a thread's lane; `None` if the thread has no samples.
    pub(crate) fn lane_of(&self, pid: Pid, tid: Tid) -> Option<u32> {
        self.lane_numbers.get(&(0, pid, tid)).copied()
    }

    /// Returns the number of samples of an event.
    pub(crate) fn count(&self, event: usize) -> usize {
        let of_event = self.segments.iter().filter(|segment| segment.event as usize == event);
        of_event.flat_map(|segment| &segment.rows).map(|row| row.count as usize).sum()
    }

    /// Returns the number of rows, each of one sample or of several that were merged.
    pub(crate) fn row_count(&self) -> usize {
        self.segments.iter().map(|segment| segment.rows.len()).sum()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.segments.iter().flat_map(|segment| &segment.rows)
    }

    /// Returns the clock of the page; `None` if some samples have no time.
    pub(crate) fn clock(&self) -> Option<Clock> {
        if !self.is_timed {
            return None;
        }
        let times = || self.rows().map(|row| row.time);
        let (first, last) = (times().min()?, times().max()?);
        let mut unit = 1;
        let samples = self.row_count() as u64;
        while (last / unit).saturating_sub(first / unit) >= MAX_UNITS
            || samples / unit > MAX_MICROSECOND_SAMPLES
        {
            unit *= 2;
        }
        Some(Clock { origin: first / unit * unit, unit, length: last / unit - first / unit + 1 })
    }

    /// Encodes the samples as columns. `weighted` is true for events that are weighted by period.
    pub(crate) fn into_columns(
        self,
        clock: Option<Clock>,
        weighted: &[bool],
        tree: &PageTree,
        lane_count: usize,
    ) -> Columns {
        let is_merged = self.rows().any(|row| row.count > 1);
        let ends = &self.leaves.values;
        let mut is_used = vec![false; ends.len()];
        let mut columns = Columns {
            own: vec![vec![0; tree.nodes.len()]; weighted.len()],
            has_cpus: self.has_cpus,
            starts: vec![u64::MAX; lane_count],
            off_cpu: vec![0; weighted.len()],
            samples_of_lines: vec![0; ends.iter().map(|leaf| leaf.line as usize + 1).max().unwrap_or(0)],
            ..Columns::default()
        };
        for (event, row) in self.segments.iter().flat_map(|of| of.rows.iter().map(|row| (of.event, row))) {
            let Leaf { node, line, .. } = ends[row.leaf as usize];
            is_used[row.leaf as usize] = true;
            let count = u64::from(row.count);
            columns.samples_of_lines[line as usize] += count;
            let (frame, event) = (tree.nodes[node as usize].1, event as usize);
            if tree.frames.get(frame as usize).is_some_and(|(_, kind, _)| kind.is_off_cpu()) {
                columns.off_cpu[event] += count;
            }
            let own = &mut columns.own[event][node as usize];
            *own = own.saturating_add(row.weight(weighted[event]));
        }
        let mut numbers = vec![0_u32; ends.len()];
        let (mut nodes, mut lines, mut instructions) =
            (Column::default(), Column::default(), Column::default());
        let (mut count, mut before) = (0, 0);
        for ((&Leaf { node, line, instruction }, number), _) in
            ends.iter().zip(&mut numbers).zip(&is_used).filter(|(_, is_used)| **is_used)
        {
            nodes.push((node - before).into());
            before = node;
            lines.push(line.into());
            instructions.push(instruction.into());
            *number = count;
            count += 1;
        }
        columns.stacks.push(count.into());
        columns.stacks.append(nodes);
        columns.lines = self.has_lines.then_some(lines);
        columns.instructions = (!self.instructions.is_empty()).then_some(instructions);
        let any_weighted = weighted.contains(&true);
        let (mut cpus, mut weights, mut counts) = (Column::default(), Column::default(), Column::default());
        for &Segment { event, lane, ref rows } in &self.segments {
            let Some(&Row { time: first, .. }) = rows.first() else { continue };
            if let Some(Clock { origin, unit, .. }) = clock {
                let start = &mut columns.starts[lane as usize];
                *start = (first.saturating_sub(origin) / unit).min(*start);
            }
            let samples = rows.iter().map(|row| u64::from(row.count)).sum();
            columns.segments.push((event, lane, rows.len() as u64, samples));
            let (mut stack, mut time, mut distance, mut cpu, mut period) =
                (0_i64, 0_i64, 0_i64, 0_i64, 0_i64);
            for row in rows {
                let number = numbers[row.leaf as usize].into();
                columns.samples.push_signed(number - std::mem::replace(&mut stack, number));
                if let Some(Clock { origin, unit, .. }) = clock {
                    let now = (row.time.saturating_sub(origin) / unit) as i64;
                    columns.times.push_signed(now - time - distance);
                    (distance, time) = (now - time, now);
                }
                counts.push(u64::from(row.count.saturating_sub(1)));
                cpus.push_signed(i64::from(row.cpu) - cpu);
                cpu = row.cpu.into();
                columns.cpu_count = columns.cpu_count.max(row.cpu + 1);
                if weighted[event as usize] {
                    // The sum of all periods is below 2^63 (`Profile::count`).
                    let now = row.period as i64;
                    weights.push_signed(now.wrapping_sub(period));
                    period = now;
                }
            }
        }
        columns.cpus = columns.has_cpus.contains(&true).then_some(cpus);
        columns.weights = any_weighted.then_some(weights);
        columns.counts = is_merged.then_some(counts);
        if columns.cpus.is_none() {
            columns.cpu_count = 0;
        }
        columns
    }
}

/// The leaves of an event's stacks by stack and thread. Most stacks have one root alone, and those are found without hashing.
struct StackLeaves<'s> {
    roots: &'s [Option<u32>],
    /// The first root of each stack, with the stack's leaf there; `None` where the view omits the stack.
    first: Vec<Option<(Option<u32>, u32)>>,
    others: HashMap<(Option<u32>, u32), u32, FxBuildHasher>,
}

impl<'s> StackLeaves<'s> {
    /// Puts the leaves of an event's stacks in place, in the order of `stacks`.
    fn new(stacks: &'s EventStacks, leaves: &[Option<u32>]) -> Self {
        let count = stacks.all().map(|(_, rooted)| rooted.stack.index() + 1).max().unwrap_or(0);
        let (mut first, mut others) = (vec![None; count], HashMap::default());
        for ((root, RootedStack { stack, .. }), leaf) in stacks.all().zip(leaves) {
            let Some(leaf) = *leaf else { continue };
            match &mut first[stack.index()] {
                known @ None => *known = Some((root, leaf)),
                Some(_) => _ = others.insert((root, stack.index() as u32), leaf),
            }
        }
        Self { roots: &stacks.roots, first, others }
    }

    /// Returns the leaf of a stack of a thread, both by their numbers.
    fn get(&self, stack: u32, thread: u32) -> Option<u32> {
        let root = *self.roots.get(thread as usize)?;
        let (first, leaf) = (*self.first.get(stack as usize)?)?;
        if first == root { Some(leaf) } else { self.others.get(&(root, stack)).copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_name_of_its_last_sample() {
        let detail = profile::Detail { threads: true, processes: true, ..profile::Detail::default() };
        let mut profile = profile::Profile::new(detail);
        for name in ["sh", "app"] {
            profile.thread(&Name::from(name), Pid(1), Tid(1), || Name::from(name));
        }
        let mut samples = Samples::default();
        for thread in profile.threads() {
            samples.lane(0, thread);
        }
        let mut named = |last: [Option<u64>; 2]| {
            samples.name_processes(0, profile.threads(), &last);
            samples.lanes[0].process.to_string()
        };
        assert_eq!(named([Some(9), Some(5)]), "sh", "the second program executed the first again");
        assert_eq!(named([None, Some(10)]), "app");
    }

    #[test]
    fn long_and_large_recordings_have_coarser_times() {
        let row = |time| Row { leaf: 0, thread: 0, cpu: 0, time, period: 1, count: 1 };
        let samples = |times: &[u64]| Samples {
            segments: vec![Segment { event: 0, lane: 0, rows: times.iter().copied().map(row).collect() }],
            is_timed: true,
            ..Samples::default()
        };
        let short = samples(&[5_000_001, 5_000_011]).clock();
        assert_eq!(short, Some(Clock { origin: 5_000_001, unit: 1, length: 11 }));
        let day = samples(&[1_000_001, 86_400_000_000]).clock().unwrap();
        assert_eq!((day.unit, day.origin % day.unit), (32, 0));
        assert!(day.length <= MAX_UNITS && day.origin + day.length * day.unit > 86_400_000_000);
        let many: Vec<u64> = (0..1_600_000).collect();
        assert_eq!(samples(&many).clock().unwrap().unit, 16);
        assert_eq!(Samples::default().clock(), None);
    }
}
