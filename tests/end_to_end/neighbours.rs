//! Programs that mean harm, beside what is recorded and watched: whoever records whole CPUs meets them.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::folded::Folded;
use super::prof::{RECORDERS, Run, finish, folder, may_record, prof};
use super::programs::{self, skip};

/// What a recorder and a view may need at most, kB.
const MOST_MEMORY: u64 = 300 << 10;

/// Ends with the test.
struct Neighbour(Child);

impl Neighbour {
    fn start(program: &Path) -> Self {
        Self(Command::new(program).args(["alone", "60000"]).spawn().unwrap())
    }

    /// Starts `neighbour`, and returns it with the process to be looked at, when it is at work; `None` where it may not do
    /// what it is to do.
    fn of(kind: &[&OsStr]) -> Option<(Self, String)> {
        if !cfg!(target_arch = "x86_64") {
            skip("the program writes code of x86-64");
            return None;
        }
        let program = programs::c("neighbour").filter(|_| may_record())?;
        let mut command = Command::new(&program);
        let mut child = command.arg("120").args(kind).stdout(Stdio::piped()).spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        if pid.is_empty() {
            assert_eq!(child.wait().unwrap().code(), Some(77), "{kind:?}");
            skip(&format!("not permitted here: {kind:?}"));
            return None;
        }
        Some((Self(child), pid.trim().to_owned()))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It takes its perf map with it.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// Runs a command, and returns the most memory that it had, kB.
fn measured(command: &mut Command) -> (Run, u64) {
    let _in_company = RECORDERS.read();
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
#[ignore = "of the second ring: cargo xtask ci"]
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
        let mut command = prof(["record", "-e", "cpu-clock", "-d", "0.5", "-o", "out"]);
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
    let (run, memory) = measured(
        prof(["top", "-e", "cpu-clock", "--once", "--delay-secs", "0.5", "-p", &pid])
            .current_dir(folder.path()),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(memory < MOST_MEMORY, "top: {memory} kB");
    let refused = "compressed section .eh_frame";
    assert!(run.stderr.contains(refused), "{}", run.stderr);
}

/// One after the other, so that none is recorded beside another: recordings of whole CPUs see all of them.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn neighbours_that_mean_harm_are_told_and_kill_nobody() {
    planted_perf_maps_are_refused_and_all_say_so();
    a_huge_name_in_a_perf_map_is_cut_and_told();
    symbols_with_names_of_a_megabyte_are_cut_and_told();
    a_file_that_is_truncated_while_it_is_mapped_kills_nobody();
    a_file_that_is_mapped_under_a_new_name_each_time_takes_no_memory();
}

/// Records whole CPUs beside neighbours, watches them, and draws them: all come to their ends in little memory. Returns what
/// they said: `record`, `top` (its lines of JSON) and `flame`.
fn profiled_beside(kinds: &[&[&OsStr]]) -> Option<[Run; 3]> {
    profiled_for(2, kinds)
}

/// [`profiled_beside`], with a live view of so many intervals.
fn profiled_for(intervals: u8, kinds: &[&[&OsStr]]) -> Option<[Run; 3]> {
    let (_neighbours, pids): (Vec<_>, Vec<_>) =
        kinds.iter().map(|kind| Neighbour::of(kind)).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let folder = folder();
    // Others cause more than the three problems that are said at once.
    let record = ["record", "-v", "-e", "cpu-clock", "-F", "1999", "-d", "0.5", "-o", "out", "-a"];
    let intervals = intervals.to_string();
    let top = ["top", "-e", "cpu-clock", "--json", "--delay-secs", "0.5", "--intervals", &intervals, "-a"];
    // The machine's other programs are of any size: their names are not looked for.
    let flame = ["flame", "--folded", "-i", "out", "--comm", "neighbour"];
    let commands: [(&str, &[&str], bool); 3] =
        [("record", &record, true), ("top", &top, true), ("flame", &flame, false)];
    let runs = commands.map(|(what, words, is_live)| {
        let (mut run, mut memory) = measured(prof(words).current_dir(folder.path()));
        if is_live && run.code == 1 && run.stderr.contains("paranoid") {
            skip(&format!("whole CPUs are not permitted here: {}", run.stderr));
            let pids = pids.join(",");
            let words = words.iter().copied().filter(|word| *word != "-a").chain(["-p", &pids]);
            (run, memory) = measured(prof(words).current_dir(folder.path()));
        }
        assert_eq!(run.code, 0, "{what} beside {kinds:?}: {}", run.stderr);
        assert!(memory < MOST_MEMORY, "{what} beside {kinds:?}: {memory} kB");
        run
    });
    let samples = Folded::parse(runs[2].text()).total();
    assert!(samples > 50, "{samples} samples of {kinds:?}");
    Some(runs)
}

/// The sentences in the last line of JSON.
fn remarks(top: &Run) -> String {
    let last: Value = serde_json::from_str(top.text().lines().last().unwrap()).unwrap();
    let remarks = last["remarks"].as_array().unwrap();
    assert!(remarks.len() <= 16);
    remarks.iter().map(|remark| format!("{}\n", remark.as_str().unwrap())).collect()
}

fn all_say(runs: &[Run; 3], words: &str) {
    let [record, top, flame] = runs;
    assert!(record.stderr.contains(words), "record: {}", record.stderr);
    assert!(remarks(top).contains(words), "top: {}", remarks(top));
    assert!(top.stderr.contains(words), "top: {}", top.stderr);
    assert!(flame.stderr.contains(words), "flame: {}", flame.stderr);
}

fn planted_perf_maps_are_refused_and_all_say_so() {
    // The first waits before it runs.
    let planted = [["old", ""], ["link", "/etc/hostname"], ["fifo", ""], ["user", "65534"]];
    let kinds = planted.map(|[kind, argument]| ["map", kind, argument].map(OsStr::new));
    let kinds = kinds.each_ref().map(|kind| &kind[..]);
    let Some(runs) = profiled_beside(&kinds) else { return };
    for why in [
        "is not used: it is no regular file (1 more like it)",
        "is not used: it belongs to another user than the process",
        "is not used: it is older than the process",
    ] {
        all_say(&runs, why);
    }
    assert!(!runs[2].text().contains("nnnnnnnn"), "{}", runs[2].text());
}

fn a_huge_name_in_a_perf_map_is_cut_and_told() {
    let kind = ["map", "long", "100000000"].map(OsStr::new);
    // The live view does not wait for so long a file: names that come late are there in a later interval.
    let Some(runs) = profiled_for(6, &[&kind]) else { return };
    // The recording carries the name as it was cut.
    let [record, top, flame] = &runs;
    assert!(record.stderr.contains("longer than 4096 bytes was cut"), "{}", record.stderr);
    assert!(remarks(top).contains("longer than 4096 bytes was cut"), "{}", remarks(top));
    assert!(flame.text().contains(&"n".repeat(1000)));
    let longest = flame.text().lines().map(str::len).max();
    assert!(longest < Some(8192), "{longest:?}");
    assert!(!flame.stderr.contains("names in the recording"), "{}", flame.stderr);
}

/// An object with code at offset 4096, of as many functions as there is room for, whose names are the ends of one name.
fn object_with_long_names(length: usize, functions: u64) -> Vec<u8> {
    const TEXT: u64 = 4096;
    let code = [0x51, 0xb9, 0x40, 0x42, 0x0f, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x59, 0xc3];
    let mut file = vec![0_u8; TEXT as usize];
    file.extend(code);
    // The loop lies in the first few functions, which are a byte each.
    file.resize((TEXT + functions) as usize, 0x90);
    let mut section_headers = vec![[0_u64; 8]];
    let mut section = |file: &mut Vec<u8>, name: u64, kind: u64, bytes: &[u8], link: u64, entry: u64| {
        let header = [name | kind << 32, 0, 0, file.len() as u64, bytes.len() as u64, link, 1, entry];
        section_headers.push(header);
        file.extend(bytes);
    };
    let mut symbols = vec![0; 24];
    for number in 0..functions {
        symbols.extend((1 + number as u32).to_le_bytes());
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend((TEXT + number).to_le_bytes());
        symbols.extend(1_u64.to_le_bytes());
    }
    let strings = [&b"\0"[..], &vec![b'n'; length], b"\0"].concat();
    section(&mut file, 1, 2, &symbols, 2, 24);
    section(&mut file, 9, 3, &strings, 0, 0);
    section(&mut file, 17, 3, b"\0.symtab\0.strtab\0.shstrtab\0", 0, 0);
    let headers = file.len() as u64;
    file.extend(section_headers.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
    let end = TEXT + functions;
    let program_header = [5 << 32 | 1, 0, 0, 0, end, end, TEXT];
    let fields = [
        u64::from_le_bytes([0x7f, b'E', b'L', b'F', 2, 1, 1, 0]),
        0,
        1 << 32 | 62 << 16 | 3,
        0,
        64,
        headers,
        56 << 48 | 64 << 32,
        3 << 48 | 4 << 32 | 64 << 16 | 1,
    ];
    for (index, word) in fields.into_iter().chain(program_header).enumerate() {
        file[index * 8..index * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    file
}

fn symbols_with_names_of_a_megabyte_are_cut_and_told() {
    let folder = folder();
    let object = folder.path().join("object");
    fs::write(&object, object_with_long_names(1 << 20, 2000)).unwrap();
    let Some(runs) = profiled_beside(&[&[OsStr::new("run"), object.as_os_str()]]) else { return };
    let [record, top, flame] = &runs;
    let cut = format!("in {} longer than 4096 bytes w", object.display());
    assert!(remarks(top).contains(&cut), "{}", remarks(top));
    // The object may be gone soon: its names go into the recording, and are cut there.
    assert!(record.stderr.contains(&cut), "{}", record.stderr);
    assert!(flame.stdout.len() < 4 << 20, "{} bytes", flame.stdout.len());
    assert!(flame.text().contains(&"n".repeat(1000)));
}

fn a_file_that_is_truncated_while_it_is_mapped_kills_nobody() {
    let folder = folder();
    let Some(program) = programs::c("neighbour") else { return };
    let victim = folder.path().join("victim");
    fs::copy(program, &victim).unwrap();
    profiled_beside(&[&[OsStr::new("truncate"), victim.as_os_str()]]);
}

fn a_file_that_is_mapped_under_a_new_name_each_time_takes_no_memory() {
    let folder = folder();
    profiled_beside(&[&[OsStr::new("rename"), folder.path().as_os_str()]]);
}
