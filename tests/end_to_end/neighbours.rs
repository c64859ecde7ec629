//! Programs that mean harm, beside what is recorded and watched: whoever records whole CPUs meets them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::prof::{Run, finish, folder, may_record, prof};
use super::programs::{self, skip};

/// What a recorder and a view may need at most, kB.
const MOST_MEMORY: u64 = 300 << 10;

/// Ends with the test.
struct Neighbour(Child);

impl Neighbour {
    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        Self(command.args(["alone", "60000"]).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command, and returns the most memory that it had, kB.
fn measured(command: &mut Command) -> (Run, u64) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let peak = scope.spawn(|| {
            let mut peak = 0;
            while !ended.load(Ordering::Relaxed) {
                let text = fs::read_to_string(&status).unwrap_or_default();
                let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let memory = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
                peak = peak.max(memory.unwrap_or(0));
                thread::sleep(Duration::from_millis(5));
            }
            peak
        });
        let run = finish(child);
        ended.store(true, Ordering::Relaxed);
        (run, peak.join().unwrap())
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Makes sections of a 64-bit ELF file say that they are compressed, and unpack to 4 GiB.
fn bomb(program: &mut Vec<u8>, names: &[&str]) {
    const BLOCK: u32 = 1 << 17;
    const BLOCKS: u32 = 1 << 15;
    let (headers, count) = (word(program, 40) as usize, usize::from(program[60]));
    let strings = word(program, headers + usize::from(program[62]) * 64 + 24) as usize;
    // A zstd frame of blocks that repeat one byte.
    let mut packed = [2_u32.to_le_bytes(), [0; 4]].concat();
    packed.extend((u64::from(BLOCK) * u64::from(BLOCKS)).to_le_bytes());
    packed.extend(1_u64.to_le_bytes());
    packed.extend([0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3]);
    for block in 1..=BLOCKS {
        let header = BLOCK << 3 | 1 << 1 | u32::from(block == BLOCKS);
        packed.extend(&header.to_le_bytes()[..3]);
        packed.push(0);
    }
    let place = program.len() as u64;
    for header in (0..count).map(|section| headers + section * 64) {
        let name = strings + u32::from_le_bytes(program[header..header + 4].try_into().unwrap()) as usize;
        let end = name + program[name..].iter().position(|byte| *byte == 0).unwrap();
        if names.iter().any(|wanted| wanted.as_bytes() == &program[name..end]) {
            program[header + 9] |= 8; // SHF_COMPRESSED
            program[header + 24..header + 32].copy_from_slice(&place.to_le_bytes());
            program[header + 32..header + 40].copy_from_slice(&(packed.len() as u64).to_le_bytes());
        }
    }
    program.extend(packed);
}

#[test]
fn sections_that_unpack_to_gigabytes_cost_nothing_and_are_told() {
    let (Some(decent), true) = (programs::c("shares"), may_record()) else { return };
    let folder = folder();
    let program = folder.path().join("bomb");
    fs::copy(&decent, &program).unwrap();
    let mut bytes = fs::read(&program).unwrap();
    bomb(&mut bytes, &[".eh_frame", ".symtab", ".strtab", ".debug_info", ".debug_line", ".debug_str"]);
    fs::write(&program, &bytes).unwrap();
    let neighbour = Neighbour::start(&program);
    let pid = neighbour.0.id().to_string();
    for target in [&["-a"][..], &["-p", &pid]] {
        let mut command = prof(["record", "-e", "cpu-clock", "-d", "1", "-o", "out"]);
        let (run, memory) = measured(command.args(target).current_dir(folder.path()));
        if run.code == 1 && target == ["-a"] && run.stderr.contains("paranoid") {
            skip(&format!("whole CPUs are not permitted here: {}", run.stderr));
            continue;
        }
        assert_eq!(run.code, 0, "{target:?}: {}", run.stderr);
        assert!(memory < MOST_MEMORY, "{target:?}: {memory} kB");
        let refused = "compressed section .eh_frame";
        assert!(run.stderr.contains(refused), "{target:?}: {}", run.stderr);
    }
    let (run, memory) =
        measured(prof(["top", "-e", "cpu-clock", "--once", "-p", &pid]).current_dir(folder.path()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(memory < MOST_MEMORY, "top: {memory} kB");
}
