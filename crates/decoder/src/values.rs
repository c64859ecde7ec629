//! Sequences inside records, read in place: bytes in the recording's byte order, at any alignment.

use crate::endian::Endian;
use crate::flags::ReadFormat;

/// A sequence of u64 (call chain addresses, namespace links).
#[derive(Clone, Copy, Debug)]
pub struct U64s<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> U64s<'a> {
    /// Takes `bytes` as u64 values; a rest of fewer than eight bytes is ignored.
    #[inline]
    pub fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes: bytes.as_chunks::<8>().0.as_flattened(), endian }
    }

    /// The byte order of the values.
    #[inline]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The value at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u64> {
        let bytes = self.bytes.get(index.checked_mul(8)?..)?.first_chunk()?;
        Some(self.endian.u64(*bytes))
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone + use<'a> {
        let endian = self.endian;
        self.bytes.as_chunks::<8>().0.iter().map(move |bytes| endian.u64(*bytes))
    }

    /// The bytes as they lie in the record: equal bytes are equal sequences within one recording.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl PartialEq for U64s<'_> {
    /// Equal values, whatever the byte orders.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for U64s<'_> {}

/// Counter values as `attr.read_format` lays them out (`perf_event_open(2)`, "Reading results").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterValues<'a> {
    /// `PERF_FORMAT_TOTAL_TIME_ENABLED`, nanoseconds.
    pub time_enabled: Option<u64>,
    /// `PERF_FORMAT_TOTAL_TIME_RUNNING`, nanoseconds.
    pub time_running: Option<u64>,
    // The value of an event that is read alone: it lies before the times, and `values` has the rest.
    pub(crate) single: Option<u64>,
    pub(crate) values: U64s<'a>,
    pub(crate) has_id: bool,
    pub(crate) has_lost: bool,
}

/// One counter of [`CounterValues`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CounterValue {
    /// The count.
    pub value: u64,
    /// The event's id (`PERF_FORMAT_ID`).
    pub id: Option<u64>,
    /// The number of its samples that were lost (`PERF_FORMAT_LOST`).
    pub lost: Option<u64>,
}

impl<'a> CounterValues<'a> {
    /// Takes the values of an event that is read alone (`single`, with `values` holding its id and loss where
    /// `format` has them), or of a group (`values` in the order of the kernel).
    pub fn new(format: ReadFormat, times: (u64, u64), single: Option<u64>, values: U64s<'a>) -> Self {
        Self {
            time_enabled: format.contains(ReadFormat::TOTAL_TIME_ENABLED).then_some(times.0),
            time_running: format.contains(ReadFormat::TOTAL_TIME_RUNNING).then_some(times.1),
            single: if format.contains(ReadFormat::GROUP) { None } else { Some(single.unwrap_or(0)) },
            values,
            has_id: format.contains(ReadFormat::ID),
            has_lost: format.contains(ReadFormat::LOST),
        }
    }

    /// The counters: one, or those of the group with its leader first.
    pub fn iter(&self) -> impl Iterator<Item = CounterValue> + use<'a> {
        let Self { single, values, has_id, has_lost, .. } = *self;
        let extra = usize::from(has_id) + usize::from(has_lost);
        let lead = usize::from(single.is_none());
        let count = if single.is_some() { 1 } else { values.len() / (lead + extra) };
        (0..count).filter_map(move |index| {
            let first = index * (lead + extra);
            Some(CounterValue {
                value: if single.is_some() { single } else { values.get(first) }?,
                id: if has_id { values.get(first + lead) } else { None },
                lost: if has_lost { values.get(first + lead + usize::from(has_id)) } else { None },
            })
        })
    }
}

/// A branch stack (`PERF_SAMPLE_BRANCH_STACK`), newest first.
#[derive(Clone, Copy, Debug)]
pub struct BranchStack<'a> {
    /// `PERF_SAMPLE_BRANCH_HW_INDEX`.
    pub hw_index: Option<u64>,
    // Three words each: from, to, flags.
    pub(crate) entries: U64s<'a>,
    /// `PERF_SAMPLE_BRANCH_COUNTERS`: one word per entry.
    pub counters: Option<U64s<'a>>,
}

