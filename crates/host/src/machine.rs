//! Facts about this machine that are stored in a recording.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use model::{BuildId, FileIdentity, KernelText, ObjectIdentity, TextSymbol};

use crate::sys::clock;
pub use crate::sys::system::{SystemName, configured_cpus};
use crate::sysctl;

/// The running kernel's image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelImage {
    /// The start of its text.
    pub text: KernelText,
    /// Length of the code from there, in bytes.
    pub length: u64,
    /// The kernel's build id.
    pub build_id: Option<BuildId>,
}

/// Returns true if the processor has vectors whose length programs do not know (SVE): frames with such vectors count in it.
pub fn has_scalable_vectors() -> bool {
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("sve");
    #[cfg(not(target_arch = "aarch64"))]
    false
}

/// Returns the length of SVE vectors that programs get unless they ask for another (`prctl(PR_SVE_SET_VL)`), in units of 8 bytes. `None` where
/// the processor has none.
pub fn default_vector_granules() -> Option<u64> {
    if !has_scalable_vectors() {
        return None;
    }
    let bytes: u64 =
        fs::read_to_string("/proc/sys/abi/sve_default_vector_length").ok()?.trim().parse().ok()?;
    Some(bytes / 8)
}

/// Maximum number of files that are compared by [`is_of_running_system`].
const MAX_COMPARED_FILES: usize = 16;

/// Returns true if a recording that names no host was made by the running system: it was `written` since the machine was started,
/// and a file that it mapped from the system's folders has the same device and inode here.
pub fn is_of_running_system<'o>(
    written: SystemTime,
    objects: impl IntoIterator<Item = &'o ObjectIdentity>,
) -> bool {
    let since_start = || {
        let started =
            clock::now(libc::CLOCK_REALTIME).ok()?.checked_sub(clock::now(libc::CLOCK_BOOTTIME).ok()?)?;
        let written = written.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(written.as_nanos() >= u128::from(started))
    };
    // Of other folders, a file system may not answer.
    let is_system = |path: &[u8]| path.starts_with(b"/usr/") || path.starts_with(b"/lib");
    let is_here = |(path, recorded): (&[u8], FileIdentity)| {
        fs::metadata(Path::new(OsStr::from_bytes(path))).is_ok_and(|file| {
            file.ino() == recorded.inode
                && libc::major(file.dev()) == recorded.major
                && libc::minor(file.dev()) == recorded.minor
        })
    };
    let files = objects.into_iter().filter_map(|object| Some((object.path.as_bytes(), object.file?)));
    since_start() == Some(true)
        && files.filter(|(path, _)| is_system(path)).take(MAX_COMPARED_FILES).any(is_here)
}

/// Returns the code range of the running kernel; `None` if its addresses are hidden (`kernel.kptr_restrict`).
pub fn kernel_image() -> Option<KernelImage> {
    let text = kernel_text(BufReader::with_capacity(4096, fs::File::open("/proc/kallsyms").ok()?))?;
    // /proc/iomem hides the length from ordinary users. The range then extends as far as no modules lie.
    let length = kernel_code_length().unwrap_or_else(|| KERNEL_END.saturating_sub(text.address).max(1));
    Some(KernelImage { text, length, build_id: kernel_build_id() })
}

/// The address up to which the kernel's code may extend. On x86-64 modules start there (Documentation/arch/x86/x86_64/mm.rst); on aarch64
/// they lie below the image.
const KERNEL_END: u64 = if cfg!(target_arch = "x86_64") { 0xffff_ffff_c000_0000 } else { u64::MAX };

/// Reads the start of the kernel's text from `/proc/kallsyms`: the first of `_text` and `_stext`, because the kernel takes long to print
/// the list. Hundreds of variables of each CPU come before it where these have addresses from 0 on (x86-64 before Linux 6.15). Returns
/// `None` if addresses are hidden.
fn kernel_text(list: impl BufRead) -> Option<KernelText> {
    let start_of_text = |line: String| {
        let mut words = line.split(' ');
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        let symbol = TextSymbol::from_name(name)?;
        Some(KernelText { symbol, address: u64::from_str_radix(address, 16).ok()? })
    };
    let text = list.lines().map_while(Result::ok).find_map(start_of_text)?;
    Some(text).filter(|text| text.address != 0)
}

