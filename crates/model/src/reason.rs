//! Why something is missing: data, not errors.

use alloc::string::String;
use core::fmt;

use crate::BuildId;

/// The reason why a stack ends before the thread's first frame.
///
/// A recording that unwound its stacks ends an incomplete one with the reserved, non-canonical address
/// `0x8000_0000_00LL_LLRR`, where `RR` is the number of the reason, and `LLLL` the limit of [`TruncationReason::AddressLimit`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TruncationReason {
    /// The stack was deeper than the copy the kernel made of it.
    CopyTooSmall,
    /// Code without unwind data.
    NoUnwindData,
    /// The unwind rule could not be carried out.
    RuleFailed,
    /// An address that no mapping covers.
    MappingUnknown,
    /// The recorder could not keep up and dropped the stack copy.
    RecorderBehind,
    /// The file of a mapped object could not be read, so that its frames, and those above them, were found without its unwind tables:
    /// some may be missing.
    ObjectUnreadable,
    /// The thread has switched stacks (a signal handler on a stack of its own), only the inner one was copied, and the outer one could not
    /// be read later.
    OtherStack,
    /// The call chain has reached its maximum number of addresses: this one, set by the kernel or by the recorder.
    AddressLimit(u16),
    /// The kernel's copy ends at a page that was not in memory: it copies without bringing pages in, and no size of copies changes that.
    PageNotInMemory,
    /// The function finds its caller by the frame pointer, which is not known: the thread was read from outside.
    FramePointerUnknown,
}

impl TruncationReason {
    const BASE: u64 = 0x8000_0000_0000_0000;

    /// All reasons by number, from 1 on; [`Self::AddressLimit`] with the lowest limit.
    pub const ALL: [Self; 10] = [
        Self::CopyTooSmall,
        Self::NoUnwindData,
        Self::RuleFailed,
        Self::MappingUnknown,
        Self::RecorderBehind,
        Self::ObjectUnreadable,
        Self::OtherStack,
        Self::AddressLimit(1),
        Self::PageNotInMemory,
        Self::FramePointerUnknown,
    ];

    /// Returns the place of the reason in [`Self::ALL`], whatever its limit is.
    pub fn index(self) -> usize {
        match self {
            Self::CopyTooSmall => 0,
            Self::NoUnwindData => 1,
            Self::RuleFailed => 2,
            Self::MappingUnknown => 3,
            Self::RecorderBehind => 4,
            Self::ObjectUnreadable => 5,
            Self::OtherStack => 6,
            Self::AddressLimit(_) => 7,
            Self::PageNotInMemory => 8,
            Self::FramePointerUnknown => 9,
        }
    }

    /// The address that ends such a stack in the recording.
    pub fn marker(self) -> u64 {
        let limit = if let Self::AddressLimit(limit) = self { limit } else { 0 };
        Self::BASE | u64::from(limit) << 8 | (self.index() as u64 + 1)
    }

    /// The reason that an address of a call chain stands for, if it is such a mark.
    pub fn from_marker(address: u64) -> Option<Self> {
        let number = usize::try_from(address & 0xff).ok()?;
        let reason = match *Self::ALL.get(number.checked_sub(1)?)? {
            Self::AddressLimit(_) => match (address >> 8) as u16 {
                // No chain is cut before its first address: this is what a walk by frame pointers found on a stack.
                0 => return None,
                limit => Self::AddressLimit(limit),
            },
            reason => reason,
        };
        (reason.marker() == address).then_some(reason)
    }
}

impl fmt::Display for TruncationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressLimit(limit) => return write!(f, "limit of {limit} addresses"),
            Self::ObjectUnreadable => "object file unreadable",
            Self::OtherStack => "other stack not copied",
            Self::PageNotInMemory => "a page of the stack was not in memory",
            Self::FramePointerUnknown => "frame pointer not known",
            Self::CopyTooSmall => "stack copy too small",
            Self::NoUnwindData => "no unwind data",
            Self::RuleFailed => "unwind rule failed",
            Self::MappingUnknown => "mapping unknown",
            Self::RecorderBehind => "recorder behind",
        })
    }
}

