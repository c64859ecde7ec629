//! What a thread waits for, by the functions of the kernel that it waits in.

use model::Blocked;

/// Functions of the kernel by the beginnings of their names, and what who waits in them waits for. Of Linux 4.19 to 6.18:
/// names stay for what is no longer called so.
const CAUSES: &[(&str, &str)] = &[
    ("futex_", "futex"),
    ("__futex_wait", "futex"),
    ("do_nanosleep", "sleep"),
    ("hrtimer_nanosleep", "sleep"),
    ("wait_for_vfork_done", "vfork child"),
    ("do_wait", "child"),
    ("__do_wait", "child"),
    ("pipe_read", "pipe read"),
    ("anon_pipe_read", "pipe read"),
    ("pipe_write", "pipe write"),
    ("anon_pipe_write", "pipe write"),
    ("pipe_wait", "pipe"),
    ("wait_for_partner", "fifo open"),
    ("eventfd_read", "eventfd"),
    ("timerfd_read", "timerfd"),
    ("inotify_read", "inotify"),
    ("signalfd_read", "signalfd"),
    ("n_tty_read", "terminal read"),
    ("n_tty_write", "terminal write"),
    ("inet_csk_accept", "socket accept"),
    ("unix_accept", "socket accept"),
    ("inet_stream_connect", "socket connect"),
    ("__inet_stream_connect", "socket connect"),
    ("inet_wait_for_connect", "socket connect"),
    ("unix_wait_for_peer", "socket send"),
    ("sock_alloc_send_pskb", "socket send"),
    ("sk_stream_wait_memory", "socket send"),
    ("tcp_sendmsg", "socket send"),
    ("sk_wait_data", "socket receive"),
    ("tcp_recvmsg", "socket receive"),
    ("unix_stream_", "socket receive"),
    ("__skb_wait_for_more_packets", "socket receive"),
    ("__skb_recv_udp", "socket receive"),
    ("vsock_", "vsock"),
    ("do_semtimedop", "semaphore"),
    ("__do_semtimedop", "semaphore"),
    ("do_msgrcv", "message queue"),
    ("do_msgsnd", "message queue"),
    ("wq_sleep", "message queue"),
    ("locks_lock_inode_wait", "file lock"),
    ("fcntl_setlk", "file lock"),
    ("flock_lock_inode_wait", "file lock"),
    ("do_coredump", "core dump"),
    ("ptrace_stop", "tracer"),
    ("do_signal_stop", "stop signal"),
    ("do_freezer_trap", "freezer"),
    ("mutex_lock", "kernel mutex"),
    ("__mutex_lock", "kernel mutex"),
    ("rwsem_down_", "kernel rwsem"),
    ("synchronize_rcu", "RCU grace period"),
    ("wait_rcu_", "RCU grace period"),
    ("jbd2_log_wait_commit", "disk sync"),
    ("ext4_sync_file", "disk sync"),
    ("btrfs_sync_file", "disk sync"),
    ("xfs_file_fsync", "disk sync"),
    ("balance_dirty_pages", "dirty pages"),
    ("fuse_", "FUSE"),
    ("nfs_", "NFS"),
    ("rpc_", "RPC"),
    ("p9_", "9p"),
    ("virtio_fs_", "FUSE"),
    ("io_schedule", "disk"),
    ("folio_wait_", "disk"),
    ("wait_on_page_bit", "disk"),
    ("blk_", "disk"),
    ("submit_bio_wait", "disk"),
];

/// Functions that event loops rest in.
const EVENTS: &[(&str, &str)] = &[
    ("ep_poll", "epoll"),
    ("do_epoll_wait", "epoll"),
    ("do_sys_poll", "poll"),
    ("do_poll", "poll"),
    ("do_select", "select"),
    ("core_sys_select", "select"),
    ("io_cqring_wait", "io_uring"),
    ("do_sigtimedwait", "signal"),
    ("sigsuspend", "signal"),
    ("do_sigsuspend", "signal"),
    ("__do_sys_pause", "signal"),
    ("read_events", "aio"),
    ("io_wq_worker", "io_uring worker"),
];

/// Functions in which the kernel handles a page fault: what it waits for then, the program did not ask for.
const FAULTS: &[&str] =
    &["handle_mm_fault", "do_user_addr_fault", "exc_page_fault", "do_page_fault", "__do_fault"];

