//! The picture in a real browser: its script runs, and finds what is searched for.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::folded::Folded;
use super::prof::{folded, folder, may_record, record, run};
use super::programs;
use super::svg::draw;

/// Opens an SVG with a search for a function, and returns the share in percent that the script says matched.
fn matched(folder: &Path, svg: &Path, search: &str) -> f64 {
    let run = run(Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("browser").display()))
        .arg(format!("file://{}?s={search}", svg.display())));
    let page = run.ok();
    let element = page.text().split("id=\"matched\"").nth(1).expect("no place for what matched");
    let text = element.split('>').nth(1).unwrap().split('<').next().unwrap();
    let percent = text.strip_prefix("Matched: ").and_then(|text| text.strip_suffix('%'));
    percent.unwrap_or_else(|| panic!("nothing matched: {text:?}")).parse().unwrap()
}

#[test]
fn a_search_in_the_picture_finds_the_share_of_a_function() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !programs::has("chromium") {
        return;
    }
    let folder = folder();
    let (file, run_) =
        record(folder.path(), &[], &[program.as_os_str(), OsStr::new("alone"), OsStr::new("400")]);
    run_.ok();
    let svg = folder.path().join("out.svg");
    std::fs::write(&svg, draw(&file, &[])).unwrap();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let expected = stacks.with("sixty") as f64 / stacks.total() as f64 * 100.0;
    let found = matched(folder.path(), &svg, "sixty");
    assert!((found - expected).abs() < 0.2, "{found} % instead of {expected} %");
}
