//! Advice: the command to type for each reason why a frame has no name, or a stack ends early. Each row has its condition: what cannot
//! help here, or has been done, is not proposed.

use export::summary::counted;
use host::machine::{Distribution, distribution};
use host::sysctl;
use model::{ObjectIdentity, Reason, Space, SpaceTable, TruncationReason};
use profile::Nameless;
use stacks::MAX_CHAIN_ADDRESSES;

use crate::generated_code::runtimes::Runtime;

/// Chooses advice that fits this machine and this recording.
pub struct Advisor {
    /// This machine's settings, if the recording was made here: its packages belong to the recording's files.
    here: Option<ThisMachine>,
    /// True if servers were asked for debug files: advice to do so would be of no use.
    asked_servers: bool,
    /// True if the recording has complete stacks, as good as they get.
    unwound: bool,
    /// True if the recorder looked for the functions of interpreters in the memory of processes.
    read_functions: bool,
    /// True if the recording is of a command that ran without `--runtimes`.
    could_ask_runtimes: bool,
}

/// The settings of this machine that advice depends on.
#[derive(Clone, Copy)]
struct ThisMachine {
    distribution: Distribution,
    /// `kernel.kptr_restrict`; 0 if there is none.
    kptr_restrict: i32,
    /// `kernel.perf_event_paranoid`; 2, the kernel's default, if there is none.
    paranoid: i32,
}

