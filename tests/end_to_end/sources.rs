//! Source files that hostile debug information names.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::prof::{folder, may_record, prof, record, run};
use super::programs::{has, skip};

const SECRET: &str = "nobody_but_root_reads_this";
/// A user who owns nothing of what root reads.
const STRANGER: u32 = 12_345;

/// Builds a program whose hot function says that it stands in `source`.
fn program(folder: &Path, source: &Path) -> PathBuf {
    let (text, built) = (folder.join("main.c"), folder.join("evil"));
    let text_of = |source: &Path| {
        format!(
            "# 1 \"{}\"\n__attribute__((noinline)) int evil(int n) {{ volatile int s = 0; for (int i = 0; i < n; i++) s += i; \
             return s; }}\n# 1 \"main.c\"\nint main() {{ int r = 0; for (int i = 0; i < 300; i++) r += evil(1000000); \
             return r == 3; }}\n",
            source.display()
        )
    };
    fs::write(&text, text_of(source)).unwrap();
    let built_by = Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&built).arg(&text).status();
    assert!(built_by.unwrap().success());
    built
}

/// Returns the blocks of a page of `prof view`, which are packed.
fn unpacked(page: &str) -> String {
    const UNPACK: &str = "import sys, re, zlib, base64\n\
        for block in re.findall(r'data-block=[^>]*>([^<]*)<', sys.stdin.read()):\n    \
        sys.stdout.buffer.write(zlib.decompress(base64.b64decode(block)))";
    let mut python = Command::new("python3");
    python.args(["-c", UNPACK]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    python.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    String::from_utf8_lossy(&python.wait_with_output().unwrap().stdout).into_owned()
}

fn is_root() -> bool {
    if own_user() == 0 {
        return true;
    }
    skip("only root reads as others");
    false
}

fn own_user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn root_shows_what_the_owner_of_the_program_may_read() {
    if !is_root() || !has("gcc") || !has("python3") || !may_record() {
        return;
    }
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = folder.path().join("secret.c");
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let program = program(folder.path(), &secret);
    chown(&program, Some(STRANGER), Some(STRANGER)).unwrap();
    let (file, _) = record(folder.path(), &[], &[program.as_os_str()]);
    let archive = folder.path().join("archive");
    run(prof(["archive", "-q", "-o"]).arg(&archive).arg(&file)).ok();
    let shown = |arguments: &[&str], file: &Path| {
        let shown = run(prof(arguments).arg("-i").arg(file)).ok();
        let is_said = shown.stderr.contains("may not read it");
        (shown.text().contains(SECRET) || unpacked(shown.text()).contains(SECRET), is_said)
    };
    let faces: [&[&str]; 2] = [&["annotate", "evil"], &["view", "--with-source"]];
    for face in faces {
        for file in [&file, &archive] {
            assert_eq!(shown(face, file), (false, true), "{face:?} {}", file.display());
        }
    }
    // What nobody asked for is left out without a word.
    let of_hottest = |file: &Path| shown(&["view"], file);
    assert_eq!((of_hottest(&file), of_hottest(&archive)), ((false, false), (false, false)));
    // What he may read is shown, and so is what root's own programs name.
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    for face in faces {
        assert_eq!(shown(face, &file), (true, false), "{face:?}");
    }
    assert_eq!(of_hottest(&file), (true, false));
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&program, Some(0), Some(0)).unwrap();
    for face in faces {
        assert_eq!(shown(face, &file), (true, false), "{face:?}");
    }
    // But anybody could have written this one.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
    for face in faces {
        assert_eq!(shown(face, &file), (false, true), "{face:?}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn files_that_are_no_sources_are_not_read() {
    if !has("gcc") || !may_record() {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("secret"), SECRET).unwrap();
    symlink("secret", at("link.c")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe.c")).status().unwrap().success());
    let traps = ["/proc/kmsg", "/sys/kernel/tracing/trace_pipe", "/proc/self/environ", "/dev/zero"];
    let traps = traps.map(PathBuf::from).into_iter().chain([at("link.c"), at("pipe.c")]);
    for trap in traps.filter(|trap| trap.exists()) {
        let program = program(folder.path(), &trap);
        let (file, _) = record(folder.path(), &[], &[program.as_os_str()]);
        let listing = run(prof(["annotate", "evil", "-i"]).arg(&file)).ok();
        assert!(!listing.text().contains(SECRET), "{}", listing.text());
        let line = listing.text().lines().find(|line| line.contains("┌")).unwrap().to_owned();
        assert!(line.ends_with(":1"), "{}: {line}", trap.display());
        assert!(listing.stderr.contains("is not shown"), "{}: {}", trap.display(), listing.stderr);
    }
}
