//! Waits for several file descriptors (`poll(2)`) and for what has none, and wakes a waiting thread (`eventfd(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::check;

/// Interval between two looks for what has no descriptor to wait for; the shortest one for the questions of a [`PollSet`].
pub const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The interval grows with the number of questions, each of which takes some 10 µs, so that asking takes about 1 % of a CPU.
const INTERVAL_PER_QUESTION: Duration = Duration::from_millis(1);

/// A set of descriptors to wait for, and of questions for what has no descriptor. It stores the numbers of descriptors; the caller
/// keeps them open.
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
    questions: Vec<Question>,
    places: Vec<Place>,
}

/// Where an index of a [`PollSet`] leads.
#[derive(Clone, Copy)]
enum Place {
    Descriptor(usize),
    Question(usize),
}

struct Question {
    /// `None` if it is not asked any more.
    ask: Option<Box<dyn Fn() -> bool + Send>>,
    answer: bool,
}

/// The events that happened to a descriptor, or the answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// `POLLIN`: a read does not block. The answer is yes.
    pub readable: bool,
    /// `POLLHUP`, `POLLERR` or `POLLNVAL`: nothing more will come through this descriptor.
    pub hung_up: bool,
}

impl PollSet {
    /// Adds a descriptor and returns its index.
    pub fn add(&mut self, fd: BorrowedFd<'_>) -> usize {
        self.entries.push(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        self.place(Place::Descriptor(self.entries.len() - 1))
    }

    /// Adds something that is ready when `ask` returns true, and returns its index. It is asked at most every
    /// [`LOOK_INTERVAL`], and the answer may come as much later.
    pub fn add_question(&mut self, ask: impl Fn() -> bool + Send + 'static) -> usize {
        self.questions.push(Question { ask: Some(Box::new(ask)), answer: false });
        self.place(Place::Question(self.questions.len() - 1))
    }

    fn place(&mut self, place: Place) -> usize {
        self.places.push(place);
        self.places.len() - 1
    }

    /// Stops waiting for the descriptor or question at `index`. The others keep their indices.
    pub fn ignore(&mut self, index: usize) {
        match self.places.get(index) {
            Some(&Place::Descriptor(at)) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.fd = -1; // poll(2): negative numbers are skipped.
                }
            }
            Some(&Place::Question(at)) => {
                if let Some(question) = self.questions.get_mut(at) {
                    *question = Question { ask: None, answer: false };
                }
            }
            None => {}
        }
    }

    /// Waits until something is ready, and returns how much is. Returns 0 after `timeout` (`None` waits forever) or a signal.
    ///
    /// # Errors
    /// Those of `ppoll(2)` except `EINTR`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let asked = self.questions.iter().filter(|question| question.ask.is_some()).count();
        if asked == 0 {
            return self.wait_for_descriptors(timeout);
        }
        let interval = INTERVAL_PER_QUESTION * u32::try_from(asked).unwrap_or(u32::MAX);
        let interval = interval.max(LOOK_INTERVAL);
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let answered = self.ask();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let pause = if answered > 0 { Duration::ZERO } else { left.unwrap_or(interval).min(interval) };
            let ready = answered + self.wait_for_descriptors(Some(pause))?;
            if ready > 0 || left.is_some_and(|left| left.is_zero()) {
                return Ok(ready);
            }
        }
    }

    /// Asks the questions that are not answered yet, and returns how many are.
    fn ask(&mut self) -> usize {
        for question in self.questions.iter_mut().filter(|question| !question.answer) {
            question.answer = question.ask.as_ref().is_some_and(|ask| ask());
        }
        self.questions.iter().filter(|question| question.answer).count()
    }

    fn wait_for_descriptors(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
        });
        let limit = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = libc::nfds_t::try_from(self.entries.len()).unwrap_or(libc::nfds_t::MAX);
        // SAFETY: the pointer and the count describe the vector, which the kernel writes `revents` into; it reads the timeout, if there is
        // one, and leaves the mask of signals as it is where there is none.
        let result = check(unsafe { libc::ppoll(self.entries.as_mut_ptr(), count, limit, std::ptr::null()) });
        match result {
            Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.entries.iter_mut().for_each(|entry| entry.revents = 0);
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the result of the last [`PollSet::wait`] for the descriptor or question at `index`.
    pub fn ready(&self, index: usize) -> Ready {
        match self.places.get(index) {
            Some(&Place::Question(at)) => {
                let readable = self.questions.get(at).is_some_and(|question| question.answer);
                Ready { readable, hung_up: false }
            }
            Some(&Place::Descriptor(at)) => {
                let found = self.entries.get(at).map_or(0, |entry| entry.revents);
                Ready {
                    readable: found & libc::POLLIN != 0,
                    hung_up: found & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
                }
            }
            None => Ready { readable: false, hung_up: false },
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
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // The only failure, a full counter, leaves it readable too.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable again.
    pub fn clear(&self) {
        // The only failure is that there was nothing to clear.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
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

    #[test]
    fn questions_and_descriptors_are_waited_for_together() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        let (waker, answer) = (Waker::new().unwrap(), Arc::new(AtomicBool::new(false)));
        let mut set = PollSet::default();
        let asked = Arc::clone(&answer);
        let question = set.add_question(move || asked.load(Ordering::Relaxed));
        let descriptor = set.add(waker.as_fd());
        assert_eq!(set.wait(Some(Duration::from_millis(25))).unwrap(), 0);
        waker.wake();
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(set.ready(descriptor).readable && !set.ready(question).readable);
        waker.clear();
        answer.store(true, Ordering::Relaxed);
        assert_eq!(set.wait(None).unwrap(), 1);
        assert!(!set.ready(descriptor).readable && set.ready(question).readable);
        set.ignore(question);
        assert_eq!(set.wait(Some(Duration::ZERO)).unwrap(), 0);
        assert!(!set.ready(question).readable);
    }
}
