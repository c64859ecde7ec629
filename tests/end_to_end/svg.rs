//! The picture: XML, with all samples in it.

use std::ffi::OsStr;
use std::path::Path;

use super::folded::Folded;
use super::prof::{folded, folder, may_record, prof, record, run};
use super::programs;

/// The samples that the SVG says it has, after parsing it as XML.
pub(crate) fn total(svg: &str) -> u64 {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let document =
        roxmltree::Document::parse_with_options(svg, options).unwrap_or_else(|error| panic!("{error}"));
    let frames = document.descendants().find(|node| node.attribute("total_samples").is_some());
    frames.expect("no total in the picture").attribute("total_samples").unwrap().parse().unwrap()
}

/// Draws a recording and returns the SVG.
pub(crate) fn draw(file: &Path, flags: &[&str]) -> String {
    let run = run(prof(["flame", "-i"]).arg(file).args(flags)).ok();
    run.text().to_owned()
}

#[test]
fn the_picture_holds_every_sample() {
    let Some(program) = programs::c("paths") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run_) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("2"), OsStr::new("100")]);
    run_.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    for flags in [
        &[][..],
        &["--reverse"],
        &["--inverted"],
        &["--min-width", "3"],
        &["--width", "600"],
        &["--colors", "blue"],
        &["--no-kernel"],
        &["--no-inline"],
        &["--title", "a < b & \"c\" ]]>"],
    ] {
        let svg = draw(&file, flags);
        let drawn = total(&svg);
        assert_eq!(drawn, stacks.total(), "{flags:?}");
    }
    let svg = draw(&file, &["--title", "five < six"]);
    assert!(svg.contains("five &lt; six"));
    // What it is made of stands under the title.
    assert!(svg.contains("samples"), "no samples in the subtitle");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_title_says_what_ran_and_numbered_threads_are_one() {
    let Some(program) = programs::c("workers") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("6"), OsStr::new("60")];
    let (file, run_) = record(folder.path(), &[], &command);
    run_.ok();
    let svg = draw(&file, &[]);
    let title = svg.split("<text id=\"title\">").nth(1).unwrap().split("</text>").next().unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for part in ["workers 6 60", host.trim(), " UTC", "4,999 Hz"] {
        assert!(title.replace(" </tspan>", " ").contains(part), "no {part:?} in {title}");
    }
    assert!(draw(&file, &["--comm", "worker-1"]).contains("(only comm worker-1)"));

    let root = |stack: &str, text: &str| text.lines().filter(|line| line.starts_with(stack)).count();
    let of = |flags: &[&str]| folded(&file, flags).ok().text().to_owned();
    assert!(svg.contains("<title>worker-* (") && !svg.contains("<title>worker-1 ("), "{svg}");
    assert!(root("worker-*;", &of(&["--merge-threads"])) > 0);
    // Other tools look for threads by their names.
    let apart = of(&[]);
    assert!((0..6).all(|number| root(&format!("worker-{number};"), &apart) > 0), "{apart}");
    let split = draw(&file, &["--per-thread"]);
    assert!((0..6).all(|number| split.contains(&format!("<title>worker-{number}-"))), "--per-thread");
    let by_process = of(&["--by-process", "--merge-threads"]);
    let lines = by_process.lines().filter(|line| line.starts_with("workers-") && line.contains(";worker-*;"));
    assert!(lines.count() > 0, "{by_process}");
}

#[test]
fn output_goes_where_it_is_sent() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run_) =
        record(folder.path(), &[], &[program.as_os_str(), OsStr::new("alone"), OsStr::new("100")]);
    run_.ok();
    let output = folder.path().join("out.svg");
    let drawn = run(prof(["flame", "-i"]).arg(&file).arg("-o").arg(&output)).ok();
    assert!(drawn.stdout.is_empty());
    assert!(total(&std::fs::read_to_string(&output).unwrap()) > 0);
    // prof.data of the current folder is what is meant.
    assert!(total(run(prof(["flame"]).current_dir(folder.path())).ok().text()) > 0);
}

#[test]
fn record_and_draw_in_one_go() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let output = folder.path().join("out.svg");
    let run_ = run(prof(["flame", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .args(["alone", "300"])
        .current_dir(folder.path()))
    .ok();
    assert!(run_.text().contains("sixty"), "the command's own output: {:?}", run_.text());
    let svg = std::fs::read_to_string(&output).unwrap();
    assert!(total(&svg) > 100);
    assert!(svg.contains("sixty"));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["out.svg"], "a recording that nobody asked for");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_command_prints_to_stderr_where_the_picture_is_stdout() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let run_ = run(prof([
        "flame",
        "--",
        "sh",
        "-c",
        "echo HELLO; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done",
    ])
    .current_dir(folder.path()))
    .ok();
    assert!(total(run_.text()) > 0);
    assert!(run_.stderr.contains("HELLO"), "{}", run_.stderr);
}
