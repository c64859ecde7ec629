#![doc = include_str!("../README.md")]
//!
//! Facts from `tools/perf/Documentation/perf.data-file-format.txt` and from files taken apart byte by byte.
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

mod bytes;
mod error;
pub mod events;
pub mod features;
pub mod read;
// For the crates of `prof` alone: what its own recordings contain beside perf's data may change with each of its versions.
#[doc(hidden)]
pub mod sections;
pub mod tool;
pub mod tracing_data;
pub mod write;
#[cfg(feature = "zstd")]
#[path = "zstd_codec.rs"]
mod zstd;
#[cfg(not(feature = "zstd"))]
#[path = "zstd_absent.rs"]
mod zstd;
#[cfg(all(test, feature = "zstd"))]
#[allow(dead_code, reason = "only its error is tested")]
mod zstd_absent;

pub use error::Error;
pub use events::Event;
pub use read::{
    Description, Entry, EntryKind, Notice, ReadAt, Reader, RecordRef, Source, TimeOrder, TimedRecord,
};

/// True if compressed records can be read and written: the feature `zstd`.
pub const HAS_ZSTD: bool = cfg!(feature = "zstd");

// Types that appear in the signatures of this crate's functions.
pub use decoder;
pub use model;
