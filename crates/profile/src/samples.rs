//! Single samples in the order of time: what views need that tell when, and not only how much.

use model::{CpuId, Timestamp};

use crate::{Columns, Count, StackId, ThreadId, Weight};

/// One sample, with its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The thread that it was taken of.
    pub thread: ThreadId,
    /// Its stack.
    pub stack: StackId,
    /// The number of events that it stands for.
    pub period: u64,
    /// The time at which it was taken, if the sample states one and the column is kept.
    pub time: Option<Timestamp>,
    /// The CPU, if the sample states one and the column is kept.
    pub cpu: Option<CpuId>,
    /// True if it is a further piece of a long wait, which an earlier sample of this thread and stack counts as one sample.
    pub is_continued: bool,
}

impl Sample {
    /// The sample's weight.
    pub fn weight(&self, weight: Weight) -> u64 {
        self.count().weight(weight)
    }

    /// The sample as a count.
    pub fn count(&self) -> Count {
        Count { samples: u64::from(!self.is_continued), period: self.period }
    }
}

/// Set where the sample is of another thread than the one before.
const OTHER_THREAD: u64 = 1;
/// Set where its period is another one.
const OTHER_PERIOD: u64 = 2;
/// Set where its CPU is another one, or known where the other is not.
const OTHER_CPU: u64 = 4;
/// Set where its time is not known.
const NO_TIME: u64 = 8;
/// Set where it is a further piece of a wait.
const CONTINUED: u64 = 16;
/// The bits that say which columns follow, and whether it is a sample of its own.
const FLAG_BITS: u32 = 5;

/// Bytes of a block: large enough that the list of blocks is short, small enough that growing copies little.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of the largest sample: its stack, thread and CPU at five or six, period and time at ten.
const MOST_BYTES: usize = 6 + 5 + 5 + 10 + 10;

/// The samples of a profile, packed: each says what differs from the one before, in variable-length integers. Eight bytes or so
/// keep what would be 28 in plain columns. Samples are kept in the order in which they are pushed, which is that of time, and
/// are read in that order.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    columns: Columns,
    /// No sample lies in two blocks.
    blocks: Vec<Vec<u8>>,
    len: usize,
    last: Previous,
}

/// What the next sample is compared with.
#[derive(Clone, Copy, Default, Debug)]
struct Previous {
    thread: ThreadId,
    period: u64,
    cpu: Option<CpuId>,
    time: u64,
}

impl Samples {
    /// A table without samples.
    pub fn new(columns: Columns) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Appends a sample. Time and CPU are dropped where their columns are not kept.
    pub fn push(&mut self, sample: Sample) {
        let cpu = sample.cpu.filter(|_| self.columns.cpus);
        let time = sample.time.filter(|_| self.columns.times);
        let last = &mut self.last;
        let flags = if sample.thread == last.thread { 0 } else { OTHER_THREAD }
            | if sample.period == last.period { 0 } else { OTHER_PERIOD }
            | if cpu == last.cpu { 0 } else { OTHER_CPU }
            | if time.is_some() { 0 } else { NO_TIME }
            | if sample.is_continued { CONTINUED } else { 0 };
        let mut packed = Packed { bytes: [0; MOST_BYTES], len: 0 };
        packed.push((sample.stack.index() as u64) << FLAG_BITS | flags);
        if flags & OTHER_THREAD != 0 {
            packed.push(sample.thread.index() as u64);
        }
        if flags & OTHER_PERIOD != 0 {
            packed.push(sample.period);
        }
        if flags & OTHER_CPU != 0 {
            packed.push(cpu.map_or(0, |cpu| u64::from(cpu.0) + 1));
        }
        if let Some(Timestamp(time)) = time {
            let distance = time.wrapping_sub(last.time) as i64;
            packed.push((distance << 1 ^ distance >> 63) as u64);
            last.time = time;
        }
        let packed = packed.bytes.get(..packed.len).unwrap_or_default();
        match self.blocks.last_mut().filter(|block| block.len() + packed.len() <= BLOCK_BYTES) {
            Some(block) => block.extend_from_slice(packed),
            None => self.blocks.push(packed.to_vec()),
        }
        *last = Previous { thread: sample.thread, period: sample.period, cpu, time: last.time };
        self.len += 1;
    }

    /// Returns how many samples there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns which columns are kept.
    pub fn columns(&self) -> Columns {
        self.columns
    }

    /// Returns the samples in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sample> + '_ {
        Unpacked { blocks: self.blocks.iter(), bytes: &[], left: self.len, last: Previous::default() }
    }
}

