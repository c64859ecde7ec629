//! Recording: targets and events to a stream of records.
//!
//! ```text
//! Options ─ event::select ─▶ attr ─▶ open (ladder, attach) ─▶ rings ─▶ a reader per CPU ─▶ channel ─▶ session ─▶ Consumer
//! ```
//!
//! [`record`] opens the events, empties the rings and hands chunks of whole records to a [`Consumer`]: a
//! [`FileConsumer`] writes perf.data; a live view, or a stage that unwinds and hands on, is another one. The rounds
//! that a consumer is told of let it put the records into time order.

mod attr;
mod branches;
mod calls;
mod census;
mod commands;
mod conditions;
mod consumer;
mod container_table;
mod control;
pub mod counting;
mod coverage;
mod description;
mod error;
pub mod event;
mod file;
mod header;
mod holding;
mod jvms;
mod loss;
mod machine;
mod members;
mod messages;
mod notice;
mod offer;
mod open;
mod options;
mod output;
mod pace;
mod process_table;
mod records;
mod requests;
mod ring;
mod session;
mod summary;
mod synthesis;
mod tracing_data;
pub mod unwind;
mod waits;
mod window;
mod workload;
mod write_behind;

pub use branches::parse_branches;
pub use calls::SlowCall;
pub use census::Census;
pub use commands::CommandSources;
pub use conditions::{DumpCondition, ExitCondition};
pub use consumer::{
    Chunk, Consumer, Destination, Ending, LostCount, RecordedEvent, Recording, RingKind, SwitchNews, TaskTime,
};
pub use container_table::Containers;
pub use control::Control;
pub use error::{Errno, Error};
pub use file::{FileConsumer, OUTPUT_BUFFER};
pub use holding::{Holding, NameSources};
pub use jvms::JvmAsking;
pub use machine::{ThisMachine, this_machine};
pub use notice::{Importance, Notice};
pub use offer::{Offer, offer, offer_on_cpu};
pub use open::{SIDEBAND_SIZE, attachable_threads, default_ring_bytes, descriptors_for, mlock_kb_for};
pub use options::{
    CallChain, Clock, DEFAULT_FREQUENCY, DEFAULT_STACK_COPY, Extras, Levels, Options, Target, Workload,
};
pub use ring::{Drained, RingMemory, drain_whole};
pub use session::record;
pub use summary::{Command, RunningCommand, Summary};
pub use waits::observe_waits;
pub use window::{
    Completion, Dump, DumpFailure, DumpReport, SwitchWhen, SwitchingConsumer, Window, WindowConsumer,
};
