//! Where names come from, what is said where they cannot come from anywhere, and how they are shown.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::folded::Folded;
use super::prof::{folded, folder, may_record, prof, record, run};
use super::programs;
use super::svg::draw;

/// A recording of a program that was stripped, and its debug information in a folder by build id. The program is at
/// its place; the folder is not where anybody looks.
struct Stripped {
    folder: TempDir,
    recording: PathBuf,
    program: PathBuf,
}

fn stripped() -> Option<Stripped> {
    let whole = programs::c("shares")?;
    if !programs::has("objcopy") || !may_record() {
        return None;
    }
    let folder = folder();
    let program = folder.path().join("shares");
    let objcopy = |flags: &[&str], from: &Path, to: &Path| {
        let out = Command::new("objcopy").args(flags).arg(from).arg(to).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    objcopy(&["--strip-all"], &whole, &program);
    let id = build_id(&whole);
    let debug = folder.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&debug).unwrap();
    objcopy(&["--only-keep-debug"], &whole, &debug.join(format!("{}.debug", &id[2..])));
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let (recording, run) = record(folder.path(), &["--no-names"], &command);
    run.ok();
    Some(Stripped { recording, program, folder })
}

/// Returns the build id of a program, as `readelf` has it.
pub(crate) fn build_id(program: &Path) -> String {
    let out = Command::new("readelf").arg("-n").arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.split("Build ID: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

/// Returns true if the work is seen in the function that does most of it.
fn has_names(text: &str) -> bool {
    Folded::parse(text).with("sixty") > 0
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn debug_files_are_found_where_the_user_says() {
    let Some(Stripped { folder, recording, .. }) = stripped() else { return };
    assert!(!has_names(folded(&recording, &[]).ok().text()));
    let debug = folder.path().join("debug");
    let found = folded(&recording, &["--debug-dir", debug.to_str().unwrap()]).ok();
    assert!(has_names(found.text()), "{}", found.text());
    let nowhere = folded(&recording, &["--debug-dir", "/no/such/folder"]);
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.stderr.contains("/no/such/folder"), "{}", nowhere.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn another_root_stands_for_the_recorded_one() {
    let Some(Stripped { folder, recording, program }) = stripped() else { return };
    let root = folder.path().join("root");
    let moved = root.join(program.strip_prefix("/").unwrap());
    std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::fs::rename(&program, &moved).unwrap();
    let debug = root.join("usr/lib/debug");
    std::fs::create_dir_all(&debug).unwrap();
    std::fs::rename(folder.path().join("debug/.build-id"), debug.join(".build-id")).unwrap();
    let gone = run(prof(["flame", "--folded", "-v", "-i"]).arg(&recording)).ok();
    assert!(!has_names(gone.text()));
    assert!(gone.stderr.contains("file is gone; try `--debuginfod`, or `--symfs DIR`"), "{}", gone.stderr);
    let found = folded(&recording, &["--symfs", root.to_str().unwrap()]).ok();
    assert!(has_names(found.text()), "{}", found.text());
}

/// The addresses of a program's functions, as `nm` prints them.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_missing_file_with_split_debug_information_is_said() {
    let folder = folder();
    if !programs::has("gcc") || !may_record() {
        return;
    }
    let source = programs::repository().join("fixtures/programs/shares.c");
    let program = folder.path().join("shares");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-gsplit-dwarf", "-pthread", "-o"]).args([&program, &source]).current_dir(&folder);
    assert!(gcc.status().unwrap().success());
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let split =
        files.into_iter().find(|file| file.extension().is_some_and(|ending| ending == "dwo")).unwrap();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let name = split.file_name().unwrap().to_str().unwrap().to_owned();
    let (recording, run) = record(folder.path(), &["--no-names"], &command);
    run.ok();
    assert!(!folded(&recording, &[]).ok().stderr.contains(&name), "it is there");
    std::fs::remove_file(&split).unwrap();
    let run = folded(&recording, &[]).ok();
    assert!(run.stderr.contains(&name) && run.stderr.contains("is missing"), "{}", run.stderr);
}

fn addresses(program: &Path) -> Vec<(String, u64)> {
    let out = Command::new("nm").arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    text.lines().filter_map(line).collect()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_a_stripped_program_are_told_apart() {
    let Some(Stripped { folder, recording, program }) = stripped() else { return };
    let known = addresses(&programs::c("shares").unwrap());
    let address = |name: &str| known.iter().find(|(known, _)| known == name).unwrap().1;
    let text = folded(&recording, &[]).ok();
    let stacks = Folded::parse(text.text());
    let named = folded(&recording, &["--debug-dir", folder.path().join("debug").to_str().unwrap()]).ok();
    let named = Folded::parse(named.text());
    for function in ["sixty", "thirty", "ten", "work", "main"] {
        let frame = format!("[shares+{:#x}]", address(function));
        let samples = named.with(function);
        assert!(samples > 0 && stacks.with(&frame) == samples, "{frame} {samples}: {}", text.text());
    }
    let as_one = folded(&recording, &["--modules-only"]).ok();
    assert!(!as_one.text().contains("[shares+"), "{}", as_one.text());
    // A sample may also lie before `main`.
    let of_program = stacks.count(|stack| stack.iter().any(|frame| frame.starts_with("[shares")));
    assert_eq!(Folded::parse(as_one.text()).with("[shares]"), of_program);
    // The same names from an archive, when the program is gone.
    let archive = folder.path().join("prof.data.archive");
    run(prof(["archive"]).arg(&recording)).ok();
    std::fs::remove_file(&program).unwrap();
    assert_eq!(folded(&archive, &[]).ok().text(), text.text());
    assert!(!folded(&recording, &[]).ok().text().contains("[shares+"));
}

#[test]
fn frames_without_a_name_say_why_and_what_to_type() {
    let Some(Stripped { folder: _folder, recording, .. }) = stripped() else { return };
    let said = run(prof(["flame", "--folded", "-v", "-i"]).arg(&recording)).ok().stderr;
    let line =
        said.lines().find(|line| line.starts_with("prof: shares: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("stripped: only exports have names; try building it with `-g`"), "{line}");
    let svg = draw(&recording, &[]);
    assert!(svg.contains("without a name (shares: building it with `-g` (Rust: `-C debuginfo=1`)"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn async_rust_is_folded_when_asked() {
    for mangling in ["legacy", "v0"] {
        let Some(program) = programs::rust("futures", mangling) else { return };
        if !may_record() {
            return;
        }
        let folder = folder();
        let (file, run) =
            record(folder.path(), &["--call-graph", "fp"], &[program.as_os_str(), OsStr::new("200")]);
        run.ok();
        let stack_of = |flags: &[&str]| {
            let text = folded(&file, flags).ok();
            let stacks = Folded::parse(text.text());
            let with_work = |stack: &&Vec<String>| stack.iter().any(|frame| frame.contains("::work"));
            let (stack, _) = stacks
                .stacks
                .iter()
                .filter(|(stack, _)| with_work(stack))
                .max_by_key(|(_, count)| **count)
                .unwrap();
            stack.iter().map(|frame| frame.trim_end_matches("_[i]").to_owned()).collect::<Vec<_>>()
        };
        let asked = stack_of(&["--fold-async"]);
        let names = ["futures::main", "futures::serve", "futures::handle", "futures::read", "futures::work"];
        let ours: Vec<_> = asked.iter().filter(|frame| frame.contains("futures::")).collect();
        assert_eq!(ours, names, "{mangling}: {asked:?}");
        let as_compiled = stack_of(&[]);
        assert!(as_compiled.iter().any(|frame| frame.contains("{closure")), "{as_compiled:?}");
        assert!(as_compiled.iter().any(|frame| frame.ends_with("::poll")), "{as_compiled:?}");
    }
}

/// Serves the debug files of a folder by build id, as debuginfod does. Ends with the test's process.
fn debuginfod(debug: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let id = request
                .strip_prefix("GET /buildid/")
                .and_then(|rest| rest.strip_suffix("/debuginfo HTTP/1.1"));
            let body = id.and_then(|id| {
                std::fs::read(debug.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]))).ok()
            });
            let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
            let body = body.unwrap_or_default();
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    url
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn debug_files_come_from_servers_only_when_asked() {
    let Some(Stripped { folder, recording, .. }) = stripped() else { return };
    let url = debuginfod(folder.path().join("debug"));
    let cache = folder.path().join("cache");
    let flame = |flags: &[&str], url: Option<&str>| {
        let mut command = prof(["flame", "--folded", "-i"]);
        command.arg(&recording).args(flags).env("DEBUGINFOD_CACHE_PATH", &cache);
        match url {
            Some(url) => command.env("DEBUGINFOD_URLS", url),
            None => command.env_remove("DEBUGINFOD_URLS"),
        };
        run(&mut command).ok()
    };
    assert!(!has_names(flame(&[], None).text()));
    assert!(!cache.exists(), "nobody asked");
    let asked = flame(&["--debuginfod"], Some(&url));
    assert!(has_names(asked.text()), "{}", asked.stderr);
    assert!(
        asked.stderr.contains("fetched by debuginfod: debug information of shares ("),
        "{}",
        asked.stderr
    );
    let from_cache = flame(&[], None);
    assert!(has_names(from_cache.text()));
    assert!(!from_cache.stderr.contains("debuginfod"), "{}", from_cache.stderr);
    std::fs::remove_dir_all(&cache).unwrap();
    let configured = flame(&[], Some(&url));
    assert!(has_names(configured.text()), "{}", configured.stderr);
    std::fs::remove_dir_all(&cache).unwrap();
    for command in ["report", "explain", "annotate"] {
        let mut asked = prof([command, "--debuginfod", "-i"]);
        asked
            .arg(&recording)
            .args((command == "annotate").then_some(["--hottest", "1"]).into_iter().flatten());
        let asked = run(asked.env("DEBUGINFOD_CACHE_PATH", &cache).env("DEBUGINFOD_URLS", &url)).ok();
        assert!(asked.stderr.contains("fetched by debuginfod"), "{command}: {}", asked.stderr);
        std::fs::remove_dir_all(&cache).unwrap();
    }
    let unreachable = flame(&["--debuginfod"], Some("http://127.0.0.1:1"));
    assert!(
        unreachable.stderr.contains("no debug files for shares: http://127.0.0.1:1/buildid/"),
        "{}",
        unreachable.stderr
    );
}
