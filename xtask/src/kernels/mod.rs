//! `cargo xtask kernels [--all] [FILTER…]`: boots Debian's kernels in an emulator and checks `prof` in them.
//!
//! Nothing of the host is changed, and no rights are needed: packages are fetched by a private apt, unpacked below `target/kernels`, and
//! run from there. What cannot be had here is skipped, with a line that says why.

mod answer;
mod apt;
mod architecture;
mod catalogue;
mod checks;
mod emulator;
mod fetched;
mod guest;
mod initramfs;
mod kernel;
mod laboratory;
mod machine;
mod programs;
mod selection;
mod table;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::workspace;
use answer::Answer;
use checks::Check;
use fetched::Fetched;
use kernel::Kernel;
use laboratory::Laboratory;
use machine::Machine;
use selection::Selection;
use table::{Cell, Outcome};

/// How often a check that failed is repeated, in a guest of its own and with other random numbers. What other checks left in the guest, or
/// a host that did not let its clock run, is no fault of the product. One that is shows again each time.
const REPEATS: u32 = 3;

/// A kernel on a machine, with the checks that run there.
struct Boot<'a> {
    kernel: &'a Kernel,
    image: &'a Path,
    machine: Machine,
    checks: Vec<&'a Check>,
}

/// Boots the kernels of CI in small guests, or with `--all` all of the catalogue in every guest. Each FILTER is a part of a kernel's name (`6.12`, `aarch64`), of a
/// check's or of its rights; kernels and checks must match one of those that match any.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let is_all = args.iter().any(|arg| arg == "--all");
    let filters: Vec<&String> = args.iter().filter(|arg| *arg != "--all").collect();
    if let Some(flag) = filters.iter().find(|filter| filter.starts_with('-')) {
        bail!("usage: cargo xtask kernels [--all] [FILTER…], not {flag}");
    }
    let checks = checks::all();
    let selection = Selection::new(is_all, &filters, &checks);
    let cache = workspace::root().join("target/kernels");
    std::fs::create_dir_all(cache.join("log")).with_context(|| cache.display().to_string())?;
    let start = Instant::now();
    let fetched = match Fetched::fetch(&cache, &selection) {
        Ok(fetched) => fetched,
        Err(error) => {
            println!("skipped: no kernel was booted: {error:#}");
            return Ok(());
        }
    };
    eprintln!("kernels and packages: {:.0} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let laboratory = Laboratory::build(&cache, fetched)?;
    eprintln!("programs: {:.0} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let boots = laboratory.boots(&checks, &selection);
    let mut cells = boot_all(&laboratory, &boots, &cache, 0)?;
    for round in 1..=REPEATS {
        let failed: Vec<Boot> = boots.iter().filter_map(|boot| boot.with_failed_of(&cells)).collect();
        for again in boot_all(&laboratory, &failed, &cache, round)? {
            let is_same = |cell: &&mut Cell| {
                std::ptr::eq(cell.kernel, again.kernel) && std::ptr::eq(cell.check, again.check)
            };
            if let Some(cell) = cells.iter_mut().find(is_same) {
                println!("failed, and was repeated: {cell}");
                *cell = again;
            }
        }
    }
    println!("{}", table::markdown(&cells));
    println!(
        "{} kernels, {} guests, {} checks, {:.0} s",
        laboratory.kernels.len(),
        boots.len(),
        cells.len(),
        start.elapsed().as_secs_f64()
    );
    for cell in cells.iter().filter(|cell| matches!(cell.outcome, Outcome::Known(_) | Outcome::Mended(_))) {
        println!("{cell}");
    }
    let failed: Vec<&Cell> = cells.iter().filter(|cell| matches!(cell.outcome, Outcome::Failed(_))).collect();
    for cell in &failed {
        eprintln!("{cell}");
    }
    if !failed.is_empty() {
        bail!(
            "{} of {} checks failed; the guests' consoles are in {}",
            failed.len(),
            cells.len(),
            cache.join("log").display()
        );
    }
    Ok(())
}

/// Boots one guest per CPU of the host at a time, and judges what they print. Guests of each round have other random numbers.
fn boot_all<'a>(
    laboratory: &'a Laboratory,
    boots: &[Boot<'a>],
    cache: &Path,
    round: u32,
) -> anyhow::Result<Vec<Cell<'a>>> {
    let next = AtomicUsize::new(0);
    let cells = Mutex::new(BTreeMap::new());
    let worker = || -> anyhow::Result<()> {
        while let Some((index, boot)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, boots.get(i)?)))
        {
            let start = Instant::now();
            let answers = boot.run(laboratory, cache, round)?;
            let judged = boot.judge(answers, laboratory)?;
            let failed: Vec<&Cell> =
                judged.iter().filter(|cell| matches!(cell.outcome, Outcome::Failed(_))).collect();
            eprintln!(
                "{} {}, {}: {} checks, {} failed, {:.0} s",
                boot.kernel.short_version(),
                boot.kernel.architecture.machine(),
                boot.machine.label(),
                judged.len(),
                failed.len(),
                start.elapsed().as_secs_f64()
            );
            failed.iter().for_each(|cell| eprintln!("{cell}"));
            if let Ok(mut cells) = cells.lock() {
                cells.insert(index, judged);
            }
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that ran a guest has panicked"),
        })
    })?;
    let cells = cells.into_inner().unwrap_or_default();
    Ok(cells.into_values().flatten().collect())
}

