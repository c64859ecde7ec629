//! `perf_event_open(2)`, and the operations on its file descriptors.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use model::{CpuId, Pid, Tid};

use super::check;
use super::ring::RingMapping;

/// `PERF_FLAG_PID_CGROUP`: the pid argument is a file descriptor of a cgroup's directory.
const FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
/// `PERF_FLAG_FD_CLOEXEC`: no child inherits the descriptor.
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `PERF_ATTR_SIZE_VER0`: size of the smallest attr, in bytes.
const ATTR_SIZE_MIN: usize = 64;

// `_IO('$', n)` and friends of include/uapi/linux/perf_event.h, with the layout that x86, ARM and RISC-V share.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;
const IOC_ID: libc::c_ulong = 0x8008_2407;
/// `PERF_IOC_FLAG_GROUP`: the call acts on the whole group.
const FLAG_GROUP: libc::c_ulong = 1;

/// The threads that an event observes.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// One thread, on any CPU or on one.
    Thread(Tid, Option<CpuId>),
    /// Everything that runs on a CPU.
    Cpu(CpuId),
    /// The threads of a cgroup (an open directory of the hierarchy that carries `perf_event`) on a CPU.
    Cgroup(BorrowedFd<'a>, CpuId),
}

/// An open event.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
}

impl PerfEvent {
    /// Opens an event. `attr` is a `struct perf_event_attr` in native byte order, at least as long as its `size` field (offset 4). On
    /// `E2BIG` the kernel overwrites `size` with the size that it supports.
    ///
    /// # Errors
    /// `EINVAL` if `attr` is shorter than its `size` field; else those of `perf_event_open(2)`.
    pub fn open(attr: &mut [u8], subject: Subject<'_>, leader: Option<&Self>) -> io::Result<Self> {
        let stated = attr.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        if attr.len() < ATTR_SIZE_MIN || stated.is_none_or(|size| size as usize > attr.len()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let any_cpu = -1;
        let cpu_number = |cpu: CpuId| libc::c_int::try_from(cpu.0).unwrap_or(libc::c_int::MAX);
        let (pid, cpu, flag) = match subject {
            Subject::Thread(tid, cpu) => (tid.0, cpu.map_or(any_cpu, cpu_number), 0),
            Subject::Cpu(cpu) => (-1, cpu_number(cpu), 0),
            Subject::Cgroup(directory, cpu) => (directory.as_raw_fd(), cpu_number(cpu), FLAG_PID_CGROUP),
        };
        let group = leader.map_or(-1, |leader| leader.fd.as_raw_fd());
        // SAFETY: the kernel reads and writes at most `size` bytes of `attr`, which were checked to be there.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attr.as_mut_ptr(),
                pid,
                cpu,
                group,
                FLAG_FD_CLOEXEC | flag,
            )
        };
        let fd = check(libc::c_int::try_from(fd).unwrap_or(-1))?;
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Starts the event and the members of its group.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    pub fn enable(&self) -> io::Result<()> {
        self.ioctl(IOC_ENABLE, FLAG_GROUP)
    }

    /// Stops the event and the members of its group.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    pub fn disable(&self) -> io::Result<()> {
        self.ioctl(IOC_DISABLE, FLAG_GROUP)
    }

    /// Redirects the records of this event into the ring of `owner`, an event of the same CPU and clock.
    ///
    /// # Errors
    /// `EINVAL` if CPU or clock differ.
    pub fn redirect_to(&self, owner: &Self) -> io::Result<()> {
        let fd = libc::c_ulong::try_from(owner.fd.as_raw_fd())
            .map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        self.ioctl(IOC_SET_OUTPUT, fd)
    }

    /// Sets an ftrace filter on a tracepoint.
    ///
    /// # Errors
    /// `EINVAL` if the filter is malformed, or the event is not a tracepoint.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the kernel copies the string, which ends in NUL, before the call returns.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) }).map(drop)
    }

    /// Returns the id that the records of the event carry.
    ///
    /// # Errors
    /// Those of `ioctl(2)`; `ENOTTY` before Linux 3.12.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0_u64;
        // SAFETY: the kernel writes eight bytes behind the pointer, which lives until the call returns.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_ID as _, &raw mut id) })?;
        Ok(id)
    }

    /// Reads the counter values in the layout of `attr.read_format`. Returns the number of words written: 0 for a pinned event in error
    /// state.
    ///
    /// # Errors
    /// `ENOSPC` if `values` is too short.
    pub fn read(&self, values: &mut [u64]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most the length given, into memory that is ours; any bits are a u64.
        let bytes = unsafe {
            libc::read(self.fd.as_raw_fd(), values.as_mut_ptr().cast(), size_of_val::<[u64]>(values))
        };
        usize::try_from(bytes).map(|bytes| bytes / 8).map_err(|_| io::Error::last_os_error())
    }

    /// Maps a ring with `data_size` bytes for records (a power of two, at least a page).
    ///
    /// # Errors
    /// `EPERM` if the limit of locked memory is exceeded, `EBUSY` for a redirected event, `EINVAL` for a bad size or for an inherited
    /// event on any CPU.
    pub fn map_ring(&self, data_size: usize) -> io::Result<RingMapping> {
        RingMapping::map(self.fd.as_fd(), data_size)
    }

    fn ioctl(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the requests that come here take a number, not a pointer.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, argument) }).map(drop)
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the pid of this process.
pub fn own_pid() -> Pid {
    Pid(i32::try_from(std::process::id()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attr_shorter_than_it_says_never_reaches_the_kernel() {
        let mut attr = [0_u8; 64];
        attr[4..8].copy_from_slice(&128_u32.to_ne_bytes());
        let error = PerfEvent::open(&mut attr, Subject::Thread(Tid(0), None), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let error = PerfEvent::open(&mut attr[..8], Subject::Thread(Tid(0), None), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
