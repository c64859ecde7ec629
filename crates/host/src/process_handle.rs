//! A reference to a process or thread that tells when it has ended. Where `pidfd_open(2)` is not to be had (Linux before 5.3, seccomp
//! filters of containers, no descriptor left), it is a number and a start time, and is asked again and again.

use model::{Pid, Tid};

use crate::procfs;
use crate::sys::pidfd::{self, PidFd};
use crate::sys::poll::PollSet;

/// A reference to a process or thread.
#[derive(Debug)]
pub struct ProcessHandle(Reference);

#[derive(Debug)]
enum Reference {
    Descriptor(PidFd),
    Number(NumberedTask),
}

/// A process or thread that is known by its number.
#[derive(Clone, Copy, Debug)]
struct NumberedTask {
    number: i32,
    /// Clock ticks from boot to its start, which tell it from a later one with its number; `None` if they could not be read.
    start: Option<u64>,
    is_thread: bool,
}

impl ProcessHandle {
    /// Refers to the process that has this pid now. If there is none, it has ended.
    pub fn of_process(pid: Pid) -> Self {
        let number = || Reference::Number(NumberedTask::new(pid.0, false));
        Self(PidFd::open(pid).map_or_else(|_| number(), Reference::Descriptor))
    }

    /// Refers to the thread that has this tid now. If there is none, it has ended.
    pub fn of_thread(tid: Tid) -> Self {
        let number = || Reference::Number(NumberedTask::new(tid.0, true));
        Self(PidFd::open_thread(tid).map_or_else(|_| number(), Reference::Descriptor))
    }

    /// Adds it to `poll`, where it becomes readable at its end, and returns its index there.
    pub fn add_to(&self, poll: &mut PollSet) -> usize {
        match &self.0 {
            Reference::Descriptor(fd) => poll.add(std::os::fd::AsFd::as_fd(fd)),
            &Reference::Number(task) => poll.add_question(move || task.has_ended()),
        }
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// `ESRCH` if it has ended, `EPERM` if it belongs to another user.
    pub fn send(&self, signal: i32) -> std::io::Result<()> {
        match &self.0 {
            Reference::Descriptor(fd) => fd.send(signal),
            // Another process may get the number between the two calls: without a descriptor nothing prevents that.
            Reference::Number(task) if task.has_ended() => {
                Err(std::io::Error::from_raw_os_error(libc::ESRCH))
            }
            Reference::Number(task) => pidfd::send_to_number(task.number, signal),
        }
    }
}

impl NumberedTask {
    fn new(number: i32, is_thread: bool) -> Self {
        let start = procfs::task_state(Tid(number)).ok().map(|state| state.start);
        Self { number, start, is_thread }
    }

    fn has_ended(&self) -> bool {
        // The one question about a child that takes no descriptor: until it is waited for, its number exists.
        if let Some(has_ended) = pidfd::has_child_ended(self.number) {
            return has_ended;
        }
        match procfs::task_state(Tid(self.number)) {
            Ok(state) => {
                let is_other = self.start.is_some_and(|start| start != state.start);
                // The first thread of a process may end before the others.
                let is_last = self.is_thread || state.threads <= 1;
                is_other || (state.has_ended && is_last)
            }
            // It may be hidden, or no descriptor may be left to read with.
            Err(_) => !pidfd::number_exists(self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    fn pid(child: &Child) -> Pid {
        Pid(child.id().try_into().unwrap())
    }

    fn numbered(number: i32) -> ProcessHandle {
        ProcessHandle(Reference::Number(NumberedTask::new(number, false)))
    }

    #[test]
    fn the_end_is_seen_with_and_without_a_descriptor() {
        let mut child = sleeper();
        let handles = [ProcessHandle::of_process(pid(&child)), numbered(pid(&child).0)];
        assert!(matches!(handles[0].0, Reference::Descriptor(_)));
        let mut polls = handles.each_ref().map(|handle| {
            let mut poll = PollSet::default();
            assert_eq!(handle.add_to(&mut poll), 0);
            poll
        });
        for poll in &mut polls {
            assert_eq!(poll.wait(Some(Duration::from_millis(30))).unwrap(), 0);
        }
        handles[1].send(libc::SIGKILL).unwrap();
        for poll in &mut polls {
            // Nobody has waited for it: its number still exists.
            assert_eq!(poll.wait(None).unwrap(), 1);
            assert!(poll.ready(0).readable);
            poll.ignore(0);
            assert_eq!(poll.wait(Some(Duration::from_millis(30))).unwrap(), 0);
        }
        assert_eq!(pidfd::has_child_ended(pid(&child).0), Some(true));
        child.wait().unwrap();
        assert_eq!(pidfd::has_child_ended(pid(&child).0), None);
        assert_eq!(handles[1].send(libc::SIGKILL).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn another_process_with_the_number_is_not_the_same() {
        // The parent of this process is no child of it.
        let parent = NumberedTask::new(std::os::unix::process::parent_id().try_into().unwrap(), false);
        assert!(!parent.has_ended());
        let earlier = NumberedTask { start: parent.start.map(|start| start + 1), ..parent };
        assert!(earlier.has_ended());
        assert!(!NumberedTask { start: None, ..parent }.has_ended());
    }

    #[test]
    fn what_has_ended_before_is_over_at_once() {
        let mut child = sleeper();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut poll = PollSet::default();
        ProcessHandle::of_process(pid(&child)).add_to(&mut poll);
        ProcessHandle::of_thread(Tid(pid(&child).0)).add_to(&mut poll);
        assert_eq!(poll.wait(None).unwrap(), 2);
    }
}
