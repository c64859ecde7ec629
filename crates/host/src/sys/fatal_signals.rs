//! Calls functions before a signal ends this process: those that restore the terminal, and report exhausted memory.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use super::signals;

/// Signals whose default action ends a process (signal(7)), except SIGKILL, those that [`super::signals::SignalFd`] reads and those
/// that the program ignores.
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

/// The highest signal number plus one.
const SIGNALS: usize = 65;

/// The previous actions, by signal. Each is written once, before our handler of that signal can run.
struct Previous(UnsafeCell<[MaybeUninit<libc::sigaction>; SIGNALS]>);

// SAFETY: it is written by `install` alone, before the handler that reads it can run; the callers of `install` are called once
// each, by threads that do not run at the same time.
unsafe impl Sync for Previous {}

/// Called first at an `abort(3)`.
static ON_ABORT: OnceLock<fn()> = OnceLock::new();
/// Called before a signal ends this process.
static ON_END: OnceLock<fn()> = OnceLock::new();

static PREVIOUS: Previous = Previous(UnsafeCell::new([const { MaybeUninit::zeroed() }; SIGNALS]));

/// Calls an async-signal-safe function before an `abort(3)` ends this process. Only the first call has an effect.
pub(super) fn call_before_abort(function: fn()) {
    ON_ABORT.get_or_init(|| function);
    install(libc::SIGABRT);
}

/// Calls an async-signal-safe function before a signal ends this process. Only the first call has an effect.
pub(super) fn call_before_end(function: fn()) {
    ON_END.get_or_init(|| function);
    ENDING.into_iter().chain(signals::real_time()).for_each(install);
}

/// Installs our handler, which calls the previous one, unless the signal is ignored or the handler is installed already.
fn install(signal: libc::c_int) {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fatal_signal;
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    let Ok(index) = usize::try_from(signal) else { return };
    // SAFETY: the structures are plain data, for which zeros are valid, and live until the calls return. The previous action
    // is stored before our handler is installed; nobody reads it until then.
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
        // SA_ONSTACK: after a stack overflow, a thread has only its stack for handlers.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Handles a fatal signal. Calls only async-signal-safe functions (signal-safety(7)).
extern "C" fn on_fatal_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if signal == libc::SIGABRT
        && let Some(function) = ON_ABORT.get()
    {
        function();
    }
    let index = usize::try_from(signal).unwrap_or(0);
    // SAFETY: it was written before this handler was installed, and holds what `sigaction(2)` returned, or zeros, which are the
    // default action.
    let previous = unsafe { (*PREVIOUS.0.get()).get(index).map(|place| place.assume_init()) };
    if let Some(previous) = previous
        && previous.sa_sigaction != libc::SIG_DFL
        && call_previous(signal, &previous, info, context)
    {
        return;
    }
    if let Some(function) = ON_END.get() {
        function();
    }
    // SAFETY: numbers only. The signal is blocked until this handler returns. Then the default action happens, or when the
    // instruction faults again.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Calls the previous handler, and returns true if it resolved the fault. If it did not, the standard library's handler of SIGSEGV
/// and SIGBUS restores the default action, which is how we know.
fn call_previous(
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
