//! The newest records of a window, in blocks. The oldest block is dropped when the window is too large or too long.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use decoder::{Endian, RawRecord, RecordLayout, kind};
use model::{Pid, Timestamp};
use perfdata::write::RecordWriter;
use rustc_hash::FxBuildHasher;

use crate::output::{append_rounds, include_time};
use crate::records::u32_at;
use crate::unwind::StackTotals;

/// The limits of a window: the newest records are kept that fit into both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Maximum age of records; `None` for any.
    pub time: Option<Duration>,
    /// Maximum memory of records, in bytes.
    pub bytes: u64,
}

/// Size of a block in bytes: the largest record is as large.
const BLOCK_BYTES: usize = 64 << 10;
/// Minimum number of blocks of a window: it is longer than its limit in time by at most one of this many parts.
const MIN_BLOCKS: u32 = 64;
/// Bytes of `struct perf_event_header`.
const HEADER_BYTES: usize = 8;

/// Records in the order in which they arrived.
#[derive(Clone, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// The offset in `bytes` at which each round was finished.
    rounds: Vec<usize>,
    /// The offsets in `bytes` of the records that are no samples.
    sideband: Vec<usize>,
    /// The times of the oldest and the newest record, in nanoseconds.
    times: Option<(u64, u64)>,
    /// The times of the first and the last sample, in nanoseconds.
    sample_times: Option<(u64, u64)>,
    samples: u64,
    /// The totals of stacks since the recording began, when the block was closed.
    stacks: StackTotals,
}

impl Block {
    fn push(&mut self, record: &[u8], raw: &RawRecord<'_>, time: Option<u64>) {
        if raw.kind == kind::SAMPLE {
            self.samples += 1;
            include_time(&mut self.sample_times, time);
        } else {
            self.sideband.push(self.bytes.len());
        }
        include_time(&mut self.times, time);
        self.bytes.extend_from_slice(record);
    }

    /// Iterates over the records that are no samples, with `None` where a round was finished.
    pub(crate) fn sideband(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut rounds = self.rounds.iter().copied().peekable();
        let mut records = self.sideband.iter().copied().peekable();
        std::iter::from_fn(move || match (rounds.peek().copied(), records.peek().copied()) {
            (Some(round), record) if record.is_none_or(|record| round <= record) => {
                rounds.next();
                Some(None)
            }
            (_, Some(record)) => {
                records.next();
                let rest = self.bytes.get(record..).unwrap_or_default();
                let size = RawRecord::parse(rest, Endian::NATIVE).map_or(0, |(_, size)| size);
                Some(Some(rest.get(..size).unwrap_or_default()))
            }
            _ => None,
        })
    }

    /// Appends the records and the ends of rounds to a file.
    pub(crate) fn write_to(&self, writer: &mut dyn RecordWriter) -> std::io::Result<()> {
        append_rounds(&self.bytes, &self.rounds, writer)
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn sample_times(&self) -> Option<(u64, u64)> {
        self.sample_times
    }

    /// Returns the memory of the block in bytes.
    fn size(&self) -> u64 {
        let words = self.rounds.capacity() + self.sideband.capacity();
        (self.bytes.capacity() + words * size_of::<usize>() + size_of::<Self>()) as u64
    }
}

/// The blocks of a window. Full blocks are shared with snapshots that are being written.
pub(crate) struct Blocks {
    window: Window,
    /// Longest time that a block may span, in nanoseconds.
    span: u64,
    full: VecDeque<Arc<Block>>,
    /// Memory of `full`, in bytes.
    bytes: u64,
    open: Block,
    newest: u64,
    /// The totals of stacks since the recording began.
    stacks: StackTotals,
    /// The same, when the oldest kept block began.
    stacks_before: StackTotals,
    /// True if the last dropped block was within the window's time, and was dropped because of the limit in bytes.
    is_cut_by_bytes: bool,
}

impl Blocks {
    pub(crate) fn new(window: Window) -> Self {
        let span = window.time.map_or(u64::MAX, |time| nanoseconds(time / MIN_BLOCKS));
        Self {
            window,
            span,
            full: VecDeque::new(),
            bytes: 0,
            open: Block::default(),
            newest: 0,
            stacks: StackTotals::default(),
            stacks_before: StackTotals::default(),
            is_cut_by_bytes: false,
        }
    }

