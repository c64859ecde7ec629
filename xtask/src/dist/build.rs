//! Builds the programs for a target.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use super::installed;
use crate::workspace;

/// The programs that a release contains.
pub(super) const PROGRAMS: [&str; 2] = ["prof", "cargo-prof"];

/// The kind of linking with the C library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Linking {
    /// Statically with glibc, for whose allocator `prof` is tuned.
    Static,
    /// Dynamically with glibc 2.17 or newer: `cargo zigbuild` links against the symbols of that version.
    Glibc217,
}

/// A build of the programs.
pub(super) struct Build {
    pub(super) target: &'static str,
    pub(super) linking: Linking,
}

impl Build {
    /// Builds, and returns the folder with the programs.
    pub(super) fn run(&self, root: &Path) -> anyhow::Result<PathBuf> {
        self.check_tools()?;
        let folder = match self.linking {
            Linking::Static => "static",
            Linking::Glibc217 => "glibc217",
        };
        let folder = root.join("target").join(folder);
        let mut cargo = Command::new("cargo");
        match self.linking {
            Linking::Static => {
                cargo.args(["build", "--target", self.target]).env("RUSTFLAGS", self.static_flags())
            }
            Linking::Glibc217 => cargo.args(["zigbuild", "--target", &format!("{}.2.17", self.target)]),
        };
        if let Some(gcc) = self.cross_compiler() {
            let triple = self.target.replace('-', "_");
            cargo
                .env(format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase()), gcc)
                .env(format!("CC_{triple}"), gcc);
        }
        cargo.args(["--quiet", "--profile", "dist", "-p", "prof-cli", "-p", "cargo-prof"]);
        workspace::run(cargo.arg("--target-dir").arg(&folder).current_dir(root))?;
        Ok(folder.join(self.target).join("dist"))
    }

    /// Returns flags for packed relocations (0.2 MB less), and for merging equal functions, which only the linker of rustc for x86-64
    /// supports.
    fn static_flags(&self) -> &'static str {
        match self.cross_compiler() {
            Some(_) => "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs",
            None => {
                "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=all"
            }
        }
    }

    /// Returns the prefix of the binutils for the target.
    pub(super) fn binutils(&self) -> &'static str {
        if self.cross_compiler().is_some() { "aarch64-linux-gnu-" } else { "" }
    }

    /// Returns how to run one of the programs: directly, or with qemu for another architecture.
    pub(super) fn runs_here(&self, program: PathBuf) -> impl Fn() -> Command {
        let emulator = self.cross_compiler().map(|_| "qemu-aarch64-static");
        move || match emulator {
            None => Command::new(&program),
            Some(emulator) => {
                let mut command = Command::new(emulator);
                command.arg(&program);
                command
            }
        }
    }

    fn cross_compiler(&self) -> Option<&'static str> {
        (self.target.starts_with("aarch64") && !cfg!(target_arch = "aarch64"))
            .then_some("aarch64-linux-gnu-gcc")
    }

    fn check_tools(&self) -> anyhow::Result<()> {
        if self.linking == Linking::Glibc217 {
            installed("cargo-zigbuild")?;
        }
        if let Some(gcc) = self.cross_compiler()
            && Command::new(gcc).arg("--version").output().is_err()
        {
            bail!("{gcc} is not installed; try: apt install gcc-aarch64-linux-gnu");
        }
        let libdir = workspace::output(Command::new("rustc").args([
            "--print",
            "target-libdir",
            "--target",
            self.target,
        ]))?;
        if !Path::new(libdir.trim()).is_dir() {
            bail!("Rust's library for {0} is not installed; try: rustup target add {0}", self.target);
        }
        Ok(())
    }
}
