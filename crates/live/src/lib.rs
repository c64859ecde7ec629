//! The engine of `prof top`: turns a running recording into snapshots of its last seconds, and snapshots into rows.
//!
//! ```text
//! recorder ──ordered records──▶ Engine ──Snapshot──▶ views ──rows──▶ screen, text or JSON (in `cli`)
//!                                │  ▲
//!                      addresses ▼  │ functions
//!                            SymbolWorker (a thread)
//! ```
//!
//! The modules, in the order in which data goes through them:
//!
//! | module | what it does |
//! |---|---|
//! | [`record()`] | runs a recording with an engine as its consumer |
//! | [`engine`], `consumer` | receive records in time order, do what is due after each round, send snapshots |
//! | `events` | the recorded events: layouts, and how samples are weighed |
//! | `sample_counter` | counts a sample in the window, by event, thread and stack |
//! | `thread_time` | the same for `--off-cpu`: counts the time of threads between switches |
//! | `window` | the counts of the last seconds and since the start, within bounded memory |
//! | [`names`] | the functions of each sampled address, as far as they are known |
//! | `symbol_worker`, `name_queue` | the thread that symbolizes addresses, and the order in which it does so |
//! | [`snapshot`] | the plain data that the engine sends: a profile for each event, with names; nobody changes it afterwards |
//! | [`views`], [`filter`] | pure functions of a snapshot, by the queries of `profile`: functions, tasks, callers and callees, flame graph |

mod consumer;
pub mod engine;
mod events;
pub mod filter;
mod name_queue;
pub mod names;
mod record;
mod sample_counter;
pub mod snapshot;
mod symbol_worker;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thread_time;
pub mod views;
mod window;

pub use engine::{Engine, EngineCommand, EngineEvent, EngineSettings, MAX_SYMBOL_WAIT};
pub use record::record;
