//! The kind of file system that holds an open file: `fstatfs(2)`.

use std::fs::File;
use std::io;

/// The magic number of FUSE (`linux/magic.h`): a program of any user may serve its files.
const FUSE: u32 = 0x6573_5546;

/// The magic numbers of file systems whose files the kernel makes up (`linux/magic.h` and the sources of the kernel): reading one may
/// tell secrets, have effects, or never end.
const OF_THE_KERNEL: [u32; 34] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xcafe_4a11, // bpf
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x0765_5821, // resctrl
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0x0000_1cd1, // devpts
    0x1980_0202, // mqueue
    0x4249_4e4d, // binfmt_misc
    0x6573_5543, // fusectl
    0x6759_6969, // rpc_pipefs
    0x6e66_7364, // nfsd
    0x0a64_7361, // functionfs
    0xabba_1974, // xenfs
    0x6c6f_6f70, // binder
    0x0000_9fa1, // openpromfs
    0x9584_58f6, // hugetlbfs
    0x6e73_6673, // namespaces
    0x5049_4446, // pidfd
    0x5049_5045, // pipes
    0x534f_434b, // sockets
    0x0904_1934, // anonymous inodes
    0x444d_4142, // dma-buf
    0x5345_434d, // secret memory
    0x0187,      // autofs
];

/// A kind of file system, by what can be expected of its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// The kernel makes its files up.
    OfTheKernel,
    /// A program of any user may serve its files, and say of them what it likes.
    Fuse,
    /// Any other.
    Other,
}

/// Returns the kind of file system that holds an open file, which may be open for its path alone. Asks the file system, which may
/// not answer.
///
/// # Errors
/// Those of `fstatfs(2)`.
pub fn of(file: &File) -> io::Result<FileSystem> {
    let facts = rustix::fs::fstatfs(file)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "magic numbers have 32 bits")]
    let magic = facts.f_type as u32;
    Ok(match magic {
        FUSE => FileSystem::Fuse,
        magic if OF_THE_KERNEL.contains(&magic) => FileSystem::OfTheKernel,
        _ => FileSystem::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_told_from_others() {
        for path in
            ["/proc/version", "/sys/kernel/uevent_seqnum", "/sys/kernel/mm/transparent_hugepage/enabled"]
        {
            let Ok(file) = File::open(path) else { continue };
            assert_eq!(of(&file).unwrap(), FileSystem::OfTheKernel, "{path}");
        }
        assert_eq!(of(&tempfile::tempfile().unwrap()).unwrap(), FileSystem::Other);
    }
}