impl PartialEq for BranchStack<'_> {
    /// Equal branches, whatever the byte orders (which also arrange the bit fields of the flags).
    fn eq(&self, other: &Self) -> bool {
        self.hw_index == other.hw_index && self.counters == other.counters && self.iter().eq(other.iter())
    }
}

impl Eq for BranchStack<'_> {}

/// One branch: `struct perf_branch_entry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Branch {
    /// The address of the branch.
    pub from: u64,
    /// The address that it went to.
    pub to: u64,
    /// The flag word, with its first bit field in the lowest bits whatever the byte order of the recording.
    pub flags: BranchFlags,
}

/// The flag word of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BranchFlags(pub u64);

/// mispred, predicted, in_tx, abort, cycles, type, spec, new_type, priv.
pub(crate) const BRANCH_FLAG_WIDTHS: [u32; 9] = [1, 1, 1, 1, 16, 4, 2, 4, 3];

impl BranchFlags {
    /// The target was predicted wrongly.
    pub fn mispredicted(self) -> bool {
        self.0 & 1 != 0
    }

    /// The target was predicted rightly.
    pub fn predicted(self) -> bool {
        self.0 & 2 != 0
    }

    /// In a transaction.
    pub fn in_transaction(self) -> bool {
        self.0 & 4 != 0
    }

    /// A transaction was aborted.
    pub fn abort(self) -> bool {
        self.0 & 8 != 0
    }

    /// Cycles since the branch before; 0 where the processor does not say.
    pub fn cycles(self) -> u16 {
        (self.0 >> 4) as u16
    }

    /// `PERF_BR_*`; with 15 (`PERF_BR_EXTEND_ABI`) see [`Self::new_kind`].
    pub fn kind(self) -> u8 {
        (self.0 >> 20) as u8 & 0xf
    }

    /// `PERF_BR_SPEC_*`
    pub fn speculation(self) -> u8 {
        (self.0 >> 24) as u8 & 3
    }

    /// `PERF_BR_NEW_*`
    pub fn new_kind(self) -> u8 {
        (self.0 >> 26) as u8 & 0xf
    }

    /// `PERF_BR_PRIV_*`
    pub fn privilege(self) -> u8 {
        (self.0 >> 30) as u8 & 7
    }
}

impl<'a> BranchStack<'a> {
    /// Takes the entries as they lie in a record: from, to, flags in turn.
    pub fn new(hw_index: Option<u64>, entries: U64s<'a>, counters: Option<U64s<'a>>) -> Self {
        Self { hw_index, entries, counters }
    }

    /// Returns the number of branches.
    pub fn len(&self) -> usize {
        self.entries.len() / 3
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all branches.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + use<'a> {
        let entries = self.entries;
        (0..entries.len() / 3).filter_map(move |index| {
            let flags = entries.endian.load_fields(entries.get(index * 3 + 2)?, &BRANCH_FLAG_WIDTHS);
            Some(Branch {
                from: entries.get(index * 3)?,
                to: entries.get(index * 3 + 1)?,
                flags: BranchFlags(flags),
            })
        })
    }
}

/// A set of registers (`PERF_SAMPLE_REGS_USER`, `PERF_SAMPLE_REGS_INTR`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 none (a kernel thread: no values follow), 1 32-bit, 2 64-bit.
    pub abi: u64,
    /// The recorded registers: bit n is register n of the architecture's `asm/perf_regs.h`.
    pub mask: u64,
    pub(crate) values: U64s<'a>,
}

impl<'a> Registers<'a> {
    /// Takes the values of the registers in `mask`, in ascending order; none with an `abi` of 0.
    pub fn new(abi: u64, mask: u64, values: U64s<'a>) -> Self {
        Self { abi, mask, values }
    }

    /// The value of register `number`, if it was recorded.
    #[inline]
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        self.values.get((self.mask & (bit - 1)).count_ones() as usize)
    }

    /// Register numbers and values, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..64).filter_map(|number| Some((number, self.get(number)?)))
    }
}
