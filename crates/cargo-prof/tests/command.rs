//! `cargo prof` as it is typed. What it records and draws is tried by the book's page on it (`tests/end_to_end/documented.rs`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn cargo_prof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cargo-prof")).args(arguments).output().unwrap()
}

#[test]
fn cargo_starts_it_with_its_own_name() {
    for arguments in [&["prof", "--help"][..], &["--help"]] {
        let help = cargo_prof(arguments);
        assert!(help.status.success());
        assert!(String::from_utf8_lossy(&help.stdout).contains("Usage: cargo prof [run]"));
    }
}

#[test]
fn a_program_without_dashes_before_it_is_wrong_usage() {
    let wrong = cargo_prof(&["prof", "server"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("after `--`"));
}