impl<'a> Boot<'a> {
    /// Returns the same guest with those checks alone that have failed; `None` if none has.
    fn with_failed_of(&self, cells: &[Cell<'_>]) -> Option<Self> {
        let has_failed = |check: &&&Check| {
            cells.iter().any(|cell| {
                let is_it = std::ptr::eq(cell.kernel, self.kernel) && std::ptr::eq(cell.check, **check);
                is_it && matches!(cell.outcome, Outcome::Failed(_))
            })
        };
        let checks: Vec<&Check> = self.checks.iter().filter(has_failed).copied().collect();
        (!checks.is_empty()).then_some(Self { checks, ..*self })
    }

    /// Returns a name for the files of this guest.
    fn name(&self) -> String {
        format!("{}-{}-{:?}", self.kernel.short_version(), self.kernel.architecture.machine(), self.machine)
    }

    fn run(
        &self,
        laboratory: &Laboratory,
        cache: &Path,
        round: u32,
    ) -> anyhow::Result<BTreeMap<String, Answer>> {
        let scripts =
            self.checks.iter().enumerate().map(|(index, check)| (script_name(index), check.guest_script()));
        let architecture = self.kernel.architecture;
        let packed = guest::pack(laboratory, architecture, self.machine, &scripts.collect())?;
        let initramfs = tempfile::NamedTempFile::new_in(cache)?;
        std::fs::write(initramfs.path(), packed).with_context(|| initramfs.path().display().to_string())?;
        let boot = laboratory.emulator.boot(architecture, self.machine, self.image, initramfs.path(), round);
        guest::run(boot, &self.log(cache))
    }

    fn log(&self, cache: &Path) -> PathBuf {
        cache.join("log").join(format!("{}.log", self.name()))
    }

    /// Judges the answers by the names of scripts.
    fn judge(
        &self,
        mut answers: BTreeMap<String, Answer>,
        laboratory: &'a Laboratory,
    ) -> anyhow::Result<Vec<Cell<'a>>> {
        let prof = laboratory.programs.prof()?;
        let cell = |(index, &check): (usize, &&'a Check)| {
            let mut answer = answers.remove(&script_name(index)).unwrap_or_default();
            prof.clone_into(&mut answer.prof);
            let known = laboratory.known(check, self.kernel).map(|known| known.why.as_str());
            let outcome = match ((check.judge)(self.kernel, &answer), known) {
                (Ok(()), None) => Outcome::Passed,
                (Ok(()), Some(why)) => Outcome::Mended(why),
                (Err(_), Some(why)) => Outcome::Known(why),
                (Err(error), None) => Outcome::Failed(format!("{error:#}")),
            };
            Cell { kernel: self.kernel, check, outcome }
        };
        Ok(self.checks.iter().enumerate().map(cell).collect())
    }
}

/// Returns the name of the script of the check at an index; names are in order.
fn script_name(index: usize) -> String {
    format!("{index:03}")
}
