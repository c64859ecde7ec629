//! Spaces: the places that an address can belong to once mappings are known.
//!
//! `tracker` turns an address into a (space, offset) pair; `symbolizer` sees only the space. A function that runs
//! in a thousand processes is one place in one space, so it is symbolized once.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{BuildId, Name, Pid, Reason, ThreadState, TruncationReason};

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

/// The identity of a mapped file, as the recording has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectIdentity {
    /// The path in the mount namespace of the process that mapped it.
    pub path: Name,
    /// The build id, where the kernel or the recorder found one.
    pub build_id: Option<BuildId>,
    /// The inode, where there is no build id, or where path and build id do not say what file it is: an unprivileged user may have made
    /// the path lead to a file of his own, with the build id of another.
    pub file: Option<FileIdentity>,
}

/// The start of a kernel's text: a symbol and its address in the running kernel (Avma). It is part of the path in the MMAP record of
/// the kernel image, `[kernel.kallsyms]_text` (`map__synthesize_kernel_mmap()` in perf).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelText {
    /// The symbol.
    pub symbol: TextSymbol,
    /// Its address.
    pub address: u64,
}

/// A symbol at the start of a kernel's text. On aarch64 they lie 64 KiB apart, and older kernels list `_stext` alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextSymbol {
    /// `_text`, the start of the image.
    Text,
    /// `_stext`, the start of its code.
    Stext,
}

impl TextSymbol {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "_text",
            Self::Stext => "_stext",
        }
    }

    /// Returns the symbol of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Text, Self::Stext].into_iter().find(|symbol| symbol.name() == name)
    }

    /// Divides the path of a kernel image's record into the image's name and the symbol: `[kernel.kallsyms]` and `_text`.
    pub fn split_path(path: &[u8]) -> (&[u8], Option<Self>) {
        let with =
            |symbol: Self| path.strip_suffix(symbol.name().as_bytes()).map(|image| (image, Some(symbol)));
        with(Self::Text).or_else(|| with(Self::Stext)).unwrap_or((path, None))
    }
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
        /// The recorded start of its text, by which names of another boot of this kernel are shifted.
        text: Option<KernelText>,
    },
    /// A kernel module, or another image loaded into the kernel. Offsets are addresses in the running kernel.
    KernelModule {
        /// The name as recorded: `[ext4]` or the path of the `.ko` file.
        name: Name,
        /// Its build id, where known.
        build_id: Option<BuildId>,
        /// The address at which the module's text was loaded (Avma).
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
        /// The process whose memory it is.
        pid: Pid,
        /// The use of the address range: counts up when a range is mapped anew or the process executes another
        /// program, so that names are never carried from one generation to the next.
        generation: u32,
        /// The mapping's name as recorded.
        mapping: Name,
    },
    /// The code that one program of one process lists in a jitdump. Offsets are those of the code's bytes in the dump, so
    /// they name a function for good, whatever has its address later.
    JitDump {
        /// The process whose code it is.
        pid: Pid,
        /// As of [`Space::Jit`].
        generation: u32,
        /// The dump's path in the mount namespace of the process.
        path: Name,
    },
    /// A Python function ([`crate::PYTHON_CODE`]). Offsets are lines of its file.
    Python {
        /// The path of the file, as the program states it; empty where the function is not known.
        file: Name,
        /// The function's qualified name; [`crate::UNKNOWN_PYTHON`] where it is not known.
        function: Name,
    },
    /// A JavaScript function ([`crate::JAVASCRIPT_CODE`]). Offsets are lines of its file.
    JavaScript {
        /// V8's name of it, with the sign of the compiler, the path of the file and the place there; [`crate::UNKNOWN_JAVASCRIPT`] where it
        /// is not known.
        name: Name,
    },
    /// What a task is, or what it waits for ([`crate::TASK_LABELS`]).
    TaskLabel {
        /// The text of the frame.
        name: Name,
    },
    /// An address that no mapping of the process covers. Offsets are addresses in the process.
    Unmapped {
        /// The process whose memory it is.
        pid: Pid,
        /// The program (exec) of that process, counted from 0.
        generation: u32,
    },
    /// Not a place at all: the mark that ends an incomplete stack. The offset is 0.
    Truncated(TruncationReason),
    /// Not a place either: what the thread did with this stack, in a profile of time. The offset is 0.
    State(ThreadState),
    /// An address that cannot be attributed (hypervisor or guest code, an unknown context). Offsets are the
    /// addresses as recorded.
    Foreign(Reason),
}

