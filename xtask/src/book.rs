//! `cargo xtask book`: builds the book as a site in `target/book`, and checks that no page is missing.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::workspace;

/// Builds the site. Takes no arguments. Skipped if mdBook is not installed.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    let docs = workspace::root().join("docs");
    every_page_is_listed(&docs.join("src"))?;
    let mdbook = |args: &[&str]| {
        let mut command = Command::new("mdbook");
        command.args(args).current_dir(&docs).stdin(Stdio::null());
        command
    };
    if mdbook(&["--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: mdbook is not installed (cargo install mdbook)");
        return Ok(());
    }
    workspace::run(&mut mdbook(&["build"]))
}

/// Checks that `SUMMARY.md` lists every page. mdBook silently omits others.
fn every_page_is_listed(pages: &Path) -> anyhow::Result<()> {
    let summary = pages.join("SUMMARY.md");
    let listed = std::fs::read_to_string(&summary).with_context(|| summary.display().to_string())?;
    for entry in std::fs::read_dir(pages).with_context(|| pages.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        if name != "SUMMARY.md" && name.ends_with(".md") && !listed.contains(&format!("({name})")) {
            bail!("{} does not name {name}", summary.display());
        }
    }
    Ok(())
}
