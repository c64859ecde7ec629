//! What a user without privileges may do, and is told.

use std::path::Path;
use std::process::Command;
use std::sync::RwLock;

use super::bad_input::{copy_program, reachable_prof};
use super::folded::Folded;
use super::prof::{Run, folder, may_record, run};
use super::programs::{self, has, skip};

/// Runs our command as nobody, in a folder that belongs to nobody. Nothing where we are not root to begin with.
pub(crate) fn as_nobody(folder: &Path, args: &[&str]) -> Option<Run> {
    with_rights(folder, &["--inh-caps=-all"], args)
}

/// The same with `setpriv` told what to leave.
fn with_rights(folder: &Path, rights: &[&str], args: &[&str]) -> Option<Run> {
    if !nix::unistd::Uid::effective().is_root() {
        skip("only root becomes another user");
        return None;
    }
    if !has("setpriv") {
        return None;
    }
    let prof = reachable_prof(folder);
    let home = folder.join("home");
    let _ = std::fs::create_dir(&home);
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    Some(run(Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(rights)
        .arg(prof)
        .args(args)
        .current_dir(&home)))
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

pub(crate) fn paranoid() -> i32 {
    let level = std::fs::read_to_string(PARANOID).unwrap_or_default();
    level.trim().parse().unwrap_or(3)
}

/// Tests that take the machine's level as it is read, the one that changes it writes.
pub(crate) static LEVEL: RwLock<()> = RwLock::new(());

/// The machine's level, changed until this is dropped.
struct ChangedLevel {
    before: i32,
}

impl ChangedLevel {
    fn to(level: i32) -> Option<Self> {
        let before = paranoid();
        match std::fs::write(PARANOID, level.to_string()) {
            Ok(()) => Some(Self { before }),
            Err(error) => {
                skip(&format!("kernel.perf_event_paranoid cannot be set here: {error}"));
                None
            }
        }
    }
}

impl Drop for ChangedLevel {
    fn drop(&mut self) {
        std::fs::write(PARANOID, self.before.to_string()).unwrap();
    }
}

/// What is asked of the recorder, and a word of what a refusal has to say.
const ASKED: [(&str, &[&str], &str); 7] = [
    ("own", &["-e", "cpu-clock", "--", "./shares", "alone", "30"], "perf_event_paranoid="),
    ("kernel", &["-e", "cpu-clock:k", "--", "./shares", "alone", "30"], "perf_event_paranoid=1"),
    ("switches", &["-e", "cs", "--", "./shares", "alone", "30"], "perf_event_paranoid=1"),
    ("all", &["-e", "cpu-clock", "-a", "-d", "0.1"], "perf_event_paranoid=0"),
    ("foreign", &["-e", "cpu-clock", "-d", "0.1", "-p", "1"], "sudo prof record -p 1"),
    ("probe", &["-e", "uprobe:./shares:sixty", "--", "./shares", "alone", "30"], "CAP_SYS_ADMIN"),
    ("namespaces", &["-e", "cpu-clock", "--namespaces", "--", "./shares", "alone", "30"], "cap_perfmon"),
];

/// Which of [`ASKED`] work, and whether each that does not, or not wholly, is explained.
fn what_works(folder: &Path, rights: &[&str]) -> Option<Vec<&'static str>> {
    let mut works = Vec::new();
    for (what, args, wanted) in ASKED {
        let args = [&["record", "-o", "x.data"], args].concat();
        let run = with_rights(folder, rights, &args)?;
        let partly = ["user space only", "recording without"].iter().any(|word| run.stderr.contains(word));
        match (run.code, partly) {
            (0, false) => works.push(what),
            (0 | 1, _) => assert!(run.stderr.contains(wanted), "{what}: {}", run.stderr),
            _ => panic!("{what}: {}", run.stderr),
        }
    }
    Some(works)
}

