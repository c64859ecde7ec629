//! Profiles for compilers are read by the compilers, and say of the code what was sampled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::prof::{Run, folder, may_record, prof, run};
use super::programs::{c_built, go, has, pprof, repository, skip};

/// How clang builds a program whose profile it can use.
const DEBUG: [&str; 4] = ["-O2", "-gline-tables-only", "-fdebug-info-for-profiling", "-Wl,--build-id"];

fn source(name: &str) -> PathBuf {
    repository().join("fixtures/programs").join(name)
}

/// The line of a fixture with this text, from 1.
fn line_of(name: &str, text: &str) -> usize {
    let source = fs::read_to_string(source(name)).unwrap();
    source.lines().position(|line| line.contains(text)).unwrap() + 1
}

/// Builds `branches.c` with clang.
fn clang(output: &Path, flags: &[&str]) {
    let mut command = Command::new("clang");
    run(command.args(DEBUG).args(flags).arg("-o").arg(output).arg(source("branches.c"))).ok();
}

fn record(output: &Path, program: &Path, milliseconds: &str) {
    let mut command = prof(["record", "-q", "-F", "2999", "-o"]);
    run(command.arg(output).arg("--").arg(program).arg(milliseconds)).ok();
}

fn export(format: &str, recordings: &[&Path], output: &Path, flags: &[&str]) -> Run {
    let mut command = prof(["export", "--format", format, "-o"]);
    run(command.arg(output).args(recordings).args(flags))
}

/// The number of samples that the summary says are in the profile.
fn samples_of(run: &Run) -> u64 {
    let (_, rest) = run.stderr.split_once(": ").unwrap().1.split_once(": ").unwrap();
    rest.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
}

/// The name of LLVM's optimizer, which distributions install with its version.
fn bolt() -> Option<String> {
    let names = (14..25).rev().map(|version| format!("llvm-bolt-{version}"));
    let mut names = std::iter::once(String::from("llvm-bolt")).chain(names);
    let paths = std::env::var_os("PATH")?;
    names.find(|name| std::env::split_paths(&paths).any(|folder| folder.join(name).is_file()))
}

