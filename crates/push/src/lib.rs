//! Sends profiles to engines over HTTP: to receivers of OTLP, and to Pyroscope's `/ingest`.
//!
//! ```text
//! message ──▶ Pusher (threads)  ──▶ store: memory, or a spool folder ──oldest──▶ Client ──▶ engine
//!                                     ▲                                            │
//!                                     └──── 429, 500, 502, 503, 504, no connection ─────┘
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `endpoint` | where to send, from a URL or the environment |
//! | `headers` | tokens and other headers, from files or the environment; they are never printed |
//! | `message` | a request body with what goes into the URL, as bytes for a file |
//! | `client` | sends one message, and judges the answer |
//! | `delay` | how long to wait for the next attempt |
//! | `store` | messages that wait, in bounded memory or a bounded folder |
//! | `pusher` | the threads that keep and send in the background |
//!
//! It prints nothing: who calls it says what is to be said.

mod client;
mod delay;
mod endpoint;
mod headers;
mod message;
mod pusher;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::{Answer, Client, ClientError, ClientSettings};
pub use delay::Backoff;
pub use endpoint::{Endpoint, EndpointError, Protocol};
pub use headers::{HeaderError, HeaderSources};
pub use message::{Message, read_messages};
pub use pusher::{PushEvent, PushTotals, Pusher};
pub use store::{DEFAULT_SPOOL_BYTES, Store, StoreError};
