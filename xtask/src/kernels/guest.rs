//! A guest: boots a kernel with checks, and returns what each printed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::answer::{self, Answer};
use super::architecture::Architecture;
use super::initramfs::Initramfs;
use super::laboratory::Laboratory;
use super::machine::Machine;
use crate::workspace;

/// The first process, and the functions of the scripts of checks.
const INIT: &str = include_str!("init.sh");
const LIBRARY: &str = include_str!("library.sh");

/// The longest that a guest may take: several times what all checks take on a loaded host.
const LIMIT: Duration = Duration::from_secs(300);

/// Packs the programs and the scripts of checks, which run in order of their names.
pub(super) fn pack(
    laboratory: &Laboratory,
    architecture: Architecture,
    machine: Machine,
    scripts: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<u8>> {
    let mut initramfs = Initramfs::default();
    initramfs.script("init", INIT);
    initramfs.script("library.sh", LIBRARY);
    for (name, file) in laboratory.programs.of(architecture) {
        initramfs.program(&format!("bin/{name}"), file)?;
    }
    if machine == Machine::Full {
        laboratory.programs.add_tools(architecture, &mut initramfs)?;
        initramfs.program("fixtures/shares.py", &workspace::root().join("fixtures/programs/shares.py"))?;
    }
    if let Some(recording) = &laboratory.recording {
        initramfs.file("host/archive", &recording.archive);
        initramfs.file("host/folded", recording.folded.as_bytes());
    }
    for (name, script) in scripts {
        initramfs.script(&format!("checks/{name}"), &format!(". /library.sh\n{script}"));
    }
    Ok(initramfs.into_bytes())
}

/// Boots, waits for the power-off, and returns the answers by the names of scripts. `log` receives what the console printed.
///
/// A guest that takes too long is ended: the checks that it has not done are missing.
pub(super) fn run(mut boot: Command, log: &Path) -> anyhow::Result<BTreeMap<String, Answer>> {
    let mut child = boot
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {boot:?}"))?;
    let mut stdout = child.stdout.take().context("no output to read")?;
    let mut stderr = child.stderr.take().context("no output to read")?;
    let console = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > LIMIT {
            child.kill().context("cannot end QEMU")?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut console = console.join().unwrap_or_default();
    stderr.read_to_end(&mut console)?;
    std::fs::write(log, &console).with_context(|| log.display().to_string())?;
    Ok(answer::parse(&String::from_utf8_lossy(&console)))
}