/// The command that records a program again with the variables that make runtimes tell names and keep frame pointers.
const ASK_RUNTIMES: &str = "`prof record --runtimes -- COMMAND`";

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
    /// Reads the settings of this machine if the recording was made here (`this_host`).
    pub fn new(
        this_host: bool,
        asked_servers: bool,
        unwound: bool,
        read_functions: bool,
        could_ask_runtimes: bool,
    ) -> Self {
        let here = this_host.then(|| ThisMachine {
            distribution: distribution(),
            kptr_restrict: sysctl::kptr_restrict().unwrap_or(0),
            paranoid: sysctl::perf_event_paranoid().unwrap_or(2),
        });
        Self { here, asked_servers, unwound, read_functions, could_ask_runtimes }
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
            Reason::UnknownKernel => "recording again, to the end".to_owned(),
            Reason::FileUnreadable(_) => "`sudo`, which may read it".to_owned(),
            Reason::KernelAddressesHidden => self.here?.names_of_the_kernel(),
            Reason::OtherKernel => "`--debug-dir DIR` with that kernel's `vmlinux` below it".to_owned(),
            Reason::NoJitMap => self.names_of_generated_code(runtime?, ""),
            Reason::ChangedWhileRead
            | Reason::NoAnswer
            | Reason::Malformed(_)
            | Reason::NoSegmentCovers
            | Reason::NotInJitMap
            | Reason::JitMapRefused(_)
            | Reason::ImageGone
            | Reason::PythonNotFound
            | Reason::JavaScriptNotFound
            | Reason::Foreign
            | Reason::NotInProfile
            | Reason::Truncated(_) => return None,
        })
    }

    /// Returns what makes a runtime tell the names of its code; `object` is one of its files, if known.
    pub(super) fn names_of_generated_code(&self, runtime: Runtime, object: &str) -> String {
        let asks = self.could_ask_runtimes && runtime.is_asked_by_environment();
        match (runtime.can_tell_names(object), asks) {
            (true, true) => ASK_RUNTIMES.to_owned(),
            (true, false) => runtime.perf_map_setting().to_owned(),
            (false, _) if !runtime.is_read_as_it_runs(object) => {
                "Python 3.11 or newer, whose functions have names as they run".to_owned()
            }
            // They were looked for, and none was found.
            (false, _) if self.read_functions => {
                "a longer run, whose memory `prof` may read: its functions are found there".to_owned()
            }
            (false, _) => {
                "recording with `prof record --call-graph auto`, which finds its functions as they run"
                    .to_owned()
            }
        }
    }

    /// Returns what makes the code of a runtime keep frame pointers, if it can.
    pub(super) fn frame_pointers(&self, runtime: Runtime) -> Option<String> {
        let setting = runtime.frame_pointer_setting()?;
        Some(if self.could_ask_runtimes { ASK_RUNTIMES } else { setting }.to_owned())
    }

    /// Returns what gives a stripped object its symbols.
    fn debug_information(&self, object: &ObjectIdentity) -> String {
        let install = self.here.and_then(|here| here.libc_debug_command(object));
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

impl ThisMachine {
    /// Returns what shows the kernel's names: `/proc/kallsyms` shows addresses to whoever has `CAP_SYSLOG`, and without `kptr_restrict` to
    /// whoever may profile the kernel (`kallsyms_show_value()`).
    fn names_of_the_kernel(self) -> String {
        let settings = [
            (self.kptr_restrict > 0).then_some("kernel.kptr_restrict=0"),
            (self.paranoid > 1).then_some("kernel.perf_event_paranoid=1"),
        ];
        let settings: Vec<&str> = settings.into_iter().flatten().collect();
        match settings.as_slice() {
            [] => "recording again: they are visible now".to_owned(),
            settings => format!("`sudo sysctl {}`", settings.join(" ")),
        }
    }

    /// Returns the command that installs the debug information of the C library, if the object is a part of it.
    fn libc_debug_command(self, object: &ObjectIdentity) -> Option<String> {
        let file = String::from_utf8_lossy(object.path.base_name()).into_owned();
        C_LIBRARY.iter().find(|start| file.starts_with(*start))?;
        let folders = String::from_utf8_lossy(object.path.as_bytes()).into_owned();
        let has = |folder: &str| folders.split('/').any(|part| part == folder);
        let command = self.distribution.libc_debug_command()?;
        // Libraries of 32 bits on a machine of 64 are packages of their own.
        Some(match self.distribution {
            Distribution::Debian if has("i386-linux-gnu") && !cfg!(target_arch = "x86") => {
                format!("{command}:i386")
            }
            // Those of a cross compiler, or of Debian's libc6-i386, have no such package.
            Distribution::Debian if !is_in_native_folder(&folders) => return None,
            Distribution::Fedora if cfg!(target_pointer_width = "64") && !has("lib64") => {
                format!("{command}.i686")
            }
            Distribution::Suse if cfg!(target_pointer_width = "64") && !has("lib64") => return None,
            _ => command.to_owned(),
        })
    }
}

/// The facts of a recording that advice on its stacks depends on.
#[derive(Clone, Copy, Default, Debug)]
pub struct StackFacts {
    /// True if every stack copy had the largest size that there is.
    pub copies_are_largest: bool,
    /// True if the command is a Java virtual machine that was not asked for anything.
    pub could_ask_jvm: bool,
    /// True if who recorded could read any file.
    pub as_root: bool,
}

/// Returns the advice against stacks that end early, to whoever records them again; `None` if nothing helps.
fn for_cut_stacks(reason: TruncationReason, facts: StackFacts) -> Option<String> {
    let advice = match reason {
        TruncationReason::AddressLimit(limit) => match higher_limit(limit) {
            Some(flag) => return Some(format!("try: {flag}")),
            None => "a sample has no room for more",
        },
        TruncationReason::ObjectUnreadable if facts.as_root => "frames may be missing",
        TruncationReason::ObjectUnreadable => {
            "frames may be missing; try: as root, or start the program again"
        }
        TruncationReason::CopyTooSmall if facts.copies_are_largest => return None,
        TruncationReason::CopyTooSmall => "try: --call-graph dwarf,65528",
        TruncationReason::NoUnwindData if facts.could_ask_jvm => {
            "the code is generated; try: --runtimes=jvm, which makes it keep frame pointers"
        }
        TruncationReason::NoUnwindData => {
            "generated code, or built without unwind tables; try building it with -fasynchronous-unwind-tables"
        }
        TruncationReason::RecorderBehind => "try: a lower rate (-F), or --call-graph fp",
        TruncationReason::RuleFailed
        | TruncationReason::MappingUnknown
        | TruncationReason::OtherStack
        | TruncationReason::FramePointerUnknown
        | TruncationReason::PageNotInMemory => return None,
    };
    Some(advice.to_owned())
}

/// Says how many of `all` stacks end early for a reason, and what helps whoever records them again.
pub fn cut_stacks_in_words(reason: TruncationReason, stacks: u64, all: u64, facts: StackFacts) -> String {
    let share = 100.0 * stacks as f64 / all.max(1) as f64;
    let end = if stacks == 1 { "ends" } else { "end" };
    let advice = for_cut_stacks(reason, facts).map_or_else(String::new, |advice| format!("; {advice}"));
    format!("{} ({share:.1} %) {end} early: {reason}{advice}", counted(stacks, "stack", "stacks"))
}

/// Returns the flag that records longer stacks than this limit of addresses; `None` if there are none.
pub(super) fn higher_limit(limit: u16) -> Option<String> {
    (limit < MAX_CHAIN_ADDRESSES).then(|| format!("--max-stack {MAX_CHAIN_ADDRESSES}"))
}

/// Returns true if a library of Debian lies where those of the machine's own architecture do.
fn is_in_native_folder(path: &str) -> bool {
    let triple = format!("/{}-linux-gnu/", std::env::consts::ARCH);
    let loader = path.rsplit_once('/').is_some_and(|(folder, _)| folder.ends_with("/lib64"));
    path.contains(&triple) || loader || !path.contains("-linux-gnu") && !path.contains("/lib32/")
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
        let here = ThisMachine { distribution: Distribution::Debian, kptr_restrict: 1, paranoid: 1 };
        Advisor {
            here: Some(here),
            asked_servers: false,
            unwound: false,
            read_functions: false,
            could_ask_runtimes: false,
        }
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

    #[test]
    fn cut_stacks_are_helped_by_what_was_not_done() {
        let any = StackFacts::default();
        let largest = StackFacts { copies_are_largest: true, ..any };
        let small = TruncationReason::CopyTooSmall;
        assert_eq!(for_cut_stacks(small, any).as_deref(), Some("try: --call-graph dwarf,65528"));
        assert_eq!(for_cut_stacks(small, largest), None, "nothing is larger");
        let limit = |limit| for_cut_stacks(TruncationReason::AddressLimit(limit), any).unwrap();
        assert_eq!(limit(127), "try: --max-stack 7000");
        assert_eq!(limit(7_000), "a sample has no room for more");
        let unreadable = |as_root| {
            let facts = StackFacts { as_root, ..any };
            for_cut_stacks(TruncationReason::ObjectUnreadable, facts).unwrap()
        };
        assert!(unreadable(false).contains("as root") && !unreadable(true).contains("try"));
        let tables = |facts| for_cut_stacks(TruncationReason::NoUnwindData, facts).unwrap();
        assert!(tables(StackFacts { could_ask_jvm: true, ..any }).contains("--runtimes=jvm"));
        assert!(!tables(any).contains("jvm"));
    }

    #[test]
    fn kernel_names_take_what_hides_them() {
        let with = |kptr_restrict, paranoid| {
            ThisMachine { distribution: Distribution::Debian, kptr_restrict, paranoid }.names_of_the_kernel()
        };
        assert_eq!(with(1, 1), "`sudo sysctl kernel.kptr_restrict=0`");
        assert_eq!(with(0, 2), "`sudo sysctl kernel.perf_event_paranoid=1`");
        assert_eq!(with(1, 2), "`sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1`");
        assert!(with(0, 1).starts_with("recording again"));
    }

    #[test]
    fn the_debug_package_of_the_c_library_is_that_of_its_architecture() {
        let command = |distribution, path: &str| {
            let Space::Object(object) = object(path, None) else { unreachable!() };
            ThisMachine { distribution, kptr_restrict: 0, paranoid: 1 }.libc_debug_command(&object)
        };
        let debian = |path| command(Distribution::Debian, path);
        assert_eq!(debian("/lib/x86_64-linux-gnu/libc.so.6").as_deref(), Some("apt-get install libc6-dbg"));
        assert_eq!(debian("/usr/lib64/ld-linux-x86-64.so.2").as_deref(), Some("apt-get install libc6-dbg"));
        assert_eq!(
            debian("/lib/i386-linux-gnu/libc.so.6").as_deref(),
            Some("apt-get install libc6-dbg:i386")
        );
        assert_eq!(debian("/usr/lib32/libc.so.6"), None);
        assert_eq!(debian("/usr/aarch64-linux-gnu/lib/libc.so.6"), None);
        assert_eq!(debian("/usr/lib/x86_64-linux-gnu/libssl.so.3"), None);
        let fedora = |path| command(Distribution::Fedora, path);
        assert_eq!(fedora("/usr/lib64/libc.so.6").as_deref(), Some("dnf debuginfo-install glibc"));
        assert_eq!(fedora("/usr/lib/libc.so.6").as_deref(), Some("dnf debuginfo-install glibc.i686"));
    }

    #[test]
    fn generated_code_is_named_by_its_own_runtime_as_it_was_started() {
        let again = Advisor { could_ask_runtimes: true, ..debian() };
        let said = |advisor: &Advisor, runtime, object| advisor.names_of_generated_code(runtime, object);
        assert_eq!(said(&again, Runtime::Node, "node"), "`prof record --runtimes -- COMMAND`");
        assert!(said(&debian(), Runtime::Node, "node").contains("`node --perf-basic-prof"));
        assert_eq!(again.frame_pointers(Runtime::Java), Some(ASK_RUNTIMES.to_owned()));
        assert_eq!(again.frame_pointers(Runtime::Node), None, "it keeps them always");
        assert!(said(&again, Runtime::Ruby, "ruby").contains("--yjit-perf"), "no variable asks it");
        let old = "libpython3.11.so.1.0";
        assert!(said(&again, Runtime::Python, old).contains("--call-graph auto"));
        let found_none = Advisor { read_functions: true, ..debian() };
        assert!(said(&found_none, Runtime::Python, old).starts_with("a longer run"));
        assert!(said(&found_none, Runtime::Python, "python3.10").starts_with("Python 3.11 or newer"));
        let code = Space::Jit { pid: Pid(1), generation: 0, mapping: Name::from("//anon") };
        assert_eq!(advice_for(code, Reason::NoJitMap), None, "of no runtime that is known: Go, valgrind");
    }
}
