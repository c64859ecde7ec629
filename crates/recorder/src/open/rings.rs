//! Maps the rings of each CPU, or of each thread, as large as the limit of locked memory allows.

use std::io;
use std::sync::Arc;

use host::sys::perf_event::PerfEvent;
use host::sys::system::page_size;
use model::{CpuId, Tid};

use crate::consumer::RingKind;
use crate::error::{EAGAIN, EINVAL, ENOMEM, EPERM, Error};
use crate::notice::Notice;
use crate::plan::{MAX_DEFAULT_RING_BYTES, SIDEBAND_SIZE, mlock_kb_for};
use crate::ring::{RingSource, drain_whole};

/// Bytes of a ring for sideband records where a CPU is recorded whole: compilers that were started by the hundred filled 64 KiB between
/// two rounds.
const WHOLE_CPU_SIDEBAND_BYTES: u64 = 512 << 10;

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
    pub(super) owner: RingOwner,
    pub(crate) sideband: RingSource,
    pub(crate) samples: Option<RingSource>,
}

/// Instances of events in one place: one element per event, `None` for those that are not open there.
pub(crate) type Instances = Vec<Option<Arc<PerfEvent>>>;

/// The rings of all events, until their readers take them.
#[derive(Default)]
pub(crate) struct Rings {
    pairs: Vec<RingPair>,
    /// Bytes of each ring for samples that are asked for.
    wanted: u64,
    /// Bytes of each ring for samples; 0 as long as there is none.
    pub(crate) size: u64,
    /// The errno with which larger rings were refused.
    pub(super) refused: Option<i32>,
}

impl Rings {
    /// Makes rings for samples of at most `wanted` bytes each; none is mapped yet.
    pub(super) fn new(wanted: u64) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// The number of CPUs, or of threads, that have rings.
    pub(crate) fn count(&self) -> usize {
        self.pairs.len()
    }

    /// Takes the rings.
    pub(super) fn take(&mut self) -> Vec<RingPair> {
        std::mem::take(&mut self.pairs)
    }

    /// Lets the sideband event `event` of `owner` write into its ring; maps one where there is none. `is_inherited` is true if
    /// that event is one of a thread and what it starts.
    pub(super) fn add_sideband(
        &mut self,
        owner: RingOwner,
        event: &Arc<PerfEvent>,
        is_inherited: bool,
    ) -> Result<(), Error> {
        if let Some(rings) = self.pairs.iter_mut().find(|rings| rings.owner == owner) {
            redirect(event, &rings.sideband.events)?;
            rings.sideband.events.push(Arc::clone(event));
            return Ok(());
        }
        let is_of_all = !is_inherited && owner.cpu().is_some();
        let size = if is_of_all { WHOLE_CPU_SIDEBAND_BYTES } else { SIDEBAND_SIZE };
        let fitted = map_fitting(size.min(self.wanted), |size| event.map_ring(usize_of(size)))?;
        let sideband = RingSource::new(RingKind::Sideband, fitted.mapped, vec![Arc::clone(event)]);
        self.pairs.push(RingPair { owner, sideband, samples: None });
        Ok(())
    }

    /// Lets the sampling events of one thread, or of all CPUs, write into the rings of their owners; maps these where there are none.
    /// Readers of a ring keep its events open, but for those at the places that `may_close` names.
    pub(super) fn add_samplers(
        &mut self,
        samplers: &[(RingOwner, Instances)],
        may_close: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let own = |rings: &RingPair| samplers.iter().any(|(owner, _)| *owner == rings.owner);
        if self.pairs.iter().filter(|rings| own(rings)).all(|rings| rings.samples.is_none()) {
            self.map_samples(samplers)?;
        }
        for (owner, events) in samplers {
            let rings = self.pairs.iter_mut().find(|rings| rings.owner == *owner);
            let Some(ring) = rings.and_then(|rings| rings.samples.as_mut()) else { continue };
            for (place, instance) in events.iter().enumerate() {
                let Some(instance) = instance else { continue };
                if !ring.events.iter().any(|owner| Arc::ptr_eq(owner, instance)) {
                    redirect(instance, &ring.events)?;
                    if !may_close(place) {
                        ring.events.push(Arc::clone(instance));
                    }
                }
            }
        }
        Ok(())
    }

    /// Maps rings of the same size, where the limit allows it.
    fn map_samples(&mut self, samplers: &[(RingOwner, Instances)]) -> Result<(), Error> {
        let owners: Vec<&Arc<PerfEvent>> =
            samplers.iter().filter_map(|(_, events)| events.iter().flatten().next()).collect();
        let wanted = if self.size == 0 { self.wanted } else { self.size };
        let fitted = map_fitting(wanted, |size| {
            owners.iter().map(|owner| owner.map_ring(usize_of(size))).collect::<io::Result<Vec<_>>>()
        })?;
        self.size = fitted.size;
        self.refused = self.refused.or(fitted.refused);
        for (((owner, _), mapping), event) in samplers.iter().zip(fitted.mapped).zip(owners) {
            if let Some(rings) = self.pairs.iter_mut().find(|rings| rings.owner == *owner) {
                rings.samples = Some(RingSource::new(RingKind::Samples, mapping, vec![Arc::clone(event)]));
            }
        }
        Ok(())
    }

    /// Empties the sideband rings, and adds their records to `bytes`.
    pub(super) fn drain_sideband(&mut self, bytes: &mut Vec<u8>) {
        for rings in &mut self.pairs {
            drain_whole(&mut rings.sideband.mapping, bytes);
        }
    }

    /// Sends notices of the sizes. Of `wanted` bytes, larger ones may have been refused before with the errno `refused`.
    pub(super) fn report(&self, wanted: u64, refused: Option<i32>, notices: &mut dyn FnMut(Notice)) {
        if self.size < wanted {
            notices(Notice::RingsShrunk { wanted, given: self.size, errno: self.refused.or(refused) });
        }
        notices(Notice::Rings { cpus: self.count(), samples: self.size, sideband: SIDEBAND_SIZE });
    }
}

/// Redirects the records of `event` into the ring that `events` share. Tries all of them, since the thread of the first may have
/// ended.
pub(super) fn redirect<'a>(
    event: &PerfEvent,
    events: impl IntoIterator<Item = &'a Arc<PerfEvent>>,
) -> Result<(), Error> {
    let mut result = Ok(());
    for owner in events {
        result = event.redirect_to(owner);
        if result.is_ok() {
            break;
        }
    }
    result
        .map_err(|errno| Error::System { what: "cannot send an event's records into its CPU's ring", errno })
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
