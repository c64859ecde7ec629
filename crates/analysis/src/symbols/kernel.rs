//! Addresses of the kernel and its modules.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use host::kallsyms;
use host::machine;
use host::objects::SearchPaths;
use host::sys::system::SystemName;
use model::{Avma, BuildId, KernelText, Name, Reason, Resolution, Space, SpaceTable, StackEntry};
use symbolizer::Kallsyms;

use super::named;

/// The running kernel's list of symbols. The kernel takes tens of milliseconds to print it.
#[derive(Default)]
pub(super) struct RunningKernel(Mutex<Option<JoinHandle<io::Result<String>>>>);

impl RunningKernel {
    /// Starts to read it beside what else there is to do.
    pub(super) fn read_ahead(&self) {
        let thread = thread::Builder::new().name("prof-kallsyms".to_owned()).spawn(kallsyms::running);
        // If no thread can be started, the list is read when it is needed.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
    }

    /// Returns true if a thread reads it.
    pub(super) fn is_read_ahead(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn text(&self) -> io::Result<String> {
        let ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ahead.map(JoinHandle::join) {
            Some(Ok(text)) => text,
            Some(Err(_)) | None => kallsyms::running(),
        }
    }
}

/// The kernel's names, read when the first address asks for them.
pub(super) struct KernelNames {
    paths: SearchPaths,
    running: Arc<RunningKernel>,
    /// The kernel that the recording is of: modules belong to it.
    recorded: (Option<BuildId>, Option<KernelText>),
    /// True if the running kernel may be the recorded one though the recording does not say which that is.
    is_running_system: bool,
    /// True if its modules were loaded from the folder of another release than that of the running kernel.
    other_release: bool,
    table: OnceLock<Result<Table, Reason>>,
}

/// A list of names that fits the recorded kernel.
struct Table {
    symbols: Kallsyms,
    /// The number to add to a recorded address to get one of the list: kernels of the same build lie elsewhere after each
    /// start (KASLR).
    shift: u64,
    same_start: bool,
}

impl KernelNames {
    /// `written` is the time at which the file of the recording was written last.
    pub(super) fn new(
        paths: &SearchPaths,
        running: Arc<RunningKernel>,
        spaces: &SpaceTable,
        written: Option<SystemTime>,
    ) -> Self {
        let kernels = spaces.iter().filter_map(|(_, space)| match space {
            Space::Kernel { build_id, text } => Some((*build_id, *text)),
            _ => None,
        });
        // Prefers the kernel whose text address was recorded: without it, its symbols cannot be shifted.
        let recorded = kernels.max_by_key(|(build_id, text)| (text.is_some(), build_id.is_some()));
        let recorded = recorded.unwrap_or_default();
        let release = SystemName::read().release;
        let mut releases = spaces.iter().filter_map(|(_, space)| match space {
            Space::KernelModule { name, .. } => release_in(name.as_bytes()),
            _ => None,
        });
        let other_release = releases.any(|of_module| of_module != release.as_bytes());
        let objects = spaces.iter().filter_map(|(_, space)| match space {
            Space::Object(identity) => Some(identity),
            _ => None,
        });
        // A file that was never finished names no host.
        let is_running_system = paths.own_images
            || recorded.0.is_none()
                && written.is_some_and(|written| machine::is_of_running_system(written, objects));
        Self {
            paths: paths.clone(),
            running,
            recorded,
            is_running_system,
            other_release,
            table: OnceLock::new(),
        }
    }

    /// The function at an address of the kernel image.
    pub(super) fn resolve(&self, entry: &StackEntry) -> Resolution {
        self.look_up(entry, |_| true)
    }

    /// The function at an address of a module. Modules are loaded elsewhere after each start of the machine.
    pub(super) fn resolve_in_module(&self, name: &Name, entry: &StackEntry) -> Resolution {
        match self.table() {
            Ok(table) if !table.same_start => Resolution::Unresolved(Reason::OtherKernel),
            _ => {
                let module = module_name(name);
                self.look_up(entry, |found| found.is_none_or(|found| found == module))
            }
        }
    }

    fn look_up(&self, entry: &StackEntry, belongs: impl Fn(Option<&str>) -> bool) -> Resolution {
        let table = match self.table() {
            Ok(table) => table,
            Err(reason) => return Resolution::Unresolved(reason.clone()),
        };
        let address = Avma(entry.lookup_offset().wrapping_add(table.shift));
        let found = Avma(entry.offset.wrapping_add(table.shift));
        match table.symbols.find_caller(address, found).filter(|symbol| belongs(symbol.module)) {
            Some(symbol) => named(symbol.name, found.checked_offset_from(symbol.start)),
            None => Resolution::Unresolved(Reason::NoSymbolCovers),
        }
    }

    fn table(&self) -> &Result<Table, Reason> {
        self.table.get_or_init(|| self.read())
    }