/// Returns true if the installed Go optimizes by profiles.
fn takes_profiles() -> bool {
    let version = run(Command::new("go").args(["env", "GOVERSION"])).ok();
    let minor =
        version.text().trim().trim_start_matches("go1.").split('.').next().and_then(|it| it.parse().ok());
    minor.is_none_or(|minor: u32| minor >= 21)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn clang_reads_samples_of_lines_and_inlined_calls() {
    if !may_record() || !has("clang") || !has("llvm-profdata") {
        return;
    }
    let folder = folder();
    let [program, one, other, text, merged] =
        ["branches", "1.data", "2.data", "profile.txt", "profile.prof"].map(|name| folder.path().join(name));
    clang(&program, &[]);
    record(&one, &program, "700");
    record(&other, &program, "700");
    let alone = samples_of(&export("autofdo", &[&one], &text, &[]).ok());
    let both = export("autofdo", &[&one, &other], &text, &[]).ok();
    assert!(samples_of(&both) > alone * 3 / 2, "both recordings count: {}", both.stderr);

    let profile = fs::read_to_string(&text).unwrap();
    let totals: Vec<(&str, u64)> = profile
        .lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| (line.split(':').next().unwrap(), line.split(':').nth(1).unwrap().parse().unwrap()))
        .collect();
    assert_eq!(totals[0].0, "mix", "{profile}");
    assert_eq!(totals.iter().map(|(_, total)| total).sum::<u64>(), samples_of(&both), "{profile}");
    assert!(!totals.iter().any(|(name, _)| *name == "never"), "{profile}");
    // The call that was inlined, by its line in `mix`; below it the loop, by its line in `hot_step`.
    let call = line_of("branches.c", "x = hot_step(x)") - line_of("branches.c", "unsigned mix(");
    let multiply = line_of("branches.c", "x * 1664525u") - line_of("branches.c", "unsigned hot_step(");
    let inlined = profile.lines().skip_while(|line| !line.starts_with(&format!(" {call}: hot_step:")));
    let body: Vec<&str> = inlined.skip(1).take_while(|line| line.starts_with("  ")).collect();
    assert!(body.iter().any(|line| line.starts_with(&format!("  {multiply}"))), "{profile}");

    run(Command::new("llvm-profdata").args(["merge", "--sample", "-o"]).arg(&merged).arg(&text)).ok();
    let shown = run(Command::new("llvm-profdata").args(["show", "--sample"]).arg(&merged)).ok();
    for (name, total) in totals {
        let line = format!("Function: {name}: {total}, ");
        assert!(shown.text().contains(&line), "{line}\n{}", shown.text());
    }
    let optimized = folder.path().join("optimized");
    clang(&optimized, &[&format!("-fprofile-sample-use={}", merged.display()), "-Werror"]);
    run(Command::new(&optimized).arg("10")).ok();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn bolt_finds_the_functions_with_samples() {
    if !may_record() || !has("clang") {
        return;
    }
    let Some(bolt) = bolt() else {
        return skip("there is no llvm-bolt");
    };
    let folder = folder();
    let [program, recording, data, moved] =
        ["branches", "1.data", "profile.fdata", "moved"].map(|name| folder.path().join(name));
    clang(&program, &["-Wl,--emit-relocs"]);
    record(&recording, &program, "500");
    let exported = export("bolt", &[&recording], &data, &[]).ok();
    assert!(!exported.stderr.contains("without relocations"), "{}", exported.stderr);
    let mut command = Command::new(bolt);
    command.arg(&program).arg("-data").arg(&data).arg("-o").arg(&moved);
    let optimized = run(command.args(["-lite=0", "-reorder-blocks=ext-tsp"])).ok();
    let said = format!("{}{}", optimized.text(), optimized.stderr);
    let lines = fs::read_to_string(&data).unwrap();
    let functions: std::collections::BTreeSet<&str> =
        lines.lines().skip(1).filter_map(|line| line.split(' ').nth(1)).collect();
    // The second is seen by its own file alone: BOLT numbers functions of such a name.
    assert!(functions.contains("mix") && functions.contains("fold/1"), "{lines}");
    assert!(said.contains(&format!("{} out of ", functions.len())), "{functions:?}: {said}");
    run(Command::new(&moved).arg("10")).ok();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn go_inlines_calls_that_the_profile_says_are_hot() {
    if !may_record() {
        return;
    }
    if !has("go") || !takes_profiles() {
        return skip("this Go takes no profiles: that began with 1.21");
    }
    let (Some(whole), Some(stripped)) = (go("calls", false), go("calls", true)) else { return };
    let folder = folder();
    for program in [whole, stripped] {
        let [recording, profile, optimized] =
            ["1.data", "default.pgo", "calls.o"].map(|name| folder.path().join(name));
        record(&recording, &program, "1");
        export("go-pgo", &[&recording], &profile, &[]).ok();
        let raw = run(pprof().arg("-raw").arg(&profile)).ok();
        // A line, and the start line of its function.
        let find = line_of("calls.go", "func (t *table) find");
        let is_of_find = |line: &&str| line.contains("main.(*table).find ");
        let of_find: Vec<&str> = raw.text().lines().filter(is_of_find).collect();
        assert!(!of_find.is_empty(), "{}", raw.text());
        for line in of_find {
            assert!(line.trim_end().ends_with(&format!("s={find}")), "{}: {line}", program.display());
        }
        // As `go build -pgo` does for this package, without building Go's own packages anew.
        let mut compile = Command::new("go");
        compile.args(["tool", "compile", "-p", "main", "-d=pgodebug=1", "-o"]).arg(&optimized);
        let built = run(compile.arg("-pgoprofile").arg(&profile).arg(source("calls.go"))).ok();
        let said = format!("{}{}", built.text(), built.stderr);
        let hot = "hot-budget check allows inlining for call main.(*table).find";
        assert!(said.contains(hot), "{}: {said}", program.display());
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn go_calls_lead_through_generated_wrappers() {
    if !may_record() || !has("go") {
        return;
    }
    let (Some(whole), Some(stripped)) = (go("interfaces", false), go("interfaces", true)) else { return };
    let folder = folder();
    let (recording, profile) = (folder.path().join("1.data"), folder.path().join("default.pgo"));
    for program in [whole, stripped] {
        record(&recording, &program, "1");
        export("go-pgo", &[&recording], &profile, &[]).ok();
        let raw = run(pprof().arg("-raw").arg(&profile)).ok();
        assert!(raw.text().contains(" main.box.area "), "{}", raw.text());
        assert!(!raw.text().contains("main.(*box).area"), "{}", raw.text());
        let again = folder.path().join("again.pgo");
        export("go-pgo", &[&recording], &again, &[]).ok();
        assert!(fs::read(&profile).unwrap() == fs::read(&again).unwrap(), "the same recording, another file");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn pprof_has_the_lines_at_which_functions_start() {
    if !may_record() || !has("go") {
        return;
    }
    let Some(program) = c_built("branches", "optimized", &["-O2"]) else { return };
    let folder = folder();
    let (recording, profile) = (folder.path().join("1.data"), folder.path().join("profile.pb.gz"));
    record(&recording, &program, "300");
    export("pprof", &[&recording], &profile, &[]).ok();
    let raw = run(pprof().arg("-raw").arg(&profile)).ok();
    for (name, declaration) in
        [("hot_step", "unsigned hot_step("), ("mix", "unsigned mix("), ("main", "int main(")]
    {
        let start = line_of("branches.c", declaration);
        let found = raw.text().lines().any(|line| {
            line.contains(&format!(" {name} ")) && line.trim_end().ends_with(&format!("s={start}"))
        });
        assert!(found, "{name} starts at {start}: {}", raw.text());
    }
}

#[test]
fn what_cannot_be_a_profile_is_refused_in_a_sentence() {
    if !may_record() || !has("clang") {
        return;
    }
    let folder = folder();
    let [program, recording, output] = ["branches", "1.data", "profile"].map(|name| folder.path().join(name));
    clang(&program, &[]);
    record(&recording, &program, "200");
    let refused = |format: &str, recordings: &[&Path], flags: &[&str], why: &str| {
        let refused = export(format, recordings, &output, flags);
        assert_eq!(refused.code, 1, "{format}: {}", refused.stderr);
        assert!(refused.stderr.contains(why), "{format}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(!output.exists(), "{format} leaves no file");
    };
    refused("go-pgo", &[&recording], &[], "is not a Go program");
    refused("autofdo", &[&recording], &["--module", "elsewhere"], "is in elsewhere; the samples are in");
    // Two builds do not mix.
    let other = folder.path().join("2.data");
    clang(&program, &["-DOTHER", "-O1"]);
    record(&other, &program, "200");
    refused("autofdo", &[&other, &recording], &[], "is of another build of");
    // The file is now another build than the first recording's.
    refused("autofdo", &[&recording], &[], "file has another build id than recorded");
    clang(&program, &["-s"]);
    record(&recording, &program, "200");
    refused("autofdo", &[&recording], &[], "has no debug information for the sampled code");
    refused("bolt", &[&recording], &[], "has no symbol table");
    clang(&program, &["-fno-debug-info-for-profiling"]);
    record(&recording, &program, "200");
    refused("autofdo", &[&recording], &[], "does not say at which lines functions start");
    // Options that would change what a compiler takes are refused.
    let framed = export("autofdo", &[&recording], &output, &["--no-inline"]);
    assert_eq!(framed.code, 2, "{}", framed.stderr);
}
