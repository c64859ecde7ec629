//! Which samples count: filters, the events that take samples, and CPU time that no sample stands for.

pub mod events;
pub mod explained_filter;
mod tee_sink;
pub(crate) mod unsampled_time;

pub(crate) use tee_sink::TeeSink;