/// Returns true if the NMI watchdog occupies a hardware counter of each CPU. The one of `CONFIG_HARDLOCKUP_DETECTOR_BUDDY` (Linux 6.5;
/// on arm64 the usual one) does not: its CPUs watch each other.
pub fn nmi_watchdog_counts() -> bool {
    sysctl::nmi_watchdog().is_some_and(|state| state > 0) && !has_buddy_watchdog()
}

/// Returns true if the kernel has the function of kernel/watchdog_buddy.c. Names are shown to everybody, even where addresses are not.
fn has_buddy_watchdog() -> bool {
    let name: &[u8] = b" watchdog_buddy_check_hardlockup";
    let lines = fs::File::open("/proc/kallsyms").map(|file| BufReader::new(file).split(b'\n'));
    lines.is_ok_and(|mut lines| lines.any(|line| line.is_ok_and(|line| line.ends_with(name))))
}

fn kernel_code_length() -> Option<u64> {
    let text = fs::read_to_string("/proc/iomem").ok()?;
    let line = text.lines().find(|line| line.ends_with(" : Kernel code"))?;
    let (first, last) = line.trim_start().split(' ').next()?.split_once('-')?;
    let (first, last) = (u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(last, 16).ok()?);
    last.checked_sub(first).filter(|&length| length > 0)?.checked_add(1)
}

/// Reads the build id of the running kernel from `/sys/kernel/notes`.
pub fn kernel_build_id() -> Option<BuildId> {
    build_id_of_notes(&fs::read("/sys/kernel/notes").ok()?)
}

/// Finds `NT_GNU_BUILD_ID` (3) among ELF notes in native byte order (elf(5), "Notes").
fn build_id_of_notes(mut notes: &[u8]) -> Option<BuildId> {
    while let Some((header, rest)) = notes.split_first_chunk::<12>() {
        let word = |at: usize| {
            let bytes = header.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_ne_bytes(bytes)).ok()
        };
        let (name_size, size, kind) = (word(0)?, word(4)?, word(8)?);
        let (name, rest) = rest.split_at_checked(name_size.checked_next_multiple_of(4)?)?;
        let content = rest.get(..size)?;
        if kind == 3 && name == b"GNU\0" {
            return BuildId::from_bytes(content);
        }
        notes = rest.get(size.checked_next_multiple_of(4)?..)?;
    }
    None
}

/// A module of the running kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelModule {
    /// The name in `/proc/modules`.
    pub name: String,
    /// First address (kernel Avma).
    pub start: u64,
    /// Length in memory, in bytes.
    pub length: u64,
    /// The build id from its notes in `/sys/module`.
    pub build_id: Option<BuildId>,
}

impl KernelModule {
    /// Returns the name that recordings have for it: `[ext4]`.
    pub fn recorded_name(&self) -> String {
        format!("[{}]", self.name)
    }
}

/// Lists the loaded modules whose addresses are visible to us.
pub fn kernel_modules() -> Vec<KernelModule> {
    loaded_modules(&fs::read_to_string("/proc/modules").unwrap_or_default())
}

/// Parses the lines of `/proc/modules`. Since Linux 6.4 a length counts data that lie elsewhere, too: code ends at the next module's
/// at the latest.
fn loaded_modules(text: &str) -> Vec<KernelModule> {
    let mut modules: Vec<KernelModule> = text.lines().filter_map(module).collect();
    modules.sort_by_key(|module| module.start);
    let starts: Vec<u64> = modules.iter().map(|module| module.start).collect();
    for (module, next) in modules.iter_mut().zip(starts.iter().skip(1)) {
        module.length = module.length.min(next - module.start);
    }
    modules
}

