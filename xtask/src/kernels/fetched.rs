//! What comes from Debian's archive: kernels, the emulator, and the packages of guests.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::apt::Apt;
use super::architecture::Architecture;
use super::catalogue::{Catalogue, Known};
use super::emulator::Emulator;
use super::kernel::Kernel;
use super::machine::Machine;
use super::selection::Selection;
use crate::workspace;

/// Debian's programs of a full guest.
const TOOLS: [&str; 2] = ["linux-perf", "python3"];

/// The cross compiler. Its own C library of the host's architecture is left out: the compiler runs with the host's, which is of the same
/// suite.
const CROSS: [&str; 2] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// All that was fetched.
pub(super) struct Fetched {
    pub(super) emulator: Emulator,
    pub(super) packages: BTreeMap<Architecture, Packages>,
    /// Kernels with their images.
    pub(super) kernels: Vec<(Kernel, PathBuf)>,
    pub(super) known: Vec<Known>,
}

/// The packages for guests of an architecture.
pub(super) struct Packages {
    /// A C compiler for the architecture.
    pub(super) gcc: PathBuf,
    pub(super) busybox: PathBuf,
    /// A folder with perf and Python, and what they need; `None` if no full guest is booted.
    pub(super) tools: Option<PathBuf>,
}

impl Fetched {
    /// Fetches the kernels that are selected, and prints which are not to be had.
    ///
    /// # Errors
    /// This host is not Debian on x86-64, the archive cannot be reached, or no kernel is served.
    pub(super) fn fetch(cache: &Path, selection: &Selection) -> anyhow::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            bail!("guests are booted on hosts of x86-64 only");
        }
        let catalogue = Catalogue::read()?;
        let mut apts = BTreeMap::new();
        for architecture in Architecture::ALL {
            match Apt::open(cache, architecture, &catalogue).and_then(|apt| {
                has_rust(architecture)?;
                Ok(apt)
            }) {
                Ok(apt) => _ = apts.insert(architecture, apt),
                // The host's own is needed in any case.
                Err(error) if architecture == Architecture::X86_64 => return Err(error),
                Err(error) => println!("skipped: {}: {error:#}", architecture.machine()),
            }
        }
        let mut served = Vec::new();
        for (architecture, apt) in &apts {
            for wanted in &catalogue.kernels {
                match Kernel::candidates(apt, *architecture, wanted, catalogue.is_stable(wanted)) {
                    Ok(candidates) => served.push(candidates),
                    Err(error) => println!("skipped: {error:#}"),
                }
            }
        }
        let mut kernels = Vec::new();
        for candidates in selection.choose(served) {
            match fetch(&apts[&candidates[0].architecture], candidates) {
                Ok(fetched) => kernels.push(fetched),
                Err(error) => println!("skipped: {error:#}"),
            }
        }
        if kernels.is_empty() {
            bail!("no kernel is served that matches");
        }
        let host = &apts[&Architecture::X86_64];
        let mut packages = BTreeMap::new();
        for (architecture, apt) in &apts {
            // The host reads what guests recorded, with the program for x86-64.
            let is_needed = kernels.iter().any(|(kernel, _)| kernel.architecture == *architecture);
            if is_needed || *architecture == Architecture::X86_64 {
                let mut fetched = Packages::fetch(cache, *architecture, apt, host, &catalogue.stable)?;
                if selection.has_machine(Machine::Full) {
                    fetched.tools = Some(apt.unpack_all("tools", &catalogue.stable, &TOOLS, &[])?);
                }
                packages.insert(*architecture, fetched);
            }
        }
        let emulator = Emulator::fetch(host, &catalogue.stable)?;
        Ok(Self { emulator, packages, kernels, known: catalogue.known })
    }
}

impl Packages {
    /// `own` is apt of the architecture, `host` that of the host's.
    fn fetch(
        cache: &Path,
        architecture: Architecture,
        own: &Apt,
        host: &Apt,
        suite: &str,
    ) -> anyhow::Result<Self> {
        let gcc = match architecture {
            Architecture::X86_64 => PathBuf::from("gcc"),
            Architecture::Aarch64 => cross_compiler(cache, host)?,
        };
        Ok(Self { gcc, busybox: busybox(own, suite)?, tools: None })
    }
}

/// Checks that Rust's library for an architecture is installed.
fn has_rust(architecture: Architecture) -> anyhow::Result<()> {
    let target = architecture.target();
    let folder =
        workspace::output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    if !Path::new(folder.trim()).is_dir() {
        bail!("Rust's library for {target} is not installed; try: rustup target add {target}");
    }
    Ok(())
}

/// Fetches the first of the candidates that the archive has.
fn fetch(apt: &Apt, candidates: Vec<Kernel>) -> anyhow::Result<(Kernel, PathBuf)> {
    let mut reasons = Vec::new();
    for kernel in candidates {
        match kernel.image(apt) {
            Ok(image) => return Ok((kernel, image)),
            Err(error) => reasons.push(format!("{}: {error:#}", kernel.name())),
        }
    }
    bail!("{}", reasons.join("; "))
}

/// Unpacks the cross compiler of the host's own suite, and writes a script that runs it with the libraries of its packages.
fn cross_compiler(cache: &Path, host: &Apt) -> anyhow::Result<PathBuf> {
    let folder = host.unpack_all("gcc-aarch64", &host_suite()?, &CROSS, &["libc6", "libgcc-s1"])?;
    let usr = folder.join("usr");
    let library = usr.join("aarch64-linux-gnu/lib/libm.a");
    // It is a script of the linker that names the archives where the package would be installed. Without folders, they are sought beside it.
    let script = std::fs::read(&library).with_context(|| library.display().to_string())?;
    if let Ok(script) = String::from_utf8(script) {
        std::fs::write(&library, script.replace("/usr/aarch64-linux-gnu/lib/", ""))?;
    }
    let gcc = cache.join("aarch64-linux-gnu-gcc");
    let script = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{0}/lib/x86_64-linux-gnu' exec '{0}/bin/aarch64-linux-gnu-gcc' \"$@\"\n",
        usr.display()
    );
    std::fs::write(&gcc, script).with_context(|| gcc.display().to_string())?;
    std::fs::set_permissions(&gcc, std::fs::Permissions::from_mode(0o755))?;
    Ok(gcc)
}

fn busybox(apt: &Apt, suite: &str) -> anyhow::Result<PathBuf> {
    let served = apt.served("busybox-static")?;
    let version = served.iter().find(|served| served.suite == suite);
    let version = version.with_context(|| format!("{suite} serves no busybox-static"))?;
    let folder = apt.unpack("busybox-static", &version.version, &["./usr/bin/busybox", "./bin/busybox"])?;
    let places = ["usr/bin/busybox", "bin/busybox"].map(|place| folder.join(place));
    places.into_iter().find(|file| file.is_file()).context("busybox-static has no busybox")
}

/// Returns the suite that the host runs.
fn host_suite() -> anyhow::Result<String> {
    let release = std::fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(|name| name.trim_matches('"').to_owned()).context("/etc/os-release names no suite")
}
