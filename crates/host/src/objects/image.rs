//! The vDSO, an image without a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use elf::Object;

use super::{HostObject, ObjectBytes};

/// Reads the vDSO from the memory of this process. All processes of the same word size have the same one.
pub fn own_vdso() -> Option<HostObject> {
    Object::parse(ObjectBytes::Memory(own_vdso_bytes()?, None)).ok()
}

/// Reads the bytes of [`own_vdso`].
pub fn own_vdso_bytes() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    // 1 MiB is far above any vDSO: that of x86-64 has two pages.
    let length = usize::try_from(end.checked_sub(start)?).ok().filter(|&length| length <= 1 << 20)?;
    read_own_memory(start, length).ok()
}

fn read_own_memory(start: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn our_vdso_has_an_id_and_functions() {
        let vdso = own_vdso().unwrap();
        assert!(vdso.build_id().is_some());
        assert!(vdso.has_symbols(elf::SymbolSource::Dynamic));
    }
}
