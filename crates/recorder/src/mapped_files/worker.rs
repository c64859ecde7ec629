//! The thread that reads mapped files.

use std::sync::Mutex;
use std::time::Instant;

use crossbeam_channel::Receiver;
use host::objects::MappedFileReader;
use host::sys::schedule::PriorityGuard;

use super::table::Table;
use super::{Order, lock, time_of_change};

/// Executes orders until nobody can give any more.
pub(super) fn run(orders: &Receiver<Order>, table: &Mutex<Table>, clock: Option<i32>) {
    // A program may live for a millisecond, and only while it does is a deleted file found.
    let _priority = PriorityGuard::acquire();
    let mut reader = MappedFileReader::default();
    for order in orders {
        match order {
            Order::Answer(sender) => drop(sender.send(())),
            // Several mappings of a file may have been recorded before the first was read.
            Order::Read(request) if !lock(table).needs_reading(&request.file, Instant::now()) => {}
            Order::Read(request) | Order::ReadAgain(request) => {
                let known = lock(table).latest(&request.file);
                let state = reader.read(&request.mapping(), known.as_ref());
                let changed = state.as_ref().and_then(|state| time_of_change(state, clock?));
                lock(table).insert(&request, state, changed.unwrap_or(request.time));
            }
        }
    }
}