/// Returns the cause for which a thread with these functions of the kernel on its stack, innermost first, waits.
/// Without any it is not known.
pub(crate) fn cause<'f>(
    functions: impl Iterator<Item = &'f str> + Clone,
    is_uninterruptible: bool,
) -> Blocked {
    // A system call that touches memory faults within it: what it would have done has not begun.
    if functions.clone().any(|function| FAULTS.contains(&function)) {
        return Blocked::For("page fault".to_owned());
    }
    // How a file system carries out a request to write to the disk does not matter: the request has one name.
    let call = || functions.clone().filter_map(system_call).last();
    if let Some(Blocked::For(request)) = call()
        && request.contains("sync")
    {
        return Blocked::For(request);
    }
    let within = |table: &[(&str, &str)], function: &str| {
        table.iter().find(|(begin, _)| function.starts_with(begin)).map(|(_, cause)| (*cause).to_owned())
    };
    // The outermost that is known says most: what is read from a pipe takes the pipe's mutex.
    let mut found = None;
    for function in functions.clone() {
        if let Some(events) = within(EVENTS, function) {
            found = Some(Blocked::Events(events));
        } else if let Some(cause) = within(CAUSES, function) {
            // Below a name that says more, the disk, a lock and the like say how that waits.
            found = Some(Blocked::For(cause));
        }
    }
    let rests = || rests_in_its_loop(functions.clone()).then(|| Blocked::Events("kernel work".to_owned()));
    found.or_else(rests).or_else(call).unwrap_or(if is_uninterruptible {
        Blocked::Uninterruptible
    } else {
        Blocked::Somehow
    })
}

/// Returns true for a thread of the kernel that sleeps in its own function, the one that `kthread` calls: it has nothing to do.
fn rests_in_its_loop<'f>(functions: impl Iterator<Item = &'f str>) -> bool {
    let mut rest = functions.skip_while(|function| function.trim_start_matches('_').starts_with("schedule"));
    let its_own = rest.next();
    its_own == Some("rcu_gp_fqs_loop") || its_own.is_some() && rest.next() == Some("kthread")
}

/// Combines the cause by the functions of the kernel with the cause by the thread's own request: the kernel's stack gives the kind of
/// wait, the system call its object.
pub(crate) fn both(known: Blocked, said: Blocked) -> Blocked {
    match (known, said) {
        (Blocked::For(known), Blocked::For(said)) if said.starts_with(&known) => Blocked::For(said),
        (Blocked::For(known), Blocked::For(said)) if said.contains('→') => {
            Blocked::For(format!("{known}, {said}"))
        }
        (Blocked::Somehow | Blocked::Uninterruptible | Blocked::SinceBefore, said) => said,
        (known, _) => known,
    }
}

/// The system call of a function that the kernel enters it by: `__x64_sys_read`, `__do_sys_read`, `ksys_read`.
fn system_call(function: &str) -> Option<Blocked> {
    const ENTRIES: [&str; 9] = [
        "__x64_sys_",
        "__ia32_sys_",
        "__arm64_sys_",
        "__riscv_sys_",
        "__do_sys_",
        "__se_sys_",
        "ksys_",
        "__sys_",
        "SyS_",
    ];
    let name = ENTRIES.iter().find_map(|entry| function.strip_prefix(entry))?;
    Some(Blocked::For(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_what_the_program_asked_for() {
        let events = |what: &str| Blocked::Events(what.to_owned());
        let waits = |what: &str| Blocked::For(what.to_owned());
        let table: [(&[&str], Blocked); 14] = [
            (
                &["schedule", "futex_wait_queue", "__futex_wait", "do_futex", "__x64_sys_futex"],
                waits("futex"),
            ),
            (&["schedule", "anon_pipe_read", "vfs_read", "ksys_read"], waits("pipe read")),
            (&["schedule", "mutex_lock", "pipe_read", "vfs_read", "ksys_read"], waits("pipe read")),
            (
                &["schedule_hrtimeout_range", "ep_poll", "do_epoll_wait", "__x64_sys_epoll_wait"],
                events("epoll"),
            ),
            (
                &["io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault"],
                waits("page fault"),
            ),
            (&["io_schedule", "folio_wait_bit_common", "filemap_read", "ksys_read"], waits("disk")),
            (
                &["io_schedule", "folio_wait_bit", "ext4_sync_file", "do_fsync", "__x64_sys_fdatasync"],
                waits("fdatasync"),
            ),
            (
                &["schedule", "jbd2_log_wait_commit", "ext4_sync_file", "vfs_write", "ksys_write"],
                waits("disk sync"),
            ),
            (&["schedule", "somewhere", "ksys_ioctl", "__x64_sys_ioctl", "do_syscall_64"], waits("ioctl")),
            (&["schedule", "kthread"], Blocked::Somehow),
            (&["__schedule", "schedule", "worker_thread", "kthread", "ret_from_fork"], events("kernel work")),
            (&["__schedule", "schedule", "schedule_timeout", "kcompactd", "kthread"], events("kernel work")),
            (
                &[
                    "schedule",
                    "io_schedule",
                    "blk_mq_get_tag",
                    "process_one_work",
                    "worker_thread",
                    "kthread",
                ],
                waits("disk"),
            ),
            (&[], Blocked::Somehow),
        ];
        for (functions, expected) in table {
            assert_eq!(cause(functions.iter().copied(), false), expected, "{functions:?}");
        }
        assert_eq!(cause(["schedule"].into_iter(), true), Blocked::Uninterruptible);
        assert_eq!(both(waits("futex"), waits("futex 0x10")), waits("futex 0x10"));
        assert_eq!(both(waits("disk"), waits("read fd 5 → /x")), waits("disk, read fd 5 → /x"));
        assert_eq!(both(waits("page fault"), waits("socket receive")), waits("page fault"));
        assert_eq!(both(Blocked::SinceBefore, events("epoll")), events("epoll"));
    }
}
