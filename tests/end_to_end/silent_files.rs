//! File systems that do not answer: whoever waits for them cannot be killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::folded::Folded;
use super::names::build_id;
use super::prof::{Run, folded, folder, may_record, prof, run};
use super::programs::{self, has, skip};

/// Whoever needs longer to record one second, or to read that, hangs.
const TIME: &str = "30"; // seconds

/// A mounted file system with a program that runs from it. When dropped, everybody who waits for it goes on.
struct FileSystem {
    server: Child,
    program: Child,
    place: PathBuf,
    sign: PathBuf,
}

impl FileSystem {
    /// Mounts it below `folder`; `None` where that is not possible.
    fn with(folder: &Path, program: &Path) -> Option<Self> {
        let server = programs::c("silent_files").filter(|_| may_record())?;
        let (place, sign) = (folder.join("mounted"), folder.join("be-silent"));
        fs::create_dir(&place).unwrap();
        let mut server = Command::new(server).arg(program).arg(&place).arg(&sign).spawn().unwrap();
        let file = place.join("file");
        while !file.exists() {
            if server.try_wait().unwrap().is_some() {
                skip("no FUSE file system can be mounted here");
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let program = Command::new(&file).args(["alone", "600000"]).spawn().unwrap();
        thread::sleep(Duration::from_millis(300));
        Some(Self { server, program, place, sign })
    }

    fn be_silent(&self) {
        fs::write(&self.sign, "").unwrap();
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        // The kernel ends all requests when its server is gone.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

/// Runs `prof` with a limit beyond which it hangs.
fn in_time(words: &[&str], file: &Path) -> Run {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", TIME, env!("CARGO_BIN_EXE_prof")]).args(words).arg("-o").arg(file);
    run(&mut command)
}

/// All at once: they wait most of the time.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn recordings_and_the_live_view_beside_a_file_system_that_does_not_answer_end_in_time() {
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let Some(system) = FileSystem::with(folder.path(), &program) else { return };
    system.be_silent();
    let place = system.place.display().to_string();
    let pid = system.program.id().to_string();
    let recording_ends = |name: &str, flags: &[&str]| {
        let file = folder.path().join(name);
        let recorded = in_time(&[&["record", "-v", "-F", "999", "-d", "1"], flags].concat(), &file);
        assert_eq!(recorded.code, 0, "{flags:?}: {}", recorded.stderr);
        assert!(recorded.stderr.contains(&place), "{flags:?}: {}", recorded.stderr);
        let read = ["report", "-v", "--csv", "-i", file.to_str().unwrap()];
        let read = in_time(&read, &file.with_extension("csv"));
        assert_eq!(read.code, 0, "{flags:?}: {}", read.stderr);
        assert!(read.stderr.contains(&place), "{flags:?}: {}", read.stderr);
    };
    thread::scope(|scope| {
        scope.spawn(|| recording_ends("all.data", &["-a"]));
        scope.spawn(|| recording_ends("copies.data", &["-a", "--call-graph", "dwarf"]));
        scope.spawn(|| recording_ends("one.data", &["-p", &pid]));
        let mut command = Command::new("timeout");
        command.args(["-k", "1", TIME, env!("CARGO_BIN_EXE_prof"), "top", "--once", "-p", &pid]);
        let viewed = run(&mut command);
        assert_eq!(viewed.code, 0, "{}", viewed.stderr);
        assert!(viewed.text().contains("[file]"), "{}", viewed.text());
        assert!(viewed.stderr.contains(&place), "{}", viewed.stderr);
    });
}

/// There is one at a time: a message names the one that was waited for longest.
static KEEPERS: Mutex<()> = Mutex::new(());

/// A program that keeps the lock of its memory. When dropped, it goes on and ends.
struct LockKeeper {
    program: Child,
    lines: BufReader<ChildStdout>,
    /// Its lock is kept until the server has gone.
    system: Option<FileSystem>,
    _alone: MutexGuard<'static, ()>,
}

impl LockKeeper {
    /// Starts one that keeps the lock after `milliseconds`; `None` where that is not possible.
    fn with(folder: &Path, milliseconds: &str) -> Option<Self> {
        let alone = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (program, keeper) = (programs::c("shares")?, programs::c("lock_keeper")?);
        let system = FileSystem::with(folder, &program)?;
        let mut keeper = Command::new(keeper);
        keeper.arg(system.place.join("other")).arg(&system.sign).arg(milliseconds);
        let mut program = keeper.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap());
        let mut keeper = Self { program, lines, system: Some(system), _alone: alone };
        keeper.expect("ready");
        Some(keeper)
    }

    fn expect(&mut self, told: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), told);
    }
}

impl Drop for LockKeeper {
    fn drop(&mut self) {
        self.system = None;
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Records a process whose memory is not read in time, and reads the recording.
fn recording_and_reading_end(pid: &str, seconds: &str, file: &Path, flags: &[&str]) {
    let recorded = in_time(&[&["record", "-v", "-F", "999", "-d", seconds], flags].concat(), file);
    assert_eq!(recorded.code, 0, "{flags:?}: {}", recorded.stderr);
    let told = format!("the memory of process {pid} could not be read in time");
    assert!(recorded.stderr.contains(&told), "{flags:?}: {}", recorded.stderr);
    let read = in_time(&["report", "-v", "--csv", "-i", file.to_str().unwrap()], &file.with_extension("csv"));
    assert_eq!(read.code, 0, "{flags:?}: {}", read.stderr);
}

/// All at once: they wait most of the time.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn recordings_of_a_process_that_keeps_the_lock_of_its_memory_end_in_time() {
    let folder = folder();
    let Some(mut keeper) = LockKeeper::with(folder.path(), "0") else { return };
    keeper.expect("kept");
    let pid = keeper.program.id().to_string();
    let ends = |name, flags: &[&str]| recording_and_reading_end(&pid, "1", &folder.path().join(name), flags);
    thread::scope(|scope| {
        scope.spawn(|| ends("all.data", &["-a"]));
        scope.spawn(|| ends("one.data", &["-p", &pid]));
        scope.spawn(|| ends("waits.data", &["-p", &pid, "--off-cpu"]));
    });
}

/// It maps a file just before, which is looked up through the process.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn recordings_of_a_process_that_comes_to_keep_the_lock_of_its_memory_end_in_time() {
    let folder = folder();
    let Some(keeper) = LockKeeper::with(folder.path(), "3000") else { return };
    let pid = keeper.program.id().to_string();
    let ends = |name, flags: &[&str]| recording_and_reading_end(&pid, "5", &folder.path().join(name), flags);
    thread::scope(|scope| {
        scope.spawn(|| ends("all.data", &["-a"]));
        scope.spawn(|| ends("one.data", &["-p", &pid]));
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn programs_on_a_file_system_of_a_program_have_names_and_build_ids() {
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let Some(system) = FileSystem::with(folder.path(), &program) else { return };
    let file = folder.path().join("prof.data");
    let pid = system.program.id().to_string();
    let recorded = in_time(&["record", "-F", "1999", "-d", "0.5", "-p", &pid], &file);
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    assert!(!recorded.stderr.contains("did not answer"), "{}", recorded.stderr);
    let stacks = folded(&file, &[]).ok();
    assert!(Folded::parse(stacks.text()).with("main") > 0, "{}", stacks.text());
    if has("readelf") {
        let pages = run(prof(["export", "--format", "json", "-i"]).arg(&file)).ok();
        assert!(pages.text().contains(&build_id(&program)), "{}", system.place.display());
    }
}
