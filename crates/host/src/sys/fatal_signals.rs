//! Signals that end this process: what is still done before they do.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

use super::{memory, terminal};

/// Signals whose default action ends a process (signal(7)), but for SIGKILL and those that are read as a file
/// ([`super::signals::SignalFd`]) or that the program ignores.
const ENDING: [libc::c_int; 17] = [
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
];

/// One more than the highest signal.
const SIGNALS: usize = 65;

/// The actions that were set before, by signal. Each is written once, before our handler of that signal can run.
struct Previous(UnsafeCell<[MaybeUninit<libc::sigaction>; SIGNALS]>);

// SAFETY: it is written by `install` alone, before the handler that reads it can run; the callers of `install` are called once
// each, by threads that do not run at the same time.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new([const { MaybeUninit::zeroed() }; SIGNALS]));

/// Lets an `abort(3)` for want of memory become an orderly end.
pub(super) fn exit_before_abort() {
    install(libc::SIGABRT);
}

/// Gives the terminal back whenever a signal ends this process.
pub(super) fn restore_terminal_before_exit() {
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    ENDING.into_iter().chain(real_time).for_each(install);
}

/// Puts our handler before what is done now, except where the signal is ignored or the handler is ours already.
fn install(signal: libc::c_int) {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fatal_signal;
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    let Ok(index) = usize::try_from(signal) else { return };
    // SAFETY: the structures are plain data, for which zeros are valid, and live until the calls return. What was there before
    // is noted before ours is in its place; nobody reads it until then.
    unsafe {
        libc::sigaction(signal, ptr::null(), previous.as_mut_ptr());
        let before = previous.assume_init().sa_sigaction;
        if before == libc::SIG_IGN || before == handler as usize {
            return;
        }
        if let Some(place) = (*PREVIOUS.0.get()).get_mut(index) {
            *place = previous;
        }
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as usize;
        // On the stack for handlers, where a thread has one: a thread whose stack is used up has nothing else.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Does nothing that a signal handler may not do (signal-safety(7)).
extern "C" fn on_fatal_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if signal == libc::SIGABRT {
        memory::exit_if_abort_is_of_memory();
    }
    let index = usize::try_from(signal).unwrap_or(0);
    // SAFETY: it was written before this handler was installed, and holds what `sigaction(2)` said, or zeros, which are the
    // default action.
    let previous = unsafe { (*PREVIOUS.0.get()).get(index).map(|place| place.assume_init()) };
    if let Some(previous) = previous
        && previous.sa_sigaction != libc::SIG_DFL
        && handled(signal, &previous, info, context)
    {
        return;
    }
    terminal::restore();
    // SAFETY: numbers only. The signal is held back until this handler returns; the default action is taken then, or when the
    // instruction faults again.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Calls the handler that was there before; returns whether it has mended what happened. The standard library's own handler of
/// SIGSEGV and SIGBUS makes the default action that of the next time where it has not.
fn handled(
    signal: libc::c_int,
    previous: &libc::sigaction,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) -> bool {
    // SAFETY: what is neither the default nor ignored is a function of the form that the flags say.
    unsafe {
        if previous.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(previous.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(previous.sa_sigaction);
            handler(signal);
        }
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction != libc::SIG_DFL
    }
}
