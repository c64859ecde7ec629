//! Where things lie in the records of one event: decoding and encoding them.

mod decode;
mod encode;

use alloc::vec::Vec;

use model::{CpuId, Pid, Tid, Timestamp};

pub use encode::EncodeError;

use crate::attr::Attr;
use crate::cursor::Cursor;
use crate::endian::Endian;
use crate::error::DecodeError;
use crate::flags::{AttrFlags, BranchSampleFormat, ReadFormat, SampleFormat};
use crate::header::{HEADER_SIZE, kind};
use crate::raw::RawRecord;
use crate::record::{Record, SampleId};
use crate::sample::Sample;

/// The layout of the records of one event, computed once from its attr.
///
/// An attr with bits that this version does not know makes no error here: its sideband records decode, its samples
/// are refused with [`DecodeError::UnknownFormat`] (see [`Self::refusal`]).
#[derive(Clone, Debug)]
pub struct RecordLayout {
    pub(crate) endian: Endian,
    pub(crate) sample_format: SampleFormat,
    pub(crate) read_format: ReadFormat,
    pub(crate) branch_format: BranchSampleFormat,
    pub(crate) regs_user: u64,
    pub(crate) regs_intr: u64,
    pub(crate) refusal: Option<DecodeError>,
    /// True if MMAP2 records may hold a build id in the place of an inode.
    pub(crate) has_build_ids: bool,
    // Bytes of the trailer of records other than SAMPLE.
    trailer_len: usize,
    // Offsets in the body of a SAMPLE.
    sample_time: Option<usize>,
    sample_id: Option<usize>,
    // Distances from the end of the body of other records.
    trailer_time: Option<usize>,
    trailer_id: Option<usize>,
}

/// The parts of a sample that have a fixed size, a word each, in the order of the bytes, up to the first that has not.
pub const SAMPLE_HEAD: [SampleFormat; 9] = [
    SampleFormat::IDENTIFIER,
    SampleFormat::IP,
    SampleFormat::TID,
    SampleFormat::TIME,
    SampleFormat::ADDR,
    SampleFormat::ID,
    SampleFormat::STREAM_ID,
    SampleFormat::CPU,
    SampleFormat::PERIOD,
];

/// The parts of a trailer, in the order of the bytes.
pub(crate) const TRAILER: [SampleFormat; 6] = [
    SampleFormat::TID,
    SampleFormat::TIME,
    SampleFormat::ID,
    SampleFormat::STREAM_ID,
    SampleFormat::CPU,
    SampleFormat::IDENTIFIER,
];

impl RecordLayout {
    /// The layout of the records of an event with this attr, in a recording of this byte order.
    pub fn new(attr: &Attr, endian: Endian) -> Self {
        let format = attr.sample_format;
        let has_trailer = attr.flags.contains(AttrFlags::SAMPLE_ID_ALL);
        let trailer = TRAILER.into_iter().filter(|&part| format.contains(part));
        let trailer_len = if has_trailer { 8 * trailer.clone().count() } else { 0 };
        let in_sample = |part: SampleFormat| {
            let before = SAMPLE_HEAD.into_iter().take_while(|&other| other != part);
            format.contains(part).then(|| 8 * before.filter(|&other| format.contains(other)).count())
        };
        let in_trailer = |part: SampleFormat| {
            let position = trailer.clone().position(|other| other == part)?;
            has_trailer.then(|| trailer_len - 8 * position)
        };
        Self {
            endian,
            sample_format: format,
            read_format: attr.read_format,
            branch_format: attr.branch_sample_format,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            refusal: refusal(attr),
            has_build_ids: attr.flags.contains(AttrFlags::BUILD_ID),
            trailer_len,
            sample_time: in_sample(SampleFormat::TIME),
            sample_id: in_sample(SampleFormat::IDENTIFIER).or_else(|| in_sample(SampleFormat::ID)),
            trailer_time: in_trailer(SampleFormat::TIME),
            trailer_id: in_trailer(SampleFormat::IDENTIFIER).or_else(|| in_trailer(SampleFormat::ID)),
        }
    }

    /// The same layout for records in whose MMAP2 a build id may stand, as in those of an attr with `build_id`.
    pub fn with_build_ids(self) -> Self {
        Self { has_build_ids: true, ..self }
    }

