//! `cargo xtask dist [ARTEFACT…]`: builds release artefacts in `target/dist`, as far as this machine can.
//!
//! Programs are built with the profile `dist` and all features, and stripped; their debug information is in separate files. Artefacts
//! that cannot be built are listed with the reason and what to install.

mod build;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::workspace;
use build::{Build, Linking};
use stage::Stage;

/// An artefact: programs for one kind of machine, or a package.
struct Artefact {
    name: &'static str,
    about: &'static str,
    make: fn(&Dist) -> anyhow::Result<PathBuf>,
}

const ARTEFACTS: &[Artefact] = &[
    Artefact {
        name: "static",
        about: "x86-64, static: every Linux",
        make: |dist| dist.archive("x86_64-linux-static", &dist.host_stage()?),
    },
    Artefact {
        name: "glibc",
        about: "x86-64, dynamic: glibc 2.17 or newer",
        make: |dist| {
            let build = Build { target: "x86_64-unknown-linux-gnu", linking: Linking::Glibc217 };
            dist.archive("x86_64-linux-gnu2.17", &dist.stage("glibc", &build)?)
        },
    },
    Artefact {
        name: "aarch64",
        about: "aarch64, static: every Linux",
        make: |dist| {
            let build = Build { target: "aarch64-unknown-linux-gnu", linking: Linking::Static };
            dist.archive("aarch64-linux-static", &dist.stage("aarch64", &build)?)
        },
    },
    Artefact { name: "deb", about: "Debian, Ubuntu and the like, x86-64", make: Dist::deb },
    Artefact { name: "rpm", about: "Fedora, RHEL, SUSE and the like, x86-64", make: Dist::rpm },
];

/// The folders and the version.
struct Dist {
    root: PathBuf,
    output: PathBuf,
    version: String,
}

/// Builds all artefacts, or those that are named.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if let Some(unknown) = args.iter().find(|arg| ARTEFACTS.iter().all(|artefact| artefact.name != **arg)) {
        let known: Vec<_> = ARTEFACTS.iter().map(|artefact| artefact.name).collect();
        bail!("there is no artefact {unknown}; there are {}", known.join(", "));
    }
    let root = workspace::root();
    let metadata = workspace::metadata(&root)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let cli = packages.iter().find(|package| package["name"] == "prof-cli").context("no package prof-cli")?;
    let version = cli["version"].as_str().context("prof-cli has no version")?.to_owned();
    let output = root.join("target/dist");
    std::fs::create_dir_all(&output).with_context(|| output.display().to_string())?;
    let dist = Dist { root, output, version };
    let chosen =
        ARTEFACTS.iter().filter(|artefact| args.is_empty() || args.iter().any(|arg| arg == artefact.name));
    let mut lines = Vec::new();
    let mut made = 0;
    for artefact in chosen {
        eprintln!("== {}: {}", artefact.name, artefact.about);
        lines.push(match (artefact.make)(&dist) {
            Ok(path) => {
                made += 1;
                let bytes = std::fs::metadata(&path)?.len();
                format!("{:<8} {:>5.1} MB  {}", artefact.name, bytes as f64 / 1e6, path.display())
            }
            Err(error) => format!("{:<8} not built: {error:#}", artefact.name),
        });
    }
    println!("{}", lines.join("\n"));
    if made < lines.len() {
        bail!("{made} of {} artefacts were built", lines.len());
    }
    Ok(())
}

impl Dist {
    /// Builds the programs for x86-64, with completions and manual pages. Packages contain them, too.
    fn host_stage(&self) -> anyhow::Result<Stage> {
        self.stage("x86_64", &Build { target: "x86_64-unknown-linux-gnu", linking: Linking::Static })
    }

    fn stage(&self, name: &str, build: &Build) -> anyhow::Result<Stage> {
        let programs = build.run(&self.root)?;
        Stage::fill(&self.root, self.output.join("stage").join(name), &programs, build)
    }

    /// Writes a compressed tar file with one folder.
    fn archive(&self, name: &str, stage: &Stage) -> anyhow::Result<PathBuf> {
        let folder = format!("prof-{}-{name}", self.version);
        let pack = |from: &Path, file: &str| {
            let path = self.output.join(file);
            let mut tar = Command::new("tar");
            tar.arg("-C").arg(from).arg("--owner=0").arg("--group=0").arg("--sort=name");
            tar.arg(format!("--transform=s,^\\.,{folder},")).arg("-czf").arg(&path).arg(".");
            workspace::run(&mut tar).map(|()| path)
        };
        pack(&stage.debug, &format!("{folder}-debug.tar.gz"))?;
        pack(&stage.files, &format!("{folder}.tar.gz"))
    }

    fn deb(&self) -> anyhow::Result<PathBuf> {
        let path = self.output.join(format!("prof_{}_amd64.deb", self.version));
        installed("cargo-deb")?;
        self.host_stage()?;
        let mut deb = Command::new("cargo");
        deb.args(["deb", "--no-build", "--no-strip", "--package", "prof-cli", "--output"]).arg(&path);
        workspace::run(deb.current_dir(&self.root)).map(|()| path)
    }

    fn rpm(&self) -> anyhow::Result<PathBuf> {
        let path = self.output.join(format!("prof-{}-1.x86_64.rpm", self.version));
        installed("cargo-generate-rpm")?;
        self.host_stage()?;
        let mut rpm = Command::new("cargo");
        rpm.args(["generate-rpm", "--package", "crates/cli", "--output"]).arg(&path);
        workspace::run(rpm.current_dir(&self.root)).map(|()| path)
    }
}

/// Checks that a subcommand of cargo is installed.
fn installed(name: &str) -> anyhow::Result<()> {
    let found = Command::new(name).arg("--version").output().is_ok();
    if !found {
        bail!("{name} is not installed; try: cargo install {name}");
    }
    Ok(())
}
