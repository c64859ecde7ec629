//! The project's files name no folder of the machine they were written on.

use super::Breach;
use super::tree::Tree;

/// Written in two halves, so that this file keeps its own rule.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for file in &tree.texts {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = MACHINE.iter().find(|path| names(line, path)) {
                breaches.push(Breach::new(&file.path, index + 1, format!("names the machine path {path}")));
            }
        }
    }
    Ok(breaches)
}

/// Returns true if a line holds the path from its beginning: `/proc/PID/root/…` is another.
fn names(line: &str, path: &str) -> bool {
    let begins = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "_}>".contains(c));
    line.match_indices(path).any(|(at, _)| line.get(..at).is_some_and(begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_path_begins_at_the_root() {
        let path = MACHINE[1];
        assert!(names(&format!("open(\"{path}a\")"), path));
        assert!(names(path, path));
        assert!(!names(&format!("/proc/{{pid}}{path}tmp"), path));
        assert!(!names(&format!("/proc/1{path}tmp"), path));
    }
}
