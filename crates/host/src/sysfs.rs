//! What `/sys` tells of CPUs and of the PMUs (`/sys/bus/event_source/devices`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use model::CpuId;

use crate::cpus;

/// The folder of the kernel's PMUs.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// The endings of files beside an alias that say how to read its count (Documentation/ABI/testing/
/// sysfs-bus-event_source-devices-events).
const ALIAS_SUFFIXES: [&str; 4] = [".unit", ".scale", ".per-pkg", ".snapshot"];

/// The CPUs that are online now.
///
/// # Errors
/// Where `/sys` is not mounted or holds no list.
pub fn online_cpus() -> io::Result<Vec<CpuId>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    cpus::parse(&text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A PMU as sysfs shows it; the texts are the files' contents, trimmed, and not understood here.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PmuFiles {
    /// The name of its folder.
    pub name: String,
    /// `type`: what `attr.type` has to be.
    pub kind: u32,
    /// `format/*`: which bits of the attr a term sets (`config:0-7,21`).
    pub formats: BTreeMap<String, String>,
    /// `events/*`: what an alias stands for (`event=0xc0,umask=0x1`), without the `.unit`, `.scale` and other notes.
    pub events: BTreeMap<String, String>,
    /// The notes beside aliases: `events/NAME.unit`, `.scale`, `.per-pkg`, `.snapshot`, under the whole names of these files.
    pub notes: BTreeMap<String, String>,
    /// `cpumask` or `cpus`: the CPUs to open its events on, where it says so.
    pub cpus: Option<String>,
    /// True if [`PmuFiles::cpus`] came from `cpus`: a core PMU that only some CPUs have (hybrid machines).
    pub core: bool,
    /// `caps/*`.
    pub caps: BTreeMap<String, String>,
}

/// The PMUs under `folder`, by number. What cannot be read is left out.
///
/// # Errors
/// Where the folder itself cannot be read.
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

/// The PMUs under `folder` of kinds of cores, by number, without their contents: [`pmus`] reads hundreds of files.
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

/// Numbers and names of the PMUs under `folder`, ascending: [`pmus`] without their contents.
///
/// # Errors
/// Where the folder cannot be read.
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

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn texts(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            Some((name, text(&file.path())?))
        })
        .collect()
}
