//! Records samples and counts events of running programs through `perf_event_open(2)`.
//!
//! ```text
//!  options ─▶ event ─▶ attr ─▶ plan ─▶ open ─▶ ring ─▶ session ─▶ members ─▶ unwind ─▶ sink (prof.data, --overwrite)
//!  what to    names    kernel  decide  open    drain   rounds,     drop       stacks     or a consumer of the caller (live view)
//!  record     → events attrs   what    and map rings   control     others'    → chains
//! ```
//!
//! [`record`] opens the events of [`Options`], drains the rings in rounds, and calls a [`Consumer`] with chunks of whole records.
//! Consumers are stages that forward to the next one ([`unwind::UnwindingStage`]), or ends: [`FileSink`] writes perf.data:
//! one file, files that follow each other, or files of the newest records. The live view brings its own. What only looks at the records is a [`RecordObserver`] ([`FileHolder`]).
//!
//! | modules | role |
//! |---|---|
//! | `options`, `event`, `attr` | what to record: targets, perf's event grammar, the kernel's `perf_event_attr` |
//! | `plan` | what will be opened, by what the kernel and the user's rights allow: why an event is not opened |
//! | `open`, `ring`, `members` | opening what is planned; draining rings; dropping records of other processes |
//! | `session`, `control` | the loop of a recording; signals, commands, conditions and messages that reach it |
//! | `consumer`, `records` | the traits and types between a recording and its consumers; walking over raw records |
//! | `mapped_files` | build ids, sizes and times of mapped files, read by a worker |
//! | `work_queue` | a queue of orders to a thread of its own |
//! | `unwind`, `waits`, `processes` | stacks from copies; where threads wait; what `/proc` tells of recorded processes |
//! | `python_stacks`, `javascript_stacks`, `function_mappings`, `early_rounds` | functions of interpreters, by the memory of running processes |
//! | `tasks` | parked tasks of programs, by the memory of running processes |
//! | `sink`, `output`, `window` | when a file ends and the next begins; perf.data files; the newest records and what existed before them |
//! | `summary` | totals and losses at the end |
//! | `counting` | `prof stat`: events that are read rather than sampled |
//! | `error`, `notice` | why there is no recording; what the user is told while it runs |

mod attr;
mod consumer;
mod control;
pub mod counting;
mod early_rounds;
mod error;
pub mod event;
mod function_mappings;
mod javascript_stacks;
mod known_programs;
mod mapped_files;
mod members;
mod notice;
mod open;
mod options;
mod output;
mod plan;
mod processes;
mod python_stacks;
mod records;
mod ring;
mod round_memory;
mod session;
mod sink;
mod summary;
mod tasks;
pub mod unwind;
mod waits;
mod window;
mod work_queue;

pub use consumer::{
    Chunk, Circumstances, Consumer, DrainStats, Dump, DumpFailure, DumpReport, Ending, EventCoverage,
    LostCount, RecordObserver, RecordedEvent, Recording, RecordingSink, RingKind, SwitchUpdate, TaskTime,
};
pub use control::{CommandSources, Control, DUMP_SIGNAL_THREAD, ends_with_command, signals_of_recordings};
pub use error::{Errno, Error};
pub use event::{ThisMachine, core_pmu_name, this_machine};
pub use mapped_files::MappedFiles;
pub use notice::{Importance, Notice};
pub use open::{event_support, event_support_on_cpu};
pub use options::{
    CallChain, Clock, DEFAULT_FREQUENCY, DEFAULT_STACK_COPY, DumpCondition, ExitCondition, Extras,
    JvmMapTiming, Options, PrivilegeLevels, Target, Workload, parse_branches,
};
pub use output::OUTPUT_BUFFER_BYTES;
pub use plan::{
    EventSupport, SIDEBAND_SIZE, attachable_threads, default_ring_bytes, descriptors_for, mlock_kb_for,
};
pub use processes::{Containers, FileHolder, NameSources, ProcessResources};
pub use ring::{RingMemory, drain_whole};
pub use session::record;
pub use sink::{FileCompletion, FileSink, NextFileWhen, Place, WindowFiles};
pub use summary::{Command, ExactCount, PrivilegedExec, RunningCommand, Summary};
pub use tasks::observe_tasks;
pub use waits::observe_waits;
pub use window::Window;
