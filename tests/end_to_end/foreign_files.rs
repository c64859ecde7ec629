//! Programs that pretend to be those of other users: by a path that means something else to them, and a build id that is not theirs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::folded::Folded;
use super::prof::{folded, folder, may_record, prof, run};
use super::programs::{has, skip};

/// The id that all programs here have.
const BUILD_ID: &str = "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567";
const STRANGER: &str = "12345";

/// Builds a program that burns time in a function called `function`.
fn program(path: &Path, function: &str, flags: &[&str]) {
    let text = format!(
        "#include <unistd.h>\nvolatile unsigned long s;\n__attribute__((noinline)) void {function}(void) {{ \
         for (long i = 0; i < 3000000; i++) s += i; }}\nint main() {{ for (;;) {{ {function}(); usleep(1000); }} }}\n"
    );
    let source = path.with_extension("c");
    fs::write(&source, text).unwrap();
    let built = Command::new("gcc")
        .args(["-g", "-O1", "-static"])
        .args(flags)
        .arg("-o")
        .arg(path)
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A process that is killed with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(program: &Path) -> Running {
    Running(Command::new(program).spawn().unwrap())
}

/// Starts a script as the stranger in a user namespace of its own, with `namespaces`, and waits until it says that it is ready.
fn stranger(namespaces: &[&str], script: &str, words: &[&Path]) -> Option<Running> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", STRANGER, "--regid", STRANGER, "--clear-groups", "unshare", "-U", "-r"]);
    // All of his processes end with the first.
    command.args(["-p", "-f", "--kill-child"]);
    command.args(namespaces).args(["sh", "-c", script, "sh"]).args(words);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    if line.trim() != "ready" {
        skip("no user namespaces for users here");
        drop(Running(child));
        return None;
    }
    Some(Running(child))
}

fn is_prepared() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        skip("only root records the processes of others");
    }
    is_root && has("gcc") && has("setpriv") && has("unshare") && may_record()
}

/// Two programs of one build id, genuine and evil, in a folder that all may read.
fn programs(folder: &Path, flags: &[&str]) -> (PathBuf, PathBuf) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(folder.join("root").join(folder.strip_prefix("/").unwrap())).unwrap();
    let (genuine, evil) = (folder.join("victim"), folder.join("evil"));
    program(&genuine, "genuine", flags);
    program(&evil, "evil", flags);
    (genuine, evil)
}

/// Records the machine while both run, and returns the stacks of the victim and of all processes.
fn recorded(folder: &Path, victim: &Running, flags: &[&str]) -> (Folded, Folded) {
    let file = folder.join("prof.data");
    run(prof(["record", "-q", "-a", "-F", "997", "-e", "cpu-clock", "-d", "0.7"])
        .args(flags)
        .arg("-o")
        .arg(&file))
    .ok();
    let pid = victim.0.id().to_string();
    let of = |flags: &[&str]| Folded::parse(folded(&file, flags).ok().text());
    (of(&["--pid", &pid]), of(&[]))
}

fn assert_is_named_by_its_own(victim: &Folded, all: &Folded, how: &str) {
    let (right, wrong) = (victim.with("genuine"), victim.with("evil"));
    assert!(right > 5 && wrong == 0, "{how}: {right} genuine, {wrong} evil");
    assert!(all.with("evil") > 5, "{how}: the stranger's process has its own names");
}

/// After the file was at its own path, too, where it is what it says.
const BIND: &str = "\"$2\" & mount --bind \"$2\" \"$1\" && echo ready && exec \"$1\"";
/// Of the root folder, which has the program at the same path.
const CHROOT: &str = "echo ready && exec chroot \"$2\" \"$1\"";

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_file_that_a_stranger_mounts_over_a_path_names_only_his_process() {
    if !is_prepared() {
        return;
    }
    for (flags, how) in [(&[BUILD_ID][..], "same build id"), (&["-Wl,--build-id=none"], "no build id")] {
        let folder = folder();
        let (genuine, evil) = programs(folder.path(), flags);
        let Some(stranger) = stranger(&["-m"], BIND, &[&genuine, &evil]) else { return };
        let (victim, all) = recorded(folder.path(), &started(&genuine), &[]);
        assert_is_named_by_its_own(&victim, &all, how);
        drop(stranger);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn nor_one_that_he_has_at_that_path_in_a_root_folder_of_his() {
    if !is_prepared() {
        return;
    }
    let folder = folder();
    let (genuine, evil) = programs(folder.path(), &[BUILD_ID]);
    let root = folder.path().join("root");
    fs::copy(&evil, root.join(genuine.strip_prefix("/").unwrap())).unwrap();
    // The stranger comes last here, and is asked for his file when the recording is read.
    let victim = started(&genuine);
    let Some(stranger) = stranger(&[], CHROOT, &[&genuine, &root]) else { return };
    let (victim, all) = recorded(folder.path(), &victim, &["--no-names"]);
    assert_is_named_by_its_own(&victim, &all, "another root folder");
    drop(stranger);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_program_without_a_build_id_that_was_built_again_in_place_is_not_used() {
    if !has("gcc") || !may_record() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("program");
    // Of the folders whose files are expected to stay, so that no names go into the recording.
    program(&path, "before", &["-Wl,--build-id=none"]);
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-q", "--no-names", "-e", "cpu-clock", "-d", "1", "-o"]);
    run(record.arg(&file).arg("--").arg(&path));
    assert!(Folded::parse(folded(&file, &[]).ok().text()).with("before") > 5);
    let inode = fs::metadata(&path).unwrap().ino();
    let other = folder.path().join("other");
    program(&other, "later", &["-Wl,--build-id=none"]);
    fs::write(&path, fs::read(&other).unwrap()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    let after = folded(&file, &[]).ok();
    assert!(!after.text().contains("later") && !after.text().contains("before"), "{}", after.text());
    let annotate = run(prof(["annotate", "--hottest", "1", "-i"]).arg(&file));
    assert!(!String::from_utf8_lossy(&annotate.stdout).contains("later"), "{annotate:?}");
}
