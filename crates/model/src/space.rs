//! Spaces: the places that an address can belong to once mappings are known.
//!
//! `tracker` turns an address into a (space, offset) pair; `symbolizer` sees only the space. A function that runs
//! in a thousand processes is one place in one space, so it is symbolized once.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::{BuildId, Name, Pid, Reason, TruncationReason};

/// The inode that a mapping record named: `maj`, `min`, `ino`, `ino_generation` of `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileIdentity {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
    /// Inode generation (0 where the file system has none).
    pub generation: u64,
}

/// What the recording says about a mapped file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectIdentity {
    /// The path in the mount namespace of the process that mapped it.
    pub path: Name,
    /// The build id, where the kernel or the recorder found one.
    pub build_id: Option<BuildId>,
    /// The inode, where the record carried it instead of a build id.
    pub file: Option<FileIdentity>,
}

/// A place that code lives in, with its own meaning of "offset".
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// A mapped object file. Offsets are file offsets.
    Object(ObjectIdentity),
    /// The vDSO image. Offsets count from the start of the image. It has no file; the id tells images apart.
    Vdso {
        /// The build id of the image, where known.
        build_id: Option<BuildId>,
    },
    /// The kernel image (without modules). Offsets are addresses in the running kernel (Avma).
    Kernel {
        /// The build id of the running kernel, where the recording has it.
        build_id: Option<BuildId>,
        /// The recorded address of `_text` (`_stext`), by which names of another boot of this kernel are shifted.
        text_address: Option<u64>,
    },
    /// A kernel module, or another image loaded into the kernel. Offsets are addresses in the running kernel.
    KernelModule {
        /// The name as recorded: `[ext4]` or the path of the `.ko` file.
        name: Name,
        /// Its build id, where known.
        build_id: Option<BuildId>,
        /// Where the module's text was loaded (Avma).
        start: u64,
    },
    /// One function announced by `PERF_RECORD_KSYMBOL` (a BPF program, a trampoline). Offsets count from its start.
    KernelSymbol {
        /// The announced name, for example `bpf_prog_6deef7357e7b4530_probe`.
        name: Name,
    },
    /// Executable memory without a file (`//anon`, `[heap]`, `/memfd:…`, `/dev/zero`): generated code.
    /// Offsets are addresses in the process.
    Jit {
        /// Whose memory.
        pid: Pid,
        /// Which use of the address range: counts up when a range is mapped anew or the process executes another
        /// program, so that names are never carried from one generation to the next.
        generation: u32,
        /// The mapping's name as recorded.
        mapping: Name,
    },
    /// An address that no mapping of the process covers. Offsets are addresses in the process.
    Unmapped {
        /// Whose memory.
        pid: Pid,
        /// The program (exec) of that process, counted from 0.
        generation: u32,
    },
    /// Not a place at all: the mark that ends an incomplete stack. The offset is 0.
    Truncated(TruncationReason),
    /// An address that cannot be attributed (hypervisor or guest code, an unknown context). Offsets are the
    /// addresses as recorded.
    Foreign(Reason),
}

/// The number of a [`Space`] in its [`SpaceTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u32);

/// Interns spaces: equal spaces get equal ids.
#[derive(Default, Debug, Clone)]
pub struct SpaceTable {
    spaces: Vec<Space>,
    // Ids, sorted by the hash of their space: a table that needs no hasher state and no second copy of the keys.
    by_hash: Vec<(u64, SpaceId)>,
}

impl SpaceTable {
    /// The id of `space`, newly given or known already.
    pub fn intern(&mut self, space: Space) -> SpaceId {
        let hash = hash_of(&space);
        let first = self.by_hash.partition_point(|&(known, _)| known < hash);
        let same_hash = self.by_hash[first..].iter().take_while(|&&(known, _)| known == hash);
        for &(_, id) in same_hash {
            if self.get(id) == &space {
                return id;
            }
        }
        // 2^32 distinct spaces would need more memory than any machine that could hold their names.
        let id = SpaceId(self.spaces.len() as u32);
        self.spaces.push(space);
        self.by_hash.insert(first, (hash, id));
        id
    }

    /// The space with this id.
    ///
    /// # Panics
    /// If `id` came from another table.
    pub fn get(&self, id: SpaceId) -> &Space {
        &self.spaces[id.0 as usize]
    }

    /// All spaces with their ids, in the order of their first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.spaces.iter().enumerate().map(|(index, space)| (SpaceId(index as u32), space))
    }

    /// How many spaces there are.
    pub fn len(&self) -> usize {
        self.spaces.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }
}

fn hash_of(space: &Space) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    space.hash(&mut hasher);
    hasher.finish()
}

/// FNV-1a, 64 bit: good enough for a few thousand keys, and available without std. Equality decides, not the hash.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_spaces_get_equal_ids() {
        let mut table = SpaceTable::default();
        let jit = |generation| Space::Jit { pid: Pid(7), generation, mapping: Name::from("//anon") };
        let first = table.intern(jit(0));
        let second = table.intern(jit(1));
        assert_ne!(first, second);
        assert_eq!(table.intern(jit(0)), first);
        assert_eq!(table.get(second), &jit(1));
        assert_eq!(table.len(), 2);
    }
}
