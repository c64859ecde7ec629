use alloc::boxed::Box;

use model::{FileOffset, Svma};

/// A section header (ELF specification, "Section Header").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The name; empty where the string table does not have it.
    pub name: Box<[u8]>,
    /// `sh_addr`; 0 for a section that is not part of the memory image.
    pub address: Svma,
    /// `sh_offset`.
    pub file_offset: FileOffset,
    /// `sh_size`: of a compressed section, the compressed size.
    pub size: u64,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_link`: the index of an associated section.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_entsize`.
    pub entry_size: u64,
}

impl Section {
    /// `SHT_NOBITS`: the section has an address and a size, but no bytes in this file.
    pub fn is_without_bytes(&self) -> bool {
        self.kind == 8
    }

    /// `SHF_EXECINSTR`.
    pub fn is_executable(&self) -> bool {
        self.flags & 4 != 0
    }

    /// `SHF_TLS`: the addresses of its symbols count from the start of each thread's copy.
    pub fn is_thread_local(&self) -> bool {
        self.flags & 0x400 != 0
    }

    /// `SHF_ALLOC`: the section is part of the memory image.
    pub fn is_loaded(&self) -> bool {
        self.flags & 2 != 0
    }

    /// `SHF_COMPRESSED`.
    pub fn is_compressed(&self) -> bool {
        self.flags & 0x800 != 0
    }

    /// Returns true if the section's memory image covers the address.
    pub fn covers(&self, address: Svma) -> bool {
        address.checked_offset_from(self.address).is_some_and(|distance| distance < self.size)
    }
}
