//! Recordings that grow in one way each: the ways in which a profiled program can cause work.

use std::io::{self, Write};

/// A kind of recording that grows with a number.
pub(super) struct Shape {
    pub(super) name: &'static str,
    /// The smaller of the two numbers that are compared: takes a second or two under valgrind.
    pub(super) number: u64,
    /// Appends the records for a number.
    pub(super) records: fn(u64, &mut Vec<u8>),
}

const fn shape(name: &'static str, number: u64, records: fn(u64, &mut Vec<u8>)) -> Shape {
    Shape { name, number, records }
}

/// The first address of all shapes.
const BASE: u64 = 0x40_0000;
const PAGE: u64 = 4096;
/// The process of all shapes that have one.
const PROCESS: u32 = 10;

/// `PERF_CONTEXT_USER` and `PERF_CONTEXT_KERNEL`.
const USER: u64 = 0xffff_ffff_ffff_fe00;
const KERNEL: u64 = 0xffff_ffff_ffff_ff80;
/// The first address of modules and BPF programs.
const MODULES: u64 = 0xffff_ffff_c000_0000;
/// `PERF_RECORD_MISC_KERNEL`, `_USER` and `_COMM_EXEC`.
const BY_KERNEL: u16 = 1;
const BY_USER: u16 = 2;
const EXEC: u16 = 1 << 13;

