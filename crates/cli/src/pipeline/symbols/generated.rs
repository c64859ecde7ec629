//! Generated code: what runtimes write about it to `/tmp/perf-PID.map`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Avma, Pid, Reason, Resolution, StackEntry};
use symbolizer::PerfMap;

use super::named;

/// The perf maps of processes, each read once.
pub(super) struct PerfMaps {
    this_host: bool,
    maps: Mutex<HashMap<Pid, Option<Arc<PerfMap>>>>,
}

impl PerfMaps {
    pub(super) fn new(this_host: bool) -> Self {
        Self { this_host, maps: Mutex::default() }
    }

    /// Forgets what was read: runtimes add to their maps as long as they run.
    pub(super) fn forget(&self) {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The function that the process's map has at the address.
    pub(super) fn resolve(&self, pid: Pid, entry: &StackEntry) -> Resolution {
        let map = {
            let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
            maps.entry(pid).or_insert_with(|| self.read(pid).map(Arc::new)).clone()
        };
        let Some(map) = map else { return Resolution::Unresolved(Reason::NoJitMap) };
        match map.find(Avma(entry.lookup_offset())) {
            Some((name, start)) => named(name, entry.offset.checked_sub(start.0)),
            None => Resolution::Unresolved(Reason::NotInJitMap),
        }
    }

    fn read(&self, pid: Pid) -> Option<PerfMap> {
        // Of another host's process this machine knows nothing.
        let text = (self.this_host && pid.0 > 0).then(|| host::perf_map::read(pid)).flatten()?;
        Some(PerfMap::parse(&text))
    }
}
