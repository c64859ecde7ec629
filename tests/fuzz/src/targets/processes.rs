//! What `/proc` says of processes: names of files and threads are theirs to choose.

use host::process_memory::MapEntry;
use host::procfs::{Capability, Status};

pub(super) fn run_maps(bytes: &[u8]) {
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Some(map) = MapEntry::parse(line) {
            assert!(map.path.len() <= line.len() && map.protection <= 7, "{map:?}");
        }
    }
}

pub(super) fn run_status(bytes: &[u8]) {
    if let Ok(status) = Status::parse(&String::from_utf8_lossy(bytes)) {
        let _ = status.has(Capability::Perfmon);
    }
}

pub(super) fn maps_seeds() -> Vec<Vec<u8>> {
    let maps = "55d0c8a00000-55d0c8a02000 r--p 00000000 fe:00 393349                     /usr/bin/cat\n\
        7f3f774f4000-7f3f7764a000 r-xp 00026000 fe:00 326279      /usr/lib/x86_64-linux-gnu/libc.so.6 (deleted)\n\
        7ffd1a5f6000-7ffd1a617000 rw-s 00000000 00:00 0                          [stack]\n\
        ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0\n";
    vec![maps.as_bytes().to_vec()]
}

pub(super) fn status_seeds() -> Vec<Vec<u8>> {
    let status = "Name:\tcat\nUmask:\t0022\nState:\tR (running)\nTgid:\t77\nNgid:\t0\nPid:\t77\nPPid:\t1\nTracerPid:\t0\n\
        Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nNStgid:\t77\t3\nNSpid:\t77\t3\nVmHWM:\t    1036 kB\n\
        Threads:\t1\nCapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n";
    vec![status.as_bytes().to_vec()]
}
