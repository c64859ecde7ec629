//! What gives frames without a name one: for each cause what to type.

use host::machine::{Distribution, distribution};
use model::{Name, ObjectIdentity, Reason, Space, SpaceTable};
use profile::{Census, Nameless};

/// Knows what to type on this machine.
pub struct Remedies {
    distribution: Distribution,
    /// Whether the recording was made here: packages of this machine belong to its files.
    this_host: bool,
    /// Whether servers were asked for debug files: advice to do so would be of no use.
    asked_servers: bool,
    /// Whether the recording has complete stacks, as good as they get.
    unwound: bool,
}

/// The picture's subtitle has room for this many.
const IN_SUBTITLE: usize = 2;

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

/// What makes runtimes write down where they put generated code.
const PERF_MAPS: &str = "`node --perf-basic-prof`, `java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit` or `python3 -X perf`";

impl Remedies {
    /// Finds out which distribution this is.
    pub fn new(this_host: bool, asked_servers: bool, unwound: bool) -> Self {
        Self { distribution: distribution(), this_host, asked_servers, unwound }
    }

    /// What would give the most frames names, each with its module.
    pub fn most_helpful(&self, census: &Census, spaces: &SpaceTable) -> Vec<String> {
        let mut remedies: Vec<(String, Vec<String>)> = Vec::new();
        for nameless in &census.reasons {
            let Some(remedy) = self.of(nameless, spaces) else { continue };
            let module = nameless.module.as_ref().map_or_else(|| "others".to_owned(), Name::to_string);
            let room = remedies.len() < IN_SUBTITLE;
            match remedies.iter_mut().find(|(known, _)| *known == remedy) {
                Some((_, modules)) => modules.push(module),
                None if room => remedies.push((remedy, vec![module])),
                None => {}
            }
        }
        let said = |(remedy, modules): (String, Vec<String>)| match modules.as_slice() {
            [module] => format!("{module}: {remedy}"),
            [module, rest @ ..] => format!("{module} and {} more: {remedy}", rest.len()),
            [] => remedy,
        };
        remedies.into_iter().map(said).collect()
    }