pub(super) const SHAPES: &[Shape] = &[
    shape("the same range under new names", 1000, |n, out| {
        (0..n).for_each(|i| map(out, PROCESS, BASE, 1 << 32, &format!("/nx/{i}"), i));
        sample(out, PROCESS, n + 1, &[USER, BASE + 5]);
    }),
    shape("each mapping inside the one before", 250, |n, out| {
        (0..n)
            .for_each(|i| map(out, PROCESS, BASE + i * PAGE, (2 * n - 2 * i) * PAGE, &format!("/nx/{i}"), i));
        (0..n).for_each(|i| sample(out, PROCESS, n + 1 + i, &[USER, BASE + i * PAGE + 5]));
    }),
    shape("a large mapping cut into pieces", 250, |n, out| {
        map(out, PROCESS, BASE, n * 2 * PAGE, "/nx/big", 0);
        for i in 0..n {
            let start = BASE + i * 2 * PAGE;
            map(out, PROCESS, start, PAGE, &format!("/nx/{i}"), i);
            sample(out, PROCESS, i + 1, &[USER, start + 5, start + PAGE + 4]);
        }
    }),
    shape("small mappings, and large ones over all of them", 2000, |n, out| {
        for i in 0..n {
            map(out, PROCESS, BASE + i * PAGE, PAGE, "/nx/small", i);
            if i % 10 == 0 {
                map(out, PROCESS, BASE, n * PAGE, "/nx/big", i);
            }
        }
        sample(out, PROCESS, n + 1, &[USER, BASE + 5]);
    }),
    shape("a mapping before each sample of a long stack", 100, |n, out| {
        let chain: Vec<u64> = [USER].into_iter().chain((0..100).map(|k| BASE + k * PAGE + 7)).collect();
        for i in 0..n {
            map(out, PROCESS, BASE + i * PAGE, PAGE, &format!("/nx/{i}"), 2 * i);
            sample(out, PROCESS, 2 * i + 1, &chain);
        }
    }),
    shape("one mapping of many renewed before each sample", 1000, |n, out| {
        (0..n).for_each(|i| map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, &format!("/nx/{i}"), i));
        for i in 0..n {
            map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, &format!("/nx/t{i}"), n + 2 * i);
            sample(out, PROCESS, n + 2 * i + 1, &[USER, BASE + 5, BASE + 2 * PAGE * 3 + 5]);
        }
    }),
    shape("threads with names of their own", 2000, |n, out| {
        for i in 0..n {
            name(out, PROCESS, 100 + i as u32, &format!("c{i}"), i, 0);
            sample_of(out, (PROCESS, 100 + i as u32), i, &[USER, BASE + 5], BY_USER);
        }
    }),
    shape("processes with programs of their own", 250, |n, out| {
        for i in 0..n {
            let pid = 100 + i as u32;
            name(out, pid, pid, &format!("c{i}"), i, 0);
            map(out, pid, BASE, PAGE, &format!("/nx/{i}"), i);
            sample(out, pid, i, &[USER, BASE + 5]);
        }
    }),
    shape("a thread that renames itself", 250, |n, out| {
        for i in 0..n {
            name(out, PROCESS, PROCESS, &format!("c{i}"), i, 0);
            sample(out, PROCESS, i, &[USER, BASE + 5]);
        }
    }),
    shape("forks of a large process that map a little", 250, |n, out| forks(n, 1, out)),
    shape("forks of a large process that map here and there", 125, |n, out| forks(n, 30, out)),
    shape("forks of forks", 250, |n, out| {
        for i in 0..n {
            let (parent, child, time) = (1000 + i as u32, 1001 + i as u32, 3 * i);
            task(out, FORK, (child, parent), time);
            map(out, child, BASE + i * 2 * PAGE, PAGE, &format!("/nx/c{i}"), time + 1);
            sample(out, child, time + 2, &[USER, BASE + 5]);
        }
    }),
    shape("a process that is its own child", 2000, |n, out| {
        (0..1000).for_each(|i| map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, "/nx/c", i));
        for i in 0..n {
            task(out, FORK, (PROCESS, PROCESS), i + 1000);
            sample(out, PROCESS, i + 1000, &[USER, BASE + 5]);
        }
    }),
    shape("a number of a process used again and again", 250, |n, out| {
        for i in 0..n {
            task(out, FORK, (PROCESS, 1), 4 * i);
            name(out, PROCESS, PROCESS, &format!("x{}", i % 7), 4 * i + 1, EXEC);
            map(out, PROCESS, BASE, PAGE, &format!("/nx/{i}"), 4 * i + 2);
            sample(out, PROCESS, 4 * i + 3, &[USER, BASE + 5]);
            task(out, EXIT, (PROCESS, 1), 4 * i + 3);
        }
    }),
    shape("a large process that executes itself", 250, |n, out| {
        (0..n).for_each(|i| map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, &format!("/nx/{i}"), i));
        for i in 0..n {
            name(out, PROCESS, PROCESS, "x", n + 2 * i, EXEC);
            sample(out, PROCESS, n + 2 * i + 1, &[USER, BASE + 5]);
        }
    }),
    shape("long stacks, no two alike", 4, |n, out| {
        for i in 0..n {
            let chain: Vec<u64> =
                [USER].into_iter().chain((0..8150).map(|k| BASE + i * 100_000 + k)).collect();
            sample(out, PROCESS, i, &chain);
        }
    }),
    shape("long stacks, all alike", 25, |n, out| {
        let chain: Vec<u64> = [USER].into_iter().chain((0..8150).map(|k| BASE + k)).collect();
        (0..n).for_each(|i| sample(out, PROCESS, i, &chain));
    }),
    shape("each sample at another address of one file", 2000, |n, out| {
        map(out, PROCESS, BASE, n * 16 + PAGE, "/nx/a", 0);
        (0..n).for_each(|i| sample(out, PROCESS, i + 1, &[USER, BASE + i * 16]));
    }),
    shape("samples against the order of time", 2000, |n, out| {
        (0..n).for_each(|i| sample(out, PROCESS, 10 * n - i, &[USER, BASE + i % 50]));
    }),
    shape("mappings against the order of time", 1000, |n, out| {
        for i in 0..n {
            map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, &format!("/nx/{i}"), 10 * n - 2 * i);
            sample(out, PROCESS, 10 * n - 2 * i + 1, &[USER, BASE + i % 50]);
        }
    }),
    shape("files with long names", 12, |n, out| {
        for i in 0..n {
            map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, &format!("/x{i}{}", "y".repeat(60_000)), 2 * i);
            sample(out, PROCESS, 2 * i + 1, &[USER, BASE + i * 2 * PAGE + 5]);
        }
    }),
    shape("threads with long names", 25, |n, out| {
        for i in 0..n {
            name(out, PROCESS, PROCESS, &format!("{i}{}", "y".repeat(60_000)), 2 * i, 0);
            sample(out, PROCESS, 2 * i + 1, &[USER, BASE + 5]);
        }
    }),
    shape("BPF programs", 250, |n, out| {
        for i in 0..n {
            let start = MODULES - i * 64;
            kernel_symbol(out, start, &format!("bpf_prog_{i}"), 2 * i);
            sample_of(out, (PROCESS, PROCESS), 2 * i + 1, &[KERNEL, start + 3], BY_KERNEL);
        }
    }),
    shape("kernel modules over each other", 250, |n, out| {
        for i in 0..n {
            let start = 0xffff_ffff_8000_0000 - i * PAGE;
            mapping(out, u32::MAX, (start, 1 << 30), &format!("[m{i}]"), 2 * i, BY_KERNEL);
            let chain = [KERNEL, 0xffff_ffff_8000_0003];
            sample_of(out, (PROCESS, PROCESS), 2 * i + 1, &chain, BY_KERNEL);
        }
    }),
    shape("stacks that grow by a frame", 300, |n, out| {
        // Bounded depth, reached by both lengths, then from other functions: as many frames as samples would be n² frames.
        for i in 0..n {
            let (round, depth) = (i / 150, 20 + i % 150);
            let frames = (0..depth).rev().map(|k| BASE + round * PAGE + k);
            let chain: Vec<u64> = [USER].into_iter().chain(frames).collect();
            sample(out, PROCESS, i, &chain);
        }
    }),
];

