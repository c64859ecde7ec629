//! The top level shows the architecture at a glance: what lies there is listed here.

use std::collections::BTreeSet;

use super::Breach;
use super::tree::Tree;

const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "THIRD-PARTY.md",
    "clippy.toml",
    "action",
    "crates",
    "deny.toml",
    "docs",
    "fixtures",
    "rustfmt.toml",
    "tests",
    "xtask",
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let found: BTreeSet<&str> =
        tree.files.iter().filter_map(|file| file.iter().next().and_then(|part| part.to_str())).collect();
    Ok(found
        .into_iter()
        .filter(|name| !TOP.contains(name))
        .map(|name| Breach::new(name, 0, "has no place at the top level"))
        .collect())
}