/// Parses `ext4 1134592 1 - Live 0xffffffffc0a3d000`.
fn module(line: &str) -> Option<KernelModule> {
    let words: Vec<&str> = line.split(' ').collect();
    let start = u64::from_str_radix(words.get(5)?.trim_start_matches("0x"), 16).ok().filter(|&at| at != 0)?;
    let name = (*words.first()?).to_owned();
    let notes = fs::read(format!("/sys/module/{name}/notes/.note.gnu.build-id")).ok();
    let build_id = notes.and_then(|notes| build_id_of_notes(&notes));
    Some(KernelModule { start, length: words.get(1)?.parse().ok()?, build_id, name })
}

/// The code of the running kernel.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KernelObjects {
    /// The image; `None` if its addresses are hidden.
    pub image: Option<KernelImage>,
    /// The modules whose addresses are visible.
    pub modules: Vec<KernelModule>,
}

impl KernelObjects {
    /// Reads image and modules of the running kernel.
    pub fn read() -> Self {
        Self { image: kernel_image(), modules: kernel_modules() }
    }

    /// Returns the names by which recordings list their build ids (`[kernel.kallsyms]`, `[ext4]`), with these.
    pub fn build_ids(&self) -> impl Iterator<Item = (String, BuildId)> {
        let image =
            self.image.iter().filter_map(|image| Some(("[kernel.kallsyms]".to_owned(), image.build_id?)));
        let modules = self.modules.iter();
        image.chain(modules.filter_map(|module| Some((module.recorded_name(), module.build_id?))))
    }
}

/// A family of Linux distributions, in which packages have the same names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Debian and its derivatives, such as Ubuntu.
    Debian,
    /// Fedora, RHEL and their derivatives.
    Fedora,
    /// SUSE and openSUSE.
    Suse,
    /// Alpine, whose C library is musl.
    Alpine,
    /// Any other.
    Other,
}

impl Distribution {
    /// Returns the command that installs the debug information of the C library.
    pub fn libc_debug_command(self) -> Option<&'static str> {
        Some(match self {
            Self::Debian => "apt-get install libc6-dbg",
            Self::Fedora => "dnf debuginfo-install glibc",
            Self::Suse => "zypper install glibc-debuginfo",
            Self::Alpine => "apk add musl-dbg",
            Self::Other => return None,
        })
    }
}

/// Returns the family of this machine's distribution, from `ID` and `ID_LIKE` of `/etc/os-release` (os-release(5)).
pub fn distribution() -> Distribution {
    let text =
        ["/etc/os-release", "/usr/lib/os-release"].into_iter().find_map(|path| fs::read_to_string(path).ok());
    parse_distribution(&text.unwrap_or_default())
}

