//! Profiles of other tools: folded stacks and pprof. They have stacks and weights, and no records.
//!
//! The parsers of this folder turn bytes into a [`ForeignProfile`] and do no I/O; `counted` makes an [`Analysis`](crate::Analysis) of it.

mod counted;
mod facts;
mod folded;
mod gzip;
mod pprof;
#[cfg(test)]
mod tests;

use std::fmt;

use export::exchange::SampleLabel;
use model::{Frame, Name, Pid, Resolution, SpaceTable, StackEntry, Symbolized, Tid};
use profile::{StackId, StackTable};
use symbolizer::Resolutions;
use thiserror::Error;

pub(crate) use counted::events;
pub(crate) use facts::ForeignFacts;

/// The most bytes of a profile, unpacked. The memory of a profile is a small multiple of its bytes.
pub const MAX_BYTES: usize = 512 << 20;

/// The most frames of a stack with the inlined ones; the outermost are left out beyond. Kernels record 640 at most unless they are
/// told otherwise, and runtimes that walk their own stacks record some 2,048.
const MAX_DEPTH: usize = 4096;

/// A format of profiles that other tools write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Lines of `outermost;…;innermost COUNT`.
    Folded,
    /// `profile.proto` of pprof, compressed by gzip or not.
    Pprof,
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Folded => "folded stacks",
            Self::Pprof => "a profile of pprof",
        })
    }
}

/// The reason why a profile of another tool cannot be read.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ForeignError {
    /// There are more bytes than are read.
    #[error("it has more than {} MiB, unpacked", MAX_BYTES >> 20)]
    TooLarge,
    /// The compressed data is damaged.
    #[error("its gzip-compressed data is damaged: {0}")]
    Gzip(&'static str),
    /// A part of a pprof profile cannot be decoded.
    #[error("pprof: {part} at byte {offset} is damaged")]
    Damaged {
        /// The part, as profile.proto calls it.
        part: &'static str,
        /// Its offset, after unpacking.
        offset: usize,
    },
    /// The profile has no sample, or does not say what it counts.
    #[error("pprof: there is no {0}")]
    Without(&'static str),
    /// The profile is the difference of two.
    #[error(
        "pprof: sample {sample} is negative: this is the difference of two profiles; give both to: prof diff BEFORE AFTER"
    )]
    Negative {
        /// The number of the sample, counted from 1.
        sample: u64,
    },
    /// It is the text that Go's `net/http/pprof` shows to people.
    #[error(
        "this is the text of Go's /debug/pprof with ?debug=1, which is for people; try: the same address without ?debug=1"
    )]
    GoText,
    /// Each stack has two counts.
    #[error(
        "each stack has two counts: this is a comparison of two profiles already, which `inferno-flamegraph` draws; give the profiles that it was made from to: prof diff BEFORE AFTER"
    )]
    TwoCounts,
}

/// A quantity that the samples of a profile have a value of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantity {
    /// The name of what is counted: `samples`, `cpu`, `alloc_space`.
    pub name: String,
    /// The unit of the values: `count`, `nanoseconds`, `bytes`.
    pub unit: String,
}

/// The thread of samples, as far as the profile says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Thread {
    comm: Name,
    pid: Option<Pid>,
    tid: Option<Tid>,
    /// Its labels beside these.
    labels: Vec<SampleLabel>,
}

/// The samples of one stack of one thread.
#[derive(Clone, Copy, Debug)]
struct Samples {
    /// The index in [`ForeignProfile::threads`].
    thread: u32,
    stack: StackId,
}

/// A profile of another tool, with names as far as it has them.
pub struct ForeignProfile {
    /// The format that it was read from.
    pub format: Format,
    /// The quantities, at least one.
    quantities: Vec<Quantity>,
    /// The index of the quantity that is shown where none is chosen.
    default_quantity: usize,
    spaces: SpaceTable,
    stacks: StackTable,
    /// The names of entries. An entry without one may be named by the object that it lies in.
    resolutions: Resolutions,
    /// Entries whose objects may have names for them.
    unresolved: Vec<StackEntry>,
    threads: Vec<Thread>,
    /// True if the profile says which threads its samples are of; otherwise `threads` has a name that stands for all.
    tells_threads: bool,
    samples: Vec<Samples>,
    /// The values of each of `samples`, one for each quantity.
    values: Vec<u64>,
    /// The time at which it was begun, in nanoseconds since 1970.
    started_unix_ns: Option<u64>,
    /// The length of the measurement in nanoseconds.
    duration_ns: Option<u64>,
    /// Sentences on what could not be read of it.
    remarks: Vec<String>,
}

impl fmt::Debug for ForeignProfile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ForeignProfile")
            .field("format", &self.format)
            .field("quantities", &self.quantities)
            .field("samples", &self.samples.len())
            .finish_non_exhaustive()
    }
}

impl ForeignProfile {
    /// Reads the bytes of a file. Returns `None` if they are neither folded stacks nor a pprof profile.
    ///
    /// # Errors
    /// [`ForeignError`] if they are one and cannot be read.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, ForeignError> {
        if bytes.len() > MAX_BYTES {
            return Err(ForeignError::TooLarge);
        }
        if gzip::is_packed(bytes) {
            let unpacked = gzip::unpack(bytes, MAX_BYTES)?;
            return Self::parse_unpacked(&unpacked);
        }
        Self::parse_unpacked(bytes)
    }

    fn parse_unpacked(bytes: &[u8]) -> Result<Option<Self>, ForeignError> {
        if is_go_text(bytes) {
            return Err(ForeignError::GoText);
        }
        if folded::is_folded(bytes) {
            return folded::parse(bytes).map(Some);
        }
        if pprof::is_pprof(bytes) {
            return pprof::parse(bytes).map(Some);
        }
        Ok(None)
    }

    /// Returns true if bytes may be the start of a profile that [`Self::parse`] reads, so that the rest is worth reading, too.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        gzip::is_packed(bytes)
            || is_go_text(bytes)
            || folded::is_folded(bytes)
            || pprof::begins_like_one(bytes)
    }

    /// Returns the quantities that the samples have values of.
    pub fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }

    /// Returns the quantity that is shown where none is chosen.
    pub fn default_quantity(&self) -> &Quantity {
        &self.quantities[self.default_quantity]
    }
}

/// Returns true if bytes begin as the texts of Go's `runtime/pprof` do.
fn is_go_text(bytes: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 5] = [
        b"heap profile: ",
        b"goroutine profile: total ",
        b"threadcreate profile: total ",
        b"--- mutex:\ncycles/second=",
        b"--- contention:\ncycles/second=",
    ];
    BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning))
}

/// Returns a resolution to one function, innermost frame first if others are inlined into it.
fn resolved(frames: Vec<Frame>) -> Resolution {
    Resolution::Resolved(Symbolized { frames: frames.into(), symbol_offset: None })
}