/// The reason why a stack entry has no function name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// No mapping of the process covers the address.
    Unmapped,
    /// The file that was mapped does not exist (any more).
    FileMissing,
    /// The file system of the file does not answer.
    NoAnswer,
    /// The file may not be read; the text says why (an errno message).
    FileUnreadable(String),
    /// The file at the recorded path is another one than was mapped.
    BuildIdDiffers {
        /// The build id in the recording.
        recorded: BuildId,
        /// The build id of the file that is there now, if it has one.
        found: Option<BuildId>,
    },
    /// The file was modified after the recording and has no build id to tell whether that matters.
    FileChanged,
    /// The file became shorter while it was read.
    ChangedWhileRead,
    /// The file is not an object that we can read; the text says what is wrong, with offset and value.
    Malformed(String),
    /// The file has neither a symbol table nor debug information.
    NoSymbols,
    /// The file was stripped: only the functions that it exports have names, and none of them covers the address.
    Stripped,
    /// The file has symbols, but none covers the address.
    NoSymbolCovers,
    /// No program header of the file covers the mapped offset.
    NoSegmentCovers,
    /// `/proc/kallsyms` shows no addresses (`kernel.kptr_restrict`, or no `CAP_SYSLOG`).
    KernelAddressesHidden,
    /// The recording is of another kernel than the names at hand.
    OtherKernel,
    /// The recording does not say which kernel it is of, and nothing else tells.
    UnknownKernel,
    /// Generated code, and its runtime wrote no `/tmp/perf-PID.map` or jitdump.
    NoJitMap,
    /// Generated code, and the runtime's map does not cover the address.
    NotInJitMap,
    /// Generated code, and there is a map that cannot be trusted to be its process's own.
    JitMapRefused(MapRefusal),
    /// The image has no file, and the process is gone (vDSO of another kernel, memfd); or the kernel maps it (`[uprobes]`).
    ImageGone,
    /// Functions of Python that were not found in the memory of their process ([`crate::PYTHON_CODE`]).
    PythonNotFound,
    /// JavaScript functions that were not found in the memory of their process ([`crate::JAVASCRIPT_CODE`]).
    JavaScriptNotFound,
    /// Code of a hypervisor or of a guest system.
    Foreign,
    /// The profile is of another tool, and that one had no name.
    NotInProfile,
    /// Not a frame: the stack ends early here.
    Truncated(TruncationReason),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmapped => f.write_str("address outside every mapping"),
            Self::FileMissing => f.write_str("file is gone"),
            Self::NoAnswer => f.write_str("its file system does not answer"),
            Self::FileUnreadable(why) => write!(f, "file cannot be read: {why}"),
            Self::BuildIdDiffers { recorded, found: Some(found) } => {
                write!(f, "file has another build id than recorded ({found}, not {recorded})")
            }
            Self::BuildIdDiffers { recorded, found: None } => {
                write!(f, "file has no build id, recorded was {recorded}")
            }
            Self::FileChanged => f.write_str("file changed after the recording"),
            Self::ChangedWhileRead => f.write_str("file changed while it was read"),
            Self::Malformed(what) => write!(f, "malformed object: {what}"),
            Self::NoSymbols => f.write_str("no symbol table and no debug information"),
            Self::Stripped => f.write_str("stripped: only exports have names"),
            Self::NoSymbolCovers => f.write_str("no symbol covers the address"),
            Self::NoSegmentCovers => f.write_str("no program header covers the offset"),
            Self::KernelAddressesHidden => f.write_str("kernel addresses are hidden"),
            Self::OtherKernel => f.write_str("recorded on another kernel"),
            Self::UnknownKernel => f.write_str("the recording does not say of which kernel it is"),
            Self::NoJitMap => f.write_str("generated code without a perf map or jitdump"),
            Self::NotInJitMap => f.write_str("generated code that its perf map does not cover"),
            Self::JitMapRefused(why) => write!(f, "generated code whose perf map is not used: {why}"),
            Self::ImageGone => f.write_str("image without a file, which cannot be read now"),
            Self::PythonNotFound => {
                f.write_str("Python functions that were not found in the memory of their process")
            }
            Self::JavaScriptNotFound => {
                f.write_str("JavaScript functions that were not found in the memory of their process")
            }
            Self::Foreign => f.write_str("hypervisor or guest code"),
            Self::NotInProfile => f.write_str("the tool that made the profile had no name"),
            Self::Truncated(reason) => write!(f, "stack truncated: {reason}"),
        }
    }
}

/// The reason why a perf map is not used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MapRefusal {
    /// It is a link, a folder, a pipe, a device.
    NotAFile,
    /// It has other names, too, which its owner may know nothing of.
    SeveralNames,
    /// It is neither the process's user's nor root's, or it is root's and nobody else may read it.
    Foreign,
    /// It was changed last before the process began.
    Older,
    /// It was changed after the process had ended.
    Newer,
    /// Another program that the process ran wrote it.
    OtherProgram,
    /// Opening or reading it failed.
    Unreadable,
    /// It could not be read in the time that there is: its file system does not answer, or is slow.
    Unanswered,
    /// It lies on a file system that a program serves: where that takes a request and never answers, no signal ends the wait.
    Fuse,
    /// All the reading that one profile may cost has been done.
    TooMuch,
}

impl fmt::Display for MapRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAFile => "it is no regular file",
            Self::SeveralNames => "the file has other names, too",
            Self::Foreign => "it belongs to another user than the process",
            Self::Older => "it is older than the process",
            Self::Newer => "it was changed after the process had ended",
            Self::OtherProgram => "another program that the process ran wrote it",
            Self::Unreadable => "it cannot be read",
            Self::Unanswered => "it could not be read in time",
            Self::Fuse => "it lies on a file system of another program, which may never answer",
            Self::TooMuch => "the maps before it were too large",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_not_canonical_addresses_and_come_back() {
        for reason in TruncationReason::ALL {
            assert_eq!(TruncationReason::from_marker(reason.marker()), Some(reason));
            assert_ne!(reason.marker() >> 47, 0);
            assert_ne!(reason.marker() >> 47, 0x1_ffff);
        }
        for limit in [1, 127, u16::MAX] {
            let reason = TruncationReason::AddressLimit(limit);
            assert_eq!(TruncationReason::from_marker(reason.marker()), Some(reason));
            assert_ne!(reason.marker() >> 47, 0);
        }
        let no_marks = [
            0x8000_0000_0000_0000,
            0x8000_0000_0000_0008,
            0x8000_0000_0000_000b,
            0x8000_0000_0000_0101,
            0x8000_0000_0100_0008,
        ];
        for address in no_marks {
            assert_eq!(TruncationReason::from_marker(address), None, "{address:#x}");
        }
    }
}
