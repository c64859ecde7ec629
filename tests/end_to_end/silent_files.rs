//! File systems that do not answer: whoever waits for them cannot be killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
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

#[test]
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
