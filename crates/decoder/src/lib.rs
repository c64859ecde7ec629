#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

pub mod attr;
pub mod context;
mod cursor;
pub mod endian;
mod error;
pub mod flags;
mod header;
mod layout;
pub mod offsets;
mod order;
mod raw;
mod read_values;
pub mod record;
mod record_size;
pub mod sample;
mod stack_copy;
pub mod user_page;
pub mod values;

pub use attr::Attr;
pub use endian::Endian;
pub use error::DecodeError;
pub use flags::{AttrFlags, BranchSampleFormat, ReadFormat, SampleFormat};
pub use header::{CpuMode, HEADER_SIZE, RecordHeader, kind, misc};
pub use layout::{EncodeError, RecordLayout, SAMPLE_HEAD};
pub use order::Orderer;
pub use raw::RawRecord;
pub use read_values::ReadValues;
pub use record::{Record, SampleId};
pub use record_size::{ChainLimits, MAX_RECORD_BYTES, MAX_STACK_COPY_BYTES};
pub use sample::Sample;
pub use stack_copy::{StackCopy, StackCopyLocator};

// Types that appear in the signatures of this crate's functions.
pub use model;