fn parse_distribution(text: &str) -> Distribution {
    let value = |line: &str| {
        let value = line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE="))?;
        Some(value.trim_matches(['"', '\'']).to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(value).collect();
    let is =
        |wanted: &[&str]| names.iter().flat_map(|names| names.split(' ')).any(|name| wanted.contains(&name));
    match () {
        () if is(&["debian", "ubuntu"]) => Distribution::Debian,
        () if is(&["fedora", "rhel", "centos"]) => Distribution::Fedora,
        () if is(&["suse", "opensuse", "sles"]) => Distribution::Suse,
        () if is(&["alpine"]) => Distribution::Alpine,
        () => Distribution::Other,
    }
}

/// The model of the first processor.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Processor {
    /// The marketing name: `AMD EPYC 7571`.
    pub name: Option<String>,
    /// Vendor, family, model and stepping in perf's form: `AuthenticAMD,23,1,2`.
    pub id: Option<String>,
}

/// Reads the model of the first processor from `/proc/cpuinfo`.
pub fn processor() -> Processor {
    // 2048 bytes hold the first processor. Reading on costs an interrupt on each further CPU.
    let mut text = [0; 2048];
    let read = fs::File::open("/proc/cpuinfo").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    parse_processor(&String::from_utf8_lossy(text.get(..read).unwrap_or(&[])))
}

fn parse_processor(text: &str) -> Processor {
    let first = text.split("\n\n").next().unwrap_or_default();
    let field = |name: &str| {
        first.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let parts = [field("vendor_id"), field("cpu family"), field("model"), field("stepping")];
    let id = parts.iter().all(Option::is_some).then(|| parts.map(Option::unwrap_or_default).join(","));
    Processor { name: field("model name"), id }
}

/// Returns the size of main memory, in KiB.
pub fn total_memory_kb() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_walked_to_the_build_id() {
        let mut notes = Vec::new();
        for (name, kind, content) in
            [(&b"Xen\0"[..], 5_u32, &[1_u8, 2, 3][..]), (&b"GNU\0"[..], 3, &[7_u8; 20][..])]
        {
            notes.extend((name.len() as u32).to_ne_bytes());
            notes.extend((content.len() as u32).to_ne_bytes());
            notes.extend(kind.to_ne_bytes());
            notes.extend(name);
            notes.extend(content);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id_of_notes(&notes), BuildId::from_bytes(&[7; 20]));
        assert_eq!(build_id_of_notes(&notes[..notes.len() - 1]), None);
        assert_eq!(build_id_of_notes(&[0xff; 40]), None);
    }

    #[test]
    fn the_kernels_text_is_found_behind_what_each_cpu_has() {
        let of_each_cpu: String = (0..500).map(|at| format!("{at:016x} A variable_{at}\n")).collect();
        let found = |list: &str| kernel_text(list.as_bytes());
        let x86 = format!(
            "{of_each_cpu}ffffffff9a000000 T startup_64\nffffffff9a000000 T _stext\nffffffff9a000000 T _text\n"
        );
        assert_eq!(
            found(&x86),
            Some(KernelText { symbol: TextSymbol::Stext, address: 0xffff_ffff_9a00_0000 })
        );
        let arm = "ffff800080000000 T _text\nffff800080010000 T _stext\n";
        assert_eq!(found(arm), Some(KernelText { symbol: TextSymbol::Text, address: 0xffff_8000_8000_0000 }));
        assert_eq!(found("0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n"), None, "hidden");
        assert_eq!(found("ffff800080000000 T _text_of_something\n"), None);
    }

    #[test]
    fn the_first_processor_stands_for_all() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 1\n\
                    model name\t: AMD EPYC\nstepping\t: 2\n\nprocessor\t: 1\nmodel name\t: other\n";
        let processor = parse_processor(text);
        assert_eq!(processor.name.as_deref(), Some("AMD EPYC"));
        assert_eq!(processor.id.as_deref(), Some("AuthenticAMD,23,1,2"));
        assert_eq!(parse_processor(""), Processor::default());
    }

    #[test]
    fn distributions_are_known_by_their_ancestors() {
        assert_eq!(
            parse_distribution("NAME=Mint\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"),
            Distribution::Debian
        );
        assert_eq!(
            parse_distribution("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"),
            Distribution::Fedora
        );
        assert_eq!(parse_distribution("ID=\"opensuse-leap\"\nID_LIKE='suse opensuse'\n"), Distribution::Suse);
        assert_eq!(parse_distribution("PRETTY_NAME=\"X\"\nID=ubuntu\n"), Distribution::Debian);
        assert_eq!(parse_distribution("ID=alpine\n"), Distribution::Alpine);
        assert_eq!(parse_distribution(""), Distribution::Other);
        assert_eq!(parse_distribution("ID=arch\nNAME=\"like debian\"\n"), Distribution::Other);
    }

    #[test]
    fn modules_without_an_address_are_left_out() {
        let loaded = module("no_such_module 1134592 1 - Live 0xffffffffc0a3d000").unwrap();
        assert_eq!((loaded.start, loaded.length), (0xffff_ffff_c0a3_d000, 1_134_592));
        assert_eq!(module("ext4 1134592 1 - Live 0x0000000000000000"), None);
        let lines =
            "no_such_b 100 1 - Live 0xffffffffc0a3e000\nno_such_a 9999999 1 - Live 0xffffffffc0a3d000\n";
        let lengths: Vec<u64> = loaded_modules(lines).iter().map(|module| module.length).collect();
        assert_eq!(lengths, [0x1000, 100], "data of the first lie elsewhere");
    }
}
