//! Advice: the command to type for each reason why a frame has no name.

use host::machine::{Distribution, distribution};
use model::{ObjectIdentity, Reason, Space, SpaceTable};
use profile::Nameless;

use crate::generated_code::runtimes::Runtime;

/// Chooses advice that fits this machine and this recording.
pub struct Advisor {
    distribution: Distribution,
    /// True if the recording was made here: packages of this machine belong to its files.
    this_host: bool,
    /// True if servers were asked for debug files: advice to do so would be of no use.
    asked_servers: bool,
    /// True if the recording has complete stacks, as good as they get.
    unwound: bool,
}

/// The parts of the C library, by the start of their file names.
const C_LIBRARY: [&str; 9] = [
    "libc.so.6",
    "libc-2.",
    "libm.so.6",
    "libm-2.",
    "ld-linux",
    "ld-2.",
    "libpthread",
    "libresolv.so.2",
    "libmvec",
];

impl Advisor {
    /// Reads which distribution this machine runs, by which commands that install packages differ.
    pub fn new(this_host: bool, asked_servers: bool, unwound: bool) -> Self {
        Self { distribution: distribution(), this_host, asked_servers, unwound }
    }

    /// Returns what to type against one cause, or `None` if nothing helps. `runtime` is the runtime that generated the code, for
    /// causes in generated code.
    pub fn advice(
        &self,
        nameless: &Nameless,
        spaces: &SpaceTable,
        runtime: Option<Runtime>,
    ) -> Option<String> {
        let space = spaces.get(nameless.space);
        let object = match space {
            Space::Object(identity) => Some(identity),
            _ => None,
        };
        Some(match &nameless.reason {
            Reason::Unmapped if self.unwound => return None,
            Reason::Unmapped => {
                "recording with `prof record --call-graph auto`, which unwinds programs without frame pointers"
                    .to_owned()
            }
            Reason::NoSymbols | Reason::Stripped => self.debug_information(object?),
            Reason::NoSymbolCovers => match object {
                Some(object) if is_of_the_system(object) => self.debug_information(object),
                _ => return None,
            },
            Reason::FileMissing | Reason::BuildIdDiffers { .. } => match object {
                Some(object) if object.path.as_bytes().starts_with(b"/memfd:") => {
                    "recording the program as a file: it ran from memory".to_owned()
                }
                Some(object) if object.build_id.is_some() && !self.asked_servers => {
                    "`--debuginfod`, or `--symfs DIR` with the recorded files below it".to_owned()
                }
                _ => "`--symfs DIR` with the recorded files below it".to_owned(),
            },
            Reason::FileChanged => "recording again".to_owned(),
            Reason::FileUnreadable(_) => "`sudo`, which may read it".to_owned(),
            Reason::KernelAddressesHidden => "`sudo sysctl kernel.kptr_restrict=0`".to_owned(),
            Reason::OtherKernel => "`--debug-dir DIR` with that kernel's `vmlinux` below it".to_owned(),
            Reason::NoJitMap => Runtime::perf_map_setting(runtime).to_owned(),
            Reason::ChangedWhileRead
            | Reason::Malformed(_)
            | Reason::NoSegmentCovers
            | Reason::NotInJitMap
            | Reason::JitMapRefused(_)
            | Reason::ImageGone
            | Reason::Foreign
            | Reason::Truncated(_) => return None,
        })
    }

    /// The way to symbols of an object that has been stripped.
    fn debug_information(&self, object: &ObjectIdentity) -> String {
        let file = String::from_utf8_lossy(object.path.base_name()).into_owned();
        let of_c_library = C_LIBRARY.iter().any(|start| file.starts_with(start));
        let install = self.distribution.libc_debug_command().filter(|_| of_c_library && self.this_host);
        match install {
            _ if !is_of_the_system(object) => {
                "building it with `-g` (Rust: `-C debuginfo=1`) and without `strip`".to_owned()
            }
            Some(install) => format!("`{install}`"),
            _ if self.asked_servers => "installing its package of debug symbols".to_owned(),
            _ => "`--debuginfod`, or its package of debug symbols".to_owned(),
        }
    }
}

/// Returns true if a package manager put the file where it is.
fn is_of_the_system(object: &ObjectIdentity) -> bool {
    let path = object.path.as_bytes();
    let below = |folder: &str| path.starts_with(folder.as_bytes());
    ["/usr/", "/lib", "/bin/", "/sbin/"].into_iter().any(below) && !below("/usr/local/")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use model::{BuildId, Name, Pid};

    fn object(path: &str, build_id: Option<BuildId>) -> Space {
        Space::Object(ObjectIdentity { path: Name::from(path), build_id, file: None })
    }

    pub(crate) fn debian() -> Advisor {
        Advisor { distribution: Distribution::Debian, this_host: true, asked_servers: false, unwound: false }
    }

    fn advice_for(space: Space, reason: Reason) -> Option<String> {
        let advisor = debian();
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(space);
        advisor.advice(&Nameless { module: None, reason, space, frames: 1 }, &spaces, None)
    }

    #[test]
    fn every_cause_that_can_be_helped_says_what_to_type() {
        let libc = object("/lib/x86_64-linux-gnu/libc.so.6", None);
        assert_eq!(advice_for(libc, Reason::Stripped).unwrap(), "`apt-get install libc6-dbg`");
        let own = advice_for(object("/home/me/prog", None), Reason::NoSymbols).unwrap();
        assert!(own.contains("`-g`") && own.contains("`-C debuginfo=1`"), "{own}");
        let system = advice_for(object("/usr/bin/git", None), Reason::NoSymbols).unwrap();
        assert!(system.contains("`--debuginfod`"), "{system}");
        let kernel = || Space::Kernel { build_id: None, text: None };
        let hidden = advice_for(kernel(), Reason::KernelAddressesHidden).unwrap();
        assert!(hidden.contains("sysctl kernel.kptr_restrict=0"), "{hidden}");
        let unmapped = advice_for(Space::Unmapped { pid: Pid(1), generation: 0 }, Reason::Unmapped).unwrap();
        assert!(unmapped.contains("--call-graph auto"), "{unmapped}");
        let unwound = Advisor { unwound: true, ..debian() };
        let nowhere = Space::Unmapped { pid: Pid(1), generation: 0 };
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(nowhere);
        let nameless = Nameless { module: None, reason: Reason::Unmapped, space, frames: 1 };
        assert_eq!(unwound.advice(&nameless, &spaces, None), None, "it was recorded so");
        let gone = advice_for(object("/x", BuildId::from_hex("aabbccdd")), Reason::FileMissing).unwrap();
        assert!(gone.contains("--debuginfod") && gone.contains("--symfs"), "{gone}");
        assert_eq!(advice_for(kernel(), Reason::NoSymbolCovers), None);
    }
}