/// Appends `children` forks of a process with as many mappings. Each child replaces `changes` of them.
fn forks(children: u64, changes: u64, out: &mut Vec<u8>) {
    (0..children).for_each(|i| map(out, PROCESS, BASE + i * 2 * PAGE, PAGE, &format!("/nx/{i}"), i));
    for i in 0..children {
        let (child, time) = (1000 + i as u32, children + 3 * i);
        task(out, FORK, (child, PROCESS), time);
        for j in 0..changes {
            let at = (i + j * children / changes) % children;
            map(out, child, BASE + at * 2 * PAGE, PAGE, "/nx/c", time + 1);
        }
        sample(out, child, time + 2, &[USER, BASE + 5]);
    }
}

/// `PERF_RECORD_EXIT` and `PERF_RECORD_FORK`.
const EXIT: u32 = 4;
const FORK: u32 = 7;

/// Appends a record with the trailer of `sample_id_all`: pid, tid, time.
fn record(out: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8], trailer: (u32, u32, u64)) {
    let size = 8 + body.len() + 16;
    raw(out, kind, misc, size);
    out.extend_from_slice(body);
    out.extend([trailer.0.to_le_bytes(), trailer.1.to_le_bytes()].concat());
    out.extend(trailer.2.to_le_bytes());
}

fn raw(out: &mut Vec<u8>, kind: u32, misc: u16, size: usize) {
    out.extend(kind.to_le_bytes());
    out.extend(misc.to_le_bytes());
    // No shape has a record beyond 64 KiB.
    out.extend((size as u16).to_le_bytes());
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn map(out: &mut Vec<u8>, pid: u32, start: u64, length: u64, path: &str, time: u64) {
    mapping(out, pid, (start, length), path, time, BY_USER);
}

fn mapping(out: &mut Vec<u8>, pid: u32, (start, length): (u64, u64), path: &str, time: u64, misc: u16) {
    // MMAP2: pgoff; device, inode, generation; PROT_READ | PROT_EXEC, MAP_PRIVATE.
    let body =
        [halves(&[pid, pid]), words(&[start, length, 0]), halves(&[8, 1]), words(&[1, 0]), halves(&[5, 2])];
    record(out, 10, misc, &[body.concat(), text(path)].concat(), (pid, pid, time));
}

fn name(out: &mut Vec<u8>, pid: u32, tid: u32, comm: &str, time: u64, misc: u16) {
    record(out, 3, misc, &[halves(&[pid, tid]), text(comm)].concat(), (pid, tid, time));
}

fn task(out: &mut Vec<u8>, kind: u32, (pid, parent): (u32, u32), time: u64) {
    let body = [halves(&[pid, parent, pid, parent]), words(&[time])].concat();
    record(out, kind, 0, &body, (parent, parent, time));
}

fn kernel_symbol(out: &mut Vec<u8>, start: u64, name: &str, time: u64) {
    // Length 64, `PERF_RECORD_KSYMBOL_TYPE_BPF`.
    let body = [words(&[start]), halves(&[64, 1]), text(name)].concat();
    record(out, 17, 0, &body, (0, 0, time));
}

fn sample(out: &mut Vec<u8>, pid: u32, time: u64, chain: &[u64]) {
    sample_of(out, (pid, pid), time, chain, BY_USER);
}

fn sample_of(out: &mut Vec<u8>, (pid, tid): (u32, u32), time: u64, chain: &[u64], misc: u16) {
    let ip = chain.last().copied().unwrap_or(0);
    let body =
        [words(&[ip]), halves(&[pid, tid]), words(&[time, 1_000_000, chain.len() as u64]), words(chain)]
            .concat();
    raw(out, 9, misc, 8 + body.len());
    out.extend(body);
}

/// Writes a perf.data file with these records.
pub(super) fn write(records: &[u8], output: &mut impl Write) -> io::Result<()> {
    const HEADER: u64 = 104;
    const ATTR: u64 = 128;
    // IP, TID, TIME, CALLCHAIN, PERIOD.
    let sample_format = 1 | 2 | 4 | 0x20 | 0x100;
    // mmap, comm, task, sample_id_all, mmap2, comm_exec; without the kernel, whose names would take longer than the rest.
    let flags = (1 << 8) | (1 << 9) | (1 << 13) | (1 << 18) | (1 << 23) | (1 << 24) | (1 << 5);
    let attr = [halves(&[1, ATTR as u32]), words(&[0, 1_000_000, sample_format, 0, flags])].concat();
    let data = HEADER + ATTR + 16;
    output.write_all(b"PERFILE2")?;
    output.write_all(&words(&[HEADER, ATTR + 16, HEADER, ATTR + 16, data, records.len() as u64]))?;
    output.write_all(&words(&[0; 6]))?;
    output.write_all(&attr)?;
    output.write_all(&vec![0; ATTR as usize - attr.len()])?;
    output.write_all(&words(&[HEADER, 0]))?;
    output.write_all(records)
}