    fn read(&self) -> Result<Table, Reason> {
        let (build_id, text) = self.recorded;
        // Without a build id only the place of the text can say that it is this kernel, and that is the same for all kernels
        // that do not move theirs.
        if build_id.is_none() && self.other_release {
            return Err(Reason::OtherKernel);
        }
        if build_id.is_none() && !self.is_running_system {
            return Err(Reason::UnknownKernel);
        }
        let cached = || {
            let build_id = build_id?;
            kallsyms::cached(&self.paths, build_id).or_else(|| kallsyms::from_vmlinux(&self.paths, build_id))
        };
        // Compares kernels first, because the kernel takes long to print the list.
        let list = if self.is_of_running() {
            let unreadable = |error: io::Error| Reason::FileUnreadable(error.to_string());
            self.running.text().map_err(unreadable).or_else(|reason| cached().ok_or(reason))?
        } else {
            cached().ok_or(Reason::OtherKernel)?
        };
        let symbols = Kallsyms::parse(&list);
        if symbols.addresses_hidden() {
            return Err(Reason::KernelAddressesHidden);
        }
        if symbols.is_empty() {
            return Err(Reason::NoSymbols);
        }
        let current = text.and_then(|text| symbols.text_address(text.symbol));
        let (shift, same_start) = match (current, text) {
            (Some(current), Some(text)) => (current.0.wrapping_sub(text.address), current.0 == text.address),
            _ => (0, true),
        };
        if build_id.is_none() && !same_start {
            return Err(Reason::OtherKernel);
        }
        Ok(Table { symbols, shift, same_start })
    }

    fn is_of_running(&self) -> bool {
        match (self.recorded.0, machine::kernel_build_id()) {
            (Some(recorded), Some(running)) => recorded.same_object(&running),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }
}

/// The release in a module's path, `/lib/modules/RELEASE/…`: a file that was never finished, or went through a pipe, may say
/// it nowhere else.
fn release_in(module: &[u8]) -> Option<&[u8]> {
    let folder = module.strip_prefix(b"/usr".as_slice()).unwrap_or(module);
    let below = folder.strip_prefix(b"/lib/modules/".as_slice())?;
    let (release, file) = below.split_at(below.iter().position(|&byte| byte == b'/')?);
    (!release.is_empty() && file.len() > 1).then_some(release)
}

/// `ext4` for `[ext4]` and for `/lib/modules/…/ext4.ko.xz`; the kernel writes `_` where the file has `-`.
fn module_name(recorded: &Name) -> String {
    let text = recorded.to_string();
    let base = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(name) => name,
        None => {
            let file = text.rsplit('/').next().unwrap_or_default();
            file.split_once(".ko").map_or(file, |(name, _)| name)
        }
    };
    base.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use model::{FileIdentity, ObjectIdentity};

    use super::*;

    // makedev(3).
    fn major(device: u64) -> u32 {
        (device >> 8 & 0xfff | device >> 32 & !0xfff) as u32
    }

    fn minor(device: u64) -> u32 {
        (device & 0xff | device >> 12 & !0xff) as u32
    }

    #[test]
    fn a_kernel_whose_modules_are_of_another_release_is_not_the_running_one() {
        assert_eq!(release_in(b"/lib/modules/3.4.0/kernel/net/mac80211.ko"), Some(b"3.4.0".as_slice()));
        assert_eq!(release_in(b"/usr/lib/modules/6.1.0-1/extra/a.ko.xz"), Some(b"6.1.0-1".as_slice()));
        for other in ["[ext4]", "/lib/modules/", "/lib/modules//a.ko", "/opt/a.ko", "/lib/modules/6.1"] {
            assert_eq!(release_in(other.as_bytes()), None, "{other}");
        }
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        let running = SystemName::read().release.into_string().unwrap();
        for (release, is_other) in [("3.4.0", true), (running.as_str(), false)] {
            let mut spaces = SpaceTable::default();
            let name = Name::from(format!("/lib/modules/{release}/kernel/a.ko").as_str());
            spaces.intern(Space::KernelModule { name, build_id: None, start: 0 });
            spaces.intern(Space::Kernel { build_id: None, text: None });
            let names = KernelNames::new(&paths, Arc::default(), &spaces, None);
            assert_eq!(names.other_release, is_other, "{release}");
            if is_other {
                assert_eq!(names.table().as_ref().err(), Some(&Reason::OtherKernel));
            }
        }
    }

    #[test]
    fn a_recording_that_names_no_host_is_of_this_system_where_its_files_are_the_same() {
        let library = Path::new("/usr/bin/env");
        let metadata = std::fs::metadata(library).unwrap();
        let paths =
            SearchPaths { own_images: false, ..SearchPaths::from_environment(None, Vec::new(), true) };
        let is_own = |inode: u64, written: Option<SystemTime>| {
            let (major, minor) = (major(metadata.dev()), minor(metadata.dev()));
            let file = Some(FileIdentity { major, minor, inode, generation: 0 });
            let path = Name::from(library.to_str().unwrap_or_default());
            let mut spaces = SpaceTable::default();
            spaces.intern(Space::Object(ObjectIdentity { path, build_id: None, file }));
            spaces.intern(Space::Kernel { build_id: None, text: None });
            KernelNames::new(&paths, Arc::default(), &spaces, written).is_running_system
        };
        let now = SystemTime::now();
        assert!(is_own(metadata.ino(), Some(now)));
        assert!(!is_own(metadata.ino() + 1, Some(now)), "another file");
        assert!(!is_own(metadata.ino(), Some(SystemTime::UNIX_EPOCH)), "before this system started");
        assert!(!is_own(metadata.ino(), None));
        let spaces = SpaceTable::default();
        let names = KernelNames::new(&paths, Arc::default(), &spaces, Some(now));
        assert_eq!(names.table().as_ref().err(), Some(&Reason::UnknownKernel));
    }

    #[test]
    fn module_names_are_the_kernels() {
        assert_eq!(module_name(&Name::from("[ext4]")), "ext4");
        assert_eq!(module_name(&Name::from("/lib/modules/6.1/kernel/snd-hda-intel.ko.xz")), "snd_hda_intel");
    }
}
