//! One mapping of a process, and what the path of a record says about it.

use decoder::record::{Mmap, MmapIdentity};
use model::{Avma, BuildId, Name, ObjectIdentity, Pid, Space, SpaceId};

/// The kind of memory behind a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappingKind {
    /// A file, or an image that stands for one (vDSO): offsets continue across neighbouring mappings of it.
    Image,
    /// Memory without a file: code was generated there.
    Anonymous,
    /// One function of generated code that its runtime has described.
    Generated,
    /// A function that a recording names by a mapping ([`model::FUNCTION_CODE`]).
    Function,
}

/// A range of a process's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The first address.
    pub start: Avma,
    /// The last address (inclusive, so that a range may end with the address space).
    pub last: Avma,
    /// The offset of `start` in `space`.
    pub offset: u64,
    /// The space in which the offsets count.
    pub space: SpaceId,
    /// A file or memory.
    pub kind: MappingKind,
    /// True if code may run there.
    pub executable: bool,
}

impl Mapping {
    /// Returns true if `address` lies inside.
    pub fn contains(&self, address: Avma) -> bool {
        (self.start..=self.last).contains(&address)
    }

    /// The offset of `address` in the mapping's space. Wraps for an address outside (offsets of a hostile record
    /// may be anything).
    pub fn offset_of(&self, address: Avma) -> u64 {
        self.offset.wrapping_add(address.0.wrapping_sub(self.start.0))
    }

    /// The two parts of a mapping that `start < at <= last` cuts.
    pub(crate) fn cut(self, at: Avma) -> (Self, Self) {
        let low = Self { last: Avma(at.0.wrapping_sub(1)), ..self };
        let high = Self { start: at, offset: self.offset_of(at), ..self };
        (low, high)
    }

    /// Returns true if `next` continues this mapping in the same image, wherever it lies.
    pub(crate) fn is_continued_by(&self, next: &Self) -> bool {
        self.kind == MappingKind::Image
            && next.kind == MappingKind::Image
            && self.space == next.space
            && self.offset_of(next.start) == next.offset
    }
}

/// The range of a record's addresses; `None` for an empty one. A length past the end of the address space is cut.
pub(crate) fn range(start: u64, len: u64) -> Option<(Avma, Avma)> {
    let last = start.saturating_add(len.checked_sub(1)?);
    Some((Avma(start), Avma(last)))
}

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;
/// `MAP_PRIVATE`, and the bits that tell it from `MAP_SHARED` (1) and `MAP_SHARED_VALIDATE` (3).
const MAP_PRIVATE: u32 = 2;
const MAP_TYPE: u32 = 3;

/// Returns true if the record maps code. MMAP states it by its misc bit, MMAP2 by the protection (which some tools leave 0).
pub(crate) fn is_executable(record: &Mmap<'_>) -> bool {
    match record.extended {
        Some(extended) if extended.protection != 0 => extended.protection & PROT_EXEC != 0,
        _ => !record.data,
    }
}

/// Returns true if the record maps memory for generated code: it has no file, and may be executed.
pub fn is_generated_code(record: &Mmap<'_>) -> bool {
    is_executable(record) && is_anonymous(record, build_id(record))
}

/// The file that the record maps code of; `None` where it maps something else.
pub fn mapped_object(record: &Mmap<'_>) -> Option<ObjectIdentity> {
    if !is_executable(record) || is_anonymous(record, build_id(record)) {
        return None;
    }
    match image_space(record, FileContents::default()) {
        Space::Object(identity) => Some(identity),
        _ => None,
    }
}

/// Returns true if the path is the kernel's or a tool's word for memory without a file (`fs/proc/task_mmu.c`, `perf_event_mmap_event()` in `kernel/events/core.c`).
pub(crate) fn is_anonymous(record: &Mmap<'_>, build_id: Option<BuildId>) -> bool {
    let path = record.path;
    const EXACT: [&[u8]; 3] = [b"", b"//anon", b"[heap]"];
    const PREFIXES: [&[u8]; 7] =
        [b"/dev/zero", b"/anon_hugepage", b"[anon", b"[stack", b"/SYSV", b"/dev/ashmem/", b"/memfd:"];
    if EXACT.contains(&path) {
        return true;
    }
    // A program in a memfd is mapped as a private copy, as execve(2) and loaders map any; who generates code into one maps it
    // a second time to write, and both shared.
    let is_program = record.extended.is_some_and(|extended| extended.flags & MAP_TYPE == MAP_PRIVATE);
    if path.starts_with(b"/memfd:") && is_program {
        return false;
    }
    build_id.is_none() && PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

/// The build id that the record itself carries.
pub(crate) fn build_id(record: &Mmap<'_>) -> Option<BuildId> {
    match record.extended?.identity {
        MmapIdentity::BuildId(build_id) => build_id,
        MmapIdentity::File(_) => None,
    }
}

/// The contents of a mapped file, as a recording lists them beside its records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FileContents {
    /// The build id; `None` if the file has none, or none is listed.
    pub build_id: Option<BuildId>,
    /// True if an unprivileged user may have made the recorded path lead to the file. It is then an object of its own, which shares
    /// its names with no other file of that path and build id.
    pub is_foreign: bool,
}

/// The space of a mapped image. `known` is what the recording lists for its file.
pub(crate) fn image_space(record: &Mmap<'_>, known: FileContents) -> Space {
    let build_id = build_id(record).or(known.build_id);
    if is_vdso(record.path) {
        return Space::Vdso { build_id };
    }
    let file = match record.extended.map(|extended| extended.identity) {
        // A build id says more than an inode, and makes one space of what records of both forms map.
        Some(MmapIdentity::File(file)) if build_id.is_none() || known.is_foreign => Some(file),
        _ => None,
    };
    Space::Object(ObjectIdentity { path: Name::new(record.path), build_id, file })
}

/// The space of memory without a file.
pub(crate) fn anonymous_space(pid: Pid, generation: u32, path: &[u8]) -> Space {
    let mapping = if path.is_empty() { b"//anon" } else { path };
    Space::Jit { pid, generation, mapping: Name::new(mapping) }
}

fn is_vdso(path: &[u8]) -> bool {
    matches!(path, b"[vdso]" | b"[vdso32]" | b"[vdsox32]")
}

/// Mappings made by hand, for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Executable memory of a file, from its beginning on.
    pub(crate) fn mapping(start: u64, last: u64, space: u32) -> Mapping {
        Mapping {
            start: Avma(start),
            last: Avma(last),
            offset: 0,
            space: SpaceId(space),
            kind: MappingKind::Image,
            executable: true,
        }
    }
}
