//! The thread that reads mapped files.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use host::objects::MappedFileReader;
use host::sys::clock;
use host::sys::schedule::{PriorityGuard, RealtimeGuard};

use super::table::Table;
use super::{Order, lock, time_of_change};
use crate::work_queue::Orders;

/// CPU time per second up to which the thread has real-time priority. Compilers that are started by the hundred need a tenth of it; who
/// maps ten thousand files a second to keep us busy takes no more than a tenth of a CPU from others by that.
const MAX_REALTIME: Duration = Duration::from_millis(100);

/// Executes orders until nobody can give any more.
pub(super) fn run(orders: Orders<Order>, table: &Mutex<Table>, clock: Option<i32>) {
    let priority = PriorityGuard::acquire();
    let mut urgency = Urgency::new();
    let mut reader = MappedFileReader::default();
    for order in orders {
        match order {
            // Several mappings of a file may have been recorded before the first was read.
            Order::Read(request)
                if !lock(table).needs_reading(&request.file, &request.path, Instant::now()) => {}
            Order::Read(request) | Order::ReadAgain(request) => {
                let known = lock(table).latest(&request.file);
                let state = reader.read(&request.mapping(), known.as_ref());
                let changed = state.as_ref().and_then(|state| time_of_change(state, clock?));
                lock(table).insert(&request, state, changed.unwrap_or(request.time));
                urgency.renew();
            }
        }
    }
    // The thread ends, and its priority with it.
    std::mem::forget((priority, urgency));
}

/// The real-time priority of the thread, as long as it uses little CPU time: a program may live for a millisecond, and only while it
/// does is a deleted file found.
struct Urgency {
    realtime: Option<RealtimeGuard>,
    /// When the current second began, and the CPU time of the thread then, in nanoseconds.
    second: (Instant, u64),
}

impl Urgency {
    fn new() -> Self {
        Self { realtime: Some(RealtimeGuard::acquire()), second: (Instant::now(), cpu_time()) }
    }

    /// Gives up the priority for the rest of a second in which too much CPU time was used.
    fn renew(&mut self) {
        let (now, used) = (Instant::now(), cpu_time());
        if now.duration_since(self.second.0) > Duration::from_secs(1) {
            self.second = (now, used);
            self.realtime.get_or_insert_with(RealtimeGuard::acquire);
        } else if u128::from(used.saturating_sub(self.second.1)) > MAX_REALTIME.as_nanos() {
            self.realtime = None;
        }
    }
}

/// Returns the CPU time of the calling thread in nanoseconds; 0 if the kernel does not tell.
fn cpu_time() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    clock::now(CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}