    /// What to type against one cause; nothing where nothing helps.
    pub fn of(&self, nameless: &Nameless, spaces: &SpaceTable) -> Option<String> {
        let space = spaces.get(nameless.space);
        let object = match space {
            Space::Object(identity) => Some(identity),
            _ => None,
        };
        Some(match &nameless.reason {
            Reason::Unmapped if self.unwound => return None,
            Reason::Unmapped => "`prof record --call-graph auto`".to_owned(),
            Reason::NoSymbols | Reason::Stripped => self.debug_information(object?),
            Reason::NoSymbolCovers => match object {
                Some(object) if is_of_the_system(object) => self.debug_information(object),
                _ => return None,
            },
            Reason::FileMissing | Reason::BuildIdDiffers { .. } => match object {
                Some(object) if object.build_id.is_some() && !self.asked_servers => {
                    "`--debuginfod`, or `--symfs DIR` with the recorded files below it".to_owned()
                }
                _ => "`--symfs DIR` with the recorded files below it".to_owned(),
            },
            Reason::FileChanged => "recording again".to_owned(),
            Reason::FileUnreadable(_) => "`sudo`, which may read it".to_owned(),
            Reason::KernelAddressesHidden => "`sudo sysctl kernel.kptr_restrict=0`".to_owned(),
            Reason::OtherKernel => "`--debug-dir DIR` with that kernel's `vmlinux` below it".to_owned(),
            Reason::NoJitMap => PERF_MAPS.to_owned(),
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

    /// Where the symbols of an object come from that has been stripped.
    fn debug_information(&self, object: &ObjectIdentity) -> String {
        let file = String::from_utf8_lossy(object.path.base_name()).into_owned();
        let of_c_library = C_LIBRARY.iter().any(|start| file.starts_with(start));
        match self.distribution {
            _ if !is_of_the_system(object) => {
                "building it with `-g` (Rust: `-C debuginfo=1`) and without `strip`".to_owned()
            }
            Distribution::Debian if of_c_library && self.this_host => {
                "`apt-get install libc6-dbg`".to_owned()
            }
            Distribution::Fedora if of_c_library && self.this_host => {
                "`dnf debuginfo-install glibc`".to_owned()
            }
            Distribution::Suse if of_c_library && self.this_host => {
                "`zypper install glibc-debuginfo`".to_owned()
            }
            _ if self.asked_servers => "its package of debug symbols".to_owned(),
            _ => "`--debuginfod`, or its package of debug symbols".to_owned(),
        }
    }
}

/// Whether a package manager put the file where it is.
fn is_of_the_system(object: &ObjectIdentity) -> bool {
    let path = object.path.as_bytes();
    let below = |folder: &str| path.starts_with(folder.as_bytes());
    ["/usr/", "/lib", "/bin/", "/sbin/"].into_iter().any(below) && !below("/usr/local/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BuildId, Pid};

    fn object(path: &str, build_id: Option<BuildId>) -> Space {
        Space::Object(ObjectIdentity { path: Name::from(path), build_id, file: None })
    }

    fn debian() -> Remedies {
        Remedies { distribution: Distribution::Debian, this_host: true, asked_servers: false, unwound: false }
    }

    fn remedy(space: Space, reason: Reason) -> Option<String> {
        let remedies = debian();
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(space);
        remedies.of(&Nameless { module: None, reason, space, frames: 1 }, &spaces)
    }

    #[test]
    fn every_cause_that_can_be_helped_says_what_to_type() {
        let libc = object("/lib/x86_64-linux-gnu/libc.so.6", None);
        assert_eq!(remedy(libc, Reason::Stripped).unwrap(), "`apt-get install libc6-dbg`");
        let own = remedy(object("/home/me/prog", None), Reason::NoSymbols).unwrap();
        assert!(own.contains("`-g`") && own.contains("`-C debuginfo=1`"), "{own}");
        let system = remedy(object("/usr/bin/git", None), Reason::NoSymbols).unwrap();
        assert!(system.contains("`--debuginfod`"), "{system}");
        let kernel = || Space::Kernel { build_id: None, text_address: None };
        let hidden = remedy(kernel(), Reason::KernelAddressesHidden).unwrap();
        assert!(hidden.contains("sysctl kernel.kptr_restrict=0"), "{hidden}");
        let unmapped = remedy(Space::Unmapped { pid: Pid(1), generation: 0 }, Reason::Unmapped).unwrap();
        assert!(unmapped.contains("--call-graph auto"), "{unmapped}");
        let unwound = Remedies { unwound: true, ..debian() };
        let nowhere = Space::Unmapped { pid: Pid(1), generation: 0 };
        let mut spaces = SpaceTable::default();
        let space = spaces.intern(nowhere);
        let nameless = Nameless { module: None, reason: Reason::Unmapped, space, frames: 1 };
        assert_eq!(unwound.of(&nameless, &spaces), None, "it was recorded so");
        let gone = remedy(object("/x", BuildId::from_hex("aabbccdd")), Reason::FileMissing).unwrap();
        assert!(gone.contains("--debuginfod") && gone.contains("--symfs"), "{gone}");
        assert_eq!(remedy(kernel(), Reason::NoSymbolCovers), None);
    }

    #[test]
    fn the_subtitle_names_the_most_frequent_and_how_many_share_a_remedy() {
        let remedies = debian();
        let mut spaces = SpaceTable::default();
        let mut nameless = |path: &str, frames| Nameless {
            module: Some(Name::from(path.rsplit('/').next().unwrap())),
            reason: Reason::NoSymbols,
            space: spaces.intern(object(path, None)),
            frames,
        };
        let reasons =
            vec![nameless("/lib/libc.so.6", 9), nameless("/lib/libm.so.6", 5), nameless("/opt/a", 2)];
        let census = Census { reasons, ..Census::default() };
        let said = remedies.most_helpful(&census, &spaces);
        assert_eq!(said[0], "libc.so.6 and 1 more: `apt-get install libc6-dbg`");
        assert!(said[1].starts_with("a: building it with"), "{}", said[1]);
    }
}
