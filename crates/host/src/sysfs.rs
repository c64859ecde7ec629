//! Reads online CPUs and PMUs (`/sys/bus/event_source/devices`) from sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use model::CpuId;

use crate::cpus;

/// The folder in which the kernel lists its PMUs.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// Suffixes of the files that say how to read the count of an alias
/// (Documentation/ABI/testing/sysfs-bus-event_source-devices-events).
const ALIAS_SUFFIXES: [&str; 4] = [".unit", ".scale", ".per-pkg", ".snapshot"];

/// Returns the CPUs that are online now.
///
/// # Errors
/// `/sys` is not mounted, or its list is malformed.
pub fn online_cpus() -> io::Result<Vec<CpuId>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    cpus::parse(&text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The files of a PMU. Texts are trimmed, but not parsed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PmuFiles {
    /// The name of its folder.
    pub name: String,
    /// `type`: the value for `attr.type`.
    pub kind: u32,
    /// `format/*`: the bits of the attr that a term sets (`config:0-7,21`), by term.
    pub formats: BTreeMap<String, String>,
    /// `events/*`: the terms that an alias stands for (`event=0xc0,umask=0x1`), by alias, without [`PmuFiles::notes`].
    pub events: BTreeMap<String, String>,
    /// `events/NAME.unit`, `.scale`, `.per-pkg` and `.snapshot`, by file name.
    pub notes: BTreeMap<String, String>,
    /// `cpumask` or `cpus`: the CPUs on which its events are opened; `None` if every CPU has them.
    pub cpus: Option<String>,
    /// True if [`PmuFiles::cpus`] is from `cpus`: a core PMU of some of the CPUs (hybrid machines).
    pub core: bool,
    /// `caps/*`: capabilities of the PMU, by name.
    pub caps: BTreeMap<String, String>,
}

/// Reads the PMUs in `folder`, in the order of their types. Leaves out unreadable ones.
///
/// # Errors
/// The folder cannot be read.
pub fn pmus(folder: &Path) -> io::Result<Vec<PmuFiles>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let (Ok(name), path) = (entry.file_name().into_string(), entry.path()) else { continue };
        let Some(kind) = text(&path.join("type")).and_then(|text| text.parse().ok()) else { continue };
        let core_cpus = text(&path.join("cpus"));
        let is_note = |name: &String| ALIAS_SUFFIXES.iter().any(|note| name.ends_with(note));
        let (notes, events) = texts(&path.join("events")).into_iter().partition(|(name, _)| is_note(name));
        found.push(PmuFiles {
            name,
            kind,
            formats: texts(&path.join("format")),
            events,
            notes,
            core: core_cpus.is_some(),
            cpus: core_cpus.or_else(|| text(&path.join("cpumask"))),
            caps: texts(&path.join("caps")),
        });
    }
    found.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    Ok(found)
}

/// Reads the names, types and CPUs of the core PMUs of hybrid machines in `folder`, in the order of their types. Much faster than
/// [`pmus`], which reads hundreds of files.
pub fn core_pmus(folder: &Path) -> Vec<PmuFiles> {
    let mut found: Vec<PmuFiles> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let cpus = text(&entry.path().join("cpus"))?;
            let kind = text(&entry.path().join("type"))?.parse().ok()?;
            let name = entry.file_name().into_string().ok()?;
            Some(PmuFiles { name, kind, cpus: Some(cpus), core: true, ..PmuFiles::default() })
        })
        .collect();
    found.sort_by_key(|pmu| pmu.kind);
    found
}

/// Reads the types and names of the PMUs in `folder`, ascending.
///
/// # Errors
/// The folder cannot be read.
pub fn pmu_numbers(folder: &Path) -> io::Result<Vec<(u32, String)>> {
    let entries = fs::read_dir(folder)?.flatten();
    let mut found: Vec<(u32, String)> = entries
        .filter_map(|entry| {
            let kind = text(&entry.path().join("type"))?.parse().ok()?;
            Some((kind, entry.file_name().into_string().ok()?))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Reads a file of sysfs, trimmed; `None` if it cannot be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Reads all files of a folder, trimmed, by name.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            Some((name, text(&file.path())?))
        })
        .collect()
}
