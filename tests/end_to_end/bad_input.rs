//! Whatever lies there instead of a recording: a clear error, or the good part with a count.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::folded::Folded;
use super::prof::{Run, folded, folder, may_record, prof, record, run};
use super::{perf, programs};

/// A refusal: one error that names the file, exit code 1.
fn refused(path: &Path) -> String {
    let run = folded(path, &[]);
    assert_eq!(run.code, 1, "{path:?}: {}", run.stderr);
    assert!(run.stdout.is_empty(), "{path:?}");
    assert!(run.stderr.contains(path.file_name().unwrap().to_str().unwrap()), "{path:?}: {}", run.stderr);
    assert!(!run.stderr.contains("panicked") && !run.stderr.contains("os error"), "{}", run.stderr);
    assert_eq!(run.stderr.trim_end().lines().count(), 1, "{}", run.stderr);
    run.stderr
}

#[test]
fn what_is_no_recording_is_refused_by_name() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    assert!(refused(&at("missing")).to_lowercase().contains("no such file"));
    assert!(refused(folder.path()).contains("directory"));
    std::fs::write(at("empty"), "").unwrap();
    assert!(refused(&at("empty")).contains("empty"));
    std::fs::write(at("text"), "The quick brown fox jumps over the lazy dog.\n".repeat(100)).unwrap();
    refused(&at("text"));
    std::fs::write(at("magic"), "PERFILE2").unwrap();
    refused(&at("magic"));
    std::fs::write(at("zeros"), vec![0; 10_000]).unwrap();
    refused(&at("zeros"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn scans_of_proc_that_were_cut_short_are_said() {
    /// `PERF_RECORD_MMAP2`, and the bit that says it, which is the second byte of `misc`'s.
    const MMAP2: [u8; 4] = [10, 0, 0, 0];
    const CUT_SHORT: u8 = 1 << 4;
    if !may_record() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("cut");
    run(prof(["record", "-q", "-F", "999", "-o"]).arg(&path).args(["--", "seq", "300000"])).ok();
    assert!(!folded(&path, &[]).ok().stderr.contains("/proc"));
    let mut bytes = std::fs::read(&path).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (mut at, end) = (word(40), word(40) + word(48));
    while bytes[at..at + 4] != MMAP2 {
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        assert!(at < end, "no mapping is recorded");
    }
    bytes[at + 5] |= CUT_SHORT;
    std::fs::write(&path, bytes).unwrap();
    for arguments in [&["flame", "--folded"][..], &["report"], &["script"]] {
        let said = run(prof(arguments.iter().copied()).arg("-i").arg(&path)).ok().stderr;
        assert!(said.contains("the mappings of 1 process are recorded in part"), "{arguments:?}: {said}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_unreadable_file_is_refused() {
    let folder = folder();
    let file = folder.path().join("unreadable");
    std::fs::write(&file, "PERFILE2").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_ok() {
        // root reads everything.
        if !programs::has("setpriv") {
            return;
        }
        let copy = reachable_prof(folder.path());
        let run = run(std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy)
            .args(["flame", "--folded", "-i"])
            .arg(&file));
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stderr.to_lowercase().contains("permission denied"), "{}", run.stderr);
        assert!(run.stderr.contains("unreadable"), "{}", run.stderr);
    } else {
        assert!(refused(&file).to_lowercase().contains("permission denied"));
    }
}

/// A copy of `prof` that every user may run.
pub(crate) fn reachable_prof(folder: &Path) -> PathBuf {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("prof");
    let program = Path::new(env!("CARGO_BIN_EXE_prof"));
    // It has a hundred megabytes: another name will do where both are on one file system.
    if !copy.exists() && std::fs::hard_link(program, &copy).is_err() {
        copy_program(program, &copy);
    }
    copy
}

/// Copies a program, by a process of its own: a file that another test's child has inherited open for writing cannot be
/// executed (`ETXTBSY`).
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Good recordings, ours and perf's, of some tens of kilobytes.
fn recordings(folder: &Path) -> Vec<Vec<u8>> {
    let Some(program) = programs::c("paths") else { return Vec::new() };
    let mut files = Vec::new();
    if may_record() {
        let (file, run) = record(folder, &[], &[program.as_os_str(), OsStr::new("1"), OsStr::new("30")]);
        run.ok();
        files.push(std::fs::read(file).unwrap());
    }
    if perf::is_here() {
        let file = perf::record(folder, &[], &mut |command| {
            command.arg(&program).args(["1", "30"]);
        });
        files.push(std::fs::read(file).unwrap());
    }
    files
}

/// Either an error with a reason, or stacks; and in no case a panic.
fn survives(folder: &Path, bytes: &[u8], what: &str) -> Run {
    let file = folder.join("broken.data");
    std::fs::write(&file, bytes).unwrap();
    let run = folded(&file, &[]);
    assert!(matches!(run.code, 0 | 1), "{what}: {} {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{what}: {}", run.stderr);
    if run.code == 1 {
        assert!(run.stderr.contains("broken.data"), "{what}: {}", run.stderr);
    }
    run
}

#[test]
fn a_file_cut_anywhere_gives_an_error_or_its_good_part() {
    let folder = folder();
    for bytes in recordings(folder.path()) {
        let whole = Folded::parse(survives(folder.path(), &bytes, "whole").ok().text()).total();
        let header = (0..=160).step_by(32);
        let spread = (0..12).map(|n| bytes.len() * n / 12 + n % 7);
        for length in header.chain(spread).filter(|length| *length < bytes.len()) {
            let run =
                survives(folder.path(), &bytes[..length], &format!("cut at {length} of {}", bytes.len()));
            if run.code == 0 {
                let part = Folded::parse(run.text()).total();
                assert!(part <= whole, "cut at {length}: {part} of {whole} samples");
                // What is missing is said.
                assert!(!run.stderr.trim().is_empty(), "cut at {length} in silence");
            }
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn flipped_bytes_do_no_harm() {
    let folder = folder();
    for bytes in recordings(folder.path()) {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for round in 0..16 {
            let mut broken = bytes.clone();
            // Every other time only the header and what follows at once, where a byte decides most.
            let reach = if round % 2 == 0 { bytes.len() } else { bytes.len().min(2048) };
            for _ in 0..1 + draw() % 8 {
                let at = (draw() % reach as u64) as usize;
                broken[at] = match draw() % 4 {
                    0 => 0xff,
                    1 => 0,
                    _ => draw() as u8,
                };
            }
            survives(folder.path(), &broken, &format!("round {round}"));
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_that_is_asked_for_and_not_there_says_what_to_do() {
    let folder = folder();
    let run = run(prof(["flame", "--folded"]).current_dir(folder.path()));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("prof record"), "{}", run.stderr);
}

/// A recording of one event with these counts of addresses in call chains, each with two addresses.
fn recording_of_chains(counts: &[u64]) -> Vec<u8> {
    const HEADER: u64 = 104;
    const ATTR: u64 = 128 + 16;
    let mut records = Vec::new();
    for &count in counts {
        // PERF_RECORD_SAMPLE of the user's side.
        for field in [9_u32, 2 | 40 << 16] {
            records.extend(field.to_le_bytes());
        }
        for word in [0x1234, count, 0x1234, 0x5678] {
            records.extend(word.to_le_bytes());
        }
    }
    let mut file = b"PERFILE2".to_vec();
    let sections = [HEADER, ATTR, HEADER, ATTR, HEADER + ATTR, records.len() as u64];
    for word in sections.into_iter().chain([0; 6]) {
        file.extend(word.to_le_bytes());
    }
    // PERF_COUNT_SW_CPU_CLOCK with a period of 1: the instruction and the call chain.
    let mut attr = vec![0; ATTR as usize];
    (attr[0], attr[4], attr[16], attr[24]) = (1, 128, 1, 0x21);
    file.extend(attr);
    file.extend(records);
    file
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_hostile_count_is_told_with_its_place_and_value() {
    let folder = folder();
    let file = folder.path().join("hostile.data");
    std::fs::write(&file, recording_of_chains(&[2, 1 << 61, 2, u64::MAX])).unwrap();
    for command in ["script", "flame"] {
        let run = run(prof([command]).arg("-i").arg(&file));
        assert_eq!(run.code, 0, "{}", run.stderr);
        let told = "hostile.data: left out: the record at offset 0x120: SAMPLE record: callchain nr at offset 16 is \
                    2305843009213693952, which the 16 bytes left cannot hold (and 1 like it)";
        assert!(run.stderr.contains(told), "{}", run.stderr);
        // The picture has it, too.
        assert!((run.stderr.clone() + run.text()).contains("2 records undecodable"), "{}", run.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_no_recording_is_called_what_it_is() {
    let folder = folder();
    let file = folder.path().join("input");
    for (bytes, expected) in [
        (b"<?xml version=\"1.0\"?><svg>".as_slice(), "an SVG picture"),
        (b"{\"traceEvents\":[]}", "a trace for Chrome (JSON)"),
        (b"hello, world\n", "text"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let run = run(prof(["flame", "-i"]).arg(&file));
        assert_eq!(run.code, 1, "{}", run.stderr);
        let said = format!("input: not a perf.data file: it looks like {expected}");
        assert!(run.stderr.contains(&said), "no {said:?} in {}", run.stderr);
    }
    std::fs::write(&file, b"\x1f\x8b\x08\0\0\0\0\0\0\xff").unwrap();
    let cut = run(prof(["flame", "-i"]).arg(&file));
    assert!(cut.code == 1 && cut.stderr.contains("its gzip-compressed data is damaged"), "{}", cut.stderr);
}
