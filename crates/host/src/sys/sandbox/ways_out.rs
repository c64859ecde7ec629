//! Tries the ways out of the sandbox from inside: signals, locks and leases that others wait for, notifications, writing, new
//! processes and code, the network. And what reading needs still works.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::parent_id;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::{ExitStatus, run};

/// A call with its name and arguments. It must not get to the kernel.
type Attempt = (&'static str, libc::c_long, [u64; 6]);

/// Commands of `fcntl(2)` and `ioctl(2)` that the `libc` crate does not name (`linux/fcntl.h`, `asm-generic/ioctls.h`).
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const DN_ACCESS: u64 = 1;
const FIOASYNC: u64 = 0x5452;
const FIOSETOWN: u64 = 0x8901;

fn attempts(fd: u64, other: u64) -> Vec<Attempt> {
    let page = vec![0_u64; 512].leak().as_mut_ptr() as u64;
    let file = c"/proc/self/status".as_ptr() as u64;
    let at = libc::AT_FDCWD as u64;
    let fcntl = |name, command: i32, value| (name, libc::SYS_fcntl, [fd, command as u64, value, 0, 0, 0]);
    let prctl = |name, option: i32, value| (name, libc::SYS_prctl, [option as u64, value, page, 8, page, 0]);
    let ioctl = |name, request, value| (name, libc::SYS_ioctl, [fd, request, value, 0, 0, 0]);
    let open = |name, flags: i32| (name, libc::SYS_openat, [at, file, flags as u64, 0o600, 0, 0]);
    let futex = |name, operation: i32| (name, libc::SYS_futex, [page, operation as u64, 1, 1, page + 64, 0]);
    let clone = |name, flags: i32| (name, libc::SYS_clone, [flags as u64, 0, 0, 0, 0, 0]);
    let thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    vec![
        // Signals.
        ("kill", libc::SYS_kill, [other, 0, 0, 0, 0, 0]),
        ("tkill", libc::SYS_tkill, [other, 0, 0, 0, 0, 0]),
        ("tgkill", libc::SYS_tgkill, [other, other, 0, 0, 0, 0]),
        ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [other, 0, page, 0, 0, 0]),
        ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, [other, other, 0, page, 0, 0]),
        ("pidfd_open", libc::SYS_pidfd_open, [other, 0, 0, 0, 0, 0]),
        ("pidfd_send_signal", libc::SYS_pidfd_send_signal, [fd, 0, 0, 0, 0, 0]),
        ("timer_create", libc::SYS_timer_create, [0, 0, page, 0, 0, 0]),
        ("mq_open", libc::SYS_mq_open, [file, 0, 0, 0, 0, 0]),
        fcntl("F_SETOWN", libc::F_SETOWN, other),
        fcntl("F_SETOWN_EX", F_SETOWN_EX, page),
        fcntl("F_SETSIG", F_SETSIG, libc::SIGKILL as u64),
        fcntl("O_ASYNC", libc::F_SETFL, libc::O_ASYNC as u64),
        fcntl("F_SETFL", libc::F_SETFL, 0),
        ("F_SETOWN in the low half", libc::SYS_fcntl, [fd, 1 << 32 | libc::F_SETOWN as u64, other, 0, 0, 0]),
        ("F_GETFD above 32 bits", libc::SYS_fcntl, [fd, 1 << 32 | libc::F_GETFD as u64, 0, 0, 0, 0]),
        ioctl("FIOASYNC", FIOASYNC, page),
        ioctl("FIOSETOWN", FIOSETOWN, page),
        open("open O_ASYNC", libc::O_ASYNC),
        // Locks, leases and notifications.
        fcntl("F_SETLEASE", libc::F_SETLEASE, libc::F_RDLCK as u64),
        fcntl("F_NOTIFY", libc::F_NOTIFY, DN_ACCESS),
        fcntl("F_SETLK", libc::F_SETLK, page),
        fcntl("F_SETLKW", libc::F_SETLKW, page),
        fcntl("F_OFD_SETLK", libc::F_OFD_SETLK, page),
        fcntl("F_ADD_SEALS", libc::F_ADD_SEALS, 1),
        fcntl("F_SETPIPE_SZ", libc::F_SETPIPE_SZ, 1 << 20),
        ("flock", libc::SYS_flock, [fd, libc::LOCK_SH as u64, 0, 0, 0, 0]),
        ("inotify_init1", libc::SYS_inotify_init1, [0; 6]),
        ("fanotify_init", libc::SYS_fanotify_init, [0; 6]),
        futex("FUTEX_WAKE of others", libc::FUTEX_WAKE),
        futex("FUTEX_REQUEUE of others", libc::FUTEX_REQUEUE),
        futex("FUTEX_CMP_REQUEUE of others", libc::FUTEX_CMP_REQUEUE),
        futex("FUTEX_LOCK_PI of others", libc::FUTEX_LOCK_PI),
        // Other processes.
        ("ptrace", libc::SYS_ptrace, [libc::PTRACE_SEIZE as u64, other, 0, 0, 0, 0]),
        ("process_vm_writev", libc::SYS_process_vm_writev, [other, page, 1, page, 1, 0]),
        ("process_madvise", libc::SYS_process_madvise, [fd, page, 1, 21, 0, 0]),
        ("prlimit64", libc::SYS_prlimit64, [other, libc::RLIMIT_CPU as u64, page, 0, 0, 0]),
        ("setpriority", libc::SYS_setpriority, [0, other, 19, 0, 0, 0]),
        ("sched_setscheduler", libc::SYS_sched_setscheduler, [other, 0, page, 0, 0, 0]),
        ("sched_setaffinity", libc::SYS_sched_setaffinity, [other, 8, page, 0, 0, 0]),
        ("migrate_pages", libc::SYS_migrate_pages, [other, 1, page, page, 0, 0]),
        ("shmget", libc::SYS_shmget, [0, 4096, 0o1600, 0, 0, 0]),
        // Its own bonds.
        prctl("PR_SET_PDEATHSIG", libc::PR_SET_PDEATHSIG, 0),
        prctl("PR_SET_DUMPABLE", libc::PR_SET_DUMPABLE, 1),
        prctl("PR_SET_PTRACER", libc::PR_SET_PTRACER, other),
        prctl("PR_SET_CHILD_SUBREAPER", libc::PR_SET_CHILD_SUBREAPER, 1),
        prctl("PR_SET_MM", libc::PR_SET_MM, 1),
        prctl("PR_SET_VMA of another kind", libc::PR_SET_VMA, 1),
        ("personality", libc::SYS_personality, [0x0400000, 0, 0, 0, 0, 0]),
        ("seccomp", libc::SYS_seccomp, [1, 0, page, 0, 0, 0]),
        ("setresuid", libc::SYS_setresuid, [0; 6]),
        ("capset", libc::SYS_capset, [page, page, 0, 0, 0, 0]),
        ("setns", libc::SYS_setns, [fd, 0, 0, 0, 0, 0]),
        ("unshare", libc::SYS_unshare, [0; 6]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [1, page, 0, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, [5, page, 64, 0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, [page, 0, 0, 0, 0, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, [0; 6]),
        // Files.
        open("open O_WRONLY", libc::O_WRONLY),
        open("open O_RDWR", libc::O_RDWR),
        open("open O_ACCMODE", libc::O_ACCMODE),
        open("open O_TRUNC", libc::O_TRUNC),
        open("open O_CREAT", libc::O_CREAT),
        open("open O_TMPFILE", libc::O_TMPFILE | libc::O_RDWR),
        ("openat2", libc::SYS_openat2, [at, file, page, 24, 0, 0]),
        ("unlinkat", libc::SYS_unlinkat, [at, page, 0, 0, 0, 0]),
        ("renameat2", libc::SYS_renameat2, [at, page, at, page, 0, 0]),
        ("linkat", libc::SYS_linkat, [at, page, at, page, 0, 0]),
        ("symlinkat", libc::SYS_symlinkat, [page, at, page, 0, 0, 0]),
        ("mkdirat", libc::SYS_mkdirat, [at, page, 0, 0, 0, 0]),
        ("mknodat", libc::SYS_mknodat, [at, page, 0, 0, 0, 0]),
        ("fchmodat", libc::SYS_fchmodat, [at, page, 0, 0, 0, 0]),
        ("fchmod", libc::SYS_fchmod, [fd, 0, 0, 0, 0, 0]),
        ("fchown", libc::SYS_fchown, [fd, 0, 0, 0, 0, 0]),
        ("ftruncate", libc::SYS_ftruncate, [fd, 0, 0, 0, 0, 0]),
        ("fallocate", libc::SYS_fallocate, [fd, 0, 0, 1, 0, 0]),
        ("utimensat", libc::SYS_utimensat, [fd, 0, 0, 0, 0, 0]),
        ("fsetxattr", libc::SYS_fsetxattr, [fd, page, page, 1, 0, 0]),
        ("mount", libc::SYS_mount, [page, page, page, 0, 0, 0]),
        ("chroot", libc::SYS_chroot, [page, 0, 0, 0, 0, 0]),
        ("fchdir", libc::SYS_fchdir, [fd, 0, 0, 0, 0, 0]),
        // Programs, code and the network.
        ("execve", libc::SYS_execve, [file, 0, 0, 0, 0, 0]),
        ("execveat", libc::SYS_execveat, [at, file, 0, 0, 0, 0]),
        clone("clone of a process", libc::SIGCHLD),
        clone("clone with a namespace", thread | libc::CLONE_NEWNS),
        clone("clone with a pidfd", thread | libc::CLONE_PIDFD),
        ("clone3", libc::SYS_clone3, [page, 88, 0, 0, 0, 0]),
        ("mmap of code", libc::SYS_mmap, [0, 4096, libc::PROT_EXEC as u64, 0x22, u64::MAX, 0]),
        ("mprotect", libc::SYS_mprotect, [page, 4096, libc::PROT_EXEC as u64, 0, 0, 0]),
        ("pkey_mprotect", libc::SYS_pkey_mprotect, [page, 4096, 4, 0, 0, 0]),
        ("memfd_create", libc::SYS_memfd_create, [page, 0, 0, 0, 0, 0]),
        ("socket", libc::SYS_socket, [1, 1, 0, 0, 0, 0]),
        ("socketpair", libc::SYS_socketpair, [1, 1, 0, page, 0, 0]),
        ("connect", libc::SYS_connect, [fd, page, 16, 0, 0, 0]),
        ("sendmsg", libc::SYS_sendmsg, [fd, page, 0, 0, 0, 0]),
        ("ioctl TIOCSTI", libc::SYS_ioctl, [fd, libc::TIOCSTI, page, 0, 0, 0]),
        ("reboot", libc::SYS_reboot, [0; 6]),
        ("syslog", libc::SYS_syslog, [5, 0, 0, 0, 0, 0]),
    ]
}

/// Returns true if the filter stopped the call.
fn is_stopped(&(_, call, a): &Attempt) -> bool {
    // SAFETY: where the filter stops it, as it must, nothing happens. Where it does not, this is a process of the test's own, and the
    // pointers lead to a page that lives until its end.
    let result = unsafe { libc::syscall(call, a[0], a[1], a[2], a[3], a[4], a[5]) };
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
}

/// What reading recordings needs. Panics where it does not work.
fn read_as_usual() {
    let mut text = String::new();
    let file = File::open("/proc/self/status").unwrap();
    file.try_clone().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("Seccomp:\t2"), "{text}");
    assert!(std::fs::read_dir("/proc/self").unwrap().count() > 10);
    assert!(std::fs::metadata("/proc").unwrap().is_dir());
    let woken = Arc::new((Mutex::new(false), Condvar::new()));
    let (sender, receiver) = channel();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let (woken, sender) = (Arc::clone(&woken), sender.clone());
            let wait = move || {
                let mut is_woken = woken.0.lock().unwrap();
                while !*is_woken {
                    is_woken = woken.1.wait(is_woken).unwrap();
                }
                sender.send(number).unwrap();
            };
            thread::Builder::new().name("reader".to_owned()).spawn(wait).unwrap()
        })
        .collect();
    *woken.0.lock().unwrap() = true;
    woken.1.notify_all();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(receiver.try_iter().sum::<i32>(), 6);
}

#[test]
fn every_way_out_is_closed_and_reading_works() {
    const ALONE: &str = "PROF_TEST_ALONE";
    const NAME: &str = "sys::sandbox::ways_out::every_way_out_is_closed_and_reading_works";
    if std::env::var_os(ALONE).is_none() {
        // The sandbox is for processes with one thread: the test harness starts none for one test at a time.
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--test-threads=1", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&alone.stdout);
        let is_run = alone.status.success() && told.contains("1 passed");
        assert!(is_run, "{told}{}", String::from_utf8_lossy(&alone.stderr));
        return;
    }
    let ended = run(|confined| {
        confined.unwrap();
        let file = File::open("/proc/self/status").unwrap();
        let open = attempts(file.as_raw_fd() as u64, parent_id().into());
        let open: Vec<_> =
            open.iter().filter(|attempt| !is_stopped(attempt)).map(|(name, ..)| *name).collect();
        if !open.is_empty() {
            eprintln!("open: {}", open.join(", "));
            return 1;
        }
        read_as_usual();
        0
    });
    assert_eq!(ended.unwrap(), ExitStatus::Code(0));
}
