//! How many samples of programs as they are distributed reach the first frame of their thread.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::measure::{last_stderr, measure};
use super::programs::{self, INSTALLED};
use super::table::Table;
use super::tools::Tools;
use crate::fixtures;

/// `paths.c`, built in several ways without frame pointers.
const BUILT: &[(&str, &str, &[&str])] = &[
    ("C, gcc -O2", "gcc", &["-O2", "-fomit-frame-pointer", "-pthread"]),
    ("C, clang -O2", "clang", &["-O2", "-fomit-frame-pointer", "-pthread"]),
    ("C, static", "gcc", &["-O2", "-fomit-frame-pointer", "-pthread", "-static"]),
    ("C, musl, static", "musl-gcc", &["-O2", "-fomit-frame-pointer", "-pthread", "-static"]),
];

/// A database in a new folder, and a query that keeps one of its processes busy. The server does not run as root, and its
/// programs lie where the distribution keeps them.
const POSTGRES: &str = r#"
bin=$1; folder=$2; recording=$3; shift 3
rm -rf "$folder"; mkdir -p "$folder"; as=
[ "$(id -u)" != 0 ] || { chown nobody "$folder"; as="setpriv --reuid nobody --clear-groups"; }
$as "$bin/initdb" -D "$folder" -U nobody -A trust >/dev/null || exit
echo "select count(distinct md5((x * y)::text)) from generate_series(1, 700) x, generate_series(1, 700) y order by 1;" \
  > "$folder/query"
"$@" -o "$recording" -- $as "$bin/postgres" --single -D "$folder" postgres < "$folder/query"
"#;

/// One row per program that is here.
pub(super) fn completeness(tools: &Tools, _: usize, table: &mut Table) -> anyhow::Result<()> {
    for (name, compiler, flags) in BUILT {
        let built = tools.scratch.join("completeness-paths");
        let source = fixtures::source("paths");
        let built_it = Command::new(compiler).args(*flags).arg("-o").args([&built, &source]).output();
        if built_it.is_ok_and(|output| output.status.success()) {
            row(tools, name, &[built.into(), "2".into(), "1000".into()], table)?;
        } else {
            println!("skipped: {name}: {compiler} is not installed, or cannot build that");
        }
    }
    for (name, args) in INSTALLED {
        match programs::command(tools, name, args)? {
            Some(command) => row(tools, name, &command, table)?,
            None => println!("skipped: {name} is not installed"),
        }
    }
    if let Some(program) = go_program(tools)? {
        row(tools, "Go", &[program.into(), "2000".into()], table)?;
    }
    match postgres() {
        Some(folder) => {
            let database = std::env::temp_dir().join(format!("prof-bench-{}", std::process::id()));
            let script = ["sh", "-c", POSTGRES, "sh"].map(OsString::from);
            let script: Vec<OsString> =
                script.into_iter().chain([folder.into(), database.clone().into()]).collect();
            let compared = compare(tools, "postgres", table, |recorder, file| {
                [&script[..], &[file.into()], recorder].concat()
            });
            // Errors are ignored: leftovers do not affect the result.
            let _ = std::fs::remove_dir_all(database);
            compared?;
        }
        None => println!("skipped: postgres is not installed"),
    }
    Ok(())
}

/// `garbage.go`, with the symbols by which perf names first frames.
fn go_program(tools: &Tools) -> anyhow::Result<Option<PathBuf>> {
    let built = tools.scratch.join("completeness-go");
    let source = fixtures::source("garbage").with_extension("go");
    let built_it = Command::new("go").args(["build", "-ldflags=-w", "-o"]).args([&built, &source]).output();
    if built_it.is_ok_and(|output| output.status.success()) {
        return Ok(Some(built));
    }
    println!("skipped: Go is not installed, or cannot build its program");
    Ok(None)
}

/// Where `initdb` and `postgres` are: in the path, or in one of Debian's folders.
fn postgres() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let folders = installed.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    std::env::split_paths(&path)
        .chain(folders)
        .find(|folder| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file()))
}

fn row(tools: &Tools, name: &str, command: &[OsString], table: &mut Table) -> anyhow::Result<()> {
    compare(tools, name, table, |recorder, file| {
        [recorder, &["-o".into(), file.into(), "--".into()], command].concat()
    })
}

/// `with` makes the command line by which a recorder writes a file.
fn compare(
    tools: &Tools,
    name: &str,
    table: &mut Table,
    with: impl Fn(&[OsString], &Path) -> Vec<OsString>,
) -> anyhow::Result<()> {
    let common = ["-e", "cpu-clock", "-F", "997"].map(OsString::from);
    let ours = [tools.prof([&"record", &"-v"]), common.to_vec()].concat();
    let file = tools.scratch.join("stacks.prof");
    let (by_perf, summary) = recorded(tools, &with(&ours, &file), &file);
    let our_share = match by_perf {
        Some(share) => share,
        None => {
            let share = share_of(&tools.prof([&"script"]), &file).with_context(|| summary.clone())?;
            println!("{name}: perf cannot read our file; judged by `prof script`");
            share
        }
    };
    let file = tools.scratch.join("stacks.perf");
    let [fp, dwarf] = ["fp", "dwarf,8192"].map(|how| {
        let theirs = ["perf", "record", "-q", "-B", "-N", "--call-graph", how].map(OsString::from);
        recorded(tools, &with(&[&theirs[..], &common].concat(), &file), &file).0
    });
    let percent = |share: Option<f64>| share.map_or("failed".to_owned(), |share| format!("{share:.1} %"));
    let best = fp.into_iter().chain(dwarf).reduce(f64::max);
    let how = three_shares(&summary).map(|shares| format!(" ({shares})")).unwrap_or_default();
    table.row(
        format!("{name}: samples that reach their thread's first frame"),
        format!("{our_share:.1} %{how}"),
        format!("fp {}, dwarf,8192 {}", percent(fp), percent(dwarf)),
        best.map_or(String::new(), |best| format!("{:+.1} points", our_share - best)),
        if name == "rustc" { "the three shares" } else { "at least 99.5 %" },
    );
    Ok(())
}

