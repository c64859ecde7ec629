//! A sorted index of FDEs, for sections without a search table of the linker.

use alloc::vec::Vec;

use gimli::{BaseAddresses, CieOrFde, EndianSlice, LittleEndian, UnwindOffset, UnwindSection};

/// The maximum number of FDEs; further ones are left out. Programs without a search table have some ten thousand.
const MAX_FDES: usize = 1 << 20;

/// The FDEs of one section, sorted by their first address.
#[derive(Clone, Default, Debug)]
pub(super) struct FdeIndex {
    // First address (Svma) and offset in the section.
    entries: Vec<(u64, u32)>,
}

impl FdeIndex {
    /// Walks the whole section. Entries that cannot be parsed are left out; where the walk itself cannot go on (a length
    /// that lies), it ends.
    pub(super) fn build<'a, S>(section: &S, bases: &BaseAddresses) -> Self
    where
        S: UnwindSection<EndianSlice<'a, LittleEndian>>,
    {
        let mut entries = Vec::new();
        let mut cie = None;
        let mut walk = section.entries(bases);
        while let Ok(Some(entry)) = walk.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(|section, bases, offset| {
                // FDEs of one compilation unit share their CIE, and come in a row.
                match &cie {
                    Some((known, parsed)) if *known == offset => Ok(Clone::clone(parsed)),
                    _ => {
                        let parsed = section.cie_from_offset(bases, offset)?;
                        cie = Some((offset, parsed.clone()));
                        Ok(parsed)
                    }
                }
            });
            if let Ok(fde) = fde
                && fde.len() > 0
                // Functions that `--gc-sections` dropped keep their FDE at address 0 in `.debug_frame`.
                && fde.initial_address() > 0
                && let Ok(offset) = u32::try_from(UnwindOffset::into(S::Offset::from(fde.offset())))
            {
                if entries.len() == MAX_FDES {
                    break;
                }
                entries.push((fde.initial_address(), offset));
            }
        }
        entries.sort_unstable();
        entries.shrink_to_fit();
        Self { entries }
    }

    /// Returns the number of bytes that it takes.
    pub(super) fn size(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, u32)>()
    }

    /// The offset of the FDE that begins last at or below `address` (Svma), and where the next one begins; whether it covers
    /// it, its length says.
    pub(super) fn find(&self, address: u64) -> Option<(usize, u64)> {
        let index = self.entries.partition_point(|&(start, _)| start <= address);
        let &(_, offset) = self.entries.get(index.checked_sub(1)?)?;
        let next = self.entries.get(index).map_or(u64::MAX, |&(start, _)| start);
        Some((usize::try_from(offset).ok()?, next))
    }
}
