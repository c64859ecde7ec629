//! The vocabulary of `prof`: what an address is, where it lies, what a frame is, and what went missing.
//!
//! Every other crate speaks in these types. Nothing here performs I/O, knows a file format or a kernel
//! structure; the crate builds without an operating system.
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

mod address;
mod build_id;
mod coverage;
mod frame;
mod function_code;
mod harm;
mod ids;
mod life;
mod loss;
mod name;
pub mod near;
mod process_memory;
mod reason;
mod space;
mod spans;
mod stack;
mod thread_state;

pub use address::{Avma, FileOffset, FrameAddress, Svma};
pub use build_id::BuildId;
pub use coverage::{Coverage, MIN_MISSING_SHARE, MissingSamples, Shortfall};
pub use frame::{Frame, Resolution, SourceLocation, Symbolized};
pub use function_code::{
    FUNCTION_CODE, JAVASCRIPT_CODE, PYTHON_CODE, TASK_LABELS, UNKNOWN_JAVASCRIPT, UNKNOWN_PYTHON,
    UNKNOWN_TASK, label_mapping_name, python_mapping_name,
};
pub use harm::Harm;
pub use ids::{CpuId, EventIndex, MAX_CGROUPS, Pid, Tid, Timestamp};
pub use life::ProcessLifetime;
pub use loss::Loss;
pub use name::Name;
pub use process_memory::{BLOCK_BYTES, ProcessMemory};
pub use reason::{MapRefusal, Reason, TruncationReason};
pub use space::{FileIdentity, KernelText, ObjectIdentity, Space, SpaceId, SpaceTable, TextSymbol};
pub use spans::{Gap, WaitSpan};
pub use stack::{AddressKind, StackEntry};
pub use thread_state::{Blocked, Runnable, ThreadState, Waker};