    /// Appends whole records of one ring.
    pub(crate) fn push(&mut self, mut records: &[u8], layout: &RecordLayout) {
        while let Ok((raw, size)) = RawRecord::parse(records, Endian::NATIVE) {
            let (record, rest) = records.split_at_checked(size).unwrap_or((records, &[]));
            records = rest;
            let time = layout.time_of(&raw).map(|time| time.0).filter(|&time| time > 0 && time < u64::MAX);
            let is_long = self
                .open
                .times
                .zip(time)
                .is_some_and(|((first, _), time)| time > first.saturating_add(self.span));
            if self.open.bytes.len() + record.len() > BLOCK_BYTES || is_long {
                self.close();
            }
            if self.open.bytes.capacity() == 0 {
                self.open.bytes.reserve_exact(BLOCK_BYTES);
            }
            self.open.push(record, &raw, time);
            self.newest = self.newest.max(time.unwrap_or(0));
        }
    }

    /// Marks the end of a round: every ring has been drained since the last call.
    pub(crate) fn finish_round(&mut self) {
        let end = self.open.bytes.len();
        // Two ends of rounds without records between them are enough for a reader to order all records before them.
        match self.open.rounds.as_slice() {
            [.., before, last] if (*before, *last) == (end, end) => {}
            _ => self.open.rounds.push(end),
        }
    }

    /// Replaces the totals of stacks since the recording began.
    pub(crate) fn set_stack_totals(&mut self, stacks: &StackTotals) {
        self.stacks = *stacks;
    }

    /// Returns the totals of the stacks that are in the window.
    pub(crate) fn stacks(&self) -> StackTotals {
        self.stacks.since(&self.stacks_before)
    }

    fn close(&mut self) {
        let mut block = std::mem::take(&mut self.open);
        if block.bytes.is_empty() && block.rounds.is_empty() {
            return;
        }
        block.stacks = self.stacks;
        // A block that was closed for its age may be mostly empty.
        if block.bytes.len() < block.bytes.capacity() / 2 {
            block.bytes.shrink_to_fit();
        }
        self.bytes += block.size();
        self.full.push_back(Arc::new(block));
    }

    /// Returns the time of the newest record.
    pub(crate) fn newest(&self) -> Timestamp {
        Timestamp(self.newest)
    }

    /// Returns the time of the oldest record of the oldest block; 0 if that has no times.
    pub(crate) fn oldest(&self) -> Timestamp {
        let front = self.full.front().map_or(&self.open, |block| block);
        Timestamp(front.times.map_or(0, |(first, _)| first))
    }

    /// Removes and returns the oldest block, if it is too old at `now` (on the clock of the records) or the window is too large.
    pub(crate) fn pop_expired(&mut self, now: u64) -> Option<Arc<Block>> {
        let limit = self.window.time.map(|time| now.saturating_sub(nanoseconds(time)));
        let is_old = |block: &Block| {
            let (Some(limit), Some((_, last))) = (limit, block.times) else { return false };
            last < limit
        };
        if is_old(&self.open) {
            self.close();
        }
        let front = self.full.front()?;
        let is_old = is_old(front);
        let has_room = self.bytes + BLOCK_BYTES as u64 <= self.window.bytes;
        if !is_old && has_room {
            return None;
        }
        self.is_cut_by_bytes = !is_old && self.window.time.is_some();
        let block = self.full.pop_front()?;
        self.bytes = self.bytes.saturating_sub(block.size());
        self.stacks_before = block.stacks;
        Some(block)
    }

    /// Returns true if the limit in bytes has dropped records within the window's time.
    pub(crate) fn is_short(&self) -> bool {
        self.is_cut_by_bytes
    }

