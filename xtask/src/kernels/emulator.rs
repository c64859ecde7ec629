//! QEMU, unpacked from Debian's packages and started by its own loader, so that nothing is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::Apt;
use super::architecture::Architecture;
use super::machine::{Machine, Time};

const PACKAGES: [&str; 2] = ["qemu-system-x86", "qemu-system-arm"];
/// The memory of a guest. Its files are there, too.
const MEMORY: &str = "1536M";

/// An unpacked QEMU.
pub(super) struct Emulator {
    usr: PathBuf,
}

impl Emulator {
    /// Fetches QEMU from a suite. `apt` is that of the host's architecture, which is x86-64.
    pub(super) fn fetch(apt: &Apt, suite: &str) -> anyhow::Result<Self> {
        Ok(Self { usr: apt.unpack_all("qemu", suite, &PACKAGES, &[])?.join("usr") })
    }

    /// Returns the command that boots a kernel, with the guest's console on standard output. `seed` gives its random numbers.
    pub(super) fn boot(
        &self,
        architecture: Architecture,
        machine: Machine,
        kernel: &Path,
        initramfs: &Path,
        seed: u32,
    ) -> Command {
        let libraries = self.usr.join("lib/x86_64-linux-gnu");
        let mut qemu = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        qemu.arg("--library-path").arg(&libraries);
        qemu.arg(self.usr.join(format!("bin/qemu-system-{}", architecture.machine())));
        for firmware in ["share/qemu", "share/seabios"] {
            qemu.arg("-L").arg(self.usr.join(firmware));
        }
        let (board, cpu, console) = match architecture {
            Architecture::X86_64 => ("q35,accel=tcg", "max", "ttyS0"),
            // The architected algorithm of pointer authentication takes most of the host's time.
            Architecture::Aarch64 => ("virt,accel=tcg", "max,pauth-impdef=on", "ttyAMA0"),
        };
        qemu.args(["-machine", board, "-cpu", cpu, "-m", MEMORY]);
        qemu.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
        qemu.args(machine.arguments());
        if let Time::Virtual { shift } = machine.time() {
            // Nothing of the host is left in such a guest, neither its clock nor its random numbers: what it does once, it does again.
            qemu.arg("-icount").arg(format!("shift={shift},sleep=off"));
            qemu.args(["-rtc", "base=2026-01-01,clock=vm", "-seed"]).arg(seed.to_string());
        }
        qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
        // 5.10 on x86-64 tests its timer against an interrupt that comes too late under emulation.
        qemu.arg("-append").arg(format!("console={console} quiet panic=-1 no_timer_check"));
        qemu
    }
}
