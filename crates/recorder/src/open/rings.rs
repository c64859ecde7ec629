//! Maps the rings of each CPU, or of each thread, as large as the limit of locked memory allows.

use std::io;
use std::sync::Arc;

use host::machine;
use host::sys::perf_event::PerfEvent;
use host::sys::ring::RingMapping;
use host::sys::system::page_size;
use model::{CpuId, Tid};

use crate::consumer::RingKind;
use crate::error::{EAGAIN, EINVAL, ENOMEM, EPERM, Error};
use crate::ring::RingSource;

/// Bytes of a ring for sideband records.
pub const SIDEBAND_SIZE: u64 = 64 << 10;
/// The same where a CPU is recorded whole: compilers that were started by the hundred filled 64 KiB between two rounds.
pub(crate) const WHOLE_CPU_SIDEBAND_BYTES: u64 = 512 << 10;
/// Maximum default size of a ring for samples, in bytes.
const MAX_DEFAULT_RING_BYTES: u64 = 4 << 20;
/// Maximum default size of all rings for samples together, in bytes.
const MAX_DEFAULT_TOTAL_BYTES: u64 = 256 << 20;
/// By default, all rings for samples together take at most this fraction (1/N) of main memory.
const MEMORY_PER_RING_BYTE: u64 = 32;

/// Returns the default size of each of `rings` rings for samples on a machine with `memory_kb` KiB of main memory, in bytes: a power
/// of two, at least a page.
pub fn default_ring_bytes(memory_kb: Option<u64>, rings: usize) -> u64 {
    let memory = memory_kb.unwrap_or(1 << 20).saturating_mul(1024);
    let share = MAX_DEFAULT_TOTAL_BYTES.min(memory / MEMORY_PER_RING_BYTE) / rings.max(1) as u64;
    let largest = share.clamp(1, MAX_DEFAULT_RING_BYTES);
    (1 << largest.ilog2()).max(page_size() as u64)
}

/// Returns the value of `kernel.perf_event_mlock_kb` that permits a ring for samples of this size per CPU, with the sideband ring and
/// the control page of each.
pub fn mlock_kb_for(ring_bytes: u64) -> u64 {
    ring_bytes.saturating_add(2 * SIDEBAND_SIZE).div_ceil(1024)
}

/// The owner of rings: a CPU or a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RingOwner {
    Cpu(CpuId),
    /// A thread, on any CPU.
    Thread(Tid),
}

impl RingOwner {
    /// Returns the CPU; `None` for a thread.
    pub(crate) fn cpu(self) -> Option<CpuId> {
        match self {
            Self::Cpu(cpu) => Some(cpu),
            Self::Thread(_) => None,
        }
    }
}

/// The two rings of a CPU or of a thread.
pub(crate) struct RingPair {
    pub(crate) place: RingOwner,
    pub(crate) sideband: RingSource,
    pub(crate) samples: Option<RingSource>,
}

/// Bytes of samples for each of `rings`: what was asked for, or what suits the machine; a power of two of pages.
pub(crate) fn wanted_size(asked: Option<u64>, rings: usize) -> u64 {
    match asked {
        Some(size) => size.checked_next_power_of_two().unwrap_or(1 << 40).max(page_size() as u64),
        None => default_ring_bytes(machine::total_memory_kb(), rings),
    }
}

/// Maps the sideband ring of `owner`, of at most `size` bytes.
pub(crate) fn map_sideband(owner: Arc<PerfEvent>, size: u64) -> Result<RingSource, Error> {
    let fitted = map_fitting(size, |size| owner.map_ring(usize_of(size)))?;
    Ok(RingSource::new(RingKind::Sideband, fitted.mapped, vec![owner]))
}

/// Maps a ring of `size` bytes for each of `owners`; where that is refused, smaller ones, all of the same size.
pub(crate) fn map_samples(
    owners: &[Arc<PerfEvent>],
    size: u64,
) -> Result<FittedMapping<Vec<RingSource>>, Error> {
    let fitted = map_fitting(size, |size| {
        owners.iter().map(|owner| owner.map_ring(usize_of(size))).collect::<io::Result<Vec<RingMapping>>>()
    })?;
    let rings = fitted
        .mapped
        .into_iter()
        .zip(owners)
        .map(|(mapping, owner)| RingSource::new(RingKind::Samples, mapping, vec![Arc::clone(owner)]));
    Ok(FittedMapping { mapped: rings.collect(), size: fitted.size, refused: fitted.refused })
}