/// Reads packed samples.
struct Unpacked<'a> {
    blocks: std::slice::Iter<'a, Vec<u8>>,
    /// The rest of the current block.
    bytes: &'a [u8],
    left: usize,
    last: Previous,
}

impl Iterator for Unpacked<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        while self.bytes.is_empty() {
            self.bytes = self.blocks.next()?;
        }
        let (bytes, last) = (&mut self.bytes, &mut self.last);
        let first = varint(bytes);
        if first & OTHER_THREAD != 0 {
            last.thread = ThreadId::from_index(varint(bytes) as usize);
        }
        if first & OTHER_PERIOD != 0 {
            last.period = varint(bytes);
        }
        if first & OTHER_CPU != 0 {
            last.cpu = varint(bytes).checked_sub(1).map(|cpu| CpuId(cpu as u32));
        }
        let time = (first & NO_TIME == 0).then(|| {
            let distance = varint(bytes);
            last.time = last.time.wrapping_add(distance >> 1 ^ (distance & 1).wrapping_neg());
            Timestamp(last.time)
        });
        self.left -= 1;
        let stack = StackId::from_index((first >> FLAG_BITS) as usize);
        let is_continued = first & CONTINUED != 0;
        Some(Sample { thread: last.thread, stack, period: last.period, time, cpu: last.cpu, is_continued })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Unpacked<'_> {}

/// A sample that is being packed.
struct Packed {
    bytes: [u8; MOST_BYTES],
    len: usize,
}

impl Packed {
    /// Appends an integer in LEB128: seven bits a byte, the lowest first.
    #[inline]
    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push_byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.push_byte(value as u8);
    }

    #[inline]
    fn push_byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

/// Takes an integer in LEB128 off the front.
#[inline]
fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(time: Option<u64>, cpu: Option<u32>) -> Sample {
        Sample {
            thread: ThreadId::default(),
            stack: StackId::EMPTY,
            period: 7,
            time: time.map(Timestamp),
            cpu: cpu.map(CpuId),
            is_continued: false,
        }
    }

    #[test]
    fn only_the_columns_that_were_asked_for_are_kept() {
        let given = [sample(Some(5), Some(1)), sample(None, None)];
        for (times, cpus) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut samples = Samples::new(Columns { times, cpus });
            given.iter().for_each(|&sample| samples.push(sample));
            let kept: Vec<_> = samples.iter().map(|sample| (sample.time, sample.cpu)).collect();
            let first = (Some(Timestamp(5)).filter(|_| times), Some(CpuId(1)).filter(|_| cpus));
            assert_eq!(kept, [first, (None, None)]);
        }
    }

    #[test]
    fn a_sample_of_a_busy_machine_takes_nine_bytes_at_most() {
        let mut samples = Samples::new(Columns { times: true, cpus: true });
        for number in 0..100_000_u64 {
            samples.push(Sample {
                thread: ThreadId::from_index((number % 300) as usize),
                stack: StackId::from_index((number * 7919 % 60_000) as usize),
                period: 1_001_001,
                time: Some(Timestamp((1 << 60) + number * 500_000)),
                cpu: Some(CpuId((number % 2) as u32)),
                is_continued: false,
            });
        }
        let bytes: usize = samples.blocks.iter().map(Vec::len).sum();
        assert!(bytes <= 9 * samples.len(), "{bytes} bytes");
        assert_eq!(samples.iter().len(), 100_000);
    }

    prop_compose! {
        fn any_sample()(
            thread in any::<u32>(),
            stack in any::<u32>(),
            period in prop_oneof![Just(7), any::<u64>()],
            time in any::<Option<u64>>(),
            cpu in any::<Option<u32>>(),
            is_continued in any::<bool>(),
        ) -> Sample {
            let (thread, stack) = (ThreadId::from_index(thread as usize), StackId::from_index(stack as usize));
            Sample { thread, stack, period, time: time.map(Timestamp), cpu: cpu.map(CpuId), is_continued }
        }
    }

    proptest! {
        #[test]
        fn samples_come_out_as_they_went_in(given in prop::collection::vec(any_sample(), 0..2500)) {
            let mut samples = Samples::new(Columns { times: true, cpus: true });
            given.iter().for_each(|&sample| samples.push(sample));
            prop_assert_eq!(samples.len(), given.len());
            prop_assert_eq!(samples.iter().collect::<Vec<_>>(), given);
        }
    }
}
