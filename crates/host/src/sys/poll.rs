//! Waits for several file descriptors (`poll(2)`), and wakes a waiting thread (`eventfd(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::check;

/// A set of descriptors to wait for. It stores their numbers; the caller keeps them open.
#[derive(Debug, Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

/// The events that happened to a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// `POLLIN`: a read does not block.
    pub readable: bool,
    /// `POLLHUP`, `POLLERR` or `POLLNVAL`: nothing more will come through this descriptor.
    pub hung_up: bool,
}

impl PollSet {
    /// Adds a descriptor and returns its index.
    pub fn add(&mut self, fd: BorrowedFd<'_>) -> usize {
        self.entries.push(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        self.entries.len() - 1
    }

    /// Stops waiting for the descriptor at `index`. The others keep their indices.
    pub fn ignore(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.fd = -1; // poll(2): negative numbers are skipped.
        }
    }

    /// Waits until a descriptor is ready, and returns the number of ready ones. Returns 0 after `timeout` (`None` waits forever) or
    /// a signal.
    ///
    /// # Errors
    /// Those of `poll(2)` except `EINTR`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let milliseconds = timeout.map_or(-1, |timeout| {
            // Rounded up: a wait of 0.3 ms must not become a busy loop.
            let up = timeout.as_nanos().div_ceil(1_000_000);
            libc::c_int::try_from(up).unwrap_or(libc::c_int::MAX)
        });
        let count = libc::nfds_t::try_from(self.entries.len()).unwrap_or(libc::nfds_t::MAX);
        // SAFETY: the pointer and the count describe the vector, which the kernel writes `revents` into.
        let result = check(unsafe { libc::poll(self.entries.as_mut_ptr(), count, milliseconds) });
        match result {
            Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.entries.iter_mut().for_each(|entry| entry.revents = 0);
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the result of the last [`PollSet::wait`] for the descriptor at `index`.
    pub fn ready(&self, index: usize) -> Ready {
        let found = self.entries.get(index).map_or(0, |entry| entry.revents);
        Ready {
            readable: found & libc::POLLIN != 0,
            hung_up: found & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
        }
    }
}

/// An `eventfd(2)` that wakes a thread waiting in a [`PollSet`].
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// Creates a waker that is not readable yet.
    ///
    /// # Errors
    /// Those of `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved; the descriptor that comes back is ours alone.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: as above.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes are read from `one`. The only failure, a full counter, leaves it readable too.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes the descriptor unreadable again.
    pub fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: eight bytes are written to `count`. The only failure is that there was nothing to clear.
        unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_wakes_until_cleared() {
        let waker = Waker::new().unwrap();
        let mut set = PollSet::default();
        let index = set.add(waker.as_fd());
        assert_eq!(set.wait(Some(Duration::ZERO)).unwrap(), 0);
        waker.wake();
        waker.wake();
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(set.ready(index).readable);
        waker.clear();
        assert_eq!(set.wait(Some(Duration::ZERO)).unwrap(), 0);
        waker.wake();
        set.ignore(index);
        assert_eq!(set.wait(Some(Duration::ZERO)).unwrap(), 0);
    }
}