/// The number of a [`Space`] in its [`SpaceTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u32);

/// Interns spaces: equal spaces get equal ids. An id is given once: what was forgotten and comes again has another.
///
/// Names of files are chosen by those who are profiled: the hash has a random key, so that nobody can make up names
/// that all collide.
#[derive(Default, Debug, Clone)]
pub struct SpaceTable {
    /// By ascending id: as long as nothing was forgotten, an id is a position.
    spaces: Vec<(SpaceId, Space)>,
    /// Ids by the hash of their space, which is kept: growing looks at no space.
    ids: HashTable<(u64, SpaceId)>,
    hasher: DefaultHashBuilder,
    next: u32,
}

impl SpaceTable {
    /// The id of `space`, newly given or known already.
    pub fn intern(&mut self, space: Space) -> SpaceId {
        let hash = self.hasher.hash_one(&space);
        let is_same = |&(known, id): &(u64, SpaceId)| known == hash && self.find(id) == Some(&space);
        if let Some(&(_, id)) = self.ids.find(hash, is_same) {
            return id;
        }
        // 2^32 distinct spaces would take a month of a thousand new programs a second.
        let id = SpaceId(self.next);
        self.next = self.next.wrapping_add(1);
        self.spaces.push((id, space));
        self.ids.insert_unique(hash, (hash, id), |&(hash, _)| hash);
        id
    }

    /// Returns the space with this id. An id of another table, or of a space that was forgotten, says nothing of its addresses: they
    /// lie in no known mapping ([`Space::Unmapped`]).
    pub fn get(&self, id: SpaceId) -> &Space {
        static UNKNOWN: Space = Space::Unmapped { pid: Pid::NONE, generation: 0 };
        self.find(id).unwrap_or(&UNKNOWN)
    }

    /// Returns the space with this id; `None` where it was forgotten, or the id is another table's.
    pub fn find(&self, id: SpaceId) -> Option<&Space> {
        let guess = self.spaces.get(id.0 as usize).filter(|(known, _)| *known == id);
        let searched = || {
            let place = self.spaces.binary_search_by_key(&id, |&(known, _)| known).ok()?;
            self.spaces.get(place)
        };
        guess.or_else(searched).map(|(_, space)| space)
    }

    /// All spaces with their ids, in the order of their first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.iter_from(0)
    }

    /// [`SpaceTable::iter`] without the first `known` ones.
    pub fn iter_from(&self, known: usize) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.spaces.iter().skip(known).map(|(id, space)| (*id, space))
    }

    /// Forgets all spaces but those that are to be kept: nobody holds an id of theirs any more.
    pub fn retain(&mut self, mut keep: impl FnMut(SpaceId) -> bool) {
        self.spaces.retain(|&(id, _)| keep(id));
        let spaces = &self.spaces;
        self.ids.retain(|(_, id)| spaces.binary_search_by_key(id, |&(known, _)| known).is_ok());
        // As they grew to hold what was forgotten.
        self.spaces.shrink_to(2 * self.spaces.len());
        self.ids.shrink_to(2 * self.ids.len(), |&(hash, _)| hash);
    }

    /// Returns the number of spaces.
    pub fn len(&self) -> usize {
        self.spaces.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty()
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

    #[test]
    fn what_is_forgotten_gives_its_memory_back_and_its_id_to_nobody() {
        let mut table = SpaceTable::default();
        let jit = |pid| Space::Jit { pid: Pid(pid), generation: 0, mapping: Name::from("//anon") };
        let kept = table.intern(jit(0));
        for pid in 1..10_000 {
            let id = table.intern(jit(pid));
            assert_eq!(id.0, pid as u32, "ids go on");
            if table.len() > 100 {
                table.retain(|id| id == kept);
            }
        }
        assert!(table.len() <= 100 && table.spaces.capacity() <= 256 && table.ids.len() == table.len());
        assert_eq!((table.find(SpaceId(7)), table.get(kept)), (None, &jit(0)));
        assert!(matches!(table.get(SpaceId(7)), Space::Unmapped { .. }));
        assert!(matches!(table.get(SpaceId(u32::MAX)), Space::Unmapped { .. }));
        assert_eq!((table.intern(jit(0)), table.intern(jit(7))), (kept, SpaceId(10_000)), "7 comes again");
        assert_eq!(table.find(SpaceId(9_999)), Some(&jit(9_999)));
        assert!(table.iter().map(|(id, _)| id).is_sorted());
    }
}
