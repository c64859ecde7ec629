//! The grammar of `-e`, with a machine's PMUs.

use std::collections::BTreeMap;

use recorder::event::{Pmu, select};

pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // What one can type; a longer list only takes longer.
    for list in text.lines().filter(|list| list.len() <= 4096).take(16) {
        match select(list, &machine()) {
            Ok(events) => assert!(!events.is_empty(), "{list:?} names no event and no mistake"),
            Err(error) => drop(error.to_string()),
        }
    }
}

fn machine() -> Vec<Pmu> {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let formats = map(&[
        ("event", "config:0-7,32-35"),
        ("umask", "config:8-15"),
        ("ldlat", "config1:0-15"),
        ("odd", "config9:70-3"),
    ]);
    let events = map(&[
        ("cache-misses", "event=0x2e,umask=0x41"),
        ("mem-loads", "event=0xcd,umask=1,ldlat=3"),
        ("odd", ",=,"),
    ]);
    let core = |name: &str, kind| Pmu {
        name: name.to_owned(),
        kind,
        formats: formats.clone(),
        events: events.clone(),
        cpus: None,
        core: true,
        measures: Default::default(),
    };
    vec![core("cpu_core", 4), core("cpu_atom", 10), Pmu { core: false, ..core("uncore_imc_0", 20) }]
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let lists = "cycles:ppu,instructions,{cache-misses,branches}:S,cpu-clock/period=1000,call-graph=no/\n\
        cpu_core/event=0x3c,umask=1,name=mine/k,cpu_atom/cache-misses/,r1a8,L1-dcache-load-misses:u\n\
        sched:sched_switch,syscalls:sys_enter_*,mem:0x1000/4:rwx,{cycles,uncore_imc_0/event=1/}:D,page-faults:H\n";
    vec![lists.as_bytes().to_vec()]
}
