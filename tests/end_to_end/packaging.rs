//! What a package of `prof` carries besides the program: completions and manual pages.

use std::fs;

use super::prof::{folder, prof, run};

/// The commands that people type.
fn commands() -> Vec<String> {
    let help = run(&mut prof(["help", "all"])).ok();
    let listed = help.text().lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.map_while(|line| line.split_whitespace().next()).map(str::to_owned);
    let names: Vec<_> = names.collect();
    assert!(names.len() > 5 && names.contains(&"record".to_owned()), "{names:?}");
    names
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let script = run(&mut prof(["completions", shell])).ok();
        for command in commands() {
            assert!(script.text().contains(&command), "{shell}: {command}");
        }
        assert!(script.text().contains("call-graph"), "{shell}");
    }
    assert_eq!(run(&mut prof(["completions", "tcl"])).code, 2);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_command_has_a_manual_page() {
    let folder = folder();
    run(prof(["man"]).arg(folder.path())).ok();
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("prof.1").contains("prof\\-record(1)"));
    for command in commands().iter().filter(|command| *command != "help") {
        let text = page(&format!("prof-{command}.1"));
        assert!(text.contains(&format!(".TH prof-{command} 1")), "{text}");
    }
    assert!(page("prof-record.1").contains("\\fB\\-\\-call\\-graph\\fR"));
}

#[test]
fn the_version_names_itself() {
    let version = run(&mut prof(["--version"])).ok();
    assert!(version.text().starts_with(concat!("prof ", env!("CARGO_PKG_VERSION"))), "{}", version.text());
}
