//! The kernel's addresses: its image, its modules, and code that comes and goes.

use alloc::collections::BTreeMap;

use decoder::record::{Ksymbol, Mmap};
use model::{Avma, BuildId, KernelText, Name, Pid, Space, SpaceId, SpaceTable, TextSymbol};

use crate::mapping::{self, Mapping, MappingKind};
use crate::mapping_tree::MappingTree;

/// The path prefix by which tools name the kernel image in its MMAP record; the reference symbol follows.
const IMAGE: &[u8] = b"[kernel.kallsyms]";

#[derive(Debug)]
struct Image {
    start: Avma,
    last: Avma,
    space: SpaceId,
}

/// The map of the kernel's address space.
#[derive(Default, Debug)]
pub(crate) struct KernelMap {
    image: Option<Image>,
    /// Modules and others by their start. They lie over the image, whose recorded length some tools exaggerate.
    modules: MappingTree,
    /// Functions that `PERF_RECORD_KSYMBOL` announced, by their first address, with their last.
    symbols: BTreeMap<Avma, (Avma, SpaceId)>,
    /// The lowest and the highest address that any of `symbols` had: most of the kernel's code lies outside.
    symbols_span: Option<(Avma, Avma)>,
    /// Counts the changes.
    pub(crate) generation: u32,
}

impl KernelMap {
    /// Takes a kernel MMAP or MMAP2 record. `known` is the build id that the recording lists for its path.
    pub(crate) fn map(&mut self, record: &Mmap<'_>, known: Option<BuildId>, spaces: &mut SpaceTable) {
        let build_id = mapping::build_id(record).or(known);
        if record.path.starts_with(IMAGE) {
            // The page offset is the address of the reference symbol; tools that may not read it write 0.
            let symbol = TextSymbol::split_path(record.path).1.unwrap_or(TextSymbol::Text);
            let text = KernelText { symbol, address: record.page_offset };
            let text = Some(text).filter(|text| text.address != 0);
            let space = spaces.intern(Space::Kernel { build_id, text });
            // A record without a length, as some tools write it, stands for all of the kernel.
            let (start, last) =
                mapping::range(record.start, record.len).unwrap_or((Avma(record.start), Avma(u64::MAX)));
            self.image = Some(Image { start, last, space });
        } else if let Some((start, last)) = mapping::range(record.start, record.len) {
            let name = Name::new(record.path);
            let space = spaces.intern(Space::KernelModule { name, build_id, start: start.0 });
            let kind = MappingKind::Image;
            self.modules.insert(Mapping { start, last, offset: start.0, space, kind, executable: true });
        } else {
            return;
        }
        self.generation = self.generation.wrapping_add(1);
    }

    /// Takes a KSYMBOL record.
    pub(crate) fn symbol(&mut self, record: &Ksymbol<'_>, spaces: &mut SpaceTable) {
        let Some((start, last)) = mapping::range(record.start, u64::from(record.len)) else { return };
        self.generation = self.generation.wrapping_add(1);
        // Symbols that lay there are gone in either case: the kernel uses an address for one image at a time.
        while let Some((&below, _)) =
            self.symbols.range(..=last).next_back().filter(|&(_, &(end, _))| end >= start)
        {
            self.symbols.remove(&below);
        }
        if !record.unregister {
            let space = spaces.intern(Space::KernelSymbol { name: Name::new(record.name) });
            self.symbols.insert(start, (last, space));
            let (lowest, highest) = self.symbols_span.unwrap_or((start, last));
            self.symbols_span = Some((lowest.min(start), highest.max(last)));
        }
    }

    /// The place of a kernel address.
    pub(crate) fn locate(&self, address: Avma, spaces: &mut SpaceTable) -> (SpaceId, u64) {
        if self.symbols_span.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&address))
            && let Some((start, &(last, space))) = self.symbols.range(..=address).next_back()
            && address <= last
        {
            return (space, address.0 - start.0);
        }
        if let Some(module) = self.modules.get(address) {
            return (module.space, module.offset_of(address));
        }
        match &self.image {
            Some(image) if (image.start..=image.last).contains(&address) || is_upper_half(address) => {
                // Above the image lie trampolines and modules that came later: the kernel's symbol list knows them.
                (image.space, address.0)
            }
            None if is_upper_half(address) => {
                (spaces.intern(Space::Kernel { build_id: None, text: None }), address.0)
            }
            _ => (spaces.intern(Space::Unmapped { pid: Pid::NONE, generation: 0 }), address.0),
        }
    }

    /// The spaces of all that is known.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = SpaceId> {
        let image = self.image.as_ref().map(|image| image.space);
        let modules = self.modules.iter().map(|module| module.space);
        image.into_iter().chain(modules).chain(self.symbols.values().map(|&(_, space)| space))
    }

    /// Returns true if `address` belongs to the kernel, for records that do not say in which mode they were taken.
    pub(crate) fn covers(&self, address: Avma) -> bool {
        is_upper_half(address)
            || self.image.as_ref().is_some_and(|image| {
                // An image "from 0" is a tool's exaggeration.
                image.start.0 != 0 && (image.start..=image.last).contains(&address)
            })
    }
}

/// Returns true for addresses in the half where 64-bit kernels live on all architectures but s390.
fn is_upper_half(address: Avma) -> bool {
    address.0 >> 63 == 1
}
