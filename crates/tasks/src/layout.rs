//! Where the runtime keeps what is read of a goroutine: offsets in its `g` (Go's `src/runtime/runtime2.go`).

/// Offsets in a `g`, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// `sched.sp`, `sched.pc`, `sched.bp`: where it goes on.
    pub(crate) sp: usize,
    pub(crate) pc: usize,
    pub(crate) bp: usize,
    /// `atomicstatus`
    pub(crate) status: usize,
    pub(crate) goid: usize,
    pub(crate) waitsince: usize,
    pub(crate) waitreason: usize,
    /// `gopc`: the return address of the `go` statement that started it.
    pub(crate) gopc: usize,
}

impl Layout {
    /// `stack.lo` and `stack.hi` begin every `g`.
    pub(crate) const STACK: usize = 0;

    /// Returns the layout of a minor version of Go 1 on a machine of 64 bits; `None` for versions that were not looked at. As `debug/dwarf`
    /// reads it in programs that 1.20.14, 1.21.13, 1.22.12, 1.23.8, 1.24.5, 1.25.3 and 1.26.8 have built.
    pub(crate) fn of_version(minor: u32) -> Option<Self> {
        let (bp, status, gopc) = match minor {
            20 => (104, 144, 296),
            21 | 22 => (104, 144, 280),
            23 | 24 => (104, 152, 288),
            25 => (96, 144, 280),
            26 => (96, 144, 288),
            _ => return None,
        };
        let (goid, waitsince, waitreason) = (status + 8, status + 24, status + 32);
        Some(Self { sp: 56, pc: 64, bp, status, goid, waitsince, waitreason, gopc })
    }

    /// Returns how many bytes of a `g` have all of these.
    pub(crate) fn size(&self) -> usize {
        let Self { sp, pc, bp, status, goid, waitsince, waitreason, gopc } = *self;
        let last = [sp, pc, bp, status, goid, waitsince, waitreason, gopc].into_iter().max();
        last.unwrap_or_default().saturating_add(size_of::<u64>())
    }
}
