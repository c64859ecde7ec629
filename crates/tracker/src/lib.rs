//! What ran where, and what was mapped there: records in time order to places of addresses.
//!
//! [`Orderer`] puts the records of many rings into one order. [`Tracker`] takes them in that order, follows threads,
//! programs and mappings, and turns the addresses of a call chain into [`model::StackEntry`]s: places in objects, in
//! the kernel, in generated code. [`SampleReader`] reads the samples out of them. It knows no object format; an [`model::Avma`] becomes a file offset here, and
//! nowhere else.
#![no_std]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

mod callchain;
mod container;
mod deferred;
mod forget;
mod kernel;
mod mapping;
mod mapping_tree;
mod mappings;
mod order;
mod process;
mod samples;
mod thread;
mod tracker;
pub mod waits;

pub use callchain::{AddressSpace, ChainItem, chain_items};
pub use container::container_of;
pub use deferred::Deferred;
pub use mapping::{Mapping, MappingKind, is_generated_code, mapped_object};
pub use order::Orderer;
pub use samples::{Events, OrderedRecord, SampleReader, SampleSink, TrackedSample};
pub use tracker::{Generation, RawStack, Tracker};
