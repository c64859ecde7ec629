#![doc = include_str!("../README.md")]
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
mod process;
mod process_mappings;
mod samples;
mod thread;
mod tracker;
pub mod waits;

pub use callchain::{AddressSpace, ChainItem, chain_items};
pub use container::{CgroupFacts, cgroup_facts, container_of};
pub use deferred::Deferred;
pub use mapping::{FileContents, Mapping, MappingKind, is_generated_code, mapped_object};
pub use process::MAX_ENDED;
pub use samples::{
    DEFAULT_CHAIN_LIMIT, Events, OrderedRecord, SampleReader, SampleSink, TrackedSample, chain_limit,
    mark_cut_chain,
};
pub use tracker::{Generation, RawStack, Tracker};

// Types that appear in the signatures of this crate's functions.
pub use decoder::{self, Orderer};
pub use model;
