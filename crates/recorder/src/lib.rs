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
mod consumer;
mod control;
pub mod counting;
mod error;
pub mod event;
mod members;
mod notice;
mod open;
mod options;
mod output;
mod processes;
mod records;
mod ring;
mod session;
mod summary;
pub mod unwind;
mod waits;
mod window;

pub use consumer::{
    Chunk, Consumer, DrainStats, Dump, DumpFailure, DumpReport, Ending, LostCount, RecordedEvent, Recording,
    RecordingSink, RingKind, SwitchUpdate, TaskTime,
};
pub use control::{CommandSources, Control};
pub use error::{Errno, Error};
pub use event::{ThisMachine, this_machine};
pub use notice::{Importance, Notice};
pub use open::{
    EventSupport, SIDEBAND_SIZE, attachable_threads, default_ring_bytes, descriptors_for, event_support,
    event_support_on_cpu, mlock_kb_for,
};
pub use options::{
    CallChain, Clock, DEFAULT_FREQUENCY, DEFAULT_STACK_COPY, DumpCondition, ExitCondition, Extras,
    JvmMapTiming, Options, PrivilegeLevels, SlowCall, Target, Workload, parse_branches,
};
pub use output::{FileConsumer, OUTPUT_BUFFER_BYTES};
pub use processes::{Containers, FileHolder, NameSources};
pub use ring::{RingMemory, drain_whole};
pub use session::record;
pub use summary::{Command, RunningCommand, Summary};
pub use waits::observe_waits;
pub use window::{FileCompletion, NextFileWhen, SeriesConsumer, Window, WindowConsumer};
