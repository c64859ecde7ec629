//! What happens when a mapped file shrinks under its reader: zeros and a mark instead of death by SIGBUS.
//!
//! Touching a page beyond the end of a mapped file, or one that the disk does not give, raises SIGBUS (mmap(2)). Anybody who
//! may write to a file that we read could so end this process. The handler here looks whether the address lies in one of our
//! maps of files. If so, it puts zeroed memory in the place of that page and all behind it, and marks the map; the reader goes
//! on, finds the mark when it has finished, and throws away what it read. Every other SIGBUS goes to the handler that was
//! there before, or ends the process as it always did.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// A map that the handler knows. Dropped, the handler forgets it: before the map goes.
#[derive(Debug)]
pub(super) struct Guard(&'static Slot);

/// Maps beyond this many bytes cannot be guarded: a [`Slot`] has 28 bits for the number of pages.
pub(super) const MAX_BYTES: usize = ((1 << COUNT_BITS) - 1) * PAGE;

/// The smallest page of every architecture: maps begin at a multiple of it.
const PAGE: usize = 4096;
const COUNT_BITS: u32 = 28;

/// One map, as the handler reads it: at any moment, in any thread. It is never freed, but taken for another map.
#[derive(Default, Debug)]
struct Slot {
    /// The number of the first page, and in the lower [`COUNT_BITS`] bits how many there are; 0 for no map. One number, so
    /// that nobody sees the start of one map with the length of another.
    pages: AtomicU64,
    /// True if pages were replaced.
    has_faulted: AtomicBool,
    next: AtomicPtr<Slot>,
}

/// All slots, in a list that only grows.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// Those without a map.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

impl Guard {
    /// Guards a map that begins at a page. Installs the handler the first time.
    pub(super) fn new(map: &[u8]) -> Self {
        install();
        // A panic elsewhere does not make the list wrong.
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = free.unwrap_or_else(|| {
            let slot: &'static Slot = Box::leak(Box::default());
            let _ = SLOTS.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
                slot.next.store(head, Ordering::Relaxed);
                Some(ptr::from_ref(slot).cast_mut())
            });
            slot
        });
        let first = (map.as_ptr() as usize / PAGE) as u64;
        let count = map.len().min(MAX_BYTES).div_ceil(PAGE) as u64;
        slot.has_faulted.store(false, Ordering::Relaxed);
        slot.pages.store(first << COUNT_BITS | count, Ordering::Release);
        Self(slot)
    }

    /// Returns true if what was read from the map may be zeros that are not in the file.
    pub(super) fn has_faulted(&self) -> bool {
        self.0.has_faulted.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.pages.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

impl Slot {
    fn range(&self) -> Range<usize> {
        let pages = self.pages.load(Ordering::Acquire);
        let start = (pages >> COUNT_BITS) as usize * PAGE;
        start..start + (pages & ((1 << COUNT_BITS) - 1)) as usize * PAGE
    }
}

/// The handler that was there before ours. Written once, before ours can run.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: it is written by `install` alone, once, before the handler that reads it can run.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::zeroed()));

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        // SAFETY: the structure is plain data, for which zeros are valid, and lives until the calls return. The handler that
        // was there is asked for first, as a thread may fault as soon as ours is in its place.
        unsafe {
            libc::sigaction(libc::SIGBUS, ptr::null(), (*PREVIOUS.0.get()).as_mut_ptr());
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as usize;
            // On the stack for handlers, where a thread has one, as the standard library's own handler of SIGBUS.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    });
}

/// Does nothing that a signal handler may not do (signal-safety(7)): reads atomics, and asks the kernel.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid structure; of a fault it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // sigaction(2): codes above 0 are the kernel's own.
    let is_fault = code > 0;
    if !(is_fault && replace_pages(address)) {
        pass_on(signal, is_fault, info, context);
    }
}

/// Puts zeroed memory in the place of the page at `address` and all that follow in its map; false where no map has it.
fn replace_pages(address: usize) -> bool {
    let mut slot = SLOTS.load(Ordering::Acquire);
    // SAFETY: slots are never freed, and are in the list when they are complete.
    while let Some(known) = unsafe { slot.as_ref() } {
        let range = known.range();
        if range.contains(&address) {
            known.has_faulted.store(true, Ordering::Relaxed);
            let page = address / PAGE * PAGE;
            // SAFETY: the range is a map of ours: its guard lives, and goes before it does. It stays readable memory of the
            // same extent, so that no reference into it dangles. errno belongs to the code that was interrupted.
            return unsafe {
                let errno = *libc::__errno_location();
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
                let length = range.end - page;
                let mapped = libc::mmap(page as *mut libc::c_void, length, libc::PROT_READ, flags, -1, 0);
                *libc::__errno_location() = errno;
                mapped != libc::MAP_FAILED
            };
        }
        slot = known.next.load(Ordering::Acquire);
    }
    false
}

/// Does with a signal that is not ours what would have been done without us.
fn pass_on(signal: libc::c_int, is_fault: bool, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: it was written before this handler was installed. What it names, if it is no default, was installed as a
    // handler of this form. The default action is taken when the instruction faults again, or by the signal sent anew: it is
    // held back until this handler returns.
    unsafe {
        let previous = (*PREVIOUS.0.get()).assume_init();
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