    /// Returns the processes that kept sideband records name.
    pub(crate) fn pids(&self) -> HashSet<Pid, FxBuildHasher> {
        let records = self.full.iter().map(|block| &**block).chain([&self.open]);
        let records = records.flat_map(|block| block.sideband().flatten());
        // In all records about a process, its pid is the first field.
        records.filter_map(|record| u32_at(record, HEADER_BYTES)).map(|pid| Pid(pid.cast_signed())).collect()
    }

    /// Closes the open block and returns all blocks, to be written to a file.
    pub(crate) fn snapshot(&mut self) -> Vec<Arc<Block>> {
        self.close();
        self.full.iter().cloned().collect()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::{Attr, Record, Sample, SampleFormat};

    fn layout() -> RecordLayout {
        let sample_format = SampleFormat::TIME | SampleFormat::RAW;
        RecordLayout::new(&Attr { sample_format, ..Attr::default() }, Endian::NATIVE)
    }

    /// A sample of 1 KiB or so.
    fn sample(time: u64) -> Vec<u8> {
        let sample = Sample { time: Some(Timestamp(time)), raw: Some(&[0; 1000]), ..Sample::default() };
        let mut bytes = Vec::new();
        layout().encode(&Record::Sample(sample), &mut bytes).unwrap();
        bytes
    }

    fn play(window: Window, times: impl Iterator<Item = u64>) -> (Blocks, u64) {
        let (mut blocks, mut most) = (Blocks::new(window), 0);
        for time in times {
            blocks.push(&sample(time), &layout());
            blocks.finish_round();
            while blocks.pop_expired(time).is_some() {}
            most = most.max(blocks.bytes + blocks.open.size());
        }
        (blocks, most)
    }

    #[test]
    fn bytes_are_a_bound_and_are_used() {
        let window = Window { time: None, bytes: 8 << 20 };
        let (mut blocks, most) = play(window, (1..50_000).map(|index| index * 1000));
        assert!(most <= 9 << 20, "{most}");
        let samples: u64 = blocks.snapshot().iter().map(|block| block.samples()).sum();
        assert!(samples > 7 << 10, "{samples}");
        assert!(!blocks.is_short(), "no time was promised");
    }

    #[test]
    fn a_time_is_kept_to_within_a_part() {
        let second = 1_000_000_000;
        for step in [second / 10_000, second / 1000, second / 10] {
            let window = Window { time: Some(Duration::from_secs(2)), bytes: 1 << 30 };
            let (mut blocks, most) = play(window, (1..40_000).map(|index| index * step));
            let now = 39_999 * step;
            let oldest = blocks.snapshot().first().and_then(|block| block.sample_times()).unwrap().0;
            let kept = now - oldest;
            assert!((2 * second..2 * second + second / 5).contains(&kept), "{kept} at {step}");
            assert!(most < (2 * second / step + 1000) * 1200 + (1 << 20), "{most} at {step}");
        }
    }

    #[test]
    fn what_has_no_room_is_said() {
        let window = Window { time: Some(Duration::from_secs(10)), bytes: 1 << 20 };
        let (blocks, _) = play(window, (1..10_000).map(|index| index * 1_000_000));
        assert!(blocks.is_short());
    }

    #[test]
    fn sideband_records_come_back_between_their_rounds() {
        let mut blocks = Blocks::new(Window { time: None, bytes: 1 << 20 });
        let mut lost = Vec::new();
        for word in [kind::LOST, 24 << 16, 1, 0, 2, 0] {
            lost.extend(word.to_ne_bytes());
        }
        for _ in 0..2 {
            blocks.finish_round();
            blocks.push(&[sample(1), lost.clone(), sample(2)].concat(), &layout());
            blocks.finish_round();
        }
        let kept = blocks.snapshot();
        let sizes: Vec<_> = kept[0].sideband().map(|record| record.map(<[u8]>::len)).collect();
        assert_eq!(sizes, [None, Some(24), None, None, Some(24), None]);
    }
}
