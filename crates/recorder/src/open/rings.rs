//! The rings of each CPU, or of each thread, and how large they may be.

use std::io;
use std::sync::Arc;

use host::machine;
use host::sys::perf_event::PerfEvent;
use host::sys::ring::RingMapping;
use host::sys::system::page_size;
use model::{CpuId, Tid};

use crate::consumer::RingKind;
use crate::error::{EINVAL, ENOMEM, EPERM, Error};
use crate::ring::RingSource;

/// Bytes of sideband records per CPU.
pub(crate) const SIDEBAND_SIZE: u64 = 64 << 10;
/// The same where a CPU is recorded whole: compilers that start by the hundred filled 64 KiB before their turn came.
pub(crate) const SIDEBAND_SIZE_OF_ALL: u64 = 512 << 10;
/// The most per CPU where nothing is asked for.
const LARGEST_DEFAULT: u64 = 4 << 20;
/// The most in all where nothing is asked for.
const ALL_DEFAULT: u64 = 256 << 20;

/// The owner of rings: a CPU or a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Cpu(CpuId),
    /// On any CPU.
    Thread(Tid),
}

impl Place {
    /// Its CPU, where it is one.
    pub(crate) fn cpu(self) -> Option<CpuId> {
        match self {
            Self::Cpu(cpu) => Some(cpu),
            Self::Thread(_) => None,
        }
    }
}

/// The two rings of a CPU or of a thread.
pub(crate) struct RingPair {
    pub(crate) place: Place,
    pub(crate) sideband: RingSource,
    pub(crate) samples: Option<RingSource>,
}

/// Bytes of samples for each of `rings`: what was asked for, or what suits the machine; a power of two of pages.
pub(crate) fn wanted_size(asked: Option<u64>, rings: usize) -> u64 {
    let page = page_size() as u64;
    let rings = rings.max(1) as u64;
    let size = asked.map(|size| size.checked_next_power_of_two().unwrap_or(1 << 40)).unwrap_or_else(|| {
        let memory = machine::total_memory_kb().unwrap_or(1 << 20).saturating_mul(1024);
        let share = ALL_DEFAULT.min(memory / 32) / rings;
        let largest = share.clamp(1, LARGEST_DEFAULT);
        1 << largest.ilog2()
    });
    size.max(page)
}

/// Maps the sideband ring of `owner`, of at most `size` bytes.
pub(crate) fn map_sideband(owner: Arc<PerfEvent>, mut size: u64) -> Result<RingSource, Error> {
    loop {
        match owner.map_ring(usize_of(size)) {
            Ok(mapping) => return Ok(RingSource::new(RingKind::Sideband, mapping, vec![owner])),
            Err(error) => size = smaller(size, error)?,
        }
    }
}

/// Maps a ring of `size` bytes for each of `owners`, all alike, or smaller ones where that is too much for the limit
/// of locked memory. Returns them with their size.
pub(crate) fn map_samples(owners: &[Arc<PerfEvent>], mut size: u64) -> Result<(Vec<RingSource>, u64), Error> {
    loop {
        let mapped: io::Result<Vec<RingMapping>> =
            owners.iter().map(|owner| owner.map_ring(usize_of(size))).collect();
        match mapped {
            Ok(mappings) => {
                let rings = mappings.into_iter().zip(owners).map(|(mapping, owner)| {
                    RingSource::new(RingKind::Samples, mapping, vec![Arc::clone(owner)])
                });
                return Ok((rings.collect(), size));
            }
            Err(error) => size = smaller(size, error)?,
        }
    }
}

fn smaller(size: u64, error: io::Error) -> Result<u64, Error> {
    let half = size / 2;
    // EINVAL: more than the kernel can count in pages.
    let too_much = matches!(error.raw_os_error(), Some(EPERM | ENOMEM))
        || error.raw_os_error() == Some(EINVAL) && size > 1 << 30;
    if too_much && half >= page_size() as u64 {
        Ok(half)
    } else {
        Err(Error::Ring { size, mlock_kb: (LARGEST_DEFAULT + 2 * SIDEBAND_SIZE) / 1024, errno: error })
    }
}

fn usize_of(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX / 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_within_their_bounds() {
        assert_eq!(wanted_size(Some(1), 2), page_size() as u64);
        assert_eq!(wanted_size(Some(100_000), 2), 131_072);
        assert_eq!(wanted_size(Some(u64::MAX), 2), 1 << 40);
        for cpus in [1, 2, 64, 1000, 100_000] {
            let size = wanted_size(None, cpus);
            assert!(size.is_power_of_two() && size <= LARGEST_DEFAULT);
            assert!(size == page_size() as u64 || size * cpus as u64 <= ALL_DEFAULT);
        }
    }
}