#[test]
fn each_level_gives_what_it_gives_and_explains_the_rest() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !nix::unistd::Uid::effective().is_root() {
        return skip("only root changes the level of paranoia");
    }
    let folder = folder();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    copy_program(&program, &home.join("shares"));
    let _alone = LEVEL.write();
    let own = ["own", "kernel", "switches"];
    for (level, expected) in [
        (2, &[][..]),
        (1, &own[..]),
        (0, &["own", "kernel", "switches", "all"]),
        (-1, &["own", "kernel", "switches", "all"]),
    ] {
        let Some(_changed) = ChangedLevel::to(level) else { return };
        let Some(works) = what_works(folder.path(), &["--inh-caps=-all"]) else { return };
        assert_eq!(works, expected, "at {level}");
        let doctor = as_nobody(folder.path(), &["doctor"]).unwrap().ok();
        let ok = doctor.text().lines().find(|line| line.starts_with("ok")).unwrap_or_default().to_owned();
        assert_eq!(ok.contains("own programs"), level < 2, "{}", doctor.text());
        assert_eq!(doctor.text().contains("own processes only"), level > 0, "{}", doctor.text());
    }
    // CAP_PERFMON (38) alone, at the strictest level of the kernel's own.
    let Some(_changed) = ChangedLevel::to(2) else { return };
    let rights = ["--inh-caps=-all,+cap_38", "--ambient-caps=-all,+cap_38"];
    let mut works = what_works(folder.path(), &rights).unwrap();
    // Until Linux 6.16 it was enough for probes, too.
    works.retain(|what| *what != "probe");
    assert_eq!(works, ["own", "kernel", "switches", "all", "foreign", "namespaces"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn own_programs_are_profiled_on_the_user_side() {
    if !may_record() {
        return;
    }
    let _level = LEVEL.read();
    if paranoid() != 2 {
        return skip("kernel.perf_event_paranoid is not 2");
    }
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let copy = folder.path().join("shares");
    copy_program(&program, &copy);
    let command = copy.to_str().unwrap();
    let Some(recorded) = as_nobody(folder.path(), &["record", "--", command, "alone", "300"]) else { return };
    let recorded = recorded.ok();
    let notices =
        recorded.stderr.lines().filter(|line| line.contains("user space only: the kernel needs")).count();
    assert_eq!(notices, 1, "one line says that the kernel's side is missing: {}", recorded.stderr);
    let flame = as_nobody(folder.path(), &["flame", "--folded"]).unwrap().ok();
    let stacks = Folded::parse(flame.text());
    assert!(stacks.with("sixty") * 10 > stacks.total() * 4, "{}", flame.text());
    assert!(!flame.text().contains("_[k]"), "{}", flame.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn all_suits_the_rings_that_the_limit_of_locked_memory_allows() {
    if !may_record() || !has("prlimit") {
        return;
    }
    let _level = LEVEL.read();
    let folder = folder();
    let rights = ["--inh-caps=-all", "--bounding-set=-all", "prlimit", "--memlock=65536"];
    let args = ["record", "-vv", "-e", "cpu-clock:u", "--call-graph", "auto", "--", "true"];
    let Some(run) = with_rights(folder.path(), &rights, &args) else { return };
    if run.code != 0 && paranoid() > 2 {
        return skip("kernel.perf_event_paranoid allows nothing");
    }
    let said = run.ok().stderr;
    let number_behind = |word: &str, radix: u32| {
        let rest = said.split_once(word).map(|(_, rest)| rest).unwrap_or_default();
        let digits = rest.split(|char: char| !char.is_ascii_hexdigit()).next().unwrap_or_default();
        u64::from_str_radix(digits, radix).unwrap_or_else(|_| panic!("no {word}: {said}"))
    };
    let ring = 1024 * number_behind("prof: rings of ", 10);
    assert!(ring < 4 << 20, "{said}");
    assert_eq!(number_behind("wakeup_watermark 0x", 16), ring / 4, "{said}");
    // At 997 Hz, copies of 4 KiB fill 256 KiB in 64 ms.
    assert_eq!(number_behind("sample_stack_user 0x", 16), 4096, "{said}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_whole_machine_is_refused_with_the_command_that_would_allow_it() {
    if !may_record() {
        return;
    }
    let _level = LEVEL.read();
    if paranoid() < 1 {
        return skip("kernel.perf_event_paranoid allows everything");
    }
    let folder = folder();
    let Some(run) = as_nobody(folder.path(), &["record", "-a", "-d", "1"]) else { return };
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("perf_event_paranoid"), "{}", run.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_foreign_process_is_refused_by_its_pid() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let pid = std::process::id().to_string();
    let Some(run) = as_nobody(folder.path(), &["record", "-p", &pid, "-d", "1"]) else { return };
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains(&pid), "{}", run.stderr);
}