/// Runs a recorder; the share of complete stacks in its file, as perf sees it, and what the recorder said. perf 6.1 stops at
/// an assertion of its own now and then, recording and reading: then it is done once more, and given up at last.
fn recorded(tools: &Tools, command: &[OsString], file: &Path) -> (Option<f64>, String) {
    const MOST_TRIES: u32 = 3;
    let mut summary = String::new();
    for _ in 0..MOST_TRIES {
        // Removes the file of an earlier try or program.
        let _ = std::fs::remove_file(file);
        // A search that finds nothing ends with a code of its own; what counts is the recording.
        let _ = measure(&tools.scratch, command);
        summary = last_stderr(&tools.scratch);
        let judge = ["perf", "script", "-f"].map(OsString::from);
        if let Ok(share) = share_of(&judge, file) {
            return (Some(share), summary);
        }
    }
    (None, summary)
}

/// The share in per cent, as a judge prints the stacks of the file.
fn share_of(judge: &[OsString], file: &Path) -> anyhow::Result<f64> {
    let [program, arguments @ ..] = judge else { anyhow::bail!("nobody to judge") };
    let script = Command::new(program)
        .args(arguments)
        .args(["--no-inline", "--max-stack", "65535", "-F", "comm,tid,ip,sym,dso", "-i"])
        .arg(file)
        .output()?;
    let (reach, all) = reaching(&String::from_utf8_lossy(&script.stdout));
    anyhow::ensure!(all > 0, "{} has no user stacks", file.display());
    Ok(100.0 * reach as f64 / all as f64)
}

/// Where threads begin: names of the C libraries, the dynamic linker, and Go.
const FIRST: &[&str] = &[
    "_start",
    "_dl_start_user",
    "clone3",
    "__clone3",
    "clone",
    "__clone",
    "runtime.clone",
    "runtime.goexit",
    "runtime.rt0_go",
];

/// Of the samples with a user stack that `perf script` printed: how many reach their thread's first frame, and how many
/// there are.
fn reaching(script: &str) -> (u64, u64) {
    let (mut reach, mut all) = (0, 0);
    for sample in script.split("\n\n") {
        let is_kernel = |frame: &&str| frame.ends_with("([kernel.kallsyms])");
        let frames: Vec<&str> = sample.lines().filter(|line| line.starts_with(['\t', ' '])).collect();
        let [.., last] = frames[..] else { continue };
        if is_kernel(&last) {
            continue;
        }
        // Go's symbols say which calling convention they are for.
        let name = |frame: &str| {
            let name = frame.split_whitespace().nth(1).unwrap_or_default();
            name.trim_end_matches(".abi0").to_owned()
        };
        // In the midst of exec, which has taken the stack away.
        if ["execve", "__GI___execve"].contains(&name(last).as_str()) {
            continue;
        }
        // The caller of `__libc_start_main` of a program without symbols.
        let is_called_first =
            frames.iter().rev().nth(1).is_some_and(|frame| name(frame).starts_with("__libc_start_main"));
        all += 1;
        reach += u64::from(FIRST.contains(&name(last).as_str()) || is_called_first);
    }
    (reach, all)
}

/// Copied whole, completed late and cut, from our summary.
fn three_shares(summary: &str) -> Option<String> {
    let number = |before: &str| -> Option<f64> {
        let end = summary.find(before)?;
        summary[..end].rsplit([' ', ',']).next()?.parse().ok()
    };
    let complete = number(" % complete (copies")?;
    let late = number(" % of the stacks were deeper").unwrap_or(0.0);
    Some(format!(
        "copied {:.1} %, completed late {late:.1} %, cut {:.1} %",
        complete - late,
        100.0 - complete
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_reaches_its_first_frame_by_name_or_by_its_callee() {
        let script = "a 1\n\t 10 work (/a)\n\t 20 _start (/a)\n\na 1\n\t 10 work (/a)\n\na 1\n\
                      \tffffffff10 idle ([kernel.kallsyms])\n\na 1\n\t 10 main (/a)\n\t 20 __libc_start_main@@GLIBC_2.34 \
                      (/libc)\n\t 30 [unknown] (/a)\n\n";
        assert_eq!(reaching(script), (2, 3));
    }

    #[test]
    fn the_three_shares_are_read_from_the_summary() {
        let summary = "prof: 1,287 samples (997 Hz), 0 lost, stacks 99.3 % complete (copies of 16 to 64 KiB) → f\n\
                       prof: 15.0 % of the stacks were deeper than their copy and completed from memory read later\n";
        assert_eq!(three_shares(summary).unwrap(), "copied 84.3 %, completed late 15.0 %, cut 0.7 %");
        assert_eq!(three_shares("nothing"), None);
    }
}
