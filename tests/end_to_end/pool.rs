//! What takes long to start, kept from one test to the next.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Those that no test uses, and what brings one to rest before it goes there.
pub(crate) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    rest: fn(&T),
}

impl<T> Pool<T> {
    pub(crate) const fn new(rest: fn(&T)) -> Self {
        Self { idle: Mutex::new(Vec::new()), rest }
    }

    /// Lends one for as long as the returned value lives; starts one where none is idle.
    pub(crate) fn lend(&'static self, start: impl FnOnce() -> T) -> Lent<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Lent { pool: self, lent: Some(idle.unwrap_or_else(start)) }
    }
}

/// One of a pool. It goes back there, unless the test fails: nobody knows then what it is busy with.
pub(crate) struct Lent<T: 'static> {
    pool: &'static Pool<T>,
    lent: Option<T>,
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.lent.as_ref().expect("lent until it is dropped")
    }
}

impl<T> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.lent.as_mut().expect("lent until it is dropped")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if !thread::panicking() {
            (self.pool.rest)(self);
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.lent.take());
        }
    }
}
