//! `enum perf_callchain_context`: marks inside a call chain that say where the following addresses lie.

/// The meaning of a value of a call chain for the addresses after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Context {
    /// `PERF_CONTEXT_HV`: the hypervisor.
    Hypervisor,
    /// `PERF_CONTEXT_KERNEL`
    Kernel,
    /// `PERF_CONTEXT_USER`
    User,
    /// `PERF_CONTEXT_USER_DEFERRED`: the next value is a cookie; the user addresses come in a CALLCHAIN_DEFERRED
    /// record.
    UserDeferred,
    /// `PERF_CONTEXT_GUEST`
    Guest,
    /// `PERF_CONTEXT_GUEST_KERNEL`
    GuestKernel,
    /// `PERF_CONTEXT_GUEST_USER`
    GuestUser,
    /// A mark that this version does not know.
    Unknown,
}

/// `PERF_CONTEXT_HV`
pub const HYPERVISOR: u64 = -32_i64 as u64;
/// `PERF_CONTEXT_KERNEL`
pub const KERNEL: u64 = -128_i64 as u64;
/// `PERF_CONTEXT_USER`
pub const USER: u64 = -512_i64 as u64;
/// `PERF_CONTEXT_USER_DEFERRED`
pub const USER_DEFERRED: u64 = -640_i64 as u64;
/// `PERF_CONTEXT_GUEST`
pub const GUEST: u64 = -2048_i64 as u64;
/// `PERF_CONTEXT_GUEST_KERNEL`
pub const GUEST_KERNEL: u64 = -2176_i64 as u64;
/// `PERF_CONTEXT_GUEST_USER`
pub const GUEST_USER: u64 = -2560_i64 as u64;
/// `PERF_CONTEXT_MAX`: every value from here up is a mark, no address.
pub const MAX: u64 = -4095_i64 as u64;

impl Context {
    /// The mark that `value` is, or `None` for an address.
    #[inline]
    pub fn from_value(value: u64) -> Option<Self> {
        if value < MAX {
            return None;
        }
        Some(match value {
            HYPERVISOR => Self::Hypervisor,
            KERNEL => Self::Kernel,
            USER => Self::User,
            USER_DEFERRED => Self::UserDeferred,
            GUEST => Self::Guest,
            GUEST_KERNEL => Self::GuestKernel,
            GUEST_USER => Self::GuestUser,
            _ => Self::Unknown,
        })
    }
}
