//! The records that tools write beside the kernel's: types 64 and above
//! (`tools/lib/perf/include/perf/event.h`).

pub mod kind;
mod parse;

use decoder::Attr;

use crate::features::BuildIdEntry;
use crate::sections::Piece;

/// A decoded tool record.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ToolRecord<'a> {
    /// `HEADER_ATTR`: an event and the ids of its instances.
    HeaderAttr {
        /// The attr with which it was opened.
        attr: Box<Attr>,
        /// The kernel's ids.
        ids: Vec<u64>,
    },
    /// `HEADER_EVENT_TYPE`: no tool writes it any more.
    HeaderEventType {
        /// The event's config.
        id: u64,
        /// The event's name.
        name: &'a [u8],
    },
    /// `HEADER_EVENT_TYPE` with a part of a section of our own.
    Section(Piece<'a>),
    /// `HEADER_TRACING_DATA`, with the number of bytes that follow the record.
    HeaderTracingData {
        /// Bytes, without padding.
        size: u32,
        /// The bytes that lie in the record instead: all of them where simpleperf wrote it.
        inside: &'a [u8],
    },
    /// `HEADER_BUILD_ID`; `None` where the id is empty.
    HeaderBuildId(Option<BuildIdEntry>),
    /// `AUXTRACE`, with the number of bytes that follow the record.
    Auxtrace {
        /// Bytes.
        size: u64,
    },
    /// `EVENT_UPDATE` with a name.
    EventName {
        /// The event's id.
        id: u64,
        /// The event's name.
        name: &'a [u8],
    },
    /// `HEADER_FEATURE`: a feature section; of the number that ends the list, it is empty.
    HeaderFeature {
        /// A number of [`crate::features::bit`].
        feature: u64,
        /// The section.
        body: &'a [u8],
    },
    /// `COMPRESSED` and `COMPRESSED2`: a piece of the zstd stream.
    Compressed(&'a [u8]),
    /// A record of another known type, which says nothing of samples.
    Other,
}
