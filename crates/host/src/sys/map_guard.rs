//! Makes reads of a truncated mapped file return zeros and set a mark, instead of raising SIGBUS.
//!
//! Access beyond the end of a mapped file, or to a page that the disk cannot read, raises SIGBUS (mmap(2)), so whoever may write to
//! a file could end this process. Our handler checks whether the address is in a guarded map. If so, it replaces that page and all
//! following ones with zeroed memory and marks the map. The reader continues, checks the mark at its end, and discards what it
//! read. Every other SIGBUS goes to the previous handler, or ends the process.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Registers a map with the handler. Must be dropped before the map is unmapped.
#[derive(Debug)]
pub(super) struct Guard(&'static Slot);

/// Maximum size of a guarded map: a [`Slot`] has 28 bits for the number of pages.
pub(super) const MAX_BYTES: usize = ((1 << COUNT_BITS) - 1) * PAGE;

/// The smallest page size of all architectures. Maps start at a multiple of it.
const PAGE: usize = 4096;
const COUNT_BITS: u32 = 28;

/// One registered map. The handler reads it at any moment in any thread, so slots are never freed, only reused.
#[derive(Default, Debug)]
struct Slot {
    /// The number of the first page, and in the lower [`COUNT_BITS`] bits the number of pages; 0 for no map. One word, so that the
    /// handler never combines the start of one map with the length of another.
    pages: AtomicU64,
    /// True if pages were replaced.
    has_faulted: AtomicBool,
    next: AtomicPtr<Slot>,
}

/// All slots, as a list that only grows.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// The slots without a map.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

impl Guard {
    /// Guards a map that starts at a page boundary. Installs the handler on the first call.
    pub(super) fn new(map: &[u8]) -> Self {
        install();
        // A panic in another thread leaves the list valid.
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

    /// Returns true if the map may have returned zeros that are not in the file.
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

/// The previous handler. Written once, before ours can run.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: it is written by `install` alone, once, before the handler that reads it can run.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::zeroed()));

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        // SAFETY: the structure is plain data, for which zeros are valid, and lives until the calls return. The previous handler
        // is stored first, because a thread may fault as soon as ours is installed.
        unsafe {
            libc::sigaction(libc::SIGBUS, ptr::null(), (*PREVIOUS.0.get()).as_mut_ptr());
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as usize;
            // SA_ONSTACK, like the standard library's handler of SIGBUS.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    });
}

/// Handles SIGBUS. Async-signal-safe (signal-safety(7)): reads atomics and makes system calls.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid structure; of a fault it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // sigaction(2): codes above 0 are the kernel's own.
    let is_fault = code > 0;
    if !(is_fault && replace_pages(address)) {
        pass_on(signal, is_fault, info, context);
    }
}

/// Replaces the page at `address` and all following ones of its map with zeroed memory. Returns false if no guarded map contains it.
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

/// Passes a signal that does not concern a guarded map to the previous handler, or restores the default action.
fn pass_on(signal: libc::c_int, is_fault: bool, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: it was written before this handler was installed. What it names, if it is no default, was installed as a
    // handler of this form. The default action is taken when the instruction faults again, or by raising the signal again: it is
    // blocked until this handler returns.
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
