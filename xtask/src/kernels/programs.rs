//! The programs of guests: `prof` and C programs, linked statically, and busybox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::architecture::Architecture;
use super::fetched::Packages;
use super::initramfs::Initramfs;
use crate::{fixtures, workspace};

/// A C program of `fixtures/programs`.
struct Program {
    name: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
    only: Option<Architecture>,
}

const BOTH: Option<Architecture> = None;
const ARM: Option<Architecture> = Some(Architecture::Aarch64);

const PROGRAMS: &[Program] = &[
    Program { name: "shares", source: "shares", flags: &["-O1", "-fno-omit-frame-pointer"], only: BOTH },
    Program { name: "shares-fp", source: "shares", flags: &["-O2", "-fno-omit-frame-pointer"], only: BOTH },
    Program { name: "shares-tables", source: "shares", flags: &["-O2", "-fomit-frame-pointer"], only: BOTH },
    Program {
        name: "shares-bare",
        source: "shares",
        flags: &["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
        only: BOTH,
    },
    // Return addresses signed with the key A or B, in leaf functions, too.
    Program {
        name: "shares-pac-a",
        source: "shares",
        flags: &["-O2", "-fomit-frame-pointer", "-mbranch-protection=pac-ret+leaf"],
        only: ARM,
    },
    Program {
        name: "shares-pac-b",
        source: "shares",
        flags: &["-O2", "-fomit-frame-pointer", "-mbranch-protection=pac-ret+leaf+b-key"],
        only: ARM,
    },
    Program {
        name: "vectors",
        source: "vectors",
        flags: &["-O2", "-fomit-frame-pointer", "-march=armv8.2-a+sve"],
        only: ARM,
    },
    Program {
        name: "counts",
        source: "counts",
        flags: &["-O1", "-fno-omit-frame-pointer", "-no-pie"],
        only: BOTH,
    },
    Program { name: "as_user", source: "as_user", flags: &["-O1"], only: BOTH },
];

/// The folder of cargo's output in the cache.
const BUILD_FOLDER: &str = "build";

/// Built programs by architecture and name.
#[derive(Default)]
pub(super) struct Programs {
    built: BTreeMap<Architecture, BTreeMap<String, PathBuf>>,
    /// Folders with what full guests have.
    tools: BTreeMap<Architecture, PathBuf>,
}

impl Programs {
    /// Builds the programs of all architectures.
    pub(super) fn build(cache: &Path, packages: BTreeMap<Architecture, Packages>) -> anyhow::Result<Self> {
        build_prof(cache, &packages)?;
        let mut programs = Self::default();
        packages
            .into_iter()
            .try_for_each(|(architecture, packages)| programs.add(cache, architecture, packages))?;
        Ok(programs)
    }

    /// Builds the C programs of an architecture, beside `prof`.
    fn add(&mut self, cache: &Path, architecture: Architecture, packages: Packages) -> anyhow::Result<()> {
        let Packages { gcc, busybox, tools } = packages;
        let folder = cache.join("programs").join(architecture.machine());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut built = BTreeMap::new();
        built.insert("busybox".to_owned(), busybox);
        built.insert("prof".to_owned(), prof(cache, architecture));
        for program in PROGRAMS {
            if program.only.is_none_or(|only| only == architecture) {
                let file = folder.join(program.name);
                let mut gcc = Command::new(&gcc);
                gcc.args(["-static", "-g", "-pthread"]).args(program.flags).arg("-o").arg(&file);
                workspace::output(gcc.arg(fixtures::source(program.source)))?;
                built.insert(program.name.to_owned(), file);
            }
        }
        self.built.insert(architecture, built);
        self.tools.extend(tools.map(|folder| (architecture, folder)));
        Ok(())
    }

    /// Returns the `prof` that runs on the host.
    pub(super) fn prof(&self) -> anyhow::Result<&Path> {
        self.program(Architecture::X86_64, "prof")
    }

    /// Returns a program.
    pub(super) fn program(&self, architecture: Architecture, name: &str) -> anyhow::Result<&Path> {
        let file = self.built.get(&architecture).and_then(|programs| programs.get(name));
        file.map(PathBuf::as_path).with_context(|| format!("{name} was not built"))
    }

    /// Adds what full guests have: perf, Python, and their shared objects.
    pub(super) fn add_tools(
        &self,
        architecture: Architecture,
        initramfs: &mut Initramfs,
    ) -> anyhow::Result<()> {
        let folder = self.tools.get(&architecture).context("perf and Python were not fetched")?;
        for name in ["lib", "lib64"] {
            initramfs.link(name, &Path::new("usr").join(name));
        }
        let objects = format!("usr/lib/{}-linux-gnu/", architecture.machine());
        let wanted = |path: &str| {
            let is_object = path.strip_prefix(&objects).is_some_and(|name| !name.contains('/'));
            let tools = ["usr/bin/perf", "usr/bin/python3", "usr/lib/python3", "usr/lib64/"];
            is_object
                || tools.iter().any(|tool| path.starts_with(tool))
                || path.ends_with("/ld-linux-aarch64.so.1")
        };
        initramfs.tree(folder, Path::new("usr"), &wanted)
    }

    /// Returns the programs of an architecture by name; none if they were not built.
    pub(super) fn of(&self, architecture: Architecture) -> impl Iterator<Item = (&str, &Path)> {
        let programs = self.built.get(&architecture).into_iter().flatten();
        programs.map(|(name, file)| (name.as_str(), file.as_path()))
    }
}

/// Builds `prof` as a static program: linked as packages are, but sooner. For all architectures at once, which keeps all CPUs busy.
fn build_prof(cache: &Path, packages: &BTreeMap<Architecture, Packages>) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "-p", "prof-cli", "--no-default-features", "--target-dir"]);
    cargo.arg(cache.join(BUILD_FOLDER)).env("RUSTFLAGS", "-C target-feature=+crt-static");
    // What is right is looked at here, not how fast it is.
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    for (architecture, Packages { gcc, .. }) in packages {
        let target = architecture.target();
        cargo.args(["--target", target]);
        cargo.env(format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase()), gcc);
    }
    workspace::run(cargo.current_dir(workspace::root()))
}

/// Returns where `prof` is built for an architecture.
fn prof(cache: &Path, architecture: Architecture) -> PathBuf {
    cache.join(BUILD_FOLDER).join(architecture.target()).join("release/prof")
}
