//! Chooses one CPU per socket, for events that all CPUs of a socket count alike.

use std::path::Path;

use host::topology;
use model::CpuId;

/// Returns the first of `cpus` of each socket; all of them where the machine does not show which CPU is in which socket.
pub(super) fn first_of_sockets(system: &Path, cpus: &[CpuId]) -> Vec<CpuId> {
    let count = cpus.iter().map(|cpu| cpu.0 + 1).max().unwrap_or(0);
    let Some(processors) = topology::processors(system, count) else { return cpus.to_vec() };
    let mut seen = Vec::new();
    let is_first = |cpu: &&CpuId| {
        let socket = processors.locations.get(cpu.0 as usize).copied().flatten().map(|place| place.socket);
        let is_new = socket.is_none_or(|socket| !seen.contains(&socket));
        seen.extend(socket);
        is_new
    };
    cpus.iter().filter(is_first).copied().collect()
}
