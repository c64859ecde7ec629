//! All that guests are made of: what was fetched, what was built from it, and a recording of the host.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::Boot;
use super::answer::folded_on_host;
use super::architecture::Architecture;
use super::catalogue::Known;
use super::checks::Check;
use super::emulator::Emulator;
use super::fetched::Fetched;
use super::kernel::Kernel;
use super::machine::Machine;
use super::programs::Programs;
use super::selection::Selection;
use crate::workspace;

/// The parts of guests, and the faults that are known.
pub(super) struct Laboratory {
    pub(super) emulator: Emulator,
    pub(super) programs: Programs,
    /// None where the host does not permit one.
    pub(super) recording: Option<Recording>,
    /// Kernels with their images.
    pub(super) kernels: Vec<(Kernel, PathBuf)>,
    known: Vec<Known>,
}

/// A recording that was made on the host.
pub(super) struct Recording {
    /// With the names that it needs.
    pub(super) archive: Vec<u8>,
    /// Its stacks, as the host reads them.
    pub(super) folded: String,
}

impl Laboratory {
    /// Builds the programs.
    ///
    /// # Errors
    /// A program cannot be built.
    pub(super) fn build(cache: &Path, fetched: Fetched) -> anyhow::Result<Self> {
        let Fetched { emulator, packages, kernels, known } = fetched;
        let programs = Programs::build(cache, packages)?;
        let recording = Recording::make(&programs);
        if let Err(error) = &recording {
            println!("skipped: no recording of the host is read in guests: {error:#}");
        }
        Ok(Self { emulator, programs, recording: recording.ok(), kernels, known })
    }

    /// Returns the known fault that a check finds on a kernel.
    pub(super) fn known(&self, check: &Check, kernel: &Kernel) -> Option<&Known> {
        let (title, name) = (check.title(), kernel.name());
        self.known.iter().find(|known| title.contains(&known.check) && name.contains(&known.kernel))
    }

    /// Lists the guests with their checks. Those with the most checks begin first.
    pub(super) fn boots<'a>(&'a self, checks: &'a [Check], selection: &Selection) -> Vec<Boot<'a>> {
        let mut boots = Vec::new();
        for (kernel, image) in &self.kernels {
            for machine in Machine::ALL.into_iter().filter(|&machine| selection.has_machine(machine)) {
                let checks = checks.iter().filter(|check| check.machine == machine && (check.on)(kernel));
                let checks = checks.filter(|check| self.recording.is_some() || !check.reads_host_recording);
                let checks: Vec<&Check> = checks.filter(|check| selection.has_check(check)).collect();
                if !checks.is_empty() {
                    boots.push(Boot { kernel, image, machine, checks });
                }
            }
        }
        boots.sort_by_key(|boot| Reverse(boot.checks.len()));
        boots
    }
}

impl Recording {
    fn make(programs: &Programs) -> anyhow::Result<Self> {
        let prof = programs.prof()?;
        let folder = tempfile::tempdir()?;
        let (data, archive) = (folder.path().join("data"), folder.path().join("archive"));
        let mut record = Command::new(prof);
        record.args(["record", "-q", "-e", "cpu-clock:u", "-o"]).arg(&data).arg("--");
        record.arg(programs.program(Architecture::X86_64, "shares")?).args(["alone", "200"]);
        workspace::output(&mut record)?;
        workspace::output(
            Command::new(prof).args(["archive", "-q", "-o"]).arg(&archive).arg("-i").arg(&data),
        )?;
        let folded = folded_on_host(prof, &archive)?;
        Ok(Self { archive: std::fs::read(&archive).context("the archive")?, folded })
    }
}
