//! The catalogue of events that this machine offers.

use std::io;
use std::path::Path;

use elf::SymbolSource;
use host::objects;
use host::sysfs::{self, PmuFiles};
use host::tracefs;
use model::near;

use super::{Catalogue, EventError, Measure, Pmu, Tracepoint, mangled, matches};
use crate::error::Errno;

/// The catalogue of events that this machine offers. The PMUs are read when it is created; tracepoints and symbols on each call.
#[derive(Debug)]
pub struct ThisMachine {
    pmus: Vec<Pmu>,
}

/// Reads the catalogue of this machine. It has no PMUs if `/sys` is not mounted.
pub fn this_machine() -> ThisMachine {
    let files = sysfs::pmus(Path::new(sysfs::EVENT_SOURCES)).unwrap_or_default();
    ThisMachine { pmus: files.into_iter().map(pmu).collect() }
}

/// Reads the PMUs of this machine's kinds of cores, without their terms and aliases.
pub(crate) fn core_pmus() -> Vec<Pmu> {
    sysfs::core_pmus(Path::new(sysfs::EVENT_SOURCES)).into_iter().map(pmu).collect()
}

/// Returns the name of a PMU of the cores: `cpu` on x86, `cpu_core` and `cpu_atom` if there are two kinds, `armv8_…` on arm64. `None` if
/// the kernel supports none here.
pub fn core_pmu_name() -> Option<String> {
    let pmus = sysfs::pmu_numbers(Path::new(sysfs::EVENT_SOURCES)).ok()?;
    let is_core = |name: &String| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv");
    pmus.into_iter().map(|(_, name)| name).find(is_core)
}

pub(crate) fn pmu(files: PmuFiles) -> Pmu {
    Pmu {
        name: files.name,
        kind: files.kind,
        measures: Measure::from_sysfs_files(&files.notes),
        formats: files.formats,
        events: files.events,
        cpus: files.cpus.as_deref().and_then(host::cpus::parse),
        core: files.core,
    }
}

impl Catalogue for ThisMachine {
    fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    fn tracepoints(&self, system: &str, name: &str) -> Result<Vec<Tracepoint>, EventError> {
        let refuse = |error: io::Error| {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => "-t tracefs nodev",
                _ => "-o remount,mode=755",
            };
            EventError::Tracepoints { cause: Errno(&error).to_string(), remedy }
        };
        let folder = tracefs::mounted().map_err(refuse)?;
        let events = folder.join("events");
        let mut found = Vec::new();
        let systems = tracefs::names(&events).map_err(refuse)?;
        for system in systems.into_iter().filter(|known| matches(system, known)) {
            let names = tracefs::names(&events.join(&system)).unwrap_or_default();
            for name in names.into_iter().filter(|known| matches(name, known)) {
                if let Some(id) = tracefs::id(&folder, &system, &name) {
                    found.push(Tracepoint { system: system.clone(), name, id });
                }
            }
        }
        Ok(found)
    }

    fn symbol_offset(&self, path: &str, symbol: &str) -> Result<u64, EventError> {
        let refuse = |problem: String, nearest| EventError::Probe { path: path.to_owned(), problem, nearest };
        let object =
            objects::open_file(Path::new(path)).map_err(|reason| refuse(reason.to_string(), None))?;
        let all = || {
            let sources = [SymbolSource::Full, SymbolSource::Dynamic].into_iter();
            sources.flat_map(|source| object.symbols(source)).filter(|known| !known.is_undefined())
        };
        let exact = all().find(|known| known.name() == symbol.as_bytes()).map(|known| known.address);
        let readable = || {
            let named = all()
                .filter_map(|known| Some((str::from_utf8(known.name()).ok()?.to_owned(), known.address)));
            mangled::likeliest(named, symbol)
        };
        let found = match exact.map_or_else(readable, |address| vec![(symbol.to_owned(), address)]).as_slice()
        {
            [] => {
                let problem = if object.has_symbols(SymbolSource::Full) {
                    format!("it has no symbol {symbol}")
                } else {
                    format!("it is stripped of {symbol}; it takes a file offset (uprobe:{path}:0x1234)")
                };
                let names = all().filter_map(|known| str::from_utf8(known.name()).ok().map(str::to_owned));
                return Err(refuse(problem, near::nearest(symbol, names)));
            }
            [(_, address)] => *address,
            several @ [(first, _), ..] => {
                let problem = format!("{symbol} may be any of {} functions", several.len());
                return Err(refuse(problem, Some(first.clone())));
            }
        };
        let offset = object.file_offset_of(found).map(|offset| offset.0);
        offset.ok_or_else(|| refuse(format!("{symbol} is not in the file's code"), None))
    }
}