/// A mapping of the largest size that was allowed.
#[derive(Debug)]
pub(crate) struct FittedMapping<T> {
    pub(crate) mapped: T,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// The errno with which the next larger size was refused; `None` where the first size was allowed.
    pub(crate) refused: Option<i32>,
}

/// Calls `map` with `size` bytes, then with half as many each time until it succeeds.
///
/// # Errors
/// Where the refusal is not about the size, or not even a page is allowed.
pub(crate) fn map_fitting<T>(
    mut size: u64,
    mut map: impl FnMut(u64) -> io::Result<T>,
) -> Result<FittedMapping<T>, RingRefused> {
    let mut refused = None;
    loop {
        match map(size) {
            Ok(mapped) => return Ok(FittedMapping { mapped, size, refused }),
            Err(error) => {
                refused = error.raw_os_error();
                size = smaller_size(size, error)?;
            }
        }
    }
}

/// A ring of `size` bytes was refused, and a smaller one would be, too.
#[derive(Debug)]
pub(crate) struct RingRefused {
    size: u64,
    pub(crate) errno: io::Error,
}

impl From<RingRefused> for Error {
    fn from(RingRefused { size, errno }: RingRefused) -> Self {
        Self::Ring { size, mlock_kb: mlock_kb_for(MAX_DEFAULT_RING_BYTES), errno }
    }
}

fn smaller_size(size: u64, errno: io::Error) -> Result<u64, RingRefused> {
    let half = size / 2;
    // EINVAL: more than the kernel can count in pages.
    let too_much = matches!(errno.raw_os_error(), Some(EPERM | EAGAIN | ENOMEM))
        || errno.raw_os_error() == Some(EINVAL) && size > 1 << 30;
    if too_much && half >= page_size() as u64 { Ok(half) } else { Err(RingRefused { size, errno }) }
}

fn usize_of(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX / 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{EMFILE, ENODEV};

    #[test]
    fn sizes_are_powers_of_two_within_their_bounds() {
        assert_eq!(wanted_size(Some(1), 2), page_size() as u64);
        assert_eq!(wanted_size(Some(100_000), 2), 131_072);
        assert_eq!(wanted_size(Some(u64::MAX), 2), 1 << 40);
        for cpus in [1, 2, 64, 1000, 100_000] {
            let size = wanted_size(None, cpus);
            assert!(size.is_power_of_two() && size <= MAX_DEFAULT_RING_BYTES);
            assert!(size == page_size() as u64 || size * cpus as u64 <= MAX_DEFAULT_TOTAL_BYTES);
        }
    }

    #[test]
    fn rings_shrink_where_that_helps_and_say_what_refused_them() {
        let page = page_size() as u64;
        let refuse_above =
            |most: u64, code: i32| {
                map_fitting(16 * page, move |size| {
                    if size > most { Err(io::Error::from_raw_os_error(code)) } else { Ok(()) }
                })
            };
        for code in [EPERM, EAGAIN, ENOMEM] {
            let fitted = refuse_above(4 * page, code).unwrap();
            assert_eq!((fitted.size, fitted.refused), (4 * page, Some(code)));
        }
        let fitted = refuse_above(16 * page, EPERM).unwrap();
        assert_eq!((fitted.size, fitted.refused), (16 * page, None));
        let errors = [(EPERM, 0), (ENOMEM, 0), (EMFILE, 8 * page), (ENODEV, 8 * page)];
        let sentences =
            errors.map(|(code, most)| Error::from(refuse_above(most, code).unwrap_err()).to_string());
        assert!(sentences[0].contains("(EPERM); the limit of locked memory"), "{}", sentences[0]);
        assert!(sentences[1].contains("(ENOMEM); the machine"), "{}", sentences[1]);
        assert!(sentences[2].contains("(EMFILE); all file descriptors"), "{}", sentences[2]);
        assert!(sentences[3].ends_with("(ENODEV)"), "{}", sentences[3]);
        assert!(sentences[1..].iter().all(|sentence| !sentence.contains("locked")), "{sentences:?}");
    }
}