    /// Decodes a record of this event.
    ///
    /// # Errors
    /// Any [`DecodeError`] but those of cut records and attrs; [`DecodeError::UnknownKind`] for types that are not
    /// the kernel's.
    #[inline]
    pub fn decode<'a>(&self, raw: &RawRecord<'a>) -> Result<Record<'a>, DecodeError> {
        decode::record(self, raw)
    }

    /// Decodes a SAMPLE record of this event: [`RecordLayout::decode`] without the way through [`crate::Record`].
    ///
    /// # Errors
    /// [`DecodeError::UnknownFormat`] where the layout is not known ([`RecordLayout::refusal`]), else
    /// [`DecodeError::FieldCut`] or [`DecodeError::Count`].
    #[inline]
    pub fn decode_sample<'a>(&self, raw: &RawRecord<'a>) -> Result<Sample<'a>, DecodeError> {
        decode::sample(self, raw)
    }

    /// Appends `record` to `out`, header and trailer included, as an event of this layout would have it. Parts that
    /// the layout has and the record lacks are written as 0, parts that it lacks are left out. On an error, `out`
    /// is as before.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 65535 bytes, [`EncodeError::Layout`] for samples of unknown layout.
    pub fn encode(&self, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode::record(self, record, out)
    }

    /// The byte order of the records.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the format of the samples.
    pub fn sample_format(&self) -> SampleFormat {
        self.sample_format
    }

    /// Returns the format of counter values.
    pub fn read_format(&self) -> ReadFormat {
        self.read_format
    }

    /// Returns the reason why the samples of this event cannot be decoded, if they cannot.
    pub fn refusal(&self) -> Option<DecodeError> {
        self.refusal
    }

    /// Returns the time of the record, where it has one.
    #[inline]
    pub fn time_of(&self, raw: &RawRecord<'_>) -> Option<Timestamp> {
        self.word(raw, self.sample_time, self.trailer_time).map(Timestamp)
    }

    /// The id of the record's event, where it says so.
    #[inline]
    pub fn id_of(&self, raw: &RawRecord<'_>) -> Option<u64> {
        self.word(raw, self.sample_id, self.trailer_id)
    }

    /// Returns the offsets of the id of an event: from the start of a sample's body, and from the end of another
    /// record's.
    /// Events whose ids lie at the same places can share a file without an IDENTIFIER.
    pub fn id_places(&self) -> (Option<usize>, Option<usize>) {
        (self.sample_id, self.trailer_id)
    }

    #[inline]
    fn word(&self, raw: &RawRecord<'_>, from_start: Option<usize>, from_end: Option<usize>) -> Option<u64> {
        let offset = if raw.kind == kind::SAMPLE {
            from_start?
        } else {
            let from_end = from_end?;
            if !self.has_trailer(raw) {
                return None;
            }
            raw.body.len().checked_sub(from_end)?
        };
        Some(self.endian.u64(*raw.body.get(offset..)?.first_chunk()?))
    }

    /// Returns true if there is room for the trailer behind the record's own fields. Some tools, and kernels for
    /// ITRACE_START, leave it out.
    pub(crate) fn has_trailer(&self, raw: &RawRecord<'_>) -> bool {
        fixed_len(raw.kind).is_some_and(|fixed| raw.body.len() >= fixed + self.trailer_len)
    }

    /// The trailer, taken off the end of the record.
    pub(crate) fn take_trailer(
        &self,
        raw: &RawRecord<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<SampleId, DecodeError> {
        if self.trailer_len == 0 || !self.has_trailer(raw) {
            return Ok(SampleId::default());
        }
        let body = cursor.shorten(self.trailer_len);
        let mut cursor = Cursor::new(&RawRecord { body, ..*raw }, self.endian);
        let has = |part| self.sample_format.contains(part);
        let mut id = SampleId::default();
        if has(SampleFormat::TID) {
            id.thread = Some(thread(&mut cursor)?);
        }
        if has(SampleFormat::TIME) {
            id.time = Some(Timestamp(cursor.u64("time")?));
        }
        if has(SampleFormat::ID) {
            id.id = Some(cursor.u64("id")?);
        }
        if has(SampleFormat::STREAM_ID) {
            id.stream_id = Some(cursor.u64("stream_id")?);
        }
        if has(SampleFormat::CPU) {
            id.cpu = Some(cpu(&mut cursor)?);
        }
        if has(SampleFormat::IDENTIFIER) {
            id.identifier = Some(cursor.u64("identifier")?);
        }
        Ok(id)
    }

    pub(crate) fn writes_trailer(&self) -> bool {
        self.trailer_len != 0
    }
}

/// Bytes of the fields that every record of a type has, before its strings, lists and the trailer.
fn fixed_len(kind: u32) -> Option<usize> {
    Some(match kind {
        kind::SWITCH => 0,
        kind::COMM
        | kind::ITRACE_START
        | kind::LOST_SAMPLES
        | kind::SWITCH_CPU_WIDE
        | kind::CGROUP
        | kind::AUX_OUTPUT_HW_ID => 8,
        kind::TEXT_POKE => 12,
        kind::LOST
        | kind::READ
        | kind::NAMESPACES
        | kind::KSYMBOL
        | kind::BPF_EVENT
        | kind::CALLCHAIN_DEFERRED => 16,
        kind::EXIT | kind::FORK | kind::THROTTLE | kind::UNTHROTTLE | kind::AUX => 24,
        kind::MMAP => 32,
        kind::MMAP2 => 64,
        _ => return None,
    })
}

fn refusal(attr: &Attr) -> Option<DecodeError> {
    let format = attr.sample_format;
    let unknown = |field, bits| Some(DecodeError::UnknownFormat { field, bits });
    if !SampleFormat::all().contains(format) {
        return unknown("sample_type", format.difference(SampleFormat::all()).bits());
    }
    if format.contains(SampleFormat::READ) && !ReadFormat::all().contains(attr.read_format) {
        return unknown("read_format", attr.read_format.difference(ReadFormat::all()).bits());
    }
    let branches = attr.branch_sample_format;
    if format.contains(SampleFormat::BRANCH_STACK) && !BranchSampleFormat::all().contains(branches) {
        return unknown("branch_sample_type", branches.difference(BranchSampleFormat::all()).bits());
    }
    None
}

#[inline]
pub(crate) fn thread(cursor: &mut Cursor<'_>) -> Result<(Pid, Tid), DecodeError> {
    Ok((Pid(cursor.u32("pid")? as i32), Tid(cursor.u32("tid")? as i32)))
}

#[inline]
pub(crate) fn cpu(cursor: &mut Cursor<'_>) -> Result<CpuId, DecodeError> {
    let cpu = CpuId(cursor.u32("cpu")?);
    cursor.u32("cpu padding")?;
    Ok(cpu)
}

const _: () = assert!(HEADER_SIZE == 8, "offsets in bodies and records differ by the header");
